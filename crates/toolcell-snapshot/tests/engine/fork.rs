//! Forks: nothing is copied, and nothing that they need goes.

use super::collection::{collect, objects};
use super::history::{pins, save_text, text};
use super::{Slot, stamp};
use toolcell_model::{Acquisition, FencingToken, TenantId};
use toolcell_snapshot::{ForkError, NoProgress, Retention, SlotIndex, SnapshotStore};
use toolcell_testkit::snapshot::{DirSource, Fault, describe, noise};

const LAST: Retention = Retention { keep_last: Some(1), max_age: None, max_bytes: None };

/// An empty slot in the same store.
async fn beside(slot: &Slot) -> Slot {
    let key = toolcell_model::ScopeKey::ephemeral().unwrap();
    let writer = stamp(&slot.engine, &key, 1).await;
    let dir = tempfile::tempdir().unwrap();
    let (store, engine) = (slot.store.clone(), slot.engine.clone());
    Slot { store, engine, key, writer, index: SlotIndex::empty(), dir }
}

async fn fork(from: &Slot, snapshot: toolcell_model::SnapshotId, to: &mut Slot) -> toolcell_model::SnapshotId {
    let receipt = to.engine.fork(&from.key, snapshot, &mut to.writer, &mut to.index).await.unwrap();
    assert_eq!(receipt.new_packs, 0);
    receipt.snapshot.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_copies_nothing_and_lives_on_by_itself() {
    let mut source = Slot::new().await;
    std::fs::write(source.path().join("noise"), noise(1, 300_000)).unwrap();
    let first = save_text(&mut source, "first").await;
    let before = describe(source.path());
    let mut target = beside(&source).await;
    let forked = fork(&source, first, &mut target).await;
    assert!(objects(&target, "packs").await.is_empty());
    assert_eq!(describe(target.restore(forked).await.path()), before);
    assert_eq!(target.engine.history(&target.key).await.unwrap()[0].parent, None);

    // The source drops the snapshot, and then everything.
    std::fs::remove_file(source.path().join("noise")).unwrap();
    save_text(&mut source, "second").await;
    assert_eq!(collect(&mut source, 2, &LAST).await.snapshots_dropped, 1);
    assert_eq!(describe(target.restore(forked).await.path()), before);
    source.writer = stamp(&source.engine, &source.key, 3).await;
    source.engine.tombstone(&mut source.writer).await.unwrap();
    source.engine.gc(&mut source.writer, &mut source.index, &LAST, &NoProgress).await.unwrap();
    assert_eq!(describe(target.restore(forked).await.path()), before);
    assert!(target.engine.verify(&target.key, None, &NoProgress).await.unwrap().is_sound());

    // The target no longer needs it: its pin goes, and then the source's packs.
    std::fs::write(target.path().join("file"), "its own").unwrap();
    target.save().await;
    assert_eq!(collect(&mut target, 2, &LAST).await.forks_released, 1);
    assert_eq!(pins(&source).await, 0);
    collect(&mut source, 4, &LAST).await;
    assert!(objects(&source, "packs").await.is_empty());
    let head = target.writer.snapshot().unwrap();
    assert_eq!(text(&target, head).await, "its own");
    assert_eq!(collect(&mut target, 3, &LAST).await.forks_released, 0, "once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_fork_needs_only_its_own_source() {
    let mut one = Slot::new().await;
    std::fs::write(one.path().join("noise"), noise(1, 300_000)).unwrap();
    let first = save_text(&mut one, "first").await;
    let mut two = beside(&one).await;
    let second = fork(&one, first, &mut two).await;
    let mut three = beside(&one).await;
    let third = fork(&two, second, &mut three).await;
    for slot in [&mut one, &mut two] {
        slot.writer = stamp(&slot.engine, &slot.key, 2).await;
        slot.engine.tombstone(&mut slot.writer).await.unwrap();
        collect(slot, 3, &LAST).await;
    }
    collect(&mut one, 4, &LAST).await;
    assert_eq!(text(&three, third).await, "first");
    three.writer = stamp(&three.engine, &three.key, 2).await;
    three.engine.tombstone(&mut three.writer).await.unwrap();
    for slot in [&mut three, &mut two, &mut one] {
        collect(slot, 9, &LAST).await;
        for class in ["packs", "manifests", "pins", "forks"] {
            assert!(objects(slot, class).await.is_empty(), "{class}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_goes_to_an_empty_slot_of_the_same_tenant() {
    let mut source = Slot::new().await;
    let first = save_text(&mut source, "first").await;
    let mut target = beside(&source).await;
    save_text(&mut target, "its own").await;
    let full = target.engine.fork(&source.key, first, &mut target.writer, &mut target.index).await.unwrap_err();
    assert!(matches!(full, ForkError::TargetNotEmpty { .. }), "{full}");
    let itself = source.engine.fork(&source.key.clone(), first, &mut source.writer, &mut source.index).await;
    assert!(matches!(itself, Err(ForkError::Target { .. })));

    let other = toolcell_model::ScopeKey::ephemeral().unwrap();
    let tenant = TenantId::parse("another").unwrap();
    let acquisition = Acquisition::generate().unwrap();
    let mut writer = source.engine.stamp(&tenant, &other, FencingToken(1), acquisition, None).await.unwrap();
    let foreign = source.engine.fork(&source.key, first, &mut writer, &mut SlotIndex::empty()).await;
    assert!(matches!(foreign, Err(ForkError::Target { .. })));
    assert_eq!(pins(&source).await, 0);

    let nowhere = toolcell_model::SnapshotId::from_bytes([7; 16]);
    let mut empty = beside(&source).await;
    let missing = empty.engine.fork(&source.key, nowhere, &mut empty.writer, &mut empty.index).await.unwrap_err();
    assert!(matches!(missing, ForkError::NoSnapshot { .. }), "{missing}");
    // A deleted slot is empty.
    target.engine.tombstone(&mut target.writer).await.unwrap();
    target.writer = stamp(&target.engine, &target.key, 2).await;
    let forked = fork(&source, first, &mut target).await;
    assert_eq!(text(&target, forked).await, "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_dies_anywhere_leaves_an_empty_target_and_no_lasting_trace() {
    let mut step = 0;
    loop {
        let mut source = Slot::new().await;
        let first = save_text(&mut source, "first").await;
        let mut target = beside(&source).await;
        source.store.fail(step, Fault::Dead);
        let died = target.engine.fork(&source.key, first, &mut target.writer, &mut target.index).await;
        source.store.heal();
        let head = target.engine.head(&target.key).await.unwrap().unwrap();
        match head.snapshot {
            Some(snapshot) => assert_eq!(text(&target, snapshot).await, "first"),
            None => {
                assert!(died.is_err());
                collect(&mut target, 2, &LAST).await;
                assert!(objects(&target, "forks").await.is_empty() && objects(&target, "manifests").await.is_empty());
                let lasting =
                    objects(&source, "pins").await.iter().filter(|pin| pin.as_str().contains("lasting")).count();
                assert_eq!(lasting, 0, "step {step}");
            }
        }
        if died.is_ok() {
            break;
        }
        step += 1;
    }
    assert!(step > 6, "only {step} steps");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forked_workspace_is_saved_incrementally() {
    let mut source = Slot::new().await;
    for at in 0..10 {
        std::fs::write(source.path().join(format!("f{at}")), noise(at, 100_000)).unwrap();
    }
    toolcell_testkit::snapshot::backdate(source.path());
    let first = source.save().await.snapshot.unwrap();
    let mut target = beside(&source).await;
    let forked = fork(&source, first, &mut target).await;
    let restored = target.restore(forked).await;
    let dir = DirSource::new([restored.path().to_path_buf()]);
    target.index = target.engine.index_after_restore(&target.key, forked, &super::roots(), &dir).await.unwrap();
    std::fs::write(restored.path().join("new"), "new").unwrap();
    let receipt = target.try_save(&dir).await.unwrap();
    assert!(receipt.new_bytes < 20_000, "{}", receipt.new_bytes);
    assert!(!objects(&target, "packs").await.is_empty());
    assert!(
        source.store.list(&toolcell_snapshot::ObjectPrefix::slot(&source.key), None, 99).await.unwrap().objects.len()
            > 2
    );
}
