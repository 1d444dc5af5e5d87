//! Encryption at rest: a store around another one, which sees names and sizes and nothing else.
//!
//! Each object and each head is sealed by itself, bound to its name. The name of everything that a tenant has begins
//! with a slot's key, which is a hash of the tenant among others, so that the name binds the tenant as well. What this
//! cannot notice is an earlier head of the same slot that is put back whole: that is what the generations that hosts
//! have acknowledged are for.

mod seal;

use super::{
    HeadRecord, HeadVersion, ListPage, MAX_HEAD_BYTES, MAX_OBJECT_BYTES, ObjectName, ObjectPrefix, SnapshotStore,
    StoreKind, check_size, head_name,
};
use crate::error::StoreError;
use async_trait::async_trait;
use bytes::Bytes;
use seal::{HEADER_BYTES, Header, Label, SealKey, plain_len, sealed_len};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolcell_model::ScopeKey;

pub(crate) use seal::is_sealed;

/// Headers that are remembered, so that a range costs one request and not two. Beyond it all are forgotten.
const MAX_HEADERS: usize = 4096;
/// From this size on, ciphering gets a thread of its own, so that no other task waits for it.
const BLOCKING_BYTES: usize = 256 * 1024;

/// What a store is encrypted with. Its `Debug` shows nothing.
#[derive(Clone)]
pub struct EncryptionKeys {
    current: SealKey,
    old: Vec<SealKey>,
}

impl EncryptionKeys {
    /// Everything is written with `current`; what was written with one of `old` can be read.
    #[must_use]
    pub fn new(current: &[u8; 32], old: &[[u8; 32]]) -> Self {
        Self { current: SealKey::new(current), old: old.iter().map(SealKey::new).collect() }
    }

    fn of(&self, header: &Header) -> Result<&SealKey, &'static str> {
        let mut keys = std::iter::once(&self.current).chain(&self.old);
        keys.find(|key| key.made(header)).ok_or("it is encrypted with another key, or damaged")
    }
}

impl std::fmt::Debug for EncryptionKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EncryptionKeys(…)")
    }
}

/// A store cannot be used with these keys.
#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    /// It was begun without encryption.
    #[error(
        "what is in this store is not encrypted, and [snapshots.encryption] sets a key: remove the key, or give another place to the store"
    )]
    NotEncrypted,
    /// It was begun with another key.
    #[error(
        "this store is encrypted with another key: give the one that it was made with ([snapshots.encryption] key, or one of old_keys)"
    )]
    OtherKey,
    /// The canary could not be read.
    #[error("while checking the store's canary")]
    Store(#[source] StoreError),
}

/// A store in which everything is encrypted.
#[derive(Debug)]
pub struct EncryptedStore {
    inner: Arc<dyn SnapshotStore>,
    keys: EncryptionKeys,
    headers: Mutex<HashMap<ObjectName, Header>>,
}

impl EncryptedStore {
    /// Largest object that it takes: the bound of the store below, less what sealing adds.
    pub const MAX_OBJECT_BYTES: u64 = plain_len(MAX_OBJECT_BYTES);
    /// Largest head that it takes.
    pub const MAX_HEAD_BYTES: u64 = plain_len(MAX_HEAD_BYTES);

    /// Checks by the store's canary that what is in it, if anything, was written with one of these keys.
    ///
    /// # Errors
    /// [`EncryptionError`].
    pub async fn open(inner: Arc<dyn SnapshotStore>, keys: EncryptionKeys) -> Result<Self, EncryptionError> {
        if !inner.keeps_nothing() {
            match inner.get(&ObjectName::canary(), crate::engine::CANARY_MAX_BYTES).await {
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(EncryptionError::Store(error)),
                Ok(canary) if !is_sealed(&canary) => return Err(EncryptionError::NotEncrypted),
                Ok(canary) => {
                    let header = Header::parse(&canary, MAX_OBJECT_BYTES)
                        .map_err(|detail| EncryptionError::Store(StoreError::corrupt(ObjectName::canary(), detail)))?;
                    keys.of(&header).map_err(|_| EncryptionError::OtherKey)?;
                }
            }
        }
        Ok(Self { inner, keys, headers: Mutex::default() })
    }

    fn headers(&self) -> MutexGuard<'_, HashMap<ObjectName, Header>> {
        self.headers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, name: &ObjectName, header: Header) {
        let mut headers = self.headers();
        if headers.len() >= MAX_HEADERS {
            headers.clear();
        }
        headers.insert(name.clone(), header);
    }

    async fn seal(&self, label: OwnedLabel, plain: Bytes) -> Result<(Bytes, Header), StoreError> {
        let key = self.keys.current.clone();
        ciphering(label, plain.len(), move |label| {
            key.seal(label.borrow(), &plain).map_err(|error| StoreError::internal(label.name(), error))
        })
        .await
        .map(|(sealed, header)| (Bytes::from(sealed), header))
    }

    /// Opens a whole sealed object or head.
    async fn open_whole(&self, label: OwnedLabel, sealed: Bytes) -> Result<Bytes, StoreError> {
        let corrupt = |detail| StoreError::corrupt(label.name(), detail);
        let header = Header::parse(&sealed, MAX_OBJECT_BYTES).map_err(corrupt)?;
        if sealed_len(header.plain_bytes) != sealed.len() as u64 {
            return Err(corrupt("it is not as long as it says"));
        }
        self.open_segments(label, &header, 0, sealed.slice(HEADER_BYTES..)).await
    }

    async fn open_segments(
        &self,
        label: OwnedLabel,
        header: &Header,
        first: u64,
        sealed: Bytes,
    ) -> Result<Bytes, StoreError> {
        let key = self.keys.of(header).map_err(|detail| StoreError::corrupt(label.name(), detail))?.clone();
        let header = header.clone();
        ciphering(label, sealed.len(), move |label| {
            key.open(&header, label.borrow(), first, &sealed)
                .map_err(|detail| StoreError::corrupt(label.name(), detail))
        })
        .await
        .map(Bytes::from)
    }

    async fn range_with(&self, name: &ObjectName, header: &Header, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        let short = || StoreError::corrupt(name, format!("it ends at {}, before {offset} + {len}", header.plain_bytes));
        let span = header.span(offset, len).ok_or_else(short)?;
        let sealed = self.inner.get_range(name, span.sealed_offset, span.sealed_bytes).await?;
        let plain = self.open_segments(OwnedLabel::object(name), header, span.first, sealed).await?;
        let range = || {
            let from = usize::try_from(span.skip).ok()?;
            let until = from.checked_add(usize::try_from(len).ok()?)?;
            (until <= plain.len()).then_some(from..until)
        };
        range().map(|range| plain.slice(range)).ok_or_else(short)
    }
}

/// A label that can go to another thread.
#[derive(Debug)]
enum OwnedLabel {
    Object(String),
    Head(String),
}

impl OwnedLabel {
    fn object(name: &ObjectName) -> Self {
        Self::Object(name.to_string())
    }

    fn head(slot: &ScopeKey) -> Self {
        Self::Head(head_name(slot))
    }

    fn name(&self) -> &str {
        match self {
            Self::Object(name) | Self::Head(name) => name,
        }
    }

    fn borrow(&self) -> Label<'_> {
        match self {
            Self::Object(name) => Label::Object(name),
            Self::Head(name) => Label::Head(name),
        }
    }
}

async fn ciphering<T: Send + 'static>(
    label: OwnedLabel,
    bytes: usize,
    work: impl FnOnce(&OwnedLabel) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    if bytes < BLOCKING_BYTES {
        return work(&label);
    }
    let object = label.name().to_owned();
    match tokio::task::spawn_blocking(move || work(&label)).await {
        Ok(done) => done,
        // Only a runtime that shuts down cancels it; nothing has been sent.
        Err(error) => Err(StoreError::Unavailable { object, source: error.into() }),
    }
}

/// Sizes in the caller's terms.
fn in_plain_sizes(error: StoreError) -> StoreError {
    match error {
        StoreError::TooLarge { object, bytes, max } => {
            StoreError::TooLarge { object, bytes: plain_len(bytes), max: plain_len(max) }
        }
        error => error,
    }
}

#[async_trait]
impl SnapshotStore for EncryptedStore {
    fn kind(&self) -> StoreKind {
        self.inner.kind()
    }

    fn keeps_nothing(&self) -> bool {
        self.inner.keeps_nothing()
    }

    fn is_durable(&self) -> bool {
        self.inner.is_durable()
    }

    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError> {
        check_size(name, data.len() as u64, Self::MAX_OBJECT_BYTES)?;
        let (sealed, header) = self.seal(OwnedLabel::object(name), data).await?;
        self.inner.put_if_absent(name, sealed).await?;
        self.remember(name, header);
        Ok(())
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        let sealed = self.inner.get(name, sealed_len(max_bytes)).await.map_err(in_plain_sizes)?;
        self.open_whole(OwnedLabel::object(name), sealed).await
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        check_size(name, len, MAX_OBJECT_BYTES)?;
        let known = self.headers().get(name).cloned();
        if let Some(header) = known {
            match self.range_with(name, &header, offset, len).await {
                // Perhaps somebody has made the object anew: its own header tells.
                Err(StoreError::Corrupt { .. }) => drop(self.headers().remove(name)),
                read => return read,
            }
        }
        let header = self.inner.get_range(name, 0, HEADER_BYTES as u64).await?;
        let header =
            Header::parse(&header, Self::MAX_OBJECT_BYTES).map_err(|detail| StoreError::corrupt(name, detail))?;
        let read = self.range_with(name, &header, offset, len).await?;
        self.remember(name, header);
        Ok(read)
    }

    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        let mut page = self.inner.list(prefix, after, limit).await?;
        for object in &mut page.objects {
            object.bytes = plain_len(object.bytes);
        }
        Ok(page)
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        self.headers().remove(name);
        self.inner.delete(name).await
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        let Some(HeadRecord { data, version }) = self.inner.head_get(slot).await? else {
            return Ok(None);
        };
        let data = self.open_whole(OwnedLabel::head(slot), data).await?;
        Ok(Some(HeadRecord { data, version }))
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        check_size(&head_name(slot), data.len() as u64, Self::MAX_HEAD_BYTES)?;
        let (sealed, _) = self.seal(OwnedLabel::head(slot), data).await?;
        self.inner.head_cas(slot, expected, sealed).await
    }
}
