//! Snapshots as JSON.

use serde_json::{Value, json};
use toolcell_model::SnapshotId;
use toolcell_runtime::{GcReceipt, SnapshotInfo, VerifyReport};

/// One snapshot of a history.
#[must_use]
pub fn snapshot(info: &SnapshotInfo, newest: Option<SnapshotId>) -> Value {
    json!({
        "snapshot": info.snapshot,
        "parent": info.parent,
        "created_at_ms": info.created_at,
        "token": info.token,
        "generation": info.generation,
        "image_digest": info.image_digest,
        "roots": info.roots,
        "files": info.files,
        "bytes": info.bytes,
        "new_bytes": info.new_bytes,
        "stored_bytes": info.stored_bytes,
        "specials_skipped": info.specials_skipped,
        "files_unstable": info.files_unstable,
        "newest": newest == Some(info.snapshot),
    })
}

/// Whether what was looked at is whole, and what is not.
#[must_use]
pub fn verified(report: &VerifyReport) -> Value {
    let problems = report
        .problems
        .iter()
        .map(|problem| json!({ "object": problem.object, "detail": problem.detail, "snapshots": problem.snapshots }));
    json!({
        "whole": report.is_sound(),
        "snapshots": report.snapshots,
        "packs": report.packs,
        "bytes": report.bytes,
        "problems": problems.collect::<Vec<_>>(),
        "more_problems": report.more_problems,
    })
}

/// What a collection removed.
#[must_use]
pub fn collected(receipt: &GcReceipt) -> Value {
    json!({
        "snapshots_kept": receipt.snapshots_kept,
        "snapshots_removed": receipt.snapshots_dropped,
        "packs_kept": receipt.packs_kept,
        "packs_removed": receipt.packs_deleted,
        "packs_left": receipt.packs_left,
        "bytes_removed": receipt.bytes_freed,
        "pins": receipt.pins,
    })
}
