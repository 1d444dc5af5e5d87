//! What is known about a slot's snapshots, and what looking after them did.

use crate::error::{ErrorKind, StoreError};
use crate::format::manifest::{Counts, Manifest};
use std::time::Duration;
use toolcell_model::{FencingToken, Generation, SnapshotId, UnixMillis};

/// Most snapshots of one slot that are listed or collected; older ones are left alone until newer ones are gone.
pub const MAX_HISTORY: usize = 10_000;

/// One snapshot of a slot's history.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SnapshotInfo {
    /// Its id.
    pub snapshot: SnapshotId,
    /// The snapshot before it; it may have been dropped. None for a slot's first one, and for a fork's.
    pub parent: Option<SnapshotId>,
    /// The token of the holder that took it.
    pub token: FencingToken,
    /// The head's generation when it became the newest.
    pub generation: Generation,
    /// When, by the clock of whoever took it.
    pub created_at: UnixMillis,
    /// Digest of the image that the workspace was used with.
    pub image_digest: String,
    /// The roots that it holds, as paths in the container.
    pub roots: Vec<String>,
    /// Files, each name counted.
    pub files: u64,
    /// Directories, roots included.
    pub dirs: u64,
    /// Bytes of files; holes count, further names of a file do not.
    pub bytes: u64,
    /// Bytes that were written to the store for it.
    pub new_bytes: u64,
    /// Packs that it needs.
    pub packs: u64,
    /// Bytes of these packs: they may be shared with other snapshots, and may hold more than this one needs.
    pub stored_bytes: u64,
    /// FIFOs, sockets and devices that were not kept.
    pub specials_skipped: u64,
    /// Files that changed while they were read, three times, and were saved as read.
    pub files_unstable: u64,
}

impl SnapshotInfo {
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let mut counts = Counts::default();
        manifest.roots.iter().for_each(|root| counts.add(root.counts));
        Self {
            snapshot: manifest.snapshot,
            parent: manifest.parent,
            token: manifest.token,
            generation: manifest.generation,
            created_at: manifest.created_at,
            image_digest: manifest.image_digest.clone(),
            roots: manifest.roots.iter().map(|root| root.path.clone()).collect(),
            files: counts.files,
            dirs: counts.dirs,
            bytes: counts.bytes,
            new_bytes: manifest.new_bytes,
            packs: manifest.packs.len() as u64,
            stored_bytes: manifest.packs.iter().fold(0, |sum, pack| sum.saturating_add(pack.bytes)),
            specials_skipped: counts.specials,
            files_unstable: manifest.files_unstable,
        }
    }
}

/// Which snapshots of a slot are kept. A snapshot goes as soon as one of the bounds says so; the head's snapshot and
/// those that are pinned always stay. What stays is the newest part of the history, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// At most this many; 0 counts as 1.
    pub keep_last: Option<u64>,
    /// None that is older than this, by the clock of whoever collects.
    pub max_age: Option<Duration>,
    /// Only as many as need at most this many bytes of packs, shared ones counted once.
    pub max_bytes: Option<u64>,
}

/// What a collection did.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct GcReceipt {
    /// Snapshots of the history that stay.
    pub snapshots_kept: u64,
    /// Snapshots of the history that retention dropped.
    pub snapshots_dropped: u64,
    /// Manifests that were deleted and never became a head: left behind by holders that died.
    pub garbage_manifests: u64,
    /// Packs that were deleted.
    pub packs_deleted: u64,
    /// Their bytes.
    pub bytes_freed: u64,
    /// Packs of this slot that stay.
    pub packs_kept: u64,
    /// Packs that nothing needs and that this holder wrote itself: the next holder's collection deletes them.
    pub packs_left: u64,
    /// Pins that somebody still holds.
    pub pins: u64,
    /// Pins of readers that died, which were deleted.
    pub pins_expired: u64,
    /// Pins in other slots that forks into this one no longer need, which were deleted.
    pub forks_released: u64,
    /// A reader pins a snapshot whose manifest is gone: no pack was deleted, because it cannot be told which ones the
    /// reader needs. The pin ends by itself.
    pub packs_blocked: bool,
    /// How long it took.
    pub duration: Duration,
}

/// What is wrong with one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The object's name.
    pub object: String,
    /// [`ErrorKind::NotFound`] or [`ErrorKind::Corrupt`].
    pub kind: ErrorKind,
    /// What is wrong.
    pub detail: String,
    /// The snapshots that cannot be restored because of it, newest first.
    pub snapshots: Vec<SnapshotId>,
}

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Snapshots that were checked.
    pub snapshots: u64,
    /// Packs that were read.
    pub packs: u64,
    /// Blobs that were read and checked.
    pub blobs: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// What is wrong; at most [`MAX_PROBLEMS`].
    pub problems: Vec<Problem>,
    /// More is wrong than is listed.
    pub more_problems: bool,
    /// How long it took.
    pub duration: Duration,
}

/// Problems that one verification lists; beyond it the report only says that there are more.
pub const MAX_PROBLEMS: usize = 1000;

impl VerifyReport {
    /// Whether everything was there, and was what was written.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty() && !self.more_problems
    }

    pub(crate) fn add(&mut self, error: &StoreError, snapshots: Vec<SnapshotId>) {
        let (object, kind, detail) = (error.object().to_owned(), error.kind(), error.to_string());
        if let Some(known) = self.problems.iter_mut().find(|known| known.object == object) {
            let new = snapshots.into_iter().filter(|snapshot| !known.snapshots.contains(snapshot)).collect::<Vec<_>>();
            known.snapshots.extend(new);
        } else if self.problems.len() >= MAX_PROBLEMS {
            self.more_problems = true;
        } else {
            self.problems.push(Problem { object, kind, detail, snapshots });
        }
    }
}
