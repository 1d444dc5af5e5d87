//! Every store has every behaviour of the suite.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failed unwrap is the test's failure"
)]

mod faults;
mod opening;

use async_trait::async_trait;
use std::sync::Arc;
use tempfile::TempDir;
use toolcell_model::ScopeKey;
use toolcell_snapshot::{
    LocalStore, MemoryStore, PostgresStore, RedisConfig, RedisStore, S3Config, S3Credentials, S3Store, SnapshotStore,
    SqliteObjects,
};
use toolcell_testkit::snapshot::{StoreHarness, service};

struct Memory(Arc<MemoryStore>);

#[async_trait]
impl StoreHarness for Memory {
    async fn store(&self) -> Arc<dyn SnapshotStore> {
        Arc::clone(&self.0) as Arc<dyn SnapshotStore>
    }
}

struct Local(TempDir);

#[async_trait]
impl StoreHarness for Local {
    async fn store(&self) -> Arc<dyn SnapshotStore> {
        Arc::new(LocalStore::open(self.0.path().join("snapshots")).await.unwrap())
    }
}

struct S3 {
    config: S3Config,
    opened: tokio::sync::OnceCell<S3Store>,
}

impl S3 {
    /// A place of its own in the bucket of the tests' server.
    fn new() -> Option<Self> {
        let endpoint = service("TOOLCELL_TEST_S3_ENDPOINT")?;
        let [bucket, access_key, secret_key] =
            ["BUCKET", "ACCESS_KEY", "SECRET_KEY"].map(|what| service(&format!("TOOLCELL_TEST_S3_{what}")).unwrap());
        let config = S3Config {
            endpoint: Some(endpoint),
            bucket,
            prefix: format!("{}/", ScopeKey::ephemeral().unwrap()),
            path_style: true,
            credentials: Some(S3Credentials { access_key, secret_key }),
            ..S3Config::default()
        };
        Some(Self { config, opened: tokio::sync::OnceCell::new() })
    }
}

#[async_trait]
impl StoreHarness for S3 {
    async fn store(&self) -> Arc<dyn SnapshotStore> {
        // Trying the bucket out costs a hundred requests; nothing of it is kept on this side.
        Arc::new(self.opened.get_or_init(async || S3Store::open(&self.config).await.unwrap()).await.clone())
    }
}

struct Redis(RedisConfig);

impl Redis {
    fn new() -> Option<Self> {
        let url = service("TOOLCELL_TEST_REDIS_URL")?;
        Some(Self(RedisConfig { url, prefix: format!("{}:", ScopeKey::ephemeral().unwrap()), assume_durable: false }))
    }
}

#[async_trait]
impl StoreHarness for Redis {
    async fn store(&self) -> Arc<dyn SnapshotStore> {
        Arc::new(RedisStore::open(&self.0).await.unwrap())
    }
}

struct Sqlite(TempDir);

#[async_trait]
impl StoreHarness for Sqlite {
    async fn store(&self) -> Arc<dyn SnapshotStore> {
        Arc::new(SqliteObjects::open(self.0.path().join("snapshots.db")).await.unwrap())
    }
}

/// A database of its own on the tests' server.
struct Postgres(String);

impl Postgres {
    fn new() -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Self::create())
    }

    async fn create() -> Option<Self> {
        use sqlx::Connection;
        let url = service("TOOLCELL_TEST_POSTGRES_URL")?;
        let (server, _) = url.rsplit_once('/').unwrap();
        let name = ScopeKey::ephemeral().unwrap().to_string();
        let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
        let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::query(create).execute(&mut connection).await.unwrap();
        Some(Self(format!("{server}/{name}")))
    }
}

#[async_trait]
impl StoreHarness for Postgres {
    async fn store(&self) -> Arc<dyn SnapshotStore> {
        Arc::new(PostgresStore::open(&self.0).await.unwrap())
    }
}

toolcell_testkit::snapshot_store_conformance!(memory, Some(Memory(Arc::new(MemoryStore::new()))));
toolcell_testkit::snapshot_store_conformance!(local, Some(Local(tempfile::tempdir().unwrap())));
toolcell_testkit::snapshot_store_conformance!(s3, S3::new());
toolcell_testkit::snapshot_store_conformance!(redis, Redis::new());
toolcell_testkit::snapshot_store_conformance!(sqlite, Some(Sqlite(tempfile::tempdir().unwrap())));
toolcell_testkit::snapshot_store_conformance!(postgres, Postgres::new());
