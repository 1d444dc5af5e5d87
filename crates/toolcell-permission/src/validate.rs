//! Whether a command is of a shape that the agent may run at all, never mind who approves it.
//!
//! Permission answers who may; this answers what is accepted. With `command_allowlist` every program that a command
//! runs must be on the list by exactly the name that the command uses, and nothing of the command may be opaque.
//! Wrappers that do nothing but run another program (`timeout 5 git …`, `bash -c 'git …'`) are looked through and
//! need not be listed; `sudo` and what it runs both must be. Code of other languages and input to a running process
//! are opaque. [`crate::authorize`] applies it, and so does [`crate::Clearance::authorize`]: to what is allowed, and
//! to what a person would be asked about, so that nobody approves what cannot run.

use crate::context::Context;
use crate::decision::Decision;
use crate::describe::{Content, DescribedCall};
use crate::mode::{Behavior, Stage};
use crate::pipeline::shown;
use crate::shell::script::{Need, Word};

/// Why a command may not run, whoever approves it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A program that is not on the list.
    #[error("`{program}` is not one of the programs that may run here: {allowed}")]
    Program {
        /// The program, as the command names it.
        program: String,
        /// The list, for people.
        allowed: String,
    },
    /// Something that cannot be known.
    #[error("it cannot be told which programs this runs ({reason}), and only these may run here: {allowed}")]
    Opaque {
        /// Why.
        reason: String,
        /// The list, for people.
        allowed: String,
    },
}

impl From<Refusal> for Decision {
    fn from(refusal: Refusal) -> Self {
        let advice = match &refusal {
            Refusal::Program { .. } => "Use one of those.",
            Refusal::Opaque { .. } => "Write them out as plain commands.",
        };
        Self {
            behavior: Behavior::Deny,
            stage: Stage::CommandValidator,
            rule: None,
            message: format!("This command is not accepted: {refusal}. {advice}"),
            reason: refusal.to_string(),
            demoted: false,
            suggestions: Vec::new(),
            trace: Vec::new(),
        }
    }
}

/// Checks a call against the context's `command_allowlist`, if there is one and the call runs commands.
///
/// # Errors
/// [`Refusal`].
pub fn validate(call: &DescribedCall<'_>, context: &Context) -> Result<(), Refusal> {
    let Some(list) = context.command_allowlist() else { return Ok(()) };
    let allowed = || if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    let opaque = |reason: &str| Err(Refusal::Opaque { reason: reason.to_owned(), allowed: allowed() });
    let Some(analysis) = call.analysis() else {
        return match call.tool().content() {
            Content::Command(_) | Content::Code { .. } => opaque("the input is code that is not analysed"),
            Content::Nothing | Content::Paths | Content::Fields(_) => Ok(()),
        };
    };
    if let Some(reason) = analysis.script.opaque.first() {
        return opaque(reason);
    }
    for command in analysis.script.commands.iter().filter(|command| command.need != Need::Nothing) {
        let program = command.words.first().and_then(Word::text);
        if !program.is_some_and(|program| list.iter().any(|allowed| allowed == program)) {
            let program = command.words.first().map(|word| shown(std::slice::from_ref(word))).unwrap_or_default();
            return Err(Refusal::Program { program, allowed: allowed() });
        }
    }
    Ok(())
}
