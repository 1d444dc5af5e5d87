//! Reading a snapshot back: blobs out of packs, trees out of blobs, everything checked.

use super::SnapshotEngine;
use crate::entry::{MAX_DEPTH, MAX_ENTRIES, MAX_PATH_BYTES, TimeNs};
use crate::error::StoreError;
use crate::format::keys::{BlobId, BlobMap, TenantKeys};
use crate::format::manifest::{Manifest, PackRef, RootRecord};
use crate::format::pack::{self, Place};
use crate::format::tree::{
    Content, Extent, TreeBlob, TreeBody, TreeEntry, check_extents, check_meta, decode_extents, decode_tree,
};
use crate::index::{IndexBody, IndexData, IndexNode, IndexRoot};
use crate::scan::NO_NODE;
use crate::store::SnapshotStore;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use toolcell_model::TenantId;

/// Footers that are read at a time.
const MAX_READS: usize = 8;
/// Most bytes before compression that are read and checked at a time.
pub(super) const GROUP_BYTES: u64 = 8 * 1024 * 1024;
/// Blobs with less than this between them are read at once.
const MAX_GAP_BYTES: u64 = 64 * 1024;

/// The blobs of one snapshot.
#[derive(Debug)]
pub(super) struct Packs {
    store: Arc<dyn SnapshotStore>,
    keys: TenantKeys,
    packs: BTreeMap<u32, PackRef>,
    blobs: BlobMap<(u32, Place)>,
    /// For messages.
    manifest: String,
}

impl SnapshotEngine {
    /// Reads what each of a snapshot's packs holds.
    pub(super) async fn open_packs(&self, manifest: &Manifest) -> Result<Packs, StoreError> {
        let name = Manifest::name(&manifest.slot, manifest.snapshot).to_string();
        self.open_pack_list(&manifest.packs, &manifest.tenant, name).await
    }

    /// Reads what each of some packs holds; `wanted_by` is for messages.
    pub(super) async fn open_pack_list(
        &self,
        packs: &[PackRef],
        tenant: &TenantId,
        wanted_by: String,
    ) -> Result<Packs, StoreError> {
        let mut blobs = BlobMap::default();
        let mut pending = packs.iter().zip(0u32..);
        let mut reads = FuturesUnordered::new();
        loop {
            while reads.len() < MAX_READS
                && let Some((pack, number)) = pending.next()
            {
                let footer = u64::from(pack.footer_bytes);
                reads.push(async move {
                    let read = self.store.get_range(&pack.name, pack.bytes.saturating_sub(footer), footer).await;
                    read.map(|footer| (pack, number, footer))
                });
            }
            let Some(read) = reads.next().await else { break };
            let (pack, number, footer) = read?;
            let entries = pack::decode_footer(&self.keys, pack, &footer)?;
            blobs.extend(entries.into_iter().map(|(id, place)| (id, (number, place))));
        }
        Ok(Packs {
            store: Arc::clone(&self.store),
            keys: self.keys.tenant(tenant),
            packs: (0u32..).zip(packs.iter().cloned()).collect(),
            blobs,
            manifest: wanted_by,
        })
    }
}

impl Packs {
    /// An index that knows which blobs there are, and no files.
    pub(super) fn into_index(self, manifest: Manifest) -> IndexData {
        IndexData { manifest: Some(manifest), blobs: self.blobs, packs: self.packs, ..IndexData::default() }
    }

    /// Every blob.
    pub(super) fn ids(&self) -> Vec<BlobId> {
        self.blobs.keys().copied().collect()
    }

    /// Where a blob is: a key to read blobs in the order in which they are stored.
    pub(super) fn place(&self, id: &BlobId) -> Result<(u32, Place), StoreError> {
        let place = self.blobs.get(id).copied();
        place.ok_or_else(|| StoreError::corrupt(&self.manifest, format!("blob {id:?} is in none of its packs")))
    }

    /// The name of the pack that a blob is in.
    pub(super) fn name_of(&self, id: &BlobId) -> String {
        let pack = self.blobs.get(id).and_then(|(number, _)| self.packs.get(number));
        pack.map_or_else(|| self.manifest.clone(), |pack| pack.name.to_string())
    }

    fn corrupt(&self, id: &BlobId, detail: impl Into<String>) -> StoreError {
        StoreError::corrupt(self.name_of(id), detail)
    }

    /// Splits blobs, in the order in which they are stored, into groups that are small enough to hold.
    pub(super) fn groups(&self, mut ids: Vec<BlobId>) -> Result<Vec<Vec<BlobId>>, StoreError> {
        let mut keyed = Vec::with_capacity(ids.len());
        for id in ids.drain(..) {
            let (number, place) = self.place(&id)?;
            keyed.push((number, place.offset, u64::from(place.plain_bytes), id));
        }
        keyed.sort_unstable_by_key(|(number, offset, _, id)| (*number, *offset, *id));
        keyed.dedup_by_key(|(_, _, _, id)| *id);
        let mut groups = vec![Vec::new()];
        let mut bytes = 0u64;
        for (_, _, plain, id) in keyed {
            if bytes.saturating_add(plain) > GROUP_BYTES && bytes > 0 {
                groups.push(Vec::new());
                bytes = 0;
            }
            bytes = bytes.saturating_add(plain);
            if let Some(group) = groups.last_mut() {
                group.push(id);
            }
        }
        Ok(groups)
    }

    /// Reads and checks blobs: the whole group is in memory.
    pub(super) async fn read(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, Vec<u8>>, StoreError> {
        let mut wanted: BTreeMap<u32, Vec<(BlobId, Place)>> = BTreeMap::new();
        for id in ids {
            let (number, place) = self.place(id)?;
            wanted.entry(number).or_default().push((*id, place));
        }
        let mut plains = HashMap::with_capacity(ids.len());
        for (number, mut blobs) in wanted {
            blobs.sort_unstable_by_key(|(_, place)| place.offset);
            for run in runs(blobs) {
                plains.extend(self.read_run(number, run).await?);
            }
        }
        Ok(plains)
    }

    /// Reads blobs that lie side by side in one pack.
    async fn read_run(&self, number: u32, run: Vec<(BlobId, Place)>) -> Result<Vec<(BlobId, Vec<u8>)>, StoreError> {
        let (Some(pack), Some((_, first))) = (self.packs.get(&number), run.first()) else {
            return Ok(Vec::new());
        };
        let start = u64::from(first.offset);
        let end = run.iter().map(|(_, place)| end_of(place)).max().unwrap_or(start);
        let data = self.store.get_range(&pack.name, start, end.saturating_sub(start)).await?;
        let (keys, name) = (self.keys.clone(), pack.name.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let open = |(id, place): (BlobId, Place)| {
                let from = usize::try_from(u64::from(place.offset) - start).ok();
                let stored = from.and_then(|from| data.get(from..from.checked_add(place.stored_bytes as usize)?));
                let stored = stored.ok_or_else(|| StoreError::corrupt(&name, "it ends too early"))?;
                let plain = pack::open(&keys, id, &place, stored).map_err(|why| StoreError::corrupt(&name, why))?;
                Ok((id, plain))
            };
            run.into_iter().map(open).collect()
        });
        opened.await.map_err(|error| StoreError::internal(&pack.name, error))?
    }

    /// Reads the trees of roots, level by level. Times and inodes are unknown, so that nothing counts as unchanged.
    pub(super) async fn trees(&self, roots: &[&RootRecord]) -> Result<IndexData, StoreError> {
        let mut data = IndexData::default();
        let mut level: Vec<(u32, BlobId, usize)> = Vec::new();
        for root in roots {
            let mut meta = root.meta.clone();
            check_meta(&mut meta).map_err(|why| StoreError::corrupt(&self.manifest, why))?;
            let at = u32::try_from(data.nodes.len()).unwrap_or(NO_NODE);
            let body = IndexBody::Dir { children: Vec::new(), tree: root.tree, parts: Vec::new() };
            data.nodes.push(unknown(NO_NODE, Box::default(), meta, body));
            data.roots.insert(root.path.clone(), IndexRoot { node: at, counts: root.counts });
            level.push((at, root.tree, 0));
        }
        let mut links = Vec::new();
        let mut depth = 0;
        while !level.is_empty() {
            if depth > MAX_DEPTH {
                return Err(StoreError::corrupt(
                    &self.manifest,
                    format!("more than {MAX_DEPTH} levels of directories"),
                ));
            }
            depth += 1;
            level = self.level(&mut data, level, &mut links).await?;
        }
        self.resolve_links(&mut data, links)?;
        Ok(data)
    }

    /// Reads one level of directories into `data`, and gives the next.
    async fn level(
        &self,
        data: &mut IndexData,
        level: Vec<(u32, BlobId, usize)>,
        links: &mut Vec<u32>,
    ) -> Result<Vec<(u32, BlobId, usize)>, StoreError> {
        let mut trees: HashMap<BlobId, TreeBlob> = HashMap::new();
        self.read_trees(level.iter().map(|(_, tree, _)| *tree).collect(), &mut trees).await?;
        let mut part_ids: Vec<BlobId> = Vec::new();
        for blob in trees.values() {
            if let TreeBlob::Parts(parts) = blob {
                part_ids.extend(parts);
            }
        }
        self.read_trees(part_ids, &mut trees).await?;

        let mut next = Vec::new();
        for (at, tree, path_bytes) in level {
            let (entries, parts): (Vec<&TreeEntry>, Vec<BlobId>) = match trees.get(&tree) {
                None => return Err(self.corrupt(&tree, "a directory is missing")),
                Some(TreeBlob::Entries(entries)) => (entries.iter().collect(), Vec::new()),
                Some(TreeBlob::Parts(parts)) => {
                    let mut entries = Vec::new();
                    for part in parts {
                        match trees.get(part) {
                            Some(TreeBlob::Entries(part)) => entries.extend(part),
                            Some(TreeBlob::Parts(_)) | None => return Err(self.corrupt(part, "a part in a part")),
                        }
                    }
                    (entries, parts.clone())
                }
            };
            if !entries.windows(2).all(|pair| matches!(pair, [a, b] if a.name < b.name)) {
                return Err(self.corrupt(&tree, "its names are not in order"));
            }
            if data.nodes.len() + entries.len() > MAX_ENTRIES {
                return Err(StoreError::corrupt(&self.manifest, format!("more than {MAX_ENTRIES} entries")));
            }
            let mut children = Vec::with_capacity(entries.len());
            for entry in entries {
                let child = u32::try_from(data.nodes.len()).unwrap_or(NO_NODE);
                children.push(child);
                let path_bytes = path_bytes + entry.name.len() + 1;
                if path_bytes > MAX_PATH_BYTES + 1 {
                    return Err(self.corrupt(&tree, "a path that is too long"));
                }
                let body = self.body(entry).await?;
                match &body {
                    IndexBody::Dir { tree, .. } => next.push((child, *tree, path_bytes)),
                    IndexBody::Hardlink { .. } => links.push(child),
                    IndexBody::File { .. } | IndexBody::Symlink { .. } => {}
                }
                data.nodes.push(unknown(at, entry.name.as_slice().into(), entry.meta.clone(), body));
            }
            if let Some(IndexNode { body: IndexBody::Dir { children: slot, parts: part_slot, .. }, .. }) =
                data.nodes.get_mut(at as usize)
            {
                *slot = children;
                *part_slot = parts;
            }
        }
        Ok(next)
    }

    async fn read_trees(&self, ids: Vec<BlobId>, trees: &mut HashMap<BlobId, TreeBlob>) -> Result<(), StoreError> {
        for group in self.groups(ids)? {
            for (id, plain) in self.read(&group).await? {
                let tree = decode_tree(&plain).map_err(|why| self.corrupt(&id, format!("directory {id:?}: {why}")))?;
                trees.insert(id, tree);
            }
        }
        Ok(())
    }

    async fn body(&self, entry: &TreeEntry) -> Result<IndexBody, StoreError> {
        Ok(match &entry.body {
            TreeBody::Dir { tree } => IndexBody::Dir { children: Vec::new(), tree: *tree, parts: Vec::new() },
            TreeBody::Symlink { target } => IndexBody::Symlink { target: target.as_slice().into() },
            TreeBody::Hardlink { to } => IndexBody::Hardlink { to: to.clone(), node: NO_NODE },
            TreeBody::File { size, content: Content::Inline(extents) } => {
                IndexBody::File { size: *size, extents: extents.as_slice().into(), lists: Vec::new() }
            }
            TreeBody::File { size, content: Content::Lists(lists) } => {
                let mut extents: Vec<Extent> = Vec::new();
                for list in lists {
                    let read = self.read(std::slice::from_ref(list)).await?;
                    let plain = read.get(list).map(Vec::as_slice).unwrap_or_default();
                    extents.extend(decode_extents(plain).map_err(|why| self.corrupt(list, why))?);
                }
                if let (Err(why), Some(list)) = (check_extents(&extents, *size), lists.first()) {
                    return Err(self.corrupt(list, why));
                }
                IndexBody::File { size: *size, extents: extents.into(), lists: lists.clone() }
            }
        })
    }

    /// Finds the files that hard links name.
    fn resolve_links(&self, data: &mut IndexData, links: Vec<u32>) -> Result<(), StoreError> {
        for link in links {
            let mut top = link;
            while let Some(parent) = data.node(top).map(|node| node.parent).filter(|parent| *parent != NO_NODE) {
                top = parent;
            }
            let target = match data.node(link).map(|node| &node.body) {
                Some(IndexBody::Hardlink { to, .. }) => find(data, top, to),
                _ => None,
            };
            let target =
                target.filter(|at| matches!(data.node(*at), Some(IndexNode { body: IndexBody::File { .. }, .. })));
            let Some(target) = target else {
                return Err(StoreError::corrupt(&self.manifest, "a hard link to a file that is not there"));
            };
            if let Some(IndexNode { body: IndexBody::Hardlink { node, .. }, .. }) = data.nodes.get_mut(link as usize) {
                *node = target;
            }
        }
        Ok(())
    }
}

fn find(data: &IndexData, root: u32, path: &[u8]) -> Option<u32> {
    path.split(|byte| *byte == b'/').try_fold(root, |at, name| match &data.node(at)?.body {
        IndexBody::Dir { children, .. } => {
            let found = children.binary_search_by(|child| data.node(*child).map(|node| &*node.name).cmp(&Some(name)));
            found.ok().and_then(|at| children.get(at).copied())
        }
        IndexBody::File { .. } | IndexBody::Symlink { .. } | IndexBody::Hardlink { .. } => None,
    })
}

fn unknown(parent: u32, name: Box<[u8]>, meta: crate::entry::Meta, body: IndexBody) -> IndexNode {
    let crate::entry::Meta { mode, mtime, xattrs } = meta;
    IndexNode { parent, name, mode, mtime, ctime: TimeNs::default(), inode: 0, device: 0, racy: true, xattrs, body }
}

fn end_of(place: &Place) -> u64 {
    u64::from(place.offset) + u64::from(place.stored_bytes)
}

/// Splits blobs of one pack, in order, where there are gaps.
fn runs(blobs: Vec<(BlobId, Place)>) -> Vec<Vec<(BlobId, Place)>> {
    let mut runs: Vec<Vec<(BlobId, Place)>> = Vec::new();
    let mut end = 0;
    for blob in blobs {
        let start = u64::from(blob.1.offset);
        let next = end_of(&blob.1);
        match runs.last_mut() {
            Some(run) if start <= end + MAX_GAP_BYTES => run.push(blob),
            Some(_) | None => runs.push(vec![blob]),
        }
        end = end.max(next);
    }
    runs
}
