//! Only what has changed is read and written.

use super::{Slot, files_read, roots, stamp};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use toolcell_snapshot::{MemoryStore, SlotIndex};
use toolcell_testkit::snapshot::{DirSource, FixedClock, backdate, describe, many_files, noise};

#[tokio::test(flavor = "multi_thread")]
async fn one_changed_file_of_two_thousand() {
    let mut slot = Slot::new().await;
    many_files(slot.path(), 2000, 4096);
    let first = slot.save().await;
    assert_eq!((first.changed_files, first.files), (2000, 2000));
    assert!(first.new_bytes > 2000 * 4096);

    let source = slot.source();
    let unchanged = slot.try_save(&source).await.unwrap();
    assert!(unchanged.unchanged);
    assert_eq!((unchanged.snapshot, unchanged.generation), (first.snapshot, first.generation));
    assert_eq!((unchanged.new_bytes, unchanged.files), (0, 2000));
    assert!(source.take_fetches().is_empty(), "nothing had changed");

    let changed = slot.path().join("dir-007/file-00712");
    std::fs::write(&changed, noise(77, 4096)).unwrap();
    let second = slot.try_save(&source).await.unwrap();
    assert_eq!(files_read(&source, slot.path()), [changed]);
    assert_eq!(second.changed_files, 1);
    assert!(second.new_bytes * 100 < first.new_bytes, "{} of {}", second.new_bytes, first.new_bytes);
    assert_eq!(describe(slot.restore(second.snapshot.unwrap()).await.path()), describe(slot.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_page_and_an_insertion_in_a_large_file() {
    let mut slot = Slot::new().await;
    let path = slot.path().join("large");
    let mut content = noise(9, 24 << 20);
    std::fs::write(&path, &content).unwrap();
    let first = slot.save().await;
    assert!(first.new_bytes > 24 << 20);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&noise(10, 4096), 12 << 20).unwrap();
    let page = slot.save().await;
    assert!(page.new_bytes < 8 << 20, "a page: {}", page.new_bytes);
    content.splice(1_000_000..1_000_000, noise(11, 333));
    content[(12 << 20) + 333..(12 << 20) + 333 + 4096].copy_from_slice(&noise(10, 4096));
    std::fs::write(&path, &content).unwrap();
    let inserted = slot.save().await;
    assert!(inserted.new_bytes < 10 << 20, "an insertion: {}", inserted.new_bytes);
    let restored = slot.restore(inserted.snapshot.unwrap()).await;
    assert!(std::fs::read(restored.path().join("large")).unwrap() == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_alone_reads_and_writes_little() {
    use std::os::unix::fs::PermissionsExt;
    let mut slot = Slot::new().await;
    std::fs::write(slot.path().join("a"), noise(1, 500_000)).unwrap();
    slot.save().await;
    std::fs::set_permissions(slot.path().join("a"), std::fs::Permissions::from_mode(0o711)).unwrap();
    let receipt = slot.save().await;
    assert!(!receipt.unchanged && receipt.new_bytes < 5000, "{}", receipt.new_bytes);
    assert_eq!(describe(slot.restore(receipt.snapshot.unwrap()).await.path()), describe(slot.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_directory_is_not_read_again() {
    let mut slot = Slot::new().await;
    many_files(&slot.path().join("old"), 50, 1000);
    slot.save().await;
    std::fs::rename(slot.path().join("old"), slot.path().join("new")).unwrap();
    let source = slot.source();
    let receipt = slot.try_save(&source).await.unwrap();
    assert_eq!(files_read(&source, slot.path()), Vec::<std::path::PathBuf>::new());
    assert!(receipt.new_bytes < 5000, "{}", receipt.new_bytes);
    assert_eq!(describe(slot.restore(receipt.snapshot.unwrap()).await.path()), describe(slot.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_survives_on_disk_and_a_damaged_one_is_empty() {
    let mut slot = Slot::new().await;
    many_files(slot.path(), 20, 100);
    let snapshot = slot.save().await.snapshot;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("index");
    slot.index.save(&file).await.unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    slot.index.save(&file).await.unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");

    slot.index = SlotIndex::load(&file).await;
    assert_eq!(slot.index.snapshot(), snapshot);
    let source = slot.source();
    assert!(slot.try_save(&source).await.unwrap().unchanged);
    assert!(source.take_fetches().is_empty());

    let intact = std::fs::read(&file).unwrap();
    for at in [0, 7, intact.len() / 2, intact.len() - 1] {
        let mut damaged = intact.clone();
        damaged[at] ^= 1;
        std::fs::write(&file, damaged).unwrap();
        assert_eq!(SlotIndex::load(&file).await.snapshot(), None, "byte {at}");
    }
    std::fs::write(&file, &intact[..intact.len() - 1]).unwrap();
    assert_eq!(SlotIndex::load(&file).await.snapshot(), None);
    assert_eq!(SlotIndex::load(&dir.path().join("absent")).await.snapshot(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_or_foreign_index_costs_reading_and_nothing_else() {
    let mut slot = Slot::new().await;
    many_files(slot.path(), 30, 2000);
    let first = slot.save().await;
    let old_index = slot.index.clone();
    std::fs::write(slot.path().join("dir-000/file-00003"), "changed").unwrap();
    let second = slot.save().await;
    for index in [SlotIndex::empty(), old_index] {
        slot.index = index;
        let source = slot.source();
        let receipt = slot.try_save(&source).await.unwrap();
        assert!(receipt.unchanged, "what is there is found to be there");
        assert_eq!((receipt.snapshot, receipt.new_bytes), (second.snapshot, 0));
        assert_eq!(files_read(&source, slot.path()).len(), 30);
        assert_eq!(slot.index.snapshot(), second.snapshot);
    }
    assert_ne!(first.snapshot, second.snapshot);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_has_just_changed_is_read_again() {
    let mut slot = Slot::with(Arc::new(MemoryStore::new()), FixedClock::behind()).await;
    std::fs::write(slot.path().join("a"), "a").unwrap();
    slot.save().await;
    let source = slot.source();
    let receipt = slot.try_save(&source).await.unwrap();
    assert_eq!(files_read(&source, slot.path()), [slot.path().join("a")], "its times prove nothing yet");
    assert!(receipt.unchanged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_while_it_is_read() {
    for (changes, unstable) in [(1, 0), (2, 0), (1000, 1)] {
        let mut slot = Slot::new().await;
        let path = slot.path().join("busy");
        std::fs::write(&path, "0").unwrap();
        std::fs::write(slot.path().join("calm"), "calm").unwrap();
        let (count, busy) = (AtomicU32::new(0), path.clone());
        let source = slot.source().before_fetch(move |request| {
            let at = count.load(Ordering::SeqCst);
            if request.path == b"busy" && at < changes {
                count.fetch_add(1, Ordering::SeqCst);
                std::fs::write(&busy, "x".repeat(at as usize + 2)).unwrap();
            }
        });
        let receipt = slot.try_save(&source).await.unwrap();
        assert_eq!(receipt.files_unstable, unstable, "{changes} changes");
        let named = if unstable > 0 { vec!["/workspace/busy".to_owned()] } else { vec![] };
        assert_eq!(receipt.unstable_paths, named);
        let restored = slot.restore(receipt.snapshot.unwrap()).await;
        assert_eq!(std::fs::read(restored.path().join("busy")).unwrap(), std::fs::read(&path).unwrap());
        // One that was taken as read is looked at again.
        let source = slot.source();
        slot.try_save(&source).await.unwrap();
        assert_eq!(files_read(&source, slot.path()).len() as u64, unstable);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_file_that_becomes_large_while_it_is_read() {
    let mut slot = Slot::new().await;
    let path = slot.path().join("growing");
    std::fs::write(&path, "small").unwrap();
    let grown = noise(4, 6 << 20);
    let (once, target, content) = (AtomicU32::new(0), path.clone(), grown.clone());
    let source = slot.source().before_fetch(move |request| {
        if request.path == b"growing" && once.fetch_add(1, Ordering::SeqCst) == 0 {
            std::fs::write(&target, &content).unwrap();
        }
    });
    let receipt = slot.try_save(&source).await.unwrap();
    assert_eq!(receipt.files_unstable, 0);
    let restored = slot.restore(receipt.snapshot.unwrap()).await;
    assert!(std::fs::read(restored.path().join("growing")).unwrap() == grown);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_disappears_during_the_scan_is_left_out() {
    let mut slot = Slot::new().await;
    for name in ["gone", "stays", "dir/below", "link-1"] {
        let path = slot.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    }
    std::fs::hard_link(slot.path().join("link-1"), slot.path().join("link-2")).unwrap();
    std::fs::hard_link(slot.path().join("link-1"), slot.path().join("link-3")).unwrap();
    let root = slot.path().to_path_buf();
    let source = slot.source().before_fetch(move |request| match &request.path[..] {
        b"gone" | b"link-1" => drop(std::fs::remove_file(root.join(std::str::from_utf8(&request.path).unwrap()))),
        b"dir" | b"dir/below" => drop(std::fs::remove_dir_all(root.join("dir"))),
        _ => {}
    });
    let receipt = slot.try_save(&source).await.unwrap();
    assert_eq!(receipt.files, 3);
    let restored = slot.restore(receipt.snapshot.unwrap()).await;
    let names: Vec<_> = describe(restored.path()).into_keys().collect();
    assert_eq!(names, [&b""[..], b"link-2", b"link-3", b"stays"]);
    assert_eq!(std::fs::metadata(restored.path().join("link-2")).unwrap().nlink(), 2);
    assert_eq!(std::fs::read(restored.path().join("link-3")).unwrap(), b"link-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_one_file_come_and_go() {
    let mut slot = Slot::new().await;
    std::fs::write(slot.path().join("b"), "shared").unwrap();
    std::fs::hard_link(slot.path().join("b"), slot.path().join("c")).unwrap();
    let check = async |slot: &Slot| {
        let restored = slot.restore(slot.writer.snapshot().unwrap()).await;
        assert_eq!(describe(restored.path()), describe(slot.path()));
    };
    slot.save().await;
    check(&slot).await;
    std::fs::hard_link(slot.path().join("b"), slot.path().join("a")).unwrap();
    slot.save().await;
    check(&slot).await;
    std::fs::remove_file(slot.path().join("a")).unwrap();
    std::fs::remove_file(slot.path().join("b")).unwrap();
    slot.save().await;
    check(&slot).await;
    assert!(slot.save().await.unchanged);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_holder_goes_on_from_the_snapshot() {
    let mut slot = Slot::new().await;
    many_files(slot.path(), 20, 1000);
    backdate(slot.path());
    let snapshot = slot.save().await.snapshot.unwrap();
    slot.writer = stamp(&slot.engine, &slot.key, 2).await;
    assert_eq!(slot.writer.snapshot(), Some(snapshot));
    let target = slot.restore(snapshot).await;
    let source = DirSource::new([target.path().to_path_buf()]);
    slot.index = slot.engine.index_after_restore(&slot.key, snapshot, &roots(), &source).await.unwrap();
    std::fs::write(target.path().join("dir-000/new"), "new").unwrap();
    let receipt = slot.try_save(&source).await.unwrap();
    assert_eq!((receipt.changed_files, receipt.files), (1, 21));
    assert!(receipt.new_bytes < 5000, "{}", receipt.new_bytes);
}
