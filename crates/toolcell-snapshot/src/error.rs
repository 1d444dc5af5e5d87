//! What can go wrong, in the words that a caller decides by.

mod archive;
mod history;
mod operation;

use std::error::Error as StdError;
use toolcell_model::Retry;

pub use archive::ImportError;
pub use history::{ForkError, GcError, RecommitError};
pub use operation::{CommitError, OpenError, RestoreError, SnapshotError, StampError};

/// The cause of a failure below, whatever its type.
pub type Cause = Box<dyn StdError + Send + Sync + 'static>;

/// What kind of failure it is: what status codes, audit and retries are decided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The object, snapshot or path is not there.
    NotFound,
    /// Something of that name is there already.
    AlreadyExists,
    /// A compare-and-set found another value.
    PreconditionFailed,
    /// Another acquisition has the slot.
    Fenced,
    /// The head is absent, or older than what has been acknowledged.
    HeadMissing,
    /// It is not known whether a commit was made.
    DurabilityUnknown,
    /// Stored bytes are not what was written.
    Corrupt,
    /// The workspace's side broke its contract.
    Malformed,
    /// A bound was exceeded.
    TooLarge,
    /// The other side cannot be reached or is not working.
    Unavailable,
    /// Not permitted.
    Denied,
    /// No room.
    NoSpace,
    /// A defect here.
    Internal,
}

impl ErrorKind {
    pub(super) const fn retry(self) -> Retry {
        match self {
            Self::Unavailable | Self::NoSpace => Retry::Later,
            Self::DurabilityUnknown => Retry::Indeterminate,
            Self::NotFound
            | Self::AlreadyExists
            | Self::PreconditionFailed
            | Self::Fenced
            | Self::HeadMissing
            | Self::Corrupt
            | Self::Malformed
            | Self::TooLarge
            | Self::Denied
            | Self::Internal => Retry::Never,
        }
    }
}

/// An operation of a [`SnapshotStore`](crate::SnapshotStore) failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The object is not there.
    #[error("{object} is not in the store")]
    NotFound {
        /// The object's name.
        object: String,
    },
    /// A create-only write found an object.
    #[error("{object} is in the store already")]
    AlreadyExists {
        /// The object's name.
        object: String,
    },
    /// A compare-and-set found another value than the expected one.
    #[error("{object} has changed meanwhile")]
    PreconditionFailed {
        /// The object's name.
        object: String,
    },
    /// The object is not what was written.
    #[error("{object} is corrupt: {detail}")]
    Corrupt {
        /// The object's name.
        object: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The object exceeds a bound.
    #[error("{object} has {bytes} bytes; at most {max} are allowed")]
    TooLarge {
        /// The object's name.
        object: String,
        /// Its size.
        bytes: u64,
        /// The bound.
        max: u64,
    },
    /// The store cannot be reached or does not work; nothing was written.
    #[error("the store failed at {object}")]
    Unavailable {
        /// The object's name.
        object: String,
        /// Why.
        #[source]
        source: Cause,
    },
    /// A write was sent and its outcome is not known.
    #[error("it is not known whether {object} was written")]
    InDoubt {
        /// The object's name.
        object: String,
        /// Why.
        #[source]
        source: Cause,
    },
    /// The store refuses this process.
    #[error("the store denies access to {object}")]
    Denied {
        /// The object's name.
        object: String,
        /// Why.
        #[source]
        source: Cause,
    },
    /// The store is full; nothing of the object is visible.
    #[error("the store has no space for {object}")]
    NoSpace {
        /// The object's name.
        object: String,
    },
    /// A defect here.
    #[error("internal error at {object}")]
    Internal {
        /// The object's name.
        object: String,
        /// Why.
        #[source]
        source: Cause,
    },
}

impl StoreError {
    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::PreconditionFailed { .. } => ErrorKind::PreconditionFailed,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::Unavailable { .. } | Self::InDoubt { .. } => ErrorKind::Unavailable,
            Self::Denied { .. } => ErrorKind::Denied,
            Self::NoSpace { .. } => ErrorKind::NoSpace,
            Self::Internal { .. } => ErrorKind::Internal,
        }
    }

    /// Whether doing it again can help.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::InDoubt { .. } => Retry::Indeterminate,
            Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::PreconditionFailed { .. }
            | Self::Corrupt { .. }
            | Self::TooLarge { .. }
            | Self::Unavailable { .. }
            | Self::Denied { .. }
            | Self::NoSpace { .. }
            | Self::Internal { .. } => self.kind().retry(),
        }
    }

    /// The object that it is about.
    #[must_use]
    pub fn object(&self) -> &str {
        match self {
            Self::NotFound { object }
            | Self::AlreadyExists { object }
            | Self::PreconditionFailed { object }
            | Self::Corrupt { object, .. }
            | Self::TooLarge { object, .. }
            | Self::Unavailable { object, .. }
            | Self::InDoubt { object, .. }
            | Self::Denied { object, .. }
            | Self::NoSpace { object }
            | Self::Internal { object, .. } => object,
        }
    }

    pub(crate) fn corrupt(object: impl ToString, detail: impl Into<String>) -> Self {
        Self::Corrupt { object: object.to_string(), detail: detail.into() }
    }

    pub(crate) fn internal(object: impl ToString, source: impl Into<Cause>) -> Self {
        Self::Internal { object: object.to_string(), source: source.into() }
    }
}

/// A [`WorkspaceSource`](crate::WorkspaceSource) or [`WorkspaceSink`](crate::WorkspaceSink) failed.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The path is gone, or is no longer what the scan said it was. The snapshot goes on without it.
    #[error("it is no longer there")]
    Vanished,
    /// Not permitted.
    #[error("access was denied: {detail}")]
    Denied {
        /// What the other side says.
        detail: String,
    },
    /// No room for what is restored.
    #[error("there is no space left: {detail}")]
    NoSpace {
        /// What the other side says.
        detail: String,
    },
    /// A bound was exceeded.
    #[error("too large: {detail}")]
    TooLarge {
        /// What the other side says.
        detail: String,
    },
    /// The other side broke its contract.
    #[error("malformed: {detail}")]
    Malformed {
        /// How.
        detail: String,
    },
    /// The other side is not there.
    #[error("the workspace cannot be reached: {detail}")]
    Unavailable {
        /// What is known.
        detail: String,
    },
    /// Any other failure.
    #[error("{detail}")]
    Internal {
        /// What the other side says.
        detail: String,
    },
}

impl SourceError {
    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Vanished => ErrorKind::NotFound,
            Self::Denied { .. } => ErrorKind::Denied,
            Self::NoSpace { .. } => ErrorKind::NoSpace,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::Malformed { .. } => ErrorKind::Malformed,
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::Internal { .. } => ErrorKind::Internal,
        }
    }

    /// Whether doing it again can help.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        self.kind().retry()
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::Malformed { detail: detail.into() }
    }
}
