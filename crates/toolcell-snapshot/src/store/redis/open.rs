//! Opening a Redis server: is it there, may it be written, and does it keep what it says it has.

use super::RedisStore;
use super::connection::Connections;
use super::failure::Effect;
use super::script::EXCHANGE;
use crate::error::{Cause, StoreError};
use std::collections::HashMap;
use std::fmt;

/// Longest prefix of the keys.
const MAX_PREFIX_BYTES: usize = 64;

/// Where Redis is.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisConfig {
    /// `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS. May hold a password: never shown.
    pub url: String,
    /// What all keys begin with: letters, digits and `:_.-`.
    pub prefix: String,
    /// Whether a server that does not let its settings be read counts as one that syncs every write and evicts nothing.
    pub assume_durable: bool,
}

/// Without the URL.
impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url: _, prefix, assume_durable } = self;
        f.debug_struct("RedisConfig")
            .field("prefix", prefix)
            .field("assume_durable", assume_durable)
            .finish_non_exhaustive()
    }
}

/// A Redis server cannot be used. Where it is, is said by its address alone, without the password.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// The address makes no sense. Its text may hold a password, and is not shown.
    #[error("the address of Redis is not one: redis://[user:password@]host[:port] ([snapshots.redis] url)")]
    Address,
    /// The prefix could break up what belongs together.
    #[error("[snapshots.redis] prefix: 1 to {MAX_PREFIX_BYTES} letters, digits and :_.-")]
    Prefix,
    /// Nobody answers.
    #[error("{place} does not answer ([snapshots.redis] url)")]
    Unreachable {
        /// Which server.
        place: String,
        /// What happened.
        #[source]
        source: Cause,
    },
    /// The password is wrong, or the user may not do this.
    #[error("{place} refuses this user ([snapshots.redis] url: redis://user:password@host)")]
    Denied {
        /// Which server.
        place: String,
        /// What it said.
        #[source]
        source: Cause,
    },
    /// Writes go elsewhere.
    #[error("{place} is a replica, which cannot be written: name its primary ([snapshots.redis] url)")]
    Replica {
        /// Which server.
        place: String,
    },
    /// It throws away what nobody has read for a while, heads included.
    #[error(
        "{place} evicts keys when its memory is full (maxmemory-policy {policy}), heads included: set it to noeviction ([snapshots.redis] url)"
    )]
    Evicts {
        /// Which server.
        place: String,
        /// Its policy.
        policy: String,
    },
    /// A first write, or a first script, fails.
    #[error("{place} does not work ([snapshots.redis] url)")]
    Failed {
        /// Which server.
        place: String,
        /// What failed.
        #[source]
        source: StoreError,
    },
}

impl RedisStore {
    /// Connects, and checks that heads are safe there: that the server is a primary, does not evict them, runs scripts
    /// and takes writes. Whether it syncs each write decides
    /// [`SnapshotStore::is_durable`](crate::SnapshotStore::is_durable).
    ///
    /// # Errors
    /// [`RedisError`].
    pub async fn open(config: &RedisConfig) -> Result<Self, RedisError> {
        let prefix = config.prefix.clone();
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b':' | b'_' | b'.' | b'-');
        if prefix.is_empty() || prefix.len() > MAX_PREFIX_BYTES || !prefix.bytes().all(allowed) {
            return Err(RedisError::Prefix);
        }
        let connections = Connections::new(&config.url).map_err(|_| RedisError::Address)?;
        let mut store = Self { connections, prefix, durable: false };
        store.durable = probe(&store, config.assume_durable).await?;
        Ok(store)
    }
}

/// What a failure of the first requests says about the server.
fn told(place: &str, error: StoreError) -> RedisError {
    let place = place.to_owned();
    match error {
        StoreError::Unavailable { source, .. } | StoreError::InDoubt { source, .. } => {
            RedisError::Unreachable { place, source }
        }
        StoreError::Denied { source, .. } => RedisError::Denied { place, source },
        source @ (StoreError::NotFound { .. }
        | StoreError::AlreadyExists { .. }
        | StoreError::PreconditionFailed { .. }
        | StoreError::Corrupt { .. }
        | StoreError::TooLarge { .. }
        | StoreError::NoSpace { .. }
        | StoreError::Internal { .. }) => RedisError::Failed { place, source },
    }
}

/// Whether what the server has acknowledged survives its machine's crash.
///
/// # Errors
/// [`RedisError`] if heads are not safe there.
async fn probe(store: &RedisStore, assume_durable: bool) -> Result<bool, RedisError> {
    let place = store.connections.place();
    let told = |error| told(place, error);
    let replication = info(store, "replication").await.map_err(told)?;
    if replication.get("role").is_some_and(|role| role != "master") {
        return Err(RedisError::Replica { place: place.to_owned() });
    }
    let memory = info(store, "memory").await.map_err(told)?;
    let settings = settings(store).await.map_err(told)?;
    // INFO has it also where CONFIG is forbidden.
    let policy = settings.get("maxmemory-policy").or_else(|| memory.get("maxmemory_policy"));
    // Without a bound it never does.
    let bounded = memory.get("maxmemory").is_none_or(|most| most != "0");
    let evicts = |policy: &String| bounded && policy != "noeviction" && !policy.starts_with("volatile-");
    if let Some(policy) = policy.filter(|policy| evicts(policy)) {
        return Err(RedisError::Evicts { place: place.to_owned(), policy: policy.clone() });
    }
    writes_and_scripts(store).await.map_err(told)?;
    let is = |name: &str, value: &str| settings.get(name).map(|found| found == value);
    let synced = is("appendonly", "yes").zip(is("appendfsync", "always")).map(|(kept, synced)| kept && synced);
    let keeps_all = !bounded || policy.is_some_and(|policy| policy == "noeviction");
    Ok(synced.map_or(assume_durable, |synced| synced && keeps_all))
}

/// A section of what `INFO` says.
async fn info(store: &RedisStore, section: &str) -> Result<HashMap<String, String>, StoreError> {
    let text: String = store.connections.command("INFO", Effect::Hidden, redis::cmd("INFO").arg(section)).await?;
    let pair = |line: &str| line.trim().split_once(':').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(text.lines().filter_map(pair).collect())
}

/// The settings that matter; none where they may not be read, as on managed servers.
async fn settings(store: &RedisStore) -> Result<HashMap<String, String>, StoreError> {
    let mut settings = HashMap::new();
    for name in ["maxmemory-policy", "appendonly", "appendfsync"] {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(name);
        match store.connections.command::<HashMap<String, String>>(name, Effect::Hidden, &command).await {
            Ok(found) => settings.extend(found),
            Err(StoreError::Denied { .. } | StoreError::Internal { .. }) => return Ok(HashMap::new()),
            Err(error) => return Err(error),
        }
    }
    Ok(settings)
}

/// Writes something that goes away by itself, and runs a script that changes nothing.
async fn writes_and_scripts(store: &RedisStore) -> Result<(), StoreError> {
    let key = store.key("store", format_args!("probe"));
    let mut command = redis::cmd("SET");
    command.arg(&key).arg("").arg("PX").arg(1);
    store.connections.command::<()>("a first write", Effect::Hidden, &command).await?;
    let (object, absent) = ("a first script", store.key("store", format_args!("absent")));
    let replaced: i64 = store
        .connections
        .script(object, Effect::Hidden, &EXCHANGE.script, EXCHANGE.text, |command| {
            command.arg(1).arg(&absent).arg("never was").arg("").arg("");
        })
        .await?;
    if replaced == 0 { Ok(()) } else { Err(StoreError::internal(object, "it has replaced what is not there")) }
}
