//! A store in memory whose every operation waits until the scheduler lets it go on.

use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, oneshot};
use toolcell_model::ScopeKey;
use toolcell_snapshot::{
    HeadRecord, HeadVersion, ListPage, MemoryStore, ObjectName, ObjectPrefix, SnapshotStore, StoreError, StoreKind,
};

/// What happens to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is done, and answered.
    Done,
    /// It fails before it is done.
    Fails,
    /// It is done, and its response is lost.
    ResponseLost,
    /// A write that is neither done nor refused: its actor hears of a doubt, and it may arrive later.
    Late,
}

/// A write that is on its way.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    Put(ObjectName, Bytes),
    Delete(ObjectName),
    Head(ScopeKey, Option<HeadVersion>, Bytes),
}

/// An operation that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) what: String,
    pub(crate) is_write: bool,
    go: oneshot::Sender<Fate>,
}

impl Waiting {
    pub(crate) fn go(self, fate: Fate) {
        assert!(self.go.send(fate).is_ok(), "an operation that nobody waits for");
    }
}

/// What the scheduler sees of all actors.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(crate) waiting: BTreeMap<usize, Vec<Waiting>>,
    pub(crate) late: Vec<(usize, Write)>,
    pub(crate) ended: Vec<usize>,
}

/// Shared by all actors' stores.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) memory: Arc<MemoryStore>,
    pub(crate) board: Mutex<Board>,
    pub(crate) changed: Notify,
}

impl Shared {
    pub(crate) fn new() -> Arc<Self> {
        let memory = Arc::new(MemoryStore::new());
        Arc::new(Self { memory, board: Mutex::default(), changed: Notify::new() })
    }

    pub(crate) fn ended(&self, actor: usize) {
        self.board.lock().unwrap().ended.push(actor);
        self.changed.notify_one();
    }

    /// Does what was late.
    pub(crate) async fn deliver(&self, write: Write) {
        match write {
            Write::Put(name, data) => drop(self.memory.put_if_absent(&name, data).await),
            Write::Delete(name) => drop(self.memory.delete(&name).await),
            Write::Head(slot, expected, data) => drop(self.memory.head_cas(&slot, expected.as_ref(), data).await),
        }
    }
}

/// One actor's way to the store.
#[derive(Debug)]
pub(crate) struct ActorStore {
    pub(crate) actor: usize,
    pub(crate) shared: Arc<Shared>,
}

impl ActorStore {
    async fn wait(&self, what: String, is_write: bool) -> Fate {
        let (go, gone) = oneshot::channel();
        let mut what = what;
        what.truncate(110);
        self.shared.board.lock().unwrap().waiting.entry(self.actor).or_default().push(Waiting { what, is_write, go });
        self.shared.changed.notify_one();
        match gone.await {
            Ok(fate) => fate,
            // The run is over.
            Err(_) => std::future::pending().await,
        }
    }

    async fn write(&self, what: String, write: Write) -> Result<Option<Result<HeadVersion, StoreError>>, StoreError> {
        match self.wait(what.clone(), true).await {
            Fate::Fails => Err(StoreError::Unavailable { object: what, source: "made to fail".into() }),
            Fate::Late => {
                self.shared.board.lock().unwrap().late.push((self.actor, write));
                Err(StoreError::InDoubt { object: what, source: "on its way".into() })
            }
            fate @ (Fate::Done | Fate::ResponseLost) => {
                let memory = &self.shared.memory;
                let done = match write {
                    Write::Put(name, data) => memory.put_if_absent(&name, data).await.map(|()| None),
                    Write::Delete(name) => memory.delete(&name).await.map(|()| None),
                    Write::Head(slot, expected, data) => {
                        Ok(Some(memory.head_cas(&slot, expected.as_ref(), data).await))
                    }
                };
                if fate == Fate::Done {
                    return done;
                }
                Err(StoreError::InDoubt { object: what, source: "the response is lost".into() })
            }
        }
    }

    async fn read(&self, what: String) -> Result<(), StoreError> {
        match self.wait(what.clone(), false).await {
            Fate::Done => Ok(()),
            Fate::Fails | Fate::ResponseLost | Fate::Late => {
                Err(StoreError::Unavailable { object: what, source: "made to fail".into() })
            }
        }
    }
}

#[async_trait]
impl SnapshotStore for ActorStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError> {
        self.write(format!("put {}", short(name)), Write::Put(name.clone(), data)).await.map(|_| ())
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        // The canary was checked by whoever made the store.
        if name.as_str() != "store/meta/canary" {
            self.read(format!("get {}", short(name))).await?;
        }
        self.shared.memory.get(name, max_bytes).await
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        self.read(format!("range {}", short(name))).await?;
        self.shared.memory.get_range(name, offset, len).await
    }

    /// In pages of one object, so that much can happen between two of them.
    async fn list(&self, prefix: &ObjectPrefix, after: Option<&ObjectName>, _: usize) -> Result<ListPage, StoreError> {
        self.read(format!("list {}", prefix.as_str().rsplit('/').nth(1).unwrap_or_default())).await?;
        self.shared.memory.list(prefix, after, 2).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        self.write(format!("delete {}", short(name)), Write::Delete(name.clone())).await.map(|_| ())
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        self.read("head".to_owned()).await?;
        self.shared.memory.head_get(slot).await
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        let write = Write::Head(slot.clone(), expected.cloned(), data);
        match self.write("replace head".to_owned(), write).await? {
            Some(written) => written,
            None => Err(StoreError::Internal { object: slot.to_string(), source: "no head was written".into() }),
        }
    }
}

fn short(name: &ObjectName) -> String {
    let mut parts = name.as_str().split('/');
    let owner: String = parts.next().unwrap_or_default().chars().rev().take(4).collect();
    let leaf = parts.next_back().unwrap_or_default();
    let class = name.as_str().split('/').nth(1).unwrap_or_default();
    format!("{owner}:{class}/{}", &leaf[..leaf.len().min(28)])
}
