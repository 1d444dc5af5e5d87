//! What is known about a slot's newest snapshot, so that the next one reads only what has changed.

use crate::entry::{TimeNs, Xattrs};
use crate::format::keys::{BlobId, BlobMap};
use crate::format::manifest::{Counts, Manifest, PackRef};
use crate::format::pack::Place;
use crate::format::tree::Extent;
use crate::scan::NO_NODE;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use toolcell_model::SnapshotId;

const MAGIC: [u8; 8] = *b"TCIX\x01\0\0\0";
/// Largest index file that is read; a larger one counts as none.
const MAX_INDEX_BYTES: u64 = 1024 * 1024 * 1024;

/// What is known about a slot's newest snapshot. Cheap to clone.
///
/// It belongs to one snapshot: [`SnapshotEngine::snapshot`](crate::SnapshotEngine::snapshot) takes one that belongs to
/// another for empty. Losing it costs reading every file again, and nothing else.
#[derive(Debug, Clone, Default)]
pub struct SlotIndex {
    pub(crate) data: Arc<IndexData>,
}

/// The content of an index.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexData {
    pub(crate) manifest: Option<Manifest>,
    pub(crate) nodes: Vec<IndexNode>,
    /// By path in the container.
    pub(crate) roots: BTreeMap<String, IndexRoot>,
    pub(crate) blobs: BlobMap<(u32, Place)>,
    /// By the numbers that `blobs` uses.
    pub(crate) packs: BTreeMap<u32, PackRef>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexRoot {
    pub(crate) node: u32,
    pub(crate) counts: Counts,
}

/// What is known about one entry. Parents come before their children.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexNode {
    pub(crate) parent: u32,
    pub(crate) name: Box<[u8]>,
    pub(crate) mode: u32,
    pub(crate) mtime: TimeNs,
    pub(crate) ctime: TimeNs,
    pub(crate) inode: u64,
    pub(crate) device: u64,
    /// It was read so soon after its last change, or its state at reading is so uncertain, that the times prove nothing.
    pub(crate) racy: bool,
    pub(crate) xattrs: Xattrs,
    pub(crate) body: IndexBody,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum IndexBody {
    Dir {
        /// Sorted by name.
        children: Vec<u32>,
        tree: BlobId,
        parts: Vec<BlobId>,
    },
    File {
        size: u64,
        extents: Arc<[Extent]>,
        lists: Vec<BlobId>,
    },
    Symlink {
        target: Box<[u8]>,
    },
    Hardlink {
        /// Path relative to the root.
        to: Vec<u8>,
        /// The node of that path.
        node: u32,
    },
}

impl IndexData {
    pub(crate) fn node(&self, at: u32) -> Option<&IndexNode> {
        self.nodes.get(at as usize)
    }

    /// The path of a node relative to its root.
    pub(crate) fn path(&self, at: u32) -> Vec<u8> {
        let mut names = Vec::new();
        let mut node = self.node(at);
        while let Some(here) = node.filter(|here| here.parent != NO_NODE) {
            names.push(&*here.name);
            node = self.node(here.parent);
        }
        names.reverse();
        names.join(&b'/')
    }
}

impl SlotIndex {
    /// An index that knows nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The snapshot that it belongs to.
    #[must_use]
    pub fn snapshot(&self) -> Option<SnapshotId> {
        self.data.manifest.as_ref().map(|manifest| manifest.snapshot)
    }

    /// Writes it to a file (mode 0600), replacing what is there. Not synced: an index that a crash has damaged is
    /// noticed and counts as none.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn save(&self, path: &Path) -> io::Result<()> {
        let (data, path) = (Arc::clone(&self.data), path.to_path_buf());
        tokio::task::spawn_blocking(move || save(&data, &path)).await?
    }

    /// Reads it from a file. One that is absent, damaged or of another version is an empty index.
    pub async fn load(path: &Path) -> Self {
        let path = path.to_path_buf();
        let data = tokio::task::spawn_blocking(move || load(&path)).await.ok().flatten();
        Self { data: Arc::new(data.unwrap_or_default()) }
    }
}

fn save(data: &IndexData, path: &Path) -> io::Result<()> {
    let mut bytes = postcard::to_extend(data, MAGIC.to_vec()).map_err(io::Error::other)?;
    let hash = blake3::hash(&bytes);
    bytes.extend_from_slice(hash.as_bytes());
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{:016x}", u64::from_le_bytes(random)));
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(&bytes))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        drop(std::fs::remove_file(&temporary));
    }
    written
}

fn load(path: &Path) -> Option<IndexData> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_INDEX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    if bytes.len() as u64 > MAX_INDEX_BYTES || blake3::Hash::from_slice(hash).ok()? != blake3::hash(body) {
        return None;
    }
    let (data, rest) = postcard::take_from_bytes::<IndexData>(body.strip_prefix(&MAGIC)?).ok()?;
    rest.is_empty().then_some(data)
}
