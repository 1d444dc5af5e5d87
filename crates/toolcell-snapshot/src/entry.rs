//! The workspace as the host sees it: what a scan lists, what a read returns, what a restore writes.

use crate::error::SourceError;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::Sender;

/// Longest path beneath a root, in bytes: longer than what one system call takes, so that a deep tree is no way to
/// escape from being saved. A scan or tree with a longer one is refused.
pub const MAX_PATH_BYTES: usize = 64 * 1024;
/// Longest name of one entry, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// Deepest directory beneath a root. A scan or tree that goes deeper is refused.
pub const MAX_DEPTH: usize = 4096;
/// Longest target of a symbolic link, in bytes.
pub const MAX_TARGET_BYTES: usize = 4095;
/// Most entries of one snapshot, over all roots. A scan or tree with more is refused.
pub const MAX_ENTRIES: usize = 1_000_000;
/// Most extended attributes of one entry; more is refused.
pub const MAX_XATTRS: usize = 10_000;
/// Most bytes of names and values of one entry's extended attributes; more is refused.
pub const MAX_XATTR_BYTES: usize = 192 * 1024;
/// Most bytes of data in one [`RestoreItem`], and most that one [`FetchRequest`] asks for.
pub const MAX_ITEM_BYTES: usize = 1024 * 1024;
/// The mode bits that a snapshot keeps. Set-user-id and set-group-id are dropped: owners are not kept, so that a
/// restored file with such a bit would lend the wrong identity.
pub const MODE_BITS: u32 = 0o1777;

/// A point in time as file systems keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct TimeNs {
    /// Seconds since 1970, negative before.
    pub secs: i64,
    /// Nanoseconds in the second, below 1 000 000 000.
    pub nanos: u32,
}

/// One entry of a scan. Everything in it is untrusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanEntry {
    /// Which of the roots that the caller named.
    pub root: u16,
    /// Path relative to the root; empty for the root itself.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits, `07777`.
    pub mode: u32,
    /// Last change of the content.
    pub mtime: TimeNs,
    /// Last change of content or metadata.
    pub ctime: TimeNs,
    /// Inode number.
    pub inode: u64,
    /// Device number.
    pub device: u64,
    /// How many names the inode has.
    pub nlink: u32,
}

/// What a scanned entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Dir,
    /// A regular file.
    File {
        /// Its size in bytes.
        size: u64,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points, as it is written there.
        target: Vec<u8>,
    },
    /// A FIFO, socket or device: counted, never kept.
    Special,
}

/// A request for a part of a file, or for the attributes of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// Which root.
    pub root: u16,
    /// Path relative to the root.
    pub path: Vec<u8>,
    /// Where to start.
    pub offset: u64,
    /// Most bytes of data to return; 0 for a directory, of which only the attributes are wanted.
    pub max_len: u32,
    /// Whether to return the extended attributes.
    pub want_xattrs: bool,
}

/// Extended attributes: names and values.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fetched {
    /// The bytes at the requested offset; empty where a hole starts there, at the end, and for a directory.
    pub data: Vec<u8>,
    /// Where the next data starts: at least `offset + data.len()`, and what lies between is a hole. At the end, the
    /// size.
    pub next_offset: u64,
    /// Nothing follows. A `next_offset` that lies before what was read then says that the file has become shorter.
    pub end: bool,
    /// Size, taken *after* the data was read, like the three fields below.
    pub size: u64,
    /// Last change of the content.
    pub mtime: TimeNs,
    /// Last change of content or metadata.
    pub ctime: TimeNs,
    /// Inode number.
    pub inode: u64,
    /// The extended attributes in the `user.` namespace, if they were asked for.
    pub xattrs: Xattrs,
}

/// Where a snapshot's files come from.
///
/// Implementations read without following links, never cross a mount point, and describe what is there; the engine
/// checks all of it.
#[async_trait]
pub trait WorkspaceSource: Send + Sync {
    /// Sends every entry of every root, in batches, a directory before what is in it. The root itself comes first,
    /// with an empty path. Returns when everything is sent; the sink closes early if the engine refuses the list.
    ///
    /// # Errors
    /// Any [`SourceError`]; the snapshot fails with it.
    async fn scan(&self, sink: Sender<Vec<ScanEntry>>) -> Result<(), SourceError>;

    /// Reads a part of a file, or a directory's attributes. Called concurrently.
    ///
    /// # Errors
    /// [`SourceError::Vanished`] leaves the entry out of the snapshot, any other error fails it. A file that has become
    /// a directory, or the reverse, has vanished.
    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, SourceError>;

    /// Nothing more is read for this snapshot: a source that keeps the workspace still lets it go on. Not called for a
    /// snapshot that fails or is dropped before; a source that is dropped lets go by itself.
    async fn done_reading(&self) {}
}

/// What is kept about an entry besides its content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Meta {
    /// Permission bits, [`MODE_BITS`].
    pub mode: u32,
    /// Last change of the content.
    pub mtime: TimeNs,
    /// The extended attributes in the `user.` namespace, sorted by name.
    pub xattrs: Xattrs,
}

/// One step of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreItem {
    /// A directory; an empty path is the root itself. Its mode and mtime hold once the sink has finished: until then
    /// entries are still put into it.
    Dir {
        /// Which root.
        root: u16,
        /// Path relative to the root.
        path: Vec<u8>,
        /// Mode, time, attributes.
        meta: Meta,
    },
    /// A regular file: `data` at its start, the rest up to `size` a hole, or to come as extents.
    File {
        /// Which root.
        root: u16,
        /// Path relative to the root.
        path: Vec<u8>,
        /// Mode, time, attributes.
        meta: Meta,
        /// Size in bytes.
        size: u64,
        /// What it starts with.
        data: Vec<u8>,
        /// Nothing follows; otherwise extents follow, and then [`RestoreItem::FileEnd`].
        complete: bool,
    },
    /// A part of a file that was begun.
    Extent {
        /// Which root.
        root: u16,
        /// Path relative to the root.
        path: Vec<u8>,
        /// Where the data belongs.
        offset: u64,
        /// The data.
        data: Vec<u8>,
    },
    /// The end of a file that was begun: its mtime and mode can be set.
    FileEnd {
        /// Which root.
        root: u16,
        /// Path relative to the root.
        path: Vec<u8>,
    },
    /// A symbolic link.
    Symlink {
        /// Which root.
        root: u16,
        /// Path relative to the root.
        path: Vec<u8>,
        /// Where it points.
        target: Vec<u8>,
        /// Its mtime.
        meta: Meta,
    },
    /// Another name of a file that was restored before.
    Hardlink {
        /// Which root.
        root: u16,
        /// Path relative to the root.
        path: Vec<u8>,
        /// The other name, relative to the same root.
        to: Vec<u8>,
    },
}

impl RestoreItem {
    /// The root and the path that it is about.
    #[must_use]
    pub fn location(&self) -> (u16, &[u8]) {
        match self {
            Self::Dir { root, path, .. }
            | Self::File { root, path, .. }
            | Self::Extent { root, path, .. }
            | Self::FileEnd { root, path }
            | Self::Symlink { root, path, .. }
            | Self::Hardlink { root, path, .. } => (*root, path),
        }
    }
}

/// Where a restore goes: empty roots.
///
/// [`put`](Self::put) is called for one item after the other: a directory before what is in it, an incomplete
/// [`RestoreItem::File`] and then nothing but its extents, in order, and its end; a file before its other names. A sink
/// may queue items and answer early, as long as it keeps their order and reports every failure by the end of
/// [`finish`](Self::finish). No item has more than [`MAX_ITEM_BYTES`] of data.
#[async_trait]
pub trait WorkspaceSink: Send + Sync {
    /// Writes one item. Never through a symbolic link, and never onto something that is there.
    ///
    /// # Errors
    /// Any [`SourceError`]; the restore fails with it.
    async fn put(&self, item: RestoreItem) -> Result<(), SourceError>;

    /// Everything was put and verified: set the directories' modes and times (deepest first), and make it durable as
    /// far as the sink promises it. Not called when the restore failed.
    ///
    /// # Errors
    /// Any [`SourceError`]; the restore fails with it.
    async fn finish(&self) -> Result<(), SourceError>;
}

/// Whether a name can stand for an entry of a directory.
pub(crate) fn valid_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| *byte == b'/' || *byte == 0)
}

/// Sorts attributes by name after checking them.
pub(crate) fn check_xattrs(xattrs: &mut Xattrs) -> Result<(), SourceError> {
    let bytes: usize = xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
    if xattrs.len() > MAX_XATTRS || bytes > MAX_XATTR_BYTES {
        return Err(SourceError::TooLarge { detail: format!("{} extended attributes of {bytes} bytes", xattrs.len()) });
    }
    xattrs.sort();
    let named = |name: &[u8]| name.len() > 5 && name.len() <= 255 && name.starts_with(b"user.") && !name.contains(&0);
    let distinct = xattrs.windows(2).all(|pair| !matches!(pair, [a, b] if a.0 == b.0));
    if !distinct || !xattrs.iter().all(|(name, _)| named(name)) {
        return Err(SourceError::malformed("extended attributes that are not distinct `user.` names"));
    }
    Ok(())
}

/// A path for messages: readable, bounded, unambiguous.
pub(crate) fn display_path(root: &str, path: &[u8]) -> String {
    const SHOWN: usize = 300;
    let shown: String = path.escape_ascii().take(SHOWN).map(char::from).collect();
    let more = if path.len() > SHOWN { "…" } else { "" };
    if path.is_empty() { root.to_owned() } else { format!("{root}/{shown}{more}") }
}
