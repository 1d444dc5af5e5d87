//! What is known about older snapshots, and going back to them.

use super::{Slot, stamp};
use std::sync::Mutex;
use toolcell_model::SnapshotId;
use toolcell_snapshot::{
    ErrorKind, MAX_OBJECT_BYTES, NoProgress, ObjectName, Phase, Progress, RecommitError, SlotIndex, SnapshotStore,
};
use toolcell_testkit::snapshot::{Fault, Operation, describe, noise};

/// Takes a snapshot with other content.
pub(super) async fn save_text(slot: &mut Slot, text: &str) -> SnapshotId {
    std::fs::write(slot.path().join("file"), text).unwrap();
    slot.save().await.snapshot.unwrap()
}

pub(super) async fn text(slot: &Slot, snapshot: SnapshotId) -> String {
    std::fs::read_to_string(slot.restore(snapshot).await.path().join("file")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_the_heads_ancestry_newest_first() {
    let mut slot = Slot::new().await;
    assert!(slot.engine.history(&slot.key).await.unwrap().is_empty());
    let mut taken = Vec::new();
    for round in 0..5 {
        taken.push(save_text(&mut slot, &format!("text {round}")).await);
    }
    // One that is whole and never became the head.
    slot.store.fail_at(Operation::HeadCas, 0, Fault::Fails);
    std::fs::write(slot.path().join("file"), "never").unwrap();
    let source = slot.source();
    slot.try_save(&source).await.unwrap_err();

    let history = slot.engine.history(&slot.key).await.unwrap();
    assert_eq!(history.iter().rev().map(|info| info.snapshot).collect::<Vec<_>>(), taken);
    assert_eq!(history[0].parent, Some(taken[3]));
    assert_eq!(history[4].parent, None);
    assert_eq!((history[0].files, history[0].dirs, history[0].bytes), (1, 1, 6));
    assert!(history.iter().all(|info| info.new_bytes > 0 && info.roots == ["/workspace"]));
    assert!(history.windows(2).all(|pair| pair[0].generation > pair[1].generation));
    assert_eq!(slot.engine.snapshot_info(&slot.key, taken[2]).await.unwrap(), history[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn restoring_an_older_one_is_a_new_commit() {
    let mut slot = Slot::new().await;
    let first = save_text(&mut slot, "first").await;
    let second = save_text(&mut slot, "second").await;
    let receipt = slot.engine.recommit(&mut slot.writer, &mut slot.index, first).await.unwrap();
    let third = receipt.snapshot.unwrap();
    assert!(third != first && !receipt.unchanged && receipt.files == 1);
    assert_eq!(slot.engine.head(&slot.key).await.unwrap().unwrap().snapshot, Some(third));
    assert_eq!(text(&slot, third).await, "first");
    let history: Vec<_> = slot.engine.history(&slot.key).await.unwrap().iter().map(|info| info.snapshot).collect();
    assert_eq!(history, [third, second, first]);
    assert_eq!(pins(&slot).await, 0, "the pin is gone again");
    // The next snapshot builds on it.
    let fourth = save_text(&mut slot, "fourth").await;
    assert_eq!(slot.engine.snapshot_info(&slot.key, fourth).await.unwrap().parent, Some(third));
    assert!(slot.engine.recommit(&mut slot.writer, &mut slot.index, fourth).await.unwrap().unchanged);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_was_the_head_is_not_made_it() {
    let mut slot = Slot::new().await;
    save_text(&mut slot, "first").await;
    slot.store.fail_at(Operation::HeadCas, 0, Fault::Fails);
    std::fs::write(slot.path().join("file"), "never").unwrap();
    let source = slot.source();
    slot.try_save(&source).await.unwrap_err();
    let known = slot.engine.history(&slot.key).await.unwrap();
    let prefix = toolcell_snapshot::ObjectPrefix::parse(format!("{}/manifests/", slot.key)).unwrap();
    let listed = slot.store.list(&prefix, None, 10).await.unwrap().objects;
    let ids = listed.iter().map(|object| {
        let leaf = object.name.as_str().rsplit('/').next().unwrap();
        SnapshotId::from_bytes(std::array::from_fn(|at| u8::from_str_radix(&leaf[at * 2..at * 2 + 2], 16).unwrap()))
    });
    let garbage = ids.into_iter().find(|id| known.iter().all(|info| info.snapshot != *id)).unwrap();
    let error = slot.engine.recommit(&mut slot.writer, &mut slot.index, garbage).await.unwrap_err();
    assert!(matches!(error, RecommitError::NotInHistory { snapshot } if snapshot == garbage), "{error}");
    let nowhere = SnapshotId::from_bytes([7; 16]);
    let error = slot.engine.recommit(&mut slot.writer, &mut slot.index, nowhere).await.unwrap_err();
    assert!(matches!(error, RecommitError::NoSnapshot { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_that_can_be_restored_is_offered() {
    let mut slot = Slot::new().await;
    let first = save_text(&mut slot, "first").await;
    let second = save_text(&mut slot, "second").await;
    assert_eq!(slot.engine.newest_restorable(&slot.key, &NoProgress).await.unwrap().unwrap().snapshot, first);
    let third = save_text(&mut slot, "third").await;
    // The head's manifest is lost, and the pack that the second one added.
    let second_packs = slot.engine.packs_of(&slot.key, second).await.unwrap();
    let first_packs = slot.engine.packs_of(&slot.key, first).await.unwrap();
    delete(&slot, &manifest_name(&slot, third)).await;
    for pack in second_packs.iter().filter(|pack| !first_packs.contains(pack)) {
        delete(&slot, pack).await;
    }
    let offered = slot.engine.newest_restorable(&slot.key, &NoProgress).await.unwrap().unwrap();
    assert_eq!(offered.snapshot, first);
    // And can be taken.
    slot.index = SlotIndex::empty();
    let receipt = slot.engine.recommit(&mut slot.writer, &mut slot.index, first).await.unwrap();
    assert_eq!(text(&slot, receipt.snapshot.unwrap()).await, "first");
}

pub(super) fn manifest_name(slot: &Slot, snapshot: SnapshotId) -> ObjectName {
    let leaf: String = snapshot.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    ObjectName::parse(format!("{}/manifests/{leaf}", slot.key)).unwrap()
}

pub(super) async fn delete(slot: &Slot, name: &ObjectName) {
    slot.store.get(name, MAX_OBJECT_BYTES).await.unwrap();
    slot.store.delete(name).await.unwrap();
}

pub(super) async fn pins(slot: &Slot) -> usize {
    let prefix = toolcell_snapshot::ObjectPrefix::parse(format!("{}/pins/", slot.key)).unwrap();
    slot.store.list(&prefix, None, 100).await.unwrap().objects.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_names_what_is_wrong_and_whom_it_hurts() {
    let mut slot = Slot::new().await;
    std::fs::write(slot.path().join("large"), noise(1, 3 << 20)).unwrap();
    let first = save_text(&mut slot, "first").await;
    let second = save_text(&mut slot, "second").await;
    let report = slot.engine.verify(&slot.key, None, &NoProgress).await.unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.snapshots, report.packs), (2, 2));
    assert!(report.blobs >= 6 && report.bytes > 3 << 20);

    let shared = slot.engine.packs_of(&slot.key, first).await.unwrap().remove(0);
    let intact = slot.store.get(&shared, MAX_OBJECT_BYTES).await.unwrap();
    let mut damaged = intact.to_vec();
    damaged[1000] ^= 1;
    delete(&slot, &shared).await;
    for (kind, bytes) in [(ErrorKind::NotFound, None), (ErrorKind::Corrupt, Some(damaged))] {
        if let Some(bytes) = bytes {
            slot.store.put_if_absent(&shared, bytes.into()).await.unwrap();
        }
        let report = slot.engine.verify(&slot.key, None, &NoProgress).await.unwrap();
        assert_eq!(report.problems.len(), 1, "{report:?}");
        let problem = &report.problems[0];
        assert_eq!((problem.kind, problem.object.as_str()), (kind, shared.as_str()));
        assert_eq!(problem.snapshots, [second, first]);
    }
    delete(&slot, &manifest_name(&slot, second)).await;
    let report = slot.engine.verify(&slot.key, Some(second), &NoProgress).await.unwrap();
    assert_eq!(report.problems[0].object, manifest_name(&slot, second).as_str());
    assert_eq!(pins(&slot).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_grows_to_its_totals() {
    let mut slot = Slot::new().await;
    for at in 0..20 {
        std::fs::write(slot.path().join(format!("f{at}")), noise(at, 1000)).unwrap();
    }
    let seen = Mutex::new(Vec::<Progress>::new());
    let sink = |progress| seen.lock().unwrap().push(progress);
    let source = slot.source();
    let roots = super::roots();
    let taken = slot.engine.snapshot_with(&mut slot.writer, &mut slot.index, &source, &roots, "", &sink).await.unwrap();
    let reports = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(reports[0].phase, Phase::Scan);
    assert!(reports.iter().any(|progress| progress.phase == Phase::Read && progress.bytes == 20_000));
    assert_eq!(reports.last().unwrap().phase, Phase::Commit);

    let target = tempfile::tempdir().unwrap();
    let dir = toolcell_testkit::snapshot::DirSink::new([target.path().to_path_buf()]);
    slot.engine.restore_pinned(&slot.key, taken.snapshot.unwrap(), &roots, &dir, &sink).await.unwrap();
    let last = *seen.lock().unwrap().last().unwrap();
    assert_eq!((last.files, last.bytes), (last.total_files.unwrap(), last.total_bytes.unwrap()));
    assert_eq!(describe(target.path()), describe(slot.path()));
    assert_eq!(pins(&slot).await, 0);
    drop(stamp(&slot.engine, &slot.key, 2).await);
}
