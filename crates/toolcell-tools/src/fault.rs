//! The stable codes of what a tool, or the check of its input, answers instead of an output.

use toolcell_model::CallFault;

/// The codes that this crate gives. The guest has its own for what goes wrong with files and processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultCode {
    /// No enabled tool has this name.
    UnknownTool,
    /// The input breaks the tool's schema.
    InvalidInput,
    /// A file tool's path is not beneath the agent's file roots.
    OutsideRoots,
    /// The file, or the part of it, is not UTF-8 and was asked for as text.
    NotUtf8,
    /// The command exited with another status than 0.
    ExitStatus,
    /// The command was ended by a signal.
    Signal,
    /// The command was ended for want of memory.
    OutOfMemory,
    /// The command was stopped at its deadline.
    TimedOut,
    /// The command was stopped because someone asked.
    Cancelled,
    /// The command was stopped because it wrote too much.
    OutputLimit,
}

impl FaultCode {
    /// The wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::InvalidInput => "invalid_input",
            Self::OutsideRoots => "outside_roots",
            Self::NotUtf8 => "not_utf8",
            Self::ExitStatus => "exit_status",
            Self::Signal => "signal",
            Self::OutOfMemory => "out_of_memory",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::OutputLimit => "output_limit",
        }
    }

    pub(crate) fn with(self, message: impl Into<String>) -> CallFault {
        CallFault { code: self.as_str().to_owned(), message: message.into() }
    }
}
