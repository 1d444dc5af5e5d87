//! One slot in this process: who may enter, and the container that is resident in it.
//!
//! A call enters through [`Slot::enter`] (fair, bounded), gets the residency ([`acquire`]), runs, and marks what it
//! changed ([`save`]). A residency ends in [`stop`], and nowhere else.

pub(crate) mod acquire;
mod bridge;
mod residency;
pub(crate) mod save;
pub(crate) mod stop;

pub(crate) use residency::Residency;

use crate::error::CallError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use toolcell_model::{IsolationScope, ScopeKey, TenantId};

/// Calls that wait for one slot; one more ends `slot_busy`.
pub(crate) const MAX_WAITING: usize = 64;

/// A slot that this process knows.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) key: ScopeKey,
    pub(crate) tenant: TenantId,
    /// Unknown until a call or the listing says it: a key alone does not tell.
    scope: OnceLock<IsolationScope>,
    /// For one batch, never persisted.
    ephemeral: bool,
    gate: Arc<RwLock<()>>,
    waiting: AtomicUsize,
    used: AtomicBool,
    /// Held while a residency begins or ends.
    pub(crate) residency: tokio::sync::Mutex<Option<Arc<Residency>>>,
}

/// A call's place in a slot; the next ones enter when it is dropped.
#[derive(Debug)]
pub(crate) enum Place {
    /// Beside others of its kind.
    Shared { _guard: OwnedRwLockReadGuard<()> },
    /// Alone.
    Alone { _guard: OwnedRwLockWriteGuard<()> },
}

impl Place {
    pub(crate) const fn is_alone(&self) -> bool {
        match self {
            Self::Shared { .. } => false,
            Self::Alone { .. } => true,
        }
    }
}

impl Slot {
    /// Of this key and owner; what it stands for may be told later.
    pub(crate) fn persisted(key: ScopeKey, tenant: TenantId) -> Self {
        Self::new(key, tenant, false)
    }

    pub(crate) fn ephemeral(tenant: TenantId, scope: IsolationScope) -> Result<Self, getrandom::Error> {
        let slot = Self::new(ScopeKey::ephemeral()?, tenant, true);
        slot.tell_scope(scope);
        Ok(slot)
    }

    fn new(key: ScopeKey, tenant: TenantId, ephemeral: bool) -> Self {
        Self {
            key,
            tenant,
            scope: OnceLock::new(),
            ephemeral,
            gate: Arc::default(),
            waiting: AtomicUsize::new(0),
            used: AtomicBool::new(false),
            residency: tokio::sync::Mutex::new(None),
        }
    }

    /// Whether this process uses the slot for the first time since it last forgot it.
    pub(crate) fn note_first_use(&self) -> bool {
        !self.used.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_ephemeral(&self) -> bool {
        self.ephemeral
    }

    /// The key is a hash over it, so that it is always the same.
    pub(crate) fn tell_scope(&self, scope: IsolationScope) {
        self.scope.get_or_init(|| scope);
    }

    pub(crate) fn scope(&self) -> IsolationScope {
        self.scope.get().copied().unwrap_or_default()
    }

    /// Waits for this call's turn, in order. Cancel safe.
    pub(crate) async fn enter(&self, shared: bool) -> Result<Place, CallError> {
        let waiting = Waiting::begin(&self.waiting)?;
        let gate = Arc::clone(&self.gate);
        let place = if shared {
            Place::Shared { _guard: gate.read_owned().await }
        } else {
            Place::Alone { _guard: gate.write_owned().await }
        };
        drop(waiting);
        Ok(place)
    }

    /// A place alone if nobody is in the slot or waits for it.
    pub(crate) fn enter_if_quiet(&self) -> Option<Place> {
        Arc::clone(&self.gate).try_write_owned().ok().map(|guard| Place::Alone { _guard: guard })
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Result<Self, CallError> {
        let before = count.fetch_add(1, Ordering::Relaxed);
        let waiting = Self(count);
        // The one that runs does not wait.
        if before > MAX_WAITING { Err(CallError::SlotBusy { waiting: before }) } else { Ok(waiting) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> Arc<Slot> {
        Arc::new(Slot::ephemeral(TenantId::default_tenant(), IsolationScope::User).unwrap())
    }

    #[tokio::test]
    async fn the_queue_has_a_bound_and_recovers() {
        let slot = slot();
        let inside = slot.enter(false).await.unwrap();
        let mut waiters = tokio::task::JoinSet::new();
        for _ in 0..=MAX_WAITING {
            let slot = Arc::clone(&slot);
            waiters.spawn(async move { slot.enter(false).await.map(drop) });
        }
        while slot.waiting.load(Ordering::Relaxed) <= MAX_WAITING {
            tokio::task::yield_now().await;
        }
        assert!(matches!(slot.enter(false).await, Err(CallError::SlotBusy { .. })));
        drop(inside);
        while let Some(done) = waiters.join_next().await {
            done.unwrap().unwrap();
        }
        assert!(slot.enter(false).await.is_ok());
        assert_eq!(slot.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn shared_places_stand_side_by_side_and_one_alone_keeps_all_out() {
        let slot = slot();
        let first = slot.enter(true).await.unwrap();
        let second = slot.enter(true).await.unwrap();
        assert!(slot.enter_if_quiet().is_none());
        drop((first, second));
        let alone = slot.enter_if_quiet().unwrap();
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), slot.enter(true)).await.is_err());
        drop(alone);
        assert_eq!(slot.waiting.load(Ordering::Relaxed), 0);
    }
}
