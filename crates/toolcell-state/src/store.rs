//! The trait behind every state backend.

use crate::error::StateError;
use crate::owner::OwnerId;
use crate::records::{
    BatchRecord, Binding, CallFilter, CallRecord, CallUpdate, Cursor, FinishedCall, NewBatch, Page, Recorded,
    SessionKey, SessionPermissions, SlotRecord,
};
use async_trait::async_trait;
use std::fmt;
use toolcell_model::{
    Acquisition, BatchId, CallRef, CallState, FencingToken, Generation, InstanceId, ScopeKey, ScopeTuple, UnixMillis,
};

/// The most items of one page; a higher limit counts as this.
pub const MAX_PAGE: usize = 500;

/// A page of calls ends early once inputs and outputs reach this many bytes; it has at least one call.
pub const MAX_PAGE_BYTES: usize = 32 * 1024 * 1024;

/// Longest text of a session's permissions; a longer one is refused with [`StateError::OutOfRange`].
pub const MAX_SESSION_TEXT_BYTES: usize = 64 * 1024;

/// Keeps calls, bindings, slots and permissions of sessions.
///
/// What each method survives is in the table of the crate's documentation. Every method is cancel safe in the sense
/// that it happens wholly or not at all; which of the two is unknown to whoever drops its future.
///
/// Errors say what could not be done; [`StateError::retry`] says whether to try again.
#[async_trait]
pub trait StateStore: Send + Sync + fmt::Debug {
    /// The persistent identity of what is stored here, made once.
    fn instance_id(&self) -> &InstanceId;

    /// This opening of the store: what calls recorded through it are owned by.
    fn owner(&self) -> &OwnerId;

    /// Records a batch and its calls as queued, all or nothing. The answers are in the order of the calls.
    ///
    /// A call whose (tenant, agent, session, user, id) was recorded before with the same tool and input digest is
    /// [`Recorded::Existing`]. An absent session or user is distinct from every present one.
    ///
    /// # Errors
    /// [`StateError::CallIdConflict`] if an id was recorded with another tool or input, or occurs twice in the batch;
    /// nothing is recorded then.
    async fn record_batch(&self, batch: NewBatch) -> Result<Vec<Recorded>, StateError>;

    /// From queued to running, under `token`, by this owner. `false` if the call is not queued (any more).
    async fn claim_started(&self, call: &CallRef, token: FencingToken, now: UnixMillis) -> Result<bool, StateError>;

    /// From one of the states `from` to another one that can still change. `false` if the call stood elsewhere. A
    /// final state is never left, whatever `from` says.
    async fn set_state(&self, call: &CallRef, from: &[CallState], update: CallUpdate) -> Result<bool, StateError>;

    /// To a final state. `false` if the call had ended before, or is not recorded; what it ended with stays.
    ///
    /// # Errors
    /// [`StateError::NotFinal`] if the given state is none.
    async fn finish(&self, call: &CallRef, end: FinishedCall) -> Result<bool, StateError>;

    /// One call.
    async fn call(&self, call: &CallRef) -> Result<Option<CallRecord>, StateError>;

    /// Calls that match, newest first, at most `limit` ([`MAX_PAGE`], [`MAX_PAGE_BYTES`]). Calls recorded after the
    /// first page was read do not disturb the pages after it.
    ///
    /// # Errors
    /// [`StateError::BadCursor`].
    async fn calls(
        &self,
        filter: &CallFilter,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<CallRecord>, StateError>;

    /// One batch with its calls.
    async fn batch(&self, batch: &BatchId) -> Result<Option<BatchRecord>, StateError>;

    /// Queued and running calls whose owner is dead, oldest first; from now on this owner's. Of two processes that
    /// recover at the same time each gets other calls. Answers with at most [`MAX_PAGE`] calls: call it until nothing
    /// is left.
    async fn take_over_abandoned(&self) -> Result<Vec<CallRecord>, StateError>;

    /// Records which container a slot is bound to, in place of an older holder's binding.
    ///
    /// # Errors
    /// [`StateError::Fenced`] if a newer holder's binding is there.
    async fn put_binding(&self, binding: Binding) -> Result<(), StateError>;

    /// Records that the bound container's workspace is complete. `false` if the binding is not this acquisition's.
    async fn set_binding_restored(&self, slot: &ScopeKey, acquisition: Acquisition) -> Result<bool, StateError>;

    /// The binding of one slot.
    async fn binding(&self, slot: &ScopeKey) -> Result<Option<Binding>, StateError>;

    /// All bindings, by slot.
    async fn bindings(&self) -> Result<Vec<Binding>, StateError>;

    /// Forgets a binding. `false` if it is not this acquisition's.
    async fn remove_binding(&self, slot: &ScopeKey, acquisition: Acquisition) -> Result<bool, StateError>;

    /// Notes that a slot is used.
    async fn touch_slot(&self, key: &ScopeKey, tuple: &ScopeTuple, now: UnixMillis) -> Result<(), StateError>;

    /// Takes a slot out of the listing. `false` if it was not there. Its highest generation stays.
    async fn remove_slot(&self, key: &ScopeKey) -> Result<bool, StateError>;

    /// Slots that were touched, by key, at most `limit` ([`MAX_PAGE`]).
    ///
    /// # Errors
    /// [`StateError::BadCursor`].
    async fn slots(&self, cursor: Option<&Cursor>, limit: usize) -> Result<Page<SlotRecord>, StateError>;

    /// One slot, if it was touched and not removed since.
    async fn slot(&self, key: &ScopeKey) -> Result<Option<SlotRecord>, StateError>;

    /// Notes an acknowledged generation of a slot's head; a lower one than noted before changes nothing.
    async fn note_generation(&self, key: &ScopeKey, generation: Generation) -> Result<(), StateError>;

    /// The highest generation that was noted.
    async fn highest_generation(&self, key: &ScopeKey) -> Result<Option<Generation>, StateError>;

    /// What a session may do; `None` when nothing was ever put for exactly this key.
    async fn session_permissions(&self, key: &SessionKey) -> Result<Option<SessionPermissions>, StateError>;

    /// Puts a session's permissions in place of what was read before. `false`, and nothing happens, when something
    /// else is there by now: of two that change the same thing none undoes the other's.
    ///
    /// # Errors
    /// [`StateError::OutOfRange`] for a text beyond [`MAX_SESSION_TEXT_BYTES`].
    async fn put_session_permissions(
        &self,
        key: &SessionKey,
        was: Option<&SessionPermissions>,
        now: &SessionPermissions,
    ) -> Result<bool, StateError>;

    /// Removes calls that ended before `before`, and batches older than that none of whose calls is left. Answers with
    /// the calls removed.
    async fn expire(&self, before: UnixMillis) -> Result<Vec<CallRef>, StateError>;
}
