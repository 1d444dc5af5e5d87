//! Objects in a Postgres database.

use super::sqlite::page;
use crate::error::StoreError;
use crate::store::{
    HeadRecord, HeadVersion, ListPage, MAX_HEAD_BYTES, MAX_OBJECT_BYTES, ObjectName, ObjectPrefix, SnapshotStore,
    StoreKind, check_size, head_name, version_of,
};
use async_trait::async_trait;
use bytes::Bytes;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, Postgres};
use std::future::Future;
use std::str::FromStr;
use std::time::Duration;
use toolcell_model::ScopeKey;

/// For a connection to be made, or to get free.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For a statement; longer counts as no answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const MOST_CONNECTIONS: u32 = 8;
/// Two that open an empty database at once would both make its tables.
const SCHEMA_LOCK: i64 = 0x746f_6f6c_6365_6c6c;

/// A Postgres database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// The address makes no sense. Its text may hold a password, and is not shown.
    #[error("the address of the database is not one: postgres://user:password@host/database ([snapshots.sql] url)")]
    Address,
    /// Nobody answers.
    #[error("the database does not answer ([snapshots.sql] url)")]
    Unreachable(#[source] sqlx::Error),
    /// The password is wrong, or the user may not do this.
    #[error("the database refuses this user ([snapshots.sql] url: postgres://user:password@host/database)")]
    Denied(#[source] sqlx::Error),
    /// The server only reads.
    #[error("this database server is a replica, which cannot be written: name its primary ([snapshots.sql] url)")]
    Replica,
    /// The tables could not be made.
    #[error("while making the tables")]
    Schema(#[source] sqlx::Error),
}

/// Tables in a Postgres database, which several processes may use at a time.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    pool: PgPool,
    durable: bool,
}

impl PostgresStore {
    /// Opens the database, and makes its tables if they are not there.
    ///
    /// # Errors
    /// [`PostgresError`].
    pub async fn open(url: &str) -> Result<Self, PostgresError> {
        let options = PgConnectOptions::from_str(url).map_err(|_| PostgresError::Address)?;
        let options = options.application_name("toolcell");
        let pool = PgPoolOptions::new()
            .max_connections(MOST_CONNECTIONS)
            .acquire_timeout(CONNECT_TIMEOUT)
            .connect_with(options)
            .await
            .map_err(opening)?;
        let (replica, synchronous, fsync): (bool, String, String) = sqlx::query_as(
            "SELECT pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')",
        )
        .fetch_one(&pool)
        .await
        .map_err(opening)?;
        if replica {
            return Err(PostgresError::Replica);
        }
        make_tables(&pool).await.map_err(|error| match opening(error) {
            PostgresError::Unreachable(error) => PostgresError::Schema(error),
            other => other,
        })?;
        Ok(Self { pool, durable: synchronous != "off" && fsync == "on" })
    }
}

impl PostgresStore {
    /// A connection that works. Nothing is sent before there is one, so that its failure leaves nothing in doubt.
    async fn connection(&self, object: &str) -> Result<PoolConnection<Postgres>, StoreError> {
        self.pool.acquire().await.map_err(|error| fault(error, object, false))
    }
}

async fn make_tables(pool: &PgPool) -> Result<(), sqlx::Error> {
    let mut transaction = pool.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(SCHEMA_LOCK).execute(&mut *transaction).await?;
    for statement in [
        "CREATE TABLE IF NOT EXISTS toolcell_snapshot_objects (name TEXT COLLATE \"C\" PRIMARY KEY, data BYTEA NOT NULL)",
        // Not compressed once more, so that a part of it can be read without the rest.
        "ALTER TABLE toolcell_snapshot_objects ALTER COLUMN data SET STORAGE EXTERNAL",
        "CREATE TABLE IF NOT EXISTS toolcell_snapshot_heads \
         (slot TEXT COLLATE \"C\" PRIMARY KEY, version TEXT NOT NULL, data BYTEA NOT NULL)",
    ] {
        sqlx::query(statement).execute(&mut *transaction).await?;
    }
    transaction.commit().await
}

fn code(error: &sqlx::Error) -> String {
    error.as_database_error().and_then(|error| error.code()).map(|code| code.into_owned()).unwrap_or_default()
}

fn opening(error: sqlx::Error) -> PostgresError {
    match code(&error).as_str() {
        "28000" | "28P01" | "42501" => PostgresError::Denied(error),
        "25006" => PostgresError::Replica,
        _ => PostgresError::Unreachable(error),
    }
}

/// The store's word for it. `once`: the statement must not be repeated unseen, so that no answer is a doubt.
fn fault(error: sqlx::Error, object: &str, once: bool) -> StoreError {
    let object = object.to_owned();
    let code = code(&error);
    match (&error, code.get(..2).unwrap_or_default()) {
        (sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed, _) => {
            StoreError::Unavailable { object, source: error.into() }
        }
        (_, "53") if code != "53300" => StoreError::NoSpace { object },
        (_, "28") => StoreError::Denied { object, source: error.into() },
        _ if code == "42501" => StoreError::Denied { object, source: error.into() },
        // Serialisation, deadlock, a server that only reads or takes no more connections: nothing was written.
        (_, "40" | "25" | "53") => StoreError::Unavailable { object, source: error.into() },
        (_, "08" | "57" | "58") | (sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_), _) if once => {
            StoreError::InDoubt { object, source: error.into() }
        }
        (_, "08" | "57" | "58") | (sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_), _) => {
            StoreError::Unavailable { object, source: error.into() }
        }
        (_, "XX") => StoreError::Corrupt { object, detail: error.to_string() },
        _ => StoreError::Internal { object, source: error.into() },
    }
}

/// Bounded in time; no answer to a write is a doubt.
async fn within<T>(
    object: &str,
    once: bool,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(ANSWER_TIMEOUT, work).await {
        Ok(done) => done.map_err(|error| fault(error, object, once)),
        Err(late) if once => Err(StoreError::InDoubt { object: object.to_owned(), source: late.into() }),
        Err(late) => Err(StoreError::Unavailable { object: object.to_owned(), source: late.into() }),
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[async_trait]
impl SnapshotStore for PostgresStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Sql
    }

    fn is_durable(&self) -> bool {
        self.durable
    }

    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError> {
        check_size(name, data.len() as u64, MAX_OBJECT_BYTES)?;
        let insert = "INSERT INTO toolcell_snapshot_objects (name, data) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let mut connection = self.connection(name.as_str()).await?;
        let insert = sqlx::query(insert).bind(name.as_str()).bind(&data[..]).execute(&mut *connection);
        let done = within(name.as_str(), true, insert).await?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(StoreError::AlreadyExists { object: name.to_string() }) }
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        // The size is compared before the value leaves the server.
        let query = "SELECT octet_length(data)::bigint, CASE WHEN octet_length(data) <= $2 THEN data END \
                     FROM toolcell_snapshot_objects WHERE name = $1";
        let query = sqlx::query_as::<_, (i64, Option<Vec<u8>>)>(query).bind(name.as_str()).bind(number(max_bytes));
        let found = within(name.as_str(), false, query.fetch_optional(&self.pool)).await?;
        let (bytes, data) = found.ok_or_else(|| StoreError::NotFound { object: name.to_string() })?;
        check_size(name, u64::try_from(bytes).unwrap_or_default(), max_bytes)?;
        Ok(data.unwrap_or_default().into())
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        check_size(name, len, MAX_OBJECT_BYTES)?;
        let short = || StoreError::corrupt(name, format!("it ends before {offset} + {len}"));
        // The database counts from one, in 32 bits; no object is nearly that long.
        let from = i32::try_from(offset.saturating_add(1)).unwrap_or(i32::MAX);
        let query = "SELECT octet_length(data)::bigint, substring(data FROM $2 FOR $3) \
                     FROM toolcell_snapshot_objects WHERE name = $1";
        let query = sqlx::query_as::<_, (i64, Vec<u8>)>(query)
            .bind(name.as_str())
            .bind(from)
            .bind(i32::try_from(len).unwrap_or(i32::MAX));
        let found = within(name.as_str(), false, query.fetch_optional(&self.pool)).await?;
        let (bytes, data) = found.ok_or_else(|| StoreError::NotFound { object: name.to_string() })?;
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
        let query = "SELECT name, octet_length(data)::bigint FROM toolcell_snapshot_objects \
                     WHERE name > $1 AND name >= $2 AND name < $3 ORDER BY name LIMIT $4";
        let query = sqlx::query_as::<_, (String, i64)>(query)
            .bind(after.map(ObjectName::as_str).unwrap_or_default())
            .bind(prefix.as_str())
            .bind(format!("{prefix}\u{7f}"))
            .bind(number(limit as u64).saturating_add(1));
        page(prefix, limit, within(prefix.as_str(), false, query.fetch_all(&self.pool)).await?)
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        let delete = sqlx::query("DELETE FROM toolcell_snapshot_objects WHERE name = $1").bind(name.as_str());
        within(name.as_str(), false, delete.execute(&self.pool)).await.map(|_| ())
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        let query = "SELECT version, data FROM toolcell_snapshot_heads WHERE slot = $1";
        let query = sqlx::query_as::<_, (String, Vec<u8>)>(query).bind(slot.as_str());
        let found = within(&head_name(slot), false, query.fetch_optional(&self.pool)).await?;
        Ok(found.map(|(version, data)| HeadRecord { data: data.into(), version: HeadVersion(version) }))
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
        let statement = match expected {
            None => {
                let insert = "INSERT INTO toolcell_snapshot_heads (slot, version, data) VALUES ($1, $2, $3) \
                              ON CONFLICT DO NOTHING";
                sqlx::query(insert).bind(slot.as_str()).bind(&version.0).bind(&data[..])
            }
            Some(old) => {
                let update = "UPDATE toolcell_snapshot_heads SET version = $2, data = $3 \
                              WHERE slot = $1 AND version = $4";
                sqlx::query(update).bind(slot.as_str()).bind(&version.0).bind(&data[..]).bind(&old.0)
            }
        };
        let mut connection = self.connection(&object).await?;
        let done = within(&object, true, statement.execute(&mut *connection)).await?;
        if done.rows_affected() == 1 { Ok(version) } else { Err(StoreError::PreconditionFailed { object }) }
    }
}
