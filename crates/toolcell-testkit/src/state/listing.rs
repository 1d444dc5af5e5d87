//! Listings, page by page.

use super::calls::{record, record_one};
use super::{Sample, StateHarness};
use serde_json::json;
use std::sync::Arc;
use toolcell_model::{
    AgentName, CallContext, CallId, CallRef, CallState, FencingToken, Generation, Owner, ScopeTuple, SessionId,
    TenantId, UnixMillis, UserId,
};
use toolcell_state::{CallFilter, CallUpdate, Cursor, MAX_PAGE, MAX_PAGE_BYTES, StateError, StateStore};

type Harness = Arc<dyn StateHarness>;

fn acme() -> CallFilter {
    CallFilter::of(TenantId::parse("acme").unwrap())
}

/// All pages of a listing, and how long each was.
async fn pages(store: &dyn StateStore, filter: &CallFilter, limit: usize) -> (Vec<CallRef>, Vec<usize>) {
    let (mut refs, mut lengths, mut cursor) = (Vec::new(), Vec::new(), None);
    loop {
        let page = store.calls(filter, cursor.as_ref(), limit).await.unwrap();
        lengths.push(page.items.len());
        refs.extend(page.items.into_iter().map(|call| call.call_ref));
        match page.next {
            // As a client sends it back.
            Some(next) => cursor = Some(Cursor::from_text(next.as_str())),
            None => return (refs, lengths),
        }
    }
}

/// By every field and by several at once.
pub async fn calls_are_listed_newest_first_and_filtered(harness: Harness) {
    let store = harness.open().await;
    let mut all: Vec<(CallContext, CallId, CallState, CallRef)> = Vec::new();
    let contexts = [
        Sample::of("acme", "coder", Some("s1"), Some("alice")),
        Sample::of("acme", "coder", Some("s2"), Some("bob")),
        Sample::of("acme", "writer", None, Some("alice")),
        Sample::of("acme", "coder", Some("s1"), None),
        Sample::of("other", "coder", Some("s1"), Some("alice")),
    ];
    for sample in &contexts {
        for (id, state) in CallState::ALL.into_iter().enumerate() {
            let id = format!("c{id}");
            let call = record(&*store, sample.one(&id)).await.remove(0);
            match state {
                CallState::Queued => {}
                CallState::Asking => {
                    let ask = CallUpdate::Ask { decision: None };
                    assert!(store.set_state(&call, &[CallState::Queued], ask).await.unwrap());
                }
                CallState::Running => {
                    assert!(store.claim_started(&call, FencingToken(1), UnixMillis(1)).await.unwrap());
                }
                ended => assert!(store.finish(&call, Sample::end(ended, 1)).await.unwrap()),
            }
            all.push((sample.context.clone(), CallId::parse(id).unwrap(), state, call));
        }
    }
    let agent = |name: &str| Some(AgentName::parse(name).unwrap());
    let session = Some(SessionId::parse("s1").unwrap());
    let user = Some(UserId::parse("alice").unwrap());
    let id = Some(CallId::parse("c4").unwrap());
    let mut filters = vec![
        acme(),
        CallFilter::of(TenantId::parse("nobody").unwrap()),
        CallFilter { agent: agent("coder"), ..acme() },
        CallFilter { session: session.clone(), ..acme() },
        CallFilter { user: user.clone(), ..acme() },
        CallFilter { id: id.clone(), ..acme() },
        CallFilter {
            agent: agent("coder"),
            session: session.clone(),
            user: user.clone(),
            id: id.clone(),
            state: None,
            ..acme()
        },
        CallFilter { agent: agent("writer"), session, ..acme() },
    ];
    for state in CallState::ALL {
        filters.push(CallFilter { state: Some(state), ..acme() });
        filters.push(CallFilter { state: Some(state), id: id.clone(), user: user.clone(), ..acme() });
    }
    for filter in filters {
        let wanted = |(context, id, state, _): &&(CallContext, CallId, CallState, CallRef)| {
            context.tenant == filter.tenant
                && filter.agent.as_ref().is_none_or(|agent| *agent == context.agent)
                && filter.session.as_ref().is_none_or(|session| Some(session) == context.session.as_ref())
                && filter.user.as_ref().is_none_or(|user| Some(user) == context.user.as_ref())
                && filter.id.as_ref().is_none_or(|wanted| wanted == id)
                && filter.state.is_none_or(|wanted| wanted == *state)
        };
        let expected: Vec<_> = all.iter().rev().filter(wanted).map(|(.., call)| call.clone()).collect();
        for limit in [3, MAX_PAGE] {
            let (found, _) = pages(&*store, &filter, limit).await;
            assert_eq!(found, expected, "{filter:?}");
        }
    }
}

/// The second page continues the first one.
pub async fn pages_are_not_disturbed_by_new_calls(harness: Harness) {
    let store = harness.open().await;
    let mut expected = Vec::new();
    for number in 0..7 {
        expected.insert(0, record_one(&*store, &format!("old-{number}")).await);
    }
    let (mut found, mut cursor, mut round) = (Vec::new(), None, 0);
    loop {
        let page = store.calls(&acme(), cursor.as_ref(), 2).await.unwrap();
        found.extend(page.items.into_iter().map(|call| call.call_ref));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
        round += 1;
        record_one(&*store, &format!("new-{round}")).await;
    }
    assert_eq!(found, expected);
}

/// Whatever the caller asks for; the last full page has no next one.
pub async fn a_page_is_bounded(harness: Harness) {
    let store = harness.open().await;
    let calls: Vec<_> = (0..=MAX_PAGE).map(|number| (format!("c{number}"), json!(number))).collect();
    let calls: Vec<_> = calls.iter().map(|(id, input)| (id.as_str(), input.clone())).collect();
    record(&*store, Sample::default().batch(&calls)).await;
    for (limit, expected) in
        [(usize::MAX, vec![MAX_PAGE, 1]), (MAX_PAGE, vec![MAX_PAGE, 1]), (167, vec![167, 167, 167])]
    {
        assert_eq!(pages(&*store, &acme(), limit).await.1, expected);
    }
    let page = store.calls(&acme(), None, 0).await.unwrap();
    assert_eq!(page.items.len(), 1);
}

/// Few large calls make several pages, none of them empty.
pub async fn a_page_is_bounded_in_bytes(harness: Harness) {
    let store = harness.open().await;
    let large = "x".repeat(MAX_PAGE_BYTES / 2 + 1);
    for id in ["a", "b", "c"] {
        record(&*store, Sample::default().batch(&[(id, json!(large))])).await;
    }
    record_one(&*store, "small").await;
    let (found, lengths) = pages(&*store, &acme(), MAX_PAGE).await;
    assert_eq!((found.len(), lengths), (4, vec![3, 1]));
}

/// Whatever a client may send.
pub async fn a_foreign_cursor_is_refused(harness: Harness) {
    let store = harness.open().await;
    for text in ["", "1", "' OR 1=1 --", "call_\u{0}", &"9".repeat(100_000)] {
        let cursor = Cursor::from_text(text);
        let calls = store.calls(&acme(), Some(&cursor), 1).await;
        assert!(matches!(calls, Err(StateError::BadCursor)), "{calls:?}");
        let slots = store.slots(Some(&cursor), 1).await;
        assert!(matches!(slots, Err(StateError::BadCursor)), "{slots:?}");
    }
}

/// With the tuple of each, its times and its highest generation.
pub async fn slots_are_listed_page_by_page(harness: Harness) {
    let store = harness.open().await;
    let tuple = |user: u64| ScopeTuple::User {
        tenant: TenantId::default_tenant(),
        owner: Owner::Agent(AgentName::parse("coder").unwrap()),
        user: UserId::parse(format!("user-{user}")).unwrap(),
    };
    let mut expected = Vec::new();
    for user in 0..5 {
        let tuple = tuple(user);
        let key = tuple.key();
        store.touch_slot(&key, &tuple, UnixMillis(10 + user)).await.unwrap();
        store.touch_slot(&key, &tuple, UnixMillis(20 + user)).await.unwrap();
        store.touch_slot(&key, &tuple, UnixMillis(5)).await.unwrap();
        let generation = (user > 2).then_some(Generation(user));
        if let Some(generation) = generation {
            store.note_generation(&key, generation).await.unwrap();
        }
        expected.push((key, tuple, UnixMillis(10 + user), UnixMillis(20 + user), generation));
    }
    expected.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    for limit in [1, 2, 5, usize::MAX] {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = store.slots(cursor.as_ref(), limit).await.unwrap();
            assert!(!page.items.is_empty() && page.items.len() <= limit);
            found.extend(page.items);
            cursor = page.next.map(|next| Cursor::from_text(next.as_str()));
            if cursor.is_none() {
                break;
            }
        }
        let found: Vec<_> = found
            .into_iter()
            .map(|slot| (slot.key, slot.tuple, slot.created_at, slot.last_used_at, slot.highest_generation))
            .collect();
        assert_eq!(found, expected);
    }
    let gone = &expected[0].0;
    assert_eq!(store.slot(gone).await.unwrap().map(|slot| slot.key).as_ref(), Some(gone));
    assert!(store.remove_slot(gone).await.unwrap());
    assert_eq!(store.slot(gone).await.unwrap(), None);
    assert!(!store.remove_slot(gone).await.unwrap());
    assert!(store.slots(None, 9).await.unwrap().items.iter().all(|slot| slot.key != *gone));
}
