//! The head: which snapshot is the newest, and who wrote it.

use super::envelope::{self, ObjectKind, Proof};
use super::keys::StoreKeys;
use crate::error::StoreError;
use crate::store::head_name;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use toolcell_model::{Acquisition, CommitId, FencingToken, Generation, ScopeKey, SnapshotId, UnixMillis};

/// A slot's head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The newest snapshot; none before the first one, and after a deletion.
    pub snapshot: Option<SnapshotId>,
    /// The token of the acquisition below: the floor of the next one.
    pub token: FencingToken,
    /// Who holds the slot, or held it last.
    pub acquisition: Acquisition,
    /// Grows with each stamp, commit and deletion.
    pub generation: Generation,
    /// This very write.
    pub commit: CommitId,
    /// The slot was deleted: a tombstone, until the next holder stamps it.
    pub deleted: bool,
    /// When it was written, by the writer's clock.
    pub written_at: UnixMillis,
}

impl Head {
    pub(crate) fn encode(&self, slot: &ScopeKey, keys: &StoreKeys) -> Result<Bytes, StoreError> {
        envelope::encode(ObjectKind::Head, &head_name(slot), Proof::Keyed(keys), self).map(Bytes::from)
    }

    pub(crate) fn decode(slot: &ScopeKey, keys: &StoreKeys, bytes: &[u8]) -> Result<Self, StoreError> {
        envelope::decode(ObjectKind::Head, &head_name(slot), Proof::Keyed(keys), bytes)
    }
}
