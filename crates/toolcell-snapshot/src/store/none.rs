//! The store that keeps nothing, for deployments that want no persistence.

use super::{HeadRecord, HeadVersion, ListPage, MemoryStore, ObjectName, ObjectPrefix, SnapshotStore, StoreKind};
use crate::error::StoreError;
use async_trait::async_trait;
use bytes::Bytes;
use toolcell_model::ScopeKey;

/// Keeps no object. Heads live in memory, so that holders in one process are fenced from each other; they grow with
/// the number of slots and end with the process.
#[derive(Debug, Default)]
pub struct NoneStore {
    heads: MemoryStore,
}

impl NoneStore {
    /// A store without heads.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl SnapshotStore for NoneStore {
    fn kind(&self) -> StoreKind {
        StoreKind::None
    }

    fn keeps_nothing(&self) -> bool {
        true
    }

    fn is_durable(&self) -> bool {
        false
    }

    async fn put_if_absent(&self, _name: &ObjectName, _data: Bytes) -> Result<(), StoreError> {
        Ok(())
    }

    async fn get(&self, name: &ObjectName, _max_bytes: u64) -> Result<Bytes, StoreError> {
        Err(StoreError::NotFound { object: name.to_string() })
    }

    async fn get_range(&self, name: &ObjectName, _offset: u64, _len: u64) -> Result<Bytes, StoreError> {
        Err(StoreError::NotFound { object: name.to_string() })
    }

    async fn list(
        &self,
        _prefix: &ObjectPrefix,
        _after: Option<&ObjectName>,
        _limit: usize,
    ) -> Result<ListPage, StoreError> {
        Ok(ListPage::default())
    }

    async fn delete(&self, _name: &ObjectName) -> Result<(), StoreError> {
        Ok(())
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        self.heads.head_get(slot).await
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        self.heads.head_cas(slot, expected, data).await
    }
}
