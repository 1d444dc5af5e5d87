//! What can only be provoked from inside.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

use super::connection::{Writer, map};
use super::schema::migrate_with;
use super::*;
use crate::records::NewCall;
use crate::{Retry, canonical_json_digest};
use serde_json::json;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;
use toolcell_model::{AgentName, CallContext, CallId, TenantId, ToolName};

fn store() -> (TempDir, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    (directory, store)
}

fn batch(id: &str, bytes: usize) -> NewBatch {
    let input = json!("x".repeat(bytes));
    let call = NewCall {
        id: CallId::parse(id).unwrap(),
        call_ref: CallRef::generate(),
        tool: ToolName::parse("execute").unwrap(),
        input_digest: canonical_json_digest(&input),
        input,
    };
    let (tenant, agent) = (TenantId::default_tenant(), AgentName::parse("coder").unwrap());
    let context = CallContext { tenant, agent, session: None, user: None };
    NewBatch { batch: BatchId::generate(), context, calls: vec![call], now: UnixMillis(1) }
}

fn pragma(store: &SqliteStore, name: &str, value: i64) {
    // Some of them answer with a row, some do not.
    let sql = format!("PRAGMA {name} = {value}");
    store.writer.with(|connection| Ok(connection.query_row(&sql, [], |_| Ok(())).is_ok())).unwrap();
}

fn execute(writer: &Writer, sql: &str) {
    writer.with(|connection| connection.execute_batch(sql).map_err(|error| map(error, sql))).unwrap();
}

#[tokio::test]
async fn a_full_disk_is_said_to_be_full_and_keeps_what_it_had() {
    let (_directory, store) = store();
    let kept = batch("kept", 10);
    store.record_batch(kept.clone()).await.unwrap();
    pragma(&store, "max_page_count", 1);
    let refused = batch("refused", 1_000_000);
    let error = store.record_batch(refused.clone()).await.unwrap_err();
    assert!(matches!(error, StateError::NoSpace { .. }), "{error:?}");
    assert_eq!(error.retry(), Retry::Later);
    assert_eq!(store.call(&refused.calls[0].call_ref).await.unwrap(), None);
    assert!(store.call(&kept.calls[0].call_ref).await.unwrap().is_some());
    pragma(&store, "max_page_count", 1_000_000);
    assert_eq!(store.record_batch(refused).await.unwrap(), [Recorded::Fresh]);
}

#[tokio::test]
async fn what_may_not_be_written_is_said_to_be_read_only() {
    let (_directory, store) = store();
    pragma(&store, "query_only", 1);
    let error = store.record_batch(batch("c1", 1)).await.unwrap_err();
    assert!(matches!(error, StateError::ReadOnly { .. }), "{error:?}");
    assert_eq!(error.retry(), Retry::Never);
    pragma(&store, "query_only", 0);
    assert_eq!(store.record_batch(batch("c1", 1)).await.unwrap(), [Recorded::Fresh]);
}

#[tokio::test]
async fn a_lock_that_lasts_is_said_to_be_anothers() {
    let (directory, store) = store();
    let other = Writer::open(&directory.path().join(FILE_NAME)).unwrap();
    execute(&other, "BEGIN IMMEDIATE");
    pragma(&store, "busy_timeout", 20);
    let waiting = batch("c1", 1);
    let error = store.record_batch(waiting.clone()).await.unwrap_err();
    assert!(matches!(error, StateError::Locked { .. }), "{error:?}");
    assert_eq!(error.retry(), Retry::Later);
    assert_eq!(store.call(&waiting.calls[0].call_ref).await.unwrap(), None, "reading waits for nobody");
    execute(&other, "COMMIT");
    assert_eq!(store.record_batch(waiting).await.unwrap(), [Recorded::Fresh]);
}

#[tokio::test]
async fn the_log_moves_into_the_database_by_itself() {
    let (directory, store) = store();
    let written = batch("c1", 100_000);
    store.record_batch(written.clone()).await.unwrap();
    let call = written.calls[0].call_ref.as_str();
    // The database alone, without its log, as a copy that nothing else touches.
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("copy.db");
    let mut seen = String::new();
    for _ in 0..200 {
        fs::copy(directory.path().join(FILE_NAME), &path).unwrap();
        let found = rusqlite::Connection::open(&path).and_then(|connection| {
            connection.query_row("SELECT count(*) FROM inputs WHERE call = ?1", [call], |row| row.get::<_, i64>(0))
        });
        if matches!(found, Ok(1)) {
            return;
        }
        seen = format!("{found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("after ten seconds the call is still in the log alone: {seen}");
}

#[tokio::test]
async fn a_transaction_left_open_does_not_stay_in_the_way() {
    let (_directory, store) = store();
    execute(&store.writer, "BEGIN IMMEDIATE; DELETE FROM meta");
    assert_eq!(store.record_batch(batch("c1", 1)).await.unwrap(), [Recorded::Fresh]);
    execute(&store.writer, "BEGIN IMMEDIATE; ROLLBACK");
    let count = |connection: &rusqlite::Connection| {
        Ok(connection.query_row("SELECT count(*) FROM meta", [], |row| row.get::<_, i64>(0)).unwrap())
    };
    assert_eq!(store.writer.with(count).unwrap(), 1);
}

const FIRST: &str = "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT";
const SECOND: &str = "CREATE TABLE added (a INTEGER); INSERT INTO added VALUES (7)";
const BROKEN: &str = "CREATE TABLE half (a INTEGER); CREATE TABLE meta (b INTEGER)";

#[test]
fn migrations_run_once_and_in_order_and_keep_what_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.db");
    let writer = Writer::open(&path).unwrap();
    let migrate = |steps: &[&str]| writer.with(|connection| migrate_with(connection, &path, steps));
    let instance = migrate(&[FIRST]).unwrap();
    assert_eq!(migrate(&[FIRST]).unwrap(), instance);
    assert_eq!(migrate(&[FIRST, SECOND]).unwrap(), instance);
    assert_eq!(migrate(&[FIRST, SECOND]).unwrap(), instance);
    let error = migrate(&[FIRST]).unwrap_err();
    assert!(matches!(error, StateError::NewerSchema { found: 2, known: 1, .. }), "{error:?}");
    let added = |connection: &rusqlite::Connection| {
        Ok(connection.query_row("SELECT sum(a) FROM added", [], |row| row.get::<_, i64>(0)).unwrap())
    };
    assert_eq!(writer.with(added).unwrap(), 7);
}

#[test]
fn a_migration_that_fails_leaves_nothing_of_itself() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.db");
    let writer = Writer::open(&path).unwrap();
    let migrate = |steps: &[&str]| writer.with(|connection| migrate_with(connection, &path, steps));
    let error = migrate(&[FIRST, BROKEN]).unwrap_err();
    assert!(matches!(error, StateError::Internal { .. }), "{error:?}");
    let instance = migrate(&[FIRST]).unwrap();
    assert_eq!(migrate(&[FIRST, "CREATE TABLE half (other TEXT)"]).unwrap(), instance);
}
