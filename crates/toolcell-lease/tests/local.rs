//! The local guard: the suite of all guards, and what only files can do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

use async_trait::async_trait;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use toolcell_lease::{ExecutionGuard, GuardOpenError, LeaseError, LocalGuard, Retry};
use toolcell_model::{FencingToken, ScopeKey, SystemClock};
use toolcell_testkit::guard_conformance;
use toolcell_testkit::lease::GuardHarness;

const NO_FLOOR: FencingToken = FencingToken(0);
const NOW: Duration = Duration::ZERO;

struct Local(TempDir);

#[async_trait]
impl GuardHarness for Local {
    async fn guard(&self) -> Arc<dyn ExecutionGuard> {
        Arc::new(open(self.0.path()))
    }
}

guard_conformance!(local, Local(tempfile::tempdir().unwrap()));

fn open(data_dir: &Path) -> LocalGuard {
    LocalGuard::open(data_dir, Arc::new(SystemClock)).unwrap()
}

fn fixture() -> (TempDir, LocalGuard, ScopeKey, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let (guard, key) = (open(directory.path()), ScopeKey::ephemeral().unwrap());
    let file = directory.path().join("locks").join(format!("{key}.lock"));
    (directory, guard, key, file)
}

async fn take(guard: &LocalGuard, key: &ScopeKey, floor: u64) -> Result<FencingToken, LeaseError> {
    let lease = guard.acquire(key, FencingToken(floor), NOW).await?;
    let token = lease.token();
    lease.release().await?;
    Ok(token)
}

#[tokio::test]
async fn a_damaged_record_needs_a_floor() {
    let (_directory, guard, key, file) = fixture();
    for damage in [&b"not a record"[..], &[0xff; 1024], &[b' '; 4096]] {
        fs::write(&file, damage).unwrap();
        let error = take(&guard, &key, 0).await.unwrap_err();
        assert_eq!(error.retry(), Retry::Never);
        assert!(matches!(&error, LeaseError::Corrupt { path, .. } if *path == file), "{error:?}");
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
        assert_eq!(fs::read(&file).unwrap(), damage, "evidence is kept");
        assert_eq!(take(&guard, &key, 9).await.unwrap(), FencingToken(10));
        assert_eq!(take(&guard, &key, 0).await.unwrap(), FencingToken(11));
    }
}

#[tokio::test]
async fn an_empty_or_missing_record_starts_at_the_floor() {
    let (_directory, guard, key, file) = fixture();
    assert_eq!(take(&guard, &key, 0).await.unwrap(), FencingToken(1));
    fs::write(&file, b"").unwrap();
    assert_eq!(take(&guard, &key, 5).await.unwrap(), FencingToken(6));
    fs::remove_file(&file).unwrap();
    assert_eq!(take(&guard, &key, 6).await.unwrap(), FencingToken(7));
}

#[tokio::test]
async fn a_damaged_record_cannot_be_resumed() {
    let (_directory, guard, key, file) = fixture();
    let lease = guard.acquire(&key, NO_FLOOR, NOW).await.unwrap();
    let (token, acquisition) = (lease.token(), lease.acquisition());
    drop(lease);
    fs::write(&file, b"?").unwrap();
    let error = guard.resume(&key, token, acquisition).await.unwrap_err();
    assert!(matches!(error, LeaseError::Corrupt { .. }), "{error:?}");
}

#[tokio::test]
async fn what_is_still_held_cannot_be_resumed() {
    let (directory, guard, key, _file) = fixture();
    let other = open(directory.path());
    let lease = guard.acquire(&key, NO_FLOOR, NOW).await.unwrap();
    for resuming in [&guard, &other] {
        let error = resuming.resume(&key, lease.token(), lease.acquisition()).await.unwrap_err();
        assert!(matches!(error, LeaseError::Busy { holder: Some(_), .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_release_can_be_resumed_while_nobody_else_came() {
    let (_directory, guard, key, _file) = fixture();
    let lease = guard.acquire(&key, NO_FLOOR, NOW).await.unwrap();
    let (token, acquisition) = (lease.token(), lease.acquisition());
    lease.release().await.unwrap();
    assert_eq!(guard.resume(&key, token, acquisition).await.unwrap().token(), token);
}

#[tokio::test]
async fn a_waiter_of_a_retired_slot_gets_a_new_file() {
    let (directory, guard, key, file) = fixture();
    let other = open(directory.path());
    let lease = guard.acquire(&key, FencingToken(70), NOW).await.unwrap();
    let inode = fs::metadata(&file).unwrap().ino();
    // Keeps the number from being given to the new file.
    let _kept = fs::File::open(&file).unwrap();
    let (waited, retired) = tokio::join!(other.acquire(&key, NO_FLOOR, Duration::from_secs(20)), lease.retire());
    retired.unwrap();
    let lease = waited.unwrap();
    assert_ne!(fs::metadata(&file).unwrap().ino(), inode);
    assert_eq!(lease.token(), FencingToken(1));
    let busy = guard.acquire(&key, NO_FLOOR, NOW).await;
    assert!(matches!(busy, Err(LeaseError::Busy { .. })), "{busy:?}");
}

#[tokio::test]
async fn only_the_owner_may_read_the_files() {
    let (directory, guard, key, file) = fixture();
    take(&guard, &key, 0).await.unwrap();
    assert_eq!(fs::metadata(directory.path().join("locks")).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn no_link_is_followed_and_nothing_but_a_file_is_locked() {
    let (directory, guard, key, file) = fixture();
    let target = directory.path().join("target");
    fs::write(&target, b"precious").unwrap();
    symlink(&target, &file).unwrap();
    let error = take(&guard, &key, 3).await.unwrap_err();
    assert!(matches!(error, LeaseError::Unavailable { .. }), "{error:?}");
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let error = take(&guard, &key, 3).await.unwrap_err();
    assert!(matches!(error, LeaseError::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_vanished_directory_is_unavailable_and_comes_back() {
    let (directory, guard, key, _file) = fixture();
    let locks = directory.path().join("locks");
    fs::remove_dir(&locks).unwrap();
    let error = take(&guard, &key, 0).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Later);
    assert!(matches!(error, LeaseError::Unavailable { .. }), "{error:?}");
    fs::create_dir(&locks).unwrap();
    assert_eq!(take(&guard, &key, 0).await.unwrap(), FencingToken(1));
}

#[test]
fn a_data_directory_that_cannot_be_is_an_error_with_its_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = LocalGuard::open(file.path(), Arc::new(SystemClock)).unwrap_err();
    assert!(matches!(&error, GuardOpenError::Io { path, .. } if *path == file.path().join("locks")), "{error:?}");
    // No host locks files on a file system that holds none.
    let error = LocalGuard::open(Path::new("/proc/self"), Arc::new(SystemClock)).unwrap_err();
    assert!(matches!(error, GuardOpenError::Io { .. }), "{error:?}");
}
