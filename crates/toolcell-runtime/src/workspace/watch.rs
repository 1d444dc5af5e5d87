//! Looking at how much a workspace holds, where no disk image limits it.
//!
//! Only growth is stopped: a workspace that is over its limit can still be read, and what is in it can be removed.

use crate::slot::Residency;
use crate::workspace::SizeLimit;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;
use toolcell_model::{CallFault, CallOutcome, CallState};
use toolcell_protocol::EntryKind;
use toolcell_sandbox::{GuestLink, SandboxError};

/// How long a call has run when its workspace is looked at first, and at least between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// The same for the first look at a workspace that is over its limit already.
const EAGER_LOOK: Duration = Duration::from_millis(50);
/// A look may take one part in this many of the time; a workspace of so many files that it takes longer is looked at
/// less often.
const SHARE_OF_TIME: u32 = 4;
/// Growth that counts: less is what a command that removes files may write on the way.
const GROWTH_BYTES: u64 = 1 << 20;
/// What every entry takes on a disk at least, and in what steps.
const BLOCK_BYTES: u64 = 4096;
/// Hard links that are told apart; beyond it each counts as a file of its own.
const MOST_LINKS: usize = 1 << 20;

/// What the roots hold, about as a disk would count it. A file counts with its length, holes included.
pub(crate) async fn used_bytes(link: &GuestLink, roots: &[String]) -> Result<u64, SandboxError> {
    let mut scan = link.scan(roots)?;
    let mut used = 0u64;
    let mut linked = HashSet::new();
    while let Some(entries) = scan.next().await? {
        for entry in entries {
            let size = match entry.kind {
                EntryKind::File { size } => size,
                EntryKind::Dir | EntryKind::Symlink { .. } | EntryKind::Special => 0,
            };
            let again = entry.nlink > 1
                && matches!(entry.kind, EntryKind::File { .. })
                && linked.len() < MOST_LINKS
                && !linked.insert((entry.device, entry.inode));
            if !again {
                used = used.saturating_add(size.div_ceil(BLOCK_BYTES).max(1).saturating_mul(BLOCK_BYTES));
            }
        }
    }
    Ok(used)
}

/// Completes when the workspace is over its limit and still grows; never where a disk limits it. Cancel safe.
pub(crate) async fn until_too_large(residency: &Residency) {
    let SizeLimit::Watched(limit) = residency.limit else { return std::future::pending().await };
    // What stood there before this call is not its doing.
    let mut before = residency.used.load(Ordering::Acquire);
    let mut pause = if before > limit { EAGER_LOOK } else { LOOK };
    loop {
        tokio::time::sleep(pause).await;
        let began = tokio::time::Instant::now();
        match used_bytes(residency.sandbox.link(), &residency.roots).await {
            Ok(used) if is_too_large(used, limit, before) => return,
            // Files were removed: what comes back counts.
            Ok(used) => before = before.min(used),
            // The call itself tells that the guest is gone.
            Err(error) => tracing::debug!(%error, "a workspace could not be looked at"),
        }
        pause = LOOK.max(began.elapsed().saturating_mul(SHARE_OF_TIME));
    }
}

/// After a call: whether it has grown the workspace over its limit. What it holds now is where the next call begins.
pub(crate) async fn has_outgrown(residency: &Residency) -> bool {
    let SizeLimit::Watched(limit) = residency.limit else { return false };
    match used_bytes(residency.sandbox.link(), &residency.roots).await {
        Ok(used) => is_too_large(used, limit, residency.used.swap(used, Ordering::AcqRel)),
        Err(error) => {
            tracing::debug!(%error, "a workspace could not be looked at");
            false
        }
    }
}

const fn is_too_large(used: u64, limit: u64, before: u64) -> bool {
    used > limit && used > before.saturating_add(GROWTH_BYTES)
}

/// Whether so much more still fits; always where a disk says so itself.
pub(crate) async fn fits(residency: &Residency, more: u64) -> Result<bool, SandboxError> {
    let SizeLimit::Watched(limit) = residency.limit else { return Ok(true) };
    let used = used_bytes(residency.sandbox.link(), &residency.roots).await?;
    Ok(used.saturating_add(more) <= limit)
}

/// The answer to a call that finds no space in its workspace.
pub(crate) fn no_space() -> CallFault {
    CallFault {
        code: "no_space".to_owned(),
        message: "The workspace is full: it has reached its agent's limits.workspace. Remove files, then try again."
            .to_owned(),
    }
}

/// Says why a command failed that found the workspace full, or was stopped because it filled it.
pub(crate) fn explain(outcome: &mut CallOutcome, residency: &Residency, stopped: bool) {
    if stopped || (outcome.state == CallState::Failed && residency.limit.is_full()) {
        outcome.state = CallState::Failed;
        outcome.error = Some(no_space());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_growth_beyond_the_limit_counts() {
        const LIMIT: u64 = 100 << 20;
        assert!(!is_too_large(LIMIT, LIMIT, 0));
        assert!(is_too_large(LIMIT + 1, LIMIT, 0));
        assert!(!is_too_large(LIMIT + 1, LIMIT, LIMIT + 1), "it stood there before");
        assert!(!is_too_large(LIMIT + 2 + GROWTH_BYTES, LIMIT, LIMIT + 2), "what removing takes");
        assert!(is_too_large(LIMIT + 3 + GROWTH_BYTES, LIMIT, LIMIT + 2));
    }
}
