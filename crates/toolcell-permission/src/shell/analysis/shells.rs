//! Shells within shells, and builtins that run text.

use super::scan::Changes;
use super::state::State;
use super::wrappers::nothing;
use super::{Analyser, Flow, Surroundings};
use crate::shell::facts::is_download;
use crate::shell::script::{Cwd, Stdin, Word};
use crate::shell::settings::Dialect;
use crate::shell::syntax;

/// Options of `set` and of shells that change nothing of what a text means.
pub(super) const HARMLESS_FLAGS: &str = "euxvhfCETmbn";
/// The same by name, for `-o`.
pub(super) const HARMLESS_OPTIONS: [&str; 12] = [
    "errexit",
    "nounset",
    "xtrace",
    "verbose",
    "pipefail",
    "noglob",
    "noclobber",
    "errtrace",
    "functrace",
    "hashall",
    "monitor",
    "notify",
];

impl Analyser<'_> {
    /// `sh`, `bash -c …` and their like.
    pub(super) fn shell_command(
        &mut self,
        base: &str,
        dialect: Dialect,
        words: &[Word],
        state: &mut State,
        around: &Surroundings,
    ) {
        let by_path = words.first().and_then(Word::text).is_some_and(|name| name.contains('/'));
        let outer = if by_path { around.flow.need } else { nothing(around.flow.need) };
        if words.len() == 2 && words.get(1).and_then(Word::text) == Some("--version") {
            self.push(words.to_vec(), around.flow.need, state, around);
            return;
        }
        self.push(words.to_vec(), outer, state, around);
        if !matches!(base, "bash" | "sh" | "dash" | "ash") {
            self.opaque(format!("`{base}` is a shell whose language is not known here"));
        }
        let options = match shell_options(words) {
            Ok(options) => options,
            Err(why) => {
                self.opaque(format!("`{base}` {why}"));
                self.check_download(around);
                // Deny and ask rules want to see what is most likely meant.
                let is_command = |word: &Word| {
                    word.text()
                        .is_some_and(|text| text.starts_with('-') && !text.starts_with("--") && text.contains('c'))
                };
                let text = words.iter().skip_while(|word| !is_command(word)).nth(1).and_then(Word::text);
                if let Some(text) = text.map(str::to_owned) {
                    let mut inner = State::new(Cwd::Unknown);
                    self.nested(&text, &mut inner, &Flow { dialect, ..around.flow.clone() });
                }
                return;
            }
        };
        let mut inner = State::new(state.cwd.clone());
        inner.failed_cwd = state.failed_cwd.clone();
        inner.settle();
        inner.taint = around.taint.clone().or_else(|| state.taint.clone());
        if options.reads_profile {
            inner.taint(|| format!("`{base}` as a login or interactive shell reads files of the home directory first"));
        }
        let mut flow = Flow { dialect, in_function: false, ..around.flow.clone() };
        let operands = words.get(options.operands..).unwrap_or_default();
        if options.command {
            match operands.first() {
                Some(Word::Text(text)) => {
                    inner.positional = Some(operands.get(2..).unwrap_or_default().to_vec());
                    let text = text.clone();
                    self.nested(&text, &mut inner, &flow);
                }
                Some(Word::Glob(_) | Word::Unknown { .. }) => {
                    self.opaque(format!("`{base} -c` with text that is not constant"));
                    self.check_download(around);
                }
                None => {}
            }
            return;
        }
        let reads_itself = |word: &Word| matches!(word.text(), Some("/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0"));
        if let (Some(word), false) = (operands.first(), options.stdin)
            && !reads_itself(word)
        {
            self.opaque(format!("`{base}` runs a file, which the text does not show"));
            self.check_download(around);
            return;
        }
        match &around.flow.stdin {
            Stdin::Text(text) => {
                // What its commands read is the rest of the script.
                flow.stdin = Stdin::Unknown;
                inner.positional = None;
                let text = text.clone();
                self.nested(&text, &mut inner, &flow);
            }
            Stdin::File(Word::Text(path)) if path == "/dev/null" => {}
            Stdin::Inherited | Stdin::Pipe | Stdin::File(_) | Stdin::Unknown => {
                self.opaque(format!("`{base}` runs what it reads"));
                self.check_download(around);
            }
        }
    }

    /// Something runs text that is not known: does it come from a download in its own words, or before it in a pipeline?
    pub(super) fn check_download(&mut self, around: &Surroundings) {
        let downloads = |command: &crate::shell::script::SimpleCommand| {
            command.words.first().and_then(Word::text).is_some_and(is_download)
        };
        let mut substituted = self.script.commands.get(around.substituted.clone()).unwrap_or_default().iter();
        let mut fed_by = around.flow.fed_by.iter().filter_map(|at| self.script.commands.get(*at));
        if substituted.any(downloads) || fed_by.any(downloads) {
            self.danger("it runs what it downloads, whatever that is");
        }
    }

    pub(super) fn eval(&mut self, words: &[Word], state: &mut State, around: &Surroundings) {
        self.push(words.to_vec(), nothing(around.flow.need), state, around);
        let mut words = words.get(1..).unwrap_or_default();
        if let Some((Word::Text(first), rest)) = words.split_first()
            && first == "--"
        {
            words = rest;
        }
        let texts: Option<Vec<&str>> = words.iter().map(Word::text).collect();
        match texts {
            Some(texts) => {
                let taint = around.taint.clone();
                if let Some(taint) = taint {
                    state.taint(|| taint);
                }
                self.nested(&texts.join(" "), state, &around.flow);
            }
            None => {
                self.opaque("`eval` of text that is not constant");
                self.check_download(around);
            }
        }
    }

    pub(super) fn source(&mut self, words: &[Word], state: &mut State, around: &Surroundings) {
        self.push(words.to_vec(), around.flow.need, state, around);
        self.opaque("it runs a file in the shell, which the text does not show");
        self.check_download(around);
    }

    pub(super) fn trap(&mut self, words: &[Word], state: &mut State, around: &Surroundings) {
        self.push(words.to_vec(), nothing(around.flow.need), state, around);
        let mut operands = words.get(1..).unwrap_or_default();
        if let Some((Word::Text(first), rest)) = operands.split_first() {
            match first.as_str() {
                "--" => operands = rest,
                "-p" | "-l" | "-" | "" => return,
                _ => {}
            }
        }
        match operands.first() {
            Some(Word::Text(text)) if operands.len() > 1 => {
                // It runs at another time: with any values, in any directory that the script goes to.
                let mut inner = state.child();
                inner.variables.clear();
                inner.home_is_known = false;
                inner.splits_at_blanks = false;
                if self.moves {
                    inner.cwd = Cwd::Unknown;
                }
                let flow =
                    Flow { stdin: Stdin::Unknown, fed_by: Vec::new(), in_function: false, ..around.flow.clone() };
                let text = text.clone();
                let only_at_the_end = operands.iter().skip(1).all(|signal| matches!(signal.text(), Some("EXIT" | "0")));
                if !only_at_the_end {
                    self.between_commands(&text, flow.dialect);
                }
                self.nested(&text, &mut inner, &flow);
                if let Some(taint) = inner.taint {
                    state.taint(|| taint);
                }
            }
            Some(Word::Text(_)) | None => {}
            Some(Word::Glob(_) | Word::Unknown { .. }) => self.opaque("`trap` with text that is not constant"),
        }
    }
}

impl Analyser<'_> {
    /// A trap's text may run between any two commands, so it must not change what they mean.
    fn between_commands(&mut self, text: &str, dialect: Dialect) {
        let changes = Changes::of(&syntax::read(text, dialect).list);
        if !changes.is_nothing() {
            self.opaque("a trap changes variables or the directory");
        }
        self.trapped.extend(changes.commands);
        self.check_trapped();
    }
}

struct ShellOptions {
    /// `-c`
    command: bool,
    /// `-s`
    stdin: bool,
    reads_profile: bool,
    /// The place of the first operand.
    operands: usize,
}

fn shell_options(words: &[Word]) -> Result<ShellOptions, &'static str> {
    const UNCLEAR: &str = "with options that are not understood";
    let mut options = ShellOptions { command: false, stdin: false, reads_profile: false, operands: 1 };
    loop {
        let text = match words.get(options.operands) {
            None => return Ok(options),
            Some(Word::Text(text)) => text.as_str(),
            Some(word) if word.known_prefix().is_empty() || word.known_prefix().starts_with(['-', '+']) => {
                return Err(UNCLEAR);
            }
            Some(_) => return Ok(options),
        };
        if !text.starts_with(['-', '+']) {
            return Ok(options);
        }
        options.operands = options.operands.saturating_add(1);
        match text {
            "--" | "-" => return Ok(options),
            "--norc" | "--noprofile" | "--verbose" | "--noediting" => continue,
            "--login" => {
                options.reads_profile = true;
                continue;
            }
            _ if text.starts_with("--") || text == "+" => return Err(UNCLEAR),
            _ => {}
        }
        for letter in text.chars().skip(1) {
            match letter {
                'c' if text.starts_with('-') => options.command = true,
                's' if text.starts_with('-') => options.stdin = true,
                'l' | 'i' => options.reads_profile = true,
                'o' => {
                    let name = words.get(options.operands).and_then(Word::text);
                    if !name.is_some_and(|name| HARMLESS_OPTIONS.contains(&name)) {
                        return Err(UNCLEAR);
                    }
                    options.operands = options.operands.saturating_add(1);
                }
                'p' => {}
                letter if HARMLESS_FLAGS.contains(letter) => {}
                _ => return Err(UNCLEAR),
            }
        }
    }
}
