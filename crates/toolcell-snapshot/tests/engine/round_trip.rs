//! What goes in comes out.

use super::{Slot, files_read, roots, stamp};
use toolcell_model::TenantId;
use toolcell_snapshot::{RestoreError, SlotIndex, StoreKind};
use toolcell_testkit::snapshot::{DirSink, DirSource, backdate, describe, everything_tree, noise};

#[tokio::test(flavor = "multi_thread")]
async fn everything_comes_back_equal() {
    let mut slot = Slot::new().await;
    everything_tree(slot.path());
    let receipt = slot.save().await;
    let before = describe(slot.path());
    assert_eq!((receipt.specials_skipped, receipt.unchanged, receipt.store), (2, false, StoreKind::Memory));
    assert_eq!(receipt.files, before.values().filter(|facts| facts.kind == 'f').count() as u64);
    assert_eq!(receipt.dirs, before.values().filter(|facts| facts.kind == 'd').count() as u64);

    let target = tempfile::tempdir().unwrap();
    let restored = slot.try_restore(receipt.snapshot.unwrap(), target.path()).await.unwrap();
    let after = describe(target.path());
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (path, facts) in &before {
        assert_eq!(facts, &after[path], "{}", path.escape_ascii());
    }
    assert_eq!((restored.files, restored.dirs, restored.bytes), (receipt.files, receipt.dirs, receipt.bytes));
    assert_eq!((restored.specials_skipped, restored.roots_absent.len()), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_workspace_is_saved_without_reading_it() {
    let mut slot = Slot::new().await;
    everything_tree(slot.path());
    backdate(slot.path());
    let receipt = slot.save().await;
    let snapshot = receipt.snapshot.unwrap();
    let target = slot.restore(snapshot).await;

    let source = DirSource::new([target.path().to_path_buf()]);
    slot.index = slot.engine.index_after_restore(&slot.key, snapshot, &roots(), &source).await.unwrap();
    assert_eq!(slot.index.snapshot(), Some(snapshot));
    let again = slot.try_save(&source).await.unwrap();
    assert!(source.take_fetches().is_empty());
    assert!(again.unchanged);
    assert_eq!((again.snapshot, again.new_bytes, again.changed_files), (Some(snapshot), 0, 0));

    std::fs::write(target.path().join("plain.txt"), "other text, other size").unwrap();
    std::fs::write(target.path().join("links/b/third"), "all three names").unwrap();
    let changed = slot.try_save(&source).await.unwrap();
    let read = files_read(&source, target.path());
    assert_eq!(read.len(), 2, "{read:?}");
    let third = slot.restore(changed.snapshot.unwrap()).await;
    assert_eq!(describe(third.path()), describe(target.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_workspace_that_differs_is_read_where_it_does() {
    let mut slot = Slot::new().await;
    std::fs::write(slot.path().join("a"), "aaaa").unwrap();
    std::fs::write(slot.path().join("b"), "bbbb").unwrap();
    backdate(slot.path());
    let snapshot = slot.save().await.snapshot.unwrap();
    let target = slot.restore(snapshot).await;
    std::fs::write(target.path().join("a"), "AAAA").unwrap();
    let source = DirSource::new([target.path().to_path_buf()]);
    slot.index = slot.engine.index_after_restore(&slot.key, snapshot, &roots(), &source).await.unwrap();
    slot.try_save(&source).await.unwrap();
    assert_eq!(files_read(&source, target.path()), [target.path().join("a")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_stays_deleted_and_older_snapshots_stay_whole() {
    let mut slot = Slot::new().await;
    for name in ["keep", "delete", "dir/delete", "becomes-a-dir", "becomes-a-file/x"] {
        let path = slot.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    }
    let first = slot.save().await.snapshot.unwrap();
    let before = describe(slot.path());
    std::fs::remove_file(slot.path().join("delete")).unwrap();
    std::fs::remove_file(slot.path().join("dir/delete")).unwrap();
    std::fs::remove_file(slot.path().join("becomes-a-dir")).unwrap();
    std::fs::create_dir(slot.path().join("becomes-a-dir")).unwrap();
    std::fs::remove_dir_all(slot.path().join("becomes-a-file")).unwrap();
    std::fs::write(slot.path().join("becomes-a-file"), "now").unwrap();
    let second = slot.save().await.snapshot.unwrap();

    let restored = slot.restore(second).await;
    assert_eq!(describe(restored.path()), describe(slot.path()));
    assert!(!restored.path().join("delete").exists());
    assert_eq!(describe(slot.restore(first).await.path()), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_workspace_is_a_snapshot_too() {
    let mut slot = Slot::new().await;
    let receipt = slot.save().await;
    assert!(!receipt.unchanged);
    assert_eq!((receipt.files, receipt.dirs), (0, 1));
    let restored = slot.restore(receipt.snapshot.unwrap()).await;
    assert_eq!(describe(restored.path()), describe(slot.path()));
    assert!(slot.save().await.unchanged);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_directories_and_long_lists_of_extents_come_back() {
    let mut slot = Slot::new().await;
    let many = slot.path().join("many");
    std::fs::create_dir(&many).unwrap();
    for at in 0..800 {
        std::fs::write(many.join(format!("name-{at}")), format!("{}", at % 7)).unwrap();
    }
    // More extents than a directory's entry holds.
    let file = std::fs::File::create(slot.path().join("holes")).unwrap();
    for at in 0..200u64 {
        std::os::unix::fs::FileExt::write_all_at(&file, &noise(at % 50, 3000), at * 65_536).unwrap();
    }
    file.set_len(200 * 65_536).unwrap();
    backdate(slot.path());
    let snapshot = slot.save().await.snapshot.unwrap();
    let before = describe(slot.path());
    assert_eq!(before[&b"holes"[..]].data.len(), 200);
    let restored = slot.restore(snapshot).await;
    assert_eq!(describe(restored.path()), before);

    let source = DirSource::new([restored.path().to_path_buf()]);
    slot.index = slot.engine.index_after_restore(&slot.key, snapshot, &roots(), &source).await.unwrap();
    assert!(slot.try_save(&source).await.unwrap().unchanged);
    assert!(source.take_fetches().is_empty());
    // One entry more disturbs one part of the directory.
    std::fs::write(restored.path().join("many/new"), "new").unwrap();
    let receipt = slot.try_save(&source).await.unwrap();
    assert!(receipt.new_bytes < 80_000, "{}", receipt.new_bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn roots_that_are_not_named_are_carried_over() {
    let mut slot = Slot::new().await;
    let [work, home]: [tempfile::TempDir; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    std::fs::write(work.path().join("w"), "work").unwrap();
    std::fs::write(home.path().join("h"), noise(1, 200_000)).unwrap();
    let names = |roots: &[&str]| roots.iter().map(|root| (*root).to_owned()).collect::<Vec<_>>();
    let both = names(&["/workspace", "/home/agent"]);
    let source = DirSource::new([work.path().to_path_buf(), home.path().to_path_buf()]);
    let saved = slot.engine.snapshot(&mut slot.writer, &mut slot.index, &source, &both, "one").await.unwrap();
    assert_eq!(saved.files, 2);

    std::fs::write(work.path().join("w"), "more work").unwrap();
    std::fs::remove_file(home.path().join("h")).unwrap();
    for round in 0..3 {
        std::fs::write(work.path().join("round"), [round]).unwrap();
        let source = DirSource::new([work.path().to_path_buf()]);
        let work_only = names(&["/workspace"]);
        let saved = slot.engine.snapshot(&mut slot.writer, &mut slot.index, &source, &work_only, "two").await.unwrap();
        assert_eq!(saved.files, 3, "the carried root counts");
        if round == 1 {
            slot.index = SlotIndex::empty();
        }
    }
    let [work_again, home_again]: [tempfile::TempDir; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let reversed = names(&["/home/agent", "/opt/none", "/workspace"]);
    let nowhere = tempfile::tempdir().unwrap();
    let sink = DirSink::new([&home_again, &nowhere, &work_again].map(|dir| dir.path().to_path_buf()));
    let restored = slot.engine.restore(&slot.key, slot.writer.snapshot().unwrap(), &reversed, &sink).await.unwrap();
    assert_eq!(restored.roots_absent, names(&["/opt/none"]));
    assert_eq!(describe(work_again.path()), describe(work.path()));
    assert!(std::fs::read(home_again.path().join("h")).unwrap() == noise(1, 200_000));
    assert_eq!(std::fs::read_dir(nowhere.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_keeps_nothing_says_so_and_still_fences() {
    let mut slot =
        Slot::with(std::sync::Arc::new(toolcell_snapshot::NoneStore::new()), super::FixedClock::behind()).await;
    assert!(slot.engine.keeps_nothing());
    std::fs::write(slot.path().join("a"), "a").unwrap();
    let source = slot.source();
    let receipt = slot.try_save(&source).await.unwrap();
    assert_eq!((receipt.store, receipt.snapshot, receipt.files), (StoreKind::None, None, 0));
    assert!(source.take_fetches().is_empty());
    // The floor is of heads that died with another process.
    let acquisition = toolcell_model::Acquisition::generate().unwrap();
    let (tenant, floor) = (TenantId::default_tenant(), Some(toolcell_model::Generation(70)));
    let token = toolcell_model::FencingToken(1);
    let held = slot.engine.stamp(&tenant, &slot.key, token, acquisition, floor).await.unwrap_err();
    assert!(matches!(held, toolcell_snapshot::StampError::Fenced { .. }), "{held}");
    let id = toolcell_model::SnapshotId::from_bytes([1; 16]);
    let missing = slot.try_restore(id, slot.path()).await.unwrap_err();
    assert!(matches!(missing, RestoreError::NoSnapshot { snapshot } if snapshot == id));
    slot.engine.tombstone(&mut slot.writer).await.unwrap();
    stamp(&slot.engine, &slot.key, 2).await;
}

#[test]
fn operations_can_be_spawned() {
    fn send<T: Send>(_: &T) {}
    fn check(mut slot: Slot, source: DirSource, sink: DirSink) {
        let snapshot = toolcell_model::SnapshotId::from_bytes([0; 16]);
        send(&slot.engine.restore(&slot.key, snapshot, &[], &sink));
        send(&slot.engine.index_after_restore(&slot.key, snapshot, &[], &source));
        send(&slot.engine.snapshot(&mut slot.writer, &mut slot.index, &source, &[], ""));
        send(&slot.engine.tombstone(&mut slot.writer));
    }
    let _: fn(Slot, DirSource, DirSink) = check;
}
