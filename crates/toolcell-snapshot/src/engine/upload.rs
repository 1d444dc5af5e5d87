//! From plain bytes to stored packs: hashing and compressing beside everything else, few packs in memory.

use super::SnapshotEngine;
use crate::error::{SnapshotError, StoreError};
use crate::format::keys::{BlobId, BlobKind, BlobMap, TenantKeys};
use crate::format::manifest::PackRef;
use crate::format::pack::{PackBuilder, Place, Sealed, Sealer};
use crate::index::IndexData;
use crate::store::ObjectName;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::Sender;
use tokio::task::{JoinHandle, JoinSet};
use toolcell_model::{FencingToken, ScopeKey};

/// Packs on their way to the store at a time; with the one that is filled this bounds memory.
const MAX_UPLOADS: usize = 2;

/// Which blobs are stored, or on their way.
#[derive(Debug)]
pub(super) struct Known {
    old: Arc<IndexData>,
    new: Mutex<HashSet<BlobId>>,
}

impl Known {
    pub(super) fn new(old: Arc<IndexData>) -> Self {
        Self { old, new: Mutex::default() }
    }

    /// Whether the caller is the one that has to store it.
    pub(super) fn claim(&self, id: BlobId) -> bool {
        !self.old.blobs.contains_key(&id) && self.new.lock().unwrap_or_else(PoisonError::into_inner).insert(id)
    }
}

/// Blobs that are being made: their ids, and what of them is new.
pub(super) type SealedHandle = JoinHandle<io::Result<Vec<(BlobId, Option<Sealed>)>>>;

/// Makes blobs out of plain bytes.
#[derive(Debug, Clone)]
pub(super) struct Sealing {
    pub(super) keys: TenantKeys,
    pub(super) known: Arc<Known>,
    pub(super) out: Sender<Vec<Sealed>>,
}

impl Sealing {
    /// Starts hashing, and compressing what is new. The result must be given to [`Self::finish`]: what is claimed here
    /// is nobody else's to store.
    pub(super) fn start(&self, kind: BlobKind, plains: Vec<Vec<u8>>) -> SealedHandle {
        let (keys, known) = (self.keys.clone(), Arc::clone(&self.known));
        tokio::task::spawn_blocking(move || {
            let mut sealer = None;
            let seal = |plain: Vec<u8>| {
                let id = keys.id(kind, &plain);
                if !known.claim(id) {
                    return Ok((id, None));
                }
                let sealer = match &mut sealer {
                    Some(sealer) => sealer,
                    none => none.insert(Sealer::new()?),
                };
                Ok((id, Some(sealer.seal(id, kind, plain)?)))
            };
            plains.into_iter().map(seal).collect()
        })
    }

    /// Hands what is new to the uploader, and gives the ids in order.
    pub(super) async fn finish(&self, started: SealedHandle) -> Result<Vec<BlobId>, SnapshotError> {
        let internal = |error: io::Error| SnapshotError::Store(StoreError::internal("a new pack", error));
        let batch = started.await.map_err(io::Error::other).and_then(|sealed| sealed).map_err(internal)?;
        let ids = batch.iter().map(|(id, _)| *id).collect();
        let new: Vec<Sealed> = batch.into_iter().filter_map(|(_, sealed)| sealed).collect();
        if !new.is_empty() {
            // The receiver ends early only when the upload failed, which fails the snapshot with its own error.
            self.out.send(new).await.map_err(|_| internal(io::ErrorKind::BrokenPipe.into()))?;
        }
        Ok(ids)
    }
}

/// Fills packs and stores them.
#[derive(Debug)]
pub(super) struct Uploader {
    engine: SnapshotEngine,
    slot: ScopeKey,
    token: FencingToken,
    current: Option<(u32, PackBuilder)>,
    next_number: u32,
    uploads: JoinSet<Result<(), StoreError>>,
    /// Packs that were written, by number.
    pub(super) packs: BTreeMap<u32, PackRef>,
    /// Where new blobs are.
    pub(super) places: BlobMap<(u32, Place)>,
    pub(super) bytes: u64,
}

impl Uploader {
    /// Numbers of packs go on from those of the index.
    pub(super) fn new(engine: &SnapshotEngine, slot: &ScopeKey, token: FencingToken, old: &IndexData) -> Self {
        Self {
            engine: engine.clone(),
            slot: slot.clone(),
            token,
            current: None,
            next_number: old.packs.last_key_value().map_or(0, |(number, _)| number.saturating_add(1)),
            uploads: JoinSet::new(),
            packs: BTreeMap::new(),
            places: BlobMap::default(),
            bytes: 0,
        }
    }

    pub(super) async fn push(&mut self, blobs: &[Sealed]) -> Result<(), StoreError> {
        for blob in blobs {
            let (number, pack) = match &mut self.current {
                Some(current) => current,
                none => {
                    let mut random = [0; 16];
                    getrandom::fill(&mut random)
                        .map_err(|error| StoreError::internal(&self.slot, error.to_string()))?;
                    let number = self.next_number;
                    self.next_number = number.saturating_add(1);
                    let name = ObjectName::pack(&self.slot, self.token, random);
                    none.insert((number, PackBuilder::new(name)))
                }
            };
            let place = pack.push(blob)?;
            self.places.insert(blob.id, (*number, place));
            if pack.is_full() {
                self.close().await?;
            }
        }
        Ok(())
    }

    async fn close(&mut self) -> Result<(), StoreError> {
        let Some((number, pack)) = self.current.take() else { return Ok(()) };
        let (reference, data) = pack.finish(&self.engine.keys)?;
        self.bytes += reference.bytes;
        while self.uploads.len() >= MAX_UPLOADS {
            self.await_upload().await?;
        }
        let (store, name) = (Arc::clone(&self.engine.store), reference.name.clone());
        self.packs.insert(number, reference);
        self.uploads.spawn(async move { store.put_if_absent(&name, data).await });
        Ok(())
    }

    async fn await_upload(&mut self) -> Result<(), StoreError> {
        match self.uploads.join_next().await {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(error)) => Err(StoreError::internal(&self.slot, error)),
        }
    }

    /// Everything that was pushed is stored.
    pub(super) async fn finish(&mut self) -> Result<(), StoreError> {
        self.close().await?;
        while !self.uploads.is_empty() {
            self.await_upload().await?;
        }
        Ok(())
    }
}
