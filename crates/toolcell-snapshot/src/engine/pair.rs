//! The index of a workspace that has just been restored.

use super::snapshot::{check_roots, scan};
use super::{RACY_MILLIS, SnapshotEngine};
use crate::entry::{TimeNs, WorkspaceSource};
use crate::error::RestoreError;
use crate::format::manifest::RootRecord;
use crate::index::{IndexBody, IndexData, SlotIndex};
use crate::scan::{ScanKind, ScanNode, Scanned};
use std::collections::HashMap;
use std::sync::Arc;
use toolcell_model::{ScopeKey, SnapshotId};

impl SnapshotEngine {
    /// Pairs a snapshot with the workspace that it was just restored to, before anything runs there, by one stat walk:
    /// with the resulting index the next snapshot reads nothing that has not changed since. What differs from the
    /// snapshot already is read.
    ///
    /// # Errors
    /// [`RestoreError`]: as for a restore, and if the walk fails.
    pub async fn index_after_restore(
        &self,
        slot: &ScopeKey,
        snapshot: SnapshotId,
        roots: &[String],
        source: &dyn WorkspaceSource,
    ) -> Result<SlotIndex, RestoreError> {
        check_roots(roots).map_err(|detail| RestoreError::Roots { detail })?;
        let failed = |source| RestoreError::Store { snapshot, source };
        let manifest = self.manifest_to_restore(slot, snapshot).await?;
        let packs = self.open_packs(&manifest).await.map_err(failed)?;
        let records: Vec<&RootRecord> = manifest.roots.iter().filter(|root| roots.contains(&root.path)).collect();
        let mut data = packs.trees(&records).await.map_err(failed)?;
        let scanned = scan(source, roots.len()).await.map_err(RestoreError::Scan)?;
        pair(&mut data, &scanned, roots);
        let IndexData { blobs, packs, manifest, .. } = packs.into_index(manifest);
        Ok(SlotIndex { data: Arc::new(IndexData { blobs, packs, manifest, ..data }) })
    }
}

/// Takes over inodes and times of entries that are as they were restored.
fn pair(data: &mut IndexData, scanned: &Scanned, roots: &[String]) {
    let mut partner: HashMap<u32, u32> = HashMap::new();
    for (root, path) in scanned.roots.iter().zip(roots) {
        if let Some(known) = data.roots.get(path) {
            partner.insert(*root, known.node);
        }
    }
    for (at, node) in (0u32..).zip(&scanned.nodes) {
        let Some(known) = partner.get(&at).copied() else { continue };
        if let (ScanKind::Dir { children }, Some(IndexBody::Dir { children: known, .. })) =
            (&node.kind, data.node(known).map(|node| &node.body))
        {
            let by_name: HashMap<&[u8], u32> =
                known.iter().filter_map(|at| data.node(*at).map(|node| (&*node.name, *at))).collect();
            for child in children {
                let name = scanned.node(*child).map(|node| &*node.name).unwrap_or_default();
                if let Some(known) = by_name.get(name) {
                    partner.insert(*child, *known);
                }
            }
        }
        take_over(data, known, node);
    }
}

fn at_the_same_time(one: TimeNs, other: TimeNs) -> bool {
    let millis = |time: TimeNs| i128::from(time.secs) * 1000 + i128::from(time.nanos / 1_000_000);
    (millis(one) - millis(other)).unsigned_abs() <= u128::from(RACY_MILLIS)
}

fn take_over(data: &mut IndexData, known: u32, node: &ScanNode) {
    let Some(known) = data.nodes.get_mut(known as usize) else { return };
    let same = match (&known.body, &node.kind) {
        (IndexBody::Dir { .. }, ScanKind::Dir { .. }) | (IndexBody::Hardlink { .. }, ScanKind::File { .. }) => true,
        (IndexBody::File { size: known_size, .. }, ScanKind::File { size }) => {
            // A restored file has the time of its last change, unless that is just now: then a change since has it too.
            known_size == size && known.mtime == node.stat.mtime && !at_the_same_time(known.mtime, node.stat.ctime)
        }
        (IndexBody::Symlink { target: known }, ScanKind::Symlink { target }) => known == target,
        (
            IndexBody::Dir { .. } | IndexBody::File { .. } | IndexBody::Symlink { .. } | IndexBody::Hardlink { .. },
            ScanKind::Dir { .. } | ScanKind::File { .. } | ScanKind::Symlink { .. },
        ) => false,
    };
    if same {
        known.ctime = node.stat.ctime;
        known.inode = node.stat.inode;
        known.device = node.stat.device;
        known.racy = false;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is the test's failure")]
    use super::*;
    use crate::index::IndexNode;
    use crate::scan::{NO_NODE, Stat};

    #[test]
    fn only_what_is_certainly_as_restored_is_taken_over() {
        let time = |millis: i64| TimeNs { secs: millis / 1000, nanos: (millis % 1000) as u32 * 1_000_000 };
        let restored_at = time(50_000);
        let taken = |known_size: u64, known_mtime: TimeNs, mtime: TimeNs| {
            let body = IndexBody::File { size: known_size, extents: Arc::new([]), lists: Vec::new() };
            let zero = TimeNs::default();
            let node = IndexNode {
                parent: NO_NODE,
                name: Box::default(),
                mode: 0o644,
                mtime: known_mtime,
                ctime: zero,
                inode: 0,
                device: 0,
                racy: true,
                xattrs: Vec::new(),
                body,
            };
            let mut data = IndexData { nodes: vec![node], ..IndexData::default() };
            let stat = Stat { mode: 0o644, mtime, ctime: restored_at, inode: 7, device: 8, nlink: 1 };
            let scanned =
                ScanNode { parent: NO_NODE, root: 0, name: Box::default(), stat, kind: ScanKind::File { size: 3 } };
            take_over(&mut data, 0, &scanned);
            let Some(node) = data.node(0) else { panic!("it was there") };
            !node.racy && node.ctime == restored_at && (node.inode, node.device) == (7, 8)
        };
        assert!(taken(3, time(10_000), time(10_000)));
        assert!(!taken(4, time(10_000), time(10_000)), "another size");
        assert!(!taken(3, time(10_000), time(10_001)), "another time");
        // Changed in the moment of the restore: a change after it may have the same time.
        for (apart, wanted) in [(-26, true), (-25, false), (0, false), (25, false), (26, true)] {
            assert_eq!(taken(3, time(50_000 + apart), time(50_000 + apart)), wanted, "{apart} ms apart");
        }
    }
}
