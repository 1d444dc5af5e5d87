//! A store with troubles of its own, for running a whole suite over it.

use super::Operation;
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolcell_model::ScopeKey;
use toolcell_snapshot::{
    HeadRecord, HeadVersion, ListPage, ObjectName, ObjectPrefix, SnapshotStore, StoreError, StoreKind,
};

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The first so many operations of each kind fail before they are done.
    FailsFirst(usize),
    /// The first so many operations of each kind are done, and their answers are lost.
    LosesFirst(usize),
    /// Every operation takes so much longer.
    Slow(Duration),
}

/// A store with troubles.
#[derive(Debug)]
pub struct TroubledStore {
    inner: Arc<dyn SnapshotStore>,
    trouble: Trouble,
    seen: Mutex<Vec<Operation>>,
}

impl TroubledStore {
    /// A store with a trouble.
    #[must_use]
    pub fn new(inner: Arc<dyn SnapshotStore>, trouble: Trouble) -> Self {
        Self { inner, trouble, seen: Mutex::default() }
    }

    /// Whether this operation is one of the first `count` of its kind.
    fn is_early(&self, operation: Operation, count: usize) -> bool {
        let mut seen = self.seen.lock().unwrap();
        let before = seen.iter().filter(|other| **other == operation).count();
        if before < count {
            seen.push(operation);
        }
        before < count
    }
}

macro_rules! troubled {
    ($self:ident, $operation:expr, $object:expr, $writes:expr, $call:expr) => {{
        let object = $object.to_string();
        match $self.trouble {
            Trouble::FailsFirst(count) if $self.is_early($operation, count) => {
                Err(StoreError::Unavailable { object, source: "one of the first ones".into() })
            }
            Trouble::LosesFirst(count) if $self.is_early($operation, count) => {
                drop($call);
                let source = "the answer is lost".into();
                if $writes {
                    Err(StoreError::InDoubt { object, source })
                } else {
                    Err(StoreError::Unavailable { object, source })
                }
            }
            Trouble::Slow(time) => {
                tokio::time::sleep(time).await;
                $call
            }
            Trouble::FailsFirst(_) | Trouble::LosesFirst(_) => $call,
        }
    }};
}

#[async_trait]
impl SnapshotStore for TroubledStore {
    fn kind(&self) -> StoreKind {
        self.inner.kind()
    }

    fn keeps_nothing(&self) -> bool {
        self.inner.keeps_nothing()
    }

    fn is_durable(&self) -> bool {
        self.inner.is_durable()
    }

    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError> {
        troubled!(self, Operation::Put, name, true, self.inner.put_if_absent(name, data.clone()).await)
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        troubled!(self, Operation::Get, name, false, self.inner.get(name, max_bytes).await)
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        troubled!(self, Operation::GetRange, name, false, self.inner.get_range(name, offset, len).await)
    }

    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        troubled!(self, Operation::List, prefix, false, self.inner.list(prefix, after, limit).await)
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        troubled!(self, Operation::Delete, name, true, self.inner.delete(name).await)
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        troubled!(self, Operation::HeadGet, slot, false, self.inner.head_get(slot).await)
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        troubled!(self, Operation::HeadCas, slot, true, self.inner.head_cas(slot, expected, data.clone()).await)
    }
}
