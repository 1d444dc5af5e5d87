//! Opening a Redis server: is it there, may it be written, and does it keep what it says it has.

use super::{RedisStore, Scripts};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, cmd};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// For a connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For an answer; longer counts as none.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Where Redis is.
#[derive(Clone)]
pub struct RedisConfig {
    /// `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS. May hold a password: never shown.
    pub url: String,
    /// Put before every key.
    pub prefix: String,
}

impl std::fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisConfig").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// A Redis server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// The address makes no sense.
    #[error("the address of Redis is not one: redis://[user:password@]host[:port] ([snapshots.redis] url)")]
    Address(#[source] redis::RedisError),
    /// Nobody answers.
    #[error("Redis does not answer ([snapshots.redis] url)")]
    Unreachable(#[source] redis::RedisError),
    /// The password is wrong, or the user may not do this.
    #[error("Redis refuses this user ([snapshots.redis] url: redis://user:password@host)")]
    Denied(#[source] redis::RedisError),
    /// Writes go elsewhere.
    #[error("this Redis server is a replica, which cannot be written: name its primary ([snapshots.redis] url)")]
    Replica,
    /// It throws away what nobody has read for a while, heads included.
    #[error(
        "this Redis server evicts keys when its memory is full (maxmemory-policy {policy}), heads included: set it to noeviction ([snapshots.redis] url)"
    )]
    Evicts {
        /// Its policy.
        policy: String,
    },
}

impl RedisStore {
    /// Opens the server and finds out what it promises.
    ///
    /// # Errors
    /// [`RedisError`].
    pub async fn open(config: &RedisConfig) -> Result<Self, RedisError> {
        let client = Client::open(config.url.as_str()).map_err(RedisError::Address)?;
        let manager = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT));
        let mut connection = ConnectionManager::new_with_config(client, manager).await.map_err(opening)?;
        let info: String = cmd("INFO").query_async(&mut connection).await.map_err(opening)?;
        let facts: HashMap<&str, &str> = info.lines().filter_map(|line| line.trim().split_once(':')).collect();
        let fact = |name: &str| facts.get(name).copied().unwrap_or_default();
        if fact("role") == "slave" {
            return Err(RedisError::Replica);
        }
        let bounded = fact("maxmemory") != "0";
        let policy = fact("maxmemory_policy");
        // Keys that are to stay have no time to live, so that the volatile policies leave them alone.
        if bounded && policy.starts_with("allkeys") {
            return Err(RedisError::Evicts { policy: policy.to_owned() });
        }
        let appends = fact("aof_enabled") == "1";
        // A managed service may not say; then it is not known to be on the disk.
        let fsync: Result<Vec<String>, _> =
            cmd("CONFIG").arg("GET").arg("appendfsync").query_async(&mut connection).await;
        let syncs = fsync.is_ok_and(|answer| answer.get(1).is_some_and(|value| value == "always"));
        let durable = appends && syncs && (policy == "noeviction" || !bounded);
        Ok(Self { connection, prefix: config.prefix.clone(), scripts: Arc::new(Scripts::new()), durable })
    }
}

fn opening(error: redis::RedisError) -> RedisError {
    let refused = matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"));
    if refused || error.kind() == redis::ErrorKind::AuthenticationFailed {
        RedisError::Denied(error)
    } else {
        RedisError::Unreachable(error)
    }
}
