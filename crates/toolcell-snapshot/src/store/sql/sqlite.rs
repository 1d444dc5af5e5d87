//! Objects in an SQLite file of this host.

use crate::error::StoreError;
use crate::store::{
    HeadRecord, HeadVersion, ListPage, Listed, MAX_HEAD_BYTES, MAX_OBJECT_BYTES, ObjectName, ObjectPrefix,
    SnapshotStore, StoreKind, check_size, head_name, version_of,
};
use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use toolcell_model::ScopeKey;

/// Another process may hold the file this long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a file that others make at this moment is opened, and the pause between.
const OPEN_ATTEMPTS: u32 = 200;
const OPEN_PAUSE: Duration = Duration::from_millis(20);
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS snapshot_objects (name TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS snapshot_heads (slot TEXT PRIMARY KEY, version TEXT NOT NULL, data BLOB NOT NULL) STRICT;
";

/// A file of this host, which several processes may use at a time. It must not be on a network file system.
#[derive(Debug, Clone)]
pub struct SqliteObjects {
    path: Arc<Path>,
    connection: Arc<Mutex<Connection>>,
}

impl SqliteObjects {
    /// Opens the file, which is made (mode 0600) if it is not there.
    ///
    /// # Errors
    /// Those of SQLite.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path: Arc<Path> = Arc::from(path.into());
        let object = path.display().to_string();
        let opened = Arc::clone(&path);
        let connection = tokio::task::spawn_blocking(move || open_beside_others(&opened)).await;
        let connection = connection.map_err(|error| StoreError::internal(&object, error))?;
        let connection = connection.map_err(|error| fault(error, &object, false))?;
        Ok(Self { path, connection: Arc::new(Mutex::new(connection)) })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn run<T: Send + 'static>(
        &self,
        object: String,
        writes: bool,
        work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Result<T, StoreError> {
        let connection = Arc::clone(&self.connection);
        let done = tokio::task::spawn_blocking(move || {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            work(&connection)
        });
        match done.await {
            Ok(done) => done.map_err(|error| fault(error, &object, writes)),
            // A runtime that shuts down cancels it, after which nothing is known.
            Err(error) => Err(StoreError::InDoubt { object, source: error.into() }),
        }
    }
}

/// Of several that make one file at once all but one are told at once that it is busy, whatever the time limit: the
/// change of the journal's mode does not wait. So it is tried again.
fn open_beside_others(path: &Path) -> Result<Connection, rusqlite::Error> {
    let mut attempt = 1;
    loop {
        match open(path) {
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) && attempt < OPEN_ATTEMPTS =>
            {
                attempt += 1;
                std::thread::sleep(OPEN_PAUSE);
            }
            opened => return opened,
        }
    }
}

fn open(path: &Path) -> Result<Connection, rusqlite::Error> {
    use std::os::unix::fs::OpenOptionsExt;
    // Made first, so that it never is readable by others.
    drop(std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path));
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A commit is on the disk when it returns.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

fn fault(error: rusqlite::Error, object: &str, writes: bool) -> StoreError {
    use rusqlite::ErrorCode;
    let object = object.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::NoSpace { object },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { object, detail: error.to_string() }
        }
        Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
            StoreError::Denied { object, source: error.into() }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Unavailable { object, source: error.into() }
        }
        // An fsync that failed leaves open what is on the disk.
        Some(ErrorCode::SystemIoFailure) if writes => StoreError::InDoubt { object, source: error.into() },
        Some(ErrorCode::SystemIoFailure) => StoreError::Unavailable { object, source: error.into() },
        _ => StoreError::Internal { object, source: error.into() },
    }
}

fn size(connection: &Connection, name: &str) -> Result<Option<u64>, rusqlite::Error> {
    let query = "SELECT length(data) FROM snapshot_objects WHERE name = ?1";
    let bytes: Option<i64> = connection.query_row(query, [name], |row| row.get(0)).optional()?;
    Ok(bytes.and_then(|bytes| u64::try_from(bytes).ok()))
}

#[async_trait]
impl SnapshotStore for SqliteObjects {
    fn kind(&self) -> StoreKind {
        StoreKind::Sql
    }

    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError> {
        check_size(name, data.len() as u64, MAX_OBJECT_BYTES)?;
        let text = name.to_string();
        let insert = "INSERT INTO snapshot_objects (name, data) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        let rows = self.run(name.to_string(), true, move |db| db.execute(insert, params![text, &data[..]])).await?;
        if rows == 1 { Ok(()) } else { Err(StoreError::AlreadyExists { object: name.to_string() }) }
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        let text = name.to_string();
        let read = self.run(name.to_string(), false, move |db| {
            let Some(bytes) = size(db, &text)? else { return Ok(None) };
            if bytes > max_bytes {
                return Ok(Some((bytes, Vec::new())));
            }
            let data = db.query_row("SELECT data FROM snapshot_objects WHERE name = ?1", [&text], |row| row.get(0));
            Ok(data.optional()?.map(|data| (bytes, data)))
        });
        let (bytes, data) = read.await?.ok_or_else(|| StoreError::NotFound { object: name.to_string() })?;
        check_size(name, bytes, max_bytes)?;
        Ok(data.into())
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        check_size(name, len, MAX_OBJECT_BYTES)?;
        let text = name.to_string();
        let short = || StoreError::corrupt(name, format!("it ends before {offset} + {len}"));
        // SQL counts from one.
        let from = i64::try_from(offset.saturating_add(1)).unwrap_or(i64::MAX);
        let wanted = i64::try_from(len).unwrap_or(i64::MAX);
        let query = "SELECT length(data), substr(data, ?2, ?3) FROM snapshot_objects WHERE name = ?1";
        let read = self.run(name.to_string(), false, move |db| {
            let row = db.query_row(query, params![text, from, wanted], |row| Ok((row.get(0)?, row.get(1)?)));
            row.optional()
        });
        let found: Option<(i64, Option<Vec<u8>>)> = read.await?;
        let (bytes, data) = found.ok_or_else(|| StoreError::NotFound { object: name.to_string() })?;
        // A part of nothing is NULL.
        let data = data.unwrap_or_default();
        let bytes = u64::try_from(bytes).unwrap_or_default();
        let fits = offset.checked_add(len).is_some_and(|end| end <= bytes) && data.len() as u64 == len;
        if fits { Ok(data.into()) } else { Err(short()) }
    }

    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        let limit = limit.max(1);
        let (from, text) = (after.map(ToString::to_string).unwrap_or_default(), prefix.to_string());
        // Names are ASCII: nothing comes after a prefix's last name but before this.
        let until = format!("{text}\u{7f}");
        let query = "SELECT name, length(data) FROM snapshot_objects WHERE name > ?1 AND name >= ?2 AND name < ?3 \
                     ORDER BY name LIMIT ?4";
        let rows = self.run(prefix.to_string(), false, move |db| {
            let mut statement = db.prepare_cached(query)?;
            let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
            let rows = statement.query_map(params![from, text, until, most], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<Vec<(String, i64)>, _>>()
        });
        page(prefix, limit, rows.await?)
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        let text = name.to_string();
        let delete = "DELETE FROM snapshot_objects WHERE name = ?1";
        self.run(name.to_string(), false, move |db| db.execute(delete, [text])).await.map(|_| ())
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        let text = slot.to_string();
        let query = "SELECT version, data FROM snapshot_heads WHERE slot = ?1";
        let read = self.run(head_name(slot), false, move |db| {
            db.query_row(query, [text], |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?))).optional()
        });
        Ok(read.await?.map(|(version, data)| HeadRecord { data: data.into(), version: HeadVersion(version) }))
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        let object = head_name(slot);
        check_size(&object, data.len() as u64, MAX_HEAD_BYTES)?;
        let version = version_of(&data);
        let (text, new, expected) = (slot.to_string(), version.0.clone(), expected.cloned());
        let replaced = self.run(object.clone(), true, move |db| match expected {
            None => {
                let insert =
                    "INSERT INTO snapshot_heads (slot, version, data) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
                db.execute(insert, params![text, new, &data[..]])
            }
            Some(HeadVersion(old)) => {
                let update = "UPDATE snapshot_heads SET version = ?2, data = ?3 WHERE slot = ?1 AND version = ?4";
                db.execute(update, params![text, new, &data[..], old])
            }
        });
        if replaced.await? == 1 { Ok(version) } else { Err(StoreError::PreconditionFailed { object }) }
    }
}

/// A page out of one row more than was asked for.
pub(super) fn page(prefix: &ObjectPrefix, limit: usize, rows: Vec<(String, i64)>) -> Result<ListPage, StoreError> {
    let more = rows.len() > limit;
    let listed = |(name, bytes): (String, i64)| {
        let name = ObjectName::parse(name)
            .map_err(|error| StoreError::corrupt(prefix, format!("a name that no object has: {error}")))?;
        Ok(Listed { name, bytes: u64::try_from(bytes).unwrap_or_default() })
    };
    let objects = rows.into_iter().take(limit).map(listed).collect::<Result<_, _>>()?;
    Ok(ListPage { objects, more })
}
