//! Files in memory: one directory of small ones.

use crate::entry::{EntryKind, FetchRequest, Fetched, RestoreItem, ScanEntry, TimeNs, WorkspaceSink, WorkspaceSource};
use crate::error::SourceError;
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::sync::Mutex;
use tokio::sync::mpsc::Sender;

/// Names of files; each holds its name.
#[derive(Debug, Default)]
pub(super) struct Files(pub(super) Mutex<BTreeSet<String>>);

impl Files {
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().clone()
    }

    pub(super) fn add(&self, name: &str) {
        self.0.lock().unwrap().insert(name.to_owned());
    }
}

/// Long ago, so that nothing counts as changed just now.
const THEN: TimeNs = TimeNs { secs: 1_000_000, nanos: 0 };

fn inode(name: &str) -> u64 {
    name.bytes().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

#[async_trait]
impl WorkspaceSource for Files {
    async fn scan(&self, sink: Sender<Vec<ScanEntry>>) -> Result<(), SourceError> {
        let entry = |path: &str, kind| ScanEntry {
            root: 0,
            path: path.as_bytes().to_vec(),
            kind,
            mode: 0o755,
            mtime: THEN,
            ctime: THEN,
            inode: inode(path),
            device: 1,
            nlink: 1,
        };
        let mut entries = vec![entry("", EntryKind::Dir)];
        entries.extend(self.names().iter().map(|name| entry(name, EntryKind::File { size: name.len() as u64 })));
        drop(sink.send(entries).await);
        Ok(())
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, SourceError> {
        let name = String::from_utf8(request.path).unwrap();
        let size = name.len() as u64;
        Ok(Fetched {
            data: if request.max_len == 0 { Vec::new() } else { name.as_bytes().to_vec() },
            next_offset: size,
            end: true,
            size,
            mtime: THEN,
            ctime: THEN,
            inode: inode(&name),
            xattrs: Vec::new(),
        })
    }
}

#[async_trait]
impl WorkspaceSink for Files {
    async fn put(&self, item: RestoreItem) -> Result<(), SourceError> {
        if let RestoreItem::File { path, data, .. } = item {
            assert_eq!(path, data, "a file holds its name");
            self.add(&String::from_utf8(path).unwrap());
        }
        Ok(())
    }

    async fn finish(&self) -> Result<(), SourceError> {
        Ok(())
    }
}
