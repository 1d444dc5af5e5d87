//! A slot's history: the head's snapshot, its parent, and so on.

use super::SnapshotEngine;
use crate::error::{ErrorKind, StoreError};
use crate::format::manifest::Manifest;
use crate::history::{MAX_HISTORY, SnapshotInfo};
use crate::progress::{NoProgress, Phase, Progress, ProgressSink};
use crate::store::{Listed, ObjectName, ObjectPrefix};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::HashMap;
use toolcell_model::{ScopeKey, SnapshotId};

/// Manifests that are read at a time.
const MAX_READS: usize = 16;
/// Names that are listed at a time.
const PAGE: usize = 1000;

impl SnapshotEngine {
    /// The slot's snapshots, newest first: at most [`MAX_HISTORY`]. It ends where retention has cut it, and before a
    /// manifest that is missing or cannot be read, which [`verify`](Self::verify) names. Manifests that never became a
    /// head are no history.
    ///
    /// # Errors
    /// Those of the store; [`StoreError::Corrupt`] and [`StoreError::NotFound`] if the head or its own manifest cannot
    /// be read.
    pub async fn history(&self, slot: &ScopeKey) -> Result<Vec<SnapshotInfo>, StoreError> {
        let Some(newest) = self.head(slot).await?.and_then(|head| head.snapshot) else { return Ok(Vec::new()) };
        let mut known = self.read_manifests(slot, SnapshotInfo::of, &NoProgress).await?;
        let mut history = Vec::new();
        let mut next = Some(newest);
        while let Some(snapshot) = next {
            // One that was written after the listing is read by itself.
            let info = match known.remove(&snapshot) {
                Some(read) => read,
                None => self.manifest(slot, snapshot).await.map(|manifest| SnapshotInfo::of(&manifest)),
            };
            let info = match info {
                Ok(info) => info,
                Err(error) if history.is_empty() || error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(_) => break,
            };
            next = info.parent.filter(|_| history.len() + 1 < MAX_HISTORY);
            history.push(info);
        }
        Ok(history)
    }

    /// One snapshot of a slot, whether or not it is in its history.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is none; others of the store.
    pub async fn snapshot_info(&self, slot: &ScopeKey, snapshot: SnapshotId) -> Result<SnapshotInfo, StoreError> {
        self.manifest(slot, snapshot).await.map(|manifest| SnapshotInfo::of(&manifest))
    }

    /// The newest snapshot before the head's that can be restored whole: what to offer when the head's own cannot be.
    /// Every byte of it has been read and checked. None if there is none.
    ///
    /// # Errors
    /// Those of the store, except for what is missing or corrupt.
    pub async fn newest_restorable(
        &self,
        slot: &ScopeKey,
        progress: &dyn ProgressSink,
    ) -> Result<Option<SnapshotInfo>, StoreError> {
        let Some(head) = self.head(slot).await? else { return Ok(None) };
        let infos = self.read_manifests(slot, SnapshotInfo::of, progress).await?;
        let mut infos: HashMap<SnapshotId, SnapshotInfo> =
            infos.into_iter().filter_map(|(id, info)| info.ok().map(|info| (id, info))).collect();
        // First the ancestry as far as it can be followed, then whatever else is older than the head.
        let mut candidates = Vec::new();
        let mut next = head.snapshot;
        while let Some(info) = next.and_then(|snapshot| infos.remove(&snapshot)) {
            next = info.parent;
            candidates.push(info);
        }
        let cut = candidates.last().map_or(head.generation, |info| info.generation);
        let mut rest: Vec<SnapshotInfo> = infos.into_values().filter(|info| info.generation < cut).collect();
        rest.sort_by_key(|info| std::cmp::Reverse((info.generation, info.token)));
        candidates.extend(rest);
        for info in candidates.into_iter().filter(|info| Some(info.snapshot) != head.snapshot) {
            if self.verify(slot, Some(info.snapshot), progress).await?.is_sound() {
                return Ok(Some(info));
            }
        }
        Ok(None)
    }

    /// Reads all manifests of a slot and keeps of each what is asked for. One that is gone since it was listed is left
    /// out; one that is corrupt is its error.
    pub(super) async fn read_manifests<T>(
        &self,
        slot: &ScopeKey,
        keep: impl Fn(&Manifest) -> T,
        progress: &dyn ProgressSink,
    ) -> Result<HashMap<SnapshotId, Result<T, StoreError>>, StoreError> {
        let listed = self.list_class(slot, "manifests", MAX_HISTORY).await?;
        let total = listed.len() as u64;
        let mut pending = listed.iter().filter_map(|listed| listed.name.snapshot());
        let mut reads = FuturesUnordered::new();
        let mut manifests = HashMap::with_capacity(listed.len());
        loop {
            while reads.len() < MAX_READS
                && let Some(snapshot) = pending.next()
            {
                reads.push(async move { (snapshot, self.manifest(slot, snapshot).await) });
            }
            let Some((snapshot, read)) = reads.next().await else { return Ok(manifests) };
            match read {
                Ok(manifest) => drop(manifests.insert(snapshot, Ok(keep(&manifest)))),
                Err(error) => match error.kind() {
                    ErrorKind::NotFound => {}
                    ErrorKind::Corrupt | ErrorKind::TooLarge => drop(manifests.insert(snapshot, Err(error))),
                    ErrorKind::AlreadyExists
                    | ErrorKind::PreconditionFailed
                    | ErrorKind::Fenced
                    | ErrorKind::HeadMissing
                    | ErrorKind::DurabilityUnknown
                    | ErrorKind::Malformed
                    | ErrorKind::Unavailable
                    | ErrorKind::Denied
                    | ErrorKind::NoSpace
                    | ErrorKind::Internal => return Err(error),
                },
            }
            let files = manifests.len() as u64;
            progress.report(Progress { files, total_files: Some(total), ..Progress::begin(Phase::History) });
        }
    }

    /// All objects of one class of a slot, in order of their names.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] if there are more than `max`; others of the store.
    pub(super) async fn list_class(&self, slot: &ScopeKey, class: &str, max: usize) -> Result<Vec<Listed>, StoreError> {
        let prefix = ObjectPrefix::class(slot, class);
        let mut objects: Vec<Listed> = Vec::new();
        let mut after: Option<ObjectName> = None;
        loop {
            let page = self.store.list(&prefix, after.as_ref(), PAGE).await?;
            objects.extend(page.objects);
            if objects.len() > max {
                let bytes = objects.len() as u64;
                return Err(StoreError::TooLarge { object: prefix.to_string(), bytes, max: max as u64 });
            }
            let last = objects.last().map(|listed| listed.name.clone());
            // A store that says that more follows nothing new would keep this going for ever.
            if !page.more || last == after {
                return Ok(objects);
            }
            after = last;
        }
    }
}
