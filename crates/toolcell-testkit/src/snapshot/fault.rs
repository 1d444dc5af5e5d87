//! A store that fails on purpose.

use async_trait::async_trait;
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use toolcell_model::ScopeKey;
use toolcell_snapshot::{
    HeadRecord, HeadVersion, ListPage, ObjectName, ObjectPrefix, SnapshotStore, StoreError, StoreKind,
};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This and every later operation fails before it is done: the process or the store is gone.
    Dead,
    /// The operation fails before it is done.
    Fails,
    /// The operation is done, and its response is lost.
    ResponseLost,
    /// The operation is sent twice, and the second response is the one that comes back.
    Repeated,
    /// The operation is neither done nor refused yet: it stays on its way until [`FaultStore::deliver`].
    Late,
}

/// Which operation of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `put_if_absent`
    Put,
    /// `get`
    Get,
    /// `get_range`
    GetRange,
    /// `list`
    List,
    /// `delete`
    Delete,
    /// `head_get`
    HeadGet,
    /// `head_cas`
    HeadCas,
}

#[derive(Debug, Default)]
struct Plan {
    log: Vec<Operation>,
    dead: bool,
    /// At the how manieth operation from now (0 is the next), of which kind if it matters, what happens.
    faults: Vec<(usize, Option<Operation>, Fault)>,
    late: Option<(ScopeKey, Option<HeadVersion>, Bytes)>,
}

/// A store that fails on purpose. Operations are counted over all of them.
#[derive(Debug)]
pub struct FaultStore {
    inner: Arc<dyn SnapshotStore>,
    plan: Mutex<Plan>,
}

impl FaultStore {
    /// A wrapper without faults.
    #[must_use]
    pub fn new(inner: Arc<dyn SnapshotStore>) -> Arc<Self> {
        Arc::new(Self { inner, plan: Mutex::default() })
    }

    /// The `after`-th operation from now on fails (0 is the next one).
    pub fn fail(&self, after: usize, fault: Fault) {
        self.plan.lock().unwrap().faults.push((after, None, fault));
    }

    /// The `after`-th operation of this kind from now on fails.
    pub fn fail_at(&self, operation: Operation, after: usize, fault: Fault) {
        self.plan.lock().unwrap().faults.push((after, Some(operation), fault));
    }

    /// The store works again, and remembers no more faults.
    pub fn heal(&self) {
        let mut plan = self.plan.lock().unwrap();
        plan.dead = false;
        plan.faults.clear();
    }

    /// Does what was [`Fault::Late`].
    pub async fn deliver(&self) -> Result<HeadVersion, StoreError> {
        let (slot, expected, data) = self.plan.lock().unwrap().late.take().expect("something is on its way");
        self.inner.head_cas(&slot, expected.as_ref(), data).await
    }

    /// The operations so far, and forgets them.
    pub fn take_log(&self) -> Vec<Operation> {
        std::mem::take(&mut self.plan.lock().unwrap().log)
    }

    fn step(&self, operation: Operation) -> Option<Fault> {
        let mut plan = self.plan.lock().unwrap();
        plan.log.push(operation);
        let mut now = None;
        plan.faults.retain_mut(|(after, kind, fault)| {
            if kind.is_some_and(|kind| kind != operation) {
                return true;
            }
            if *after == 0 {
                now = Some(*fault);
                return false;
            }
            *after -= 1;
            true
        });
        plan.dead = plan.dead || now == Some(Fault::Dead);
        if plan.dead { Some(Fault::Dead) } else { now }
    }
}

fn unavailable(object: impl ToString) -> StoreError {
    StoreError::Unavailable { object: object.to_string(), source: "made to fail".into() }
}

fn in_doubt(object: impl ToString) -> StoreError {
    StoreError::InDoubt { object: object.to_string(), source: "made to be lost".into() }
}

macro_rules! with_faults {
    ($self:ident, $operation:expr, $object:expr, $call:expr) => {
        match $self.step($operation) {
            None => $call,
            Some(Fault::Dead | Fault::Fails) => Err(unavailable($object)),
            Some(Fault::ResponseLost | Fault::Late) => {
                drop($call);
                Err(in_doubt($object))
            }
            Some(Fault::Repeated) => {
                drop($call);
                $call
            }
        }
    };
}

#[async_trait]
impl SnapshotStore for FaultStore {
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
        with_faults!(self, Operation::Put, name, self.inner.put_if_absent(name, data.clone()).await)
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        with_faults!(self, Operation::Get, name, self.inner.get(name, max_bytes).await)
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        with_faults!(self, Operation::GetRange, name, self.inner.get_range(name, offset, len).await)
    }

    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        with_faults!(self, Operation::List, prefix, self.inner.list(prefix, after, limit).await)
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        with_faults!(self, Operation::Delete, name, self.inner.delete(name).await)
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        with_faults!(self, Operation::HeadGet, slot, self.inner.head_get(slot).await)
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        match self.step(Operation::HeadCas) {
            None => self.inner.head_cas(slot, expected, data).await,
            Some(Fault::Dead | Fault::Fails) => Err(unavailable(slot)),
            Some(Fault::ResponseLost) => {
                drop(self.inner.head_cas(slot, expected, data).await);
                Err(in_doubt(slot))
            }
            Some(Fault::Repeated) => {
                drop(self.inner.head_cas(slot, expected, data.clone()).await);
                self.inner.head_cas(slot, expected, data).await
            }
            Some(Fault::Late) => {
                self.plan.lock().unwrap().late = Some((slot.clone(), expected.cloned(), data));
                Err(in_doubt(slot))
            }
        }
    }
}
