//! Why something could not be remembered or recalled.

use std::path::PathBuf;
use toolcell_model::{CallId, CallRef, CallState, FencingToken, Retry, ScopeKey};

/// Why an operation on the state store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The id names another call, or two calls of one batch.
    #[error("call id {id:?} is taken by a call with another tool or input, or occurs twice in the batch")]
    CallIdConflict {
        /// The caller's id.
        id: CallId,
    },
    /// A call was to end in a state that is no end.
    #[error("call {call} cannot end as {state}")]
    NotFinal {
        /// The call.
        call: CallRef,
        /// The state that was given.
        state: CallState,
    },
    /// A newer holder's binding is in place.
    #[error("slot {slot} is bound under token {recorded}")]
    Fenced {
        /// The slot.
        slot: ScopeKey,
        /// The newer holder's token.
        recorded: FencingToken,
    },
    /// The cursor is none that this listing gave out.
    #[error("the cursor is not one of this listing")]
    BadCursor,
    /// A number does not fit the store.
    #[error("{what} is too large to be stored")]
    OutOfRange {
        /// Which number.
        what: &'static str,
    },
    /// The file was written by a newer version of the program.
    #[error("{} has schema {found}, newer than the newest that this program knows ({known})", path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema known.
        known: i64,
    },
    /// The file is a database of something else.
    #[error("{} is not a state database", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// What is stored makes no sense.
    #[error("the state store is damaged: {doing} failed")]
    Corrupt {
        /// What was being done.
        doing: String,
        /// What was found.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store may not be written.
    #[error("the state store is read-only: {doing} failed")]
    ReadOnly {
        /// What was being done.
        doing: String,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store has no room.
    #[error("no space left in the state store: {doing} failed")]
    NoSpace {
        /// What was being done.
        doing: String,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Other processes kept the store locked for too long.
    #[error("the state store is locked by another process: {doing} failed")]
    Locked {
        /// What was being done.
        doing: String,
        /// What the store said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store cannot be reached or its medium fails.
    #[error("the state store is unavailable: {doing} failed")]
    Unavailable {
        /// What was being done.
        doing: String,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It was written, but whether it reached the disk is unknown.
    #[error("whether the state store kept it is unknown: {doing} failed")]
    Indeterminate {
        /// What was being done.
        doing: String,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A mistake of this program.
    #[error("{doing} failed unexpectedly")]
    Internal {
        /// What was being done.
        doing: String,
        /// What was wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StateError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::NoSpace { .. } | Self::Locked { .. } | Self::Unavailable { .. } => Retry::Later,
            Self::Indeterminate { .. } => Retry::Indeterminate,
            Self::CallIdConflict { .. }
            | Self::NotFinal { .. }
            | Self::Fenced { .. }
            | Self::BadCursor
            | Self::OutOfRange { .. }
            | Self::NewerSchema { .. }
            | Self::Foreign { .. }
            | Self::Corrupt { .. }
            | Self::ReadOnly { .. }
            | Self::Internal { .. } => Retry::Never,
        }
    }
}
