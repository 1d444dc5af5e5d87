//! Pins, which keep a snapshot's objects from collection, and what a fork's target remembers of its pin.

use super::envelope::{self, ObjectKind, Proof};
use super::keys::StoreKeys;
use super::manifest::MAX_PACKS;
use crate::error::StoreError;
use crate::store::ObjectName;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use toolcell_model::{ScopeKey, SnapshotId, UnixMillis};

/// What a snapshot is pinned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PinPurpose {
    Reader,
    Fork,
}

/// A promise that somebody needs a snapshot, or at least its packs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pin {
    pub(crate) purpose: PinPurpose,
    /// Who: a slot's key for a fork, otherwise words for a person.
    pub(crate) owner: String,
    pub(crate) snapshot: SnapshotId,
    /// For a fork, the packs that its target needs; the manifest need not stay. Empty while the manifest is read.
    pub(crate) packs: Vec<ObjectName>,
    pub(crate) created_at: UnixMillis,
    /// None for the pin of a fork that has read the manifest.
    pub(crate) expires_at: Option<UnixMillis>,
}

impl Pin {
    pub(crate) fn encode(&self, name: &ObjectName, keys: &StoreKeys) -> Result<Bytes, StoreError> {
        envelope::encode(ObjectKind::Pin, name.as_str(), Proof::Keyed(keys), self).map(Bytes::from)
    }

    pub(crate) fn decode(name: &ObjectName, keys: &StoreKeys, bytes: &[u8]) -> Result<Self, StoreError> {
        let pin: Self = envelope::decode(ObjectKind::Pin, name.as_str(), Proof::Keyed(keys), bytes)?;
        if pin.packs.len() > MAX_PACKS || !pin.packs.iter().all(ObjectName::is_pack) {
            return Err(StoreError::corrupt(name, "it lists what cannot be a snapshot's packs"));
        }
        Ok(pin)
    }
}

/// Where a fork's target has its pin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ForkNote {
    pub(crate) source: ScopeKey,
    pub(crate) pin: ObjectName,
}

impl ForkNote {
    pub(crate) fn encode(&self, name: &ObjectName, keys: &StoreKeys) -> Result<Bytes, StoreError> {
        envelope::encode(ObjectKind::ForkNote, name.as_str(), Proof::Keyed(keys), self).map(Bytes::from)
    }

    pub(crate) fn decode(name: &ObjectName, keys: &StoreKeys, bytes: &[u8]) -> Result<Self, StoreError> {
        let note: Self = envelope::decode(ObjectKind::ForkNote, name.as_str(), Proof::Keyed(keys), bytes)?;
        if note.pin.slot().as_ref() != Some(&note.source) || note.pin.parts().1 != "pins" {
            return Err(StoreError::corrupt(name, "it names what is no pin of its source"));
        }
        Ok(note)
    }
}
