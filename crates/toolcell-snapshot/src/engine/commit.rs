//! Replacing the head: commit, doubt, deletion.

use super::{HeadWriter, SnapshotEngine};
use crate::error::{CommitError, StoreError};
use crate::format::head::Head;
use crate::format::manifest::Manifest;
use crate::index::SlotIndex;
use crate::rules::Weakening;
use crate::store::{HeadVersion, MAX_OBJECT_BYTES};
use toolcell_model::{Retry, ScopeKey, SnapshotId};

/// Doubts that a writer remembers; beyond it the oldest is forgotten, and counts as someone else's if it turns out true.
const MAX_PENDING: usize = 8;
/// How far back the ancestry of a head is followed to find a snapshot in it.
const MAX_ANCESTRY: usize = 10_000;

/// A commit of which it is not known whether it was made.
#[derive(Debug)]
pub(super) struct Pending {
    head: Head,
    index: SlotIndex,
}

impl SnapshotEngine {
    /// Finds out about commits in doubt: afterwards the writer, and the index, are those of the last commit that counts.
    pub(super) async fn settle(&self, writer: &mut HeadWriter, index: &mut SlotIndex) -> Result<(), CommitError> {
        if writer.head.deleted {
            return Err(CommitError::Deleted);
        }
        if writer.pending.is_empty() {
            return Ok(());
        }
        match self.read_head(&writer.slot).await.map_err(CommitError::Store)? {
            None => Err(CommitError::HeadMissing),
            Some((head, version)) => {
                if !adopt(writer, index, &head, version) && head.commit != writer.head.commit {
                    return Err(CommitError::Fenced { recorded: head.token });
                }
                if writer.head.deleted { Err(CommitError::Deleted) } else { Ok(()) }
            }
        }
    }

    /// Makes the head name a snapshot whose manifest and packs are stored. `index` becomes the snapshot's index once it
    /// counts.
    pub(super) async fn commit(
        &self,
        writer: &mut HeadWriter,
        index: &mut SlotIndex,
        snapshot: SnapshotId,
        next_index: SlotIndex,
    ) -> Result<(), CommitError> {
        self.replace(writer, index, Some(snapshot), false, next_index).await
    }

    /// Deletes a slot: leaves a tombstone that keeps token and generation, so that no earlier holder can write, and a
    /// later one starts empty. Objects are left for collection.
    ///
    /// Not cancel-safe: one that was dropped may have happened.
    ///
    /// # Errors
    /// [`CommitError`]; doing it again with the same writer after [`Retry::Indeterminate`] finds out.
    pub async fn tombstone(&self, writer: &mut HeadWriter) -> Result<(), CommitError> {
        let mut index = SlotIndex::empty();
        match self.settle(writer, &mut index).await {
            Err(CommitError::Deleted) => return Ok(()),
            settled => settled?,
        }
        self.replace(writer, &mut index, None, true, SlotIndex::empty()).await
    }

    pub(super) async fn replace(
        &self,
        writer: &mut HeadWriter,
        index: &mut SlotIndex,
        snapshot: Option<SnapshotId>,
        deleted: bool,
        next_index: SlotIndex,
    ) -> Result<(), CommitError> {
        let slot = writer.slot.clone();
        let head = Head {
            snapshot,
            token: writer.head.token,
            acquisition: writer.head.acquisition,
            generation: self.next_generation(&slot, Some(writer.head.generation)).map_err(CommitError::Store)?,
            commit: self.commit_id(&slot).map_err(CommitError::Store)?,
            deleted,
            written_at: self.clock.now(),
        };
        let data = head.encode(&slot, &self.keys).map_err(CommitError::Store)?;
        // Remembered before it is sent: if this future is dropped now, the next settle finds out.
        if writer.pending.len() >= MAX_PENDING {
            writer.pending.remove(0);
        }
        writer.pending.push(Pending { head: head.clone(), index: next_index });
        let replaced = self.store.head_cas(&slot, Some(&writer.version), data.clone()).await;
        #[cfg(test)]
        let replaced = match (replaced, self.broken.rereads_when_refused) {
            (Err(StoreError::PreconditionFailed { .. }), true) => {
                let there = self.store.head_get(&slot).await.ok().flatten();
                self.store.head_cas(&slot, there.as_ref().map(|there| &there.version), data).await
            }
            (replaced, _) => replaced,
        };
        match replaced {
            Ok(version) => {
                adopt(writer, index, &head, version);
                Ok(())
            }
            Err(StoreError::PreconditionFailed { .. }) if self.rules.lacks(Weakening::CommitRetried) => {
                let Ok(Some((found, version))) = self.read_head(&slot).await else {
                    return Err(CommitError::HeadMissing);
                };
                let generation = self.next_generation(&slot, Some(found.generation)).map_err(CommitError::Store)?;
                let again = Head { generation, ..head };
                let data = again.encode(&slot, &self.keys).map_err(CommitError::Store)?;
                let version = self.store.head_cas(&slot, Some(&version), data).await.map_err(CommitError::Store)?;
                adopt(writer, index, &again, version);
                Ok(())
            }
            Err(error @ StoreError::PreconditionFailed { .. }) => self.refused(writer, index, &head, error).await,
            Err(error) if error.retry() == Retry::Indeterminate => self.in_doubt(writer, index, &head, error).await,
            Err(error) => {
                writer.pending.pop();
                Err(CommitError::Store(error))
            }
        }
    }

    /// The store says that the head is another one.
    async fn refused(
        &self,
        writer: &mut HeadWriter,
        index: &mut SlotIndex,
        mine: &Head,
        error: StoreError,
    ) -> Result<(), CommitError> {
        let (found, version) = match self.read_head(&writer.slot).await {
            Ok(Some(found)) => found,
            Ok(None) => return Err(CommitError::HeadMissing),
            Err(_) => return Err(CommitError::DurabilityUnknown(Some(error))),
        };
        // A request that was repeated on the way is refused although its first copy was taken.
        if found.commit == mine.commit {
            adopt(writer, index, &found, version);
            return Ok(());
        }
        match self.follows(&writer.slot, &found, mine).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(_) => return Err(CommitError::DurabilityUnknown(Some(error))),
        }
        if found.commit == writer.head.commit {
            return Err(CommitError::Store(error));
        }
        // An earlier commit in doubt has arrived: it is this writer's own, and the next snapshot builds on it.
        if writer.pending.iter().any(|pending| pending.head.commit == found.commit) {
            return Err(CommitError::DurabilityUnknown(Some(error)));
        }
        Err(CommitError::Fenced { recorded: found.token })
    }

    /// The response was lost.
    async fn in_doubt(
        &self,
        writer: &mut HeadWriter,
        index: &mut SlotIndex,
        mine: &Head,
        error: StoreError,
    ) -> Result<(), CommitError> {
        match self.read_head(&writer.slot).await {
            Ok(Some((found, version))) if found.commit == mine.commit => {
                adopt(writer, index, &found, version);
                Ok(())
            }
            Ok(Some((found, _))) => match self.follows(&writer.slot, &found, mine).await {
                // Someone stamped meanwhile, upon this commit: it counts, and the next one will be fenced.
                Ok(true) => Ok(()),
                Ok(false) if fences(&found, &writer.head) => Err(CommitError::Fenced { recorded: found.token }),
                Ok(false) | Err(_) => Err(CommitError::DurabilityUnknown(Some(error))),
            },
            Ok(None) | Err(_) => Err(CommitError::DurabilityUnknown(Some(error))),
        }
    }

    /// Whether a head was written upon a commit: its snapshot is the commit's, or descends from it. An error means that
    /// it cannot be told.
    async fn follows(&self, slot: &ScopeKey, found: &Head, mine: &Head) -> Result<bool, StoreError> {
        let Some(wanted) = mine.snapshot.filter(|_| found.generation > mine.generation) else {
            return Ok(false);
        };
        let mut next = found.snapshot;
        for _ in 0..MAX_ANCESTRY {
            match next {
                None => return Ok(false),
                Some(snapshot) if snapshot == wanted => return Ok(true),
                Some(snapshot) => {
                    let manifest = self.manifest(slot, snapshot).await?;
                    // Generations fall along the ancestry.
                    next = manifest.parent.filter(|_| manifest.generation > mine.generation);
                }
            }
        }
        Err(StoreError::NotFound { object: Manifest::name(slot, wanted).to_string() })
    }

    pub(super) async fn manifest(&self, slot: &ScopeKey, snapshot: SnapshotId) -> Result<Manifest, StoreError> {
        let bytes = self.store.get(&Manifest::name(slot, snapshot), MAX_OBJECT_BYTES).await?;
        Manifest::decode(slot, snapshot, &self.keys, &bytes)
    }
}

/// Whether a head of another holder makes it certain that a commit upon the head written last can never happen.
fn fences(found: &Head, written: &Head) -> bool {
    found.token > written.token && found.generation > written.generation
}

/// If the head is one of the writer's commits in doubt, that commit counts: the writer goes on from it.
fn adopt(writer: &mut HeadWriter, index: &mut SlotIndex, head: &Head, version: HeadVersion) -> bool {
    let Some(at) = writer.pending.iter().position(|pending| pending.head.commit == head.commit) else {
        return false;
    };
    let counted = writer.pending.swap_remove(at);
    // Whatever else was in doubt expected a version that is gone.
    writer.pending.clear();
    writer.head = counted.head;
    writer.version = version;
    *index = counted.index;
    true
}
