//! What only a store on a file system can get wrong.

use super::Slot;
use bytes::Bytes;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolcell_model::ScopeKey;
use toolcell_snapshot::{ErrorKind, LocalStore, ObjectName, ObjectPrefix, Retry, SnapshotError, SnapshotStore};
use toolcell_testkit::snapshot::{FixedClock, describe, many_files, noise};

fn everything_in(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path.clone());
            }
            found.push(path);
        }
    }
    found
}

fn temporaries(root: &Path) -> Vec<PathBuf> {
    everything_in(&root.join("tmp")).into_iter().filter(|path| path.is_file() && path.extension().is_none()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_can_read_it_and_nothing_is_left_over() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("snapshots");
    let store = Arc::new(LocalStore::open(&root).await.unwrap());
    assert_eq!(store.root(), root);
    let mut slot = Slot::with(store, FixedClock::far_ahead()).await;
    many_files(slot.path(), 10, 1000);
    let snapshot = slot.save().await.snapshot.unwrap();
    for path in everything_in(&root).into_iter().chain([root.clone()]) {
        let metadata = std::fs::metadata(&path).unwrap();
        let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.mode() & 0o777, wanted, "{}", path.display());
    }
    assert_eq!(temporaries(&root), Vec::<PathBuf>::new());
    assert_eq!(describe(slot.restore(snapshot).await.path()), describe(slot.path()));
    drop(slot);
    assert_eq!(std::fs::read_dir(root.join("tmp")).unwrap().count(), 0, "a store that is closed leaves nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crashed_process_left_is_removed_and_a_living_one_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("snapshots");
    let living = LocalStore::open(&root).await.unwrap();
    let of_the_living = everything_in(&root.join("tmp"));
    let crashed = root.join("tmp/0123456789abcdef");
    std::fs::create_dir(&crashed).unwrap();
    std::fs::write(crashed.join("0"), "half an object").unwrap();
    std::fs::write(crashed.with_extension("lock"), "").unwrap();
    let slot = ScopeKey::ephemeral().unwrap();
    let name = ObjectName::parse(format!("{slot}/packs/a")).unwrap();
    living.put_if_absent(&name, Bytes::from("before")).await.unwrap();

    let other = LocalStore::open(&root).await.unwrap();
    assert!(!crashed.exists() && !crashed.with_extension("lock").exists());
    assert!(of_the_living.iter().all(|path| path.exists()));
    let listed = other.list(&ObjectPrefix::all(), None, 10).await.unwrap().objects;
    assert_eq!(listed.into_iter().map(|object| object.name).collect::<Vec<_>>(), [name]);
    living.head_cas(&slot, None, Bytes::from("still works")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stray_files_are_no_objects() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path()).await.unwrap();
    let slot = ScopeKey::ephemeral().unwrap();
    let name = ObjectName::parse(format!("{slot}/packs/a")).unwrap();
    store.put_if_absent(&name, Bytes::from("x")).await.unwrap();
    let packs = dir.path().join("objects").join(slot.as_str()).join("packs");
    std::fs::write(packs.join(".hidden"), "").unwrap();
    std::fs::write(packs.join("UPPER"), "").unwrap();
    std::fs::write(dir.path().join("objects/lost+found"), "").unwrap();
    assert_eq!(store.list(&ObjectPrefix::all(), None, 10).await.unwrap().objects.len(), 1);
    // A link in an object's place is not followed.
    std::fs::write(dir.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(dir.path().join("secret"), packs.join("link")).unwrap();
    let link = ObjectName::parse(format!("{slot}/packs/link")).unwrap();
    assert_eq!(store.get(&link, 100).await.unwrap_err().kind(), ErrorKind::Denied);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_that_cannot_be_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = LocalStore::open(file.join("snapshots")).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Later));
    assert!(error.object().ends_with("file/snapshots"), "{error}");
}

/// A file system of its own; root is needed to mount it.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: u64) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let options = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", dir.path(), "tmpfs", flags, Some(options.as_c_str())).ok()?;
        Some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_no_space_and_leaves_the_old_head() {
    let Some(disk) = SmallDisk::mount(3 << 20) else {
        let needed = std::env::vars_os().any(|(name, _)| name == "CI");
        assert!(!needed, "mounting a small file system needs root");
        eprintln!("skipped: mounting a small file system needs root");
        return;
    };
    let root = disk.0.path().join("snapshots");
    let mut slot = Slot::with(Arc::new(LocalStore::open(&root).await.unwrap()), FixedClock::far_ahead()).await;
    std::fs::write(slot.path().join("small"), noise(1, 100_000)).unwrap();
    let first = slot.save().await;
    let before = (slot.engine.head(&slot.key).await.unwrap(), describe(slot.path()));
    let objects = async |slot: &Slot| slot.store.clone().list_all().await;
    let objects_before = objects(&slot).await;

    std::fs::write(slot.path().join("large"), noise(2, 4 << 20)).unwrap();
    let source = slot.source();
    let error = slot.try_save(&source).await.unwrap_err();
    assert!(matches!(error, SnapshotError::Store(_)), "{error:?}");
    assert_eq!((error.kind(), error.retry()), (ErrorKind::NoSpace, Retry::Later));
    assert_eq!(slot.engine.head(&slot.key).await.unwrap(), before.0);
    assert_eq!(objects(&slot).await, objects_before, "nothing half is visible");
    assert_eq!(temporaries(&root), Vec::<PathBuf>::new());
    assert_eq!(describe(slot.restore(first.snapshot.unwrap()).await.path()), before.1);

    std::fs::remove_file(slot.path().join("large")).unwrap();
    std::fs::write(slot.path().join("small"), "fits").unwrap();
    slot.save().await;
}

trait ListAll {
    async fn list_all(&self) -> Vec<ObjectName>;
}

impl<S: SnapshotStore> ListAll for Arc<S> {
    async fn list_all(&self) -> Vec<ObjectName> {
        let page = self.list(&ObjectPrefix::all(), None, 10_000).await.unwrap();
        page.objects.into_iter().map(|object| object.name).collect()
    }
}
