//! Shell analysis: what a script runs, as far as its text tells.
//!
//! [`syntax`] reads the text, [`analysis`] runs it in the abstract and unwinds what runs other commands, [`facts`]
//! knows the programs. What cannot be known makes the script opaque, which matches no allow rule and is never
//! read-only. A rule is policy over what a script says: what the programs do that it names, no analysis sees.

pub mod analysis;
pub mod ast;
pub mod facts;
pub mod script;
pub mod settings;
pub mod syntax;

use crate::describe::{CommandText, ProgramText};
use analysis::Start;
use facts::{Facts, PathUse, Place};
use script::{Cwd, Script};
use settings::ShellSettings;

/// A command of `execute`, analysed: what it runs, and what is known of that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Analysis {
    /// What it runs.
    pub script: Script,
    /// What is known of each of [`Script::commands`], in their order.
    pub facts: Vec<Facts>,
    /// The files that each of their redirections opens, in their order; `/dev/null` and descriptors are left out.
    pub redirects: Vec<Vec<PathUse>>,
}

/// Analyses a call of `execute`.
#[must_use]
pub fn analyse(command: &CommandText<'_>, settings: &ShellSettings) -> Analysis {
    let special = command.env.iter().find(|name| !facts::is_harmless_variable(name));
    let start = Start {
        cwd: Cwd::OneOf(vec![command.cwd.clone()]),
        taint: special.map(|name| format!("the call sets `{name}`")),
        call_has_stdin: command.stdin.is_some(),
    };
    let code = command.env.iter().find(|name| analysis::is_code(name));
    let mut script = match command.program {
        ProgramText::Shell(text) => analysis::shell(text, settings, start),
        ProgramText::Argv(words) => analysis::argv(words, settings, start),
    };
    if let Some(name) = code {
        script.opaque.push(format!("the call sets `{name}`, which shells take code from"));
    }
    with_facts(script, settings)
}

/// Analyses shell code of another tool, which runs in a directory of its own choice.
#[must_use]
pub fn analyse_code(text: &str, settings: &ShellSettings) -> Analysis {
    let start = Start { cwd: Cwd::Unknown, taint: None, call_has_stdin: false };
    with_facts(analysis::shell(text, settings, start), settings)
}

fn with_facts(mut script: Script, settings: &ShellSettings) -> Analysis {
    let mut all = Vec::with_capacity(script.commands.len());
    let mut redirects = Vec::with_capacity(script.commands.len());
    for command in &script.commands {
        all.push(facts::examine(&command.words, &Place { settings, cwd: &command.cwd }));
        redirects.push(command.redirects.iter().filter_map(|file| facts::redirect(file, settings)).collect());
    }
    if let Some(danger) = facts::danger_in_pipeline(&script.commands)
        && !script.dangers.contains(&danger)
    {
        script.dangers.push(danger);
    }
    Analysis { script, facts: all, redirects }
}
