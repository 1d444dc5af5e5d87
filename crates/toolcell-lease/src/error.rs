//! Why a slot could not be had.

use crate::guard::Holder;
use std::io;
use std::path::PathBuf;
use toolcell_model::{FencingToken, Retry, ScopeKey};

/// Why an operation on a lease failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Someone else holds the slot, and went on holding it for as long as the caller was willing to wait.
    #[error("slot {key} is held{}", held_by(.holder.as_ref()))]
    Busy {
        /// The slot.
        key: ScopeKey,
        /// Who holds it, as far as can be told.
        holder: Option<Holder>,
    },
    /// The lease to be resumed is not the slot's newest: someone has acquired since, or there is no record of it.
    #[error("slot {key}: the lease with token {token} was superseded{}", recorded_as(*.recorded))]
    Superseded {
        /// The slot.
        key: ScopeKey,
        /// The token that was to be resumed.
        token: FencingToken,
        /// The newest recorded token; `None` where nothing is recorded.
        recorded: Option<FencingToken>,
    },
    /// The record of past tokens is damaged and the caller gave no floor to start from.
    #[error("slot {key}: the lease record {} is damaged; remove it if the slot has never been written", path.display())]
    Corrupt {
        /// The slot.
        key: ScopeKey,
        /// The damaged file.
        path: PathBuf,
    },
    /// No room to record the new token.
    #[error("no space left to record a lease in {}", path.display())]
    NoSpace {
        /// The file that could not be written.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The slot's tokens are used up.
    #[error("slot {key} has no fencing tokens left")]
    Exhausted {
        /// The slot.
        key: ScopeKey,
    },
    /// The guard's backend does not answer or refuses. Nothing is held.
    #[error("the lease of slot {key} is unavailable: {doing} failed")]
    Unavailable {
        /// The slot.
        key: ScopeKey,
        /// What was being done, with names.
        doing: String,
        /// What the backend or the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl LeaseError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Busy { .. } | Self::NoSpace { .. } | Self::Unavailable { .. } => Retry::Later,
            Self::Superseded { .. } | Self::Corrupt { .. } | Self::Exhausted { .. } => Retry::Never,
        }
    }
}

fn held_by(holder: Option<&Holder>) -> String {
    holder
        .map(|holder| format!(" by process {} (token {}, since {} ms)", holder.pid, holder.token, holder.since.0))
        .unwrap_or_default()
}

fn recorded_as(recorded: Option<FencingToken>) -> String {
    recorded.map_or_else(|| ": nothing is recorded".to_owned(), |token| format!(" by token {token}"))
}

/// Why a guard could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardOpenError {
    /// Locks on this kind of file system do not reliably exclude other hosts.
    #[error("{} is on {kind}, where file locks do not reliably exclude others; choose a local directory", path.display())]
    NetworkFileSystem {
        /// The directory.
        path: PathBuf,
        /// The file system's name.
        kind: &'static str,
    },
    /// The directory cannot be made or read.
    #[error("{doing} {} failed", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
