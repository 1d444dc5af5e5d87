//! One error per operation of the engine.

use super::{ErrorKind, SourceError, StoreError};
use crate::entry::display_path;
use toolcell_model::{FencingToken, Generation, Retry, SnapshotId};

/// Opening a store failed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store's canary was made with another `id_secret`.
    #[error(
        "this store belongs to another id_secret: give the one that it was made with, or another store ([snapshots] id_secret)"
    )]
    WrongSecret,
    /// The store's canary is encrypted, and no key is given.
    #[error("this store is encrypted: give the key that it was made with ([snapshots.encryption] key)")]
    Encrypted,
    /// The canary could not be read or made.
    #[error("while checking the store's canary")]
    Store(#[source] StoreError),
}

impl OpenError {
    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::WrongSecret | Self::Encrypted => ErrorKind::Denied,
            Self::Store(error) => error.kind(),
        }
    }

    /// Whether doing it again can help.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::WrongSecret | Self::Encrypted => Retry::Never,
            Self::Store(error) => error.retry(),
        }
    }
}

/// Becoming a slot's writer, by stamp or by resume, failed.
#[derive(Debug, thiserror::Error)]
pub enum StampError {
    /// Another holder has the slot: release, and acquire again above the recorded token.
    #[error("the head is held by token {recorded}")]
    Fenced {
        /// The token in the head: the floor of the next acquisition.
        recorded: FencingToken,
    },
    /// The head is absent, or lower than what has been acknowledged: nothing may be seeded over it.
    #[error("the head is missing: expected generation {expected} or later, found {}", found.map_or_else(|| "none".to_owned(), |g| g.to_string()))]
    HeadMissing {
        /// The lowest acceptable generation.
        expected: Generation,
        /// What is there.
        found: Option<Generation>,
    },
    /// The stamp was sent and its outcome is not known.
    #[error("it is not known whether the stamp was written")]
    InDoubt(#[source] StoreError),
    /// The store failed.
    #[error("while stamping the head")]
    Store(#[source] StoreError),
}

impl StampError {
    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Fenced { .. } => ErrorKind::Fenced,
            Self::HeadMissing { .. } => ErrorKind::HeadMissing,
            Self::InDoubt(_) => ErrorKind::DurabilityUnknown,
            Self::Store(error) => error.kind(),
        }
    }

    /// Whether doing it again can help. After [`Retry::Indeterminate`] release and acquire again.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Fenced { .. } | Self::HeadMissing { .. } | Self::InDoubt(_) => self.kind().retry(),
            Self::Store(error) => error.retry(),
        }
    }
}

/// Replacing the head failed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another acquisition has the slot; this writer can never commit again.
    #[error("the head is held by token {recorded}")]
    Fenced {
        /// The token in the head.
        recorded: FencingToken,
    },
    /// The head that this writer wrote is no longer there at all.
    #[error("the head has disappeared")]
    HeadMissing,
    /// `durability_unknown`: the commit was sent, and whether it counts is not known. The next snapshot of the same
    /// writer finds out.
    #[error("it is not known whether the commit counts")]
    DurabilityUnknown(#[source] Option<StoreError>),
    /// This writer has deleted the slot.
    #[error("the slot has been deleted")]
    Deleted,
    /// The store failed before anything was committed.
    #[error("while replacing the head")]
    Store(#[source] StoreError),
}

impl CommitError {
    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Fenced { .. } => ErrorKind::Fenced,
            Self::HeadMissing => ErrorKind::HeadMissing,
            Self::DurabilityUnknown(_) => ErrorKind::DurabilityUnknown,
            Self::Deleted => ErrorKind::NotFound,
            Self::Store(error) => error.kind(),
        }
    }

    /// Whether doing it again can help.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Fenced { .. } | Self::HeadMissing | Self::DurabilityUnknown(_) | Self::Deleted => self.kind().retry(),
            Self::Store(error) => error.retry(),
        }
    }
}

/// Taking a snapshot failed; the head is what it was, except for [`CommitError::DurabilityUnknown`].
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The roots that the caller named are not usable.
    #[error("the list of persisted roots is not usable: {detail}")]
    Roots {
        /// What is wrong with it.
        detail: String,
    },
    /// Listing the workspace failed.
    #[error("while scanning the workspace")]
    Scan(#[source] SourceError),
    /// Reading a file or directory failed.
    #[error("while reading {}", display_path(root, path))]
    Read {
        /// The root's container path.
        root: String,
        /// The path beneath it.
        path: Vec<u8>,
        /// Why.
        #[source]
        source: SourceError,
    },
    /// The workspace has more bytes than the bound.
    #[error("the workspace has more than {max} bytes")]
    TooLarge {
        /// The bound.
        max: u64,
    },
    /// The store failed.
    #[error("while storing the snapshot")]
    Store(#[source] StoreError),
    /// The head could not be replaced.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl SnapshotError {
    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Roots { .. } => ErrorKind::Malformed,
            Self::Scan(source) | Self::Read { source, .. } => source.kind(),
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::Store(error) => error.kind(),
            Self::Commit(error) => error.kind(),
        }
    }

    /// Whether doing it again can help. A store's doubt about an object before the head is none about the snapshot.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Commit(error) => error.retry(),
            Self::Roots { .. } | Self::Scan(_) | Self::Read { .. } | Self::TooLarge { .. } | Self::Store(_) => {
                self.kind().retry()
            }
        }
    }
}

/// Reading a snapshot back failed.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is no such snapshot in this slot.
    #[error("snapshot {snapshot} is not in the store")]
    NoSnapshot {
        /// Which one.
        snapshot: SnapshotId,
    },
    /// The roots that the caller named are not usable.
    #[error("the list of persisted roots is not usable: {detail}")]
    Roots {
        /// What is wrong with it.
        detail: String,
    },
    /// An object is missing, corrupt or cannot be read. Its name is in the error.
    #[error("while reading snapshot {snapshot}")]
    Store {
        /// Which snapshot.
        snapshot: SnapshotId,
        /// Which object, and why.
        #[source]
        source: StoreError,
    },
    /// The sink did not take an entry.
    #[error("while restoring {}", display_path(root, path))]
    Put {
        /// The root's container path.
        root: String,
        /// The path beneath it.
        path: Vec<u8>,
        /// Why.
        #[source]
        source: SourceError,
    },
    /// The sink could not finish.
    #[error("while finishing the restore")]
    Finish(#[source] SourceError),
    /// Listing the restored workspace failed.
    #[error("while scanning the restored workspace")]
    Scan(#[source] SourceError),
}

impl RestoreError {
    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NoSnapshot { .. } => ErrorKind::NotFound,
            Self::Roots { .. } => ErrorKind::Malformed,
            Self::Store { source, .. } => source.kind(),
            Self::Put { source, .. } | Self::Finish(source) | Self::Scan(source) => source.kind(),
        }
    }

    /// Whether doing it again can help.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        self.kind().retry()
    }
}
