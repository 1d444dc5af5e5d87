//! Errors of what looks after a slot's history.

use super::{CommitError, ErrorKind, StoreError};
use toolcell_model::{Retry, SnapshotId};

/// Making an older snapshot the newest one failed; the head is what it was, except for
/// [`CommitError::DurabilityUnknown`].
#[derive(Debug, thiserror::Error)]
pub enum RecommitError {
    /// There is no such snapshot in this slot.
    #[error("snapshot {snapshot} is not in the store")]
    NoSnapshot {
        /// Which one.
        snapshot: SnapshotId,
    },
    /// There is one, and it never was the slot's newest: its writer died or lost the slot.
    #[error("snapshot {snapshot} is not in the slot's history")]
    NotInHistory {
        /// Which one.
        snapshot: SnapshotId,
    },
    /// It took longer than the snapshot was pinned. Do it again.
    #[error("snapshot {snapshot} was pinned for too short a time")]
    PinExpired {
        /// Which one.
        snapshot: SnapshotId,
    },
    /// An object is missing, corrupt or cannot be read or written. Its name is in the error.
    #[error("while making snapshot {snapshot} the newest")]
    Store {
        /// Which snapshot.
        snapshot: SnapshotId,
        /// Which object, and why.
        #[source]
        source: StoreError,
    },
    /// The head could not be replaced.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl RecommitError {
    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NoSnapshot { .. } | Self::NotInHistory { .. } => ErrorKind::NotFound,
            Self::PinExpired { .. } => ErrorKind::Unavailable,
            Self::Store { source, .. } => source.kind(),
            Self::Commit(error) => error.kind(),
        }
    }

    /// Whether doing it again can help.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Commit(error) => error.retry(),
            Self::NoSnapshot { .. } | Self::NotInHistory { .. } | Self::PinExpired { .. } | Self::Store { .. } => {
                self.kind().retry()
            }
        }
    }
}

/// Copying a snapshot to another slot failed; the target is as empty as it was, except for
/// [`CommitError::DurabilityUnknown`].
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The target has a snapshot: delete the slot first, or fork to another.
    #[error("slot {slot} has a snapshot: nothing is forked over it")]
    TargetNotEmpty {
        /// The target.
        slot: String,
    },
    /// The snapshot belongs to another tenant, or the target is the source itself.
    #[error("slot {slot} is no possible target: a fork goes to another slot of the same tenant")]
    Target {
        /// The target.
        slot: String,
    },
    /// There is no such snapshot in the source.
    #[error("snapshot {snapshot} is not in slot {slot}")]
    NoSnapshot {
        /// Which one.
        snapshot: SnapshotId,
        /// The source.
        slot: String,
    },
    /// It took longer than the snapshot was pinned. Do it again.
    #[error("snapshot {snapshot} was pinned for too short a time")]
    PinExpired {
        /// Which one.
        snapshot: SnapshotId,
    },
    /// An object is missing, corrupt or cannot be read or written. Its name is in the error.
    #[error("while forking snapshot {snapshot}")]
    Store {
        /// Which snapshot.
        snapshot: SnapshotId,
        /// Which object, and why.
        #[source]
        source: StoreError,
    },
    /// The target's head could not be replaced.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl ForkError {
    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::TargetNotEmpty { .. } => ErrorKind::AlreadyExists,
            Self::Target { .. } => ErrorKind::Denied,
            Self::NoSnapshot { .. } => ErrorKind::NotFound,
            Self::PinExpired { .. } => ErrorKind::Unavailable,
            Self::Store { source, .. } => source.kind(),
            Self::Commit(error) => error.kind(),
        }
    }

    /// Whether doing it again can help.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Commit(error) => error.retry(),
            Self::TargetNotEmpty { .. }
            | Self::Target { .. }
            | Self::NoSnapshot { .. }
            | Self::PinExpired { .. }
            | Self::Store { .. } => self.kind().retry(),
        }
    }
}

/// Collecting a slot's garbage failed. What was deleted until then was garbage; the next collection goes on.
#[derive(Debug, thiserror::Error)]
pub enum GcError {
    /// The slot has another holder now, or this one's place is not certain: nothing more is deleted.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// An object cannot be read or deleted. Its name is in the error. A manifest or a pin that cannot be read may need
    /// any pack, so that none is deleted: see what `verify` says.
    #[error("while collecting what nothing needs")]
    Store(#[source] StoreError),
    /// More snapshots or pins than are looked at.
    #[error("the slot has more than {max} {what}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        max: usize,
    },
}

impl GcError {
    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Commit(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::TooMany { .. } => ErrorKind::TooLarge,
        }
    }

    /// Whether doing it again can help.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Commit(error) => error.retry(),
            // A delete in doubt is simply done again.
            Self::Store(_) | Self::TooMany { .. } => self.kind().retry(),
        }
    }
}
