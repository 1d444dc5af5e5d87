//! Objects in memory: for tests, and stricter than real stores in what it checks.

use super::{
    HeadRecord, HeadVersion, ListPage, Listed, MAX_HEAD_BYTES, MAX_OBJECT_BYTES, ObjectName, ObjectPrefix,
    SnapshotStore, StoreKind, check_size, head_name, version_of,
};
use crate::error::StoreError;
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use toolcell_model::ScopeKey;

/// Objects in this process's memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    objects: BTreeMap<ObjectName, Bytes>,
    heads: HashMap<ScopeKey, Bytes>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(&self, name: &ObjectName) -> Result<Bytes, StoreError> {
        self.lock().objects.get(name).cloned().ok_or_else(|| StoreError::NotFound { object: name.to_string() })
    }
}

#[async_trait]
impl SnapshotStore for MemoryStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn is_durable(&self) -> bool {
        false
    }

    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError> {
        check_size(name, data.len() as u64, MAX_OBJECT_BYTES)?;
        let mut inner = self.lock();
        if inner.objects.contains_key(name) {
            return Err(StoreError::AlreadyExists { object: name.to_string() });
        }
        inner.objects.insert(name.clone(), data);
        Ok(())
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        let data = self.object(name)?;
        check_size(name, data.len() as u64, max_bytes)?;
        Ok(data)
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        check_size(name, len, MAX_OBJECT_BYTES)?;
        let data = self.object(name)?;
        let range = offset.checked_add(len).filter(|end| *end <= data.len() as u64);
        match (range.and_then(|end| usize::try_from(end).ok()), usize::try_from(offset)) {
            (Some(end), Ok(start)) => Ok(data.slice(start..end)),
            _ => Err(StoreError::corrupt(name, format!("it ends at {}, before {offset} + {len}", data.len()))),
        }
    }

    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        let inner = self.lock();
        let from = after.map_or(Bound::Unbounded, |name| Bound::Excluded(name.clone()));
        let mut matching = inner
            .objects
            .range((from, Bound::Unbounded))
            .filter(|(name, _)| name.as_str().starts_with(prefix.as_str()));
        let objects: Vec<Listed> = matching
            .by_ref()
            .take(limit.max(1))
            .map(|(name, data)| Listed { name: name.clone(), bytes: data.len() as u64 })
            .collect();
        Ok(ListPage { objects, more: matching.next().is_some() })
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        self.lock().objects.remove(name);
        Ok(())
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        Ok(self.lock().heads.get(slot).map(|data| HeadRecord { data: data.clone(), version: version_of(data) }))
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        check_size(&head_name(slot), data.len() as u64, MAX_HEAD_BYTES)?;
        let mut inner = self.lock();
        if inner.heads.get(slot).map(|data| version_of(data)).as_ref() != expected {
            return Err(StoreError::PreconditionFailed { object: head_name(slot) });
        }
        let version = version_of(&data);
        inner.heads.insert(slot.clone(), data);
        Ok(version)
    }
}
