//! Why the runtime does not start, does not take a batch, or fails a call.

use crate::config::KeyFileError;
use crate::session::SessionError;
use crate::workspace::SetupError;
use std::path::PathBuf;
use std::time::Duration;
use toolcell_lease::{GuardOpenError, LeaseError};
use toolcell_model::{CallId, Ran, Retry, RuntimeFault, ScopeKey, SnapshotId};
use toolcell_permission::RuleError;
use toolcell_sandbox::SandboxError;
use toolcell_snapshot::{
    EncryptionError, ErrorKind, OpenError, PostgresError, ProbeError, RedisError, RestoreError, SnapshotError,
    StampError, StoreError,
};
use toolcell_state::StateError;

/// The runtime does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("cannot {action} {path}")]
    DataDir {
        /// What was being done.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// Another server has the data directory.
    #[error("another server holds {path}: one data directory has one server")]
    DataDirHeld {
        /// The data directory.
        path: PathBuf,
    },
    /// The state store.
    #[error("the state store does not open")]
    State(#[source] StateError),
    /// The lease guard.
    #[error("the lease guard does not open")]
    Guard(#[source] GuardOpenError),
    /// The snapshot store.
    #[error("the snapshot store does not open")]
    Store(#[source] StoreError),
    /// The snapshot store in Redis.
    #[error("the snapshot store does not open")]
    Redis(#[source] RedisError),
    /// The snapshot store in Postgres.
    #[error("the snapshot store does not open")]
    Postgres(#[source] PostgresError),
    /// The snapshot store in a bucket.
    #[error("the snapshot store does not open")]
    S3(#[source] ProbeError),
    /// The key of the snapshot store.
    #[error("the snapshot store has no key")]
    EncryptionKey(#[source] KeyFileError),
    /// The snapshot store is encrypted with another key, or not at all.
    #[error("the snapshot store does not fit its key")]
    Encryption(#[source] EncryptionError),
    /// The snapshot store is somebody else's, or damaged.
    #[error("the snapshot store cannot be used")]
    Snapshots(#[source] OpenError),
    /// The container side.
    #[error("the container provider does not start")]
    Sandbox(#[source] SandboxError),
    /// An agent's rules.
    #[error("agents.{agent}.permissions")]
    Rules {
        /// The agent.
        agent: String,
        /// Which rule.
        #[source]
        source: RuleError,
    },
    /// A rule that would never do anything: a deny that is misspelt must not look like one that holds.
    #[error("agents.{agent}.permissions: the rule {rule:?} names no tool; the tools are {tools}")]
    RuleWithoutTool {
        /// The agent.
        agent: String,
        /// The rule.
        rule: String,
        /// What there is.
        tools: String,
    },
    /// An agent's tools.
    #[error("agents.{agent}.tools: {detail}")]
    Tools {
        /// The agent.
        agent: String,
        /// Which tool.
        detail: String,
    },
    /// A tool that the operator declares.
    #[error("agents.{agent}.custom_tools.{tool}: {detail}")]
    CustomTool {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
        /// Which key.
        detail: String,
    },
    /// A file that an agent's workspaces begin with.
    #[error("agents.{agent}.files.{file:?}: {detail}")]
    Files {
        /// The agent.
        agent: String,
        /// Its path.
        file: String,
        /// What is wrong.
        detail: String,
    },
    /// No randomness.
    #[error("no randomness from the operating system")]
    Random(#[source] getrandom::Error),
}

/// A batch is not taken: nothing of it was recorded.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// No such agent.
    #[error("no agent is named {agent:?}; the agents are {known}")]
    UnknownAgent {
        /// What was asked for.
        agent: String,
        /// What there is.
        known: String,
    },
    /// The agent requires an identity that the context does not have.
    #[error("the agent {agent} keeps a workspace per {scope}, so context.{field} is required")]
    IdentityRequired {
        /// The agent.
        agent: String,
        /// Its scope.
        scope: String,
        /// The field to give.
        field: &'static str,
    },
    /// No calls.
    #[error("calls is empty: a batch has at least one call")]
    Empty,
    /// Too many calls.
    #[error("calls has {calls} items; at most {limit} are taken")]
    TooManyCalls {
        /// How many came.
        calls: usize,
        /// The bound.
        limit: usize,
    },
    /// An id twice, or with another tool or input than before.
    #[error("call id {id} was used for another tool or input, or twice in one batch")]
    CallIdConflict {
        /// The id.
        id: CallId,
    },
    /// Too much at once.
    #[error("{open} batches are open; at most {limit} at once")]
    Busy {
        /// How many are open.
        open: usize,
        /// The bound.
        limit: usize,
    },
    /// The runtime is shutting down.
    #[error("the runtime is shutting down and takes no more calls")]
    ShuttingDown,
    /// The state store.
    #[error("the calls could not be recorded")]
    State(#[source] StateError),
}

/// A call fails on the runtime's side.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("too many calls wait for this slot")]
    SlotBusy { waiting: usize },
    #[error("the slot could not be leased")]
    Lease(#[source] LeaseError),
    #[error("the slot's head could not be stamped")]
    Stamp(#[source] StampError),
    #[error("the slot's head could not be read")]
    Head(#[source] StoreError),
    #[error("the workspace could not be restored")]
    Restore {
        slot: ScopeKey,
        /// The newest older snapshot that is whole, where the wanted one is not.
        offer: Option<SnapshotId>,
        #[source]
        source: RestoreError,
    },
    #[error("the workspace could not be saved")]
    Snapshot(#[source] SnapshotError),
    #[error("earlier changes of this slot are not saved after {} ms of waiting, and no more are made before", waited.as_millis())]
    SaveOverdue { waited: Duration },
    #[error("the sandbox failed")]
    Sandbox(#[source] SandboxError),
    #[error("the call's state could not be recorded")]
    State(#[source] StateError),
    #[error("the workspace's directory could not be made")]
    Workspace(#[source] std::io::Error),
    #[error("the workspace could not be set up")]
    Setup(#[source] SetupError),
    #[error("the slot was lost to another holder")]
    LeaseLost,
    #[error("the call was cancelled before it started")]
    CancelledBeforeStart,
    #[error("somebody else has started this call")]
    AlreadyStarted,
    #[error("no randomness from the operating system")]
    Random(#[source] getrandom::Error),
    #[error("a defect in the runtime: {0}")]
    Internal(String),
    #[error("the permissions of this session cannot be read")]
    Session(#[source] SessionError),
    #[error("the sandbox of this call ended: {words}")]
    SandboxEnded {
        words: String,
        #[source]
        source: SandboxError,
    },
}

impl CallError {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::SlotBusy { .. } => "slot_busy",
            Self::Lease(LeaseError::Busy { .. }) => "slot_busy",
            Self::Lease(LeaseError::NoSpace { .. }) => "no_space",
            Self::Lease(_) => "lease_unavailable",
            Self::Stamp(StampError::InDoubt(error)) => store_code(error.kind()),
            Self::Stamp(error) => store_code(error.kind()),
            Self::Head(error) => store_code(error.kind()),
            Self::Restore { source, .. } => store_code(source.kind()),
            Self::Snapshot(error) => store_code(error.kind()),
            Self::SaveOverdue { .. } => "store_unavailable",
            Self::Sandbox(error) => error.code(),
            Self::Session(_) => "session_permissions_unreadable",
            Self::State(StateError::NoSpace { .. }) => "no_space",
            Self::State(_) => "state_unavailable",
            Self::Workspace(error) if error.kind() == std::io::ErrorKind::StorageFull => "no_space",
            Self::Workspace(_) | Self::Random(_) => "host_failed",
            Self::Setup(error) => error.code(),
            Self::LeaseLost => "lease_lost",
            Self::CancelledBeforeStart => "cancelled",
            Self::AlreadyStarted => "already_started",
            Self::Internal(_) => "internal",
            Self::SandboxEnded { .. } => "sandbox_lost",
        }
    }

    /// What is in the workspace cannot be saved, whatever the store does. Calls go on, since only they can change that.
    pub(crate) fn is_about_content(&self) -> bool {
        matches!(self, Self::Snapshot(error) if matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::Malformed))
    }

    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::SlotBusy { .. } | Self::SaveOverdue { .. } => Retry::Later,
            Self::Lease(error) => error.retry(),
            Self::Stamp(error) => error.retry(),
            Self::Head(error) => error.retry(),
            Self::Restore { source, .. } => source.retry(),
            Self::Snapshot(error) => error.retry(),
            Self::Sandbox(error) => error.retry(),
            Self::State(error) => error.retry(),
            Self::Session(error) => error.retry(),
            Self::SandboxEnded { .. } => Retry::Indeterminate,
            Self::Setup(_) => Retry::Later,
            Self::Workspace(_)
            | Self::Random(_)
            | Self::LeaseLost
            | Self::CancelledBeforeStart
            | Self::AlreadyStarted
            | Self::Internal(_) => Retry::Never,
        }
    }

    /// What to do about it, if that is known.
    pub(crate) fn hint(&self) -> Option<String> {
        let kind = match self {
            Self::Sandbox(error) => return error.hint(),
            Self::Restore { offer: Some(snapshot), slot, .. } => {
                return Some(format!(
                    "the newest older snapshot that is whole is {snapshot}: `toolcell snapshots restore {slot} {snapshot}` goes \
                     on from it"
                ));
            }
            Self::Stamp(error) => error.kind(),
            Self::Head(error) => error.kind(),
            // Of the workspace, not of the store.
            Self::Restore { source, .. } if source.kind() == ErrorKind::NoSpace => return None,
            Self::Restore { source, .. } => source.kind(),
            Self::Snapshot(error) => error.kind(),
            Self::SlotBusy { .. }
            | Self::SaveOverdue { .. }
            | Self::Lease(_)
            | Self::State(_)
            | Self::Workspace(_)
            | Self::Setup(_)
            | Self::LeaseLost
            | Self::CancelledBeforeStart
            | Self::AlreadyStarted
            | Self::Random(_)
            | Self::Internal(_)
            | Self::Session(_)
            | Self::SandboxEnded { .. } => return None,
        };
        let text = match kind {
            ErrorKind::HeadMissing => {
                "this slot has been saved before, and the store does not know of it: nothing is written over what is missing; \
                 check that [snapshots] names the store that has it, or bring that store's backup back"
            }
            ErrorKind::DurabilityUnknown => {
                "the changes stay in the container; whether they are saved is found out at the next save"
            }
            ErrorKind::Denied => "check the credentials and rights of the snapshot store in [snapshots]",
            ErrorKind::NoSpace => {
                "free space in the snapshot store; what is not saved stays in the container until then"
            }
            ErrorKind::Unavailable => "what is not saved stays in the container, and saving is tried again",
            ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::PreconditionFailed
            | ErrorKind::Fenced
            | ErrorKind::Corrupt
            | ErrorKind::Malformed
            | ErrorKind::TooLarge
            | ErrorKind::Internal => return None,
        };
        Some(text.to_owned())
    }

    /// The problem of a call in state `error`.
    pub(crate) fn fault(&self, ran: Ran) -> RuntimeFault {
        let mut detail = chain(self);
        if let Some(hint) = self.hint() {
            detail.push_str("; ");
            detail.push_str(&hint);
        }
        if let Self::Restore { source: error, .. } = self
            && error.kind() == ErrorKind::NoSpace
        {
            detail.push_str("; the snapshot does not fit into the workspace: raise the agent's limits.workspace");
        }
        let retry_after_ms = match self.retry() {
            Retry::Later => Some(1000),
            Retry::Never | Retry::Indeterminate => None,
        };
        RuntimeFault { code: self.code().to_owned(), title: self.to_string(), detail, ran, retry_after_ms }
    }
}

pub(crate) const fn store_code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound | ErrorKind::Corrupt => "snapshot_corrupt",
        ErrorKind::Fenced => "lease_lost",
        ErrorKind::HeadMissing => "head_missing",
        ErrorKind::DurabilityUnknown => "durability_unknown",
        ErrorKind::TooLarge => "too_large",
        ErrorKind::NoSpace => "no_space",
        ErrorKind::Malformed => "workspace_unreadable",
        ErrorKind::Unavailable
        | ErrorKind::Denied
        | ErrorKind::AlreadyExists
        | ErrorKind::PreconditionFailed
        | ErrorKind::Internal => "store_unavailable",
    }
}

/// An error and its causes, outermost first, each once.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}
