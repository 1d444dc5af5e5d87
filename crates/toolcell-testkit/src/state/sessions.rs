//! Permissions of sessions.

use super::StateHarness;
use std::sync::Arc;
use toolcell_model::{AgentName, SessionId, TenantId, UserId};
use toolcell_state::{MAX_SESSION_TEXT_BYTES, SessionKey, SessionPermissions, StateError};

type Harness = Arc<dyn StateHarness>;

fn key(tenant: &str, agent: &str, session: &str, user: Option<&str>) -> SessionKey {
    SessionKey {
        tenant: TenantId::parse(tenant).unwrap(),
        agent: AgentName::parse(agent).unwrap(),
        session: SessionId::parse(session).unwrap(),
        user: user.map(|user| UserId::parse(user).unwrap()),
    }
}

fn permissions(mode: Option<&str>, rules: &str) -> SessionPermissions {
    SessionPermissions { mode: mode.map(str::to_owned), rules: rules.to_owned() }
}

/// Also in another process, with and without a mode.
pub async fn a_sessions_permissions_come_back_as_they_were_put(harness: Harness) {
    let store = harness.open().await;
    let key = key("acme", "coder", "conv", Some("alice"));
    assert_eq!(store.session_permissions(&key).await.unwrap(), None);
    let first = permissions(Some("explore"), r#"{"deny":["execute"]}"#);
    assert!(store.put_session_permissions(&key, None, &first).await.unwrap());
    assert_eq!(harness.open().await.session_permissions(&key).await.unwrap(), Some(first.clone()));
    let second = permissions(None, "{}");
    assert!(store.put_session_permissions(&key, Some(&first), &second).await.unwrap());
    assert_eq!(store.session_permissions(&key).await.unwrap(), Some(second));
}

/// Every part of the key counts, and an absent user is not one.
pub async fn sessions_do_not_see_each_others_permissions(harness: Harness) {
    let store = harness.open().await;
    let keys = [
        key("acme", "coder", "conv", Some("alice")),
        key("acme", "coder", "conv", Some("bob")),
        key("acme", "coder", "conv", None),
        key("acme", "coder", "conv2", Some("alice")),
        key("acme", "other", "conv", Some("alice")),
        key("else", "coder", "conv", Some("alice")),
    ];
    for (place, key) in keys.iter().enumerate() {
        assert_eq!(store.session_permissions(key).await.unwrap(), None, "{key:?}");
        let own = permissions(None, &place.to_string());
        assert!(store.put_session_permissions(key, None, &own).await.unwrap());
    }
    for (place, key) in keys.iter().enumerate() {
        assert_eq!(store.session_permissions(key).await.unwrap(), Some(permissions(None, &place.to_string())));
    }
}

/// Whoever did not see the newest state changes nothing.
pub async fn of_two_changes_of_a_session_none_undoes_the_other(harness: Harness) {
    let (store, other) = (harness.open().await, harness.open().await);
    let key = key("acme", "coder", "conv", None);
    let (loose, tight, late) = (permissions(None, "0"), permissions(Some("explore"), "0"), permissions(None, "1"));
    assert!(store.put_session_permissions(&key, None, &loose).await.unwrap());
    assert!(!other.put_session_permissions(&key, None, &late).await.unwrap());
    assert!(other.put_session_permissions(&key, Some(&loose), &tight).await.unwrap());
    for stale in [None, Some(&loose), Some(&late)] {
        assert!(!store.put_session_permissions(&key, stale, &late).await.unwrap(), "{stale:?}");
    }
    assert_eq!(store.session_permissions(&key).await.unwrap(), Some(tight));
}

/// One byte more is refused, and nothing is kept of it.
pub async fn a_sessions_permissions_are_bounded(harness: Harness) {
    let store = harness.open().await;
    let key = key("acme", "coder", "conv", None);
    let long = "x".repeat(MAX_SESSION_TEXT_BYTES + 1);
    for beyond in [permissions(Some(&long), ""), permissions(None, &long)] {
        let error = store.put_session_permissions(&key, None, &beyond).await.unwrap_err();
        assert!(matches!(error, StateError::OutOfRange { .. }), "{error:?}");
    }
    assert_eq!(store.session_permissions(&key).await.unwrap(), None);
    let longest = permissions(None, &long[1..]);
    assert!(store.put_session_permissions(&key, None, &longest).await.unwrap());
}
