//! Bindings, and the generations of heads.

use super::StateHarness;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use toolcell_model::{Acquisition, FencingToken, Generation, ScopeKey, UnixMillis};
use toolcell_state::{Binding, StateError};

type Harness = Arc<dyn StateHarness>;

fn binding(slot: &ScopeKey, token: u64) -> Binding {
    Binding {
        slot: slot.clone(),
        container: format!("container-{token}"),
        token: FencingToken(token),
        acquisition: Acquisition::generate().unwrap(),
        spec_hash: "spec".to_owned(),
        image_digest: "sha256:0".to_owned(),
        secret_path: PathBuf::from(OsStr::from_bytes(b"/run/\xff/secret")),
        started_at: UnixMillis(token),
        restored: false,
    }
}

/// The same acquisition may bind another container, an older one may not; nor may the same token of another
/// acquisition.
pub async fn a_binding_is_replaced_by_newer_holders_only(harness: Harness) {
    let store = harness.open().await;
    let (slot, other_slot) = (ScopeKey::ephemeral().unwrap(), ScopeKey::ephemeral().unwrap());
    assert_eq!(store.binding(&slot).await.unwrap(), None);
    let first = binding(&slot, 5);
    store.put_binding(first.clone()).await.unwrap();
    assert_eq!(harness.open().await.binding(&slot).await.unwrap(), Some(first.clone()));
    let again = Binding { container: "another".to_owned(), restored: true, ..first.clone() };
    store.put_binding(again.clone()).await.unwrap();
    assert_eq!(store.binding(&slot).await.unwrap(), Some(again.clone()));
    for stale in [binding(&slot, 4), binding(&slot, 5)] {
        let error = store.put_binding(stale).await.unwrap_err();
        assert!(matches!(error, StateError::Fenced { recorded: FencingToken(5), .. }), "{error:?}");
    }
    assert_eq!(store.binding(&slot).await.unwrap(), Some(again));
    let newer = binding(&slot, 6);
    store.put_binding(newer.clone()).await.unwrap();
    let other = binding(&other_slot, 1);
    store.put_binding(other.clone()).await.unwrap();
    let mut expected = vec![newer, other];
    expected.sort_by(|a, b| a.slot.cmp(&b.slot));
    assert_eq!(store.bindings().await.unwrap(), expected);
}

/// Neither marked as restored nor removed by another.
pub async fn a_binding_is_changed_by_its_own_acquisition_only(harness: Harness) {
    let store = harness.open().await;
    let slot = ScopeKey::ephemeral().unwrap();
    let mine = binding(&slot, 5);
    let stranger = Acquisition::generate().unwrap();
    assert!(!store.set_binding_restored(&slot, mine.acquisition).await.unwrap());
    assert!(!store.remove_binding(&slot, mine.acquisition).await.unwrap());
    store.put_binding(mine.clone()).await.unwrap();
    assert!(!store.set_binding_restored(&slot, stranger).await.unwrap());
    assert!(!store.remove_binding(&slot, stranger).await.unwrap());
    assert_eq!(store.binding(&slot).await.unwrap(), Some(mine.clone()));
    assert!(store.set_binding_restored(&slot, mine.acquisition).await.unwrap());
    assert_eq!(store.binding(&slot).await.unwrap(), Some(Binding { restored: true, ..mine.clone() }));
    assert!(store.remove_binding(&slot, mine.acquisition).await.unwrap());
    assert!(!store.remove_binding(&slot, mine.acquisition).await.unwrap());
    assert_eq!(store.bindings().await.unwrap(), []);
}

/// Through lower ones, restarts and the removal of the slot.
pub async fn the_highest_generation_stays(harness: Harness) {
    let store = harness.open().await;
    let (key, other) = (ScopeKey::ephemeral().unwrap(), ScopeKey::ephemeral().unwrap());
    assert_eq!(store.highest_generation(&key).await.unwrap(), None);
    for (noted, highest) in [(3, 3), (1, 3), (3, 3), (9, 9), (8, 9)] {
        store.note_generation(&key, Generation(noted)).await.unwrap();
        assert_eq!(store.highest_generation(&key).await.unwrap(), Some(Generation(highest)));
    }
    assert!(!store.remove_slot(&key).await.unwrap());
    drop(store);
    let store = harness.open().await;
    assert_eq!(store.highest_generation(&key).await.unwrap(), Some(Generation(9)));
    assert_eq!(store.highest_generation(&other).await.unwrap(), None);
}
