//! What Toolcell remembers between processes.
//!
//! **Owns** the records of batches and calls, the bindings of containers, the known slots, the permissions of sessions
//! and the identity of the data directory, behind [`StateStore`]; [`SqliteStore`] keeps them in one file. **Never knows** Docker or HTTP. **Read
//! first**: [`store`], then [`sqlite`].
//!
//! # What survives what
//!
//! | method | the process dies | the machine dies |
//! |---|---|---|
//! | `record_batch`, `claim_started`, `set_state`, `finish`, `take_over_abandoned`, `touch_slot`, `remove_slot`, `expire` | kept | the last second may be lost |
//! | `put_binding`, `set_binding_restored`, `remove_binding`, `note_generation`, `put_session_permissions` | kept | kept |
//!
//! The second row returns only after an fsync, which carries everything written before it along.

pub mod digest;
pub mod error;
pub mod owner;
pub mod records;
pub mod sqlite;
pub mod store;

pub use digest::canonical_json_digest;
pub use error::StateError;
pub use owner::OwnerId;
pub use records::{
    BatchRecord, Binding, CallFilter, CallRecord, CallUpdate, Cursor, FinishedCall, NewBatch, NewCall, Page, Recorded,
    SessionKey, SessionPermissions, SlotRecord,
};
pub use sqlite::SqliteStore;
pub use store::{MAX_PAGE, MAX_PAGE_BYTES, MAX_SESSION_TEXT_BYTES, StateStore};
pub use toolcell_model::Retry;
