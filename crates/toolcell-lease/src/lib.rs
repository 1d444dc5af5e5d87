//! The exclusive, fenced right to a slot.
//!
//! **Owns** [`ExecutionGuard`] and its backends; [`LocalGuard`] is the one for a single host. **Never knows**
//! snapshots, containers or calls. **Read first**: [`guard`], then [`local`].
//!
//! A lease is a promise about who *may* write, not a wall: what stops a holder that lost it unawares is the compare
//! of token and acquisition in the write itself, at the head of the slot's snapshots.
#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::wildcard_enum_match_arm,
    clippy::arithmetic_side_effects
)]

pub mod error;
pub mod guard;
pub mod local;

pub use error::{GuardOpenError, LeaseError};
pub use guard::{ExecutionGuard, Holder, Holding, Lease};
pub use local::LocalGuard;
pub use toolcell_model::Retry;
