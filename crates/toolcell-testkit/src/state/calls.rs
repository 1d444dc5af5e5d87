//! Recording, starting and ending calls.

use super::{Sample, StateHarness};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use toolcell_model::{
    BatchId, CallFault, CallRef, CallState, Durable, FencingToken, Generation, IsolationScope, Ran, RuntimeFault,
    ScopeKey, SlotReport, SnapshotId, TimingMs, UnixMillis,
};
use toolcell_state::{CallRecord, CallUpdate, FinishedCall, NewBatch, Recorded, StateError, StateStore};

type Harness = Arc<dyn StateHarness>;

const TOKEN: FencingToken = FencingToken(7);
const NOW: UnixMillis = UnixMillis(2000);
const OPEN: [CallState; 3] = [CallState::Asking, CallState::Queued, CallState::Running];

/// Records a batch all of whose calls are new.
pub(super) async fn record(store: &dyn StateStore, batch: NewBatch) -> Vec<CallRef> {
    let refs = batch.calls.iter().map(|call| call.call_ref.clone()).collect();
    let recorded = store.record_batch(batch).await.unwrap();
    assert!(recorded.iter().all(|call| *call == Recorded::Fresh), "{recorded:?}");
    refs
}

pub(super) async fn record_one(store: &dyn StateStore, id: &str) -> CallRef {
    record(store, Sample::default().one(id)).await.remove(0)
}

pub(super) async fn read(store: &dyn StateStore, call: &CallRef) -> CallRecord {
    store.call(call).await.unwrap().unwrap()
}

/// Written by one opening, read by another.
pub async fn a_fresh_call_is_queued(harness: Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    let sample = Sample::default();
    let batch = sample.batch(&[("c1", json!({ "command": "true" }))]);
    let given = batch.clone();
    let call = record(&*store, batch).await.remove(0);
    for reading in [&store, &other] {
        let found = read(&**reading, &call).await;
        let expected = CallRecord {
            call_ref: call.clone(),
            batch: given.batch.clone(),
            context: sample.context.clone(),
            id: given.calls[0].id.clone(),
            tool: given.calls[0].tool.clone(),
            input: given.calls[0].input.clone(),
            input_digest: given.calls[0].input_digest,
            state: CallState::Queued,
            owner: store.owner().clone(),
            token: None,
            decision: None,
            output: None,
            error: None,
            fault: None,
            slot: None,
            timing: None,
            created_at: sample.now,
            started_at: None,
            finished_at: None,
        };
        assert_eq!(found, expected);
    }
}

/// With its result, also by another opening; nothing of the repetition is recorded but its batch.
pub async fn the_same_call_again_is_the_recorded_one(harness: Harness) {
    let store = harness.open().await;
    let sample = Sample::default();
    let call = record(&*store, sample.batch(&[("c1", json!({ "a": 1, "b": [2.5, null] }))])).await.remove(0);
    for end in [false, true] {
        if end {
            assert!(store.finish(&call, Sample::end(CallState::Failed, 5)).await.unwrap());
        }
        for again in [store.clone(), harness.open().await] {
            let repeated = sample.batch(&[("c1", json!({ "b": [2.5, null], "a": 1 }))]);
            let unused = repeated.calls[0].call_ref.clone();
            let recorded = again.record_batch(repeated).await.unwrap();
            let [Recorded::Existing(found)] = &recorded[..] else { panic!("{recorded:?}") };
            assert_eq!(**found, read(&*store, &call).await);
            assert_eq!(found.state == CallState::Failed, end);
            assert_eq!(store.call(&unused).await.unwrap(), None);
        }
    }
}

/// Neither the batch nor the new calls beside the conflicting one.
pub async fn another_tool_or_input_is_a_conflict_and_nothing_is_recorded(harness: Harness) {
    let store = harness.open().await;
    let sample = Sample::default();
    let call = record(&*store, sample.batch(&[("c1", json!(1))])).await.remove(0);
    let before = read(&*store, &call).await;
    let other_input = Sample::call("c1", "execute", &json!(2));
    let other_type = Sample::call("c1", "execute", &json!("1"));
    let other_tool = Sample::call("c1", "read_file", &json!(1));
    for conflicting in [other_input, other_type, other_tool] {
        let mut batch = sample.batch(&[("new-1", json!(1)), ("new-2", json!(2))]);
        batch.calls.insert(1, conflicting);
        let error = store.record_batch(batch.clone()).await.unwrap_err();
        assert!(matches!(&error, StateError::CallIdConflict { id } if id.as_str() == "c1"), "{error:?}");
        assert_eq!(store.batch(&batch.batch).await.unwrap(), None);
        for call in &batch.calls {
            assert_eq!(store.call(&call.call_ref).await.unwrap(), None);
        }
    }
    assert_eq!(read(&*store, &call).await, before);
}

/// Even where both are the same call.
pub async fn an_id_twice_in_one_batch_is_a_conflict(harness: Harness) {
    let store = harness.open().await;
    let batch = Sample::default().batch(&[("a", json!(1)), ("b", json!(1)), ("a", json!(1))]);
    let error = store.record_batch(batch.clone()).await.unwrap_err();
    assert!(matches!(&error, StateError::CallIdConflict { id } if id.as_str() == "a"), "{error:?}");
    assert_eq!(store.batch(&batch.batch).await.unwrap(), None);
    assert_eq!(store.call(&batch.calls[1].call_ref).await.unwrap(), None);
}

/// One id in every combination of present and absent names is as many calls.
pub async fn an_absent_session_or_user_is_no_present_one(harness: Harness) {
    let store = harness.open().await;
    let names = [None, Some("s"), Some("\0"), Some(" "), Some("null")];
    let mut expected = Vec::new();
    for (tenant, agent) in [("acme", "coder"), ("acme", "writer"), ("other", "coder")] {
        for session in names {
            for user in names {
                let sample = Sample::of(tenant, agent, session, user);
                let call = record(&*store, sample.one("c1")).await.remove(0);
                expected.push((sample, call));
            }
        }
    }
    for (sample, call) in expected {
        let recorded = store.record_batch(sample.one("c1")).await.unwrap();
        let [Recorded::Existing(found)] = &recorded[..] else { panic!("{recorded:?}") };
        assert_eq!((&found.call_ref, &found.context), (&call, &sample.context));
    }
}

/// Tasks of two openings at once.
pub async fn of_many_recorders_of_one_id_exactly_one_is_first(harness: Harness) {
    let stores = [harness.open().await, harness.open().await];
    for round in 0..10 {
        let id = format!("c{round}");
        let start = Arc::new(Barrier::new(8));
        let mut tasks = JoinSet::new();
        for task in 0..8 {
            let (store, start, batch) = (stores[task % 2].clone(), start.clone(), Sample::default().one(&id));
            tasks.spawn(async move {
                start.wait().await;
                let mine = batch.calls[0].call_ref.clone();
                match store.record_batch(batch).await.unwrap().remove(0) {
                    Recorded::Fresh => (true, mine),
                    Recorded::Existing(found) => (false, found.call_ref),
                }
            });
        }
        let outcomes = tasks.join_all().await;
        assert_eq!(outcomes.iter().filter(|(first, _)| *first).count(), 1, "{outcomes:?}");
        assert!(outcomes.iter().all(|(_, call)| *call == outcomes[0].1), "{outcomes:?}");
    }
}

/// The others are told.
pub async fn of_conflicting_recorders_of_one_id_exactly_one_is_first(harness: Harness) {
    let stores = [harness.open().await, harness.open().await];
    let start = Arc::new(Barrier::new(8));
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let (store, start) = (stores[task % 2].clone(), start.clone());
        let batch = Sample::default().batch(&[("c1", json!(task)), (&format!("other-{task}"), json!(0))]);
        tasks.spawn(async move {
            start.wait().await;
            let other = batch.calls[1].call_ref.clone();
            let first = match store.record_batch(batch).await {
                Ok(recorded) => recorded == [Recorded::Fresh, Recorded::Fresh],
                Err(error) => {
                    assert!(matches!(error, StateError::CallIdConflict { .. }), "{error:?}");
                    false
                }
            };
            assert_eq!(store.call(&other).await.unwrap().is_some(), first);
            first
        });
    }
    assert_eq!(tasks.join_all().await.into_iter().filter(|first| *first).count(), 1);
}

/// In the order of the request.
pub async fn a_batch_keeps_its_order_and_knows_earlier_calls(harness: Harness) {
    let store = harness.open().await;
    let sample = Sample::default();
    let earlier = record_one(&*store, "m").await;
    let batch = sample.batch(&[("z", json!(1)), ("m", json!({ "command": "m" })), ("a", json!(2))]);
    let recorded = store.record_batch(batch.clone()).await.unwrap();
    assert!(matches!(&recorded[..], [Recorded::Fresh, Recorded::Existing(_), Recorded::Fresh]), "{recorded:?}");
    let found = store.batch(&batch.batch).await.unwrap().unwrap();
    assert_eq!((&found.batch, &found.context, found.created_at), (&batch.batch, &sample.context, sample.now));
    let refs: Vec<_> = found.calls.iter().map(|call| &call.call_ref).collect();
    assert_eq!(refs, [&batch.calls[0].call_ref, &earlier, &batch.calls[2].call_ref]);
    assert_ne!(found.calls[1].batch, batch.batch);
    let empty = sample.batch(&[]);
    assert_eq!(store.record_batch(empty.clone()).await.unwrap(), []);
    assert_eq!(store.batch(&empty.batch).await.unwrap().unwrap().calls, []);
}

/// By one of many.
pub async fn a_call_is_started_once(harness: Harness) {
    let stores = [harness.open().await, harness.open().await];
    let call = record_one(&*stores[0], "c1").await;
    let start = Arc::new(Barrier::new(8));
    let mut tasks = JoinSet::new();
    for task in 0..8_u64 {
        let (store, start, call) = (stores[task as usize % 2].clone(), start.clone(), call.clone());
        tasks.spawn(async move {
            start.wait().await;
            store.claim_started(&call, FencingToken(task), UnixMillis(task)).await.unwrap().then_some(task)
        });
    }
    let winners: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    let found = read(&*stores[0], &call).await;
    let winner = winners[0];
    assert_eq!((found.state, found.token), (CallState::Running, Some(FencingToken(winner))));
    assert_eq!(found.started_at, Some(UnixMillis(winner)));
    assert_eq!(&found.owner, stores[winner as usize % 2].owner());
}

/// Neither an asking, nor a running, nor an ended one.
pub async fn only_a_queued_call_is_started(harness: Harness) {
    let store = harness.open().await;
    let (asking, running, ended) =
        (record_one(&*store, "a").await, record_one(&*store, "r").await, record_one(&*store, "e").await);
    let ask = CallUpdate::Ask { decision: None };
    assert!(store.set_state(&asking, &[CallState::Queued], ask).await.unwrap());
    assert!(store.claim_started(&running, TOKEN, NOW).await.unwrap());
    assert!(store.finish(&ended, Sample::end(CallState::Denied, 3)).await.unwrap());
    for call in [&asking, &running, &ended] {
        let before = read(&*store, call).await;
        assert!(!store.claim_started(call, FencingToken(99), UnixMillis(99)).await.unwrap());
        assert_eq!(read(&*store, call).await, before);
    }
}

/// Through approval, start and end; a later decision replaces it.
pub async fn an_asking_call_keeps_its_decision(harness: Harness) {
    let store = harness.open().await;
    let decision = json!({ "behavior": "ask", "stage": "default" });
    for replaced in [None, Some(json!({ "behavior": "allow" }))] {
        let call = record_one(&*store, &format!("c{}", replaced.is_some())).await;
        let ask = CallUpdate::Ask { decision: Some(decision.clone()) };
        assert!(store.set_state(&call, &[CallState::Queued], ask).await.unwrap());
        let found = read(&*store, &call).await;
        assert_eq!((found.state, found.decision.as_ref()), (CallState::Asking, Some(&decision)));
        assert!(store.set_state(&call, &[CallState::Asking], CallUpdate::Requeue).await.unwrap());
        assert!(store.claim_started(&call, TOKEN, NOW).await.unwrap());
        let found = read(&*store, &call).await;
        assert_eq!((found.state, found.decision.as_ref()), (CallState::Running, Some(&decision)));
        let end = FinishedCall { decision: replaced.clone(), ..Sample::end(CallState::Succeeded, 9) };
        assert!(store.finish(&call, end).await.unwrap());
        assert_eq!(read(&*store, &call).await.decision, Some(replaced.unwrap_or(decision.clone())));
    }
}

/// And changes nothing elsewhere.
pub async fn a_change_needs_the_state_it_starts_from(harness: Harness) {
    let store = harness.open().await;
    let call = record_one(&*store, "c1").await;
    let before = read(&*store, &call).await;
    for from in [&[][..], &[CallState::Asking], &[CallState::Running, CallState::Succeeded]] {
        for update in [CallUpdate::Requeue, CallUpdate::Ask { decision: Some(json!(1)) }] {
            assert!(!store.set_state(&call, from, update).await.unwrap());
            assert_eq!(read(&*store, &call).await, before);
        }
    }
    assert!(store.claim_started(&call, TOKEN, NOW).await.unwrap());
    assert!(store.set_state(&call, &[CallState::Asking, CallState::Running], CallUpdate::Requeue).await.unwrap());
    assert_eq!(read(&*store, &call).await, before, "as if it had never been started");
}

/// Whatever is tried.
pub async fn a_final_state_never_changes(harness: Harness) {
    let store = harness.open().await;
    for end in CallState::ALL.into_iter().filter(|state| state.is_final()) {
        let call = record_one(&*store, end.as_str()).await;
        assert!(store.finish(&call, Sample::end(end, 3)).await.unwrap());
        let before = read(&*store, &call).await;
        assert_eq!((before.state, before.finished_at), (end, Some(UnixMillis(3))));
        for other in CallState::ALL.into_iter().filter(|state| state.is_final()) {
            assert!(!store.finish(&call, Sample::end(other, 9)).await.unwrap());
        }
        assert!(!store.claim_started(&call, TOKEN, NOW).await.unwrap());
        for update in [CallUpdate::Requeue, CallUpdate::Ask { decision: Some(json!(1)) }] {
            assert!(!store.set_state(&call, &CallState::ALL, update).await.unwrap());
        }
        assert_eq!(read(&*store, &call).await, before);
    }
}

/// The others are refused.
pub async fn an_end_must_be_a_final_state(harness: Harness) {
    let store = harness.open().await;
    let call = record_one(&*store, "c1").await;
    for state in OPEN {
        let error = store.finish(&call, Sample::end(state, 1)).await.unwrap_err();
        assert!(matches!(error, StateError::NotFinal { state: named, .. } if named == state), "{error:?}");
    }
    assert_eq!(read(&*store, &call).await.state, CallState::Queued);
}

/// Names with any character, numbers to the last digit, every part of a result.
pub async fn everything_comes_back_as_it_was_given(harness: Harness) {
    let store = harness.open().await;
    let odd = "\0 \u{202e}é\"'\\\n%_😀";
    let sample = Sample::of(odd, odd, Some(odd), Some(odd));
    let mut random = 1_u64;
    let mut digits = || {
        // Knuth's multiplier: the same numbers in every run.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from_bits(random)
    };
    let floats: Vec<_> = (0..500).map(|_| digits()).filter(|float| float.is_finite()).collect();
    let value = json!({
        "floats": floats,
        odd: [odd, null, true, u64::MAX, i64::MIN, 5e-324, f64::MAX, 0.1, {}, [], ""],
        "deep": (0..60).fold(json!(1), |inner, _| json!([inner])),
    });
    let batch = sample.batch(&[(odd, value.clone())]);
    let call = record(&*store, batch).await.remove(0);
    assert!(store.claim_started(&call, TOKEN, NOW).await.unwrap());
    let end = FinishedCall {
        state: CallState::Error,
        output: Some(value.clone()),
        error: Some(CallFault { code: odd.to_owned(), message: odd.to_owned() }),
        fault: Some(RuntimeFault {
            code: "lease_lost".to_owned(),
            title: odd.to_owned(),
            detail: String::new(),
            ran: Ran::Unknown,
            retry_after_ms: Some(u64::MAX),
        }),
        decision: Some(Value::Null),
        slot: Some(SlotReport {
            key: ScopeKey::ephemeral().unwrap(),
            scope: IsolationScope::Global,
            ephemeral: true,
            generation: Generation(u64::MAX),
            restored_from: Some(SnapshotId::generate().unwrap()),
            snapshot: None,
            durable: Durable::NoStore,
        }),
        timing: TimingMs { total: 4.1, decide: 0.05, acquire: 1e-9, run: 2.9 },
        finished_at: UnixMillis(i64::MAX as u64),
    };
    assert!(store.finish(&call, end.clone()).await.unwrap());
    let found = read(&*harness.open().await, &call).await;
    assert_eq!(found.context, sample.context);
    assert_eq!((found.id.as_str(), found.input), (odd, value));
    let back = FinishedCall {
        state: found.state,
        output: found.output,
        error: found.error,
        fault: found.fault,
        decision: found.decision,
        slot: found.slot,
        timing: found.timing.unwrap(),
        finished_at: found.finished_at.unwrap(),
    };
    assert_eq!(back, end);
}

/// Reading finds nothing, changing changes nothing.
pub async fn what_is_not_recorded_is_not_there(harness: Harness) {
    let store = harness.open().await;
    let call = CallRef::generate();
    assert_eq!(store.call(&call).await.unwrap(), None);
    assert_eq!(store.batch(&BatchId::generate()).await.unwrap(), None);
    assert!(!store.claim_started(&call, TOKEN, NOW).await.unwrap());
    assert!(!store.set_state(&call, &OPEN, CallUpdate::Requeue).await.unwrap());
    assert!(!store.finish(&call, Sample::end(CallState::Denied, 1)).await.unwrap());
    assert_eq!(store.call(&call).await.unwrap(), None);
}

/// Rather than stored as others.
pub async fn too_large_numbers_are_refused(harness: Harness) {
    let store = harness.open().await;
    let call = record_one(&*store, "c1").await;
    let error = store.claim_started(&call, FencingToken(u64::MAX), NOW).await.unwrap_err();
    assert!(matches!(error, StateError::OutOfRange { .. }), "{error:?}");
    assert!(store.claim_started(&call, FencingToken(i64::MAX as u64), NOW).await.unwrap());
    assert_eq!(read(&*store, &call).await.token, Some(FencingToken(i64::MAX as u64)));
    let key = ScopeKey::ephemeral().unwrap();
    let error = store.note_generation(&key, Generation(u64::MAX)).await.unwrap_err();
    assert!(matches!(error, StateError::OutOfRange { .. }), "{error:?}");
    assert_eq!(store.highest_generation(&key).await.unwrap(), None);
}
