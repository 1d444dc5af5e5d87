//! Programs and builtins that run another command: it is unwound from their words.

mod env;
mod find;
mod git;
mod privileged;
mod tails;
mod xargs;

use super::options::Options;
use super::state::State;
use super::{Analyser, Surroundings};
use crate::shell::script::{Cwd, Need, Stdin, Word};

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
        if self.tails(base, words, state, around) {
            return true;
        }
        let mut inner_state = state.child();
        inner_state.functions.clear();
        let mut inner = around.clone();
        let split;
        let mut words = words;
        if base == "env"
            && let Some(all) = env::split_strings(words)
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

/// The name that is put in the place of `wanted` is not known, but for how it begins.
fn replace(word: &mut Word, wanted: &str) {
    let Word::Text(text) = word else { return };
    if let Some((before, _)) = text.split_once(wanted) {
        *word = Word::Unknown { prefix: before.to_owned(), many: false };
    }
}
