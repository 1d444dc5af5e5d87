//! Errors of archives that come in.

use super::{CommitError, ErrorKind, SnapshotError, StoreError};
use toolcell_model::Retry;

/// Importing an archive failed; the head is what it was, except for [`CommitError::DurabilityUnknown`].
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// An entry is refused: what it is, and why, is in the error.
    #[error("the archive's entry \"{path}\" is refused: {detail}")]
    Entry {
        /// Its name, shortened and escaped.
        path: String,
        /// Why.
        detail: String,
    },
    /// The archive cannot be decoded.
    #[error("the archive is malformed: {detail}")]
    Malformed {
        /// Where and how.
        detail: String,
    },
    /// It holds more than the bound on a workspace, or expands more than any archive of files does.
    #[error("the archive is too large: {detail}")]
    TooLarge {
        /// Which bound.
        detail: String,
    },
    /// Whoever sends the archive stopped.
    #[error("while receiving the archive")]
    Receive(#[source] std::io::Error),
    /// Building or committing the snapshot failed.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

impl From<CommitError> for ImportError {
    fn from(error: CommitError) -> Self {
        Self::Snapshot(error.into())
    }
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        Self::Snapshot(SnapshotError::Store(error))
    }
}

impl ImportError {
    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Entry { .. } | Self::Malformed { .. } => ErrorKind::Malformed,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::Receive(_) => ErrorKind::Unavailable,
            Self::Snapshot(error) => error.kind(),
        }
    }

    /// Whether doing it again can help.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Snapshot(error) => error.retry(),
            Self::Entry { .. } | Self::Malformed { .. } | Self::TooLarge { .. } | Self::Receive(_) => {
                self.kind().retry()
            }
        }
    }
}
