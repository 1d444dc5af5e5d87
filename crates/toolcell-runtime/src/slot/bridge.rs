//! The guest's workspace as the snapshot engine wants it. The two crates do not know each other; their types meet
//! here, field by field.

use async_trait::async_trait;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use toolcell_protocol as wire;
use toolcell_sandbox::{GuestLink, Quiet, SandboxError};
use toolcell_snapshot::{
    EntryKind, FetchRequest, Fetched, Meta, RestoreItem, ScanEntry, SourceError, TimeNs, WorkspaceSink,
    WorkspaceSource, Xattrs,
};

/// A snapshot that reads for longer than this lets the tools go on, and the log says so.
const LONGEST_QUIET: Duration = Duration::from_secs(60);

/// A running container's persisted roots, to be read.
#[derive(Debug)]
pub(crate) struct GuestSource<'a> {
    link: &'a GuestLink,
    roots: &'a [String],
    /// The tools stand still from the scan to the last byte that is read.
    quiesce: bool,
    quiet: tokio::sync::Mutex<Option<Quiet>>,
}

/// A running container's persisted roots, to be filled.
#[derive(Debug)]
pub(crate) struct GuestSink<'a> {
    restore: toolcell_sandbox::Restore<'a>,
}

impl<'a> GuestSource<'a> {
    pub(crate) fn new(link: &'a GuestLink, roots: &'a [String], quiesce: bool) -> Self {
        Self { link, roots, quiesce, quiet: tokio::sync::Mutex::new(None) }
    }
}

impl<'a> GuestSink<'a> {
    /// Empties the roots first.
    pub(crate) fn begin(link: &'a GuestLink, roots: &[String]) -> Result<Self, SandboxError> {
        Ok(Self { restore: link.restore(roots, true)? })
    }

    /// Ends a restore of nothing: the roots are empty and belong to the tool user.
    pub(crate) async fn finish_empty(self) -> Result<(), SandboxError> {
        self.restore.finish().await
    }
}

#[async_trait]
impl WorkspaceSource for GuestSource<'_> {
    async fn scan(&self, sink: Sender<Vec<ScanEntry>>) -> Result<(), SourceError> {
        if self.quiesce {
            match self.link.quiesce(LONGEST_QUIET).await {
                Ok(quiet) => *self.quiet.lock().await = Some(quiet),
                // A workspace that is saved while it changes is better than one that is not saved.
                Err(error) => {
                    tracing::warn!(%error, "the tools could not be stopped; the workspace is saved as it changes")
                }
            }
        }
        let mut scan = self.link.scan(self.roots).map_err(source_error)?;
        while let Some(entries) = scan.next().await.map_err(source_error)? {
            let entries = entries.into_iter().map(scan_entry).collect();
            if sink.send(entries).await.is_err() {
                // The engine has refused the list, and has the error.
                break;
            }
        }
        Ok(())
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, SourceError> {
        let FetchRequest { root, path, offset, max_len, want_xattrs } = request;
        let Some(root) = self.roots.get(usize::from(root)) else {
            return Err(SourceError::Malformed { detail: format!("root {root} was not named") });
        };
        let part = self.link.fetch(root, &path, offset, max_len, want_xattrs).await.map_err(source_error)?;
        Ok(Fetched {
            data: part.data.into_vec(),
            next_offset: part.next_offset,
            end: part.end,
            size: part.size,
            mtime: time(part.mtime),
            ctime: time(part.ctime),
            inode: part.inode,
            xattrs: part.xattrs.into_iter().map(|(name, value)| (name.into_vec(), value.into_vec())).collect(),
        })
    }

    async fn done_reading(&self) {
        let Some(quiet) = self.quiet.lock().await.take() else { return };
        match self.link.resume(quiet).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!(
                seconds = LONGEST_QUIET.as_secs(),
                "reading the workspace took too long: the tools went on meanwhile"
            ),
            Err(error) => tracing::warn!(%error, "the guest did not say that the tools go on"),
        }
    }
}

#[async_trait]
impl WorkspaceSink for GuestSink<'_> {
    async fn put(&self, item: RestoreItem) -> Result<(), SourceError> {
        self.restore.put(restore_item(item)).await.map_err(source_error)
    }

    async fn finish(&self) -> Result<(), SourceError> {
        self.restore.finish().await.map_err(source_error)
    }
}

fn scan_entry(entry: wire::ScanEntry) -> ScanEntry {
    ScanEntry {
        root: entry.root,
        path: entry.path.into_vec(),
        kind: match entry.kind {
            wire::EntryKind::Dir => EntryKind::Dir,
            wire::EntryKind::File { size } => EntryKind::File { size },
            wire::EntryKind::Symlink { target } => EntryKind::Symlink { target: target.into_vec() },
            wire::EntryKind::Special => EntryKind::Special,
        },
        mode: entry.mode,
        mtime: time(entry.mtime),
        ctime: time(entry.ctime),
        inode: entry.inode,
        device: entry.device,
        nlink: entry.nlink,
    }
}

fn restore_item(item: RestoreItem) -> wire::RestoreItem {
    let bytes = wire::Bytes::from;
    match item {
        RestoreItem::Dir { root, path, meta: m } => wire::RestoreItem::Dir { root, path: bytes(path), meta: meta(m) },
        RestoreItem::File { root, path, meta: m, size, data, complete } => {
            wire::RestoreItem::File { root, path: bytes(path), meta: meta(m), size, data: bytes(data), complete }
        }
        RestoreItem::Extent { root, path, offset, data } => {
            wire::RestoreItem::Extent { root, path: bytes(path), offset, data: bytes(data) }
        }
        RestoreItem::FileEnd { root, path } => wire::RestoreItem::FileEnd { root, path: bytes(path) },
        RestoreItem::Symlink { root, path, target, meta: m } => {
            wire::RestoreItem::Symlink { root, path: bytes(path), target: bytes(target), meta: meta(m) }
        }
        RestoreItem::Hardlink { root, path, to } => {
            wire::RestoreItem::Hardlink { root, path: bytes(path), to: bytes(to) }
        }
    }
}

fn meta(meta: Meta) -> wire::EntryMeta {
    wire::EntryMeta {
        mode: meta.mode,
        mtime: wire::TimeNs { secs: meta.mtime.secs, nanos: meta.mtime.nanos },
        xattrs: xattrs(meta.xattrs),
    }
}

fn xattrs(xattrs: Xattrs) -> Vec<(wire::Bytes, wire::Bytes)> {
    xattrs.into_iter().map(|(name, value)| (wire::Bytes::from(name), wire::Bytes::from(value))).collect()
}

fn time(time: wire::TimeNs) -> TimeNs {
    TimeNs { secs: time.secs, nanos: time.nanos }
}

fn source_error(error: SandboxError) -> SourceError {
    use wire::ErrorCode;
    let guest = match &error {
        SandboxError::Guest(guest) => guest,
        SandboxError::Protocol { .. } => return SourceError::Malformed { detail: error.to_string() },
        _ => return SourceError::Unavailable { detail: error.to_string() },
    };
    let detail = guest.message.clone();
    match guest.code {
        // The path is no longer what the scan said: replaced by a directory, a link, or nothing.
        ErrorCode::NotFound
        | ErrorCode::NotADirectory
        | ErrorCode::IsDirectory
        | ErrorCode::NotRegular
        | ErrorCode::TooManyLinks
        | ErrorCode::ChangedSinceDecision => SourceError::Vanished,
        ErrorCode::PermissionDenied | ErrorCode::OutsideRoots => SourceError::Denied { detail },
        ErrorCode::NoSpace => SourceError::NoSpace { detail },
        ErrorCode::TooLarge => SourceError::TooLarge { detail },
        ErrorCode::Invalid => SourceError::Malformed { detail },
        ErrorCode::AlreadyExists | ErrorCode::NoShell | ErrorCode::TooManyProcesses | ErrorCode::Io => {
            SourceError::Internal { detail }
        }
    }
}
