//! The list that a scan sends, checked and made into a tree.

use crate::entry::{EntryKind, MAX_DEPTH, MAX_ENTRIES, MAX_PATH_BYTES, MODE_BITS, ScanEntry, TimeNs, valid_name};
use crate::error::SourceError;
use crate::format::tree::{valid_target, valid_time};
use std::collections::HashMap;

/// No node: the parent of a root.
pub(crate) const NO_NODE: u32 = u32::MAX;

/// What `stat` says, as far as a snapshot cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) mode: u32,
    pub(crate) mtime: TimeNs,
    pub(crate) ctime: TimeNs,
    pub(crate) inode: u64,
    pub(crate) device: u64,
    pub(crate) nlink: u32,
}

/// An entry of the scanned tree. Parents come before their children.
#[derive(Debug)]
pub(crate) struct ScanNode {
    pub(crate) parent: u32,
    pub(crate) root: u16,
    pub(crate) name: Box<[u8]>,
    pub(crate) stat: Stat,
    pub(crate) kind: ScanKind,
}

/// What a scanned entry is. FIFOs, sockets and devices are counted and have no node.
#[derive(Debug)]
pub(crate) enum ScanKind {
    /// The children are sorted by name.
    Dir {
        children: Vec<u32>,
    },
    File {
        size: u64,
    },
    Symlink {
        target: Box<[u8]>,
    },
}

/// Everything that a scan found.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) nodes: Vec<ScanNode>,
    /// The node of each root.
    pub(crate) roots: Vec<u32>,
    /// Entries of each root that are not kept.
    pub(crate) specials: Vec<u64>,
}

impl Scanned {
    pub(crate) fn node(&self, at: u32) -> Option<&ScanNode> {
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

/// Takes batches of a scan and refuses what no scan can find.
#[derive(Debug)]
pub(crate) struct ScanBuilder {
    nodes: Vec<ScanNode>,
    roots: Vec<u32>,
    specials: Vec<u64>,
    entries: usize,
    depths: Vec<u16>,
    /// Directories by parent and name; only these can have children.
    dirs: HashMap<(u32, Box<[u8]>), u32>,
    last: LastDir,
}

/// The directory of the last entry: scans list directories one by one, and go from each to its neighbours.
#[derive(Debug, Default)]
struct LastDir {
    root: u16,
    path: Vec<u8>,
    /// Where each directory on the way ends in the path, and its node.
    steps: Vec<(usize, u32)>,
}

impl LastDir {
    /// Keeps the steps that lead to `path` too.
    fn turn_to(&mut self, root: u16, path: &[u8]) {
        let common = self.path.iter().zip(path).take_while(|(a, b)| a == b).count();
        let on_the_way = |end: usize| end <= common && path.get(end).is_none_or(|byte| *byte == b'/');
        if self.root != root {
            self.steps.clear();
        }
        while self.steps.pop_if(|(end, _)| !on_the_way(*end)).is_some() {}
        self.root = root;
        self.path.truncate(common);
        self.path.extend_from_slice(path.get(common..).unwrap_or_default());
    }
}

impl ScanBuilder {
    pub(crate) fn new(roots: usize) -> Self {
        Self {
            nodes: Vec::new(),
            roots: vec![NO_NODE; roots],
            specials: vec![0; roots],
            entries: 0,
            depths: Vec::new(),
            dirs: HashMap::new(),
            last: LastDir::default(),
        }
    }

    pub(crate) fn add(&mut self, entry: ScanEntry) -> Result<(), SourceError> {
        let shown = |what: &str, entry: &ScanEntry| {
            let path: String = entry.path.escape_ascii().take(200).map(char::from).collect();
            SourceError::malformed(format!("{what}: root {}, path \"{path}\"", entry.root))
        };
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(SourceError::TooLarge { detail: format!("more than {MAX_ENTRIES} entries") });
        }
        let Some(root_node) = self.roots.get(usize::from(entry.root)).copied() else {
            return Err(shown("a root that was not asked for", &entry));
        };
        if entry.path.len() > MAX_PATH_BYTES {
            return Err(SourceError::TooLarge { detail: format!("a path of {} bytes", entry.path.len()) });
        }
        if !valid_time(entry.mtime) || !valid_time(entry.ctime) {
            return Err(shown("an impossible time", &entry));
        }
        let (parent, name): (u32, Box<[u8]>) = if entry.path.is_empty() {
            if root_node != NO_NODE || !matches!(entry.kind, EntryKind::Dir) {
                return Err(shown("a root twice, or one that is no directory", &entry));
            }
            (NO_NODE, Box::default())
        } else {
            let cut = entry.path.iter().rposition(|byte| *byte == b'/');
            let (dir, name) = match cut {
                Some(cut) => (entry.path.get(..cut).unwrap_or_default(), entry.path.get(cut + 1..).unwrap_or_default()),
                None => (&[][..], &*entry.path),
            };
            if !valid_name(name) {
                return Err(shown("a name that no entry can have", &entry));
            }
            let parent = self.dir(entry.root, root_node, dir);
            (parent.ok_or_else(|| shown("an entry without its directory before it", &entry))?, Box::from(name))
        };
        let depth = if parent == NO_NODE {
            0
        } else {
            self.depths.get(parent as usize).map_or(0, |depth| depth.saturating_add(1))
        };
        if usize::from(depth) > MAX_DEPTH {
            return Err(SourceError::TooLarge { detail: format!("more than {MAX_DEPTH} levels of directories") });
        }
        let kind = match entry.kind {
            EntryKind::Dir => ScanKind::Dir { children: Vec::new() },
            EntryKind::File { size } => ScanKind::File { size },
            EntryKind::Symlink { target } if valid_target(&target) => ScanKind::Symlink { target: target.into() },
            EntryKind::Symlink { .. } => {
                return Err(SourceError::malformed("a symbolic link with an impossible target"));
            }
            EntryKind::Special => {
                if let Some(count) = self.specials.get_mut(usize::from(entry.root)) {
                    *count += 1;
                }
                return Ok(());
            }
        };
        // MAX_ENTRIES is far below NO_NODE.
        let at = u32::try_from(self.nodes.len()).unwrap_or(NO_NODE);
        if parent == NO_NODE {
            if let Some(root) = self.roots.get_mut(usize::from(entry.root)) {
                *root = at;
            }
        } else {
            if matches!(kind, ScanKind::Dir { .. }) && self.dirs.insert((parent, name.clone()), at).is_some() {
                return Err(SourceError::malformed("a directory that is listed twice"));
            }
            if let Some(ScanNode { kind: ScanKind::Dir { children }, .. }) = self.nodes.get_mut(parent as usize) {
                children.push(at);
            }
        }
        let stat = Stat {
            mode: entry.mode & MODE_BITS,
            mtime: entry.mtime,
            ctime: entry.ctime,
            inode: entry.inode,
            device: entry.device,
            nlink: entry.nlink,
        };
        self.nodes.push(ScanNode { parent, root: entry.root, name, stat, kind });
        self.depths.push(depth);
        Ok(())
    }

    /// The node of a directory that was listed before.
    fn dir(&mut self, root: u16, root_node: u32, path: &[u8]) -> Option<u32> {
        if root_node == NO_NODE {
            return None;
        }
        self.last.turn_to(root, path);
        let (mut end, mut node) = self.last.steps.last().map_or((None, root_node), |(end, node)| (Some(*end), *node));
        while end.unwrap_or_default() < path.len() {
            let start = end.map_or(0, |end| end + 1);
            let rest = path.get(start..)?;
            let name = rest.split(|byte| *byte == b'/').next()?;
            node = *self.dirs.get(&(node, Box::from(name)))?;
            end = Some(start + name.len());
            self.last.steps.push((start + name.len(), node));
        }
        Some(node)
    }

    pub(crate) fn finish(mut self) -> Result<Scanned, SourceError> {
        if let Some(missing) = self.roots.iter().position(|root| *root == NO_NODE) {
            return Err(SourceError::malformed(format!("root {missing} was not listed")));
        }
        for at in 0..self.nodes.len() {
            let Some(ScanNode { kind: ScanKind::Dir { children }, .. }) = self.nodes.get_mut(at) else { continue };
            let mut children = std::mem::take(children);
            let name = |at: &u32| self.nodes.get(*at as usize).map(|node| &node.name);
            // They are in order already, unless a guest has ideas of its own.
            if !children.is_sorted_by(|a, b| name(a) < name(b)) {
                children.sort_unstable_by(|a, b| name(a).cmp(&name(b)));
                if children.windows(2).any(|pair| matches!(pair, [a, b] if name(a) == name(b))) {
                    return Err(SourceError::malformed("an entry that is listed twice"));
                }
            }
            if let Some(ScanNode { kind: ScanKind::Dir { children: sorted }, .. }) = self.nodes.get_mut(at) {
                *sorted = children;
            }
        }
        Ok(Scanned { nodes: self.nodes, roots: self.roots, specials: self.specials })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;
    use crate::error::ErrorKind;

    fn entry(root: u16, path: &[u8], kind: EntryKind) -> ScanEntry {
        ScanEntry {
            root,
            path: path.to_vec(),
            kind,
            mode: 0o7777,
            mtime: TimeNs::default(),
            ctime: TimeNs::default(),
            inode: 1,
            device: 1,
            nlink: 1,
        }
    }

    fn scan(entries: Vec<ScanEntry>) -> Result<Scanned, SourceError> {
        let mut builder = ScanBuilder::new(1);
        entries.into_iter().try_for_each(|entry| builder.add(entry))?;
        builder.finish()
    }

    fn file() -> EntryKind {
        EntryKind::File { size: 0 }
    }

    #[test]
    fn a_tree_in_any_order_that_has_parents_first() {
        let scanned = scan(vec![
            entry(0, b"", EntryKind::Dir),
            entry(0, b"b", file()),
            entry(0, b"a", EntryKind::Dir),
            entry(0, b"a/x", EntryKind::Dir),
            entry(0, b"a/pipe", EntryKind::Special),
            entry(0, b"a/x/\xff\n", file()),
        ])
        .unwrap();
        assert_eq!(scanned.path(4), b"a/x/\xff\n");
        assert_eq!(scanned.specials, [1]);
        assert_eq!(scanned.nodes[0].stat.mode, 0o1777);
        let ScanKind::Dir { children } = &scanned.nodes[0].kind else { unreachable!() };
        assert_eq!(children, &[2, 1]);
    }

    #[test]
    fn what_no_scan_can_find_is_refused() {
        let root = || entry(0, b"", EntryKind::Dir);
        let dir = |path: &[u8]| entry(0, path, EntryKind::Dir);
        let nul = entry(0, b"a\0b", file());
        for (why, entries) in [
            ("no root", vec![]),
            ("root twice", vec![root(), root()]),
            ("root is a file", vec![entry(0, b"", file())]),
            ("another root", vec![root(), entry(1, b"", EntryKind::Dir)]),
            ("file twice", vec![root(), entry(0, b"a", file()), entry(0, b"a", file())]),
            ("directory twice", vec![root(), dir(b"a"), dir(b"a")]),
            ("file and directory", vec![root(), dir(b"a"), entry(0, b"a", file())]),
            ("dot dot", vec![root(), dir(b"..")]),
            ("dot dot inside", vec![root(), dir(b"a"), entry(0, b"a/../b", file())]),
            ("absolute", vec![root(), entry(0, b"/etc/passwd", file())]),
            ("double slash", vec![root(), dir(b"a"), entry(0, b"a//b", file())]),
            ("trailing slash", vec![root(), entry(0, b"a/", file())]),
            ("nul", vec![root(), nul]),
            ("no parent", vec![root(), entry(0, b"a/b", file())]),
            ("parent later", vec![root(), entry(0, b"a/b", file()), dir(b"a")]),
            ("parent is a file", vec![root(), entry(0, b"a", file()), entry(0, b"a/b", file())]),
            (
                "parent is a link",
                vec![root(), entry(0, b"a", EntryKind::Symlink { target: b"/etc".to_vec() }), entry(0, b"a/b", file())],
            ),
            ("before the root", vec![entry(0, b"a", file()), root()]),
            ("empty target", vec![root(), entry(0, b"a", EntryKind::Symlink { target: vec![] })]),
            (
                "time",
                vec![root(), ScanEntry { mtime: TimeNs { secs: 0, nanos: 1_000_000_000 }, ..entry(0, b"a", file()) }],
            ),
        ] {
            assert_eq!(scan(entries).map(|_| ()).map_err(|error| error.kind()), Err(ErrorKind::Malformed), "{why}");
        }
    }

    #[test]
    fn bounds_hold_at_their_edges() {
        let name_255 = vec![b'n'; 255];
        let chain = |levels: usize| {
            let mut entries = vec![entry(0, b"", EntryKind::Dir)];
            entries.extend((1..=levels).map(|level| entry(0, &vec![&b"d"[..]; level].join(&b'/'), EntryKind::Dir)));
            scan(entries).map(|_| ()).map_err(|error| error.kind())
        };
        let named = |name: &[u8]| {
            scan(vec![entry(0, b"", EntryKind::Dir), entry(0, name, file())]).map(|_| ()).map_err(|error| error.kind())
        };
        assert_eq!(named(&name_255), Ok(()));
        assert_eq!(named(&[b'n'; 256]), Err(ErrorKind::Malformed));
        assert_eq!(named(&[b'n'; MAX_PATH_BYTES + 1]), Err(ErrorKind::TooLarge));
        assert_eq!(chain(MAX_DEPTH), Ok(()));
        assert_eq!(chain(MAX_DEPTH + 1), Err(ErrorKind::TooLarge));
    }
}
