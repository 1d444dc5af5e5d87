//! What a guard must do whose leases expire.

use super::ExpiringGuardHarness;
use super::suite::{LONG, NO_FLOOR, past_expiry, some_key, take};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use toolcell_lease::{ExecutionGuard, LeaseError, Retry};
use toolcell_model::FencingToken;

type Harness = Arc<dyn ExpiringGuardHarness>;

fn ttl(guard: &dyn ExecutionGuard) -> Duration {
    guard.expires().expect("a guard whose leases expire")
}

/// Not at once, and without anyone's help.
pub async fn a_lease_without_a_holder_expires(harness: Harness) {
    let (guard, other, key) = (harness.guard().await, harness.guard().await, some_key());
    let lease = take(&*guard, &key).await;
    let (dropped, token) = (Instant::now(), lease.token());
    drop(lease);
    let busy = other.acquire(&key, NO_FLOOR, Duration::ZERO).await;
    assert!(matches!(busy, Err(LeaseError::Busy { .. })), "{busy:?}");
    let lease = other.acquire(&key, NO_FLOOR, past_expiry(&*other)).await.unwrap();
    assert!(dropped.elapsed() >= ttl(&*guard) / 2, "free after {:?}", dropped.elapsed());
    assert!(lease.token() > token);
    lease.release().await.unwrap();
}

/// "Lost" comes first, and within the time that the lease lasts.
pub async fn a_cut_off_holder_is_told_before_anyone_else_gets_the_slot(harness: Harness) {
    let (guard, link) = harness.breakable().await;
    let (other, key) = (harness.guard().await, some_key());
    let lease = take(&*guard, &key).await;
    link.cut().await;
    let newer = other.acquire(&key, NO_FLOOR, past_expiry(&*other)).await.unwrap();
    assert!(lease.lost().is_cancelled(), "two believe that they hold the slot");
    assert!(newer.token() > lease.token());
    newer.release().await.unwrap();
}

/// Also when nobody else wants the slot.
pub async fn a_cut_off_holder_is_told_in_time(harness: Harness) {
    let (guard, link) = harness.breakable().await;
    let lease = take(&*guard, &some_key()).await;
    link.cut().await;
    timeout(ttl(&*guard), lease.lost().cancelled()).await.expect("lost before its time ends");
    let error = lease.release().await.unwrap_err();
    assert!(matches!(error, LeaseError::Unavailable { .. }), "{error:?}");
}

/// One that is shorter than the lease lasts.
pub async fn a_short_interruption_is_survived(harness: Harness) {
    let (guard, link) = harness.breakable().await;
    let (other, key) = (harness.guard().await, some_key());
    let lease = take(&*guard, &key).await;
    link.cut().await;
    sleep(ttl(&*guard) / 4).await;
    link.heal().await;
    assert!(timeout(ttl(&*guard) * 2, lease.lost().cancelled()).await.is_err(), "lost");
    let busy = other.acquire(&key, NO_FLOOR, Duration::ZERO).await;
    assert!(matches!(busy, Err(LeaseError::Busy { .. })), "{busy:?}");
    lease.release().await.unwrap();
}

/// Neither by releasing, nor by retiring, nor by coming back.
pub async fn a_stale_holder_leaves_the_new_one_alone(harness: Harness) {
    let (guard, link) = harness.breakable().await;
    let (other, third, key) = (harness.guard().await, harness.guard().await, some_key());
    for retire in [false, true] {
        let stale = take(&*guard, &key).await;
        let (token, acquisition) = (stale.token(), stale.acquisition());
        link.cut().await;
        let newer = other.acquire(&key, NO_FLOOR, past_expiry(&*other)).await.unwrap();
        link.heal().await;
        let resumed = guard.resume(&key, token, acquisition).await;
        assert!(matches!(resumed, Err(LeaseError::Superseded { .. })), "{resumed:?}");
        if retire {
            stale.retire().await.unwrap()
        } else {
            stale.release().await.unwrap()
        }
        let busy = third.acquire(&key, NO_FLOOR, Duration::ZERO).await;
        assert!(matches!(busy, Err(LeaseError::Busy { .. })), "{busy:?}");
        assert!(!newer.lost().is_cancelled());
        let token = newer.token();
        newer.release().await.unwrap();
        let next = take(&*third, &key).await;
        assert!(next.token() > token, "a stale holder made the guard forget");
        next.release().await.unwrap();
    }
}

/// Nothing is assumed to be held, or to be free.
pub async fn an_unreachable_backend_gives_nothing(harness: Harness) {
    let (guard, link) = harness.breakable().await;
    let key = some_key();
    let lease = take(&*guard, &key).await;
    let (token, acquisition) = (lease.token(), lease.acquisition());
    lease.release().await.unwrap();
    link.cut().await;
    let acquired = guard.acquire(&key, NO_FLOOR, Duration::ZERO).await.unwrap_err();
    let resumed = guard.resume(&key, token, acquisition).await.unwrap_err();
    let listed = guard.holder(&key).await.unwrap_err();
    for error in [acquired, resumed, listed] {
        assert!(matches!(error, LeaseError::Unavailable { .. }), "{error:?}");
        assert_eq!(error.retry(), Retry::Later);
    }
    link.heal().await;
    let lease = guard.acquire(&key, FencingToken(0), LONG).await.unwrap();
    assert!(lease.token() > token);
    lease.release().await.unwrap();
}
