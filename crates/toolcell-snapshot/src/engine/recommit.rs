//! Restoring an older snapshot: a new commit with the same content, never a rewind.

use super::{HeadWriter, SnapshotEngine};
use crate::error::{RecommitError, StoreError};
use crate::format::manifest::Manifest;
use crate::format::pin::PinPurpose;
use crate::index::SlotIndex;
use crate::receipt::SnapshotReceipt;
use std::sync::Arc;
use toolcell_model::{ScopeKey, SnapshotId};

impl SnapshotEngine {
    /// Makes a snapshot with the content of an older one of the same slot, and makes it the head. All roots are those
    /// of the older one. Nothing is copied. What is resident has to be restored anew: `index` afterwards knows no
    /// files.
    ///
    /// For the head's own snapshot nothing is written, and the receipt says so. Where the history cannot be followed,
    /// because a manifest of it is lost, any snapshot of the slot is taken.
    ///
    /// Safe to drop at any point, as a snapshot is.
    ///
    /// # Errors
    /// [`RecommitError`].
    pub async fn recommit(
        &self,
        writer: &mut HeadWriter,
        index: &mut SlotIndex,
        snapshot: SnapshotId,
    ) -> Result<SnapshotReceipt, RecommitError> {
        let started = self.clock.monotonic();
        self.settle(writer, index).await?;
        let mut receipt = self.blank_receipt(writer);
        let failed = |source| RecommitError::Store { snapshot, source };
        if writer.snapshot() == Some(snapshot) {
            let manifest = self.manifest(&writer.slot, snapshot).await.map_err(failed)?;
            receipt.describe(&manifest);
            receipt.unchanged = true;
        } else {
            let slot = writer.slot.clone();
            let pin = self.pin(&slot, snapshot, PinPurpose::Reader, "restore").await.map_err(failed)?;
            let result = async {
                let manifest = self.copy_for(writer, snapshot).await?;
                let data = self.open_packs(&manifest).await.map_err(failed)?.into_index(manifest.clone());
                let encoded = manifest.encode(&self.keys).map_err(failed)?;
                receipt.new_bytes = encoded.len() as u64;
                let name = Manifest::name(&writer.slot, manifest.snapshot);
                self.store.put_if_absent(&name, encoded).await.map_err(failed)?;
                if !self.holds(&pin) {
                    return Err(RecommitError::PinExpired { snapshot });
                }
                self.commit(writer, index, manifest.snapshot, SlotIndex { data: Arc::new(data) }).await?;
                receipt.describe(&manifest);
                Ok(())
            };
            let result = result.await;
            self.unpin(pin).await;
            result?;
        }
        receipt.duration = self.clock.monotonic().saturating_duration_since(started);
        Ok(receipt)
    }

    /// The manifest of a new snapshot with an older one's content.
    async fn copy_for(&self, writer: &HeadWriter, snapshot: SnapshotId) -> Result<Manifest, RecommitError> {
        let failed = |source| RecommitError::Store { snapshot, source };
        let old = match self.manifest(&writer.slot, snapshot).await {
            Err(StoreError::NotFound { .. }) => return Err(RecommitError::NoSnapshot { snapshot }),
            found => found.map_err(failed)?,
        };
        if !self.may_be_history(&writer.slot, writer.snapshot(), &old).await.map_err(failed)? {
            return Err(RecommitError::NotInHistory { snapshot });
        }
        let id = SnapshotId::generate()
            .map_err(|error| failed(StoreError::internal("a new manifest", error.to_string())))?;
        Ok(Manifest {
            snapshot: id,
            slot: writer.slot.clone(),
            tenant: writer.tenant.clone(),
            parent: writer.snapshot(),
            token: writer.token(),
            generation: self.next_generation(&writer.slot, Some(writer.generation())).map_err(failed)?,
            created_at: self.clock.now(),
            new_bytes: 0,
            ..old
        })
    }

    /// Whether a snapshot is in the ancestry of the newest one, or that cannot be told because the ancestry is broken.
    async fn may_be_history(
        &self,
        slot: &ScopeKey,
        newest: Option<SnapshotId>,
        wanted: &Manifest,
    ) -> Result<bool, StoreError> {
        let mut next = newest;
        while let Some(snapshot) = next {
            if snapshot == wanted.snapshot {
                return Ok(true);
            }
            match self.manifest(slot, snapshot).await {
                // Generations fall along the ancestry, so that this ends.
                Ok(manifest) if manifest.generation <= wanted.generation => return Ok(false),
                Ok(manifest) => next = manifest.parent,
                Err(StoreError::NotFound { .. } | StoreError::Corrupt { .. }) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}
