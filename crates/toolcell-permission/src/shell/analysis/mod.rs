//! Runs a script in the abstract: every command that may run, with the words it may get.
//!
//! Nothing is skipped because a condition seems false: both sides of every branch count, a loop's body counts with
//! everything that the loop may change unknown, a function's body counts where it is defined. What is known is only
//! ever more than what can happen, so a command that runs is in the list or the script is opaque.

mod arithmetic;
mod braces;
mod builtins;
mod field;
mod options;
mod scan;
mod shells;
mod simple;
mod state;
#[cfg(test)]
mod tests;
mod walk;
mod words;
mod wrappers;

use crate::shell::script::{Cwd, Need, Redirection, Script, SimpleCommand, Stdin, Word};
use crate::shell::settings::{Dialect, ShellSettings};
use scan::Changes;
pub(in crate::shell) use simple::is_code;
use state::State;
use std::collections::BTreeSet;

/// Most commands of a script. The rest of a longer one makes it opaque.
pub const MAX_COMMANDS: usize = 2048;
/// Deepest nesting of scripts in scripts: `sh -c`, `eval`. A deeper one is opaque.
pub const MAX_NESTED_SCRIPTS: usize = 12;
/// Deepest nesting of commands that run commands: `env nice timeout 5 …`. A deeper one is opaque.
pub const MAX_WRAPPERS: usize = 16;
/// Most bytes of all nested scripts together. More of them are opaque.
pub const MAX_NESTED_BYTES: usize = 128 * 1024;
/// Most reasons that are kept of why a script is opaque.
const MAX_REASONS: usize = 4;
/// Most bytes of a reason.
const MAX_REASON_BYTES: usize = 160;
/// Most earlier commands of a pipeline that a command remembers.
const MAX_FEEDERS: usize = 64;

/// How a stretch of a script runs.
#[derive(Debug, Clone)]
struct Flow {
    stdin: Stdin,
    fed_by: Vec<usize>,
    /// [`Need::Allow`], or [`Need::Privileged`] beneath `sudo`.
    need: Need,
    dialect: Dialect,
    /// `set -e` counts here: not within a condition or a function.
    ends_on_error: bool,
    /// How many scripts this one is nested in.
    nesting: usize,
    /// Within a function: `local` works.
    in_function: bool,
}

/// What a simple command's words come from.
#[derive(Debug, Clone)]
struct Surroundings {
    redirects: Vec<Redirection>,
    /// Why assignments before it may change what it does.
    taint: Option<String>,
    /// Commands that were substituted into its words are these of the script.
    substituted: std::ops::Range<usize>,
    flow: Flow,
}

struct Analyser<'a> {
    settings: &'a ShellSettings,
    script: Script,
    /// The call gives text for standard input.
    call_has_stdin: bool,
    nested_bytes: usize,
    /// How many commands that run commands are being unwound.
    depth: usize,
    /// What calls of the script's functions may change.
    function_changes: Changes,
    /// Names of every function that some part of the script defines.
    functions: BTreeSet<String>,
    /// What some part of the script unsets, by name: it may be a function.
    unset: BTreeSet<String>,
    /// Commands of traps that may run between any two others.
    trapped: BTreeSet<String>,
    /// Variables that cannot be assigned, or that get something else than they are assigned.
    peculiar: BTreeSet<String>,
    /// Variables that some part of the script makes an array.
    arrays: BTreeSet<String>,
    /// Variables to which `declare` may give a list that stands in a value, if they are arrays.
    lists: BTreeSet<String>,
    /// Something in the script changes the directory, or may.
    moves: bool,
}

/// Analyses a script for the settings' shell.
pub(super) fn shell(text: &str, settings: &ShellSettings, start: Start) -> Script {
    let mut analyser = Analyser::new(settings, start.call_has_stdin);
    let flow = Flow::new(settings.dialect);
    let mut state = start.state();
    analyser.text(text, &mut state, &flow);
    analyser.script
}

/// Analyses a program and its arguments, which no shell looks at.
pub(super) fn argv(words: &[String], settings: &ShellSettings, start: Start) -> Script {
    let mut analyser = Analyser::new(settings, start.call_has_stdin);
    let surroundings = Surroundings {
        redirects: Vec::new(),
        taint: start.taint.clone(),
        substituted: 0..0,
        flow: Flow::new(settings.dialect),
    };
    let words = words.iter().cloned().map(Word::Text).collect();
    let mut state = start.state();
    analyser.run(words, &mut state, &surroundings);
    analyser.script
}

/// Where a script starts.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) cwd: Cwd,
    pub(super) taint: Option<String>,
    pub(super) call_has_stdin: bool,
}

impl Start {
    fn state(self) -> State {
        State { taint: self.taint, ..State::new(self.cwd) }
    }
}

impl Flow {
    fn new(dialect: Dialect) -> Self {
        Self {
            stdin: Stdin::Inherited,
            fed_by: Vec::new(),
            need: Need::Allow,
            dialect,
            ends_on_error: true,
            nesting: 0,
            in_function: false,
        }
    }

    /// Within a condition, a function, or anything else that `set -e` does not end.
    fn in_condition(&self) -> Self {
        Self { ends_on_error: false, ..self.clone() }
    }
}

impl<'a> Analyser<'a> {
    fn new(settings: &'a ShellSettings, call_has_stdin: bool) -> Self {
        Self {
            settings,
            script: Script::default(),
            call_has_stdin,
            nested_bytes: 0,
            depth: 0,
            function_changes: Changes::default(),
            functions: BTreeSet::new(),
            unset: BTreeSet::new(),
            trapped: BTreeSet::new(),
            peculiar: BTreeSet::new(),
            arrays: BTreeSet::new(),
            lists: BTreeSet::new(),
            moves: false,
        }
    }

    /// Something in the script cannot be known.
    fn opaque(&mut self, why: impl Into<String>) {
        if self.script.opaque.len() < MAX_REASONS {
            let why = shorten(why.into());
            if !self.script.opaque.contains(&why) {
                self.script.opaque.push(why);
            }
        }
    }

    fn danger(&mut self, why: &str) {
        if !self.script.dangers.iter().any(|known| known == why) && self.script.dangers.len() < MAX_REASONS {
            self.script.dangers.push(why.to_owned());
        }
    }

    /// A command that may run.
    fn push(&mut self, words: Vec<Word>, need: Need, state: &State, surroundings: &Surroundings) {
        if self.script.commands.len() >= MAX_COMMANDS {
            self.opaque(format!("it has more than {MAX_COMMANDS} commands"));
            return;
        }
        let mut cwd = state.cwd.clone();
        if let Some(failed) = &state.failed_cwd {
            let settled = State { failed_cwd: Some(failed.clone()), ..State::new(cwd) }.child();
            cwd = settled.cwd;
        }
        self.script.commands.push(SimpleCommand {
            words,
            need,
            tainted: surroundings.taint.clone().or_else(|| state.taint.clone()),
            redirects: surroundings.redirects.clone(),
            stdin: surroundings.flow.stdin.clone(),
            cwd,
            fed_by: surroundings.flow.fed_by.clone(),
        });
    }

    /// A script: the call's own, or one that a command of it runs.
    fn text(&mut self, text: &str, state: &mut State, flow: &Flow) {
        let syntax = crate::shell::syntax::read(text, flow.dialect);
        for problem in syntax.problems {
            self.opaque(problem);
        }
        let changes = Changes::of(&syntax.list);
        self.moves |= changes.directory || changes.anything || !changes.called.is_empty();
        self.list(&syntax.list, state, flow);
        state.settle();
    }

    /// A script in a script.
    fn nested(&mut self, text: &str, state: &mut State, flow: &Flow) {
        self.nested_bytes = self.nested_bytes.saturating_add(text.len());
        if flow.nesting >= MAX_NESTED_SCRIPTS || self.nested_bytes > MAX_NESTED_BYTES {
            self.opaque("scripts are nested too deeply in it, or are too long");
            return;
        }
        let flow = Flow { nesting: flow.nesting.saturating_add(1), ..flow.in_condition() };
        self.text(text, state, &flow);
    }

    /// Whatever these changes may change is not known any more.
    fn forget(&mut self, changes: &Changes, state: &mut State) {
        let mut forgotten = Vec::new();
        let anything = changes.anything || !changes.called.is_empty();
        if anything {
            state.variables.clear();
            state.positional = None;
            state.home_is_known = false;
            state.splits_at_blanks = false;
        }
        for (name, numbers) in &changes.variables {
            let number = *numbers && state.variables.get(name).is_some_and(state::Variable::is_number);
            forgotten.push((name.clone(), number));
        }
        for (name, number) in forgotten {
            state.set(&name, if number { state::Variable::Number } else { state::Variable::Unknown });
        }
        if changes.directory || anything {
            state.cwd = Cwd::Unknown;
            state.failed_cwd = None;
        }
    }
}

fn shorten(mut text: String) -> String {
    if text.len() > MAX_REASON_BYTES {
        let end = (0..=MAX_REASON_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text
}
