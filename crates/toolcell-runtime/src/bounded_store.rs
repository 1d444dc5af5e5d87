//! A snapshot store whose every operation ends: one that neither answers nor refuses must not hold a save, a stop or the
//! end of the program for ever.

use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use toolcell_model::ScopeKey;
use toolcell_snapshot::{
    Cause, HeadRecord, HeadVersion, ListPage, ObjectName, ObjectPrefix, SnapshotStore, StoreError, StoreKind,
};

/// Gives each operation of a store a deadline. A read that is late is [`StoreError::Unavailable`]; a write that is late
/// may have happened, and is [`StoreError::InDoubt`].
#[derive(Debug)]
pub(crate) struct BoundedStore {
    store: Arc<dyn SnapshotStore>,
    limit: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("no answer within {} ms ([snapshots] timeout_ms)", limit.as_millis())]
struct NoAnswer {
    limit: Duration,
}

impl BoundedStore {
    pub(crate) fn new(store: Arc<dyn SnapshotStore>, limit: Duration) -> Self {
        Self { store, limit }
    }

    fn cause(&self) -> Cause {
        Box::new(NoAnswer { limit: self.limit })
    }

    async fn read<T>(
        &self,
        object: impl ToString,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let late = |_| Err(StoreError::Unavailable { object: object.to_string(), source: self.cause() });
        tokio::time::timeout(self.limit, work).await.unwrap_or_else(late)
    }

    async fn write<T>(
        &self,
        object: impl ToString,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let late = |_| Err(StoreError::InDoubt { object: object.to_string(), source: self.cause() });
        tokio::time::timeout(self.limit, work).await.unwrap_or_else(late)
    }
}

fn head(slot: &ScopeKey) -> String {
    format!("{slot}/head")
}

#[async_trait]
impl SnapshotStore for BoundedStore {
    fn kind(&self) -> StoreKind {
        self.store.kind()
    }

    fn keeps_nothing(&self) -> bool {
        self.store.keeps_nothing()
    }

    fn is_durable(&self) -> bool {
        self.store.is_durable()
    }

    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError> {
        self.write(name.as_str(), self.store.put_if_absent(name, data)).await
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        self.read(name.as_str(), self.store.get(name, max_bytes)).await
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        self.read(name.as_str(), self.store.get_range(name, offset, len)).await
    }

    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        self.read("a listing", self.store.list(prefix, after, limit)).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        self.write(name.as_str(), self.store.delete(name)).await
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        self.read(head(slot), self.store.head_get(slot)).await
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        self.write(head(slot), self.store.head_cas(slot, expected, data)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolcell_model::Retry;
    use toolcell_snapshot::{ErrorKind, MemoryStore};

    /// Takes every request and never answers.
    #[derive(Debug)]
    struct BlackHole;

    #[async_trait]
    impl SnapshotStore for BlackHole {
        fn kind(&self) -> StoreKind {
            StoreKind::Memory
        }

        async fn put_if_absent(&self, _: &ObjectName, _: Bytes) -> Result<(), StoreError> {
            std::future::pending().await
        }

        async fn get(&self, _: &ObjectName, _: u64) -> Result<Bytes, StoreError> {
            std::future::pending().await
        }

        async fn get_range(&self, _: &ObjectName, _: u64, _: u64) -> Result<Bytes, StoreError> {
            std::future::pending().await
        }

        async fn list(&self, _: &ObjectPrefix, _: Option<&ObjectName>, _: usize) -> Result<ListPage, StoreError> {
            std::future::pending().await
        }

        async fn delete(&self, _: &ObjectName) -> Result<(), StoreError> {
            std::future::pending().await
        }

        async fn head_get(&self, _: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
            std::future::pending().await
        }

        async fn head_cas(&self, _: &ScopeKey, _: Option<&HeadVersion>, _: Bytes) -> Result<HeadVersion, StoreError> {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn a_store_that_never_answers_ends_in_time_and_a_write_is_in_doubt() {
        let store = BoundedStore::new(Arc::new(BlackHole), Duration::from_millis(50));
        let slot = ScopeKey::ephemeral().unwrap();
        let read = store.head_get(&slot).await.unwrap_err();
        assert_eq!((read.kind(), read.retry()), (ErrorKind::Unavailable, Retry::Later));
        assert!(crate::error::chain(&read).contains("50 ms"), "{read:?}");
        let written = store.head_cas(&slot, None, Bytes::new()).await.unwrap_err();
        assert_eq!((written.kind(), written.retry()), (ErrorKind::Unavailable, Retry::Indeterminate));
    }

    #[tokio::test]
    async fn a_store_that_answers_is_passed_through() {
        let store = BoundedStore::new(Arc::new(MemoryStore::new()), Duration::from_secs(5));
        let slot = ScopeKey::ephemeral().unwrap();
        let version = store.head_cas(&slot, None, Bytes::from_static(b"x")).await.unwrap();
        assert_eq!(store.head_get(&slot).await.unwrap().map(|head| head.version), Some(version));
        assert_eq!(store.kind(), StoreKind::Memory);
    }
}
