//! What a snapshot or a restore did.

use crate::format::manifest::{Counts, Manifest};
use crate::store::StoreKind;
use std::time::Duration;
use toolcell_model::{Generation, SnapshotId};

/// What a snapshot did. Counts of content are over all roots, those that were carried over included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotReceipt {
    /// Where it is; [`StoreKind::None`] says that nothing was read or kept.
    pub store: StoreKind,
    /// The slot's newest snapshot; none only if the store keeps nothing.
    pub snapshot: Option<SnapshotId>,
    /// The head's generation.
    pub generation: Generation,
    /// Nothing had changed: `snapshot` is the one that was there, and nothing was written.
    pub unchanged: bool,
    /// Files, each name counted.
    pub files: u64,
    /// Directories, roots included.
    pub dirs: u64,
    /// Bytes of files; holes count, further names of a file do not.
    pub bytes: u64,
    /// Files that were read.
    pub changed_files: u64,
    /// Bytes that were written to the store.
    pub new_bytes: u64,
    /// Packs that were written.
    pub new_packs: u64,
    /// Packs that the snapshot needs.
    pub packs: u64,
    /// FIFOs, sockets and devices, which are not kept.
    pub specials_skipped: u64,
    /// How many files changed while they were read, three times, and are saved as read.
    pub files_unstable: u64,
    /// Some of these, as paths in the container; names that are not UTF-8 are escaped.
    pub unstable_paths: Vec<String>,
    /// How long it took.
    pub duration: Duration,
}

impl SnapshotReceipt {
    /// Takes over what a committed manifest says.
    pub(crate) fn describe(&mut self, manifest: &Manifest) {
        let mut total = Counts::default();
        manifest.roots.iter().for_each(|root| total.add(root.counts));
        self.snapshot = Some(manifest.snapshot);
        self.generation = manifest.generation;
        self.files = total.files;
        self.dirs = total.dirs;
        self.bytes = total.bytes;
        self.specials_skipped = total.specials;
        self.packs = manifest.packs.len() as u64;
    }
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReceipt {
    /// Which snapshot.
    pub snapshot: SnapshotId,
    /// Files, each name counted.
    pub files: u64,
    /// Directories, roots included.
    pub dirs: u64,
    /// Bytes of files; holes count, further names of a file do not.
    pub bytes: u64,
    /// FIFOs, sockets and devices that were not kept when the snapshot was taken.
    pub specials_skipped: u64,
    /// Roots that the caller named and the snapshot does not have: nothing was put for them.
    pub roots_absent: Vec<String>,
    /// How long it took.
    pub duration: Duration,
}
