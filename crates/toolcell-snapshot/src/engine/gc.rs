//! Collecting what nothing needs.
//!
//! Deletions are not fenced by the head: a collector that is paused may delete long after it has lost the slot. So
//! whatever it deletes must be dead for good at a moment when it certainly held the slot. In this order:
//!
//! 1. *Fence*: it writes the head anew. Commits on their way, its own included, fail from here on.
//! 2. It reads all manifests and the pins, and deletes manifests that retention drops, oldest first, and manifests
//!    that never became a head and carry a **lower token**: their writers are fenced.
//! 3. It lists the pins again. Whoever pinned a snapshot before that, and found its manifest after, is seen here; whoever
//!    comes later finds no manifest.
//! 4. It lists packs that carry a lower token and that neither a manifest that is still there nor a pin needs.
//! 5. *Look*: the head must still be the one of step 1. Then nobody else has committed in between, and every later
//!    commit starts from that head's snapshot, which stays, or from a manifest that is still there.
//! 6. Only now packs are deleted, and pins in other slots that only dead packs needed.
//!
//! After step 5 nobody can come to need those packs any more: a snapshot refers to packs of its parent, of one that it
//! pinned, and to new ones, which carry the token of a later holder. What carries the collector's own token is left
//! alone, for the same acquisition may be resumed by another process.

use super::pin::MAX_PINS;
use super::{HeadWriter, SnapshotEngine};
use crate::error::{CommitError, GcError, StoreError};
use crate::format::manifest::Manifest;
use crate::format::pin::{ForkNote, Pin};
use crate::history::{GcReceipt, MAX_HISTORY, Retention};
use crate::index::SlotIndex;
use crate::progress::{Phase, Progress, ProgressSink};
use crate::rules::Weakening;
use crate::store::{MAX_OBJECT_BYTES, ObjectName};
use std::collections::{HashMap, HashSet};
use toolcell_model::{FencingToken, Generation, ScopeKey, SnapshotId, UnixMillis};

/// Packs of one slot that one collection looks at; with more it is refused.
const MAX_LISTED: usize = 1_000_000;

/// What is remembered of a manifest.
struct Known {
    parent: Option<SnapshotId>,
    token: FencingToken,
    generation: Generation,
    created_at: UnixMillis,
    packs: Vec<(ObjectName, u64)>,
    /// It has been deleted by this collection. Its packs stay known: a reader may have come in between.
    is_dropped: bool,
}

/// A collection under way.
struct Collection<'a> {
    engine: &'a SnapshotEngine,
    slot: ScopeKey,
    token: FencingToken,
    manifests: HashMap<SnapshotId, Known>,
    receipt: GcReceipt,
    progress: &'a dyn ProgressSink,
}

/// What may be deleted once the head is known to be still the collector's.
#[derive(Default)]
struct Dead {
    packs: Vec<(ObjectName, u64)>,
    notes: Vec<(ObjectName, ObjectName)>,
}

impl SnapshotEngine {
    /// Deletes what retention drops and what nothing needs, as the slot's holder. Safe while others restore, export,
    /// verify or fork; a pinned snapshot and the head's own always stay. Works on a slot that this writer has deleted,
    /// too. What this very acquisition has written and no longer needs is left to the next one's collection.
    ///
    /// Writes the head once, so that the writer's generation grows. May be dropped or die at any point: what is left
    /// is found by the next collection.
    ///
    /// # Errors
    /// [`GcError`].
    pub async fn gc(
        &self,
        writer: &mut HeadWriter,
        index: &mut SlotIndex,
        retention: &Retention,
        progress: &dyn ProgressSink,
    ) -> Result<GcReceipt, GcError> {
        let started = self.clock.monotonic();
        if self.keeps_nothing() {
            return Ok(GcReceipt::default());
        }
        if !self.rules.lacks(Weakening::CollectWithoutFence) {
            self.fence(writer, index).await?;
        }
        let manifests = self.read_manifests(&writer.slot, Known::of, progress).await.map_err(too_many)?;
        let manifests = manifests.into_iter().map(|(id, read)| read.map(|known| (id, known)));
        let mut collection = Collection {
            engine: self,
            slot: writer.slot.clone(),
            token: writer.token(),
            manifests: manifests.collect::<Result<_, _>>().map_err(GcError::Store)?,
            receipt: GcReceipt::default(),
            progress,
        };
        let early = collection.drop_manifests(writer, retention).await?;
        let dead = collection.find_dead(early).await?;
        if !self.rules.lacks(Weakening::CollectWithoutLook) {
            self.look(writer).await?;
        }
        collection.delete(dead).await.map_err(GcError::Store)?;
        let duration = self.clock.monotonic().saturating_duration_since(started);
        Ok(GcReceipt { duration, ..collection.receipt })
    }

    /// Writes the head anew, naming the same snapshot: whatever else is on its way fails.
    async fn fence(&self, writer: &mut HeadWriter, index: &mut SlotIndex) -> Result<(), CommitError> {
        let deleted = writer.head.deleted;
        if !deleted {
            match self.settle(writer, index).await {
                // A deletion in doubt has turned out to count.
                Err(CommitError::Deleted) => {}
                settled => settled?,
            }
        }
        let before = writer.head.commit;
        let (snapshot, deleted, next_index) = (writer.head.snapshot, writer.head.deleted, index.clone());
        self.replace(writer, index, snapshot, deleted, next_index).await?;
        // The snapshot is an old one, so that a later holder's head has it in its ancestry too, which proves nothing.
        if writer.head.commit == before {
            return Err(CommitError::DurabilityUnknown(None));
        }
        Ok(())
    }

    /// The head is still the one that this writer wrote last.
    async fn look(&self, writer: &HeadWriter) -> Result<(), GcError> {
        match self.read_head(&writer.slot).await.map_err(GcError::Store)? {
            None => Err(CommitError::HeadMissing.into()),
            Some((head, _)) if head.commit == writer.head.commit => Ok(()),
            Some((head, _)) => Err(CommitError::Fenced { recorded: head.token }.into()),
        }
    }
}

/// A listing that is too long, in words.
fn too_many(error: StoreError) -> GcError {
    match error {
        StoreError::TooLarge { object, max, .. } if object.ends_with("/manifests/") => {
            GcError::TooMany { what: "snapshots", max: usize::try_from(max).unwrap_or(MAX_HISTORY) }
        }
        StoreError::TooLarge { object, max, .. } if object.ends_with("/pins/") => {
            GcError::TooMany { what: "pins", max: usize::try_from(max).unwrap_or(MAX_PINS) }
        }
        error => GcError::Store(error),
    }
}

impl Known {
    fn of(manifest: &Manifest) -> Self {
        Self {
            parent: manifest.parent,
            token: manifest.token,
            generation: manifest.generation,
            created_at: manifest.created_at,
            packs: manifest.packs.iter().map(|pack| (pack.name.clone(), pack.bytes)).collect(),
            is_dropped: false,
        }
    }
}

impl Collection<'_> {
    /// Step 2: manifests that go. Gives the pins that were there before.
    async fn drop_manifests(
        &mut self,
        writer: &HeadWriter,
        retention: &Retention,
    ) -> Result<Vec<(ObjectName, Pin)>, GcError> {
        let chain = self.chain(writer.snapshot()).map_err(GcError::Store)?;
        let pins = self.engine.pins(&self.slot).await.map_err(too_many)?;
        // A fork's lasting pin needs the packs that it lists, and no manifest.
        let needs_manifest = |pin: &Pin| pin.packs.is_empty() && !self.engine.is_over(pin);
        let pinned: HashSet<SnapshotId> =
            pins.iter().filter(|(_, pin)| needs_manifest(pin)).map(|(_, pin)| pin.snapshot).collect();
        let kept = self.kept(&chain, retention);
        self.receipt.snapshots_kept = kept as u64;

        let in_chain: HashSet<SnapshotId> = chain.iter().copied().collect();
        let mut garbage: Vec<(Generation, SnapshotId)> = self
            .manifests
            .iter()
            .filter(|(id, known)| !in_chain.contains(id) && !pinned.contains(id) && known.token < self.token)
            .map(|(id, known)| (known.generation, *id))
            .collect();
        garbage.sort_unstable();
        for (_, snapshot) in garbage {
            self.drop_manifest(snapshot).await?;
            self.receipt.garbage_manifests += 1;
        }
        // Oldest first, so that what is left is always the newest part.
        for snapshot in chain.iter().skip(kept).rev() {
            if pinned.contains(snapshot) {
                self.receipt.snapshots_kept += 1;
                continue;
            }
            self.drop_manifest(*snapshot).await?;
            self.receipt.snapshots_dropped += 1;
        }
        Ok(pins)
    }

    /// A failure, or a doubt, ends the collection: the pins may be listed only after the manifest is gone.
    async fn drop_manifest(&mut self, snapshot: SnapshotId) -> Result<(), GcError> {
        let name = Manifest::name(&self.slot, snapshot);
        self.engine.store.delete(&name).await.map_err(GcError::Store)?;
        if let Some(known) = self.manifests.get_mut(&snapshot) {
            known.is_dropped = true;
        }
        Ok(())
    }

    /// The head's snapshot and its ancestors, as far as they are there.
    fn chain(&self, newest: Option<SnapshotId>) -> Result<Vec<SnapshotId>, StoreError> {
        let mut chain = Vec::new();
        let mut next = newest;
        while let Some(snapshot) = next {
            let Some(known) = self.manifests.get(&snapshot) else {
                if chain.is_empty() {
                    return Err(StoreError::NotFound { object: Manifest::name(&self.slot, snapshot).to_string() });
                }
                break;
            };
            if chain.len() >= MAX_HISTORY {
                let name = Manifest::name(&self.slot, snapshot);
                return Err(StoreError::corrupt(name, "its ancestry does not end"));
            }
            chain.push(snapshot);
            next = known.parent;
        }
        Ok(chain)
    }

    /// How many of the newest snapshots stay.
    fn kept(&self, chain: &[SnapshotId], retention: &Retention) -> usize {
        let now = self.engine.clock.now();
        let mut packs = HashSet::new();
        let mut bytes = 0u64;
        let mut kept = 0;
        for known in chain.iter().filter_map(|snapshot| self.manifests.get(snapshot)) {
            for (name, pack_bytes) in &known.packs {
                if packs.insert(name) {
                    bytes = bytes.saturating_add(*pack_bytes);
                }
            }
            let drop = retention.keep_last.is_some_and(|most| kept as u64 >= most)
                || retention.max_age.is_some_and(|most| now.since(known.created_at) > most)
                || retention.max_bytes.is_some_and(|most| bytes > most);
            if drop && kept > 0 {
                break;
            }
            kept += 1;
        }
        kept
    }

    /// Steps 3 and 4: what nothing needs.
    async fn find_dead(&mut self, early: Vec<(ObjectName, Pin)>) -> Result<Dead, GcError> {
        let pins = if self.engine.rules.lacks(Weakening::PinsListedEarly) {
            early
        } else {
            self.engine.pins(&self.slot).await.map_err(too_many)?
        };
        let (over, held): (Vec<_>, Vec<_>) = pins.into_iter().partition(|(_, pin)| self.engine.is_over(pin));
        for (name, _) in &over {
            self.engine.store.delete(name).await.map_err(GcError::Store)?;
            self.receipt.pins_expired += 1;
        }
        self.receipt.pins = held.len() as u64;
        let mut needed: HashSet<&ObjectName> = HashSet::new();
        for (snapshot, known) in &self.manifests {
            if !known.is_dropped || held.iter().any(|(_, pin)| pin.snapshot == *snapshot) {
                needed.extend(known.packs.iter().map(|(name, _)| name));
            }
        }
        for (_, pin) in &held {
            needed.extend(&pin.packs);
            self.receipt.packs_blocked |= pin.packs.is_empty() && !self.manifests.contains_key(&pin.snapshot);
        }
        if self.receipt.packs_blocked {
            return Ok(Dead::default());
        }
        let any_token = self.engine.rules.lacks(Weakening::CollectByAge);
        let mut dead = Dead::default();
        for listed in self.engine.list_class(&self.slot, "packs", MAX_LISTED).await.map_err(GcError::Store)? {
            if needed.contains(&listed.name) {
                self.receipt.packs_kept += 1;
            } else if any_token || listed.name.token().is_some_and(|token| token < self.token) {
                dead.packs.push((listed.name, listed.bytes));
            } else {
                self.receipt.packs_left += 1;
            }
        }
        dead.notes = self.dead_notes(&needed).await.map_err(GcError::Store)?;
        Ok(dead)
    }

    /// Forks into this slot whose pins hold nothing that is needed here.
    async fn dead_notes(&self, needed: &HashSet<&ObjectName>) -> Result<Vec<(ObjectName, ObjectName)>, StoreError> {
        let mut dead = Vec::new();
        for listed in self.engine.list_class(&self.slot, "forks", MAX_PINS).await? {
            if listed.name.token().is_none_or(|token| token >= self.token) {
                continue;
            }
            let note = self.engine.store.get(&listed.name, MAX_OBJECT_BYTES).await?;
            let note = ForkNote::decode(&listed.name, &self.engine.keys, &note)?;
            let pin = match self.engine.store.get(&note.pin, MAX_OBJECT_BYTES).await {
                // The fork died before it pinned, or an earlier collection after it unpinned.
                Err(StoreError::NotFound { .. }) => Vec::new(),
                read => Pin::decode(&note.pin, &self.engine.keys, &read?)?.packs,
            };
            if !pin.iter().any(|pack| needed.contains(pack)) {
                dead.push((listed.name, note.pin));
            }
        }
        Ok(dead)
    }

    /// Step 6.
    async fn delete(&mut self, dead: Dead) -> Result<(), StoreError> {
        let total = (dead.packs.len() + dead.notes.len()) as u64;
        let mut files = 0;
        for (name, bytes) in dead.packs {
            self.engine.store.delete(&name).await?;
            self.receipt.packs_deleted += 1;
            self.receipt.bytes_freed = self.receipt.bytes_freed.saturating_add(bytes);
            files += 1;
            let bytes = self.receipt.bytes_freed;
            let now = Progress { files, bytes, total_files: Some(total), ..Progress::begin(Phase::Collect) };
            self.progress.report(now);
        }
        for (note, pin) in dead.notes {
            // The note goes last: as long as it is there the pin can be found.
            self.engine.store.delete(&pin).await?;
            self.engine.store.delete(&note).await?;
            self.receipt.forks_released += 1;
        }
        Ok(())
    }
}
