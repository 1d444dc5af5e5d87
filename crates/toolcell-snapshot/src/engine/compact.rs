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

/// The blobs that a snapshot needs, by pack.
pub(super) type Live = HashMap<u32, HashSet<BlobId>>;

/// Collects what nodes refer to. A blob without a place is a defect here, and is never committed.
pub(super) fn live(nodes: &[IndexNode], old: &IndexData, uploader: &Uploader) -> Result<Live, StoreError> {
    let mut live = Live::new();
    let mut note = |id: &BlobId| {
        let place = uploader.places.get(id).or_else(|| old.blobs.get(id));
        let (number, _) =
            place.ok_or_else(|| StoreError::internal("a new manifest", format!("blob {id:?} is nowhere")))?;
        live.entry(*number).or_default().insert(*id);
        Ok(())
    };
    for node in nodes {
        match &node.body {
            IndexBody::Dir { tree, parts, .. } => std::iter::once(tree).chain(parts).try_for_each(&mut note)?,
            IndexBody::File { extents, lists, .. } => {
                extents.iter().map(|extent| &extent.chunk).chain(lists).try_for_each(&mut note)?;
            }
            IndexBody::Symlink { .. } | IndexBody::Hardlink { .. } => {}
        }
    }
    Ok(live)
}

impl SnapshotEngine {
    /// If there are too many small packs, copies what is needed of them to the pack that is being filled. `pinned` packs
    /// are needed for other reasons too. A pack that cannot be read is left alone: restoring says what is wrong with it.
    pub(super) async fn merge_small_packs(
        &self,
        keys: &TenantKeys,
        old: &IndexData,
        live: &Live,
        pinned: &BTreeSet<u32>,
        uploader: &mut Uploader,
    ) -> Result<(), StoreError> {
        let is_small = |number: &u32, bytes: u64| {
            bytes < SMALL_PACK_BYTES && live.contains_key(number) && !pinned.contains(number)
        };
        let small: Vec<_> = old.packs.iter().filter(|(number, pack)| is_small(number, pack.bytes)).collect();
        if small.len() <= MAX_SMALL_PACKS {
            return Ok(());
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
        Ok(())
    }
}
