//! Connections to the file, and the file of its log.

use crate::error::StateError;
use crate::owner::failed;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a write waits for writers of other processes before it fails with [`StateError::Locked`].
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// More statements than there are, so that each is prepared once per connection.
const STATEMENTS: usize = 64;

/// The log is cut back to this after it has been moved into the database.
pub(super) const LOG_BYTES_KEPT: u64 = 16 * 1024 * 1024;

/// The one connection that writes.
#[derive(Debug)]
pub(super) struct Writer {
    connection: Mutex<Connection>,
    writes: Arc<AtomicU64>,
}

/// A connection that only reads.
#[derive(Debug)]
pub(super) struct Reader {
    connection: Mutex<Connection>,
}

impl Writer {
    /// Opens the file, or makes it with mode 0600.
    pub(super) fn open(path: &Path) -> Result<Self, StateError> {
        // Only where there is none: closing a file that this process has open elsewhere would drop SQLite's locks.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("making", path, error)),
        }
        let connection = connect(path)?;
        Ok(Self { connection: Mutex::new(connection), writes: Arc::default() })
    }

    /// Grows with every use of the connection.
    pub(super) fn writes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.writes)
    }

    pub(super) fn with<T>(&self, run: impl FnOnce(&Connection) -> Result<T, StateError>) -> Result<T, StateError> {
        let result = run(&lock(&self.connection));
        self.writes.fetch_add(1, Ordering::Relaxed);
        result
    }

    /// Runs several statements as one; an error undoes them all. The lock on the file is taken at the beginning, so
    /// that nothing fails for being late.
    pub(super) fn transaction<T>(
        &self,
        doing: &str,
        run: impl FnOnce(&Connection) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        self.with(|connection| transaction(connection, doing, run))
    }
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Self, StateError> {
        let connection = connect(path)?;
        connection.pragma_update(None, "query_only", true).map_err(|error| map(error, "opening the state store"))?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    pub(super) fn with<T>(&self, run: impl FnOnce(&Connection) -> Result<T, StateError>) -> Result<T, StateError> {
        run(&lock(&self.connection))
    }
}

pub(super) fn transaction<T>(
    connection: &Connection,
    doing: &str,
    run: impl FnOnce(&Connection) -> Result<T, StateError>,
) -> Result<T, StateError> {
    let step = |statement: &str| {
        connection.prepare_cached(statement).and_then(|mut prepared| prepared.execute([])).map_err(|e| map(e, doing))
    };
    // Left open by a panic, or by a roll-back that failed: nobody was told that it happened.
    if !connection.is_autocommit() {
        step("ROLLBACK")?;
    }
    step("BEGIN IMMEDIATE")?;
    let result = run(connection).and_then(|value| step("COMMIT").map(|_| value));
    // Some errors have rolled back already.
    if result.is_err()
        && !connection.is_autocommit()
        && let Err(error) = step("ROLLBACK")
    {
        tracing::warn!(%error, "a transaction stays open until the next one");
    }
    result
}

/// A connection with everything set but the journal mode, which the file itself remembers.
pub(super) fn connect(path: &Path) -> Result<Connection, StateError> {
    let doing = || format!("opening {}", path.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| map(error, doing()))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    let set = || -> rusqlite::Result<()> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.query_row("PRAGMA wal_autocheckpoint = 0", [], |_| Ok(()))?;
        connection.query_row(&format!("PRAGMA journal_size_limit = {LOG_BYTES_KEPT}"), [], |_| Ok(()))
    };
    set().map_err(|error| map(error, doing()))?;
    Ok(connection)
}

/// The log's file, for its fsync. (SQLite takes no locks on this file, so that closing it is harmless.)
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Needs an open connection that has read: it keeps the log where it is for as long as it lives.
    pub(super) fn open(data_dir: &Path, database: &Path) -> Result<Self, StateError> {
        let path = log_path(database);
        let file = File::open(&path).map_err(|error| failed("opening", &path, error))?;
        // The names of the database and of its log.
        File::open(data_dir)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| failed("syncing", data_dir, error))?;
        Ok(Self { path, file })
    }

    /// Returns once everything committed before is on disk. Blocks.
    pub(super) fn sync(&self) -> Result<(), StateError> {
        self.file.sync_data().map_err(|error| StateError::Indeterminate {
            doing: format!("syncing {}", self.path.display()),
            source: error.into(),
        })
    }
}

pub(super) fn log_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// What SQLite said, as one of our kinds.
pub(super) fn map(error: rusqlite::Error, doing: impl Into<String>) -> StateError {
    let doing = doing.into();
    let code = error.sqlite_error_code();
    let conversion = matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    );
    let source = error.into();
    match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StateError::Locked { doing, source },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StateError::ReadOnly { doing, source },
        Some(ErrorCode::DiskFull) => StateError::NoSpace { doing, source },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StateError::Corrupt { doing, source },
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory) => {
            StateError::Unavailable { doing, source }
        }
        None if conversion => StateError::Corrupt { doing, source },
        Some(_) | None => StateError::Internal { doing, source },
    }
}

/// A panic under the lock leaves at worst an open transaction behind, which the next one rolls back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
