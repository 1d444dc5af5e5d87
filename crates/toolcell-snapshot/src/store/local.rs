//! Objects as files of this host.
//!
//! ```text
//! root/objects/{owner}/{class}/{leaf}   objects; complete as soon as they have their name
//! root/heads/{slot}                     heads
//! root/locks/{slot}                     held while a head is compared and replaced
//! root/tmp/{process}/…, {process}.lock  files without a name yet, and the lock that says that their writer lives
//! ```
//!
//! A write goes to a file under `tmp`, is synced, is renamed to where it belongs and the directory is synced, so that a
//! crash leaves either nothing or the whole object. What a crashed process leaves under `tmp` is removed when the next
//! one opens the store.

mod files;

use super::{
    HeadRecord, HeadVersion, ListPage, MAX_HEAD_BYTES, MAX_OBJECT_BYTES, ObjectName, ObjectPrefix, SnapshotStore,
    StoreKind, check_size, head_name,
};
use crate::error::StoreError;
use async_trait::async_trait;
use bytes::Bytes;
use files::Files;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolcell_model::ScopeKey;

/// A directory of this host. It must not be on a network file system: locks and renames would not hold.
///
/// Several processes may use one directory at a time.
#[derive(Debug, Clone)]
pub struct LocalStore {
    files: Arc<Files>,
}

impl LocalStore {
    /// Opens the store in a directory, which is made (mode 0700) if it is not there, and removes what crashed
    /// processes left.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        let object = root.display().to_string();
        let files = blocking(object, move || Files::open(&root)).await?;
        Ok(Self { files: Arc::new(files) })
    }

    /// The directory that it is in.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.files.root()
    }

    async fn run<T: Send + 'static>(
        &self,
        object: String,
        work: impl FnOnce(&Files) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let files = Arc::clone(&self.files);
        blocking(object, move || work(&files)).await
    }
}

async fn blocking<T: Send + 'static>(
    object: String,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // The work itself never panics; a runtime that shuts down cancels it, after which nothing is known.
        Err(error) => Err(StoreError::InDoubt { object, source: error.into() }),
    }
}

#[async_trait]
impl SnapshotStore for LocalStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Local
    }

    fn is_durable(&self) -> bool {
        true
    }

    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError> {
        check_size(name, data.len() as u64, MAX_OBJECT_BYTES)?;
        let name = name.clone();
        self.run(name.to_string(), move |files| files.put(&name, &data)).await
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        let name = name.clone();
        self.run(name.to_string(), move |files| files.get(&name, max_bytes)).await
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        check_size(name, len, MAX_OBJECT_BYTES)?;
        let name = name.clone();
        self.run(name.to_string(), move |files| files.get_range(&name, offset, len)).await
    }

    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        let (prefix, after) = (prefix.clone(), after.cloned());
        self.run(prefix.to_string(), move |files| files.list(&prefix, after.as_ref(), limit.max(1))).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        let name = name.clone();
        self.run(name.to_string(), move |files| files.delete(&name)).await
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        let slot = slot.clone();
        self.run(head_name(&slot), move |files| files.head(&slot)).await
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        check_size(&head_name(slot), data.len() as u64, MAX_HEAD_BYTES)?;
        let (slot, expected) = (slot.clone(), expected.cloned());
        self.run(head_name(&slot), move |files| files.replace_head(&slot, expected.as_ref(), &data)).await
    }
}
