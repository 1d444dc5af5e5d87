//! Slots and snapshots as JSON.

use serde_json::{Value, json};
use toolcell_runtime::{Activity, HeadView, HolderView, SlotView};

/// One slot.
#[must_use]
pub fn slot(slot: &SlotView) -> Value {
    let SlotView {
        key,
        tuple,
        created_at,
        last_used_at,
        residence,
        container,
        holder: held,
        unsaved,
        token,
        bytes,
        head: saved,
        head_error,
    } = slot;
    let holder = |holder: &HolderView| json!({ "pid": holder.pid, "token": holder.token, "since_ms": holder.since });
    let head = |head: &HeadView| {
        json!({
            "snapshot": head.snapshot,
            "generation": head.generation,
            "token": head.token,
            "written_at_ms": head.written_at,
        })
    };
    json!({
        "key": key,
        "tuple": tuple,
        "created_at_ms": created_at,
        "last_used_at_ms": last_used_at,
        "residency": residence.as_str(),
        "container": container,
        "holder": held.as_ref().map(holder),
        "unsaved": unsaved,
        "token": token,
        "bytes": bytes,
        "head": saved.as_ref().map(head),
        "head_error": head_error,
    })
}

/// What is being done; all fields are null when nothing is.
#[must_use]
pub fn activity(activity: Option<&Activity>) -> Value {
    let phase = activity.map(|activity| activity.phase);
    let for_ms = activity.map(|activity| u64::try_from(activity.since.as_millis()).unwrap_or(u64::MAX));
    let progress = activity.and_then(|activity| activity.progress);
    json!({
        "phase": phase,
        "for_ms": for_ms,
        "step": progress.map(|progress| progress.phase),
        "files": progress.map(|progress| progress.files),
        "total_files": progress.and_then(|progress| progress.total_files),
        "bytes": progress.map(|progress| progress.bytes),
        "total_bytes": progress.and_then(|progress| progress.total_bytes),
    })
}
