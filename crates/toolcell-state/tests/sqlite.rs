//! State in SQLite: the suite of all stores, and what only files can do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

use async_trait::async_trait;
use rusqlite::Connection;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use toolcell_model::{CallRef, CallState, UnixMillis};
use toolcell_state::sqlite::FILE_NAME;
use toolcell_state::{CallFilter, Retry, SqliteStore, StateError, StateStore};
use toolcell_testkit::state::{Sample, StateHarness};
use toolcell_testkit::state_store_conformance;

struct Sqlite(TempDir);

#[async_trait]
impl StateHarness for Sqlite {
    async fn open(&self) -> Arc<dyn StateStore> {
        Arc::new(SqliteStore::open(self.0.path()).unwrap())
    }
}

state_store_conformance!(sqlite, Sqlite(tempfile::tempdir().unwrap()));

/// A store with one ended and one queued call, closed.
async fn closed() -> (TempDir, CallRef) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let batch = Sample::default().batch(&[("c1", json!("x".repeat(20_000))), ("c2", json!({ "a": [1, 2.5] }))]);
    let calls: Vec<_> = batch.calls.iter().map(|call| call.call_ref.clone()).collect();
    store.record_batch(batch).await.unwrap();
    assert!(store.finish(&calls[0], Sample::end(CallState::Succeeded, 5)).await.unwrap());
    (directory, calls[1].clone())
}

fn database(directory: &TempDir) -> PathBuf {
    directory.path().join(FILE_NAME)
}

fn change(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_newer_database_is_left_alone() {
    let (directory, _) = closed().await;
    change(&database(&directory), "PRAGMA user_version = 1000");
    let before = fs::read(database(&directory)).unwrap();
    let error = SqliteStore::open(directory.path()).unwrap_err();
    assert_eq!(error.retry(), Retry::Never);
    let text = error.to_string();
    assert!(matches!(error, StateError::NewerSchema { found: 1000, .. }), "{error:?}");
    assert!(text.contains("state.db has schema 1000, newer than"), "{text}");
    assert_eq!(fs::read(database(&directory)).unwrap(), before);
}

#[test]
fn a_database_of_something_else_is_left_alone() {
    for sql in ["CREATE TABLE theirs (a)", "PRAGMA application_id = 7", "PRAGMA user_version = 1; CREATE TABLE t (a)"] {
        let directory = tempfile::tempdir().unwrap();
        change(&database(&directory), sql);
        let before = fs::read(database(&directory)).unwrap();
        let error = SqliteStore::open(directory.path()).unwrap_err();
        assert!(matches!(error, StateError::Foreign { .. }), "{error:?}");
        assert_eq!(fs::read(database(&directory)).unwrap(), before);
    }
}

#[test]
fn what_is_no_database_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(database(&directory), "no database, but long enough to be taken for one".repeat(100)).unwrap();
    let error = SqliteStore::open(directory.path()).unwrap_err();
    assert!(matches!(error, StateError::Corrupt { .. }), "{error:?}");
    assert_eq!(error.retry(), Retry::Never);
    assert!(error.to_string().contains("state.db"), "{error}");
}

/// Bytes overwritten anywhere: every answer is the truth, or an error.
#[tokio::test]
async fn damage_anywhere_is_an_error_at_worst() {
    let (directory, call) = closed().await;
    let sound = fs::read(database(&directory)).unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let truth = store.call(&call).await.unwrap();
    drop(store);
    let (mut refused, mut random) = (0, 1_u64);
    for _ in 0..150 {
        // Knuth's multiplier: the same damage in every run.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (random >> 16) as usize % sound.len();
        let mut damaged = sound.clone();
        for byte in damaged.iter_mut().skip(at).take(64) {
            *byte ^= (random >> 8) as u8 | 1;
        }
        let directory = tempfile::tempdir().unwrap();
        fs::write(database(&directory), damaged).unwrap();
        let answers = async {
            let store = SqliteStore::open(directory.path())?;
            store.take_over_abandoned().await?;
            store.record_batch(Sample::default().one("new")).await?;
            store.calls(&CallFilter::of(Sample::default().context.tenant), None, 9).await?;
            store.expire(UnixMillis(9)).await?;
            store.call(&call).await
        };
        match answers.await {
            Ok(found) => assert!(found.is_none() || found.map(|call| call.id) == truth.clone().map(|call| call.id)),
            Err(error) => {
                refused += 1;
                assert!(!matches!(error, StateError::Internal { .. }), "{error:?}");
            }
        }
    }
    assert!(refused > 20, "the damage was noticed {refused} times only");
}

#[tokio::test]
async fn a_row_that_makes_no_sense_is_damage() {
    for sql in [
        "UPDATE calls SET state = 'strange'",
        "UPDATE calls SET owner = '../../etc/passwd'",
        "UPDATE calls SET tenant = ''",
        "UPDATE calls SET created_at = -1",
        "UPDATE inputs SET input = '{'",
        "UPDATE calls SET input_digest = x'00'",
    ] {
        let (directory, call) = closed().await;
        change(&database(&directory), sql);
        let store = SqliteStore::open(directory.path()).unwrap();
        let error = store.call(&call).await.unwrap_err();
        assert!(matches!(error, StateError::Corrupt { .. }), "{sql}: {error:?}");
    }
}

#[test]
fn a_directory_that_cannot_be_is_an_error_with_its_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = SqliteStore::open(file.path()).unwrap_err();
    assert_eq!(error.retry(), Retry::Later);
    assert!(error.to_string().contains(file.path().to_str().unwrap()), "{error}");
    // Nobody, root included, may make anything there.
    let error = SqliteStore::open(Path::new("/sys/kernel")).unwrap_err();
    assert!(matches!(error, StateError::ReadOnly { .. }), "{error:?}");
    assert!(error.to_string().contains("/sys/kernel"), "{error}");
}

#[test]
fn only_the_owner_may_read_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let mode = |name: &str| fs::metadata(directory.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(["state.db", "state.db-wal", "state.db-shm"].map(mode), [0o600; 3]);
    assert_eq!(mode("owners"), 0o700);
    assert_eq!(mode(&format!("owners/{}.lock", store.owner())), 0o600);
}

#[tokio::test]
async fn closing_leaves_the_database_alone_behind() {
    let (directory, _) = closed().await;
    let mut names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["owners", "state.db"]);
    assert_eq!(fs::read_dir(directory.path().join("owners")).unwrap().count(), 0);
}

#[test]
fn many_may_make_the_store_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let path = directory.path().to_owned();
            std::thread::spawn(move || SqliteStore::open(&path).unwrap().instance_id().clone())
        })
        .collect();
    let mut instances: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    instances.dedup();
    assert_eq!(instances.len(), 1, "{instances:?}");
}
