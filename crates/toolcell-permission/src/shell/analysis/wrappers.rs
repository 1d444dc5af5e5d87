//! Programs and builtins that run another command: it is unwound from their words.

use super::options::{NotUnderstood, Options};
use super::state::State;
use super::{Analyser, Surroundings};
use crate::shell::facts::is_harmless_variable;
use crate::shell::script::{Cwd, Need, Stdin, Word};

const ENV: Options = Options {
    flags: "i0v",
    valued: "uCa",
    long_flags: &["ignore-environment", "null", "debug", "default-signal", "ignore-signal", "block-signal"],
    long_valued: &["unset", "chdir", "argv0", "default-signal", "ignore-signal", "block-signal"],
};
const NONE: Options = Options { flags: "", valued: "", long_flags: &[], long_valued: &[] };
const EXEC: Options = Options { flags: "cl", valued: "a", ..NONE };
const COMMAND: Options = Options { flags: "p", ..NONE };
const TIME: Options = Options {
    flags: "pvaq",
    valued: "fo",
    long_flags: &["portability", "verbose", "append", "quiet"],
    long_valued: &["format", "output"],
};
const NICE: Options = Options { valued: "n", long_valued: &["adjustment"], ..NONE };
const SETSID: Options = Options { flags: "cfw", long_flags: &["ctty", "fork", "wait"], ..NONE };
const STDBUF: Options = Options { valued: "ioe", long_valued: &["input", "output", "error"], ..NONE };
const TIMEOUT: Options = Options {
    flags: "vf",
    valued: "ks",
    long_flags: &["preserve-status", "foreground", "verbose"],
    long_valued: &["kill-after", "signal"],
};
const IONICE: Options =
    Options { flags: "t", valued: "cn", long_flags: &["ignore"], long_valued: &["class", "classdata"] };
const TASKSET: Options = Options { flags: "ac", long_flags: &["all-tasks", "cpu-list"], ..NONE };
const CHRT: Options = Options { flags: "bfiorRv", long_flags: &["batch", "fifo", "idle", "other", "rr"], ..NONE };
const SUDO: Options = Options {
    flags: "AbEHknPSisB",
    valued: "ugpChrtTUDR",
    long_flags: &[
        "askpass",
        "background",
        "preserve-env",
        "set-home",
        "reset-timestamp",
        "non-interactive",
        "preserve-groups",
        "stdin",
        "login",
        "shell",
        "bell",
    ],
    long_valued: &[
        "user",
        "group",
        "prompt",
        "close-from",
        "host",
        "role",
        "type",
        "command-timeout",
        "other-user",
        "chdir",
        "chroot",
        "preserve-env",
    ],
};
const DOAS: Options = Options { flags: "ns", valued: "uCa", ..NONE };
const GIT: Options = Options {
    flags: "pPhv",
    valued: "Cc",
    long_flags: &[
        "paginate",
        "no-pager",
        "bare",
        "no-replace-objects",
        "literal-pathspecs",
        "glob-pathspecs",
        "noglob-pathspecs",
        "icase-pathspecs",
        "no-optional-locks",
        "no-lazy-fetch",
        "no-advice",
        "html-path",
        "man-path",
        "info-path",
        "version",
        "help",
        "exec-path",
    ],
    long_valued: &[
        "git-dir",
        "work-tree",
        "namespace",
        "super-prefix",
        "config-env",
        "exec-path",
        "attr-source",
        "list-cmds",
    ],
};
const XARGS: Options = Options {
    flags: "0prtxo",
    valued: "adEILnPs",
    long_flags: &["null", "no-run-if-empty", "verbose", "exit", "open-tty", "interactive", "show-limits"],
    long_valued: &["arg-file", "delimiter", "max-args", "max-procs", "max-chars", "max-lines", "process-slot-var"],
};

/// Where the command that a wrapper runs begins.
enum Runs {
    /// At this word.
    At(usize),
    /// Nothing: the wrapper is the command.
    Itself,
    /// It cannot be told.
    Unclear,
}

impl Analyser<'_> {
    /// Unwinds a wrapper. `false`: this command is none.
    pub(super) fn wrapper(&mut self, name: &str, words: &[Word], state: &mut State, around: &Surroundings) -> bool {
        if matches!(name, "command" | "builtin" | "time") {
            return self.in_this_shell(name, words, state, around);
        }
        let by_path = name.contains('/');
        let base = name.rsplit('/').next().unwrap_or(name);
        if let Some(dialect) = Self::dialect_of(base, around.flow.dialect) {
            self.shell_command(base, dialect, words, state, around);
            return true;
        }
        let mut inner_state = state.child();
        inner_state.functions.clear();
        let mut inner = around.clone();
        let split;
        let mut words = words;
        if base == "env"
            && let Some(all) = split_strings(words)
        {
            split = all;
            words = &split;
        }
        if base == "coproc" {
            // What the script writes to it.
            inner.flow.stdin = Stdin::Unknown;
        }
        if base == "time" && writes_output(words) {
            self.opaque("`time` writes a file");
        }
        let runs = match base {
            "env" => self.env(words, &mut inner_state, &mut inner),
            "command" => command(words),
            "nohup" | "coproc" | "builtin" => first_operand(&NONE, words, 0),
            "exec" => first_operand(&EXEC, words, 0),
            "time" => first_operand(&TIME, words, 0),
            "nice" => nice(words),
            "setsid" => first_operand(&SETSID, words, 0),
            "stdbuf" => first_operand(&STDBUF, words, 0),
            "timeout" => first_operand(&TIMEOUT, words, 1),
            "ionice" => first_operand(&IONICE, words, 0),
            "taskset" => first_operand(&TASKSET, words, 1),
            "chrt" => first_operand(&CHRT, words, 1),
            "busybox" | "toybox" => match words.get(1).and_then(Word::text) {
                Some(applet) if !applet.starts_with('-') => Runs::At(1),
                Some(_) => Runs::Itself,
                None if words.len() > 1 => Runs::Unclear,
                None => Runs::Itself,
            },
            "sudo" | "doas" => {
                self.privileged(base, words, state, &inner_state, around);
                return true;
            }
            "xargs" => {
                self.xargs(words, state, &mut inner_state, around);
                return true;
            }
            "find" => {
                self.find(words, state, &mut inner_state, around);
                return true;
            }
            _ => return false,
        };
        match runs {
            Runs::At(place) => {
                let outer = if by_path { around.flow.need } else { nothing(around.flow.need) };
                self.push(words.to_vec(), outer, state, around);
                self.run(words.get(place..).unwrap_or_default().to_vec(), &mut inner_state, &inner);
            }
            Runs::Itself => self.push(words.to_vec(), around.flow.need, state, around),
            Runs::Unclear => {
                self.opaque(format!("what `{base}` runs cannot be told from its words"));
                self.push(words.to_vec(), around.flow.need, state, around);
            }
        }
        true
    }

    /// `command cd …`, `time eval …`: the shell itself runs it.
    fn in_this_shell(&mut self, name: &str, words: &[Word], state: &mut State, around: &Surroundings) -> bool {
        if name == "time" && writes_output(words) {
            self.opaque("`time` writes a file");
        }
        let runs = match name {
            "command" => command(words),
            "time" => first_operand(&TIME, words, 0),
            _ => first_operand(&NONE, words, 0),
        };
        match runs {
            Runs::At(place) => {
                self.push(words.to_vec(), nothing(around.flow.need), state, around);
                let functions = std::mem::take(&mut state.functions);
                if name == "time" {
                    state.functions.clone_from(&functions);
                }
                let mut after = state.clone();
                self.run(words.get(place..).unwrap_or_default().to_vec(), &mut after, around);
                let before = std::mem::replace(state, State::new(Cwd::Unknown));
                *state = before.join(after);
                state.functions.extend(functions);
            }
            Runs::Itself => self.push(words.to_vec(), around.flow.need, state, around),
            Runs::Unclear => {
                self.opaque(format!("what `{name}` runs cannot be told from its words"));
                self.push(words.to_vec(), around.flow.need, state, around);
            }
        }
        true
    }

    fn env(&mut self, words: &[Word], state: &mut State, inner: &mut Surroundings) -> Runs {
        let Ok(mut place) = ENV.skip(words, 1) else { return Runs::Unclear };
        // The directory that `-C` names.
        for (at, word) in words.iter().enumerate().take(place) {
            if let Some(text) = word.text()
                && (text.starts_with("-C")
                    || text.starts_with("--chdir")
                    || text.starts_with("-") && text.ends_with('C') && !text.starts_with("--"))
            {
                let own =
                    text.strip_prefix("-C").or_else(|| text.strip_prefix("--chdir=")).filter(|path| !path.is_empty());
                let next = words.get(at.saturating_add(1)).and_then(Word::text);
                self.enter(own.or(next), state);
            }
        }
        if words.get(place).and_then(Word::text) == Some("-") {
            place = place.saturating_add(1);
        }
        loop {
            let Some(word) = words.get(place) else { return Runs::Itself };
            let known = word.known_prefix();
            match (known.split_once('='), word) {
                (Some((name, _)), Word::Text(_) | Word::Glob(_) | Word::Unknown { many: false, .. }) => {
                    self.check_name(name);
                    if !is_harmless_variable(name) {
                        inner.taint = Some(format!("`env {}=` before it", super::shorten(name.to_owned())));
                    }
                    place = place.saturating_add(1);
                }
                (None, Word::Text(_)) => return Runs::At(place),
                (_, Word::Glob(_) | Word::Unknown { .. }) => return Runs::Unclear,
            }
        }
    }

    /// `git -C x push` is a `git push`: for deny and ask rules it is in the list as well, without git's own options.
    pub(super) fn git_without_options(&mut self, words: &[Word], state: &State, around: &Surroundings) {
        let first = words.get(1).map_or("", Word::known_prefix);
        if !first.starts_with('-') && words.get(1).is_none_or(|word| word.text().is_some()) {
            return;
        }
        let program = words.first().cloned().into_iter();
        let bare: Vec<Word> = match GIT.skip(words, 1) {
            Ok(place) => program.chain(words.iter().skip(place).cloned()).collect(),
            Err(NotUnderstood) => program.chain([Word::Unknown { prefix: String::new(), many: true }]).collect(),
        };
        self.push(bare, nothing(around.flow.need), state, around);
    }

    /// Goes to a directory that an option names.
    pub(super) fn enter(&mut self, path: Option<&str>, state: &mut State) {
        let entered = match (&state.cwd, path) {
            (Cwd::OneOf(paths), Some(path)) => {
                paths.iter().map(|cwd| cwd.resolve(path).ok()).collect::<Option<Vec<_>>>()
            }
            (Cwd::OneOf(_), None) => None,
            (Cwd::Unknown, Some(path)) if path.starts_with('/') => {
                crate::path::ContainerPath::parse(path).ok().map(|path| vec![path])
            }
            (Cwd::Unknown, _) => None,
        };
        state.cwd = match entered {
            Some(mut paths) => {
                paths.sort();
                paths.dedup();
                Cwd::OneOf(paths)
            }
            None => Cwd::Unknown,
        };
        self.moves = true;
    }

    fn privileged(&mut self, base: &str, words: &[Word], state: &State, inner_state: &State, around: &Surroundings) {
        let outer = if around.flow.need == Need::Privileged { Need::Privileged } else { Need::Explicit };
        self.push(words.to_vec(), outer, state, around);
        let options = if base == "sudo" { &SUDO } else { &DOAS };
        let only_lists = |text: &str| {
            matches!(
                text,
                "-l" | "-ll" | "-v" | "-V" | "-K" | "--list" | "--validate" | "--version" | "--remove-timestamp"
            )
        };
        if words.get(1).and_then(Word::text).is_some_and(only_lists) {
            return;
        }
        let Ok(mut place) = options.skip(words, 1) else {
            self.opaque(format!("what `{base}` runs cannot be told from its words"));
            return;
        };
        while words.get(place).is_some_and(|word| word.text().is_some_and(|text| text.contains('='))) {
            place = place.saturating_add(1);
        }
        let rest = words.get(place..).unwrap_or_default();
        if !rest.is_empty() {
            let mut inner = around.clone();
            inner.flow.need = Need::Privileged;
            let mut inner_state = inner_state.clone();
            self.run(rest.to_vec(), &mut inner_state, &inner);
        }
    }

    fn xargs(&mut self, words: &[Word], state: &State, inner_state: &mut State, around: &Surroundings) {
        let Ok((place, replaced)) = xargs_options(words) else {
            self.opaque("what `xargs` runs cannot be told from its words");
            self.push(words.to_vec(), around.flow.need, state, around);
            return;
        };
        self.push(words.to_vec(), nothing(around.flow.need), state, around);
        let mut inner: Vec<Word> = words.get(place..).unwrap_or_default().to_vec();
        if inner.is_empty() {
            inner.push(Word::Text("echo".to_owned()));
        }
        match replaced {
            Some(text) => inner.iter_mut().for_each(|word| replace(word, &text)),
            None => inner.push(Word::Unknown { prefix: String::new(), many: true }),
        }
        let mut surroundings = around.clone();
        // xargs reads standard input itself; what it runs gets none.
        surroundings.flow.stdin = Stdin::Text(String::new());
        self.run(inner, inner_state, &surroundings);
    }

    fn find(&mut self, words: &[Word], state: &State, inner_state: &mut State, around: &Surroundings) {
        let mut own = Vec::new();
        let mut commands = Vec::new();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at = at.saturating_add(1);
            match word.text() {
                Some(action @ ("-exec" | "-execdir" | "-ok" | "-okdir")) => {
                    let rest = words.get(at..).unwrap_or_default();
                    // `+` ends it only after `{}`.
                    let ends = rest.iter().enumerate().position(|(place, word)| match word.text() {
                        Some(";") => true,
                        Some("+") => place > 0 && rest.get(place.saturating_sub(1)).and_then(Word::text) == Some("{}"),
                        Some(_) | None => false,
                    });
                    let Some(end) = ends else {
                        self.opaque("what `find` runs cannot be told from its words");
                        break;
                    };
                    commands.push((action.ends_with("dir"), rest.get(..end).unwrap_or_default().to_vec()));
                    at = at.saturating_add(end).saturating_add(1);
                }
                Some(_) => own.push(word.clone()),
                None => {
                    if !word.known_prefix().is_empty() && !word.known_prefix().starts_with('-') {
                        own.push(word.clone());
                        continue;
                    }
                    // An unknown word may be an action with a command after it.
                    if words.iter().skip(at).any(|word| matches!(word.text(), Some(";" | "+"))) {
                        self.opaque("what `find` runs cannot be told from its words");
                    }
                    own.push(word.clone());
                }
            }
        }
        if commands.is_empty() {
            self.push(words.to_vec(), around.flow.need, state, around);
            return;
        }
        self.push(words.to_vec(), nothing(around.flow.need), state, around);
        self.push(own.clone(), around.flow.need, state, around);
        // It begins with where it was looked for.
        let start = match own.get(1) {
            Some(Word::Text(text)) if !text.is_empty() && !text.starts_with(['-', '(', '!']) => Some(text.as_str()),
            Some(Word::Text(_)) | None => Some("."),
            Some(Word::Glob(_) | Word::Unknown { .. }) => None,
        };
        for (in_directory, mut command) in commands {
            let start = if in_directory { Some(".") } else { start };
            if in_directory {
                inner_state.cwd = Cwd::Unknown;
            }
            for word in command.iter_mut() {
                match (word.text(), start) {
                    // A name beneath it, as a glob gives one. What is hidden down there no more than with `grep -r`.
                    (Some("{}"), Some(start)) => {
                        *word = Word::Glob(format!("{}/*", escape(start.trim_end_matches('/'))))
                    }
                    (_, _) => replace(word, "{}"),
                }
            }
            if !command.is_empty() {
                self.run(command, inner_state, around);
            }
        }
    }
}

/// The name that is put in the place of `wanted` is not known, but for how it begins.
fn replace(word: &mut Word, wanted: &str) {
    let Word::Text(text) = word else { return };
    if let Some((before, _)) = text.split_once(wanted) {
        *word = Word::Unknown { prefix: before.to_owned(), many: false };
    }
}

/// A name as a pattern that matches only it.
fn escape(name: &str) -> String {
    let mut pattern = String::new();
    for c in name.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// `env -S "A=1 git push" x` with what it splits put in its place; `None` if there is nothing to split, or if more than
/// blanks would have to be understood.
fn split_strings(words: &[Word]) -> Option<Vec<Word>> {
    let mut at = 1;
    loop {
        let text = words.get(at)?.text()?;
        let next = at.saturating_add(1);
        let (string, rest) = if let Some(string) = text.strip_prefix("--split-string=") {
            (string, next)
        } else {
            match text.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?.split_once('S') {
                Some((flags, string)) if flags.chars().all(|flag| ENV.flags.contains(flag)) => {
                    if string.is_empty() {
                        (words.get(next)?.text()?, next.saturating_add(1))
                    } else {
                        (string, next)
                    }
                }
                Some(_) => return None,
                None => {
                    at = ENV.one(words, at).ok()??;
                    continue;
                }
            }
        };
        if string.contains(['\\', '\'', '"', '$', '#']) {
            return None;
        }
        let before = words.iter().take(at).cloned();
        let split = string.split_whitespace().map(|word| Word::Text(word.to_owned()));
        return Some(before.chain(split).chain(words.iter().skip(rest).cloned()).collect());
    }
}

/// Whether `time` is told to write a file.
fn writes_output(words: &[Word]) -> bool {
    let place = TIME.skip(words, 1).unwrap_or(words.len());
    let output = |word: &Word| {
        word.text().is_some_and(|text| {
            text.starts_with("--output") || text.starts_with('-') && !text.starts_with("--") && text.contains('o')
        })
    };
    words.iter().take(place).skip(1).any(output)
}

fn command(words: &[Word]) -> Runs {
    match words.get(1).and_then(Word::text) {
        // Only tells what a name stands for.
        Some(option) if option.starts_with('-') && !option.starts_with("--") && option.contains(['v', 'V']) => {
            Runs::Itself
        }
        _ => first_operand(&COMMAND, words, 0),
    }
}

/// Where xargs's command begins, and what stands in it for each line of its input.
fn xargs_options(words: &[Word]) -> Result<(usize, Option<String>), NotUnderstood> {
    let mut replaced = None;
    let mut at = 1;
    loop {
        let text = words.get(at).and_then(Word::text).unwrap_or_default();
        let next = at.saturating_add(1);
        if text == "--" {
            return Ok((next, replaced));
        }
        if let Some(own) = text.strip_prefix("--replace") {
            replaced = Some(own.strip_prefix('=').unwrap_or("{}").to_owned());
            at = next;
        } else if let Some(own) = text.strip_prefix("-i") {
            replaced = Some(if own.is_empty() { "{}" } else { own }.to_owned());
            at = next;
        } else {
            if let Some(own) = text.strip_prefix("-I") {
                let following = words.get(next).and_then(Word::text).ok_or(NotUnderstood);
                replaced = Some(if own.is_empty() { following? } else { own }.to_owned());
            } else if text.starts_with('-') && !text.starts_with("--") && text.contains(['I', 'i']) {
                return Err(NotUnderstood);
            }
            match XARGS.one(words, at)? {
                Some(after) => at = after,
                None => break,
            }
        }
        if replaced.as_deref() == Some("") {
            return Err(NotUnderstood);
        }
    }
    Ok((at, replaced))
}

fn first_operand(options: &Options, words: &[Word], operands_before: usize) -> Runs {
    let Ok(mut place) = options.skip(words, 1) else { return Runs::Unclear };
    for _ in 0..operands_before {
        match words.get(place) {
            Some(Word::Text(_) | Word::Unknown { many: false, .. }) => place = place.saturating_add(1),
            Some(Word::Glob(_) | Word::Unknown { many: true, .. }) => return Runs::Unclear,
            None => return Runs::Itself,
        }
    }
    if place < words.len() { Runs::At(place) } else { Runs::Itself }
}

/// `nice -5 …` is the old way to say `nice -n 5 …`.
fn nice(words: &[Word]) -> Runs {
    let old = |text: &str| text.strip_prefix('-').is_some_and(super::state::is_integer);
    let numbers = words.iter().skip(1).take_while(|word| word.text().is_some_and(old)).count();
    if numbers > 0 {
        let place = numbers.saturating_add(1);
        return match words.get(place) {
            None => Runs::Itself,
            // More options may follow the old ones.
            Some(word) if word.known_prefix().is_empty() || word.known_prefix().starts_with('-') => Runs::Unclear,
            Some(_) => Runs::At(place),
        };
    }
    first_operand(&NICE, words, 0)
}

/// The need of a command that only runs another one.
pub(super) fn nothing(need: Need) -> Need {
    match need {
        Need::Allow | Need::Nothing | Need::Explicit => Need::Nothing,
        Need::Privileged => Need::Privileged,
    }
}
