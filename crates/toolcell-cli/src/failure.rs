//! How this program fails: one line what, one line why, one line what to do.

use std::process::ExitCode;
use toolcell_runtime::{StartError, SubmitError, chain};

/// Toolcell itself failed.
pub(crate) const EXIT_FAILED: u8 = 125;
/// The call was denied.
pub(crate) const EXIT_DENIED: u8 = 126;
/// The command was stopped at its deadline.
pub(crate) const EXIT_TIMED_OUT: u8 = 124;
/// There is no such command in the sandbox, as shells have it.
pub(crate) const EXIT_NOT_FOUND: u8 = 127;
/// The person who ran the command stopped it, as shells have it.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;
/// The call waits for a person.
pub(crate) const EXIT_ASKING: u8 = 75;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    why: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), hint: None }
    }

    pub(crate) fn of(what: impl Into<String>, error: &dyn std::error::Error) -> Self {
        Self::new(what, chain(error))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn print(&self) {
        eprintln!("toolcell: {}", self.what);
        eprintln!("  {}", self.why);
        if let Some(hint) = &self.hint {
            eprintln!("hint: {hint}");
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(EXIT_FAILED)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let failure = Self::of("it does not start", &error);
        match &error {
            StartError::DataDirHeld { .. } => failure.hint("stop the other server, or give this one its own data_dir"),
            StartError::Sandbox(error) => match error.hint() {
                Some(hint) => failure.hint(hint),
                None => failure,
            },
            _ => failure,
        }
    }
}

impl From<SubmitError> for Failure {
    fn from(error: SubmitError) -> Self {
        let failure = Self::of("the call was not taken", &error);
        match error {
            SubmitError::UnknownAgent { .. } => failure.hint("--agent chooses one"),
            SubmitError::IdentityRequired { field, .. } => failure.hint(format!("--{field} gives it")),
            SubmitError::CallIdConflict { .. } => failure.hint("choose another --id"),
            SubmitError::Empty
            | SubmitError::TooManyCalls { .. }
            | SubmitError::Busy { .. }
            | SubmitError::ShuttingDown
            | SubmitError::State(_) => failure,
        }
    }
}
