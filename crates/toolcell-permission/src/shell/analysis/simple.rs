//! Simple commands: their words, assignments and redirections, and who runs them.

use super::state::{State, Variable, is_integer};
use super::words::combine;
use super::{Analyser, Flow, MAX_WRAPPERS, Surroundings};
use crate::shell::ast::{Assignment, Part, Redirect, RedirectOperator, Simple, Value};
use crate::shell::facts::{is_harmless_variable, is_special_variable};
use crate::shell::script::{Access, Need, Redirection, Stdin, Word};

/// Builtins before which an assignment stays, in shells that go by POSIX.
const SPECIAL_BUILTINS: [&str; 15] = [
    ".", ":", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return", "set", "shift", "times",
    "trap", "unset",
];

/// Variables of bash that are read-only.
const CANNOT_CHANGE: [&str; 6] = ["BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"];

/// Variables whose values bash evaluates as arithmetic when they are assigned, or that end what runs if they are small.
const EVALUATED: [&str; 6] = ["FUNCNEST", "HISTCMD", "OPTIND", "RANDOM", "SECONDS", "SRANDOM"];

/// Longest text that `+=` makes, in bytes, and longest array. A longer one is not known.
const MAX_APPENDED: usize = 4096;

impl Analyser<'_> {
    pub(super) fn simple(&mut self, simple: &Simple, state: &mut State, flow: &Flow) {
        let before = self.script.commands.len();
        let words = simple.words.iter().map(|word| self.words(word, state, flow)).collect();
        let substituted = before..self.script.commands.len();
        let readings = combine(words);
        let (redirects, stdin) = self.redirects(&simple.redirects, state, flow);
        let mut own = flow.clone();
        if let Some(stdin) = stdin {
            own.stdin = stdin;
            own.fed_by = Vec::new();
        }
        let stays = readings.iter().any(|words| match words.first() {
            None => true,
            // `command eval` and `builtin eval` run text in which they hold.
            Some(word) => {
                word.text().is_none_or(|name| SPECIAL_BUILTINS.contains(&name) || matches!(name, "command" | "builtin"))
            }
        });
        let mut taint = None;
        for assignment in &simple.assignments {
            let value = self.assigned(assignment, state, flow);
            if stays {
                let certain = readings.iter().all(Vec::is_empty);
                let value = if certain { value } else { Variable::Unknown };
                self.assign(&assignment.name, value, state);
            }
            self.check_name(&assignment.name);
            if !is_harmless_variable(&assignment.name) {
                taint = Some(format!("`{}=` before it", super::shorten(assignment.name.clone())));
            }
        }
        let surroundings = Surroundings { redirects, taint, substituted, flow: own };
        let before = (!simple.redirects.is_empty() && !readings.iter().all(Vec::is_empty)).then(|| state.clone());
        match readings.as_slice() {
            [words] => self.reading(words.clone(), state, &surroundings),
            several => {
                let mut after: Option<State> = None;
                for words in several {
                    let mut branch = state.clone();
                    self.reading(words.clone(), &mut branch, &surroundings);
                    after = Some(match after {
                        Some(other) => other.join(branch),
                        None => branch,
                    });
                }
                if let Some(after) = after {
                    *state = after;
                }
            }
        }
        if let Some(before) = before {
            state.perhaps_not(before);
        }
    }

    fn reading(&mut self, words: Vec<Word>, state: &mut State, surroundings: &Surroundings) {
        if !words.is_empty() {
            self.run(words, state, surroundings);
        } else if !surroundings.redirects.is_empty() {
            self.push(vec![Word::Text(":".to_owned())], surroundings.flow.need, state, surroundings);
        }
    }

    /// A command with these words, at least one.
    pub(super) fn run(&mut self, words: Vec<Word>, state: &mut State, surroundings: &Surroundings) {
        if self.depth >= MAX_WRAPPERS {
            self.opaque("commands that run commands are nested too deeply in it");
            self.push(words, surroundings.flow.need, state, surroundings);
            return;
        }
        self.depth = self.depth.saturating_add(1);
        self.run_one(words, state, surroundings);
        self.depth = self.depth.saturating_sub(1);
    }

    fn run_one(&mut self, words: Vec<Word>, state: &mut State, surroundings: &Surroundings) {
        let Some(Word::Text(name)) = words.first() else {
            self.opaque("a command's name is not constant");
            let mut words = words;
            if let Some(first) = words.first_mut() {
                *first = Word::Text(String::new());
            }
            self.push(words, surroundings.flow.need, state, surroundings);
            return;
        };
        let name = name.clone();
        if self.functions.contains(&name) && state.functions.contains(&name) {
            let need = if surroundings.flow.need == Need::Allow { Need::Nothing } else { surroundings.flow.need };
            self.push(words, need, state, surroundings);
            let changes = self.function_changes.clone();
            self.forget(&changes, state);
            return;
        }
        if self.functions.contains(&name) {
            // Perhaps the function, perhaps a program of its name.
            let changes = self.function_changes.clone();
            self.forget(&changes, state);
        }
        if self.builtin(&name, &words, state, surroundings) || self.wrapper(&name, &words, state, surroundings) {
            return;
        }
        if name.rsplit('/').next() == Some("git") {
            self.git_without_options(&words, state, surroundings);
        }
        self.push(words, surroundings.flow.need, state, surroundings);
    }

    fn assigned(&mut self, assignment: &Assignment, state: &mut State, flow: &Flow) -> Variable {
        if let Some(index) = &assignment.index {
            self.evaluated(index, state, flow);
            self.counts_from_end(index);
        }
        if assignment.index.is_some() || matches!(assignment.value, Value::Array(_)) {
            self.is_array(&assignment.name);
        }
        let value = match &assignment.value {
            Value::Word(word) => {
                let number = matches!(word.parts.as_slice(), [Part::Arithmetic(_)]);
                let values = self.values(word, state, flow);
                if number { Variable::Number } else { Variable::values(values) }
            }
            Value::Array(words) => {
                let mut readings = Vec::new();
                let indexed = words.iter().any(|word| begins_with_index(word) != Index::None);
                if words.iter().any(|word| begins_with_index(word) == Index::Evaluated) {
                    self.opaque("an index that the shell evaluates is not known to be an integer");
                }
                for word in words {
                    readings.push(self.words(word, state, flow));
                }
                match combine(readings).as_slice() {
                    [words] if !indexed => Variable::Array(words.clone()),
                    _ => Variable::Unknown,
                }
            }
        };
        if assignment.index.is_some() {
            return Variable::Unknown;
        }
        if assignment.append { appended(state.variables.get(&assignment.name), &value) } else { value }
    }

    /// A variable gets an attribute, or what it holds is seen by others from now on.
    pub(super) fn touch(&mut self, name: &str, state: &mut State) {
        let seen = state.exports_all || is_special_variable(name) || self.settings.exported.contains(name);
        if seen && !is_harmless_variable(name) {
            state.taint(|| format!("`{}` is set earlier", super::shorten(name.to_owned())));
        }
        self.check_name(name);
    }

    /// A variable gets a value that stays.
    pub(super) fn assign(&mut self, name: &str, value: Variable, state: &mut State) {
        self.touch(name, state);
        if self.peculiar.contains(name) || CANNOT_CHANGE.contains(&name) {
            // Where it fails the shell gives up the rest of the line.
            self.opaque(format!("`{}` may not get what it is assigned", super::shorten(name.to_owned())));
        }
        if EVALUATED.contains(&name) && !value.is_number() {
            self.opaque(format!("`{name}` gets a value that the shell evaluates"));
        }
        state.set(name, value);
    }

    /// An array: what `declare` gives to it may be a list, in which commands run.
    pub(super) fn is_array(&mut self, name: &str) {
        if self.lists.contains(name) {
            self.opaque("a list in a value, which the shell reads once more");
        }
        self.arrays.insert(name.to_owned());
    }

    /// Where an index counts from the end and there is no such element, the shell gives up the rest of the line.
    pub(super) fn counts_from_end(&mut self, index: &crate::shell::ast::Word) {
        if !matches!(index.parts.as_slice(), [Part::Bare(text)] if text.bytes().all(|byte| byte.is_ascii_digit())) {
            self.opaque("an index that may count from the end");
        }
    }

    /// Variables in which shells look for code, or for how to read it.
    pub(super) fn check_name(&mut self, name: &str) {
        if is_code(name) {
            self.opaque(format!("`{}` is set, which shells take code from", super::shorten(name.to_owned())));
        }
    }

    /// Redirections that open files, and where standard input comes from if one of them says so.
    pub(super) fn redirects(
        &mut self,
        redirects: &[Redirect],
        state: &mut State,
        flow: &Flow,
    ) -> (Vec<Redirection>, Option<Stdin>) {
        let mut files = Vec::new();
        let mut stdin = None;
        for redirect in redirects {
            match redirect {
                Redirect::HereDocument { descriptor, body: word } | Redirect::HereString { descriptor, word } => {
                    let text = self.value(word, state, flow);
                    if descriptor.unwrap_or(0) == 0 {
                        stdin = Some(match text {
                            Word::Text(text) => Stdin::Text(text),
                            Word::Glob(_) | Word::Unknown { .. } => Stdin::Unknown,
                        });
                    }
                }
                Redirect::File { descriptor, operator, target } => {
                    let words = self.words(target, state, flow);
                    for words in words {
                        let word = match words.as_slice() {
                            [Word::Unknown { prefix, .. }] => Word::Unknown { prefix: prefix.clone(), many: false },
                            [word] => word.clone(),
                            _ => Word::Unknown { prefix: String::new(), many: false },
                        };
                        let opened = opened(*operator, &word);
                        if descriptor.unwrap_or(u32::from(opened.is_output)) == 0 {
                            stdin = Some(if opened.access == Some(Access::Read) {
                                Stdin::File(word.clone())
                            } else {
                                Stdin::Unknown
                            });
                        }
                        if let Some(access) = opened.access {
                            files.push(Redirection { access, target: word, cwd: state.child().cwd });
                        }
                    }
                }
            }
        }
        (files, stdin)
    }
}

/// Whether a shell takes code, or how it reads code, from the variable.
pub(in crate::shell) fn is_code(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "BASHOPTS",
        "BASH_ALIASES",
        "BASH_CMDS",
        "BASH_COMPAT",
        "BASH_ENV",
        "ENV",
        "POSIXLY_CORRECT",
        "PROMPT_COMMAND",
        "PS0",
        "PS4",
        "SHELLOPTS",
        "ZDOTDIR",
    ];
    NAMES.contains(&name) || name.starts_with("BASH_FUNC_")
}

/// What `+=` makes of one known text and another.
fn appended(before: Option<&Variable>, added: &Variable) -> Variable {
    match (before, added) {
        (Some(Variable::OneOf(before)), Variable::OneOf(added)) => match (before.as_slice(), added.as_slice()) {
            ([Word::Text(before)], [Word::Text(added)]) if before.len().saturating_add(added.len()) <= MAX_APPENDED => {
                Variable::text(&format!("{before}{added}"))
            }
            (_, _) => Variable::Unknown,
        },
        (Some(Variable::Array(before)), Variable::Array(added)) if before.len() <= MAX_APPENDED => {
            Variable::Array([before.as_slice(), added.as_slice()].concat())
        }
        (_, _) => Variable::Unknown,
    }
}

/// How an element of an array's list begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Index {
    /// Not with an index.
    None,
    /// With a number as its index.
    Number,
    /// With an index that the shell evaluates.
    Evaluated,
}

fn begins_with_index(word: &crate::shell::ast::Word) -> Index {
    let Some(Part::Bare(text)) = word.parts.first() else { return Index::None };
    let Some(inside) = text.strip_prefix('[') else { return Index::None };
    match inside.split_once(']') {
        Some((index, after)) if after.starts_with('=') || after.starts_with("+=") => {
            if !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit()) {
                Index::Number
            } else {
                Index::Evaluated
            }
        }
        Some(_) => Index::None,
        None => Index::Evaluated,
    }
}

struct Opened {
    /// `None`: no file is opened.
    access: Option<Access>,
    /// Without a descriptor it is standard output's.
    is_output: bool,
}

fn opened(operator: RedirectOperator, target: &Word) -> Opened {
    let descriptor = || {
        target.text().is_some_and(|text| {
            let text = text.strip_suffix('-').unwrap_or(text);
            text.is_empty() || is_integer(text) && !text.starts_with(['-', '+'])
        })
    };
    match operator {
        RedirectOperator::Read => Opened { access: Some(Access::Read), is_output: false },
        RedirectOperator::ReadWrite => Opened { access: Some(Access::Write), is_output: false },
        RedirectOperator::DuplicateInput => Opened { access: None, is_output: false },
        RedirectOperator::Write | RedirectOperator::Append | RedirectOperator::Both => {
            Opened { access: Some(Access::Write), is_output: true }
        }
        RedirectOperator::DuplicateOutput if descriptor() => Opened { access: None, is_output: true },
        RedirectOperator::DuplicateOutput => Opened { access: Some(Access::Write), is_output: true },
    }
}
