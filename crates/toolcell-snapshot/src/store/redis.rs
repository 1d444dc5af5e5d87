//! Objects and heads in a Redis server.
//!
//! ```text
//! PREFIX owners                          sorted set: the owners (slots, `store`) that have or had objects
//! PREFIX {owner}:index                   sorted set: `class/leaf` of each object
//! PREFIX {owner}:object:class/leaf       hash: bytes, id
//! PREFIX {owner}:part:id:N               string: a part of an object
//! PREFIX {owner}:head                    hash: version, data
//! ```
//!
//! The parts of an object are written first, with a time to live; one script then takes the time to live from them,
//! writes the hash and the index. So an object is there whole or not at all, and what a crashed writer leaves goes
//! away by itself. All keys of an owner have one hash tag. Nothing that is visible ever has a time to live, which is
//! why the volatile-* eviction policies are harmless and the allkeys-* ones are refused.

mod connection;
mod failure;
mod heads;
mod listing;
mod objects;
mod open;
mod script;

use super::{
    HeadRecord, HeadVersion, ListPage, MAX_HEAD_BYTES, MAX_OBJECT_BYTES, ObjectName, ObjectPrefix, SnapshotStore,
    StoreKind, check_size, head_name,
};
use crate::error::StoreError;
use async_trait::async_trait;
use bytes::Bytes;
use connection::Connections;
use std::fmt;
use toolcell_model::ScopeKey;

pub use open::{RedisConfig, RedisError};

/// A Redis server, version 5 or later.
#[derive(Debug)]
pub struct RedisStore {
    connections: Connections,
    prefix: String,
    durable: bool,
}

impl RedisStore {
    fn key(&self, owner: &str, rest: fmt::Arguments<'_>) -> String {
        format!("{}{{{owner}}}:{rest}", self.prefix)
    }
}

#[async_trait]
impl SnapshotStore for RedisStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Redis
    }

    fn is_durable(&self) -> bool {
        self.durable
    }

    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError> {
        check_size(name, data.len() as u64, MAX_OBJECT_BYTES)?;
        self.put(name, &data).await
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        self.read(name, max_bytes.min(MAX_OBJECT_BYTES), None).await
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        check_size(name, len, MAX_OBJECT_BYTES)?;
        self.read(name, MAX_OBJECT_BYTES, Some((offset, len))).await
    }

    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        self.list_page(prefix, after, limit.max(1)).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        self.remove(name).await
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        self.head(slot).await
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        check_size(&head_name(slot), data.len() as u64, MAX_HEAD_BYTES)?;
        self.replace_head(slot, expected, &data).await
    }
}
