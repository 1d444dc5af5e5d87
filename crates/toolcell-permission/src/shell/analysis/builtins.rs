//! The shell's own commands that change what later commands mean.

use super::state::{State, Variable};
use super::wrappers::nothing;
use super::{Analyser, Surroundings};
use crate::shell::script::{Cwd, Stdin, Word};

/// Names that the analysis gives a meaning of its own, so that a function of that name would make it wrong.
const INTERPRETED: [&str; 62] = [
    ".",
    ":",
    "[",
    "alias",
    "ash",
    "bash",
    "builtin",
    "busybox",
    "cd",
    "chrt",
    "command",
    "coproc",
    "dash",
    "declare",
    "doas",
    "echo",
    "enable",
    "env",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "find",
    "getopts",
    "hash",
    "ionice",
    "let",
    "local",
    "mapfile",
    "nice",
    "nohup",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "setsid",
    "sh",
    "shift",
    "shopt",
    "source",
    "stdbuf",
    "sudo",
    "taskset",
    "test",
    "time",
    "timeout",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "unalias",
    "unset",
    "wait",
    "xargs",
    "zsh",
];

/// Options of `shopt` after which a text means what it meant before.
const HARMLESS_SHOPT: [&str; 9] = [
    "nullglob",
    "globstar",
    "inherit_errexit",
    "checkwinsize",
    "nocaseglob",
    "huponexit",
    "login_shell",
    "globskipdots",
    "xpg_echo",
];

/// Whether a function of this name would take the place of something that the analysis interprets.
pub(super) fn is_interpreted(name: &str) -> bool {
    INTERPRETED.contains(&name) || name == "command_not_found_handle"
}

impl Analyser<'_> {
    /// A builtin that changes the state. `false`: it is none, or the caller treats it as any other command.
    pub(super) fn builtin(&mut self, name: &str, words: &[Word], state: &mut State, around: &Surroundings) -> bool {
        match name {
            "eval" => self.eval(words, state, around),
            "source" | "." => self.source(words, state, around),
            "trap" => self.trap(words, state, around),
            "exec" => return self.exec(words, state, around),
            "cd" => self.cd(words, state, around),
            "pushd" | "popd" => self.pushes(name, words, state, around),
            "exit" => {
                self.record(words, state, around);
                // With more it goes on.
                state.ended = words.len() < 2
                    || words.len() == 2
                        && matches!(words.get(1), Some(Word::Text(_) | Word::Unknown { many: false, .. }));
            }
            "local" if !around.flow.in_function => {
                self.record(words, state, around);
                self.opaque("`local` outside of a function, where it does nothing");
            }
            "export" | "readonly" | "declare" | "typeset" | "local" => self.declare(name, words, state, around),
            "set" => self.set(words, state, around),
            "shift" => {
                self.record(words, state, around);
                state.positional = None;
            }
            "read" | "mapfile" | "readarray" | "getopts" | "wait" => self.reads(name, words, state, around),
            "printf" => {
                self.record_program(words, state, around);
                let option = words.get(1);
                match option.and_then(Word::text) {
                    Some(text) if text.starts_with("-v") => {
                        let own = text
                            .strip_prefix("-v")
                            .filter(|name| !name.is_empty())
                            .map(|name| Word::Text(name.to_owned()));
                        self.unknown_names(own.as_ref().or(words.get(2)), state);
                    }
                    Some(_) => {}
                    // It may be `-v`, if what follows can be a name.
                    None if option.is_some_and(|word| word.known_prefix().is_empty()) && words.len() > 2 => {
                        self.opaque("`printf` whose first word is not constant");
                    }
                    None => {}
                }
            }
            "unset" => {
                self.record(words, state, around);
                for word in words.iter().skip(1) {
                    match word.text() {
                        Some(text) if text.starts_with('-') => {
                            if text.contains(['f', 'n']) {
                                self.opaque("`unset` with an option that changes what names mean");
                            }
                        }
                        text => {
                            self.unset.extend(text.map(str::to_owned));
                            if text.is_some_and(|name| self.functions.contains(name)) {
                                self.opaque("a function may be taken away");
                            }
                            self.unknown_names(Some(word), state);
                        }
                    }
                }
                state.functions.clear();
            }
            "let" => {
                self.record(words, state, around);
                self.opaque("`let` evaluates its words");
            }
            "alias" | "unalias" => {
                self.record(words, state, around);
                if words.len() > 1 {
                    self.opaque("an alias changes how later lines are read");
                }
            }
            "hash" | "enable" | "complete" | "compgen" | "bind" | "fc" => {
                self.record(words, state, around);
                // `hash git` and `hash -r` only look programs up.
                let looks_up = |word: &Word| word.text().is_some_and(|text| text == "-r" || !text.starts_with('-'));
                if words.len() > 1 && !(name == "hash" && words.iter().all(looks_up)) {
                    self.opaque(format!("`{name}` changes what a name runs, or runs something itself"));
                }
            }
            "jobs" => {
                self.record(words, state, around);
                if words.iter().skip(1).any(|word| word.text().is_none_or(|text| text.contains('x'))) {
                    self.opaque("`jobs -x` runs a command");
                }
            }
            "shopt" => {
                self.record(words, state, around);
                let harmless = |word: &Word| {
                    word.text()
                        .is_some_and(|text| matches!(text, "-s" | "-u" | "-q" | "-p") || HARMLESS_SHOPT.contains(&text))
                };
                if !words.iter().skip(1).all(harmless) {
                    self.opaque("`shopt` changes how the script is read");
                }
            }
            "test" | "[" => {
                self.record_program(words, state, around);
                self.test(words);
            }
            _ => return false,
        }
        true
    }

    /// It changes nothing but the shell, which the analysis follows.
    fn record(&mut self, words: &[Word], state: &State, around: &Surroundings) {
        let opens = around.redirects.iter().any(|file| file.target.text() != Some("/dev/null"));
        let need = if opens { around.flow.need } else { nothing(around.flow.need) };
        self.push(words.to_vec(), need, state, around);
    }

    fn record_program(&mut self, words: &[Word], state: &State, around: &Surroundings) {
        self.push(words.to_vec(), around.flow.need, state, around);
    }

    /// With a command it is a wrapper; without, its redirections are the shell's from now on.
    fn exec(&mut self, words: &[Word], state: &mut State, around: &Surroundings) -> bool {
        if words.len() > 1 {
            return false;
        }
        self.record(words, state, around);
        if around.flow.stdin != Stdin::Inherited {
            self.opaque("`exec` changes where later commands read from");
        }
        true
    }

    fn cd(&mut self, words: &[Word], state: &mut State, around: &Surroundings) {
        self.record_program(words, state, around);
        state.settle();
        let old = state.cwd.clone();
        let mut operands = words.get(1..).unwrap_or_default();
        while let Some((Word::Text(option), rest)) = operands.split_first() {
            if !matches!(option.as_str(), "-L" | "-P" | "-e" | "-@" | "--") {
                break;
            }
            operands = rest;
        }
        let searches = state.variables.contains_key("CDPATH") || self.settings.exported.contains("CDPATH");
        match operands {
            [] if state.home_is_known => self.enter(self.settings.home.as_str(), state),
            [Word::Text(path)]
                if !path.starts_with('-') && !path.is_empty() && (!searches || path.starts_with(['/', '.'])) =>
            {
                self.enter(Some(path), state);
            }
            _ => {
                state.cwd = Cwd::Unknown;
                self.moves = true;
            }
        }
        state.failed_cwd = Some(old);
    }

    /// `pushd a` is a `cd a` that remembers; where `popd` leads is not known.
    fn pushes(&mut self, name: &str, words: &[Word], state: &mut State, around: &Surroundings) {
        self.record(words, state, around);
        state.settle();
        let old = state.cwd.clone();
        match words {
            [_, Word::Text(path)] if name == "pushd" && !path.starts_with(['-', '+']) && !path.is_empty() => {
                self.enter(Some(path), state);
            }
            _ => {
                state.cwd = Cwd::Unknown;
                self.moves = true;
            }
        }
        state.failed_cwd = Some(old);
    }

    fn declare(&mut self, name: &str, words: &[Word], state: &mut State, around: &Surroundings) {
        self.record(words, state, around);
        let options: String = words.iter().skip(1).filter_map(|word| option_letters(name, word)).collect();
        let exports = name == "export" || options.contains('x');
        let changes_value = options.contains(['l', 'u', 'c', 'a', 'A']);
        let keeps_value = name == "readonly" || options.contains(['r', 'l', 'u', 'c']);
        if !options.chars().all(|letter| "aAgrtxluc".contains(letter)) && words.len() > 2 {
            // A name for another variable; arithmetic at every assignment; functions for other shells; an option that
            // it does not have, so that it does nothing.
            self.opaque(format!("`{name}` with an option that changes what names or values mean"));
        }
        for word in words.iter().skip(1).filter(|word| option_letters(name, word).is_none()) {
            let known = word.known_prefix();
            let (variable, value) = match (known.split_once('='), word) {
                (Some((variable, _)), Word::Glob(_) | Word::Unknown { .. }) => (variable, Some(Variable::Unknown)),
                (Some((variable, value)), Word::Text(_)) if !changes_value => (variable, Some(Variable::text(value))),
                (Some((variable, _)), Word::Text(_)) => (variable, Some(Variable::Unknown)),
                (None, Word::Text(variable)) => (variable.as_str(), None),
                (None, Word::Glob(_) | Word::Unknown { .. }) => {
                    self.opaque(format!("`{name}` of a name that is not constant"));
                    continue;
                }
            };
            let appended = variable.ends_with('+');
            let variable = variable.trim_end_matches('+').to_owned();
            if variable.contains('[') {
                self.opaque("an index that the shell evaluates");
            }
            if options.contains(['a', 'A']) {
                self.is_array(&variable);
            }
            let text = known.split_once('=').map_or("", |(_, value)| value);
            if value.is_some() && (text.starts_with('(') || text.is_empty() && word.text().is_none()) {
                self.perhaps_list(&variable, text.starts_with('('));
            }
            match value {
                Some(_) if appended => self.assign(&variable, Variable::Unknown, state),
                Some(value) => self.assign(&variable, value, state),
                None if exports || name == "readonly" => self.touch(&variable, state),
                None => {
                    self.touch(&variable, state);
                    state.set(&variable, Variable::Unknown);
                }
            }
            if exports && !crate::shell::facts::is_harmless_variable(&variable) {
                state.taint(|| format!("`{}` is exported earlier", super::shorten(variable.clone())));
            }
            if keeps_value {
                self.peculiar.insert(variable);
            }
        }
    }

    /// A list in a value, which is read as the shell's own text where the variable is an array.
    fn perhaps_list(&mut self, variable: &str, certain: bool) {
        if certain || self.arrays.contains(variable) {
            self.opaque("a list in a value, which the shell reads once more");
        }
        self.lists.insert(variable.to_owned());
    }

    fn set(&mut self, words: &[Word], state: &mut State, around: &Surroundings) {
        use super::shells::{HARMLESS_FLAGS, HARMLESS_OPTIONS};
        self.record(words, state, around);
        let mut at = 1;
        while let Some(word) = words.get(at) {
            let Some(text) = word.text() else {
                if word.known_prefix().is_empty() || word.known_prefix().starts_with(['-', '+']) {
                    self.opaque("`set` with options that are not constant");
                }
                break;
            };
            if !text.starts_with(['-', '+']) || text.len() < 2 {
                break;
            }
            at = at.saturating_add(1);
            if text == "--" {
                state.positional = Some(Vec::new());
                break;
            }
            let on = text.starts_with('-');
            for letter in text.chars().skip(1) {
                match letter {
                    'a' => state.exports_all |= on,
                    'o' => {
                        let option = words.get(at).and_then(Word::text);
                        match option {
                            Some("allexport") => state.exports_all |= on,
                            Some(name) if HARMLESS_OPTIONS.contains(&name) => {
                                if name == "errexit" {
                                    state.ends_on_error = on;
                                }
                            }
                            None if words.len() == 2 => {}
                            Some(_) | None => {
                                self.opaque("`set -o` with an option that changes how the script is read")
                            }
                        }
                        at = at.saturating_add(1);
                    }
                    'e' => state.ends_on_error = on,
                    letter if HARMLESS_FLAGS.contains(letter) => {}
                    _ => self.opaque("`set` with an option that changes how the script is read"),
                }
            }
        }
        let rest = words.get(at..).unwrap_or_default();
        if !rest.is_empty() {
            state.positional = Some(rest.to_vec());
        }
    }

    /// `read x y`: what comes in is not known.
    fn reads(&mut self, name: &str, words: &[Word], state: &mut State, around: &Surroundings) {
        self.record(words, state, around);
        let calls_back = |text: &str| text.starts_with('-') && !text.starts_with("--") && text.contains('C');
        for (at, word) in words.iter().enumerate().skip(1) {
            match word.text() {
                Some(text) if name != "read" && calls_back(text) => {
                    self.opaque(format!("`{name} -C` runs a command"));
                }
                Some(text) if name == "wait" && text.starts_with('-') && text.contains('p') => {
                    match text.split_once('p') {
                        Some((_, own)) if !own.is_empty() => {
                            self.unknown_names(Some(&Word::Text(own.to_owned())), state);
                        }
                        Some(_) | None => self.unknown_names(words.get(at.saturating_add(1)), state),
                    }
                }
                None if name == "wait" && word.known_prefix().is_empty() => {
                    self.opaque("`wait` with a word that is not known");
                }
                Some(text) if text.starts_with('-') => {
                    // `-aNAME` in one word.
                    if let Some((_, array)) = text.split_once('a') {
                        let own = (!array.is_empty()).then(|| Word::Text(array.to_owned()));
                        let named = own.as_ref().or(words.get(at.saturating_add(1)));
                        if let Some(array) = named.and_then(Word::text) {
                            self.is_array(array);
                        }
                        self.unknown_names(own.as_ref(), state);
                    }
                }
                _ if name == "wait" => {}
                // An option's value taken for a name does no harm.
                Some(array) if matches!(name, "mapfile" | "readarray") => {
                    self.is_array(array);
                    self.unknown_names(Some(word), state);
                }
                _ => self.unknown_names(Some(word), state),
            }
        }
        for variable in ["REPLY", "MAPFILE", "OPTARG", "OPTIND"] {
            state.set(variable, Variable::Unknown);
        }
    }

    /// The variables that a word names are not known any more.
    fn unknown_names(&mut self, word: Option<&Word>, state: &mut State) {
        match word {
            Some(Word::Text(name)) if name.contains('[') => self.opaque("an index that the shell evaluates"),
            Some(Word::Text(name)) => {
                let name = name.clone();
                self.assign(&name, Variable::Unknown, state);
            }
            Some(Word::Glob(_) | Word::Unknown { .. }) => self.opaque("the name of a variable that is not constant"),
            None => {}
        }
    }

    /// `test -v NAME` evaluates the name's index.
    fn test(&mut self, words: &[Word]) {
        let operands = words.get(1..).unwrap_or_default();
        let count = operands.iter().filter(|word| word.text() != Some("]")).count();
        for (at, word) in operands.iter().enumerate() {
            let next = operands.get(at.saturating_add(1));
            match word {
                Word::Text(text) if text == "-v" || text == "-R" => {
                    if next.and_then(Word::text).is_none_or(|name| name.contains('[')) {
                        self.opaque("`test -v` of a name that is not constant");
                    }
                }
                // It may become `-v` and a name.
                Word::Unknown { prefix, many: true } if prefix.is_empty() => {
                    self.opaque("`test` with an unquoted word that is not known");
                }
                Word::Unknown { prefix, many: false } if prefix.is_empty() && count == 2 && at == 0 => {
                    self.opaque("`test` whose operator is not known");
                }
                Word::Text(_) | Word::Glob(_) | Word::Unknown { .. } => {}
            }
        }
    }
}

/// The letters of an option of `declare` and its like.
fn option_letters<'w>(name: &str, word: &'w Word) -> Option<&'w str> {
    let text = word.text()?;
    let letters = text.strip_prefix('-').or_else(|| text.strip_prefix('+').filter(|_| name != "export"))?;
    Some(letters.trim_start_matches('-'))
}
