//! The operations as the faces call them. Each is a task of the runtime's own: a client that goes away halfway changes
//! nothing of what it has asked for.

use super::{OperateError, SlotIdentity, SlotView};
use crate::activity::Activity;
use crate::inner::Inner;
use crate::start::Runtime;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::mpsc::Receiver;
use toolcell_model::{ScopeKey, SnapshotId, TenantId};
use toolcell_snapshot::{ArchiveFormat, GcReceipt, SnapshotInfo, VerifyReport};
use toolcell_state::{Cursor, Page};

impl Runtime {
    /// A page of the tenant's slots, by key. A page may have fewer than `limit` slots although more follow.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn slots(
        &self,
        tenant: &TenantId,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<SlotView>, OperateError> {
        self.inner.list_slots(tenant, cursor, limit).await
    }

    /// One slot.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn slot(&self, tenant: &TenantId, key: &ScopeKey) -> Result<SlotView, OperateError> {
        self.inner.show_slot(tenant, key).await
    }

    /// What is being done for a slot at this moment, in this process.
    #[must_use]
    pub fn activity(&self, key: &ScopeKey) -> Option<Activity> {
        self.inner.activity(key)
    }

    /// As [`Runtime::activity`], for the slot that calls of this identity share.
    ///
    /// # Errors
    /// [`OperateError::UnknownAgent`], [`OperateError::IdentityRequired`].
    pub fn activity_of(&self, named: &SlotIdentity) -> Result<Option<Activity>, OperateError> {
        Ok(self.inner.activity(&self.inner.tuple_of(named)?.key()))
    }

    /// The slot that calls of this identity share, if it has ever been used.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn slot_of(&self, named: &SlotIdentity) -> Result<Option<SlotView>, OperateError> {
        self.inner.find_slot(named).await
    }

    /// Makes the slot of this identity known without starting anything in it, so that it can be filled from an archive.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn make_slot(&self, named: &SlotIdentity) -> Result<SlotView, OperateError> {
        let key = self.inner.make_known(&self.inner.tuple_of(named)?).await?;
        self.inner.show_slot(&named.tenant, &key).await
    }

    /// Saves a slot and removes its container when its calls have ended. The next call starts a new one.
    ///
    /// # Errors
    /// [`OperateError`]; where it could not be saved everything stays as it is.
    pub async fn stop_slot(&self, tenant: &TenantId, key: &ScopeKey) -> Result<(), OperateError> {
        let (tenant, key) = (tenant.clone(), key.clone());
        self.operate(move |inner| async move { inner.operate_stop(&tenant, &key).await }).await
    }

    /// Saves a slot now, beside its calls; answers with the newest snapshot.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn snapshot_slot(&self, tenant: &TenantId, key: &ScopeKey) -> Result<SnapshotId, OperateError> {
        let (tenant, key) = (tenant.clone(), key.clone());
        self.operate(move |inner| async move { inner.operate_snapshot(&tenant, &key).await }).await
    }

    /// Deletes a slot with everything that was saved of it, when its calls have ended. The next call in it starts empty.
    ///
    /// # Errors
    /// [`OperateError`]; before its head is replaced nothing has changed.
    pub async fn delete_slot(&self, tenant: &TenantId, key: &ScopeKey) -> Result<(), OperateError> {
        let (tenant, key) = (tenant.clone(), key.clone());
        self.operate(move |inner| async move { inner.operate_delete(&tenant, &key).await }).await
    }

    /// A slot's snapshots, newest first.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn history(&self, tenant: &TenantId, key: &ScopeKey) -> Result<Vec<SnapshotInfo>, OperateError> {
        self.inner.operate_history(tenant, key).await
    }

    /// Reads and checks one snapshot, or a slot's whole history. What is damaged is in the answer, not an error.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn verify(
        &self,
        tenant: &TenantId,
        key: &ScopeKey,
        snapshot: Option<SnapshotId>,
    ) -> Result<VerifyReport, OperateError> {
        self.inner.operate_verify(tenant, key, snapshot).await
    }

    /// Removes snapshots that retention does not keep, and what nothing needs any more.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn gc(&self, tenant: &TenantId, key: &ScopeKey) -> Result<GcReceipt, OperateError> {
        let (tenant, key) = (tenant.clone(), key.clone());
        self.operate(move |inner| async move { inner.operate_gc(&tenant, &key).await }).await
    }

    /// Makes an older snapshot the newest one, as a new commit, when the slot's calls have ended; what is there is saved
    /// first. Answers with the id that it has as the newest. The next call starts from it.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn restore(
        &self,
        tenant: &TenantId,
        key: &ScopeKey,
        snapshot: SnapshotId,
    ) -> Result<SnapshotId, OperateError> {
        let (tenant, key) = (tenant.clone(), key.clone());
        self.operate(move |inner| async move { inner.operate_restore(&tenant, &key, snapshot).await }).await
    }

    /// Copies a slot's snapshot, the newest one if none is named, to a slot of the same tenant that has no head. Answers
    /// with the target's key and its snapshot.
    ///
    /// # Errors
    /// [`OperateError::TargetNotEmpty`]; others.
    pub async fn fork(
        &self,
        tenant: &TenantId,
        key: &ScopeKey,
        snapshot: Option<SnapshotId>,
        to: &SlotIdentity,
    ) -> Result<(ScopeKey, SnapshotId), OperateError> {
        let (tenant, key, to) = (tenant.clone(), key.clone(), to.clone());
        self.operate(move |inner| async move { inner.operate_fork(&tenant, &key, snapshot, &to).await }).await
    }

    /// A snapshot's files as an archive, the newest one's if none is named, as it is made; an error ends it. Dropping the
    /// receiver ends it, too.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn export(
        &self,
        tenant: &TenantId,
        key: &ScopeKey,
        snapshot: Option<SnapshotId>,
        format: ArchiveFormat,
    ) -> Result<Receiver<Result<Bytes, OperateError>>, OperateError> {
        self.inner.operate_export(tenant, key, snapshot, format).await
    }

    /// Replaces a slot's files by an archive's, plain or compressed with zstd, as a new commit, when the slot's calls have
    /// ended; what is there is saved first. Roots that the archive does not have stay as they are. Answers with the new
    /// snapshot. An archive that ends with an error, or too early, commits nothing.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn import(
        &self,
        tenant: &TenantId,
        key: &ScopeKey,
        archive: Receiver<std::io::Result<Bytes>>,
    ) -> Result<SnapshotId, OperateError> {
        let (tenant, key) = (tenant.clone(), key.clone());
        self.operate(move |inner| async move { inner.operate_import(&tenant, &key, archive).await }).await
    }

    /// Runs an operation to its end, whether or not somebody still waits for it.
    pub(super) async fn operate<T, F>(&self, work: impl FnOnce(Arc<Inner>) -> F) -> Result<T, OperateError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, OperateError>> + Send + 'static,
    {
        let work = work(Arc::clone(&self.inner));
        self.inner.tasks.spawn(work).await.unwrap_or_else(|error| Err(OperateError::Internal(error.to_string())))
    }
}
