//! A snapshot of one slot as the first snapshot of another: nothing is copied.
//!
//! The target remembers that it is going to pin, pins in the source, reads the source's manifest, writes a pin that
//! lasts and lists the packs, its own manifest, and its head last. As long as the target needs one of those packs, the
//! pin stays in the source, whatever becomes of the source's snapshots; the target's collection removes it.

use super::{HeadWriter, SnapshotEngine};
use crate::error::{ForkError, StoreError};
use crate::format::manifest::Manifest;
use crate::format::pin::{ForkNote, Pin, PinPurpose};
use crate::index::SlotIndex;
use crate::receipt::SnapshotReceipt;
use crate::rules::Weakening;
use crate::store::{MAX_OBJECT_BYTES, ObjectName};
use std::sync::Arc;
use toolcell_model::{ScopeKey, SnapshotId};

impl SnapshotEngine {
    /// Makes a snapshot of another slot of the same tenant the first one of the target's. The writer holds the target;
    /// the source need not be held. Takes the same time whatever the snapshot's size.
    ///
    /// Not cancel-safe: one that was dropped may have happened. What it left behind is found by the target's next
    /// holder's collection.
    ///
    /// # Errors
    /// [`ForkError`].
    pub async fn fork(
        &self,
        source: &ScopeKey,
        snapshot: SnapshotId,
        target: &mut HeadWriter,
        index: &mut SlotIndex,
    ) -> Result<SnapshotReceipt, ForkError> {
        let started = self.clock.monotonic();
        let failed = |source| ForkError::Store { snapshot, source };
        self.settle(target, index).await?;
        if *source == target.slot {
            return Err(ForkError::Target { slot: target.slot.to_string() });
        }
        if target.snapshot().is_some() {
            return Err(ForkError::TargetNotEmpty { slot: target.slot.to_string() });
        }
        let early = if self.rules.lacks(Weakening::PinAfterManifest) {
            self.source_manifest(source, snapshot, target).await.map(Some)?
        } else {
            None
        };
        let pin = self.pin(source, snapshot, PinPurpose::Fork, target.slot.as_str()).await.map_err(failed)?;
        let forked = async {
            let manifest = match early {
                Some(manifest) => manifest,
                None => self.source_manifest(source, snapshot, target).await?,
            };
            let lasting = self.pin_for_good(&manifest, target).await.map_err(failed)?;
            let copy = self.copy_into(&manifest, target).map_err(failed)?;
            let data = self.open_packs(&copy).await.map_err(failed)?.into_index(copy.clone());
            let encoded = copy.encode(&self.keys).map_err(failed)?;
            let bytes = encoded.len() as u64;
            let name = Manifest::name(&target.slot, copy.snapshot);
            self.store.put_if_absent(&name, encoded).await.map_err(failed)?;
            // Both were there at one moment, and the first one holds yet: no collection can have missed both.
            self.store.get(&lasting, MAX_OBJECT_BYTES).await.map_err(failed)?;
            if !self.holds(&pin) {
                return Err(ForkError::PinExpired { snapshot });
            }
            self.commit(target, index, copy.snapshot, SlotIndex { data: Arc::new(data) }).await?;
            let mut receipt = self.blank_receipt(target);
            receipt.describe(&copy);
            receipt.new_bytes = bytes;
            receipt.duration = self.clock.monotonic().saturating_duration_since(started);
            Ok(receipt)
        };
        let forked = forked.await;
        self.unpin(pin).await;
        forked
    }

    async fn source_manifest(
        &self,
        source: &ScopeKey,
        snapshot: SnapshotId,
        target: &HeadWriter,
    ) -> Result<Manifest, ForkError> {
        let manifest = match self.manifest(source, snapshot).await {
            Err(StoreError::NotFound { .. }) => {
                return Err(ForkError::NoSnapshot { snapshot, slot: source.to_string() });
            }
            read => read.map_err(|source| ForkError::Store { snapshot, source })?,
        };
        if manifest.tenant == target.tenant {
            Ok(manifest)
        } else {
            Err(ForkError::Target { slot: target.slot.to_string() })
        }
    }

    /// Pins a snapshot's packs until the target no longer needs them.
    async fn pin_for_good(&self, manifest: &Manifest, target: &HeadWriter) -> Result<ObjectName, StoreError> {
        let pin_name = ObjectName::pin(&manifest.slot, true, self.random(&manifest.slot)?);
        let note = ForkNote { source: manifest.slot.clone(), pin: pin_name.clone() };
        let note_name = ObjectName::fork_note(&target.slot, target.token(), self.random(&target.slot)?);
        self.store.put_if_absent(&note_name, note.encode(&note_name, &self.keys)?).await?;
        let pin = Pin {
            purpose: PinPurpose::Fork,
            owner: target.slot.to_string(),
            snapshot: manifest.snapshot,
            packs: manifest.packs.iter().map(|pack| pack.name.clone()).collect(),
            created_at: self.clock.now(),
            expires_at: None,
        };
        self.store.put_if_absent(&pin_name, pin.encode(&pin_name, &self.keys)?).await?;
        Ok(pin_name)
    }

    fn copy_into(&self, manifest: &Manifest, target: &HeadWriter) -> Result<Manifest, StoreError> {
        let snapshot =
            SnapshotId::generate().map_err(|error| StoreError::internal("a new manifest", error.to_string()))?;
        Ok(Manifest {
            snapshot,
            slot: target.slot.clone(),
            tenant: target.tenant.clone(),
            parent: None,
            token: target.token(),
            generation: self.next_generation(&target.slot, Some(target.generation()))?,
            created_at: self.clock.now(),
            new_bytes: 0,
            ..manifest.clone()
        })
    }
}
