//! Merging small packs: a slot that is saved every few seconds would otherwise end with thousands of them.

use super::SnapshotEngine;
use super::upload::Uploader;
use crate::error::StoreError;
use crate::format::keys::{BlobId, TenantKeys};
use crate::format::pack::{self, Sealed};
use crate::index::{IndexBody, IndexData, IndexNode};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Packs below this size are small.
const SMALL_PACK_BYTES: u64 = 4 * 1024 * 1024;
/// A snapshot that would refer to more small packs merges them.
const MAX_SMALL_PACKS: usize = 24;

/// Numbers of packs.
pub(super) type PackSet = BTreeSet<u32>;

/// Calls `note` with the pack of each blob that a node refers to. A blob without a place is a defect here, and is never
/// committed.
pub(super) fn each_blob(
    node: &IndexNode,
    old: &IndexData,
    uploader: &Uploader,
    mut note: impl FnMut(u32, &BlobId),
) -> Result<(), StoreError> {
    let mut find = |id: &BlobId| {
        let place = uploader.places.get(id).or_else(|| old.blobs.get(id));
        let (number, _) =
            place.ok_or_else(|| StoreError::internal("a new manifest", format!("blob {id:?} is nowhere")))?;
        note(*number, id);
        Ok(())
    };
    match &node.body {
        IndexBody::Dir { tree, parts, .. } => std::iter::once(tree).chain(parts).try_for_each(&mut find),
        IndexBody::File { extents, lists, .. } => {
            extents.iter().map(|extent| &extent.chunk).chain(lists).try_for_each(&mut find)
        }
        IndexBody::Symlink { .. } | IndexBody::Hardlink { .. } => Ok(()),
    }
}

impl SnapshotEngine {
    /// If there are too many small packs among those that are `needed`, copies what `nodes` refer to in them to the pack
    /// that is being filled, and answers `true`. `pinned` packs are needed for other reasons too. A pack that cannot be
    /// read is left alone: restoring says what is wrong with it.
    pub(super) async fn merge_small_packs(
        &self,
        keys: &TenantKeys,
        old: &IndexData,
        nodes: &[IndexNode],
        needed: &PackSet,
        pinned: &PackSet,
        uploader: &mut Uploader,
    ) -> Result<bool, StoreError> {
        let is_small =
            |number: &u32, bytes: u64| bytes < SMALL_PACK_BYTES && needed.contains(number) && !pinned.contains(number);
        let small: Vec<_> = old.packs.iter().filter(|(number, pack)| is_small(number, pack.bytes)).collect();
        if small.len() <= MAX_SMALL_PACKS {
            return Ok(false);
        }
        let mut live: HashMap<u32, HashSet<BlobId>> =
            small.iter().map(|(number, _)| (**number, HashSet::new())).collect();
        for node in nodes {
            each_blob(node, old, uploader, |number, id| {
                if let Some(live) = live.get_mut(&number) {
                    live.insert(*id);
                }
            })?;
        }
        for (number, pack) in small {
            let Ok(data) = self.store.get(&pack.name, pack.bytes).await else { continue };
            let wanted = live.get(number).into_iter().flatten();
            let mut places: Vec<_> =
                wanted.filter_map(|id| old.blobs.get(id).map(|(_, place)| (*id, *place))).collect();
            places.sort_unstable_by_key(|(_, place)| place.offset);
            let keys = keys.clone();
            let copied = tokio::task::spawn_blocking(move || -> Option<Vec<Sealed>> {
                let copy = |(id, place): (BlobId, pack::Place)| {
                    let (start, len) = (place.offset as usize, place.stored_bytes as usize);
                    let end = start.checked_add(len).filter(|end| *end <= data.len())?;
                    let stored = data.slice(start..end);
                    pack::open(&keys, id, &place, &stored).ok()?;
                    let pack::Place { kind, codec, plain_bytes, .. } = place;
                    Some(Sealed { id, kind, codec, plain_bytes, stored })
                };
                places.into_iter().map(copy).collect()
            });
            if let Ok(Some(copied)) = copied.await {
                uploader.push(&copied).await?;
            }
        }
        Ok(true)
    }
}
