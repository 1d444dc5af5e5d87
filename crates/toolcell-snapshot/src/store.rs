//! Where objects and heads are kept.

mod local;
mod memory;
mod name;
mod none;
mod parts;
mod redis;
mod retry;
mod s3;
mod sql;

use crate::error::StoreError;
use async_trait::async_trait;
use bytes::Bytes;
use toolcell_model::ScopeKey;

pub use local::LocalStore;
pub use memory::MemoryStore;
pub use name::{ObjectName, ObjectPrefix};
pub use none::NoneStore;
pub use redis::{RedisConfig, RedisError, RedisStore};
pub use retry::RetryStore;
pub use s3::{ProbeError, S3Config, S3Credentials, S3Store};
pub use sql::{PostgresError, PostgresStore, SqliteObjects};

/// Largest object that a store takes or gives back. A larger one is [`StoreError::TooLarge`], before it is read.
pub const MAX_OBJECT_BYTES: u64 = 64 * 1024 * 1024;
/// Largest head; a larger one is [`StoreError::TooLarge`].
pub const MAX_HEAD_BYTES: u64 = 64 * 1024;

/// Which store it is; what results and receipts say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// In this process's memory: for tests.
    Memory,
    /// A directory of this host.
    Local,
    /// A bucket of an S3-compatible service.
    S3,
    /// Redis.
    Redis,
    /// A relational database.
    Sql,
    /// Keeps nothing.
    None,
}

/// The version of a head as its store sees it; only equality means something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeadVersion(pub String);

/// A head as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadRecord {
    /// Its bytes.
    pub data: Bytes,
    /// Its version: what a compare-and-set expects.
    pub version: HeadVersion,
}

/// One object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: ObjectName,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A part of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    /// In byte order of the names.
    pub objects: Vec<Listed>,
    /// More follow after the last one.
    pub more: bool,
}

/// Immutable objects, and one head per slot that is replaced by compare-and-set.
///
/// What a write has returned for survives the loss of the process and, as far as the store can promise it, of the
/// machine. A reader sees an object or a head completely or not at all. All methods may be dropped at any await point:
/// a write has then happened, or not, or will.
#[async_trait]
pub trait SnapshotStore: std::fmt::Debug + Send + Sync + 'static {
    /// Which store it is.
    fn kind(&self) -> StoreKind;

    /// Whether it throws objects away by design. Heads are kept for as long as the process lives, to fence.
    fn keeps_nothing(&self) -> bool {
        false
    }

    /// Whether what a write has returned for survives the loss of the machine, as far as the store says. Where it does
    /// not, no result may call itself durable.
    fn is_durable(&self) -> bool {
        true
    }

    /// Writes an object that is not there yet.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] whatever the existing bytes are; [`StoreError::TooLarge`]; others of the backend.
    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError>;

    /// Reads an object of at most `max_bytes`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::TooLarge`] before anything is read; others of the backend.
    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError>;

    /// Reads exactly `len` bytes at `offset`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Corrupt`] if the object ends before; others of the backend.
    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError>;

    /// Lists at most `limit` objects whose name begins with `prefix` and comes after `after`, in byte order. A limit of
    /// 0 counts as 1.
    ///
    /// # Errors
    /// Those of the backend.
    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError>;

    /// Removes an object; one that is not there counts as removed.
    ///
    /// # Errors
    /// Those of the backend.
    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError>;

    /// The slot's head.
    ///
    /// # Errors
    /// Those of the backend; an absent head is `None`.
    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError>;

    /// Replaces the slot's head if it is the expected one, where `None` means that there is none.
    ///
    /// # Errors
    /// [`StoreError::PreconditionFailed`] if it is another; [`StoreError::InDoubt`] if the outcome is not known; others
    /// mean that nothing was written.
    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError>;
}

/// How a slot's head is called in messages.
pub(crate) fn head_name(slot: &ScopeKey) -> String {
    format!("{slot}/head")
}

/// The version of a head whose store has none of its own. Heads hold a random commit id, so that equal bytes are one
/// and the same write.
pub(crate) fn version_of(data: &[u8]) -> HeadVersion {
    HeadVersion(blake3::hash(data).to_hex().to_string())
}

pub(crate) fn check_size(object: &impl ToString, bytes: u64, max: u64) -> Result<(), StoreError> {
    if bytes > max { Err(StoreError::TooLarge { object: object.to_string(), bytes, max }) } else { Ok(()) }
}
