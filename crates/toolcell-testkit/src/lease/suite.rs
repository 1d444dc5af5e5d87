//! What any execution guard must do.

use super::GuardHarness;
use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Barrier, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use toolcell_lease::{ExecutionGuard, Lease, LeaseError, Retry};
use toolcell_model::{Acquisition, FencingToken, ScopeKey};

type Harness = Arc<dyn GuardHarness>;

pub(super) const NO_FLOOR: FencingToken = FencingToken(0);
/// Longer than anything here takes.
pub(super) const LONG: Duration = Duration::from_secs(30);

pub(super) fn some_key() -> ScopeKey {
    ScopeKey::ephemeral().unwrap()
}

/// Long enough for a lease to end that nobody renews.
pub(super) fn past_expiry(guard: &dyn ExecutionGuard) -> Duration {
    guard.expires().unwrap_or_default() + Duration::from_secs(5)
}

pub(super) async fn take(guard: &dyn ExecutionGuard, key: &ScopeKey) -> Lease {
    guard.acquire(key, NO_FLOOR, LONG).await.unwrap()
}

/// Polls once, so that a waiter stands in the line.
async fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// Several guards, several tasks each: nobody meets anybody inside, and everybody gets there.
pub async fn one_holder_at_a_time_under_contention(harness: Harness) {
    contend(harness, 3, 3, false).await;
}

/// Nor does anybody slip in beside a slot that is forgotten and made again.
pub async fn one_holder_at_a_time_while_slots_are_retired(harness: Harness) {
    contend(harness, 12, 12, true).await;
}

async fn contend(harness: Harness, guards: u32, rounds: u32, retire: bool) {
    let key = some_key();
    let inside = Arc::new(AtomicBool::new(false));
    let visits = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..guards {
        let guard = harness.guard().await;
        for _ in 0..3 {
            let (guard, key, inside, visits) = (guard.clone(), key.clone(), inside.clone(), visits.clone());
            tasks.spawn(async move {
                for _ in 0..rounds {
                    let lease = take(&*guard, &key).await;
                    assert!(!inside.swap(true, Ordering::SeqCst), "two holders at once");
                    tokio::task::yield_now().await;
                    assert!(inside.swap(false, Ordering::SeqCst));
                    visits.fetch_add(1, Ordering::SeqCst);
                    if retire { lease.retire().await.unwrap() } else { lease.release().await.unwrap() }
                }
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert_eq!(visits.load(Ordering::SeqCst), guards * 3 * rounds);
}

/// Released or dropped, by one guard or another: the next token is higher, the next acquisition another.
pub async fn tokens_strictly_increase_across_holders_and_restarts(harness: Harness) {
    let key = some_key();
    let mut last = NO_FLOOR;
    let mut acquisitions = HashSet::new();
    for round in 0..4 {
        let guard = harness.guard().await;
        for _ in 0..2 {
            let lease = take(&*guard, &key).await;
            assert!(lease.token() > last, "{} after {last}", lease.token());
            assert!(acquisitions.insert(lease.acquisition()));
            last = lease.token();
            if round % 2 == 0 {
                lease.release().await.unwrap();
            } else {
                drop(lease);
            }
        }
    }
}

/// A floor lifts the token; later ones stay above it without any floor.
pub async fn a_token_lies_above_the_floor(harness: Harness) {
    let (guard, key) = (harness.guard().await, some_key());
    let lease = guard.acquire(&key, FencingToken(41), LONG).await.unwrap();
    let lifted = lease.token();
    assert!(lifted > FencingToken(41));
    lease.release().await.unwrap();
    let lease = take(&*harness.guard().await, &key).await;
    assert!(lease.token() > lifted);
    lease.release().await.unwrap();
}

/// There is no token above the highest number.
pub async fn a_used_up_floor_is_an_error_and_the_slot_stays_free(harness: Harness) {
    let (guard, key) = (harness.guard().await, some_key());
    let error = guard.acquire(&key, FencingToken(u64::MAX), LONG).await.unwrap_err();
    assert!(matches!(error, LeaseError::Exhausted { .. }), "{error:?}");
    assert_eq!(error.retry(), Retry::Never);
    guard.acquire(&key, NO_FLOOR, Duration::ZERO).await.unwrap().release().await.unwrap();
}

/// From the same guard and from another one.
pub async fn a_held_slot_is_busy_and_says_who_holds_it(harness: Harness) {
    let (guard, other, key) = (harness.guard().await, harness.guard().await, some_key());
    let lease = take(&*guard, &key).await;
    for asked in [&guard, &other] {
        let error = asked.acquire(&key, NO_FLOOR, Duration::ZERO).await.unwrap_err();
        assert_eq!(error.retry(), Retry::Later);
        let LeaseError::Busy { key: named, holder: Some(holder) } = error else { panic!("{error:?}") };
        assert_eq!((named, holder.token, holder.pid), (key.clone(), lease.token(), std::process::id()));
    }
    lease.release().await.unwrap();
}

/// Not before, and not much after.
pub async fn waiting_ends_with_the_time_given(harness: Harness) {
    let (guard, other, key) = (harness.guard().await, harness.guard().await, some_key());
    let lease = take(&*guard, &key).await;
    for asked in [&guard, &other] {
        let (start, wait) = (Instant::now(), Duration::from_millis(120));
        let error = asked.acquire(&key, NO_FLOOR, wait).await.unwrap_err();
        assert!(matches!(error, LeaseError::Busy { .. }), "{error:?}");
        assert!(start.elapsed() >= wait, "gave up after {:?}", start.elapsed());
        assert!(start.elapsed() < wait + LONG / 3, "gave up only after {:?}", start.elapsed());
    }
    lease.release().await.unwrap();
}

/// From the same guard and from another one.
pub async fn a_waiter_gets_what_is_released(harness: Harness) {
    let guard = harness.guard().await;
    for waiting in [guard.clone(), harness.guard().await] {
        let key = some_key();
        let lease = take(&*guard, &key).await;
        let first = lease.token();
        let mut waiter = Box::pin(waiting.acquire(&key, NO_FLOOR, LONG));
        assert!(poll_once(&mut waiter).await.is_pending());
        lease.release().await.unwrap();
        let lease = waiter.await.unwrap();
        assert!(lease.token() > first);
        lease.release().await.unwrap();
    }
}

/// Among the waiters of one guard.
pub async fn waiters_are_served_in_order(harness: Harness) {
    let (guard, key) = (harness.guard().await, some_key());
    let lease = take(&*guard, &key).await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for waiter in 0..6 {
        let (guard, key, served) = (guard.clone(), key.clone(), served.clone());
        let (queued, is_queued) = oneshot::channel();
        tasks.spawn(async move {
            let mut acquiring = Box::pin(guard.acquire(&key, NO_FLOOR, LONG));
            assert!(poll_once(&mut acquiring).await.is_pending());
            queued.send(()).unwrap();
            let lease = acquiring.await.unwrap();
            served.lock().unwrap().push((waiter, lease.token()));
            lease.release().await.unwrap();
        });
        is_queued.await.unwrap();
    }
    lease.release().await.unwrap();
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let served = served.lock().unwrap();
    assert!(served.is_sorted_by_key(|(waiter, _)| *waiter), "{served:?}");
    assert!(served.is_sorted_by(|(_, a), (_, b)| a < b), "{served:?}");
    assert_eq!(served.len(), 6);
}

/// One that gave up by time and one that was dropped, in front of one that waits on.
pub async fn forgotten_waiters_do_not_block(harness: Harness) {
    let (guard, key) = (harness.guard().await, some_key());
    let lease = take(&*guard, &key).await;
    let mut dropped = Box::pin(guard.acquire(&key, NO_FLOOR, LONG));
    assert!(poll_once(&mut dropped).await.is_pending());
    let mut short = Box::pin(guard.acquire(&key, NO_FLOOR, Duration::from_millis(20)));
    assert!(poll_once(&mut short).await.is_pending());
    let mut waiter = Box::pin(guard.acquire(&key, NO_FLOOR, LONG));
    assert!(poll_once(&mut waiter).await.is_pending());
    drop(dropped);
    assert!(matches!(short.await, Err(LeaseError::Busy { .. })));
    lease.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
}

/// Dropped after any number of steps.
pub async fn a_cancelled_acquisition_leaves_the_slot_free(harness: Harness) {
    let (guard, key) = (harness.guard().await, some_key());
    let mut last = NO_FLOOR;
    for steps in 0..8 {
        let mut acquiring = Box::pin(guard.acquire(&key, NO_FLOOR, LONG));
        for _ in 0..=steps {
            if let Poll::Ready(lease) = poll_once(&mut acquiring).await {
                last = lease.unwrap().token();
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(acquiring);
        let lease = guard.acquire(&key, NO_FLOOR, past_expiry(&*guard)).await.unwrap();
        assert!(lease.token() > last);
        last = lease.token();
        lease.release().await.unwrap();
    }
}

/// At once, or when it expires.
pub async fn a_dropped_lease_is_free_again(harness: Harness) {
    let (guard, other, key) = (harness.guard().await, harness.guard().await, some_key());
    for next in [&guard, &other] {
        let lease = take(&*guard, &key).await;
        let token = lease.token();
        drop(lease);
        let lease = next.acquire(&key, NO_FLOOR, past_expiry(&**next)).await.unwrap();
        assert!(lease.token() > token);
        lease.release().await.unwrap();
    }
}

/// Holding one says nothing about another.
pub async fn slots_are_independent(harness: Harness) {
    let guard = harness.guard().await;
    let held = take(&*guard, &some_key()).await;
    for _ in 0..3 {
        let key = some_key();
        let lease = guard.acquire(&key, NO_FLOOR, Duration::ZERO).await.unwrap();
        assert_eq!(lease.key(), &key);
        lease.release().await.unwrap();
    }
    held.release().await.unwrap();
}

/// After a crash, by a guard that never saw the first holder.
pub async fn resuming_keeps_token_and_acquisition(harness: Harness) {
    let (guard, key) = (harness.guard().await, some_key());
    let lease = take(&*guard, &key).await;
    let (token, acquisition) = (lease.token(), lease.acquisition());
    drop(lease);
    for _ in 0..3 {
        let other = harness.guard().await;
        let lease = other.resume(&key, token, acquisition).await.unwrap();
        assert_eq!((lease.token(), lease.acquisition()), (token, acquisition));
        let busy = guard.acquire(&key, NO_FLOOR, Duration::ZERO).await;
        assert!(matches!(busy, Err(LeaseError::Busy { .. })), "{busy:?}");
        drop(lease);
    }
    let lease = guard.resume(&key, token, acquisition).await.unwrap();
    lease.release().await.unwrap();
    let lease = take(&*guard, &key).await;
    assert!(lease.token() > token);
    lease.release().await.unwrap();
}

/// Whether that one still holds it or has released it.
pub async fn resuming_fails_once_someone_has_acquired(harness: Harness) {
    let (guard, other, key) = (harness.guard().await, harness.guard().await, some_key());
    let lease = take(&*guard, &key).await;
    let (token, acquisition) = (lease.token(), lease.acquisition());
    drop(lease);
    let newer = other.acquire(&key, NO_FLOOR, past_expiry(&*other)).await.unwrap();
    for resuming in [&guard, &other] {
        let error = resuming.resume(&key, token, acquisition).await.unwrap_err();
        assert_eq!(error.retry(), Retry::Never);
        let LeaseError::Superseded { recorded, .. } = error else { panic!("{error:?}") };
        assert_eq!(recorded, Some(newer.token()));
    }
    newer.release().await.unwrap();
    let error = guard.resume(&key, token, acquisition).await.unwrap_err();
    assert!(matches!(error, LeaseError::Superseded { .. }), "{error:?}");
}

/// A slot without a past, another token, another acquisition.
pub async fn resuming_what_was_never_given_fails(harness: Harness) {
    let (guard, key) = (harness.guard().await, some_key());
    let invented = Acquisition::generate().unwrap();
    let error = guard.resume(&key, FencingToken(1), invented).await.unwrap_err();
    assert!(matches!(error, LeaseError::Superseded { recorded: None, .. }), "{error:?}");
    let lease = take(&*guard, &key).await;
    let (token, acquisition) = (lease.token(), lease.acquisition());
    drop(lease);
    for (token, acquisition) in [(token, invented), (FencingToken(token.0 + 1), acquisition)] {
        let error = guard.resume(&key, token, acquisition).await.unwrap_err();
        assert!(matches!(error, LeaseError::Superseded { .. }), "{error:?}");
    }
    guard.resume(&key, token, acquisition).await.unwrap().release().await.unwrap();
}

/// It neither frees the slot nor takes the holder's place.
pub async fn a_failed_resume_leaves_the_holder_alone(harness: Harness) {
    let (guard, other, key) = (harness.guard().await, harness.guard().await, some_key());
    let lease = take(&*guard, &key).await;
    let invented = Acquisition::generate().unwrap();
    for resuming in [&guard, &other] {
        assert!(resuming.resume(&key, FencingToken(lease.token().0 + 7), invented).await.is_err());
    }
    assert!(!lease.lost().is_cancelled());
    assert!(matches!(other.acquire(&key, NO_FLOOR, Duration::ZERO).await, Err(LeaseError::Busy { .. })));
    let token = lease.token();
    lease.release().await.unwrap();
    let lease = take(&*other, &key).await;
    assert!(lease.token() > token);
    lease.release().await.unwrap();
}

/// By its own guard and by others.
pub async fn the_holder_is_listed_until_it_releases(harness: Harness) {
    let (guard, other, key) = (harness.guard().await, harness.guard().await, some_key());
    for looking in [&guard, &other] {
        assert_eq!(looking.holder(&key).await.unwrap(), None);
    }
    let lease = take(&*guard, &key).await;
    for looking in [&guard, &other] {
        let holder = looking.holder(&key).await.unwrap().unwrap();
        assert_eq!((holder.token, holder.pid), (lease.token(), std::process::id()));
        assert!(holder.since.0 > 0);
    }
    lease.release().await.unwrap();
    for looking in [&guard, &other] {
        assert_eq!(looking.holder(&key).await.unwrap(), None);
    }
}

/// However often someone looks, a free slot is had without waiting.
pub async fn listing_makes_no_acquirer_fail(harness: Harness) {
    let (guard, looking, key) = (harness.guard().await, harness.guard().await, some_key());
    take(&*guard, &key).await.release().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let start = Arc::new(Barrier::new(4));
    let mut looks = JoinSet::new();
    for _ in 0..3 {
        let (looking, stop, start, key) = (looking.clone(), stop.clone(), start.clone(), key.clone());
        looks.spawn(async move {
            start.wait().await;
            while !stop.load(Ordering::SeqCst) {
                looking.holder(&key).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
    }
    start.wait().await;
    for _ in 0..300 {
        guard.acquire(&key, NO_FLOOR, Duration::ZERO).await.unwrap().release().await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    while let Some(look) = looks.join_next().await {
        look.unwrap();
    }
}

/// For longer than it would last without being renewed.
pub async fn a_held_lease_is_not_lost(harness: Harness) {
    let (guard, other, key) = (harness.guard().await, harness.guard().await, some_key());
    let lease = take(&*guard, &key).await;
    let lost = lease.lost().clone();
    let long = guard.expires().unwrap_or_default() * 2 + Duration::from_millis(50);
    assert!(timeout(long, lost.cancelled()).await.is_err(), "lost while held");
    assert!(matches!(other.acquire(&key, NO_FLOOR, Duration::ZERO).await, Err(LeaseError::Busy { .. })));
    lease.release().await.unwrap();
    assert!(!lost.is_cancelled(), "a released lease is not lost");
}

/// Its key is never used again, so that starting over is allowed.
pub async fn a_retired_slot_is_free_and_listed_no_more(harness: Harness) {
    let (guard, other, key) = (harness.guard().await, harness.guard().await, some_key());
    let lease = take(&*guard, &key).await;
    let (token, acquisition) = (lease.token(), lease.acquisition());
    lease.retire().await.unwrap();
    assert_eq!(other.holder(&key).await.unwrap(), None);
    let error = other.resume(&key, token, acquisition).await.unwrap_err();
    assert!(matches!(error, LeaseError::Superseded { recorded: None, .. }), "{error:?}");
    other.acquire(&key, NO_FLOOR, Duration::ZERO).await.unwrap().release().await.unwrap();
}
