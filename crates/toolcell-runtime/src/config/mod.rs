//! The configuration: one TOML file, every key with a default, environment variables on top.
//!
//! Unknown keys and bad values are errors that name file, line and key. `config/toolcell.toml` documents every key;
//! a test holds the two together.

mod agent;
mod custom_tool;
mod encryption;
mod files;
mod load;
mod size;
mod stores;

pub use agent::{AgentConfig, Approval, LimitsConfig, MountConfig, NetworkConfig, NetworkMode, PermissionsConfig};
pub use custom_tool::{CustomStdin, CustomToolConfig};
pub use encryption::{EncryptionConfig, KeyFileError};
pub(crate) use files::file_path;
pub use files::{FileConfig, ProjectionConfig, Token};
pub use load::{ConfigError, ENVIRONMENT_PREFIX};
pub use size::ByteSize;
pub use stores::{RedisSection, S3Section, SecretText, SecretUrl, SqlSection, SqlUrl};

use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use toolcell_model::AgentName;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Embedded state, local snapshots, workspaces, sockets.
    #[serde(deserialize_with = "load::path_with_home")]
    pub data_dir: PathBuf,
    /// The HTTP server.
    pub server: ServerConfig,
    /// The container engine.
    pub docker: DockerSection,
    /// Where calls and bindings are recorded.
    pub state: StateConfig,
    /// Who may write a slot.
    pub lease: LeaseConfig,
    /// Where workspaces survive.
    pub snapshots: SnapshotsConfig,
    /// How large workspaces may get.
    pub workspaces: WorkspacesConfig,
    /// Bounds of requests.
    pub limits: RequestLimits,
    /// Who may call.
    pub auth: AuthConfig,
    /// Agents by name; one named `default` if none is configured.
    pub agents: BTreeMap<AgentName, AgentConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: load::default_data_dir(),
            server: ServerConfig::default(),
            docker: DockerSection::default(),
            state: StateConfig::default(),
            lease: LeaseConfig::default(),
            snapshots: SnapshotsConfig::default(),
            workspaces: WorkspacesConfig::default(),
            limits: RequestLimits::default(),
            auth: AuthConfig::default(),
            agents: BTreeMap::new(),
        }
    }
}

/// `[server]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Host names that clients may call it by, besides `localhost` and IP addresses.
    pub hosts: Vec<String>,
    /// After SIGTERM, running calls have this long before they are cancelled.
    pub grace_ms: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 7070)), hosts: Vec::new(), grace_ms: 10_000 }
    }
}

/// `[docker]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DockerSection {
    /// `unix://…`; without it `DOCKER_HOST`, and without that the usual socket.
    pub host: Option<String>,
    /// How long pulling an image may take.
    pub pull_timeout_ms: PullTimeout,
}

/// A default of ten minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct PullTimeout(pub u64);

impl Default for PullTimeout {
    fn default() -> Self {
        Self(600_000)
    }
}

/// `[state]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StateConfig {
    /// Which store.
    pub url: StateUrl,
}

/// Where calls and bindings are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateUrl {
    /// One file under `data_dir`.
    #[default]
    Sqlite,
}

/// `[lease]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LeaseConfig {
    /// Which guard.
    pub url: LeaseUrl,
    /// How long a call waits for a slot that another process holds.
    pub wait_ms: u64,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self { url: LeaseUrl::Local, wait_ms: 30_000 }
    }
}

/// Who may write a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseUrl {
    /// An operating-system lock per slot under `data_dir`.
    #[default]
    Local,
}

/// `[snapshots]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotsConfig {
    /// Which store.
    pub store: SnapshotStoreKind,
    /// When a call's changes are saved.
    pub durability: Durability,
    /// With `lazy`: a snapshot starts within this time of the first unsaved change.
    pub max_lag_ms: u64,
    /// The tools stand still while a snapshot reads.
    pub quiesce: bool,
    /// Longest time of one request to the store; a later answer counts as none.
    pub timeout_ms: u64,
    /// Snapshots of a slot that are kept; the newest one always is.
    pub keep_last: u32,
    /// None that is older is kept.
    pub keep_age_ms: Option<u64>,
    /// Only as many are kept as need at most this much of the store.
    pub keep_bytes: Option<ByteSize>,
    /// 64 hex digits; names of stored content derive from it. Made at first start if absent.
    pub id_secret: Option<IdSecret>,
    /// What is stored is encrypted, if there is a key.
    pub encryption: EncryptionConfig,
    /// With `s3`: which bucket.
    pub s3: S3Section,
    /// With `redis`: which server.
    pub redis: RedisSection,
    /// With `sql`: which database.
    pub sql: SqlSection,
}

impl Default for SnapshotsConfig {
    fn default() -> Self {
        Self {
            store: SnapshotStoreKind::Local,
            durability: Durability::Lazy,
            max_lag_ms: 2000,
            quiesce: false,
            timeout_ms: 60_000,
            keep_last: 10,
            keep_age_ms: None,
            keep_bytes: None,
            id_secret: None,
            encryption: EncryptionConfig::default(),
            s3: S3Section::default(),
            redis: RedisSection::default(),
            sql: SqlSection::default(),
        }
    }
}

/// Where workspaces survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotStoreKind {
    /// Nowhere: a workspace ends with its container, and every result says so.
    None,
    /// Under `data_dir`.
    #[default]
    Local,
    /// In a bucket of an S3-compatible service.
    S3,
    /// In a Redis server.
    Redis,
    /// In an SQLite file or a Postgres database.
    Sql,
}

/// When a call's changes are saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Before its result is returned.
    Call,
    /// Within `max_lag_ms`.
    #[default]
    Lazy,
    /// When the slot is stopped.
    Stop,
}

/// A secret of 32 bytes; its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct IdSecret([u8; 32]);

impl IdSecret {
    /// Its bytes.
    #[must_use]
    pub const fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for IdSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdSecret(…)")
    }
}

impl TryFrom<String> for IdSecret {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
        let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| "expected 64 hex digits (32 bytes)".to_owned())
    }
}

/// `[workspaces]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkspacesConfig {
    /// What holds a workspace to its agent's `limits.workspace`.
    pub limit: WorkspaceLimit,
}

/// What holds a workspace to its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceLimit {
    /// A disk image where the host lets it and has room, otherwise watching.
    #[default]
    Auto,
    /// A disk image; where it cannot be had, calls are refused.
    Image,
    /// A call that writes is stopped once the workspace is too large.
    Watched,
}

/// `[limits]`: bounds of requests.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestLimits {
    /// Largest JSON body of a request, in bytes.
    pub body: ByteSize,
    /// Most calls in one batch.
    pub batch_calls: usize,
    /// A call's time when it names none; queueing does not count.
    pub call_timeout_ms: u64,
    /// How long a request waits for its results.
    pub wait_ms: u64,
    /// How long ended calls and their output are kept.
    pub records_ms: u64,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body: ByteSize::mib(16),
            batch_calls: 64,
            call_timeout_ms: 120_000,
            wait_ms: 60_000,
            records_ms: 7 * 24 * 3600 * 1000,
        }
    }
}

/// `[auth]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Who may call.
    pub mode: AuthMode,
}

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// Whoever holds a key; an admin key is made at first start.
    #[default]
    Keys,
    /// Everyone on loopback.
    None,
}

impl Config {
    /// The configured agents, or the one named `default` when none is.
    #[must_use]
    pub fn agents(&self) -> BTreeMap<AgentName, AgentConfig> {
        if !self.agents.is_empty() {
            return self.agents.clone();
        }
        AgentName::parse("default").map(|name| (name, AgentConfig::default())).into_iter().collect()
    }
}
