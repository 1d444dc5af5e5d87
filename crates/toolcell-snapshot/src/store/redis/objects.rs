//! Objects.

use super::failure::Effect;
use super::script::{PUBLISH, REMOVE};
use super::{MAX_OBJECT_BYTES, ObjectName, RedisStore, check_size};
use crate::error::StoreError;
use crate::store::parts::{self, PART_BYTES, Piece};
use bytes::Bytes;

/// Parts that have not been published by then are removed by the server: their writer is gone. A writer that takes
/// longer for one object finds its parts gone and fails.
const UNPUBLISHED_SECONDS: u64 = 15 * 60;
/// How often a reader or remover begins again when the object is removed and made anew under its hands.
const ATTEMPTS: usize = 8;

/// What stands in an object's hash.
struct Meta {
    bytes: u64,
    id: String,
}

/// The keys of one object.
struct Keys<'a> {
    store: &'a RedisStore,
    owner: &'a str,
    /// `class/leaf`
    member: &'a str,
    object: String,
    index: String,
}

impl Keys<'_> {
    fn part(&self, id: &str, part: u64) -> String {
        self.store.key(self.owner, format_args!("part:{id}:{part}"))
    }

    fn parts(&self, meta: &Meta) -> Vec<String> {
        (0..parts::count(meta.bytes)).map(|part| self.part(&meta.id, part)).collect()
    }
}

impl RedisStore {
    pub(super) fn object_key(&self, owner: &str, member: &str) -> String {
        self.key(owner, format_args!("object:{member}"))
    }

    pub(super) fn index_key(&self, owner: &str) -> String {
        self.key(owner, format_args!("index"))
    }

    pub(super) fn owners_key(&self) -> String {
        format!("{}owners", self.prefix)
    }

    fn keys<'a>(&'a self, name: &'a ObjectName) -> Keys<'a> {
        let (owner, member) = name.as_str().split_once('/').unwrap_or_default();
        Keys { store: self, owner, member, object: self.object_key(owner, member), index: self.index_key(owner) }
    }

    async fn meta(&self, name: &ObjectName, keys: &Keys<'_>) -> Result<Option<Meta>, StoreError> {
        let mut command = redis::cmd("HMGET");
        command.arg(&keys.object).arg("bytes").arg("id");
        let found: (Option<String>, Option<String>) =
            self.connections.command(name.as_str(), Effect::Hidden, &command).await?;
        match found {
            (None, None) => Ok(None),
            (Some(bytes), Some(id)) => match bytes.parse() {
                // The id becomes part of keys, and the size a number of requests.
                Ok(bytes)
                    if bytes <= MAX_OBJECT_BYTES && id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()) =>
                {
                    Ok(Some(Meta { bytes, id }))
                }
                Ok(_) | Err(_) => Err(StoreError::corrupt(name, "its size or its id is not one")),
            },
            (Some(_), None) | (None, Some(_)) => Err(StoreError::corrupt(name, "its size or its id is missing")),
        }
    }

    pub(super) async fn put(&self, name: &ObjectName, data: &Bytes) -> Result<(), StoreError> {
        let keys = self.keys(name);
        let count = parts::count(data.len() as u64);
        let exists = || StoreError::AlreadyExists { object: name.to_string() };
        if count > 1 && self.meta(name, &keys).await?.is_some() {
            return Err(exists());
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| StoreError::internal(name, error))?;
        let meta = Meta { bytes: data.len() as u64, id: data_encoding::HEXLOWER.encode(&random) };
        let part_keys = keys.parts(&meta);
        for (part, key) in (0..count.saturating_sub(1)).zip(&part_keys) {
            let mut command = redis::cmd("SET");
            command.arg(key).arg(parts::of(data, part)).arg("EX").arg(UNPUBLISHED_SECONDS);
            self.connections.command::<()>(name.as_str(), Effect::Hidden, &command).await?;
        }
        // Another slot in a cluster, so not in the script; an owner without objects does no harm.
        let mut command = redis::cmd("ZADD");
        command.arg(self.owners_key()).arg(0).arg(keys.owner);
        self.connections.command::<i64>(name.as_str(), Effect::Hidden, &command).await?;
        let last = parts::of(data, count.saturating_sub(1));
        let published: i64 = self
            .connections
            .script(name.as_str(), Effect::Visible, &PUBLISH.script, PUBLISH.text, |command| {
                command.arg(2 + part_keys.len()).arg(&keys.object).arg(&keys.index);
                command.arg(&part_keys).arg(meta.bytes).arg(&meta.id).arg(keys.member).arg(last);
            })
            .await?;
        match published {
            1 => Ok(()),
            0 => Err(exists()),
            _ => Err(StoreError::Unavailable {
                object: name.to_string(),
                source: "a part of it was gone before the last one was written".into(),
            }),
        }
    }

    /// All of an object, or a range of it.
    pub(super) async fn read(
        &self,
        name: &ObjectName,
        max_bytes: u64,
        range: Option<(u64, u64)>,
    ) -> Result<Bytes, StoreError> {
        let keys = self.keys(name);
        let mut seen: Option<String> = None;
        for _ in 0..ATTEMPTS {
            let meta = self.meta(name, &keys).await?;
            let meta = meta.ok_or_else(|| StoreError::NotFound { object: name.to_string() })?;
            check_size(name, meta.bytes, max_bytes)?;
            let (offset, len) = range.unwrap_or((0, meta.bytes));
            let pieces = parts::pieces(name.as_str(), meta.bytes, offset, len)?;
            if let Some(data) = self.read_pieces(name, &keys, &meta, &pieces, len).await? {
                return Ok(data);
            }
            if seen.as_ref() == Some(&meta.id) {
                return Err(StoreError::corrupt(name, "a part of it is missing or has another size"));
            }
            // Removed meanwhile, perhaps; then it is gone or another one now.
            seen = Some(meta.id);
        }
        Err(StoreError::Unavailable { object: name.to_string(), source: "it is made anew all the time".into() })
    }

    /// `None` if a part is not what it should be.
    async fn read_pieces(
        &self,
        name: &ObjectName,
        keys: &Keys<'_>,
        meta: &Meta,
        pieces: &[Piece],
        len: u64,
    ) -> Result<Option<Bytes>, StoreError> {
        // At most `MAX_OBJECT_BYTES`: both the object and the range have been checked.
        let mut data = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
        for Piece { part, bytes } in pieces {
            let key = keys.part(&meta.id, *part);
            let mut command = redis::cmd("GETRANGE");
            // Never more than a part, however long the value is; a part that has to end here is asked for one byte more.
            let at_end = bytes.end == parts::size(meta.bytes, *part) && bytes.start == 0;
            command.arg(&key).arg(bytes.start).arg(if at_end { PART_BYTES } else { bytes.end - 1 });
            let found: Vec<u8> = self.connections.command(name.as_str(), Effect::Hidden, &command).await?;
            if found.len() as u64 != bytes.end - bytes.start {
                return Ok(None);
            }
            data.extend_from_slice(&found);
        }
        Ok(Some(Bytes::from(data)))
    }

    pub(super) async fn remove(&self, name: &ObjectName) -> Result<(), StoreError> {
        let keys = self.keys(name);
        for _ in 0..ATTEMPTS {
            let Some(meta) = self.meta(name, &keys).await? else { return Ok(()) };
            let part_keys = keys.parts(&meta);
            let removed: i64 = self
                .connections
                .script(name.as_str(), Effect::Visible, &REMOVE.script, REMOVE.text, |command| {
                    command.arg(2 + part_keys.len()).arg(&keys.object).arg(&keys.index);
                    command.arg(&part_keys).arg(&meta.id).arg(keys.member);
                })
                .await?;
            if removed == 1 {
                return Ok(());
            }
        }
        Err(StoreError::Unavailable { object: name.to_string(), source: "it is made anew all the time".into() })
    }
}
