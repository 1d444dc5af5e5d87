//! What every task of a runtime shares.

use crate::activity::Begun;
use crate::agent::Agent;
use crate::batch::Running;
use crate::config::Config;
use crate::output::OutputStore;
use crate::slot::Slot;
use crate::workspace::Workspaces;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolcell_lease::ExecutionGuard;
use toolcell_model::{AgentName, CallRef, Clock, ScopeKey, ScopeTuple, TenantId};
use toolcell_sandbox::SandboxProvider;
use toolcell_snapshot::SnapshotEngine;
use toolcell_state::StateStore;

/// The runtime's parts.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) agents: BTreeMap<AgentName, Arc<Agent>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) state: Arc<dyn StateStore>,
    pub(crate) guard: Arc<dyn ExecutionGuard>,
    pub(crate) snapshots: SnapshotEngine,
    /// Keeps nothing: for ephemeral slots.
    pub(crate) scratch: SnapshotEngine,
    pub(crate) provider: Arc<dyn SandboxProvider>,
    pub(crate) outputs: OutputStore,
    /// What is under way for which slot.
    pub(crate) activities: Mutex<HashMap<ScopeKey, Vec<Begun>>>,
    pub(crate) workspaces: Workspaces,
    pub(crate) slots: Mutex<HashMap<ScopeKey, Arc<Slot>>>,
    /// Calls that can be cancelled.
    pub(crate) running: Mutex<HashMap<CallRef, Running>>,
    pub(crate) open_batches: AtomicUsize,
    pub(crate) tasks: TaskTracker,
    /// No more batches are taken.
    pub(crate) closing: CancellationToken,
    /// Background work ends.
    pub(crate) stopping: CancellationToken,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    /// The slot of this tuple; one object per key.
    pub(crate) fn slot(&self, tuple: &ScopeTuple) -> Arc<Slot> {
        let slot = self.slot_of_key(&tuple.key(), tuple.tenant());
        slot.tell_scope(tuple.scope());
        slot
    }

    /// The slot of this key; for those of which nothing but the key is known.
    pub(crate) fn slot_of_key(&self, key: &ScopeKey, tenant: &TenantId) -> Arc<Slot> {
        let mut slots = lock(&self.slots);
        let fresh = || Arc::new(Slot::persisted(key.clone(), tenant.clone()));
        Arc::clone(slots.entry(key.clone()).or_insert_with(fresh))
    }

    pub(crate) fn known_slots(&self) -> Vec<Arc<Slot>> {
        lock(&self.slots).values().cloned().collect()
    }

    /// Drops what is known of slots that have no container and no caller.
    pub(crate) fn forget_empty_slots(&self) {
        lock(&self.slots).retain(|_, slot| {
            // Whoever uses a slot holds a reference, taken under this lock.
            Arc::strong_count(slot) > 1 || slot.residency.try_lock().map_or(true, |residency| residency.is_some())
        });
    }
}
