//! Directories, and the lists of chunks of large files.
//!
//! A directory is one blob, or a list of blobs that hold its entries in order. Everything is postcard behind one byte
//! of version; an id that matches proves who wrote it, and the shape is checked all the same.

use super::keys::{BlobId, BlobKind, TenantKeys};
use super::pack::MAX_BLOB_BYTES;
use crate::entry::{MAX_PATH_BYTES, MAX_TARGET_BYTES, MODE_BITS, Meta, TimeNs, check_xattrs, valid_name};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const VERSION: u8 = 1;
/// A part has at least this many entries, on average [`CUT_ONE_IN`] more, and at most [`MAX_PART_ENTRIES`].
const MIN_PART_ENTRIES: usize = 64;
const CUT_ONE_IN: u16 = 192;
const MAX_PART_ENTRIES: usize = 1024;
const MAX_PART_BYTES: usize = 1024 * 1024;
/// Files with more chunks keep their list in blobs of its own.
pub(crate) const INLINE_EXTENTS: usize = 64;
/// Chunks in one such blob.
pub(crate) const LIST_EXTENTS: usize = 4096;
/// Most chunks of one file; a file with more (that is, with very many holes) is refused.
pub(crate) const MAX_EXTENTS: usize = 1_048_576;

/// Consecutive bytes of a file; what no extent covers is a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    pub(crate) chunk: BlobId,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TreeEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) meta: Meta,
    pub(crate) body: TreeBody,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TreeBody {
    Dir {
        tree: BlobId,
    },
    File {
        size: u64,
        content: Content,
    },
    Symlink {
        target: Vec<u8>,
    },
    /// Another name of a file that comes earlier in the root, in depth-first order.
    Hardlink {
        to: Vec<u8>,
    },
}

/// Where a file's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content {
    Inline(Vec<Extent>),
    Lists(Vec<BlobId>),
}

/// A directory or a part of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TreeBlob {
    Entries(Vec<TreeEntry>),
    Parts(Vec<BlobId>),
}

/// A directory as blobs.
pub(crate) struct EncodedDir {
    pub(crate) tree: BlobId,
    /// Empty for a directory of one blob.
    pub(crate) parts: Vec<BlobId>,
    pub(crate) blobs: Vec<(BlobId, Vec<u8>)>,
}

impl TreeEntry {
    /// About how many bytes its encoding takes.
    fn weight(&self) -> usize {
        let xattrs: usize = self.meta.xattrs.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        let body = match &self.body {
            TreeBody::Dir { .. } => 32,
            TreeBody::File { content: Content::Inline(extents), .. } => 10 + extents.len() * 48,
            TreeBody::File { content: Content::Lists(lists), .. } => 10 + lists.len() * 32,
            TreeBody::Symlink { target: path } | TreeBody::Hardlink { to: path } => path.len() + 4,
        };
        self.name.len() + 24 + xattrs + body
    }
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, postcard::Error> {
    postcard::to_extend(value, vec![VERSION])
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    if bytes.len() > MAX_BLOB_BYTES {
        return Err("it is larger than a blob".to_owned());
    }
    let Some((&VERSION, payload)) = bytes.split_first() else {
        return Err("its format version is unknown".to_owned());
    };
    match postcard::take_from_bytes(payload) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err("bytes follow its content".to_owned()),
        Err(_) => Err("its content cannot be decoded".to_owned()),
    }
}

/// Encodes a directory whose entries are sorted by name.
pub(crate) fn encode_dir(keys: &TenantKeys, entries: Vec<TreeEntry>) -> Result<EncodedDir, postcard::Error> {
    let mut blobs = Vec::new();
    let mut seal = |blob: &TreeBlob| -> Result<BlobId, postcard::Error> {
        let bytes = encode(blob)?;
        let id = keys.id(BlobKind::Tree, &bytes);
        blobs.push((id, bytes));
        Ok(id)
    };
    let mut parts = Vec::new();
    let (mut part, mut weight) = (Vec::new(), 0);
    let mut entries = entries.into_iter().peekable();
    while let Some(entry) = entries.next() {
        weight += entry.weight();
        let cut = (part.len() + 1 >= MIN_PART_ENTRIES && keys.cuts_after(&entry.name, CUT_ONE_IN))
            || part.len() + 1 >= MAX_PART_ENTRIES
            || weight >= MAX_PART_BYTES;
        part.push(entry);
        if cut && entries.peek().is_some() {
            parts.push(seal(&TreeBlob::Entries(std::mem::take(&mut part)))?);
            weight = 0;
        }
    }
    let last = seal(&TreeBlob::Entries(part))?;
    if parts.is_empty() {
        return Ok(EncodedDir { tree: last, parts, blobs });
    }
    parts.push(last);
    let tree = seal(&TreeBlob::Parts(parts.clone()))?;
    Ok(EncodedDir { tree, parts, blobs })
}

/// Decodes and checks a directory or a part of one.
pub(crate) fn decode_tree(bytes: &[u8]) -> Result<TreeBlob, String> {
    let mut blob: TreeBlob = decode(bytes)?;
    if let TreeBlob::Entries(entries) = &mut blob {
        for entry in entries.iter_mut() {
            check_entry(entry)?;
        }
        if !entries.windows(2).all(|pair| matches!(pair, [a, b] if a.name < b.name)) {
            return Err("its names are not in order".to_owned());
        }
    }
    Ok(blob)
}

fn check_entry(entry: &mut TreeEntry) -> Result<(), String> {
    if !valid_name(&entry.name) {
        return Err("it holds a name that no entry can have".to_owned());
    }
    check_meta(&mut entry.meta)?;
    match &entry.body {
        TreeBody::Dir { .. } => Ok(()),
        TreeBody::File { size, content: Content::Inline(extents) } => check_extents(extents, *size),
        TreeBody::File { content: Content::Lists(lists), .. } if lists.len() > MAX_EXTENTS / LIST_EXTENTS => {
            Err("a file has too many chunks".to_owned())
        }
        TreeBody::File { .. } => Ok(()),
        TreeBody::Symlink { target } if valid_target(target) => Ok(()),
        TreeBody::Symlink { .. } => Err("a symbolic link has an impossible target".to_owned()),
        TreeBody::Hardlink { to } if valid_path(to) => Ok(()),
        TreeBody::Hardlink { .. } => Err("a hard link has an impossible target".to_owned()),
    }
}

/// Checks what stands for any entry, root directories included.
pub(crate) fn check_meta(meta: &mut Meta) -> Result<(), String> {
    if meta.mode & !MODE_BITS != 0 || !valid_time(meta.mtime) {
        return Err("an entry has an impossible mode or time".to_owned());
    }
    check_xattrs(&mut meta.xattrs).map_err(|error| error.to_string())
}

pub(crate) fn valid_time(time: TimeNs) -> bool {
    time.nanos < 1_000_000_000
}

pub(crate) fn valid_target(target: &[u8]) -> bool {
    !target.is_empty() && target.len() <= MAX_TARGET_BYTES && !target.contains(&0)
}

pub(crate) fn valid_path(path: &[u8]) -> bool {
    path.len() <= MAX_PATH_BYTES && path.split(|byte| *byte == b'/').all(valid_name)
}

/// Encodes the list of a large file's chunks, in parts.
pub(crate) fn encode_extents(keys: &TenantKeys, extents: &[Extent]) -> Result<Vec<(BlobId, Vec<u8>)>, postcard::Error> {
    let list = |part: &[Extent]| {
        let bytes = encode(&part)?;
        Ok((keys.id(BlobKind::Extents, &bytes), bytes))
    };
    extents.chunks(LIST_EXTENTS).map(list).collect()
}

/// Decodes one part of a list of chunks; the whole list is checked by [`check_extents`].
pub(crate) fn decode_extents(bytes: &[u8]) -> Result<Vec<Extent>, String> {
    decode(bytes)
}

/// Whether extents are in order, within the file, and not larger than chunks are.
pub(crate) fn check_extents(extents: &[Extent], size: u64) -> Result<(), String> {
    let mut end = 0u64;
    for extent in extents {
        let next = extent.offset.checked_add(u64::from(extent.bytes));
        match next {
            Some(next) if extent.offset >= end && next <= size && extent.bytes > 0 => end = next,
            Some(_) | None => return Err("a file's chunks are not in order".to_owned()),
        }
        if extent.bytes as usize > MAX_BLOB_BYTES {
            return Err("a file's chunk is larger than chunks are".to_owned());
        }
    }
    if extents.len() > MAX_EXTENTS { Err("a file has too many chunks".to_owned()) } else { Ok(()) }
}
