//! What is encrypted is not to be read, not to be changed unnoticed, and opens with the right keys only.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

use bytes::Bytes;
use proptest::prelude::*;
use std::sync::Arc;
use toolcell_model::ScopeKey;
use toolcell_snapshot::{
    EncryptedStore, EncryptionError, EncryptionKeys, ErrorKind, MAX_OBJECT_BYTES, MemoryStore, ObjectName,
    ObjectPrefix, OpenError, SnapshotEngine, SnapshotStore,
};
use toolcell_testkit::snapshot::{Fault, FaultStore, FixedClock, Operation, noise};

const ONE: [u8; 32] = [1; 32];
const TWO: [u8; 32] = [2; 32];
const SECRET: [u8; 32] = [5; 32];
const SEGMENT: usize = 64 * 1024;

fn slot() -> ScopeKey {
    ScopeKey::ephemeral().unwrap()
}

fn name(slot: &ScopeKey, leaf: &str) -> ObjectName {
    ObjectName::parse(format!("{slot}/packs/{leaf}")).unwrap()
}

async fn encrypted(raw: &Arc<MemoryStore>, key: [u8; 32], old: &[[u8; 32]]) -> Result<EncryptedStore, EncryptionError> {
    EncryptedStore::open(Arc::clone(raw) as Arc<dyn SnapshotStore>, EncryptionKeys::new(&key, old)).await
}

async fn raw_bytes(raw: &MemoryStore, name: &ObjectName) -> Bytes {
    raw.get(name, u64::MAX).await.unwrap()
}

async fn replace(raw: &MemoryStore, name: &ObjectName, data: Bytes) {
    raw.delete(name).await.unwrap();
    raw.put_if_absent(name, data).await.unwrap();
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Reading it whole and by ranges gives these bytes or [`ErrorKind::Corrupt`]; whether all of it was refused.
async fn honest(store: &EncryptedStore, name: &ObjectName, plain: &[u8]) -> bool {
    let whole = store.get(name, MAX_OBJECT_BYTES).await;
    match &whole {
        Ok(read) => assert!(*read == plain, "it was read, and is another"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}"),
    }
    let mut refused = whole.is_err();
    for at in (0..plain.len()).step_by(SEGMENT / 2) {
        let len = (plain.len() - at).min(SEGMENT);
        match store.get_range(name, at as u64, len as u64).await {
            Ok(read) => {
                assert!(read == plain[at..at + len], "it was read, and is another");
                refused = false;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}"),
        }
    }
    refused
}

#[derive(Debug, Clone)]
enum Tampering {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Append(Vec<u8>),
    SwapSegments(prop::sample::Index, prop::sample::Index),
    DropSegment(prop::sample::Index),
}

fn tampering() -> impl Strategy<Value = Tampering> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), 0..8u8).prop_map(|(at, bit)| Tampering::Flip(at, bit)),
        index().prop_map(Tampering::Cut),
        prop::collection::vec(any::<u8>(), 1..100).prop_map(Tampering::Append),
        (index(), index()).prop_map(|(one, two)| Tampering::SwapSegments(one, two)),
        index().prop_map(Tampering::DropSegment),
    ]
}

impl Tampering {
    fn apply(&self, sealed: &[u8]) -> Vec<u8> {
        let (header, body) = sealed.split_at(40);
        let mut segments: Vec<&[u8]> = body.chunks(SEGMENT + 16).collect();
        match self {
            Self::Flip(at, bit) => {
                let mut bytes = sealed.to_vec();
                bytes[at.index(sealed.len())] ^= 1 << bit;
                bytes
            }
            Self::Cut(at) => sealed[..at.index(sealed.len())].to_vec(),
            Self::Append(more) => [sealed, more].concat(),
            Self::SwapSegments(one, two) => {
                let (one, two) = (one.index(segments.len()), two.index(segments.len()));
                segments.swap(one, two);
                [header, &segments.concat()].concat()
            }
            Self::DropSegment(at) => {
                segments.remove(at.index(segments.len()));
                [header, &segments.concat()].concat()
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_is_done_to_an_object_is_noticed_or_changes_nothing(
        size in prop_oneof![0..200usize, Just(SEGMENT), Just(2 * SEGMENT), SEGMENT - 20..4 * SEGMENT],
        tampering in tampering(),
    ) {
        block_on(async {
            let (raw, name) = (Arc::new(MemoryStore::new()), name(&slot(), "a"));
            let plain = noise(3, size);
            let writer = encrypted(&raw, ONE, &[]).await.unwrap();
            writer.put_if_absent(&name, Bytes::from(plain.clone())).await.unwrap();
            let sealed = raw_bytes(&raw, &name).await;
            let changed = tampering.apply(&sealed);
            let same = changed == sealed;
            replace(&raw, &name, Bytes::from(changed)).await;
            // The one knows the header already, the other does not.
            for store in [writer, encrypted(&raw, ONE, &[]).await.unwrap()] {
                honest(&store, &name, &plain).await;
                assert_eq!(store.get(&name, MAX_OBJECT_BYTES).await.is_ok(), same);
            }
        });
    }

    #[test]
    fn a_range_is_that_part_of_the_whole(size in 0..4 * SEGMENT, from: prop::sample::Index, until: prop::sample::Index) {
        block_on(async {
            let (raw, name) = (Arc::new(MemoryStore::new()), name(&slot(), "a"));
            let plain = noise(4, size);
            let writer = encrypted(&raw, ONE, &[]).await.unwrap();
            writer.put_if_absent(&name, Bytes::from(plain.clone())).await.unwrap();
            let (one, two) = (from.index(size + 1), until.index(size + 1));
            let (from, until) = (one.min(two), one.max(two));
            for store in [writer, encrypted(&raw, ONE, &[]).await.unwrap()] {
                let read = store.get_range(&name, from as u64, (until - from) as u64).await.unwrap();
                assert!(read == plain[from..until]);
            }
        });
    }
}

#[tokio::test]
async fn nothing_plain_reaches_the_store() {
    let (raw, slot) = (Arc::new(MemoryStore::new()), slot());
    let store = encrypted(&raw, ONE, &[]).await.unwrap();
    let text = b"the quick brown fox jumps over the lazy dog".repeat(10_000);
    store.put_if_absent(&name(&slot, "a"), Bytes::from(text.clone())).await.unwrap();
    store.put_if_absent(&name(&slot, "b"), Bytes::from(text.clone())).await.unwrap();
    store.head_cas(&slot, None, Bytes::from_static(b"the quick brown fox")).await.unwrap();
    let a = raw_bytes(&raw, &name(&slot, "a")).await;
    let head = raw.head_get(&slot).await.unwrap().unwrap().data;
    for sealed in [&a, &head] {
        assert!(!sealed.windows(6).any(|window| text.windows(6).take(50).any(|plain| plain == window)));
    }
    assert!(a != raw_bytes(&raw, &name(&slot, "b")).await, "equal objects are not seen to be equal");
    let listed = store.list(&ObjectPrefix::all(), None, 10).await.unwrap();
    assert!(listed.objects.iter().all(|object| object.bytes == text.len() as u64), "sizes are those of the content");
}

#[tokio::test]
async fn an_object_in_anothers_place_is_corrupt() {
    let (raw, one, two) = (Arc::new(MemoryStore::new()), slot(), slot());
    let store = encrypted(&raw, ONE, &[]).await.unwrap();
    let (here, there, elsewhere) = (name(&one, "a"), name(&one, "b"), name(&two, "a"));
    let plain = noise(5, 100_000);
    for name in [&here, &there, &elsewhere] {
        store.put_if_absent(name, Bytes::from(plain.clone())).await.unwrap();
    }
    let (a, b) = (raw_bytes(&raw, &here).await, raw_bytes(&raw, &there).await);
    replace(&raw, &here, b).await;
    replace(&raw, &there, a.clone()).await;
    replace(&raw, &elsewhere, a.clone()).await;
    for name in [&here, &there, &elsewhere] {
        assert!(honest(&store, name, &plain).await, "{name}");
    }
    // In its own place again it is what it was, also to one who has seen the other.
    replace(&raw, &here, a).await;
    assert!(!honest(&store, &here, &plain).await);

    store.head_cas(&one, None, Bytes::from("head")).await.unwrap();
    let head = raw.head_get(&one).await.unwrap().unwrap();
    raw.head_cas(&two, None, head.data.clone()).await.unwrap();
    assert_eq!(store.head_get(&two).await.unwrap_err().kind(), ErrorKind::Corrupt);
    for at in 0..head.data.len() {
        let mut flipped = head.data.to_vec();
        flipped[at] ^= 4;
        let version = raw.head_get(&one).await.unwrap().unwrap().version;
        raw.head_cas(&one, Some(&version), Bytes::from(flipped)).await.unwrap();
        assert_eq!(store.head_get(&one).await.unwrap_err().kind(), ErrorKind::Corrupt, "byte {at}");
    }
}

#[tokio::test]
async fn a_range_reads_only_the_segments_that_it_needs() {
    let raw = FaultStore::new(Arc::new(MemoryStore::new()));
    let open = async || {
        let inner = Arc::clone(&raw) as Arc<dyn SnapshotStore>;
        EncryptedStore::open(inner, EncryptionKeys::new(&ONE, &[])).await.unwrap()
    };
    let name = name(&slot(), "a");
    open().await.put_if_absent(&name, Bytes::from(noise(6, 10 * SEGMENT))).await.unwrap();
    let store = open().await;
    drop(raw.take_log());
    for wanted in [2, 1, 1] {
        store.get_range(&name, 5 * SEGMENT as u64, 10).await.unwrap();
        assert_eq!(raw.take_log(), vec![Operation::GetRange; wanted], "the header, once, and the segment");
    }
    raw.fail(0, Fault::Fails);
    let failed = store.get_range(&name, 0, 1).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable, "a failure below is no damage");
}

#[tokio::test]
async fn a_rotated_key_reads_what_earlier_ones_wrote() {
    let (raw, slot) = (Arc::new(MemoryStore::new()), slot());
    let engine = async |store: EncryptedStore| {
        SnapshotEngine::open(Arc::new(store), SECRET, Arc::new(FixedClock::far_ahead())).await.map(drop)
    };
    let before = encrypted(&raw, ONE, &[]).await.unwrap();
    before.put_if_absent(&name(&slot, "old"), Bytes::from("old")).await.unwrap();
    let version = before.head_cas(&slot, None, Bytes::from("head")).await.unwrap();
    engine(before).await.unwrap();

    let after = encrypted(&raw, TWO, &[ONE]).await.unwrap();
    assert_eq!(after.get(&name(&slot, "old"), 10).await.unwrap(), "old");
    assert_eq!(after.head_get(&slot).await.unwrap().unwrap().data, "head");
    after.put_if_absent(&name(&slot, "new"), Bytes::from("new")).await.unwrap();
    after.head_cas(&slot, Some(&version), Bytes::from("head 2")).await.unwrap();
    let only_new = EncryptionKeys::new(&TWO, &[]);
    engine(after).await.unwrap();

    // New writes need the new key alone; the store as a whole still needs the old one, and says so.
    let error = EncryptedStore::open(Arc::clone(&raw) as Arc<dyn SnapshotStore>, only_new.clone()).await.unwrap_err();
    assert!(matches!(error, EncryptionError::OtherKey) && error.to_string().contains("old_keys"), "{error}");
    raw.delete(&ObjectName::parse("store/meta/canary").unwrap()).await.unwrap();
    let store = EncryptedStore::open(raw, only_new).await.unwrap();
    assert_eq!(store.get(&name(&slot, "new"), 10).await.unwrap(), "new");
    assert_eq!(store.head_get(&slot).await.unwrap().unwrap().data, "head 2");
    assert_eq!(store.get(&name(&slot, "old"), 10).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_wrong_or_a_missing_key_is_told_at_the_start() {
    let clock = || Arc::new(FixedClock::far_ahead());
    let raw = Arc::new(MemoryStore::new());
    let store = encrypted(&raw, ONE, &[]).await.unwrap();
    SnapshotEngine::open(Arc::new(store), SECRET, clock()).await.unwrap();
    let wrong = encrypted(&raw, TWO, &[]).await.unwrap_err();
    assert!(matches!(wrong, EncryptionError::OtherKey), "{wrong}");
    let missing = SnapshotEngine::open(Arc::clone(&raw) as Arc<dyn SnapshotStore>, SECRET, clock()).await.unwrap_err();
    assert!(matches!(missing, OpenError::Encrypted), "{missing}");
    assert!(missing.to_string().contains("[snapshots.encryption] key"), "{missing}");

    let plain = Arc::new(MemoryStore::new());
    SnapshotEngine::open(Arc::clone(&plain) as Arc<dyn SnapshotStore>, SECRET, clock()).await.unwrap();
    let error = encrypted(&plain, ONE, &[]).await.unwrap_err();
    assert!(matches!(error, EncryptionError::NotEncrypted), "{error}");
}
