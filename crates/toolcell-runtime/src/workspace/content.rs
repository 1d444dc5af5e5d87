//! What a workspace begins with, gathered on this host before any of it is written: a later entry replaces an earlier
//! one, so that an agent's files win over what its image ships.
//!
//! Nothing is written here. The guest makes the entries, beneath the roots, without following a link, as the tool user.

use crate::workspace::SetupError;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolcell_protocol::{Bytes, EntryMeta, RestoreItem, TimeNs};
use toolcell_sandbox::Restore;

/// Entries of one workspace's beginning; one more is refused.
pub(crate) const MOST_ENTRIES: usize = 500_000;
/// Bytes of a file that are read and sent at once.
const PART_BYTES: usize = 256 * 1024;
/// A path or a link's target is not longer than this.
const MOST_PATH_BYTES: usize = 4096;
/// Directories deeper than this are refused.
const MOST_DEPTH: usize = 256;

/// A root's number and the path beneath it.
pub(crate) type Place = (u16, Vec<u8>);

/// Where a file's bytes are.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// Here.
    Bytes(Arc<[u8]>),
    /// In a part of an archive.
    Part { archive: Arc<File>, offset: u64 },
    /// In a file of this host.
    Host(PathBuf),
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Dir,
    File { body: Body, size: u64 },
    Symlink { target: Vec<u8> },
    Hardlink { to: Vec<u8> },
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) mtime: TimeNs,
}

/// Entries by root and path; parents come before what is in them.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) nodes: BTreeMap<Place, Node>,
    /// What bodies are read from, until everything is written.
    pub(crate) holds: Vec<Scratch>,
}

/// A directory of this host that goes when it is not needed any more.
#[derive(Debug)]
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "what a set-up fetched stays behind");
        }
    }
}

impl Node {
    pub(crate) fn dir() -> Self {
        Self { kind: Kind::Dir, mode: 0o755, mtime: TimeNs { secs: 0, nanos: 0 } }
    }
}

impl Content {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.nodes.values().fold(0, |sum, node| match &node.kind {
            Kind::File { size, .. } => sum.saturating_add(*size),
            Kind::Dir | Kind::Symlink { .. } | Kind::Hardlink { .. } => sum,
        })
    }

    /// Adds an entry with the directories above it; what is in its way goes.
    pub(crate) fn insert(&mut self, root: u16, path: Vec<u8>, node: Node) -> Result<(), SetupError> {
        let names = path.split(|byte| *byte == b'/');
        let proper = names.clone().all(|name| !name.is_empty() && name != b"." && name != b".." && name.len() <= 255);
        if path.len() > MOST_PATH_BYTES || path.contains(&0) || !proper || names.count() > MOST_DEPTH {
            return Err(SetupError::Path { path: String::from_utf8_lossy(&path).into_owned() });
        }
        for slash in path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at) {
            let above = path.get(..slash).unwrap_or_default().to_vec();
            let there = self.nodes.entry((root, above)).or_insert_with(Node::dir);
            if !matches!(there.kind, Kind::Dir) {
                *there = Node::dir();
            }
        }
        if !matches!(node.kind, Kind::Dir) {
            let mut below = path.clone();
            below.push(b'/');
            let inside = self.nodes.range((root, below.clone())..).map(|(place, _)| place);
            let inside: Vec<Place> =
                inside.take_while(|(of, at)| *of == root && at.starts_with(&below)).cloned().collect();
            inside.iter().for_each(|place| drop(self.nodes.remove(place)));
        }
        self.nodes.insert((root, path), node);
        if self.nodes.len() > MOST_ENTRIES {
            return Err(SetupError::TooMany);
        }
        Ok(())
    }

    /// Adds a file or directory of this host. Links in it stay links; sockets, pipes and devices are left out.
    pub(crate) fn add_host(
        &mut self,
        root: u16,
        path: &[u8],
        host: &Path,
        skip: Option<&str>,
        most_bytes: u64,
    ) -> Result<(), SetupError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| SetupError::Host { path, source }
        };
        let mut ahead = vec![(path.to_vec(), host.to_owned())];
        let mut bytes = 0u64;
        while let Some((place, host)) = ahead.pop() {
            let found = std::fs::symlink_metadata(&host).map_err(failed(&host))?;
            let kind = if found.is_dir() {
                for entry in std::fs::read_dir(&host).map_err(failed(&host))? {
                    let entry = entry.map_err(failed(&host))?;
                    let name = entry.file_name();
                    if skip.is_some_and(|skip| name == skip) {
                        continue;
                    }
                    let below = if place.is_empty() {
                        name.as_bytes().to_vec()
                    } else {
                        [&place, &b"/"[..], name.as_bytes()].concat()
                    };
                    ahead.push((below, entry.path()));
                    if ahead.len() > MOST_ENTRIES {
                        return Err(SetupError::TooMany);
                    }
                }
                Kind::Dir
            } else if found.is_file() {
                bytes = bytes.saturating_add(found.len());
                if bytes > most_bytes {
                    return Err(SetupError::TooLarge { path: host });
                }
                Kind::File { body: Body::Host(host), size: found.len() }
            } else if found.is_symlink() {
                let target = std::fs::read_link(&host).map_err(failed(&host))?;
                Kind::Symlink { target: target.as_os_str().as_bytes().to_vec() }
            } else {
                continue;
            };
            let nanos = u32::try_from(found.mtime_nsec()).unwrap_or(0);
            // Whoever owns it on the host, the tool user reads it.
            let readable = if found.is_dir() { 0o700 } else { 0o400 };
            let mode = (found.mode() & 0o777) | readable;
            if !place.is_empty() {
                self.insert(root, place, Node { kind, mode, mtime: TimeNs { secs: found.mtime(), nanos } })?;
            }
        }
        Ok(())
    }

    /// Sends everything to a guest that fills the roots.
    pub(crate) async fn send(&self, restore: &Restore<'_>) -> Result<(), SetupError> {
        let late = |node: &Node| matches!(node.kind, Kind::Hardlink { .. });
        let early = self.nodes.iter().filter(|(_, node)| !late(node));
        // A hard link follows the file that it is a link to.
        for (place, node) in early.chain(self.nodes.iter().filter(|(_, node)| late(node))) {
            self.send_one(restore, place, node).await?;
        }
        Ok(())
    }

    async fn send_one(&self, restore: &Restore<'_>, (root, path): &Place, node: &Node) -> Result<(), SetupError> {
        let (root, bytes) = (*root, Bytes::from(path.clone()));
        let meta = EntryMeta { mode: node.mode, mtime: node.mtime, xattrs: Vec::new() };
        let put = async |item| restore.put(item).await.map_err(SetupError::Sandbox);
        match &node.kind {
            Kind::Dir => put(RestoreItem::Dir { root, path: bytes, meta }).await,
            Kind::Symlink { target } => {
                put(RestoreItem::Symlink { root, path: bytes, target: Bytes::from(target.clone()), meta }).await
            }
            Kind::Hardlink { to } => {
                let target = self.nodes.get(&(root, to.clone()));
                if !target.is_some_and(|target| matches!(target.kind, Kind::File { .. })) {
                    // Its file has been replaced by something that has no links.
                    return Ok(());
                }
                put(RestoreItem::Hardlink { root, path: bytes, to: Bytes::from(to.clone()) }).await
            }
            Kind::File { body, size } => {
                let source = Source::open(body)?;
                let first = source.read(0, *size)?;
                let mut sent = first.len() as u64;
                let complete = sent == *size;
                let data = Bytes::from(first);
                put(RestoreItem::File { root, path: bytes.clone(), meta, size: *size, data, complete }).await?;
                while sent < *size {
                    let part = source.read(sent, *size)?;
                    let (offset, data) = (sent, Bytes::from(part));
                    sent = sent.saturating_add(data.len() as u64);
                    put(RestoreItem::Extent { root, path: bytes.clone(), offset, data }).await?;
                }
                if complete { Ok(()) } else { put(RestoreItem::FileEnd { root, path: bytes }).await }
            }
        }
    }
}

/// An open file's bytes.
pub(crate) struct Source<'a> {
    bytes: Option<&'a [u8]>,
    file: Option<(Arc<File>, u64)>,
    path: PathBuf,
}

impl<'a> Source<'a> {
    pub(crate) fn open(body: &'a Body) -> Result<Self, SetupError> {
        Ok(match body {
            Body::Bytes(bytes) => Self { bytes: Some(bytes), file: None, path: PathBuf::new() },
            Body::Part { archive, offset } => {
                Self { bytes: None, file: Some((Arc::clone(archive), *offset)), path: PathBuf::from("archive") }
            }
            Body::Host(path) => {
                // What was a file when it was looked at may be a link or a pipe by now.
                let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
                let flags = i32::try_from(flags.bits()).unwrap_or(0);
                let opened = File::options().read(true).custom_flags(flags).open(path);
                let opened = opened.map_err(|source| SetupError::Host { path: path.clone(), source })?;
                Self { bytes: None, file: Some((Arc::new(opened), 0)), path: path.clone() }
            }
        })
    }

    /// The next part, never empty before the end.
    pub(crate) fn read(&self, offset: u64, size: u64) -> Result<Vec<u8>, SetupError> {
        let most = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(PART_BYTES);
        if let Some(bytes) = self.bytes {
            let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
            return Ok(rest.get(..most).unwrap_or(rest).to_vec());
        }
        let Some((file, begin)) = &self.file else { return Ok(Vec::new()) };
        let mut part = vec![0; most];
        let read = file.read_exact_at(&mut part, begin.saturating_add(offset));
        read.map_err(|source| SetupError::Host { path: self.path.clone(), source })?;
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Node {
        let kind = Kind::File { body: Body::Bytes(text.as_bytes().into()), size: text.len() as u64 };
        Node { kind, mode: 0o644, mtime: TimeNs { secs: 0, nanos: 0 } }
    }

    fn paths(content: &Content) -> Vec<String> {
        content.nodes.keys().map(|(root, path)| format!("{root}:{}", String::from_utf8_lossy(path))).collect()
    }

    #[test]
    fn parents_come_first_and_later_entries_win() {
        let mut content = Content::default();
        content.insert(0, b"a/b/c".to_vec(), file("1")).unwrap();
        content.insert(0, b"a.txt".to_vec(), file("2")).unwrap();
        assert_eq!(paths(&content), ["0:a", "0:a.txt", "0:a/b", "0:a/b/c"]);
        content.insert(0, b"a/b".to_vec(), file("3")).unwrap();
        assert_eq!(paths(&content), ["0:a", "0:a.txt", "0:a/b"]);
        content.insert(0, b"a.txt/x".to_vec(), file("4")).unwrap();
        assert_eq!(paths(&content), ["0:a", "0:a.txt", "0:a.txt/x", "0:a/b"]);
        assert_eq!(content.bytes(), 2);
    }

    #[test]
    fn paths_that_leave_the_root_are_refused() {
        for path in ["", "/etc", "../x", "a/../../x", "a//b", "a/.", "a\0b"] {
            assert!(Content::default().insert(0, path.as_bytes().to_vec(), file("")).is_err(), "{path:?}");
        }
        let deep = |depth: usize| vec!["d"; depth].join("/").into_bytes();
        assert!(Content::default().insert(0, deep(MOST_DEPTH), file("")).is_ok());
        assert!(Content::default().insert(0, deep(MOST_DEPTH + 1), file("")).is_err());
    }

    #[test]
    fn a_host_directory_comes_with_its_links_and_nothing_behind_them() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("source");
        std::fs::create_dir_all(source.join("sub/.git")).unwrap();
        std::fs::create_dir(directory.path().join("outside")).unwrap();
        std::fs::write(directory.path().join("outside/secret"), "secret").unwrap();
        std::fs::write(source.join("sub/file"), "12345").unwrap();
        std::os::unix::fs::symlink("../outside", source.join("link")).unwrap();
        let mut content = Content::default();
        content.add_host(1, b"to", &source, Some(".git"), 5).unwrap();
        assert_eq!(paths(&content), ["1:to", "1:to/link", "1:to/sub", "1:to/sub/file"]);
        assert!(
            matches!(&content.nodes[&(1, b"to/link".to_vec())].kind, Kind::Symlink { target } if target == b"../outside")
        );
        assert!(matches!(Content::default().add_host(1, b"to", &source, None, 4), Err(SetupError::TooLarge { .. })));
    }
}
