//! Objects in Redis, for deployments that have nothing else.
//!
//! ```text
//! prefix{owner}:meta:{class}/{leaf}   hash: how many parts, how many bytes, which upload
//! prefix{owner}:part:{upload}:{n}     strings of at most PART_BYTES; expire until the object is published
//! prefix{owner}:index                 sorted set of class/leaf, all of one score: in byte order
//! prefix{owner}:head                  hash: version, data
//! prefix owners                       sorted set of owners
//! ```
//!
//! An object is there when its `meta` is, which one script makes together with the index, and only if every part is
//! still there. All keys of one owner share a hash tag, so that a cluster keeps them together.

mod fault;
mod open;
mod scripts;

use super::{
    HeadRecord, HeadVersion, ListPage, Listed, MAX_HEAD_BYTES, MAX_OBJECT_BYTES, ObjectName, ObjectPrefix,
    SnapshotStore, StoreKind, check_size, head_name, version_of,
};
use crate::error::StoreError;
use ::redis::aio::ConnectionManager;
use ::redis::{FromRedisValue, cmd};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use fault::{fault, malformed};
use scripts::Scripts;
use std::sync::Arc;
use toolcell_model::ScopeKey;

pub use open::{RedisConfig, RedisError};

/// Largest value; an object has as many as it needs.
const PART_BYTES: usize = 4 * 1024 * 1024;
/// Parts that were not published within this are gone, and with them the upload of a writer that crashed.
const PART_MILLIS: u64 = 3_600_000;
/// Names that are asked for at a time.
const PAGE: usize = 1000;

/// A Redis server, or a part of one.
#[derive(Clone)]
pub struct RedisStore {
    connection: ConnectionManager,
    prefix: String,
    scripts: Arc<Scripts>,
    durable: bool,
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore")
            .field("prefix", &self.prefix)
            .field("durable", &self.durable)
            .finish_non_exhaustive()
    }
}

/// What is known of an object, besides how many parts it has, which follows from its bytes.
struct Meta {
    bytes: u64,
    upload: String,
}

impl RedisStore {
    fn key(&self, owner: &str, rest: &str) -> String {
        format!("{}{{{owner}}}:{rest}", self.prefix)
    }

    fn meta_key(&self, name: &ObjectName) -> String {
        let (owner, class, leaf) = name.parts();
        self.key(owner, &format!("meta:{class}/{leaf}"))
    }

    fn part_prefix(&self, name: &ObjectName, upload: &str) -> String {
        self.key(name.parts().0, &format!("part:{upload}:"))
    }

    /// Asks something that changes nothing.
    async fn ask<T: FromRedisValue>(&self, command: &::redis::Cmd, object: &str) -> Result<T, StoreError> {
        let mut connection = self.connection.clone();
        command.query_async(&mut connection).await.map_err(|error| fault(&error, object, false))
    }

    async fn meta(&self, name: &ObjectName) -> Result<Meta, StoreError> {
        let key = self.meta_key(name);
        let fields = cmd("HMGET").arg(key).arg("bytes").arg("upload").to_owned();
        let (bytes, upload): (Option<u64>, Option<String>) = self.ask(&fields, name.as_str()).await?;
        match (bytes, upload) {
            (Some(bytes), Some(upload)) => Ok(Meta { bytes, upload }),
            (None, None) => Err(StoreError::NotFound { object: name.to_string() }),
            _ => Err(StoreError::corrupt(name, "its description is not complete")),
        }
    }

    /// Reads `from..until` of an object of which `meta` is known.
    async fn read(&self, name: &ObjectName, meta: &Meta, from: u64, until: u64) -> Result<Bytes, StoreError> {
        let part_bytes = PART_BYTES as u64;
        let prefix = self.part_prefix(name, &meta.upload);
        let mut data = BytesMut::new();
        let mut at = from;
        while at < until {
            let (part, offset) = (at / part_bytes, at % part_bytes);
            let end = until.min((part + 1).saturating_mul(part_bytes));
            let last = offset + (end - at) - 1;
            let range = cmd("GETRANGE").arg(format!("{prefix}{part}")).arg(offset).arg(last).to_owned();
            let piece: Vec<u8> = self.ask(&range, name.as_str()).await?;
            if piece.len() as u64 != end - at {
                // Deleted meanwhile, or not what was written.
                self.meta(name).await?;
                return Err(StoreError::corrupt(name, format!("part {part} is missing or too short")));
            }
            data.extend_from_slice(&piece);
            at = end;
        }
        Ok(data.freeze())
    }

    /// Members of an owner's index that come after `after`, at most a page.
    async fn members(&self, owner: &str, from: &str, after: bool) -> Result<Vec<String>, StoreError> {
        let low = match (from, after) {
            ("", _) => "-".to_owned(),
            (from, true) => format!("({from}"),
            (from, false) => format!("[{from}"),
        };
        let command =
            cmd("ZRANGEBYLEX").arg(self.key(owner, "index")).arg(low).arg("+").arg("LIMIT").arg(0).arg(PAGE).to_owned();
        self.ask(&command, owner).await
    }

    /// Owners that begin with `prefix`, from `from` on.
    async fn owners(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        let low = if from > prefix { from } else { prefix };
        let low = if low.is_empty() { "-".to_owned() } else { format!("[{low}") };
        let command = cmd("ZRANGEBYLEX").arg(format!("{}owners", self.prefix)).arg(low).arg("+").to_owned();
        let mut owners: Vec<String> = self.ask(&command, "the owners").await?;
        owners.retain(|owner| owner.starts_with(prefix));
        Ok(owners)
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
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| StoreError::internal(name, error.to_string()))?;
        let upload = data_encoding::HEXLOWER.encode(&random);
        let (owner, class, leaf) = name.parts();
        let prefix = self.part_prefix(name, &upload);
        let parts = data.chunks(PART_BYTES).count();
        let mut connection = self.connection.clone();
        // An owner without objects is harmless; an object without its owner would not be listed.
        let known = cmd("ZADD").arg(format!("{}owners", self.prefix)).arg(0).arg(owner).to_owned();
        let _: i64 = self.ask(&known, name.as_str()).await?;
        if parts > 1 {
            for (at, part) in data.chunks(PART_BYTES).enumerate() {
                let set = cmd("SET").arg(format!("{prefix}{at}")).arg(part).arg("PX").arg(PART_MILLIS).to_owned();
                // Nobody sees a part: one that is not known to be written fails the whole, and expires.
                let _: () = self.ask(&set, name.as_str()).await?;
            }
        }
        let inline: &[u8] = if parts == 1 { &data } else { &[] };
        let published: i64 = self
            .scripts
            .publish
            .key(self.meta_key(name))
            .key(self.key(owner, "index"))
            .arg(format!("{class}/{leaf}"))
            .arg(parts)
            .arg(data.len())
            .arg(upload)
            .arg(&prefix)
            .arg(inline)
            .invoke_async(&mut connection)
            .await
            .map_err(|error| fault(&error, name.as_str(), true))?;
        match published {
            1 => Ok(()),
            0 => Err(StoreError::AlreadyExists { object: name.to_string() }),
            _ => Err(StoreError::Unavailable {
                object: name.to_string(),
                source: "a part of it expired or was evicted before all of it was there".into(),
            }),
        }
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        let meta = self.meta(name).await?;
        check_size(name, meta.bytes, max_bytes)?;
        self.read(name, &meta, 0, meta.bytes).await
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        check_size(name, len, MAX_OBJECT_BYTES)?;
        let meta = self.meta(name).await?;
        match offset.checked_add(len).filter(|end| *end <= meta.bytes) {
            Some(end) => self.read(name, &meta, offset, end).await,
            None => Err(StoreError::corrupt(name, format!("it ends at {}, before {offset} + {len}", meta.bytes))),
        }
    }

    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        let limit = limit.max(1);
        let (owner_prefix, inner_prefix) = match prefix.as_str().split_once('/') {
            Some((owner, rest)) => (owner, Some(rest)),
            None => (prefix.as_str(), None),
        };
        let (after_owner, after_member) = match after.map(ObjectName::parts) {
            Some((owner, class, leaf)) => (owner, format!("{class}/{leaf}")),
            None => ("", String::new()),
        };
        let mut page = ListPage::default();
        for owner in self.owners(owner_prefix, after_owner).await? {
            if inner_prefix.is_some() && owner != owner_prefix {
                continue;
            }
            let inner = inner_prefix.unwrap_or_default();
            let resumes = owner == after_owner && after_member.as_str() >= inner;
            let (mut from, mut exclusive) =
                if resumes { (after_member.clone(), true) } else { (inner.to_owned(), false) };
            loop {
                let members = self.members(&owner, &from, exclusive).await?;
                let full = members.len() == PAGE;
                for member in members {
                    if !member.starts_with(inner) {
                        break;
                    }
                    let text = format!("{owner}/{member}");
                    let name = ObjectName::parse(text).map_err(|error| malformed(prefix.as_str(), &error))?;
                    // One that was deleted since is not listed.
                    match self.meta(&name).await {
                        Ok(meta) if page.objects.len() < limit => {
                            page.objects.push(Listed { name, bytes: meta.bytes });
                        }
                        Ok(_) => {
                            page.more = true;
                            return Ok(page);
                        }
                        Err(StoreError::NotFound { .. }) => {}
                        Err(error) => return Err(error),
                    }
                    (from, exclusive) = (member, true);
                }
                if !full || !from.starts_with(inner) {
                    break;
                }
            }
        }
        Ok(page)
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        let (owner, class, leaf) = name.parts();
        let mut connection = self.connection.clone();
        let removed: Result<i64, _> = self
            .scripts
            .delete
            .key(self.meta_key(name))
            .key(self.key(owner, "index"))
            .arg(format!("{class}/{leaf}"))
            .arg(self.key(owner, "part:"))
            .invoke_async(&mut connection)
            .await;
        removed.map(|_| ()).map_err(|error| fault(&error, name.as_str(), false))
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        let object = head_name(slot);
        let key = self.key(slot.as_str(), "head");
        let bytes: u64 = self.ask(cmd("HSTRLEN").arg(&key).arg("data"), &object).await?;
        check_size(&object, bytes, MAX_HEAD_BYTES)?;
        let (version, data): (Option<String>, Option<Vec<u8>>) =
            self.ask(cmd("HMGET").arg(&key).arg("version").arg("data"), &object).await?;
        match (version, data) {
            (Some(version), Some(data)) => Ok(Some(HeadRecord { data: data.into(), version: HeadVersion(version) })),
            (None, None) => Ok(None),
            _ => Err(StoreError::corrupt(object, "half of it is missing")),
        }
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
        let mut connection = self.connection.clone();
        let replaced: i64 = self
            .scripts
            .replace_head
            .key(self.key(slot.as_str(), "head"))
            // No version is empty.
            .arg(expected.map_or("", |version| version.0.as_str()))
            .arg(&version.0)
            .arg(&data[..])
            .invoke_async(&mut connection)
            .await
            .map_err(|error| fault(&error, &object, true))?;
        if replaced == 1 { Ok(version) } else { Err(StoreError::PreconditionFailed { object }) }
    }
}
