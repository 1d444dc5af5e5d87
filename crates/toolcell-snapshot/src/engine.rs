//! The engine: the head protocol, snapshot and restore over any store.

mod archive;
mod build;
mod commit;
mod compact;
mod fork;
mod gc;
mod history;
#[cfg(test)]
mod hostile_store;
mod import;
mod load;
#[cfg(test)]
mod model;
mod pair;
mod pin;
mod plan;
mod read;
mod recommit;
mod restore;
mod snapshot;
mod upload;
mod verify;

use crate::error::{OpenError, StampError, StoreError};
use crate::format::envelope::{self, ObjectKind, Proof};
use crate::format::head::Head;
use crate::format::keys::StoreKeys;
use crate::rules::{Rules, Weakening};
use crate::store::{HeadRecord, HeadVersion, ObjectName, SnapshotStore, head_name};
pub use archive::ArchiveFormat;
use bytes::Bytes;
use commit::Pending;
pub use import::ImportOptions;
pub use pin::{PIN_SKEW, PIN_TTL};
use std::sync::Arc;
use toolcell_model::{Acquisition, Clock, CommitId, FencingToken, Generation, Retry, ScopeKey, SnapshotId, TenantId};

/// Most bytes of a workspace, holes counted, unless [`SnapshotEngine::with_max_workspace_bytes`] says otherwise. A
/// snapshot of more fails with [`SnapshotError::TooLarge`](crate::SnapshotError::TooLarge).
pub const DEFAULT_MAX_WORKSPACE_BYTES: u64 = 1 << 40;

/// A file whose last change is not older than this, by the host's clock, when it is read is read again by the next
/// snapshot: kernels give changes within one clock tick (at most 10 ms) the same time.
pub const RACY_MILLIS: u64 = 25;

/// How often a stamp is tried against a head that an older holder still writes.
const STAMP_ATTEMPTS: usize = 8;
const CANARY_MAX_BYTES: u64 = 4096;

/// Takes and restores snapshots in one store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SnapshotEngine {
    store: Arc<dyn SnapshotStore>,
    keys: StoreKeys,
    clock: Arc<dyn Clock>,
    max_workspace_bytes: u64,
    /// Rules that the model check breaks, to see that it would be noticed.
    #[cfg(test)]
    broken: model::Rules,
    rules: Rules,
}

/// The right to replace a slot's head: what a holder has after stamping it.
///
/// Not `Clone`: there is one per acquisition, and it knows which generation was written last.
#[derive(Debug)]
pub struct HeadWriter {
    slot: ScopeKey,
    tenant: TenantId,
    head: Head,
    version: HeadVersion,
    /// Commits of which it is not known whether they were made.
    pending: Vec<Pending>,
}

impl HeadWriter {
    /// The slot.
    #[must_use]
    pub fn slot(&self) -> &ScopeKey {
        &self.slot
    }

    /// The slot's owner.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The fencing token of the acquisition.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.head.token
    }

    /// The acquisition.
    #[must_use]
    pub fn acquisition(&self) -> Acquisition {
        self.head.acquisition
    }

    /// The generation that this writer wrote last, as far as it knows.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.head.generation
    }

    /// The snapshot that the head names: what to restore after a stamp.
    #[must_use]
    pub fn snapshot(&self) -> Option<SnapshotId> {
        self.head.snapshot
    }
}

impl SnapshotEngine {
    /// Opens a store: checks that it belongs to this `id_secret`, by an object that the first opener makes.
    ///
    /// # Errors
    /// [`OpenError::WrongSecret`]; [`OpenError::Store`].
    pub async fn open(
        store: Arc<dyn SnapshotStore>,
        id_secret: [u8; 32],
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let keys = StoreKeys::new(id_secret);
        if !store.keeps_nothing() {
            check_canary(&*store, &keys).await?;
        }
        Ok(Self {
            store,
            keys,
            clock,
            max_workspace_bytes: DEFAULT_MAX_WORKSPACE_BYTES,
            #[cfg(test)]
            broken: model::Rules::default(),
            rules: Rules::default(),
        })
    }

    /// The same engine with another bound on a workspace's bytes, holes counted.
    #[must_use]
    pub fn with_max_workspace_bytes(mut self, max: u64) -> Self {
        self.max_workspace_bytes = max;
        self
    }

    /// The same engine without one of its rules.
    #[cfg(feature = "weakened")]
    #[doc(hidden)]
    #[must_use]
    pub fn without(mut self, rule: Option<crate::Weakening>) -> Self {
        self.rules.broken = rule;
        self
    }

    /// The packs that a snapshot refers to.
    #[cfg(feature = "weakened")]
    #[doc(hidden)]
    pub async fn packs_of(&self, slot: &ScopeKey, snapshot: SnapshotId) -> Result<Vec<ObjectName>, StoreError> {
        Ok(self.manifest(slot, snapshot).await?.packs.into_iter().map(|pack| pack.name).collect())
    }

    /// Whether the store keeps nothing: snapshots then read nothing and write nothing, and every result has to say so.
    #[must_use]
    pub fn keeps_nothing(&self) -> bool {
        self.store.keeps_nothing()
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn SnapshotStore> {
        &self.store
    }

    /// The slot's head, if it has one. Its token is the floor of the next acquisition.
    ///
    /// # Errors
    /// Those of the store; [`StoreError::Corrupt`] if the head is not one that was written here.
    pub async fn head(&self, slot: &ScopeKey) -> Result<Option<Head>, StoreError> {
        Ok(self.read_head(slot).await?.map(|(head, _)| head))
    }

    async fn read_head(&self, slot: &ScopeKey) -> Result<Option<(Head, HeadVersion)>, StoreError> {
        match self.store.head_get(slot).await? {
            None => Ok(None),
            Some(HeadRecord { data, version }) => Ok(Some((Head::decode(slot, &self.keys, &data)?, version))),
        }
    }

    /// The first act of a holder: makes the head name its acquisition, so that no earlier holder can commit any more.
    /// Allowed only if the recorded token is strictly lower.
    ///
    /// `floor` is the highest generation that was ever acknowledged for the slot; a head that is absent or lower has
    /// been lost, and nothing is written over it. A store that keeps nothing has no heads to lose, and ignores it.
    ///
    /// Not cancel-safe: a stamp that was dropped may have happened. Acquire again.
    ///
    /// # Errors
    /// [`StampError`]. After any of them the acquisition is of no use.
    pub async fn stamp(
        &self,
        tenant: &TenantId,
        slot: &ScopeKey,
        token: FencingToken,
        acquisition: Acquisition,
        floor: Option<Generation>,
    ) -> Result<HeadWriter, StampError> {
        let floor = floor.filter(|_| !self.keeps_nothing());
        let mut last = None;
        for _ in 0..STAMP_ATTEMPTS {
            let current = self.read_head(slot).await.map_err(StampError::Store)?;
            let found = current.as_ref().map(|(head, _)| head.generation);
            if let Some(expected) = floor
                && found.is_none_or(|found| found < expected)
            {
                return Err(StampError::HeadMissing { expected, found });
            }
            if let Some((head, _)) = current.as_ref().filter(|(head, _)| self.is_taken(head.token, token)) {
                return Err(StampError::Fenced { recorded: head.token });
            }
            let generation = self.next_generation(slot, found).map_err(StampError::Store)?;
            let stamped = Head {
                snapshot: current.as_ref().and_then(|(head, _)| head.snapshot),
                token,
                acquisition,
                generation,
                commit: self.commit_id(slot).map_err(StampError::Store)?,
                deleted: false,
                written_at: self.clock.now(),
            };
            let data = stamped.encode(slot, &self.keys).map_err(StampError::Store)?;
            let expected = current.as_ref().map(|(_, version)| version);
            let (head, version) = match self.store.head_cas(slot, expected, data).await {
                Ok(version) => (stamped, version),
                Err(error) => match self.settle_stamp(slot, stamped, error).await? {
                    Ok(settled) => settled,
                    // An older holder wrote in between, as it still could: look again.
                    Err(error) => {
                        last = Some(error);
                        continue;
                    }
                },
            };
            return Ok(HeadWriter { slot: slot.clone(), tenant: tenant.clone(), head, version, pending: Vec::new() });
        }
        let busy = || StoreError::PreconditionFailed { object: head_name(slot) };
        Err(StampError::Store(last.unwrap_or_else(busy)))
    }

    /// Whether a token that is recorded keeps another one out: it is as good as another only if it is strictly higher.
    fn is_taken(&self, recorded: FencingToken, mine: FencingToken) -> bool {
        #[cfg(test)]
        if self.broken.stamps_over_its_equal {
            return recorded > mine;
        }
        recorded > mine || (recorded == mine && !self.rules.lacks(Weakening::StampWithEqualToken))
    }

    /// After a compare-and-set that did not simply succeed: whether the stamp is there all the same. The inner error
    /// says that it is certainly not.
    async fn settle_stamp(
        &self,
        slot: &ScopeKey,
        stamped: Head,
        error: StoreError,
    ) -> Result<Result<(Head, HeadVersion), StoreError>, StampError> {
        let refused = matches!(error, StoreError::PreconditionFailed { .. });
        if !refused && error.retry() != Retry::Indeterminate {
            return Err(StampError::Store(error));
        }
        match self.read_head(slot).await {
            Ok(Some((head, version))) if head.commit == stamped.commit => Ok(Ok((head, version))),
            // A request that was repeated on the way is refused although its first copy was taken: only reading tells.
            Ok(_) if refused => Ok(Err(error)),
            Ok(_) | Err(_) => Err(StampError::InDoubt(error)),
        }
    }

    /// Takes up an acquisition that the head still names: the same instance after a restart.
    ///
    /// # Errors
    /// [`StampError::Fenced`] if the head names another; [`StampError::HeadMissing`] if there is none.
    pub async fn resume(
        &self,
        tenant: &TenantId,
        slot: &ScopeKey,
        token: FencingToken,
        acquisition: Acquisition,
    ) -> Result<HeadWriter, StampError> {
        match self.read_head(slot).await.map_err(StampError::Store)? {
            None => Err(StampError::HeadMissing { expected: Generation(1), found: None }),
            Some((head, version)) if head.token == token && head.acquisition == acquisition => {
                Ok(HeadWriter { slot: slot.clone(), tenant: tenant.clone(), head, version, pending: Vec::new() })
            }
            Some((head, _)) => Err(StampError::Fenced { recorded: head.token }),
        }
    }

    fn next_generation(&self, slot: &ScopeKey, found: Option<Generation>) -> Result<Generation, StoreError> {
        found
            .unwrap_or_default()
            .next()
            .ok_or_else(|| StoreError::internal(head_name(slot), "the generations are used up"))
    }

    fn commit_id(&self, slot: &ScopeKey) -> Result<CommitId, StoreError> {
        CommitId::generate().map_err(|error| StoreError::internal(head_name(slot), error.to_string()))
    }
}

async fn check_canary(store: &dyn SnapshotStore, keys: &StoreKeys) -> Result<(), OpenError> {
    let name = ObjectName::canary();
    let found = match store.get(&name, CANARY_MAX_BYTES).await {
        Err(StoreError::NotFound { .. }) => {
            let data = envelope::encode(ObjectKind::Canary, name.as_str(), Proof::Unkeyed, &keys.canary());
            match store.put_if_absent(&name, Bytes::from(data.map_err(OpenError::Store)?)).await {
                Ok(()) => return Ok(()),
                Err(StoreError::AlreadyExists { .. }) => store.get(&name, CANARY_MAX_BYTES).await,
                Err(error) => Err(error),
            }
        }
        found => found,
    };
    let found = found.map_err(OpenError::Store)?;
    let value: [u8; 32] =
        envelope::decode(ObjectKind::Canary, name.as_str(), Proof::Unkeyed, &found).map_err(OpenError::Store)?;
    // Compared by hash so that the time tells nothing.
    if blake3::hash(&value) == blake3::hash(&keys.canary()) { Ok(()) } else { Err(OpenError::WrongSecret) }
}
