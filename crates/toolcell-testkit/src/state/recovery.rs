//! Restarts, and records whose time is over.

use super::calls::{read, record, record_one};
use super::{Sample, StateHarness};
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::task::JoinSet;
use toolcell_model::{CallRef, CallState, FencingToken, UnixMillis};
use toolcell_state::{CallUpdate, MAX_PAGE, Recorded, StateStore};

type Harness = Arc<dyn StateHarness>;

/// One call in each state that can change, and an ended one: asking, queued, running, ended.
async fn one_of_each(store: &dyn StateStore, name: &str) -> [CallRef; 4] {
    let mut calls = Vec::new();
    for state in ["asking", "queued", "running", "ended"] {
        calls.push(record_one(store, &format!("{name}-{state}")).await);
    }
    let calls: [CallRef; 4] = calls.try_into().unwrap();
    let ask = CallUpdate::Ask { decision: None };
    assert!(store.set_state(&calls[0], &[CallState::Queued], ask).await.unwrap());
    assert!(store.claim_started(&calls[2], FencingToken(1), UnixMillis(1)).await.unwrap());
    assert!(store.finish(&calls[3], Sample::end(CallState::Succeeded, 1)).await.unwrap());
    calls
}

/// However often another process starts beside them.
pub async fn calls_of_living_owners_are_left_alone(harness: Harness) {
    let store = harness.open().await;
    let calls = one_of_each(&*store, "a").await;
    let other = harness.open().await;
    drop(harness.open().await);
    assert_eq!(other.take_over_abandoned().await.unwrap(), []);
    assert_eq!(store.take_over_abandoned().await.unwrap(), []);
    for call in &calls {
        assert_eq!(&read(&*other, call).await.owner, store.owner());
    }
}

/// Queued and running ones, oldest first, by one of those that recover. Also what that one leaves behind in turn.
pub async fn calls_of_dead_owners_are_taken_over_once(harness: Harness) {
    let dead = harness.open().await;
    let [asking, queued, running, ended] = one_of_each(&*dead, "a").await;
    let before = read(&*dead, &running).await;
    drop(dead);
    let recovering = [harness.open().await, harness.open().await];
    let mine = record_one(&*recovering[0], "mine").await;
    for _ in 0..2 {
        let mut tasks = JoinSet::new();
        for store in recovering.clone() {
            tasks.spawn(async move { store.take_over_abandoned().await.unwrap() });
        }
        let mut taken: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        if taken.is_empty() {
            break;
        }
        taken.sort_by(|a, b| a.call_ref.cmp(&b.call_ref));
        assert_eq!(taken.iter().map(|call| &call.call_ref).collect::<Vec<_>>(), [&queued, &running]);
        assert!(recovering.iter().any(|store| *store.owner() == taken[1].owner));
        assert_eq!((taken[1].state, taken[1].token), (before.state, before.token));
    }
    let [first, second] = recovering;
    assert_eq!(first.take_over_abandoned().await.unwrap(), []);
    assert!(first.finish(&queued, Sample::end(CallState::Error, 2)).await.unwrap());
    drop((first, second));
    let last = harness.open().await;
    let taken: HashSet<_> = last.take_over_abandoned().await.unwrap().into_iter().map(|call| call.call_ref).collect();
    assert_eq!(taken, HashSet::from([running, mine]));
    assert_eq!(read(&*last, &asking).await.state, CallState::Asking);
    assert_eq!(read(&*last, &ended).await.state, CallState::Succeeded);
}

/// Called until nothing is left, it gives each call once.
pub async fn many_abandoned_calls_come_in_portions(harness: Harness) {
    let dead = harness.open().await;
    let calls: Vec<_> = (0..MAX_PAGE + 1).map(|number| format!("c{number}")).collect();
    let calls: Vec<_> = calls.iter().map(|id| (id.as_str(), json!(1))).collect();
    let expected = record(&*dead, Sample::default().batch(&calls)).await;
    drop(dead);
    let store = harness.open().await;
    let mut taken = Vec::new();
    for portion in [MAX_PAGE, 1, 0] {
        let calls = store.take_over_abandoned().await.unwrap();
        assert_eq!(calls.len(), portion);
        taken.extend(calls.into_iter().map(|call| call.call_ref));
    }
    assert_eq!(taken, expected);
}

/// A batch goes with the last of its calls.
pub async fn only_what_ended_long_ago_expires(harness: Harness) {
    let store = harness.open().await;
    let batch = Sample::default().batch(&[("old", json!(1)), ("new", json!(1)), ("open", json!(1))]);
    let name = batch.batch.clone();
    let mixed = record(&*store, batch).await;
    let lone = Sample::default().one("lone");
    let lone_name = lone.batch.clone();
    let lone = record(&*store, lone).await.remove(0);
    for (call, at) in [(&mixed[0], 1499), (&mixed[1], 1500), (&lone, 1200)] {
        assert!(store.finish(call, Sample::end(CallState::Succeeded, at)).await.unwrap());
    }
    let removed: HashSet<_> = store.expire(UnixMillis(1500)).await.unwrap().into_iter().collect();
    assert_eq!(removed, HashSet::from([mixed[0].clone(), lone.clone()]));
    assert_eq!(store.expire(UnixMillis(1500)).await.unwrap(), []);
    for gone in [&mixed[0], &lone] {
        assert_eq!(store.call(gone).await.unwrap(), None);
    }
    assert_eq!(store.batch(&lone_name).await.unwrap(), None);
    let left = store.batch(&name).await.unwrap().unwrap();
    assert_eq!(left.calls.iter().map(|call| &call.call_ref).collect::<Vec<_>>(), [&mixed[1], &mixed[2]]);
    // A batch is no older than itself: recorded at 1000, it is not removed before.
    assert!(store.finish(&mixed[2], Sample::end(CallState::Cancelled, 900)).await.unwrap());
    assert_eq!(store.expire(UnixMillis(1000)).await.unwrap(), [mixed[2].clone()]);
    assert!(store.batch(&name).await.unwrap().is_some());
    // More than one step of a removal.
    let ids: Vec<_> = (0..450).map(|number| format!("many-{number}")).collect();
    let many: Vec<_> = ids.iter().map(|id| (id.as_str(), json!(1))).collect();
    let many = record(&*store, Sample::default().batch(&many)).await;
    for call in &many {
        assert!(store.finish(call, Sample::end(CallState::Succeeded, 1600)).await.unwrap());
    }
    assert_eq!(store.expire(UnixMillis(u64::MAX >> 1)).await.unwrap().len(), many.len() + 1);
    assert_eq!(store.batch(&name).await.unwrap(), None);
}

/// For another call even.
pub async fn an_expired_id_may_be_used_again(harness: Harness) {
    let store = harness.open().await;
    let call = record(&*store, Sample::default().batch(&[("c1", json!(1))])).await.remove(0);
    assert!(store.finish(&call, Sample::end(CallState::Succeeded, 1)).await.unwrap());
    store.expire(UnixMillis(2)).await.unwrap();
    let batch = Sample::default().batch(&[("c1", json!(2))]);
    let call = batch.calls[0].call_ref.clone();
    assert_eq!(store.record_batch(batch).await.unwrap(), [Recorded::Fresh]);
    let found = read(&*store, &call).await;
    assert_eq!((found.state, found.output), (CallState::Queued, None));
}

/// The one names what is stored, the other who uses it.
pub async fn the_instance_stays_and_every_opening_is_another_owner(harness: Harness) {
    let first = harness.open().await;
    let second = harness.open().await;
    assert_eq!(first.instance_id(), second.instance_id());
    assert_ne!(first.owner(), second.owner());
    let (instance, owner) = (first.instance_id().clone(), first.owner().clone());
    drop((first, second));
    let third = harness.open().await;
    assert_eq!(*third.instance_id(), instance);
    assert_ne!(*third.owner(), owner);
}
