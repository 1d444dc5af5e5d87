//! Why an operation on a slot was not done.

use crate::error::{CallError, store_code};
use toolcell_model::{IsolationScope, Retry, ScopeKey, SnapshotId};
use toolcell_snapshot::{
    CommitError, ErrorKind, ForkError, GcError, ImportError, RecommitError, RestoreError, StoreError,
};
use toolcell_state::StateError;

/// What failed in the slot itself: its lease, its head, its container, the saving of its workspace.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SlotFault(pub(crate) Box<CallError>);

/// An operation on a slot was not done.
#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    /// No such slot, or another tenant's.
    #[error("there is no slot {key}")]
    NoSlot {
        /// The key.
        key: ScopeKey,
    },
    /// No such snapshot.
    #[error("slot {key} has no snapshot {snapshot}")]
    NoSnapshot {
        /// The slot.
        key: ScopeKey,
        /// Which one.
        snapshot: SnapshotId,
    },
    /// Nothing has been saved.
    #[error("slot {key} has no snapshot: nothing of it has been saved")]
    NothingSaved {
        /// The slot.
        key: ScopeKey,
    },
    /// A fork goes to a slot that has never been used, or was deleted.
    #[error("the target {key} is not empty: it has a head")]
    TargetNotEmpty {
        /// The target.
        key: ScopeKey,
    },
    /// No such agent.
    #[error("no agent is named {agent:?}; the agents are {known}")]
    UnknownAgent {
        /// What was asked for.
        agent: String,
        /// What there is.
        known: String,
    },
    /// The identity does not name a slot that lasts.
    #[error("a slot of scope {scope} needs a user or a session")]
    IdentityRequired {
        /// What was wanted.
        scope: IsolationScope,
    },
    /// The slot was not free in time.
    #[error("slot {key} is busy: a call runs in it, or another process holds it")]
    Busy {
        /// The slot.
        key: ScopeKey,
    },
    /// The store keeps nothing, so there is nothing to operate on.
    #[error("the snapshot store keeps nothing ([snapshots] store = \"none\")")]
    KeepsNothing,
    /// The slot's lease, head, container or save.
    #[error("slot {key}")]
    Slot {
        /// The slot.
        key: ScopeKey,
        /// What failed.
        #[source]
        source: SlotFault,
    },
    /// The head could not be replaced.
    #[error("the head of slot {key} could not be replaced")]
    Commit {
        /// The slot.
        key: ScopeKey,
        /// Why.
        #[source]
        source: CommitError,
    },
    /// An older snapshot could not be made the newest.
    #[error("slot {key} did not go back")]
    Restore {
        /// The slot.
        key: ScopeKey,
        /// Why.
        #[source]
        source: RecommitError,
    },
    /// A slot could not be copied.
    #[error("slot {key} was not copied")]
    Fork {
        /// The source.
        key: ScopeKey,
        /// Why.
        #[source]
        source: ForkError,
    },
    /// Old snapshots could not be removed.
    #[error("slot {key} was not cleaned up")]
    Gc {
        /// The slot.
        key: ScopeKey,
        /// Why.
        #[source]
        source: GcError,
    },
    /// A snapshot could not be written as an archive.
    #[error("slot {key} was not exported")]
    Export {
        /// The slot.
        key: ScopeKey,
        /// Why.
        #[source]
        source: RestoreError,
    },
    /// An archive was not taken.
    #[error("nothing was imported into slot {key}")]
    Import {
        /// The slot.
        key: ScopeKey,
        /// Why.
        #[source]
        source: ImportError,
    },
    /// The snapshot store.
    #[error("the snapshot store failed")]
    Store(#[source] StoreError),
    /// The state store.
    #[error("the state store failed")]
    State(#[source] StateError),
    /// A defect.
    #[error("a defect in the runtime: {0}")]
    Internal(String),
}

impl OperateError {
    /// Stable, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSlot { .. } | Self::NoSnapshot { .. } | Self::NothingSaved { .. } => "not_found",
            Self::TargetNotEmpty { .. } => "target_not_empty",
            Self::UnknownAgent { .. } => "unknown_agent",
            Self::IdentityRequired { .. } => "identity_required",
            Self::Busy { .. } => "slot_busy",
            Self::KeepsNothing => "no_store",
            Self::Slot { source, .. } => source.0.code(),
            Self::Commit { source, .. } => store_code(source.kind()),
            Self::Restore { source, .. } => store_code(source.kind()),
            Self::Fork { source, .. } => store_code(source.kind()),
            Self::Gc { source, .. } => store_code(source.kind()),
            Self::Export { source, .. } => store_code(source.kind()),
            Self::Import { source: ImportError::Entry { .. } | ImportError::Malformed { .. }, .. } => {
                "archive_malformed"
            }
            Self::Import { source: ImportError::Receive(_), .. } => "archive_broken_off",
            Self::Import { source: source @ (ImportError::TooLarge { .. } | ImportError::Snapshot(_)), .. } => {
                store_code(source.kind())
            }
            Self::Store(error) => store_code(error.kind()),
            Self::State(StateError::BadCursor) => "invalid_request",
            Self::State(StateError::NoSpace { .. }) => "no_space",
            Self::State(_) => "state_unavailable",
            Self::Internal(_) => "internal",
        }
    }

    /// When trying again may help.
    #[must_use]
    pub fn retry_after_ms(&self) -> Option<u64> {
        let retry = match self {
            Self::Busy { .. } => Retry::Later,
            Self::Slot { source, .. } => source.0.retry(),
            Self::Commit { source, .. } => source.retry(),
            Self::Restore { source, .. } => source.retry(),
            Self::Fork { source, .. } => source.retry(),
            Self::Gc { source, .. } => source.retry(),
            Self::Export { source, .. } => source.retry(),
            Self::Import { source, .. } => source.retry(),
            Self::Store(error) => error.retry(),
            Self::State(error) => error.retry(),
            Self::NoSlot { .. }
            | Self::NoSnapshot { .. }
            | Self::NothingSaved { .. }
            | Self::TargetNotEmpty { .. }
            | Self::UnknownAgent { .. }
            | Self::IdentityRequired { .. }
            | Self::KeepsNothing
            | Self::Internal(_) => Retry::Never,
        };
        match retry {
            Retry::Later => Some(1000),
            Retry::Never | Retry::Indeterminate => None,
        }
    }

    /// What to do about it, if that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Slot { source, .. } => source.0.hint(),
            Self::Commit { source, .. } if source.kind() == ErrorKind::DurabilityUnknown => {
                Some("look at the slot's history before doing it again".to_owned())
            }
            Self::TargetNotEmpty { key } => {
                Some(format!("choose another target, or first `toolcell slots delete {key}`"))
            }
            Self::Busy { .. } => Some("wait for its calls, or stop the process that holds it".to_owned()),
            Self::NoSlot { .. } => Some("`toolcell slots list` shows what there is".to_owned()),
            Self::NoSnapshot { key, .. } => Some(format!("`toolcell snapshots list {key}` shows what there is")),
            Self::NothingSaved { .. }
            | Self::UnknownAgent { .. }
            | Self::IdentityRequired { .. }
            | Self::KeepsNothing
            | Self::Commit { .. }
            | Self::Restore { .. }
            | Self::Fork { .. }
            | Self::Gc { .. }
            | Self::Export { .. }
            | Self::Import { .. }
            | Self::Store(_)
            | Self::State(_)
            | Self::Internal(_) => None,
        }
    }
}
