//! The index of a workspace that has just been restored.

use super::SnapshotEngine;
use super::snapshot::{check_roots, scan};
use crate::entry::WorkspaceSource;
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

fn take_over(data: &mut IndexData, known: u32, node: &ScanNode) {
    let Some(known) = data.nodes.get_mut(known as usize) else { return };
    let same = match (&known.body, &node.kind) {
        (IndexBody::Dir { .. }, ScanKind::Dir { .. }) | (IndexBody::Hardlink { .. }, ScanKind::File { .. }) => true,
        (IndexBody::File { size: known_size, .. }, ScanKind::File { size }) => {
            known_size == size && known.mtime == node.stat.mtime
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
