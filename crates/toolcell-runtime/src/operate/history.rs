//! A slot's snapshots: looked at, verified, gone back to, copied, collected.

use super::{OperateError, SlotIdentity};
use crate::inner::Inner;
use crate::slot::Residency;
use std::sync::Arc;
use std::time::Duration;
use toolcell_model::{ScopeKey, SnapshotId, TenantId};
use toolcell_snapshot::{
    ErrorKind, ForkError, GcReceipt, HeadWriter, RecommitError, Retention, SlotIndex, SnapshotInfo, StoreError,
    VerifyReport,
};

impl Inner {
    pub(super) fn keeping_store(&self) -> Result<(), OperateError> {
        if self.snapshots.keeps_nothing() { Err(OperateError::KeepsNothing) } else { Ok(()) }
    }

    /// Newest first.
    pub(super) async fn operate_history(
        &self,
        tenant: &TenantId,
        key: &ScopeKey,
    ) -> Result<Vec<SnapshotInfo>, OperateError> {
        self.known_slot(tenant, key).await?;
        self.keeping_store()?;
        self.snapshots.history(key).await.map_err(OperateError::Store)
    }

    pub(super) async fn operate_verify(
        &self,
        tenant: &TenantId,
        key: &ScopeKey,
        snapshot: Option<SnapshotId>,
    ) -> Result<VerifyReport, OperateError> {
        self.known_slot(tenant, key).await?;
        self.keeping_store()?;
        self.refuse_missing(key, snapshot).await?;
        let verifying = self.doing(key, "verifying");
        self.snapshots.verify(key, snapshot, &verifying).await.map_err(OperateError::Store)
    }

    /// A snapshot that was named and is not there is a mistake of whoever named it, not a damaged one.
    pub(super) async fn refuse_missing(
        &self,
        key: &ScopeKey,
        snapshot: Option<SnapshotId>,
    ) -> Result<(), OperateError> {
        let Some(snapshot) = snapshot else { return Ok(()) };
        match self.snapshots.snapshot_info(key, snapshot).await {
            Err(StoreError::NotFound { .. }) => Err(OperateError::NoSnapshot { key: key.clone(), snapshot }),
            Ok(_) | Err(StoreError::Corrupt { .. }) => Ok(()),
            Err(error) => Err(OperateError::Store(error)),
        }
    }

    /// Makes an older snapshot the newest, after saving what is there. Answers with the id that it has as the newest.
    pub(super) async fn operate_restore(
        &self,
        tenant: &TenantId,
        key: &ScopeKey,
        snapshot: SnapshotId,
    ) -> Result<SnapshotId, OperateError> {
        self.known_slot(tenant, key).await?;
        self.keeping_store()?;
        self.refuse_missing(key, Some(snapshot)).await?;
        let mut taken = self.take(tenant, key).await?;
        let doing = self.doing(key, "going back");
        let mut index = SlotIndex::empty();
        let done = self.snapshots.recommit(&mut taken.held.writer, &mut index, snapshot).await;
        let done = match done {
            Ok(receipt) => self.note_head(key, receipt.generation).await.map(|()| receipt.snapshot.unwrap_or(snapshot)),
            Err(RecommitError::NoSnapshot { .. } | RecommitError::NotInHistory { .. }) => {
                Err(OperateError::NoSnapshot { key: key.clone(), snapshot })
            }
            Err(source) => Err(OperateError::Restore { key: key.clone(), source }),
        };
        drop(doing);
        taken.give_back().await;
        tracing::info!(slot = key.as_str(), %snapshot, done = done.is_ok(), "went back to an older snapshot");
        done
    }

    /// Copies a slot to one that has never been used, or was deleted. What is resident of the source here is saved first;
    /// of one that another process holds the newest snapshot is taken.
    pub(super) async fn operate_fork(
        &self,
        tenant: &TenantId,
        key: &ScopeKey,
        snapshot: Option<SnapshotId>,
        to: &SlotIdentity,
    ) -> Result<(ScopeKey, SnapshotId), OperateError> {
        self.known_slot(tenant, key).await?;
        self.keeping_store()?;
        self.refuse_missing(key, snapshot).await?;
        let tuple = self.tuple_of(to)?;
        let target = tuple.key();
        if target == *key || self.live_head(&target).await.map_err(OperateError::Store)?.is_some() {
            return Err(OperateError::TargetNotEmpty { key: target });
        }
        let snapshot = match snapshot {
            Some(snapshot) => snapshot,
            None => self.newest(key).await?,
        };
        // Nothing of it was saved, but calls may have made it resident meanwhile.
        let slot = self.slot(&tuple);
        let place = self.enter_alone(&slot).await?;
        if slot.residency.lock().await.is_some() {
            return Err(OperateError::TargetNotEmpty { key: target });
        }
        self.make_known(&tuple).await?;
        let mut taken = self.hold_alone(slot, place).await?;
        let doing = self.doing(&target, "copying");
        let forked = self.snapshots.fork(key, snapshot, &mut taken.held.writer, &mut SlotIndex::empty()).await;
        let done = match forked {
            Ok(receipt) => {
                let newest = receipt.snapshot.unwrap_or(snapshot);
                self.note_head(&target, receipt.generation).await.map(|()| (target.clone(), newest))
            }
            Err(error) => {
                // It has been stamped, and is as empty as it was: not something that stands in the way of the next try.
                self.bury_empty(&mut taken.held.writer).await;
                Err(match error {
                    ForkError::TargetNotEmpty { .. } => OperateError::TargetNotEmpty { key: target.clone() },
                    ForkError::NoSnapshot { snapshot, .. } => OperateError::NoSnapshot { key: key.clone(), snapshot },
                    source => OperateError::Fork { key: key.clone(), source },
                })
            }
        };
        drop(doing);
        taken.give_back().await;
        done
    }

    /// The slot's newest snapshot, with what is resident of it here saved.
    pub(super) async fn newest(&self, key: &ScopeKey) -> Result<SnapshotId, OperateError> {
        let slot = crate::inner::lock(&self.slots).get(key).cloned();
        if let Some(slot) = slot {
            let resident = slot.residency.lock().await.clone();
            if let Some(residency) = resident.filter(|residency| residency.is_usable()) {
                let change = residency.begin_change().end();
                self.save(&residency, change).await.map_err(|error| OperateError::slot(key, error))?;
            }
        }
        let head = self.live_head(key).await.map_err(OperateError::Store)?;
        head.and_then(|head| head.snapshot).ok_or_else(|| OperateError::NothingSaved { key: key.clone() })
    }

    async fn bury_empty(&self, writer: &mut HeadWriter) {
        if writer.snapshot().is_none()
            && let Err(error) = self.snapshots.tombstone(writer).await
        {
            tracing::warn!(slot = writer.slot().as_str(), %error, "an empty slot stays behind");
        }
    }

    /// Removes what retention does not keep and nothing needs. A resident slot goes on meanwhile, and is not saved.
    pub(super) async fn operate_gc(&self, tenant: &TenantId, key: &ScopeKey) -> Result<GcReceipt, OperateError> {
        self.known_slot(tenant, key).await?;
        self.keeping_store()?;
        let slot = self.slot_of_key(key, tenant);
        let resident = slot.residency.lock().await.clone().filter(|residency| residency.is_usable());
        if let Some(residency) = resident {
            return self.collect_resident(&residency).await;
        }
        let place = self.enter_alone(&slot).await?;
        let mut taken = self.hold_alone(Arc::clone(&slot), place).await?;
        let collected = self.collect(key, &mut taken.held.writer, &mut SlotIndex::empty()).await;
        taken.give_back().await;
        collected
    }

    async fn collect_resident(&self, residency: &Residency) -> Result<GcReceipt, OperateError> {
        // Saves wait meanwhile; calls do not.
        let mut saver = residency.saver.lock().await;
        let key = saver.writer.slot().clone();
        if residency.is_lost() {
            return Err(OperateError::Busy { key });
        }
        let saver = &mut *saver;
        self.collect(&key, &mut saver.writer, &mut saver.index).await
    }

    async fn collect(
        &self,
        key: &ScopeKey,
        writer: &mut HeadWriter,
        index: &mut SlotIndex,
    ) -> Result<GcReceipt, OperateError> {
        let doing = self.doing(key, "collecting");
        let collected = self.snapshots.gc(writer, index, &self.retention(), &doing).await;
        let receipt = collected.map_err(|source| OperateError::Gc { key: key.clone(), source })?;
        if receipt.packs_deleted > 0 || receipt.snapshots_dropped > 0 {
            tracing::info!(
                slot = key.as_str(),
                snapshots = receipt.snapshots_dropped,
                packs = receipt.packs_deleted,
                bytes = receipt.bytes_freed,
                "collected"
            );
        }
        Ok(receipt)
    }

    fn retention(&self) -> Retention {
        let config = &self.config.snapshots;
        Retention {
            keep_last: Some(u64::from(config.keep_last)),
            max_age: config.keep_age_ms.map(Duration::from_millis),
            max_bytes: config.keep_bytes.map(crate::config::ByteSize::bytes),
        }
    }

    /// A slot that is about to be stopped is cleaned up, if that is due. Failure costs only space, and the next stop
    /// tries again.
    pub(crate) async fn collect_at_stop(&self, residency: &Residency) {
        if self.snapshots.keeps_nothing() || !self.collection_is_due(residency).await {
            return;
        }
        match tokio::time::timeout(LONGEST_COLLECTION, self.collect_resident(residency)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(error = crate::error::chain(&error), "old snapshots could not be removed");
            }
            Err(_) => tracing::warn!("removing old snapshots takes too long: the next stop goes on with it"),
        }
    }

    /// A collection reads all manifests: it is not for every stop.
    async fn collection_is_due(&self, residency: &Residency) -> bool {
        residency.commits() >= u64::from(self.config.snapshots.keep_last).max(1)
    }

    /// The newest older snapshot that is whole, where the newest one is damaged.
    pub(crate) async fn offer_older(&self, key: &ScopeKey, damaged: ErrorKind) -> Option<SnapshotId> {
        match damaged {
            ErrorKind::NotFound | ErrorKind::Corrupt => {}
            ErrorKind::AlreadyExists
            | ErrorKind::PreconditionFailed
            | ErrorKind::Fenced
            | ErrorKind::HeadMissing
            | ErrorKind::DurabilityUnknown
            | ErrorKind::Malformed
            | ErrorKind::TooLarge
            | ErrorKind::Unavailable
            | ErrorKind::Denied
            | ErrorKind::NoSpace
            | ErrorKind::Internal => return None,
        }
        let looking = self.doing(key, "looking for a whole snapshot");
        let found = tokio::time::timeout(LONGEST_SEARCH, self.snapshots.newest_restorable(key, &looking)).await;
        match found {
            Ok(Ok(found)) => found.map(|info| info.snapshot),
            Ok(Err(error)) => {
                tracing::warn!(slot = key.as_str(), %error, "older snapshots could not be looked at");
                None
            }
            Err(_) => None,
        }
    }
}

/// A collection at a stop that takes longer is left: what it has removed was garbage, and the next one goes on.
const LONGEST_COLLECTION: Duration = Duration::from_secs(60);
/// A call that cannot be restored is answered after this at the latest, without a snapshot to offer.
const LONGEST_SEARCH: Duration = Duration::from_secs(30);
