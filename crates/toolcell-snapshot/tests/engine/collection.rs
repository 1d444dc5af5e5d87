//! Collecting what nothing needs, and nothing else.

use super::history::{manifest_name, pins, save_text, text};
use super::{Slot, stamp};
use bytes::Bytes;
use std::time::Duration;
use toolcell_model::UnixMillis;
use toolcell_snapshot::{
    ErrorKind, GcError, GcReceipt, MAX_OBJECT_BYTES, NoProgress, ObjectName, ObjectPrefix, Retention, SlotIndex,
    SnapshotStore,
};
use toolcell_testkit::snapshot::{Fault, FixedClock, Operation, noise};

fn keep(last: u64) -> Retention {
    Retention { keep_last: Some(last), ..Retention::default() }
}

pub(super) async fn collect(slot: &mut Slot, token: u64, retention: &Retention) -> GcReceipt {
    slot.writer = stamp(&slot.engine, &slot.key, token).await;
    slot.engine.gc(&mut slot.writer, &mut slot.index, retention, &NoProgress).await.unwrap()
}

pub(super) async fn objects(slot: &Slot, class: &str) -> Vec<ObjectName> {
    let prefix = ObjectPrefix::parse(format!("{}/{class}/", slot.key)).unwrap();
    slot.store.list(&prefix, None, 1000).await.unwrap().objects.into_iter().map(|object| object.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_keeps_the_newest_and_frees_what_only_older_ones_needed() {
    let mut slot = Slot::new().await;
    let mut taken = Vec::new();
    for round in 0..6 {
        std::fs::write(slot.path().join("noise"), noise(round, 100_000)).unwrap();
        taken.push(save_text(&mut slot, &format!("text {round}")).await);
    }
    let receipt = collect(&mut slot, 2, &keep(2)).await;
    assert_eq!((receipt.snapshots_kept, receipt.snapshots_dropped, receipt.garbage_manifests), (2, 4, 0));
    assert!(receipt.packs_deleted == 4 && receipt.bytes_freed > 400_000 && receipt.packs_left == 0, "{receipt:?}");
    let history: Vec<_> = slot.engine.history(&slot.key).await.unwrap().iter().map(|info| info.snapshot).collect();
    assert_eq!(history, [taken[5], taken[4]]);
    assert_eq!(text(&slot, taken[4]).await, "text 4");
    assert!(slot.engine.verify(&slot.key, None, &NoProgress).await.unwrap().is_sound());
    // The same holder goes on, and its index refers to nothing that is gone.
    let next = save_text(&mut slot, "after").await;
    assert_eq!(text(&slot, next).await, "after");
    assert_eq!(collect(&mut slot, 3, &keep(0)).await.snapshots_kept, 1, "the head's own always stays");
    assert_eq!(text(&slot, next).await, "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_by_age_and_by_bytes() {
    let clock = FixedClock(UnixMillis(4_000_000_000_000));
    let mut slot = Slot::with(std::sync::Arc::new(toolcell_snapshot::MemoryStore::new()), clock).await;
    for round in 0..4 {
        std::fs::write(slot.path().join("noise"), noise(round, 100_000)).unwrap();
        slot.save().await;
    }
    let unlimited = collect(&mut slot, 2, &Retention::default()).await;
    assert_eq!((unlimited.snapshots_kept, unlimited.packs_deleted), (4, 0));
    let bytes = Retention { max_bytes: Some(250_000), ..Retention::default() };
    assert_eq!(collect(&mut slot, 3, &bytes).await.snapshots_kept, 2);
    let age = Retention { max_age: Some(Duration::from_secs(10)), ..Retention::default() };
    assert_eq!(collect(&mut slot, 4, &age).await.snapshots_kept, 2, "none is older");
    let later = FixedClock(UnixMillis(4_000_000_011_000));
    slot.engine = super::SnapshotEngine::open(slot.store.clone(), [1; 32], std::sync::Arc::new(later)).await.unwrap();
    assert_eq!(collect(&mut slot, 5, &age).await.snapshots_kept, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_dead_holders_left_is_collected_and_what_a_living_one_writes_is_not() {
    let mut slot = Slot::new().await;
    let kept = save_text(&mut slot, "kept").await;
    slot.store.fail_at(Operation::HeadCas, 0, Fault::Fails);
    std::fs::write(slot.path().join("file"), "never").unwrap();
    let source = slot.source();
    slot.try_save(&source).await.unwrap_err();
    // A pack of a later holder, and one of the collector's own.
    for token in [2, 3] {
        let name = ObjectName::parse(format!("{}/packs/{token:020}-{}", slot.key, "ab".repeat(16))).unwrap();
        slot.store.put_if_absent(&name, Bytes::from_static(b"on its way")).await.unwrap();
    }
    let receipt = collect(&mut slot, 2, &Retention::default()).await;
    assert_eq!((receipt.garbage_manifests, receipt.packs_deleted, receipt.packs_left), (1, 1, 2), "{receipt:?}");
    assert_eq!(text(&slot, kept).await, "kept");
    assert_eq!(objects(&slot, "packs").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_that_dies_anywhere_is_finished_by_the_next() {
    let mut step = 0;
    loop {
        let mut slot = Slot::new().await;
        for round in 0..4 {
            std::fs::write(slot.path().join("noise"), noise(round, 50_000)).unwrap();
            slot.save().await;
        }
        let head = slot.writer.snapshot().unwrap();
        slot.writer = stamp(&slot.engine, &slot.key, 2).await;
        slot.store.fail(step, Fault::Dead);
        let died = slot.engine.gc(&mut slot.writer, &mut slot.index, &keep(1), &NoProgress).await;
        slot.store.heal();
        assert!(slot.engine.verify(&slot.key, None, &NoProgress).await.unwrap().is_sound(), "step {step}");
        assert_eq!(slot.engine.head(&slot.key).await.unwrap().unwrap().snapshot, Some(head));
        collect(&mut slot, 3, &keep(1)).await;
        assert_eq!((objects(&slot, "manifests").await.len(), objects(&slot, "packs").await.len()), (1, 1));
        if died.is_ok() {
            break;
        }
        step += 1;
    }
    assert!(step > 10, "only {step} steps");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_lost_the_slot_deletes_nothing() {
    let mut slot = Slot::new().await;
    save_text(&mut slot, "first").await;
    save_text(&mut slot, "second").await;
    let before = (objects(&slot, "packs").await, objects(&slot, "manifests").await);
    let mut later = stamp(&slot.engine, &slot.key, 2).await;
    let lost = slot.engine.gc(&mut slot.writer, &mut slot.index, &keep(1), &NoProgress).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Fenced, "{lost}");
    assert_eq!((objects(&slot, "packs").await, objects(&slot, "manifests").await), before);
    slot.engine.gc(&mut later, &mut SlotIndex::empty(), &keep(1), &NoProgress).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_keeps_its_snapshot_until_its_time_is_over() {
    let clock = FixedClock(UnixMillis(4_000_000_000_000));
    let mut slot = Slot::with(std::sync::Arc::new(toolcell_snapshot::MemoryStore::new()), clock).await;
    let first = save_text(&mut slot, "first").await;
    save_text(&mut slot, "second").await;
    // A reader that dies after it has pinned.
    let target = tempfile::tempdir().unwrap();
    let sink = toolcell_testkit::snapshot::DirSink::new([target.path().to_path_buf()]);
    slot.store.fail(1, Fault::Dead);
    let died = slot.engine.restore_pinned(&slot.key, first, &super::roots(), &sink, &NoProgress).await;
    died.unwrap_err();
    slot.store.heal();
    assert_eq!(pins(&slot).await, 1);
    let receipt = collect(&mut slot, 2, &keep(1)).await;
    assert_eq!((receipt.pins, receipt.snapshots_dropped, receipt.packs_deleted), (1, 0, 0));
    assert_eq!(text(&slot, first).await, "first");

    let ends = (toolcell_snapshot::PIN_TTL + toolcell_snapshot::PIN_SKEW).as_millis() as u64;
    for (passed, is_over) in [(ends, false), (ends + 1, true)] {
        let later = FixedClock(UnixMillis(4_000_000_000_000 + passed));
        let engine = super::SnapshotEngine::open(slot.store.clone(), [1; 32], std::sync::Arc::new(later));
        slot.engine = engine.await.unwrap();
        let receipt = collect(&mut slot, if is_over { 4 } else { 3 }, &keep(1)).await;
        assert_eq!(receipt.pins_expired, u64::from(is_over));
        assert_eq!(slot.engine.snapshot_info(&slot.key, first).await.is_err(), is_over);
    }
    assert_eq!(pins(&slot).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_stops_a_collection_by_name() {
    let mut slot = Slot::new().await;
    let first = save_text(&mut slot, "first").await;
    save_text(&mut slot, "second").await;
    let pin = ObjectName::parse(format!("{}/pins/expiring-{}", slot.key, "ab".repeat(16))).unwrap();
    let manifest = manifest_name(&slot, first);
    let intact = slot.store.get(&manifest, MAX_OBJECT_BYTES).await.unwrap();
    slot.store.delete(&manifest).await.unwrap();
    let packs = objects(&slot, "packs").await;
    let mut token = 2;
    for name in [&pin, &manifest] {
        let junk =
            [&b""[..], b"x", b"nonsense that is long enough to have a proof at its end, or so it seems", &intact];
        let junk = junk.iter().filter(|bytes| name == &pin || bytes.len() != intact.len());
        for bytes in junk.map(|bytes| bytes.to_vec()).chain((0..intact.len()).step_by(17).map(|at| {
            let mut flipped = intact.to_vec();
            flipped[at] ^= 0x10;
            flipped
        })) {
            slot.store.put_if_absent(name, Bytes::from(bytes)).await.unwrap();
            let mut writer = stamp(&slot.engine, &slot.key, token).await;
            token += 1;
            let error = slot.engine.gc(&mut writer, &mut slot.index, &keep(1), &NoProgress).await.unwrap_err();
            let GcError::Store(error) = error else { panic!("{error:?}") };
            assert_eq!((error.kind(), error.object()), (ErrorKind::Corrupt, name.as_str()));
            assert_eq!(objects(&slot, "packs").await, packs);
            slot.store.delete(name).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_slot_is_emptied() {
    let mut slot = Slot::new().await;
    save_text(&mut slot, "first").await;
    slot.writer = stamp(&slot.engine, &slot.key, 2).await;
    slot.engine.tombstone(&mut slot.writer).await.unwrap();
    let receipt = slot.engine.gc(&mut slot.writer, &mut slot.index, &keep(1), &NoProgress).await.unwrap();
    assert_eq!((receipt.garbage_manifests, receipt.packs_deleted), (1, 1));
    let head = slot.engine.head(&slot.key).await.unwrap().unwrap();
    assert!(head.deleted && head.snapshot.is_none(), "it stays deleted");
    assert!(objects(&slot, "packs").await.is_empty() && objects(&slot, "manifests").await.is_empty());
}
