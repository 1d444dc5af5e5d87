//! What has to be read: a scan compared with what is known.

use crate::entry::{TimeNs, Xattrs};
use crate::format::tree::Extent;
use crate::index::{IndexBody, IndexData, IndexNode};
use crate::scan::{NO_NODE, ScanKind, ScanNode, Scanned};
use std::collections::HashMap;
use std::sync::Arc;

/// What is known about a scanned entry's content.
#[derive(Debug)]
pub(super) enum State {
    /// As in the index.
    Known { old: u32 },
    /// The scan has said everything: a symbolic link.
    Scanned,
    /// Has to be read.
    Unread,
    /// Another name of a file.
    Linked { to: u32 },
    /// Has been read.
    Read(Box<Read>),
    /// Has disappeared since the scan.
    Gone,
}

/// What reading a file or a directory's attributes gave.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) size: u64,
    pub(super) mtime: TimeNs,
    pub(super) ctime: TimeNs,
    pub(super) inode: u64,
    pub(super) xattrs: Xattrs,
    pub(super) extents: Arc<[Extent]>,
    pub(super) racy: bool,
    pub(super) unstable: bool,
}

/// A scan and what is known about it.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) scanned: Scanned,
    pub(super) states: Vec<State>,
    /// The index's node at the same path, or [`NO_NODE`].
    pub(super) old_of: Vec<u32>,
    /// What is unread.
    pub(super) todo: Vec<u32>,
    /// By the name of a file that holds the content: its other names, in depth-first order.
    pub(super) other_names: HashMap<u32, Vec<u32>>,
}

impl Plan {
    pub(super) fn new(scanned: Scanned, old: &IndexData, roots: &[String]) -> Self {
        let old_of = match_paths(&scanned, old, roots);
        let other_names = other_names(&scanned);
        let mut states: Vec<State> = Vec::with_capacity(scanned.nodes.len());
        states.resize_with(scanned.nodes.len(), || State::Unread);
        for (first, others) in &other_names {
            for other in others {
                set(&mut states, *other, State::Linked { to: *first });
            }
        }
        // Files that are not known where they are may have been moved there.
        let mut new_here: HashMap<(u64, u64), u32> = HashMap::new();
        for (at, node) in (0u32..).zip(&scanned.nodes) {
            if matches!(states.get(at as usize), Some(State::Linked { .. })) {
                continue;
            }
            let here = old_of.get(at as usize).copied().filter(|old| *old != NO_NODE);
            let state = match &node.kind {
                ScanKind::Symlink { .. } => State::Scanned,
                ScanKind::Dir { .. } => match here.filter(|at| old.node(*at).is_some_and(|old| same_dir(node, old))) {
                    Some(old) => State::Known { old },
                    None => State::Unread,
                },
                ScanKind::File { size } => {
                    let known = here.and_then(|at| old.node(at));
                    match here.filter(|_| known.is_some_and(|old| same_file(node, *size, old))) {
                        Some(old) => State::Known { old },
                        None => {
                            let inode = (node.stat.device, node.stat.inode);
                            if known.is_none_or(|known| (known.device, known.inode) != inode) {
                                new_here.insert(inode, at);
                            }
                            State::Unread
                        }
                    }
                }
            };
            set(&mut states, at, state);
        }
        if !new_here.is_empty() {
            find_moved(&scanned, old, &new_here, &mut states);
        }
        let unread = (0u32..).zip(&states).filter(|(_, state)| matches!(state, State::Unread));
        let todo = unread.map(|(at, _)| at).collect();
        Self { scanned, states, old_of, todo, other_names }
    }

    /// A file that was to be read is gone. If it has other names, the next of them holds the content and has to be read.
    pub(super) fn gone(&mut self, at: u32) -> Option<u32> {
        set(&mut self.states, at, State::Gone);
        let mut others = self.other_names.remove(&at)?.into_iter();
        let next = others.next()?;
        let others: Vec<u32> = others.collect();
        for other in &others {
            set(&mut self.states, *other, State::Linked { to: next });
        }
        set(&mut self.states, next, State::Unread);
        self.other_names.insert(next, others);
        Some(next)
    }

    pub(super) fn set(&mut self, at: u32, state: State) {
        set(&mut self.states, at, state);
    }
}

fn set(states: &mut [State], at: u32, state: State) {
    if let Some(slot) = states.get_mut(at as usize) {
        *slot = state;
    }
}

fn same_dir(node: &ScanNode, old: &IndexNode) -> bool {
    matches!(old.body, IndexBody::Dir { .. })
        && !old.racy
        && (node.stat.ctime, node.stat.inode) == (old.ctime, old.inode)
}

fn same_file(node: &ScanNode, size: u64, old: &IndexNode) -> bool {
    matches!(old.body, IndexBody::File { size: known, .. } if known == size)
        && !old.racy
        && (node.stat.mtime, node.stat.ctime, node.stat.inode) == (old.mtime, old.ctime, old.inode)
}

/// Finds for every scanned entry what the index knows at the same path.
fn match_paths(scanned: &Scanned, old: &IndexData, roots: &[String]) -> Vec<u32> {
    let mut old_of = vec![NO_NODE; scanned.nodes.len()];
    for (root, path) in scanned.roots.iter().zip(roots) {
        if let (Some(known), Some(slot)) = (old.roots.get(path), old_of.get_mut(*root as usize)) {
            *slot = known.node;
        }
    }
    let old_children = |at: u32| match old.node(at).map(|node| &node.body) {
        Some(IndexBody::Dir { children, .. }) => children.as_slice(),
        Some(IndexBody::File { .. } | IndexBody::Symlink { .. } | IndexBody::Hardlink { .. }) | None => &[],
    };
    // Parents come first, so that a directory is matched before its children are.
    for at in 0..scanned.nodes.len() {
        let (Some(ScanNode { kind: ScanKind::Dir { children }, .. }), Some(known)) =
            (scanned.nodes.get(at), old_of.get(at).copied().filter(|known| *known != NO_NODE))
        else {
            continue;
        };
        let mut candidates = old_children(known).iter().peekable();
        for child in children {
            let Some(name) = scanned.node(*child).map(|node| &node.name) else { continue };
            let known_name = |at: &u32| old.node(*at).map(|node| &node.name);
            while candidates.next_if(|at| known_name(at).is_some_and(|known| known < name)).is_some() {}
            if let Some(candidate) = candidates.next_if(|at| known_name(at) == Some(name))
                && let Some(slot) = old_of.get_mut(*child as usize)
            {
                *slot = *candidate;
            }
        }
    }
    old_of
}

/// Finds files that were moved: they keep device, inode and times.
fn find_moved(scanned: &Scanned, old: &IndexData, new_here: &HashMap<(u64, u64), u32>, states: &mut [State]) {
    for (old_at, known) in (0u32..).zip(&old.nodes) {
        if matches!(known.body, IndexBody::File { .. })
            && let Some(at) = new_here.get(&(known.device, known.inode)).copied()
            && let Some(node) = scanned.node(at)
            && let ScanKind::File { size } = &node.kind
            && same_file(node, *size, known)
        {
            set(states, at, State::Known { old: old_at });
        }
    }
}

/// Groups the names of each file that has several within a root. The first in depth-first order holds the content, so
/// that it is restored before its other names.
fn other_names(scanned: &Scanned) -> HashMap<u32, Vec<u32>> {
    let mut groups: HashMap<(u16, u64, u64), Vec<u32>> = HashMap::new();
    for (at, node) in (0u32..).zip(&scanned.nodes) {
        if matches!(node.kind, ScanKind::File { .. }) && node.stat.nlink > 1 {
            groups.entry((node.root, node.stat.device, node.stat.inode)).or_default().push(at);
        }
    }
    groups.retain(|_, names| names.len() > 1);
    if groups.is_empty() {
        return HashMap::new();
    }
    let mut rank = vec![0u32; scanned.nodes.len()];
    let mut next = 0u32;
    let mut stack: Vec<u32> = scanned.roots.iter().rev().copied().collect();
    while let Some(at) = stack.pop() {
        if let Some(slot) = rank.get_mut(at as usize) {
            *slot = next;
            next = next.saturating_add(1);
        }
        if let Some(ScanNode { kind: ScanKind::Dir { children }, .. }) = scanned.node(at) {
            stack.extend(children.iter().rev());
        }
    }
    let mut named = HashMap::new();
    for (_, mut names) in groups {
        names.sort_unstable_by_key(|at| rank.get(*at as usize).copied());
        let mut names = names.into_iter();
        if let Some(first) = names.next() {
            named.insert(first, names.collect());
        }
    }
    named
}
