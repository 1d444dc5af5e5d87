//! Restoring a snapshot.

use super::SnapshotEngine;
use super::build::meta;
use super::load::{GROUP_BYTES, Packs};
use super::snapshot::check_roots;
use crate::entry::{MAX_ITEM_BYTES, RestoreItem, WorkspaceSink};
use crate::error::{RestoreError, StoreError};
use crate::format::keys::BlobId;
use crate::format::manifest::{Counts, Manifest, RootRecord};
use crate::format::pin::PinPurpose;
use crate::format::tree::Extent;
use crate::index::{IndexBody, IndexData, IndexNode};
use crate::progress::{NoProgress, Phase, Progress, ProgressSink};
use crate::receipt::RestoreReceipt;
use crate::scan::NO_NODE;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use toolcell_model::{ScopeKey, SnapshotId};

/// A restore that is under way.
struct Restoring<'a> {
    snapshot: SnapshotId,
    packs: &'a Packs,
    tree: &'a IndexData,
    /// For each node the place of its root in the caller's list.
    root_of: Vec<u16>,
    roots: &'a [String],
    sink: &'a dyn WorkspaceSink,
    progress: &'a dyn ProgressSink,
    /// Files and bytes so far; at first the totals only.
    done: Mutex<Progress>,
}

impl SnapshotEngine {
    /// Puts the named roots of a snapshot into the sink. Every byte is checked before it is put, and the sink is only
    /// finished if everything was there; a missing or corrupt object fails the restore, and the error names it.
    ///
    /// May be dropped; what was put stays where the sink has it.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub async fn restore(
        &self,
        slot: &ScopeKey,
        snapshot: SnapshotId,
        roots: &[String],
        sink: &dyn WorkspaceSink,
    ) -> Result<RestoreReceipt, RestoreError> {
        self.restore_with(slot, snapshot, roots, sink, &NoProgress).await
    }

    /// A restore of a snapshot that may not be the head's, or by someone who does not hold the slot: it is pinned first
    /// and for as long as it takes, so that no collection takes it away.
    ///
    /// May be dropped; the pin then ends by itself.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub async fn restore_pinned(
        &self,
        slot: &ScopeKey,
        snapshot: SnapshotId,
        roots: &[String],
        sink: &dyn WorkspaceSink,
        progress: &dyn ProgressSink,
    ) -> Result<RestoreReceipt, RestoreError> {
        let failed = |source| RestoreError::Store { snapshot, source };
        let pin = self.pin(slot, snapshot, PinPurpose::Reader, "restore").await.map_err(failed)?;
        let restored = self.while_pinned(pin, self.restore_with(slot, snapshot, roots, sink, progress)).await;
        restored.map_err(failed)?
    }

    /// As [`restore`](Self::restore), with progress.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub async fn restore_with(
        &self,
        slot: &ScopeKey,
        snapshot: SnapshotId,
        roots: &[String],
        sink: &dyn WorkspaceSink,
        progress: &dyn ProgressSink,
    ) -> Result<RestoreReceipt, RestoreError> {
        let started = self.clock.monotonic();
        check_roots(roots).map_err(|detail| RestoreError::Roots { detail })?;
        let failed = |source| RestoreError::Store { snapshot, source };
        let manifest = self.manifest_to_restore(slot, snapshot).await?;
        let packs = self.open_packs(&manifest).await.map_err(failed)?;
        let records: Vec<&RootRecord> = manifest.roots.iter().filter(|root| roots.contains(&root.path)).collect();
        let tree = packs.trees(&records).await.map_err(failed)?;
        let root_of = root_of(&tree, roots);
        let mut counts = Counts::default();
        records.iter().for_each(|root| counts.add(root.counts));
        let totals = Progress {
            total_files: Some(counts.files),
            total_bytes: Some(counts.bytes),
            ..Progress::begin(Phase::Restore)
        };
        let done = Mutex::new(totals);
        Restoring { snapshot, packs: &packs, tree: &tree, root_of, roots, sink, progress, done }.run().await?;
        sink.finish().await.map_err(RestoreError::Finish)?;

        let absent = |root: &&String| !records.iter().any(|record| record.path == **root);
        Ok(RestoreReceipt {
            snapshot,
            files: counts.files,
            dirs: counts.dirs,
            bytes: counts.bytes,
            specials_skipped: counts.specials,
            roots_absent: roots.iter().filter(absent).cloned().collect(),
            duration: self.clock.monotonic().saturating_duration_since(started),
        })
    }

    pub(super) async fn manifest_to_restore(
        &self,
        slot: &ScopeKey,
        snapshot: SnapshotId,
    ) -> Result<Manifest, RestoreError> {
        match self.manifest(slot, snapshot).await {
            Err(StoreError::NotFound { .. }) => Err(RestoreError::NoSnapshot { snapshot }),
            found => found.map_err(|source| RestoreError::Store { snapshot, source }),
        }
    }
}

fn root_of(tree: &IndexData, roots: &[String]) -> Vec<u16> {
    let mut root_of = vec![0u16; tree.nodes.len()];
    for (path, root) in &tree.roots {
        let place = roots.iter().position(|named| named == path).and_then(|at| u16::try_from(at).ok());
        if let (Some(slot), Some(place)) = (root_of.get_mut(root.node as usize), place) {
            *slot = place;
        }
    }
    for at in 0..tree.nodes.len() {
        let parent = tree.nodes.get(at).map_or(NO_NODE, |node| node.parent);
        if let (Some(inherited), Some(slot)) = (root_of.get(parent as usize).copied(), root_of.get_mut(at)) {
            *slot = inherited;
        }
    }
    root_of
}

impl Restoring<'_> {
    async fn run(&self) -> Result<(), RestoreError> {
        // Nodes are in order of depth: directories come before what is in them.
        for (at, node) in self.nodes() {
            if let IndexBody::Dir { .. } = node.body {
                let (root, path) = self.location(at);
                self.put(RestoreItem::Dir { root, path, meta: meta(node) }).await?;
            }
        }
        self.small_files().await?;
        for (at, node) in self.nodes() {
            if let IndexBody::File { size, extents, .. } = &node.body
                && !is_small(extents)
            {
                self.large_file(at, node, *size, extents).await?;
            }
        }
        for (at, node) in self.nodes() {
            let (root, path) = self.location(at);
            match &node.body {
                IndexBody::Symlink { target } => {
                    let target = target.to_vec();
                    self.put(RestoreItem::Symlink { root, path, target, meta: meta(node) }).await?;
                }
                IndexBody::Hardlink { to, .. } => {
                    self.put(RestoreItem::Hardlink { root, path, to: to.clone() }).await?;
                }
                IndexBody::Dir { .. } | IndexBody::File { .. } => {}
            }
        }
        Ok(())
    }

    fn nodes(&self) -> impl Iterator<Item = (u32, &IndexNode)> {
        (0u32..).zip(&self.tree.nodes)
    }

    fn location(&self, at: u32) -> (u16, Vec<u8>) {
        (self.root_of.get(at as usize).copied().unwrap_or_default(), self.tree.path(at))
    }

    fn failed(&self, source: StoreError) -> RestoreError {
        RestoreError::Store { snapshot: self.snapshot, source }
    }

    async fn put(&self, item: RestoreItem) -> Result<(), RestoreError> {
        let (root, path) = item.location();
        let (root, path) = (usize::from(root), path.to_vec());
        let (files, bytes) = amount(&item);
        self.sink.put(item).await.map_err(|source| RestoreError::Put {
            root: self.roots.get(root).cloned().unwrap_or_default(),
            path,
            source,
        })?;
        if files + bytes > 0 {
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            done.files += files;
            done.bytes += bytes;
            self.progress.report(*done);
        }
        Ok(())
    }

    /// Files of at most one chunk, in the order in which the chunks are stored.
    async fn small_files(&self) -> Result<(), RestoreError> {
        let mut by_chunk: HashMap<BlobId, Vec<u32>> = HashMap::new();
        for (at, node) in self.nodes() {
            match &node.body {
                IndexBody::File { size, extents, .. } if is_small(extents) => match extents.first() {
                    Some(extent) => by_chunk.entry(extent.chunk).or_default().push(at),
                    None => self.put(self.file(at, node, *size, Vec::new(), true)).await?,
                },
                IndexBody::File { .. }
                | IndexBody::Dir { .. }
                | IndexBody::Symlink { .. }
                | IndexBody::Hardlink { .. } => {}
            }
        }
        let groups = self.packs.groups(by_chunk.keys().copied().collect()).map_err(|error| self.failed(error))?;
        // The next group is read and checked while this one is put.
        let mut groups = groups.into_iter();
        let mut next = match groups.next() {
            Some(group) => self.packs.read(&group).await.map(|read| (group, read)).map(Some),
            None => Ok(None),
        };
        while let Some((group, mut plains)) = next.map_err(|error| self.failed(error))? {
            let read_next = async {
                Ok(match groups.next() {
                    Some(group) => {
                        let read = self.packs.read(&group).await?;
                        Some((group, read))
                    }
                    None => None,
                })
            };
            let put_all = async {
                for chunk in group {
                    let plain = plains.remove(&chunk).unwrap_or_default();
                    self.put_small(by_chunk.get(&chunk).map(Vec::as_slice).unwrap_or_default(), plain).await?;
                }
                Ok::<(), RestoreError>(())
            };
            let (read, put) = tokio::join!(read_next, put_all);
            put?;
            next = read;
        }
        Ok(())
    }

    /// Puts files that have the same content.
    async fn put_small(&self, files: &[u32], plain: Vec<u8>) -> Result<(), RestoreError> {
        for at in files {
            let Some(node @ IndexNode { body: IndexBody::File { size, extents, .. }, .. }) = self.tree.node(*at) else {
                continue;
            };
            let Some(extent) = extents.first() else { continue };
            self.check_len(extent, &plain)?;
            if extent.offset == 0 {
                self.put(self.file(*at, node, *size, plain.clone(), true)).await?;
            } else {
                self.put(self.file(*at, node, *size, Vec::new(), false)).await?;
                self.put_extent(*at, extent.offset, plain.clone()).await?;
                self.end(*at).await?;
            }
        }
        Ok(())
    }

    async fn large_file(
        &self,
        at: u32,
        node: &IndexNode,
        size: u64,
        extents: &Arc<[Extent]>,
    ) -> Result<(), RestoreError> {
        self.put(self.file(at, node, size, Vec::new(), false)).await?;
        let mut rest = &**extents;
        while !rest.is_empty() {
            let mut bytes = 0u64;
            let fits = rest.iter().take_while(|extent| {
                bytes = bytes.saturating_add(u64::from(extent.bytes));
                bytes <= GROUP_BYTES
            });
            let (group, after) = rest.split_at(fits.count().clamp(1, rest.len()));
            rest = after;
            let ids: Vec<BlobId> = group.iter().map(|extent| extent.chunk).collect();
            let plains = self.packs.read(&ids).await.map_err(|error| self.failed(error))?;
            for extent in group {
                let plain = plains.get(&extent.chunk).map(Vec::as_slice).unwrap_or_default();
                self.check_len(extent, plain)?;
                let mut offset = extent.offset;
                for piece in plain.chunks(MAX_ITEM_BYTES) {
                    self.put_extent(at, offset, piece.to_vec()).await?;
                    offset = offset.saturating_add(piece.len() as u64);
                }
            }
        }
        self.end(at).await
    }

    fn check_len(&self, extent: &Extent, plain: &[u8]) -> Result<(), RestoreError> {
        if plain.len() == extent.bytes as usize {
            return Ok(());
        }
        let name = self.packs.name_of(&extent.chunk);
        Err(self.failed(StoreError::corrupt(name, format!("chunk {:?} has another length", extent.chunk))))
    }

    fn file(&self, at: u32, node: &IndexNode, size: u64, data: Vec<u8>, complete: bool) -> RestoreItem {
        let (root, path) = self.location(at);
        RestoreItem::File { root, path, meta: meta(node), size, data, complete }
    }

    async fn put_extent(&self, at: u32, offset: u64, data: Vec<u8>) -> Result<(), RestoreError> {
        let (root, path) = self.location(at);
        self.put(RestoreItem::Extent { root, path, offset, data }).await
    }

    async fn end(&self, at: u32) -> Result<(), RestoreError> {
        let (root, path) = self.location(at);
        self.put(RestoreItem::FileEnd { root, path }).await
    }
}

/// The files that an item is the beginning of, and its bytes.
fn amount(item: &RestoreItem) -> (u64, u64) {
    match item {
        RestoreItem::File { size, complete: true, .. } => (1, *size),
        RestoreItem::File { data, .. } => (1, data.len() as u64),
        RestoreItem::Extent { data, .. } => (0, data.len() as u64),
        RestoreItem::Hardlink { .. } => (1, 0),
        RestoreItem::Dir { .. } | RestoreItem::FileEnd { .. } | RestoreItem::Symlink { .. } => (0, 0),
    }
}

/// Whether one item carries the content.
fn is_small(extents: &[Extent]) -> bool {
    match extents {
        [] => true,
        [extent] => extent.bytes as usize <= MAX_ITEM_BYTES,
        [..] => false,
    }
}
