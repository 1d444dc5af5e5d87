//! Opening the snapshot store that is configured.

use crate::config::{Config, SecretUrl, SnapshotStoreKind, SqlUrl};
use crate::error::StartError;
use std::sync::Arc;
use toolcell_snapshot::{
    LocalStore, NoneStore, PostgresStore, RedisConfig, RedisStore, RetryStore, SnapshotStore, SqliteObjects,
};

/// The configured store; one on a network tries again what has not been done.
pub(crate) async fn open(config: &Config) -> Result<Arc<dyn SnapshotStore>, StartError> {
    Ok(match config.snapshots.store {
        SnapshotStoreKind::None => Arc::new(NoneStore::new()),
        SnapshotStoreKind::Local => {
            let store = LocalStore::open(&config.data_dir.join("snapshots")).await;
            Arc::new(store.map_err(StartError::Store)?)
        }
        SnapshotStoreKind::Redis => {
            let section = &config.snapshots.redis;
            let redis = RedisConfig {
                url: section.url.as_ref().map_or("", SecretUrl::expose).to_owned(),
                prefix: section.prefix.clone(),
                assume_durable: section.assume_durable,
            };
            retried(RedisStore::open(&redis).await.map_err(StartError::Redis)?)
        }
        SnapshotStoreKind::Sql => match &config.snapshots.sql.url {
            SqlUrl::Sqlite(path) => {
                let path = path.clone().unwrap_or_else(|| config.data_dir.join("snapshots.db"));
                Arc::new(SqliteObjects::open(path).await.map_err(StartError::Store)?)
            }
            SqlUrl::Postgres(url) => retried(PostgresStore::open(url.expose()).await.map_err(StartError::Postgres)?),
        },
    })
}

fn retried(store: impl SnapshotStore) -> Arc<dyn SnapshotStore> {
    Arc::new(RetryStore::new(Arc::new(store)))
}
