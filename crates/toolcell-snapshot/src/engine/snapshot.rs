//! Taking a snapshot.

use super::build::{Built, build, meta};
use super::compact::{PackSet, each_blob};
use super::plan::Plan;
use super::read::Reader;
use super::upload::{Known, Sealing, Uploader};
use super::{HeadWriter, SnapshotEngine};
use crate::entry::{ScanEntry, WorkspaceSource};
use crate::error::{CommitError, ErrorKind, SnapshotError, SourceError, StoreError};
use crate::format::keys::{BlobId, TenantKeys};
use crate::format::manifest::{Counts, MAX_PACKS, MAX_ROOTS, Manifest, PackRef, RootRecord};
use crate::index::{IndexBody, IndexData, SlotIndex};
use crate::progress::{NoProgress, Phase, Progress, ProgressSink};
use crate::receipt::SnapshotReceipt;
use crate::rules::Weakening;
use crate::scan::{NO_NODE, ScanBuilder, ScanKind, Scanned};
use futures_util::future::try_join;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::mpsc;
use toolcell_model::SnapshotId;

/// Batches of entries, and of blobs, on their way.
const QUEUE: usize = 4;
const MAX_ROOT_PATH_BYTES: usize = 4096;

/// What to take a snapshot of.
struct Job<'a> {
    source: &'a dyn WorkspaceSource,
    roots: &'a [String],
    image_digest: &'a str,
    progress: &'a dyn ProgressSink,
}

impl SnapshotEngine {
    /// Takes a snapshot of the named roots and makes it the slot's head. Only what has changed since the index's
    /// snapshot is read. Roots of the parent snapshot that are not named are carried over as they are.
    ///
    /// If nothing has changed no head is written, and the receipt says so. Afterwards `index` belongs to the newest
    /// snapshot. With a store that keeps nothing, nothing is read.
    ///
    /// Safe to drop at any point: either the head names the snapshot or it does not, and the next call with the same
    /// writer finds out. A failed one leaves objects that nothing refers to.
    ///
    /// # Errors
    /// [`SnapshotError`]. Unless it is [`CommitError::DurabilityUnknown`](crate::CommitError::DurabilityUnknown), the
    /// head is what it was.
    pub async fn snapshot(
        &self,
        writer: &mut HeadWriter,
        index: &mut SlotIndex,
        source: &dyn WorkspaceSource,
        roots: &[String],
        image_digest: &str,
    ) -> Result<SnapshotReceipt, SnapshotError> {
        self.snapshot_with(writer, index, source, roots, image_digest, &NoProgress).await
    }

    /// As [`snapshot`](Self::snapshot), with progress.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub async fn snapshot_with(
        &self,
        writer: &mut HeadWriter,
        index: &mut SlotIndex,
        source: &dyn WorkspaceSource,
        roots: &[String],
        image_digest: &str,
        progress: &dyn ProgressSink,
    ) -> Result<SnapshotReceipt, SnapshotError> {
        let started = self.clock.monotonic();
        check_roots(roots).map_err(|detail| SnapshotError::Roots { detail })?;
        self.settle(writer, index).await?;
        let mut receipt = self.blank_receipt(writer);
        if !self.keeps_nothing() {
            let job = Job { source, roots, image_digest, progress };
            if let Err(error) = self.take(writer, index, &job, &mut receipt).await {
                return Err(self.fenced_meanwhile(writer, error).await);
            }
        }
        receipt.duration = self.clock.monotonic().saturating_duration_since(started);
        Ok(receipt)
    }

    /// A later holder may have collected what this one builds upon: then the reason is that it has lost the slot.
    async fn fenced_meanwhile(&self, writer: &HeadWriter, error: SnapshotError) -> SnapshotError {
        if error.kind() == ErrorKind::NotFound
            && let Ok(Some((head, _))) = self.read_head(&writer.slot).await
            && head.token > writer.token()
        {
            return CommitError::Fenced { recorded: head.token }.into();
        }
        error
    }

    async fn take(
        &self,
        writer: &mut HeadWriter,
        index: &mut SlotIndex,
        job: &Job<'_>,
        receipt: &mut SnapshotReceipt,
    ) -> Result<(), SnapshotError> {
        let Job { source, roots, image_digest, progress } = *job;
        let old = self.base_index(writer, index).await.map_err(SnapshotError::Store)?;
        let keys = self.keys.tenant(&writer.tenant);
        progress.report(Progress::begin(Phase::Scan));
        let scanned = collect(source, roots.len()).await?;
        self.check_total(&scanned)?;

        let known = Arc::new(Known::new(Arc::clone(&old)));
        let mut uploader = Uploader::new(self, &writer.slot, writer.token(), &old);
        let (out, mut blobs) = mpsc::channel(QUEUE);
        let sealing = Sealing { keys: keys.clone(), known, out };
        let produce = self.produce(job, sealing, scanned, &old);
        let consume = async {
            while let Some(batch) = blobs.recv().await {
                uploader.push(&batch).await.map_err(SnapshotError::Store)?;
            }
            Ok(())
        };
        let (built, ()) = try_join(produce, consume).await?;
        receipt.changed_files = built.changed_files;
        receipt.files_unstable = built.files_unstable;
        receipt.unstable_paths.clone_from(&built.unstable_paths);

        if let Some(parent) = old.manifest.as_ref().filter(|parent| unchanged(parent, &built)) {
            receipt.unchanged = true;
            receipt.packs = parent.packs.len() as u64;
            fill_counts(receipt, &parent.roots);
            let data = IndexData { nodes: built.nodes, roots: built.roots, ..IndexData::clone(&old) };
            *index = SlotIndex { data: Arc::new(data) };
            return Ok(());
        }
        progress.report(Progress {
            files: receipt.changed_files,
            bytes: uploader.bytes,
            ..Progress::begin(Phase::Commit)
        });
        let (manifest, data) = self
            .store_rest(writer, &keys, &old, built, &mut uploader, image_digest)
            .await
            .map_err(SnapshotError::Store)?;
        let encoded = manifest.encode(&self.keys).map_err(SnapshotError::Store)?;
        receipt.new_bytes = uploader.bytes + encoded.len() as u64;
        receipt.new_packs = uploader.packs.len() as u64;
        receipt.packs = manifest.packs.len() as u64;
        fill_counts(receipt, &manifest.roots);
        let (snapshot, generation) = (manifest.snapshot, manifest.generation);
        let name = Manifest::name(&writer.slot, snapshot);
        let next_index = SlotIndex { data: Arc::new(data) };
        #[cfg(test)]
        if self.broken.head_before_manifest {
            self.commit(writer, index, snapshot, next_index.clone()).await?;
            self.store.put_if_absent(&name, encoded.clone()).await.map_err(SnapshotError::Store)?;
            return Ok(());
        }
        if self.rules.lacks(Weakening::HeadBeforeManifest) {
            self.commit(writer, index, snapshot, next_index).await?;
            self.store.put_if_absent(&name, encoded).await.map_err(SnapshotError::Store)?;
        } else {
            self.store.put_if_absent(&name, encoded).await.map_err(SnapshotError::Store)?;
            self.commit(writer, index, snapshot, next_index).await?;
        }
        receipt.snapshot = Some(snapshot);
        receipt.generation = generation;
        Ok(())
    }

    /// What is known about the parent snapshot: the index, or else at least which blobs it has.
    pub(super) async fn base_index(
        &self,
        writer: &HeadWriter,
        index: &SlotIndex,
    ) -> Result<Arc<IndexData>, StoreError> {
        let Some(snapshot) = writer.snapshot() else { return Ok(Arc::default()) };
        match &index.data.manifest {
            Some(manifest) if manifest.snapshot == snapshot && manifest.slot == writer.slot => {
                Ok(Arc::clone(&index.data))
            }
            Some(_) | None => {
                let manifest = self.manifest(&writer.slot, snapshot).await?;
                let packs = self.open_packs(&manifest).await?;
                Ok(Arc::new(packs.into_index(manifest)))
            }
        }
    }

    fn check_total(&self, scanned: &Scanned) -> Result<(), SnapshotError> {
        let size = |kind: &ScanKind| match kind {
            ScanKind::File { size } => *size,
            ScanKind::Dir { .. } | ScanKind::Symlink { .. } => 0,
        };
        let total = scanned.nodes.iter().fold(0u64, |sum, node| {
            // Each of several names adds its share, so that the file counts about once.
            sum.saturating_add(size(&node.kind) / u64::from(node.stat.nlink.max(1)))
        });
        if total > self.max_workspace_bytes {
            return Err(SnapshotError::TooLarge { max: self.max_workspace_bytes });
        }
        Ok(())
    }

    /// Reads what has changed and builds trees; what is new goes to the uploader.
    async fn produce(
        &self,
        job: &Job<'_>,
        sealing: Sealing,
        scanned: Scanned,
        old: &Arc<IndexData>,
    ) -> Result<Built, SnapshotError> {
        let Job { source, roots, progress, .. } = *job;
        let defect = |error| SnapshotError::Store(StoreError::internal("a new tree", error));
        let (old_too, roots_too) = (Arc::clone(old), roots.to_vec());
        let planning = tokio::task::spawn_blocking(move || Plan::new(scanned, &old_too, &roots_too));
        let mut plan = planning.await.map_err(defect)?;
        let max_bytes = self.max_workspace_bytes;
        let reader = Reader::new(source, sealing.clone(), &*self.clock, roots, max_bytes);
        reader.with_progress(progress).read_all(&mut plan).await?;
        source.done_reading().await;
        let (old_too, roots_too) = (Arc::clone(old), roots.to_vec());
        let building = tokio::task::spawn_blocking(move || {
            let Sealing { keys, known, out } = sealing;
            build(&plan, &old_too, &roots_too, &keys, &known, &out)
        });
        building.await.map_err(defect)?.map_err(SnapshotError::Store)
    }

    /// Stores the last packs and describes the snapshot.
    pub(super) async fn store_rest(
        &self,
        writer: &HeadWriter,
        keys: &TenantKeys,
        old: &IndexData,
        built: Built,
        uploader: &mut Uploader,
        image_digest: &str,
    ) -> Result<(Manifest, IndexData), StoreError> {
        let carried = carried(old, &built);
        let pinned: PackSet = carried.iter().flat_map(|(_, packs)| packs.iter().copied()).collect();
        // Blobs have their pack's number as soon as they are pushed.
        let mut root_packs = packs_by_root(old, &built, uploader)?;
        let needed: PackSet = root_packs.values().flatten().copied().collect();
        if self.merge_small_packs(keys, old, &built.nodes, &needed, &pinned, uploader).await? {
            root_packs = packs_by_root(old, &built, uploader)?;
        }
        uploader.finish().await?;

        let used: BTreeSet<u32> = root_packs.values().flatten().chain(&pinned).copied().collect();
        let packs: BTreeMap<u32, PackRef> =
            old.packs.iter().chain(&uploader.packs).filter(|(number, _)| used.contains(number)).map(own).collect();
        if packs.len() > MAX_PACKS {
            return Err(StoreError::TooLarge {
                object: "a new manifest".to_owned(),
                bytes: packs.len() as u64,
                max: MAX_PACKS as u64,
            });
        }
        let position: HashMap<u32, u32> = packs.keys().copied().zip(0u32..).collect();
        let positions = |numbers: &BTreeSet<u32>| numbers.iter().filter_map(|n| position.get(n).copied()).collect();

        let mut roots: Vec<RootRecord> =
            carried.into_iter().map(|(record, packs)| RootRecord { packs: positions(&packs), ..record }).collect();
        for (path, root) in &built.roots {
            let Some((node, tree)) = root_tree(&built, root.node) else { continue };
            let packs = root_packs.get(path).map(positions).unwrap_or_default();
            roots.push(RootRecord { path: path.clone(), meta: meta(node), tree, counts: root.counts, packs });
        }
        roots.sort_by(|a, b| a.path.cmp(&b.path));
        let snapshot =
            SnapshotId::generate().map_err(|error| StoreError::internal("a new manifest", error.to_string()))?;
        let manifest = Manifest {
            snapshot,
            slot: writer.slot.clone(),
            tenant: writer.tenant.clone(),
            parent: writer.snapshot(),
            token: writer.token(),
            generation: self.next_generation(&writer.slot, Some(writer.generation()))?,
            created_at: self.clock.now(),
            image_digest: image_digest.to_owned(),
            roots,
            packs: packs.values().cloned().collect(),
            files_unstable: built.files_unstable,
            new_bytes: uploader.bytes,
        };
        let mut blobs = old.blobs.clone();
        blobs.extend(uploader.places.drain());
        if !old.packs.keys().chain(uploader.packs.keys()).all(|number| packs.contains_key(number)) {
            blobs.retain(|_, (number, _)| packs.contains_key(number));
        }
        let data = IndexData { manifest: Some(manifest.clone()), nodes: built.nodes, roots: built.roots, blobs, packs };
        Ok((manifest, data))
    }

    pub(super) fn blank_receipt(&self, writer: &HeadWriter) -> SnapshotReceipt {
        SnapshotReceipt {
            store: self.store.kind(),
            snapshot: writer.snapshot(),
            generation: writer.generation(),
            unchanged: false,
            files: 0,
            dirs: 0,
            bytes: 0,
            changed_files: 0,
            new_bytes: 0,
            new_packs: 0,
            packs: 0,
            specials_skipped: 0,
            files_unstable: 0,
            unstable_paths: Vec::new(),
            duration: std::time::Duration::ZERO,
        }
    }
}

fn own((number, pack): (&u32, &PackRef)) -> (u32, PackRef) {
    (*number, pack.clone())
}

fn fill_counts(receipt: &mut SnapshotReceipt, roots: &[RootRecord]) {
    let mut total = Counts::default();
    roots.iter().for_each(|root| total.add(root.counts));
    receipt.files = total.files;
    receipt.dirs = total.dirs;
    receipt.bytes = total.bytes;
    receipt.specials_skipped = total.specials;
}

/// Roots that a snapshot can be taken of: absolute, normal, distinct, none beneath another.
pub(super) fn check_roots(roots: &[String]) -> Result<(), String> {
    if roots.is_empty() || roots.len() > MAX_ROOTS {
        return Err(format!("{} roots; 1 to {MAX_ROOTS} are possible", roots.len()));
    }
    for (at, root) in roots.iter().enumerate() {
        let normal = root.strip_prefix('/').is_some_and(|rest| {
            rest.split('/').all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains('\0'))
        });
        if !normal || root.len() > MAX_ROOT_PATH_BYTES {
            return Err(format!("{root:?} is not an absolute, normal path"));
        }
        let within =
            |other: &String| root == other || root.strip_prefix(other.as_str()).is_some_and(|r| r.starts_with('/'));
        if roots.iter().enumerate().any(|(other_at, other)| other_at != at && within(other)) {
            return Err(format!("{root:?} is named twice, or lies beneath another root"));
        }
    }
    Ok(())
}

/// Takes a whole scan. The scan is dropped as soon as its list is refused.
pub(super) async fn scan(source: &dyn WorkspaceSource, roots: usize) -> Result<Scanned, SourceError> {
    let (sink, mut batches) = mpsc::channel::<Vec<ScanEntry>>(QUEUE);
    let mut builder = ScanBuilder::new(roots);
    let build = async {
        while let Some(batch) = batches.recv().await {
            batch.into_iter().try_for_each(|entry| builder.add(entry))?;
        }
        Ok(())
    };
    try_join(build, source.scan(sink)).await?;
    tokio::task::spawn_blocking(move || builder.finish())
        .await
        .map_err(|error| SourceError::Internal { detail: error.to_string() })?
}

async fn collect(source: &dyn WorkspaceSource, roots: usize) -> Result<Scanned, SnapshotError> {
    scan(source, roots).await.map_err(SnapshotError::Scan)
}

fn root_tree(built: &Built, at: u32) -> Option<(&crate::index::IndexNode, BlobId)> {
    let node = built.nodes.get(at as usize)?;
    match &node.body {
        IndexBody::Dir { tree, .. } => Some((node, *tree)),
        IndexBody::File { .. } | IndexBody::Symlink { .. } | IndexBody::Hardlink { .. } => None,
    }
}

fn unchanged(parent: &Manifest, built: &Built) -> bool {
    built.roots.iter().all(|(path, root)| {
        let known = parent.roots.iter().find(|known| known.path == *path);
        match (known, root_tree(built, root.node)) {
            (Some(known), Some((node, tree))) => known.tree == tree && known.meta == meta(node),
            (Some(_) | None, Some(_) | None) => false,
        }
    })
}

/// Roots of the parent that are not part of this snapshot's scan, with the numbers of the packs that they need.
fn carried(old: &IndexData, built: &Built) -> Vec<(RootRecord, BTreeSet<u32>)> {
    let Some(parent) = &old.manifest else { return Vec::new() };
    let number: HashMap<_, u32> = old.packs.iter().map(|(number, pack)| (&pack.name, *number)).collect();
    let numbers = |record: &RootRecord| {
        let packs = record.packs.iter().filter_map(|at| parent.packs.get(*at as usize));
        packs.filter_map(|pack| number.get(&pack.name).copied()).collect()
    };
    let others = parent.roots.iter().filter(|record| !built.roots.contains_key(&record.path));
    others.map(|record| (record.clone(), numbers(record))).collect()
}

/// The packs that each scanned root needs.
fn packs_by_root(old: &IndexData, built: &Built, uploader: &Uploader) -> Result<HashMap<String, PackSet>, StoreError> {
    // Roots are few, and come before what is in them.
    let mut tops: Vec<(u32, PackSet)> = built.roots.values().map(|root| (root.node, PackSet::new())).collect();
    let mut owner = vec![usize::MAX; built.nodes.len()];
    for (at, node) in (0u32..).zip(&built.nodes) {
        let top = if node.parent == NO_NODE {
            tops.iter().position(|(root, _)| *root == at)
        } else {
            owner.get(node.parent as usize).copied()
        };
        let Some((top, (_, packs))) = top.and_then(|top| tops.get_mut(top).map(|packs| (top, packs))) else {
            return Err(StoreError::internal("a new manifest", "an entry outside all roots"));
        };
        if let Some(slot) = owner.get_mut(at as usize) {
            *slot = top;
        }
        // Most blobs are in the pack of the one before.
        let mut last = None;
        each_blob(node, old, uploader, |number, _| {
            if last != Some(number) {
                packs.insert(number);
                last = Some(number);
            }
        })?;
    }
    let found = |node: u32| tops.iter().find(|(root, _)| *root == node).map(|(_, packs)| packs.clone());
    Ok(built.roots.iter().map(|(path, root)| (path.clone(), found(root.node).unwrap_or_default())).collect())
}
