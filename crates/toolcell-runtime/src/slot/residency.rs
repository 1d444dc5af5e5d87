//! A container that is resident in a slot, with the lease and the head's writer that make it the only one.

use super::bridge::GuestSource;
use crate::workspace::SizeLimit;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use toolcell_lease::Lease;
use toolcell_model::{Acquisition, FencingToken, Generation, SnapshotId};
use toolcell_sandbox::{Image, Sandbox, Shell};
use toolcell_snapshot::{HeadWriter, SlotIndex};

/// What it takes to commit; whoever holds it is the only one who saves.
#[derive(Debug)]
pub(crate) struct Saver {
    pub(crate) writer: HeadWriter,
    pub(crate) index: SlotIndex,
}

/// What is known to be saved.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Saved {
    /// The newest committed snapshot.
    pub(crate) snapshot: Option<SnapshotId>,
    /// The head's generation that this holder wrote last.
    pub(crate) generation: Generation,
    /// Changes up to this one are in it.
    pub(crate) changes: u64,
}

/// A resident container.
#[derive(Debug)]
pub(crate) struct Residency {
    pub(crate) sandbox: Sandbox,
    pub(crate) image: Image,
    /// What runs shell text here: what such a text means depends on it.
    pub(crate) shell: Option<Shell>,
    pub(crate) spec_hash: String,
    pub(crate) roots: Vec<String>,
    pub(crate) limit: SizeLimit,
    /// Where sizes are watched: what the workspace held when it was looked at last; the largest number at first.
    pub(crate) used: AtomicU64,
    pub(crate) token: FencingToken,
    pub(crate) acquisition: Acquisition,
    lease: Mutex<Option<Lease>>,
    lease_lost: CancellationToken,
    pub(crate) saver: tokio::sync::Mutex<Saver>,
    saved: Mutex<Saved>,
    /// Grows when a changing call begins and when it ends.
    changes: AtomicU64,
    /// Changing calls that run.
    changing: AtomicUsize,
    /// A task that saves lazily is there.
    pub(crate) saving_scheduled: AtomicBool,
    /// The last save failed: the next changing call saves first, or fails, instead of widening the window.
    pub(crate) save_failed: AtomicBool,
    /// Snapshots that this holder has committed.
    commits: AtomicU64,
    /// Somebody else has the slot; nothing may run here any more.
    lost: AtomicBool,
    /// The guest does not answer any more.
    broken: AtomicBool,
    /// Said once, by the first call after a restore.
    restored_from: Mutex<Option<SnapshotId>>,
    pub(crate) idle_timeout: Duration,
    last_active: Mutex<Instant>,
}

/// The parts of a new [`Residency`].
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) sandbox: Sandbox,
    pub(crate) image: Image,
    pub(crate) spec_hash: String,
    pub(crate) roots: Vec<String>,
    pub(crate) limit: SizeLimit,
    pub(crate) lease: Lease,
    pub(crate) writer: HeadWriter,
    pub(crate) index: SlotIndex,
    pub(crate) restored_from: Option<SnapshotId>,
    pub(crate) idle_timeout: Duration,
    pub(crate) now: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Residency {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { sandbox, image, spec_hash, roots, limit, lease, writer, index, restored_from, idle_timeout, now } =
            parts;
        let saved = Saved { snapshot: writer.snapshot(), generation: writer.generation(), changes: 0 };
        Self {
            shell: sandbox.link().shell(),
            sandbox,
            image,
            spec_hash,
            roots,
            limit,
            used: AtomicU64::new(u64::MAX),
            token: lease.token(),
            acquisition: lease.acquisition(),
            lease_lost: lease.lost().clone(),
            lease: Mutex::new(Some(lease)),
            saver: tokio::sync::Mutex::new(Saver { writer, index }),
            saved: Mutex::new(saved),
            changes: AtomicU64::new(0),
            changing: AtomicUsize::new(0),
            saving_scheduled: AtomicBool::new(false),
            save_failed: AtomicBool::new(false),
            commits: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            restored_from: Mutex::new(restored_from),
            idle_timeout,
            last_active: Mutex::new(now),
        }
    }

    pub(crate) fn source(&self, quiesce: bool) -> GuestSource<'_> {
        GuestSource::new(self.sandbox.link(), &self.roots, quiesce)
    }

    /// Whether calls may run here.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_lost() && !self.sandbox.link().is_closed() && !self.broken.load(Ordering::Acquire)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lease_lost.is_cancelled() || self.lost.load(Ordering::Acquire)
    }

    /// Completes when the lease is lost. Cancel safe.
    pub(crate) async fn lease_lost(&self) {
        self.lease_lost.cancelled().await;
    }

    /// The guest does not answer any more: the container is made anew at the next call.
    pub(crate) fn mark_broken(&self) {
        self.broken.store(true, Ordering::Release);
    }

    pub(crate) fn mark_lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    pub(crate) fn take_lease(&self) -> Option<Lease> {
        lock(&self.lease).take()
    }

    pub(crate) fn saved(&self) -> Saved {
        *lock(&self.saved)
    }

    pub(crate) fn set_saved(&self, saved: Saved) {
        *lock(&self.saved) = saved;
    }

    pub(crate) fn set_restored_from(&self, snapshot: Option<SnapshotId>) {
        *lock(&self.restored_from) = snapshot;
    }

    pub(crate) fn take_restored_from(&self) -> Option<SnapshotId> {
        lock(&self.restored_from).take()
    }

    /// Snapshots that this holder has committed.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(crate) fn note_commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn touch(&self, now: Instant) {
        *lock(&self.last_active) = now;
    }

    pub(crate) fn last_active(&self) -> Instant {
        *lock(&self.last_active)
    }

    /// The newest change; a save that begins now has it and all before it.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The newest change, where a call that still runs counts as having changed something since the last look.
    pub(crate) fn changes_so_far(&self) -> u64 {
        if self.changing.load(Ordering::Acquire) > 0 {
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        self.changes()
    }

    /// Whether something may not be saved.
    pub(crate) fn is_dirty(&self) -> bool {
        self.changing.load(Ordering::Acquire) > 0 || self.saved().changes < self.changes()
    }

    /// A call that may change files begins.
    pub(crate) fn begin_change(&self) -> Change<'_> {
        self.changing.fetch_add(1, Ordering::AcqRel);
        self.changes.fetch_add(1, Ordering::AcqRel);
        Change { residency: self }
    }
}

/// A changing call in progress. Its end is a change of its own: what a save saw before it may be half of it.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    residency: &'a Residency,
}

impl Change<'_> {
    /// The call has ended; answers with the change that a save must have to contain it.
    pub(crate) fn end(self) -> u64 {
        let residency = self.residency;
        drop(self);
        residency.changes()
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.residency.changes.fetch_add(1, Ordering::AcqRel);
        self.residency.changing.fetch_sub(1, Ordering::AcqRel);
    }
}
