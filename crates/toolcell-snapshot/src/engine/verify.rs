//! Reading everything back, without putting it anywhere.

use super::SnapshotEngine;
use crate::error::StoreError;
use crate::format::manifest::PackRef;
use crate::format::pin::PinPurpose;
use crate::history::VerifyReport;
use crate::index::IndexBody;
use crate::progress::{Phase, Progress, ProgressSink};
use crate::store::ObjectName;
use std::collections::BTreeMap;
use toolcell_model::{ScopeKey, SnapshotId, TenantId};

/// The packs of what is verified, each with the snapshots that need it.
type Needed = BTreeMap<ObjectName, (PackRef, Vec<SnapshotId>)>;

impl SnapshotEngine {
    /// Reads and checks every object of one snapshot, or of a slot's whole history: each pack once, whatever refers to
    /// it. What is missing or corrupt is listed with the snapshots that cannot be restored because of it. Holds one
    /// snapshot's trees and one group of blobs at a time. Each snapshot is pinned while it is read.
    ///
    /// # Errors
    /// Those of the store, except for what is missing or corrupt: that is what the report is about.
    pub async fn verify(
        &self,
        slot: &ScopeKey,
        snapshot: Option<SnapshotId>,
        progress: &dyn ProgressSink,
    ) -> Result<VerifyReport, StoreError> {
        let started = self.clock.monotonic();
        let mut report = VerifyReport::default();
        let first = match snapshot {
            Some(snapshot) => Some(snapshot),
            None => self.head(slot).await?.and_then(|head| head.snapshot),
        };
        if let Some(first) = first {
            // Older snapshots that are dropped meanwhile are no problem: they are looked for again at the end.
            let pin = self.pin(slot, first, PinPurpose::Reader, "verify").await?;
            self.while_pinned(pin, self.verify_from(slot, first, snapshot.is_none(), &mut report, progress)).await??;
        }
        report.duration = self.clock.monotonic().saturating_duration_since(started);
        Ok(report)
    }

    async fn verify_from(
        &self,
        slot: &ScopeKey,
        first: SnapshotId,
        whole_history: bool,
        report: &mut VerifyReport,
        progress: &dyn ProgressSink,
    ) -> Result<(), StoreError> {
        let mut needed = Needed::new();
        let mut next = Some(first);
        let mut snapshots = Vec::new();
        let mut tenant = None;
        while let Some(snapshot) = next {
            match damage(self.manifest(slot, snapshot).await)? {
                Ok(manifest) => {
                    next = manifest.parent.filter(|_| whole_history && snapshots.len() < crate::MAX_HISTORY);
                    tenant = Some(manifest.tenant);
                    for pack in manifest.packs {
                        needed.entry(pack.name.clone()).or_insert_with(|| (pack, Vec::new())).1.push(snapshot);
                    }
                    snapshots.push(snapshot);
                }
                // Retention has cut the history here.
                Err(StoreError::NotFound { .. }) if snapshot != first => break,
                Err(error) => {
                    report.add(&error, vec![snapshot]);
                    break;
                }
            }
        }
        report.snapshots = snapshots.len() as u64;
        let Some(tenant) = tenant else { return Ok(()) };
        self.verify_packs(slot, &tenant, &needed, report, progress).await?;
        for snapshot in snapshots {
            self.verify_trees(slot, snapshot, snapshot == first, report).await?;
        }
        Ok(())
    }

    async fn verify_packs(
        &self,
        slot: &ScopeKey,
        tenant: &TenantId,
        needed: &Needed,
        report: &mut VerifyReport,
        progress: &dyn ProgressSink,
    ) -> Result<(), StoreError> {
        let total_bytes = needed.values().fold(0u64, |sum, (pack, _)| sum.saturating_add(pack.bytes));
        let totals = Progress {
            total_files: Some(needed.len() as u64),
            total_bytes: Some(total_bytes),
            ..Progress::begin(Phase::Verify)
        };
        for (pack, snapshots) in needed.values() {
            match damage(self.verify_pack(tenant, pack, report).await)? {
                Ok(()) => {}
                Err(error) => {
                    // Dropped since, with everything that needed it?
                    let mut affected = Vec::new();
                    for snapshot in snapshots {
                        if !matches!(self.manifest(slot, *snapshot).await, Err(StoreError::NotFound { .. })) {
                            affected.push(*snapshot);
                        }
                    }
                    if !affected.is_empty() {
                        report.add(&error, affected);
                    }
                }
            }
            report.packs += 1;
            report.bytes = report.bytes.saturating_add(pack.bytes);
            progress.report(Progress { files: report.packs, bytes: report.bytes, ..totals });
        }
        Ok(())
    }

    async fn verify_pack(
        &self,
        tenant: &TenantId,
        pack: &PackRef,
        report: &mut VerifyReport,
    ) -> Result<(), StoreError> {
        let packs = self.open_pack_list(std::slice::from_ref(pack), tenant, pack.name.to_string()).await?;
        for group in packs.groups(packs.ids())? {
            report.blobs += packs.read(&group).await?.len() as u64;
        }
        Ok(())
    }

    /// Whether every directory can be read, and every file's chunks are there and as long as they should be.
    async fn verify_trees(
        &self,
        slot: &ScopeKey,
        snapshot: SnapshotId,
        is_first: bool,
        report: &mut VerifyReport,
    ) -> Result<(), StoreError> {
        let manifest = match self.manifest(slot, snapshot).await {
            Err(StoreError::NotFound { .. }) if !is_first => return Ok(()),
            manifest => manifest?,
        };
        let known_bad = |report: &VerifyReport| report.problems.iter().any(|bad| bad.snapshots.contains(&snapshot));
        if known_bad(report) {
            return Ok(());
        }
        let checked = async {
            let packs = self.open_packs(&manifest).await?;
            let roots: Vec<_> = manifest.roots.iter().collect();
            let tree = packs.trees(&roots).await?;
            for node in &tree.nodes {
                let IndexBody::File { extents, .. } = &node.body else { continue };
                for extent in extents.iter() {
                    if packs.place(&extent.chunk)?.1.plain_bytes != extent.bytes {
                        let detail = format!("chunk {:?} has another length", extent.chunk);
                        return Err(StoreError::corrupt(packs.name_of(&extent.chunk), detail));
                    }
                }
            }
            Ok(())
        };
        if let Err(error) = damage(checked.await)? {
            report.add(&error, vec![snapshot]);
        }
        Ok(())
    }
}

/// Tells damage, which is reported, from a store that does not work.
fn damage<T>(result: Result<T, StoreError>) -> Result<Result<T, StoreError>, StoreError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error @ (StoreError::NotFound { .. } | StoreError::Corrupt { .. } | StoreError::TooLarge { .. })) => {
            Ok(Err(error))
        }
        Err(error) => Err(error),
    }
}
