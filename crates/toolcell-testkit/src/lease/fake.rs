//! A lease store in memory whose leases expire, and guards that can be cut off from it.

use async_trait::async_trait;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use toolcell_lease::{ExecutionGuard, Holder, Holding, Lease, LeaseError};
use toolcell_model::{Acquisition, Clock as _, FencingToken, ScopeKey, SystemClock};

/// What the guards of several processes share. Stricter than a real one: its line is fair among all of them.
#[derive(Debug, Clone, Default)]
pub struct FakeLeaseStore {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    slots: Mutex<HashMap<ScopeKey, Slot>>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Slot {
    newest: Option<(FencingToken, Acquisition)>,
    held: Option<Held>,
    line: VecDeque<Acquisition>,
}

#[derive(Debug)]
struct Held {
    holder: Holder,
    acquisition: Acquisition,
    until: Instant,
}

/// One process's guard over a [`FakeLeaseStore`].
#[derive(Debug, Clone)]
pub struct FakeGuard {
    store: FakeLeaseStore,
    ttl: Duration,
    cut: Arc<AtomicBool>,
}

impl FakeLeaseStore {
    /// A guard of its own, whose leases last for `ttl` without being renewed.
    #[must_use]
    pub fn guard(&self, ttl: Duration) -> FakeGuard {
        FakeGuard { store: self.clone(), ttl, cut: Arc::default() }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<ScopeKey, Slot>> {
        self.shared.slots.lock().unwrap()
    }

    /// Gives the slot to `acquisition` unless someone holds it or stands before it in the line.
    fn try_take(&self, key: &ScopeKey, floor: FencingToken, acquisition: Acquisition, ttl: Duration) -> Taken {
        let mut slots = self.slots();
        let slot = slots.entry(key.clone()).or_default();
        let now = Instant::now();
        slot.held.take_if(|held| held.until <= now);
        if let Some(held) = &slot.held {
            return Taken::Busy(Some(held.holder.clone()), held.until);
        }
        if slot.line.front().is_some_and(|first| *first != acquisition) {
            return Taken::Busy(None, now + ttl);
        }
        let newest = slot.newest.map_or(FencingToken(0), |(token, _)| token);
        let Some(token) = newest.next_above(floor) else { return Taken::Exhausted };
        slot.newest = Some((token, acquisition));
        slot.hold(token, acquisition, now + ttl);
        Taken::Mine(token)
    }

    /// Whether the acquisition still holds the slot, now until `until`.
    fn renew(&self, key: &ScopeKey, acquisition: Acquisition, until: Instant) -> bool {
        let mut slots = self.slots();
        let held = slots.get_mut(key).and_then(|slot| slot.held.as_mut());
        match held.filter(|held| held.acquisition == acquisition && held.until > Instant::now()) {
            Some(held) => {
                held.until = until;
                true
            }
            None => false,
        }
    }

    fn release(&self, key: &ScopeKey, acquisition: Acquisition, forget: bool) {
        let mut slots = self.slots();
        if let Some(slot) = slots.get_mut(key)
            && slot.held.take_if(|held| held.acquisition == acquisition).is_some()
            && forget
        {
            slot.newest = None;
        }
        drop(slots);
        self.shared.changed.notify_waiters();
    }
}

enum Taken {
    Mine(FencingToken),
    Busy(Option<Holder>, Instant),
    Exhausted,
}

impl Slot {
    fn hold(&mut self, token: FencingToken, acquisition: Acquisition, until: Instant) {
        let holder = Holder { pid: std::process::id(), token, since: SystemClock.now() };
        self.held = Some(Held { holder, acquisition, until });
    }
}

impl FakeGuard {
    /// From now on the store does not answer this guard.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    /// It answers again.
    pub fn heal(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }

    fn reach(&self, key: &ScopeKey, doing: &str) -> Result<(), LeaseError> {
        if self.cut.load(Ordering::SeqCst) {
            Err(LeaseError::Unavailable { key: key.clone(), doing: doing.to_owned(), source: "cut off".into() })
        } else {
            Ok(())
        }
    }

    /// `sent` is when the request was made that the store granted: the holder's time runs from there.
    fn lease(&self, key: &ScopeKey, token: FencingToken, acquisition: Acquisition, sent: Instant) -> Lease {
        let lost = CancellationToken::new();
        let mut renewing = JoinSet::new();
        renewing.spawn(renew(self.clone(), key.clone(), acquisition, sent, lost.clone()));
        let holding = FakeHolding { guard: self.clone(), key: key.clone(), acquisition, _renewing: renewing };
        Lease::new(key.clone(), token, acquisition, lost, Box::new(holding))
    }
}

/// Renews at a third of the time; gives up, and says so, a tenth before its end.
async fn renew(guard: FakeGuard, key: ScopeKey, acquisition: Acquisition, sent: Instant, lost: CancellationToken) {
    let margin = guard.ttl / 10;
    let mut end = sent + guard.ttl - margin;
    loop {
        let sent = tokio::select! {
            () = sleep_until(end) => break,
            () = sleep(guard.ttl / 3) => Instant::now(),
        };
        if guard.reach(&key, "renewing").is_ok() {
            if !guard.store.renew(&key, acquisition, sent + guard.ttl) {
                break;
            }
            end = sent + guard.ttl - margin;
        }
    }
    lost.cancel();
}

/// A place in the line, left when dropped.
struct Place<'a> {
    store: &'a FakeLeaseStore,
    key: &'a ScopeKey,
    acquisition: Acquisition,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.store.slots().get_mut(self.key) {
            slot.line.retain(|waiter| *waiter != self.acquisition);
        }
        self.store.shared.changed.notify_waiters();
    }
}

#[async_trait]
impl ExecutionGuard for FakeGuard {
    async fn acquire(&self, key: &ScopeKey, floor: FencingToken, wait: Duration) -> Result<Lease, LeaseError> {
        let acquisition = Acquisition::generate().unwrap();
        let deadline = Instant::now() + wait;
        self.reach(key, "acquiring")?;
        self.store.slots().entry(key.clone()).or_default().line.push_back(acquisition);
        let place = Place { store: &self.store, key, acquisition };
        loop {
            let changed = self.store.shared.changed.notified();
            let sent = Instant::now();
            self.reach(key, "acquiring")?;
            match self.store.try_take(key, floor, acquisition, self.ttl) {
                Taken::Mine(token) => {
                    drop(place);
                    return Ok(self.lease(key, token, acquisition, sent));
                }
                Taken::Exhausted => return Err(LeaseError::Exhausted { key: key.clone() }),
                Taken::Busy(holder, _) if sent >= deadline => {
                    return Err(LeaseError::Busy { key: key.clone(), holder });
                }
                // Woken by a release, by someone who leaves the line, by the end of the holder's time or of ours.
                Taken::Busy(_, until) => timeout_at(until.min(deadline), changed).await.unwrap_or(()),
            }
        }
    }

    async fn resume(&self, key: &ScopeKey, token: FencingToken, acquisition: Acquisition) -> Result<Lease, LeaseError> {
        self.reach(key, "resuming")?;
        let sent = Instant::now();
        let mut slots = self.store.slots();
        let recorded = slots.get(key).and_then(|slot| slot.newest);
        match slots.get_mut(key) {
            Some(slot) if recorded == Some((token, acquisition)) => slot.hold(token, acquisition, sent + self.ttl),
            Some(_) | None => {
                let recorded = recorded.map(|(token, _)| token);
                return Err(LeaseError::Superseded { key: key.clone(), token, recorded });
            }
        }
        drop(slots);
        Ok(self.lease(key, token, acquisition, sent))
    }

    async fn holder(&self, key: &ScopeKey) -> Result<Option<Holder>, LeaseError> {
        self.reach(key, "looking at the lease")?;
        let slots = self.store.slots();
        let held = slots.get(key).and_then(|slot| slot.held.as_ref()).filter(|held| held.until > Instant::now());
        Ok(held.map(|held| held.holder.clone()))
    }

    fn expires(&self) -> Option<Duration> {
        Some(self.ttl)
    }
}

#[derive(Debug)]
struct FakeHolding {
    guard: FakeGuard,
    key: ScopeKey,
    acquisition: Acquisition,
    // Ends with the lease.
    _renewing: JoinSet<()>,
}

#[async_trait]
impl Holding for FakeHolding {
    async fn release(&mut self) -> Result<(), LeaseError> {
        self.guard.reach(&self.key, "releasing")?;
        self.guard.store.release(&self.key, self.acquisition, false);
        Ok(())
    }

    async fn retire(&mut self) -> Result<(), LeaseError> {
        self.guard.reach(&self.key, "retiring")?;
        self.guard.store.release(&self.key, self.acquisition, true);
        Ok(())
    }
}
