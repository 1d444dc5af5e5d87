//! The manifest: one snapshot.

use super::envelope::{self, ObjectKind, Proof};
use super::keys::{BlobId, StoreKeys};
use crate::entry::Meta;
use crate::error::StoreError;
use crate::store::{MAX_OBJECT_BYTES, ObjectName};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use toolcell_model::{FencingToken, Generation, ScopeKey, SnapshotId, TenantId, UnixMillis};

/// Most packs that one snapshot refers to. Small packs are merged long before.
pub(crate) const MAX_PACKS: usize = 65_536;
/// Most roots of one snapshot.
pub(crate) const MAX_ROOTS: usize = 256;

/// A pack that a snapshot needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PackRef {
    pub(crate) name: ObjectName,
    /// Its size.
    pub(crate) bytes: u64,
    /// How much of its end is the list of what it holds.
    pub(crate) footer_bytes: u32,
}

/// One persisted root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RootRecord {
    /// Its path in the container.
    pub(crate) path: String,
    pub(crate) meta: Meta,
    pub(crate) tree: BlobId,
    pub(crate) counts: Counts,
    /// Which of the manifest's packs it needs, so that a root that is carried over keeps them.
    pub(crate) packs: Vec<u32>,
}

/// What a root holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) files: u64,
    pub(crate) dirs: u64,
    pub(crate) bytes: u64,
    /// FIFOs, sockets and devices that were left out.
    pub(crate) specials: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.files = self.files.saturating_add(other.files);
        self.dirs = self.dirs.saturating_add(other.dirs);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.specials = self.specials.saturating_add(other.specials);
    }
}

/// One snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) snapshot: SnapshotId,
    pub(crate) slot: ScopeKey,
    pub(crate) tenant: TenantId,
    pub(crate) parent: Option<SnapshotId>,
    pub(crate) token: FencingToken,
    /// The head's generation if this snapshot is committed.
    pub(crate) generation: Generation,
    pub(crate) created_at: UnixMillis,
    pub(crate) image_digest: String,
    pub(crate) roots: Vec<RootRecord>,
    pub(crate) packs: Vec<PackRef>,
    /// Files that changed while they were read, three times.
    pub(crate) files_unstable: u64,
    /// Bytes of the packs that were written for it.
    pub(crate) new_bytes: u64,
}

impl Manifest {
    pub(crate) fn name(slot: &ScopeKey, snapshot: SnapshotId) -> ObjectName {
        ObjectName::manifest(slot, snapshot)
    }

    pub(crate) fn encode(&self, keys: &StoreKeys) -> Result<Bytes, StoreError> {
        let name = Self::name(&self.slot, self.snapshot);
        envelope::encode(ObjectKind::Manifest, name.as_str(), Proof::Keyed(keys), self).map(Bytes::from)
    }

    pub(crate) fn decode(
        slot: &ScopeKey,
        snapshot: SnapshotId,
        keys: &StoreKeys,
        bytes: &[u8],
    ) -> Result<Self, StoreError> {
        let name = Self::name(slot, snapshot);
        let manifest: Self = envelope::decode(ObjectKind::Manifest, name.as_str(), Proof::Keyed(keys), bytes)?;
        let corrupt = |detail: &str| Err(StoreError::corrupt(&name, detail));
        if manifest.snapshot != snapshot || manifest.slot != *slot {
            return corrupt("it describes another snapshot");
        }
        if manifest.roots.len() > MAX_ROOTS || manifest.packs.len() > MAX_PACKS {
            return corrupt("it has too many roots or packs");
        }
        if manifest.roots.iter().any(|root| root.packs.iter().any(|pack| *pack as usize >= manifest.packs.len())) {
            return corrupt("a root refers to a pack that is not listed");
        }
        if manifest.packs.iter().any(|pack| pack.bytes > MAX_OBJECT_BYTES || u64::from(pack.footer_bytes) > pack.bytes)
        {
            return corrupt("a pack is larger than packs are");
        }
        // Packs of other slots are those of a fork's source: same tenant, as whoever wrote this checked, and a blob of
        // another tenant would not match its id.
        if manifest.packs.iter().any(|pack| !pack.name.is_pack()) {
            return corrupt("it refers to an object that is no pack");
        }
        Ok(manifest)
    }
}
