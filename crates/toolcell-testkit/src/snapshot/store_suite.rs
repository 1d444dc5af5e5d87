//! What any snapshot store must do, operation by operation.

use super::StoreHarness;
use super::fixture::noise;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinSet;
use toolcell_model::ScopeKey;
use toolcell_snapshot::{
    ErrorKind, HeadVersion, MAX_OBJECT_BYTES, ObjectName, ObjectPrefix, Retry, SnapshotStore, StoreError,
};

pub(super) type Harness = Arc<dyn StoreHarness>;

/// Writers that race.
const RACERS: usize = 8;

fn slot() -> ScopeKey {
    ScopeKey::ephemeral().unwrap()
}

fn name(slot: &ScopeKey, leaf: &str) -> ObjectName {
    ObjectName::parse(format!("{slot}/packs/{leaf}")).unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, StoreError>) -> ErrorKind {
    result.expect_err("an error").kind()
}

/// Whether a write was refused for this reason; where answers get lost it may be in doubt instead.
fn is_refused<T: std::fmt::Debug>(harness: &Harness, result: Result<T, StoreError>, wanted: ErrorKind) -> bool {
    let error = result.expect_err("an error");
    error.kind() == wanted || harness.loses_answers() && error.retry() == Retry::Indeterminate
}

async fn put(store: &dyn SnapshotStore, name: &ObjectName, data: &[u8]) {
    store.put_if_absent(name, Bytes::copy_from_slice(data)).await.unwrap();
}

/// Round trip of no bytes, a few, and many.
pub async fn bytes_come_back_empty_small_and_large(harness: Harness) {
    let (store, slot) = (harness.store().await, slot());
    for (leaf, data) in [("empty", Vec::new()), ("small", vec![0, 255, 10, 13]), ("large", noise(1, 20 << 20))] {
        let name = name(&slot, leaf);
        put(&*store, &name, &data).await;
        assert!(store.get(&name, MAX_OBJECT_BYTES).await.unwrap() == data, "{leaf}");
    }
}

/// A range is what was asked for, or an error.
pub async fn ranges_are_exact(harness: Harness) {
    let (store, name) = (harness.store().await, name(&slot(), "a"));
    put(&*store, &name, b"0123456789").await;
    for (offset, len, wanted) in [(0, 10, &b"0123456789"[..]), (3, 4, b"3456"), (9, 1, b"9"), (10, 0, b""), (4, 0, b"")]
    {
        assert_eq!(store.get_range(&name, offset, len).await.unwrap(), wanted, "{offset}+{len}");
    }
    for (offset, len) in [(0, 11), (9, 2), (10, 1), (11, 0), (u64::MAX, 1)] {
        assert_eq!(kind(store.get_range(&name, offset, len).await), ErrorKind::Corrupt, "{offset}+{len}");
    }
    assert_eq!(kind(store.get_range(&name, 0, u64::MAX).await), ErrorKind::TooLarge);
}

/// An object is never replaced, not even by the same bytes.
pub async fn an_object_is_created_once(harness: Harness) {
    let (store, name) = (harness.store().await, name(&slot(), "a"));
    put(&*store, &name, b"first").await;
    for data in ["second", "first"] {
        match store.put_if_absent(&name, Bytes::from(data)).await {
            // In doubt it was read back: the same bytes are the same object.
            Ok(()) => assert!(harness.loses_answers() && data == "first"),
            result => assert!(is_refused(&harness, result, ErrorKind::AlreadyExists)),
        }
    }
    assert_eq!(store.get(&name, 100).await.unwrap(), "first");
}

/// Of several that create one object, one does.
pub async fn concurrent_creations_have_one_winner(harness: Harness) {
    let name = name(&slot(), "a");
    let mut racers = JoinSet::new();
    for racer in 0..RACERS {
        let (store, name) = (harness.store().await, name.clone());
        racers.spawn(async move {
            let data = noise(racer as u64, 300_000);
            store.put_if_absent(&name, Bytes::from(data.clone())).await.map(|()| data)
        });
    }
    let results = racers.join_all().await;
    let won: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
    assert_eq!(won.len(), 1);
    assert!(harness.store().await.get(&name, MAX_OBJECT_BYTES).await.unwrap() == *won[0]);
}

/// Bounds hold at one below, at, and one above; nothing of a refused object is visible.
pub async fn sizes_are_checked_before_reading(harness: Harness) {
    let (store, slot) = (harness.store().await, slot());
    let object = name(&slot, "a");
    put(&*store, &object, &[7; 1000]).await;
    assert_eq!(kind(store.get(&object, 999).await), ErrorKind::TooLarge);
    assert!(store.get(&object, 1000).await.is_ok() && store.get(&object, 1001).await.is_ok());

    let max = usize::try_from(harness.max_object_bytes()).unwrap();
    let most = Bytes::from(vec![0; max + 1]);
    let big = name(&slot, "big");
    assert_eq!(kind(store.put_if_absent(&big, most.clone()).await), ErrorKind::TooLarge);
    assert_eq!(kind(store.get(&big, MAX_OBJECT_BYTES).await), ErrorKind::NotFound);
    store.put_if_absent(&big, most.slice(1..)).await.unwrap();
    store.put_if_absent(&name(&slot, "big-1"), most.slice(2..)).await.unwrap();

    let max = usize::try_from(harness.max_head_bytes()).unwrap();
    assert_eq!(kind(store.head_cas(&slot, None, most.slice(..max + 1)).await), ErrorKind::TooLarge);
    let version = store.head_cas(&slot, None, most.slice(..max)).await.unwrap();
    store.head_cas(&slot, Some(&version), most.slice(..max - 1)).await.unwrap();
}

/// What is not there is deleted already.
pub async fn deleting_is_idempotent(harness: Harness) {
    let (store, name) = (harness.store().await, name(&slot(), "a"));
    store.delete(&name).await.unwrap();
    put(&*store, &name, b"x").await;
    store.delete(&name).await.unwrap();
    store.delete(&name).await.unwrap();
    assert_eq!(kind(store.get(&name, 10).await), ErrorKind::NotFound);
    put(&*store, &name, b"again").await;
    assert_eq!(store.get(&name, 10).await.unwrap(), "again");
}

/// Byte order; prefixes of any length; pages that end exactly at the end, or not.
pub async fn listing_is_in_order_by_prefix_and_page(harness: Harness) {
    let (store, one, two) = (harness.store().await, slot(), slot());
    let leaves = ["b", "a", "a-1", "a.1", "a_1", "a1", "c0", "c"];
    for leaf in leaves {
        put(&*store, &name(&one, leaf), leaf.as_bytes()).await;
        put(&*store, &name(&two, leaf), b"").await;
    }
    put(&*store, &ObjectName::parse(format!("{one}/manifests/a")).unwrap(), b"m").await;
    let list = async |prefix: String, after: Option<&ObjectName>, limit| {
        let page = store.list(&ObjectPrefix::parse(prefix).unwrap(), after, limit).await.unwrap();
        let names: Vec<String> = page.objects.iter().map(|object| object.name.to_string()).collect();
        (names, page.more)
    };
    let mut sorted: Vec<String> = leaves.iter().map(|leaf| format!("{one}/packs/{leaf}")).collect();
    sorted.sort();
    assert_eq!(list(format!("{one}/packs/"), None, 100).await, (sorted.clone(), false));
    assert_eq!(list(format!("{one}/packs/"), None, sorted.len()).await, (sorted.clone(), false));
    assert_eq!(list(format!("{one}/packs/c"), None, 100).await, (sorted[6..].to_vec(), false));
    assert_eq!(list(format!("{one}/packs/zz"), None, 100).await, (vec![], false));
    assert_eq!(list(format!("{}/", slot()), None, 100).await, (vec![], false));
    let mut with_manifest = sorted.clone();
    with_manifest.insert(0, format!("{one}/manifests/a"));
    assert_eq!(list(format!("{one}/"), None, 100).await, (with_manifest, false));

    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let (names, more) = list(format!("{one}/packs/"), after.as_ref(), 3).await;
        assert!(names.len() == 3 || !more);
        after = names.last().map(|name| ObjectName::parse(name.as_str()).unwrap());
        paged.extend(names);
        if !more {
            break;
        }
    }
    assert_eq!(paged, sorted);
    // A limit of nothing would never get anywhere.
    assert_eq!(list(format!("{one}/packs/"), None, 0).await, (sorted[..1].to_vec(), true));
    let sizes = store.list(&ObjectPrefix::slot(&one), None, 100).await.unwrap();
    assert!(sizes.objects.iter().any(|object| object.name.as_str().ends_with("/a-1") && object.bytes == 3));
}

/// The shortest, the longest and the oddest names that there can be.
pub async fn names_at_their_bounds(harness: Harness) {
    let (store, slot) = (harness.store().await, slot());
    let mut names = vec![ObjectName::parse("store/meta/x").unwrap()];
    for leaf in ["0", "-", "_", "a.lock", "a..b", "-rf", &"z".repeat(100)] {
        names.push(name(&slot, leaf));
    }
    names.push(ObjectName::parse(format!("{slot}/{}/a", "c".repeat(16))).unwrap());
    for name in &names {
        put(&*store, name, name.as_str().as_bytes()).await;
    }
    for name in &names {
        assert_eq!(store.get(name, 1000).await.unwrap(), name.as_str());
    }
    let listed = store.list(&ObjectPrefix::all(), None, 1000).await.unwrap().objects;
    names.sort();
    assert_eq!(listed.into_iter().map(|object| object.name).collect::<Vec<_>>(), names);
}

/// The same mistakes give the same kinds.
pub async fn errors_have_the_same_kinds_everywhere(harness: Harness) {
    let (store, slot) = (harness.store().await, slot());
    let missing = name(&slot, "missing");
    assert_eq!(kind(store.get(&missing, 10).await), ErrorKind::NotFound);
    assert_eq!(kind(store.get_range(&missing, 0, 1).await), ErrorKind::NotFound);
    let error = store.get(&missing, 10).await.unwrap_err();
    assert_eq!((error.object(), error.retry()), (missing.as_str(), Retry::Never));
    assert!(store.head_get(&slot).await.unwrap().is_none());
    let stale = HeadVersion("never was".to_owned());
    let refused = store.head_cas(&slot, Some(&stale), Bytes::from("x")).await;
    assert!(refused.as_ref().is_err_and(|error| error.retry() == Retry::Never) || harness.loses_answers());
    assert!(is_refused(&harness, refused, ErrorKind::PreconditionFailed));
    assert!(store.head_get(&slot).await.unwrap().is_none());
}

/// Compare-and-set compares.
pub async fn a_head_is_replaced_only_by_who_knows_it(harness: Harness) {
    let (store, slot) = (harness.store().await, slot());
    let cas = async |expected: Option<&HeadVersion>, data: &'static str| {
        store.head_cas(&slot, expected, Bytes::from(data)).await
    };
    let one = cas(None, "one").await.unwrap();
    assert!(is_refused(&harness, cas(None, "other").await, ErrorKind::PreconditionFailed));
    let read = store.head_get(&slot).await.unwrap().unwrap();
    assert_eq!((read.data, read.version), (Bytes::from("one"), one.clone()));
    let two = cas(Some(&one), "two").await.unwrap();
    assert_ne!(one, two);
    for stale in [None, Some(&one)] {
        assert!(is_refused(&harness, cas(stale, "three").await, ErrorKind::PreconditionFailed));
    }
    assert_eq!(store.head_get(&slot).await.unwrap().unwrap().data, "two");
    cas(Some(&two), "three").await.unwrap();
}

/// Slots do not see each other's heads, and no listing shows a head.
pub async fn heads_of_slots_are_independent_and_no_objects(harness: Harness) {
    let (store, one, two) = (harness.store().await, slot(), slot());
    let version = store.head_cas(&one, None, Bytes::from("one")).await.unwrap();
    assert!(store.head_get(&two).await.unwrap().is_none());
    let others = store.head_cas(&two, Some(&version), Bytes::from("x")).await;
    assert!(is_refused(&harness, others, ErrorKind::PreconditionFailed));
    store.head_cas(&two, None, Bytes::from("two")).await.unwrap();
    assert_eq!(store.head_get(&one).await.unwrap().unwrap().data, "one");
    assert!(store.list(&ObjectPrefix::all(), None, 10).await.unwrap().objects.is_empty());
}

/// Of several that replace one head, one does, round after round.
pub async fn concurrent_commits_have_exactly_one_winner(harness: Harness) {
    let slot = slot();
    let mut expected = None;
    for round in 0..20 {
        let mut racers = JoinSet::new();
        for racer in 0..RACERS {
            let (store, slot, expected) = (harness.store().await, slot.clone(), expected.clone());
            racers.spawn(async move {
                let data = format!("{round} {racer}");
                store.head_cas(&slot, expected.as_ref(), Bytes::from(data.clone())).await.map(|version| (version, data))
            });
        }
        let (won, lost): (Vec<_>, Vec<_>) = racers.join_all().await.into_iter().partition(Result::is_ok);
        assert!(lost.into_iter().all(|lost| is_refused(&harness, lost, ErrorKind::PreconditionFailed)));
        assert_eq!(won.len(), 1, "round {round}");
        let (version, data) = won.into_iter().next().unwrap().unwrap();
        let read = harness.store().await.head_get(&slot).await.unwrap().unwrap();
        assert_eq!((read.data, &read.version), (Bytes::from(data), &version));
        expected = Some(version);
    }
}

/// A head, and an object, is read whole or not at all, while it is written.
pub async fn a_reader_during_commits_sees_old_or_new(harness: Harness) {
    let slot = slot();
    let done = Arc::new(AtomicBool::new(false));
    let of = |byte: u8| Bytes::from(vec![byte; 4000 + usize::from(byte)]);
    let whole = |data: &Bytes| data.iter().all(|b| *b == data[0]) && data.len() == 4000 + usize::from(data[0]);
    let object = name(&slot, "a");
    let writer = async {
        let store = harness.store().await;
        let mut version = None;
        for byte in 0..40 {
            version = Some(store.head_cas(&slot, version.as_ref(), of(byte)).await.unwrap());
            store.put_if_absent(&object, of(byte)).await.unwrap();
            store.delete(&object).await.unwrap();
        }
        done.store(true, Ordering::SeqCst);
    };
    let reader = async {
        let store = harness.store().await;
        let mut last = 0;
        while !done.load(Ordering::SeqCst) {
            if let Some(record) = store.head_get(&slot).await.unwrap() {
                assert!(whole(&record.data) && record.data[0] >= last);
                last = record.data[0];
            }
            match store.get(&object, 10_000).await {
                Ok(data) => assert!(whole(&data)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(writer, reader);
}

/// What one handle wrote another one reads, and nothing else is there.
pub async fn everything_survives_another_handle(harness: Harness) {
    let slot = slot();
    let object = name(&slot, "a");
    let store = harness.store().await;
    put(&*store, &object, b"kept").await;
    let version = store.head_cas(&slot, None, Bytes::from("head")).await.unwrap();
    drop(store);
    let store = harness.store().await;
    assert_eq!(store.get(&object, 10).await.unwrap(), "kept");
    assert_eq!(store.head_get(&slot).await.unwrap().unwrap().version, version);
    assert_eq!(store.list(&ObjectPrefix::all(), None, 10).await.unwrap().objects.len(), 1);
}
