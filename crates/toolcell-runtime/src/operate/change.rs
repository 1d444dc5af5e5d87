//! Stopping, saving and deleting a slot.

use super::OperateError;
use crate::error::CallError;
use crate::inner::Inner;
use crate::slot::acquire::give_back;
use crate::slot::{Place, Residency, Slot};
use std::sync::Arc;
use toolcell_model::{ScopeKey, SnapshotId, TenantId};
use toolcell_snapshot::HeadWriter;

impl Inner {
    /// Saves the slot and removes its container; the next call starts a new one.
    pub(super) async fn operate_stop(&self, tenant: &TenantId, key: &ScopeKey) -> Result<(), OperateError> {
        self.known_slot(tenant, key).await?;
        let slot = self.slot_of_key(key, tenant);
        let place = self.enter_alone(&slot).await?;
        self.refuse_held(&slot).await?;
        self.put_away(&slot, &place).await
    }

    /// Saves the slot now; answers with its newest snapshot. Calls go on beside it.
    pub(super) async fn operate_snapshot(&self, tenant: &TenantId, key: &ScopeKey) -> Result<SnapshotId, OperateError> {
        self.known_slot(tenant, key).await?;
        if self.snapshots.keeps_nothing() {
            return Err(OperateError::KeepsNothing);
        }
        let failed = |error| OperateError::slot(key, error);
        let slot = self.slot_of_key(key, tenant);
        let resident = match slot.residency.lock().await.as_ref().filter(|residency| residency.is_usable()) {
            Some(residency) => Some(Arc::clone(residency)),
            None => None,
        };
        if let Some(residency) = resident {
            // What a process in the background writes is nobody's change: everything is looked at.
            let change = residency.begin_change().end();
            self.save(&residency, change).await.map_err(failed)?;
            let saved = residency.saved().snapshot;
            return saved.ok_or_else(|| OperateError::NothingSaved { key: key.clone() });
        }
        let place = self.enter_alone(&slot).await?;
        self.refuse_held(&slot).await?;
        self.put_away(&slot, &place).await?;
        drop(place);
        let head = self.live_head(key).await.map_err(OperateError::Store)?;
        head.and_then(|head| head.snapshot).ok_or_else(|| OperateError::NothingSaved { key: key.clone() })
    }

    /// Deletes the slot: what is saved and what is not. The next call in it starts empty.
    pub(super) async fn operate_delete(&self, tenant: &TenantId, key: &ScopeKey) -> Result<(), OperateError> {
        self.known_slot(tenant, key).await?;
        let slot = self.slot_of_key(key, tenant);
        let place = self.enter_alone(&slot).await?;
        if !self.delete_resident(&slot, &place).await? {
            self.delete_stored(&slot).await?;
        }
        self.state.remove_slot(key).await.map_err(OperateError::State)?;
        tracing::info!(slot = key.as_str(), "deleted");
        Ok(())
    }

    /// The head goes first: until then everything is as it was.
    async fn bury(&self, key: &ScopeKey, writer: &mut HeadWriter) -> Result<(), OperateError> {
        let buried = self.snapshots.tombstone(writer).await;
        buried.map_err(|source| OperateError::Commit { key: key.clone(), source })?;
        if self.snapshots.keeps_nothing() {
            return Ok(());
        }
        self.note_head(key, writer.generation()).await
    }

    async fn delete_resident(&self, slot: &Slot, place: &Place) -> Result<bool, OperateError> {
        let failed = |error| OperateError::slot(&slot.key, error);
        let mut resident = slot.residency.lock().await;
        let Some(residency) = resident.clone() else { return Ok(false) };
        if !residency.is_usable() {
            drop(resident);
            self.stop_slot(slot, place).await.map_err(failed)?;
            return Ok(false);
        }
        self.bury_resident(slot, &residency).await?;
        self.take_apart(slot, &residency).await.map_err(failed)?;
        *resident = None;
        Ok(true)
    }

    async fn bury_resident(&self, slot: &Slot, residency: &Residency) -> Result<(), OperateError> {
        let mut saver = residency.saver.lock().await;
        self.bury(&slot.key, &mut saver.writer).await?;
        // Nothing may be saved or run in it any more.
        residency.mark_lost();
        Ok(())
    }

    async fn delete_stored(&self, slot: &Slot) -> Result<(), OperateError> {
        let failed = |error| OperateError::slot(&slot.key, error);
        let mut held = self.hold(slot).await.map_err(failed)?;
        let binding = self.state.binding(&slot.key).await.map_err(OperateError::State)?;
        if let Err(error) = self.bury(&slot.key, &mut held.writer).await {
            give_back(held.lease, slot).await;
            return Err(error);
        }
        if let Some(binding) = held.container.clone().or(binding) {
            self.remove_quietly(&binding.container).await;
            self.state.remove_binding(&slot.key, binding.acquisition).await.map_err(OperateError::State)?;
        }
        self.remove_workspace(slot).await;
        give_back(held.lease, slot).await;
        Ok(())
    }

    /// What another process holds is not this one's to stop.
    async fn refuse_held(&self, slot: &Slot) -> Result<(), OperateError> {
        if slot.residency.lock().await.is_some() {
            return Ok(());
        }
        let holder = self.guard.holder(&slot.key).await;
        match holder.map_err(|error| OperateError::slot(&slot.key, CallError::Lease(error)))? {
            Some(_) => Err(OperateError::Busy { key: slot.key.clone() }),
            None => Ok(()),
        }
    }
}
