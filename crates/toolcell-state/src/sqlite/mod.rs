//! State in one SQLite file, `data_dir/state.db`, for the processes of one host.
//!
//! **Speed.** A tool call writes three times on its way. One connection writes, behind a mutex that is taken inline:
//! a write is tens of microseconds, less than handing it to another thread and back. Write-ahead logging without an
//! fsync per commit (`synchronous = NORMAL`) survives the death of the process; a thread of its own moves the log into
//! the database (`checkpoint.rs`), so that no caller pays for it. Reads have a second connection and see every commit.
//!
//! **Durability.** What must be on disk before it is acknowledged is committed the same way and then waits, on a
//! blocking thread and without the writer's mutex, for an fsync of the log. The log is one file written in order, so
//! that fsync carries everything before it along.
//!
//! **Other processes.** Writers of several processes wait for each other for up to [`BUSY_TIMEOUT`]; openings of the
//! store are one at a time. All this needs a local file system; on others neither SQLite's locks nor ours hold.

mod bindings;
mod calls;
mod checkpoint;
mod connection;
mod recovery;
mod rows;
mod schema;
mod sessions;
mod slots;
#[cfg(test)]
mod tests;

use crate::error::StateError;
use crate::owner::{Opening, OwnerId, Owners};
use crate::records::{
    BatchRecord, Binding, CallFilter, CallRecord, CallUpdate, Cursor, FinishedCall, NewBatch, Page, Recorded,
    SessionKey, SessionPermissions, SlotRecord,
};
use crate::store::StateStore;
use async_trait::async_trait;
use checkpoint::Checkpointer;
pub use connection::BUSY_TIMEOUT;
use connection::{Log, Reader, Writer};
use std::path::Path;
use std::sync::Arc;
use toolcell_model::{
    Acquisition, BatchId, CallRef, CallState, FencingToken, Generation, InstanceId, ScopeKey, ScopeTuple, UnixMillis,
};

/// The file under the data directory.
pub const FILE_NAME: &str = "state.db";

/// State in one SQLite file.
///
/// Dropping it stops its thread and gives up its place among the owners: calls it leaves unfinished count as
/// abandoned from then on.
#[derive(Debug)]
pub struct SqliteStore {
    // In the order in which they are to be dropped: the last connection moves the log into the database and removes it.
    _checkpointer: Checkpointer,
    /// For what reads a row or two, on the caller's thread.
    reader: Reader,
    /// For what may read a lot, on a blocking thread, so that it keeps nobody else waiting.
    lister: Arc<Reader>,
    writer: Arc<Writer>,
    log: Arc<Log>,
    owners: Arc<Owners>,
    instance: InstanceId,
}

impl SqliteStore {
    /// Opens the store of `data_dir`, or makes it. The directory itself must be there. Blocks on the file system.
    ///
    /// # Errors
    /// [`StateError::NewerSchema`], [`StateError::Foreign`], [`StateError::Corrupt`], or what the file system refused.
    pub fn open(data_dir: &Path) -> Result<Self, StateError> {
        let opening = Opening::begin(data_dir)?;
        let path = data_dir.join(FILE_NAME);
        let writer = Arc::new(Writer::open(&path)?);
        let instance = writer.with(|connection| schema::migrate(connection, &path))?;
        let reader = Reader::open(&path)?;
        let lister = Arc::new(Reader::open(&path)?);
        let log = Arc::new(Log::open(data_dir, &path)?);
        // The identity names containers: it must not change after a power cut.
        log.sync()?;
        let checkpointer = Checkpointer::start(&path, writer.writes())?;
        let owners = Arc::new(opening.register()?);
        Ok(Self { _checkpointer: checkpointer, reader, lister, writer, log, owners, instance })
    }

    /// Waits until everything committed so far is on disk.
    async fn durable(&self) -> Result<(), StateError> {
        let log = Arc::clone(&self.log);
        blocking("waiting for the disk", move || log.sync()).await
    }
}

async fn blocking<T: Send + 'static>(
    doing: &str,
    run: impl FnOnce() -> Result<T, StateError> + Send + 'static,
) -> Result<T, StateError> {
    tokio::task::spawn_blocking(run)
        .await
        .map_err(|error| StateError::Indeterminate { doing: doing.to_owned(), source: error.into() })?
}

#[async_trait]
impl StateStore for SqliteStore {
    fn instance_id(&self) -> &InstanceId {
        &self.instance
    }

    fn owner(&self) -> &OwnerId {
        self.owners.me()
    }

    async fn record_batch(&self, batch: NewBatch) -> Result<Vec<Recorded>, StateError> {
        calls::record_batch(&self.writer, self.owners.me(), &batch)
    }

    async fn claim_started(&self, call: &CallRef, token: FencingToken, now: UnixMillis) -> Result<bool, StateError> {
        calls::claim_started(&self.writer, self.owners.me(), call, token, now)
    }

    async fn set_state(&self, call: &CallRef, from: &[CallState], update: CallUpdate) -> Result<bool, StateError> {
        calls::set_state(&self.writer, self.owners.me(), call, from, &update)
    }

    async fn finish(&self, call: &CallRef, end: FinishedCall) -> Result<bool, StateError> {
        calls::finish(&self.writer, call, &end)
    }

    async fn call(&self, call: &CallRef) -> Result<Option<CallRecord>, StateError> {
        calls::call(&self.reader, call)
    }

    async fn calls(
        &self,
        filter: &CallFilter,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<CallRecord>, StateError> {
        let (lister, filter, cursor) = (Arc::clone(&self.lister), filter.clone(), cursor.cloned());
        blocking("listing calls", move || calls::list(&lister, &filter, cursor.as_ref(), limit)).await
    }

    async fn batch(&self, batch: &BatchId) -> Result<Option<BatchRecord>, StateError> {
        let (lister, batch) = (Arc::clone(&self.lister), batch.clone());
        blocking("reading a batch", move || calls::batch(&lister, &batch)).await
    }

    async fn take_over_abandoned(&self) -> Result<Vec<CallRecord>, StateError> {
        let (writer, owners) = (Arc::clone(&self.writer), Arc::clone(&self.owners));
        blocking("taking over abandoned calls", move || recovery::take_over_abandoned(&writer, &owners)).await
    }

    async fn put_binding(&self, binding: Binding) -> Result<(), StateError> {
        bindings::put(&self.writer, &binding)?;
        self.durable().await
    }

    async fn set_binding_restored(&self, slot: &ScopeKey, acquisition: Acquisition) -> Result<bool, StateError> {
        let set = bindings::set_restored(&self.writer, slot, acquisition)?;
        self.durable().await?;
        Ok(set)
    }

    async fn binding(&self, slot: &ScopeKey) -> Result<Option<Binding>, StateError> {
        bindings::one(&self.reader, slot)
    }

    async fn bindings(&self) -> Result<Vec<Binding>, StateError> {
        bindings::all(&self.reader)
    }

    async fn remove_binding(&self, slot: &ScopeKey, acquisition: Acquisition) -> Result<bool, StateError> {
        let removed = bindings::remove(&self.writer, slot, acquisition)?;
        self.durable().await?;
        Ok(removed)
    }

    async fn touch_slot(&self, key: &ScopeKey, tuple: &ScopeTuple, now: UnixMillis) -> Result<(), StateError> {
        slots::touch(&self.writer, key, tuple, now)
    }

    async fn remove_slot(&self, key: &ScopeKey) -> Result<bool, StateError> {
        slots::remove(&self.writer, key)
    }

    async fn slots(&self, cursor: Option<&Cursor>, limit: usize) -> Result<Page<SlotRecord>, StateError> {
        let (lister, cursor) = (Arc::clone(&self.lister), cursor.cloned());
        blocking("listing slots", move || slots::list(&lister, cursor.as_ref(), limit)).await
    }

    async fn slot(&self, key: &ScopeKey) -> Result<Option<SlotRecord>, StateError> {
        slots::one(&self.reader, key)
    }

    async fn note_generation(&self, key: &ScopeKey, generation: Generation) -> Result<(), StateError> {
        slots::note_generation(&self.writer, key, generation)?;
        self.durable().await
    }

    async fn highest_generation(&self, key: &ScopeKey) -> Result<Option<Generation>, StateError> {
        slots::highest_generation(&self.reader, key)
    }

    async fn session_permissions(&self, key: &SessionKey) -> Result<Option<SessionPermissions>, StateError> {
        sessions::read(&self.reader, key)
    }

    async fn put_session_permissions(
        &self,
        key: &SessionKey,
        was: Option<&SessionPermissions>,
        now: &SessionPermissions,
    ) -> Result<bool, StateError> {
        let put = sessions::put(&self.writer, key, was, now)?;
        self.durable().await?;
        Ok(put)
    }

    async fn expire(&self, before: UnixMillis) -> Result<Vec<CallRef>, StateError> {
        let (lister, writer) = (Arc::clone(&self.lister), Arc::clone(&self.writer));
        blocking("removing expired records", move || recovery::expire(&lister, &writer, before)).await
    }
}
