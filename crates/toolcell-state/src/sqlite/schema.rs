//! The tables, step by step from an empty file.

use super::connection::{map, transaction};
use crate::error::StateError;
use rusqlite::{Connection, OptionalExtension as _};
use std::path::{Path, PathBuf};
use toolcell_model::InstanceId;

/// Marks the file as ours ("tool" in ASCII).
const APPLICATION_ID: i64 = 0x746f_6f6c;

const INSTANCE: &str = "instance";

/// One step each; step n makes schema n+1 from schema n. Append only: a released step never changes.
///
/// An absent session or user is stored as the empty text, which no present one is. A call has ended exactly if
/// `finished_at` is set. Small, often written columns are apart from inputs and results, so that starting a call with
/// a large input does not write the input again.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE meta (
        name TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE batches (
        batch TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        agent TEXT NOT NULL,
        session TEXT NOT NULL,
        user TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        calls TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE calls (
        call TEXT PRIMARY KEY,
        batch TEXT NOT NULL,
        tenant TEXT NOT NULL,
        agent TEXT NOT NULL,
        session TEXT NOT NULL,
        user TEXT NOT NULL,
        id TEXT NOT NULL,
        tool TEXT NOT NULL,
        input_digest BLOB NOT NULL,
        state TEXT NOT NULL,
        owner TEXT NOT NULL,
        token INTEGER,
        created_at INTEGER NOT NULL,
        started_at INTEGER,
        finished_at INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX calls_by_identity ON calls (id, tenant, agent, session, user);
    CREATE INDEX calls_by_end ON calls (finished_at);

    CREATE TABLE inputs (
        call TEXT PRIMARY KEY,
        input TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE results (
        call TEXT PRIMARY KEY,
        decision TEXT,
        error TEXT,
        fault TEXT,
        slot TEXT,
        timing TEXT,
        output TEXT
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE bindings (
        slot TEXT PRIMARY KEY,
        container TEXT NOT NULL,
        token INTEGER NOT NULL,
        acquisition TEXT NOT NULL,
        spec_hash TEXT NOT NULL,
        image_digest TEXT NOT NULL,
        secret_path BLOB NOT NULL,
        started_at INTEGER NOT NULL,
        restored INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE slots (
        slot TEXT PRIMARY KEY,
        tuple TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        last_used_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE generations (
        slot TEXT PRIMARY KEY,
        generation INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE session_permissions (
        tenant TEXT NOT NULL,
        agent TEXT NOT NULL,
        session TEXT NOT NULL,
        user TEXT NOT NULL,
        mode TEXT,
        rules TEXT NOT NULL,
        PRIMARY KEY (session, tenant, agent, user)
    ) STRICT, WITHOUT ROWID;
",
];

/// Brings the file to the newest schema and answers with the identity of what is stored in it.
pub(super) fn migrate(connection: &Connection, path: &Path) -> Result<InstanceId, StateError> {
    migrate_with(connection, path, MIGRATIONS)
}

pub(super) fn migrate_with(
    connection: &Connection,
    path: &Path,
    migrations: &[&str],
) -> Result<InstanceId, StateError> {
    let doing = format!("bringing {} to the newest schema", path.display());
    let fail = |error| map(error, doing.clone());
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    // Looked at before anything is changed: it may be someone else's file.
    check(connection, path, known).map_err(|error| error.or_map(fail))?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(fail)?;
    if mode != "wal" {
        return Err(StateError::Unavailable { doing, source: format!("the journal mode stays {mode}").into() });
    }
    loop {
        let done = transaction(connection, &doing, |connection| {
            let version = check(connection, path, known).map_err(|error| error.or_map(fail))?;
            let Some(step) = usize::try_from(version).ok().and_then(|version| migrations.get(version)) else {
                return Ok(true);
            };
            connection.execute_batch(step).map_err(fail)?;
            connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(fail)?;
            connection.pragma_update(None, "user_version", version.saturating_add(1)).map_err(fail)?;
            Ok(false)
        })?;
        if done {
            return instance(connection);
        }
    }
}

enum Check {
    Sqlite(rusqlite::Error),
    Refused(StateError),
}

impl Check {
    fn or_map(self, fail: impl FnOnce(rusqlite::Error) -> StateError) -> StateError {
        match self {
            Self::Sqlite(error) => fail(error),
            Self::Refused(error) => error,
        }
    }
}

/// The file's schema, if it is one of ours.
fn check(connection: &Connection, path: &Path, known: i64) -> Result<i64, Check> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(Check::Sqlite);
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let path = || PathBuf::from(path);
    match (application, version, tables) {
        (0, 0, 0) => Ok(0),
        (APPLICATION_ID, 1.., _) if version > known => {
            Err(Check::Refused(StateError::NewerSchema { path: path(), found: version, known }))
        }
        (APPLICATION_ID, 1.., _) => Ok(version),
        _ => Err(Check::Refused(StateError::Foreign { path: path() })),
    }
}

fn instance(connection: &Connection) -> Result<InstanceId, StateError> {
    let doing = "reading the instance id";
    transaction(connection, doing, |connection| {
        let found: Option<String> = connection
            .query_row("SELECT value FROM meta WHERE name = ?1", [INSTANCE], |row| row.get(0))
            .optional()
            .map_err(|error| map(error, doing))?;
        if let Some(text) = found {
            return InstanceId::parse(text)
                .map_err(|error| StateError::Corrupt { doing: doing.to_owned(), source: error.into() });
        }
        let made = InstanceId::generate();
        connection
            .execute("INSERT INTO meta (name, value) VALUES (?1, ?2)", [INSTANCE, made.as_str()])
            .map_err(|error| map(error, doing))?;
        Ok(made)
    })
}
