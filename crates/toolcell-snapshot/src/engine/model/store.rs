//! A store in which every operation is somebody's turn.

use super::schedule::{Fate, World};
use crate::error::StoreError;
use crate::store::{HeadRecord, HeadVersion, ListPage, ObjectName, ObjectPrefix, SnapshotStore, StoreKind};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use toolcell_model::ScopeKey;

/// One actor's handle on the world's store.
pub(super) struct ModelStore {
    pub(super) actor: usize,
    pub(super) world: Arc<World>,
}

impl std::fmt::Debug for ModelStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ModelStore({})", self.actor)
    }
}

fn short(name: impl ToString) -> String {
    let name = name.to_string();
    let (_, rest) = name.split_once('/').unwrap_or(("", &name));
    rest.chars().take(40).collect()
}

fn failed(object: &impl ToString) -> StoreError {
    StoreError::Unavailable { object: object.to_string(), source: "made to fail".into() }
}

fn lost(object: &impl ToString) -> StoreError {
    StoreError::InDoubt { object: object.to_string(), source: "made to be lost".into() }
}

impl ModelStore {
    async fn reads(&self, what: String, object: &impl ToString) -> Result<(), StoreError> {
        match self.world.turn(self.actor, what, false).await {
            Fate::Done => Ok(()),
            Fate::Fails | Fate::Lost | Fate::Late | Fate::LastAct | Fate::Crash => Err(failed(object)),
        }
    }

    /// A write whose fate is decided by the schedule.
    async fn writes<T, F>(
        &self,
        what: String,
        object: &(impl ToString + Sync),
        write: impl FnOnce(Arc<World>) -> F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let fate = self.world.turn(self.actor, what.clone(), true).await;
        let write = write(Arc::clone(&self.world));
        match fate {
            Fate::Done => write.await,
            Fate::Fails => Err(failed(object)),
            Fate::Lost => {
                drop(write.await);
                Err(lost(object))
            }
            Fate::Late => {
                self.world.later(what, Box::pin(async move { drop(write.await) }));
                Err(lost(object))
            }
            Fate::LastAct => {
                drop(write.await);
                self.world.crash(self.actor).await;
                Err(lost(object))
            }
            // Never gets here.
            Fate::Crash => Err(failed(object)),
        }
    }
}

#[async_trait]
impl SnapshotStore for ModelStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError> {
        let copy = name.clone();
        let put = async move |world: Arc<World>| world.inner.put_if_absent(&copy, data).await;
        self.writes(format!("put {}", short(name)), name, put).await
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        self.reads(format!("get {}", short(name)), name).await?;
        self.world.inner.get(name, max_bytes).await
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        self.reads(format!("read {}", short(name)), name).await?;
        self.world.inner.get_range(name, offset, len).await
    }

    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        self.reads(format!("list {}", short(prefix)), prefix).await?;
        self.world.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        let copy = name.clone();
        let delete = async move |world: Arc<World>| {
            world.inner.delete(&copy).await?;
            world.check().await;
            Ok(())
        };
        self.writes(format!("delete {}", short(name)), name, delete).await
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        self.reads("head_get".to_owned(), slot).await?;
        self.world.inner.head_get(slot).await
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        let (copy, expected) = (slot.clone(), expected.cloned());
        let replace = async move |world: Arc<World>| {
            let replaced = world.inner.head_cas(&copy, expected.as_ref(), data).await?;
            world.tell(format!("    the head is {}", world.checker.describe(&copy).await));
            world.check().await;
            Ok(replaced)
        };
        self.writes("head_cas".to_owned(), slot, replace).await
    }
}
