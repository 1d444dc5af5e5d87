//! From what was read to trees and the next index. Directories in which nothing has changed keep theirs.

use super::plan::{Plan, State};
use super::upload::Known;
use crate::entry::Meta;
use crate::error::StoreError;
use crate::format::keys::{BlobId, BlobKind, TenantKeys};
use crate::format::manifest::Counts;
use crate::format::pack::{Sealed, Sealer};
use crate::format::tree::{Content, Extent, INLINE_EXTENTS, TreeBody, TreeEntry, encode_dir, encode_extents};
use crate::index::{IndexBody, IndexData, IndexNode, IndexRoot};
use crate::scan::{NO_NODE, ScanKind, ScanNode};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc::Sender;

/// Tree blobs are handed over in batches of about this size.
const BATCH_BYTES: usize = 1024 * 1024;
/// How many unstable files are named.
const MAX_UNSTABLE_NAMED: usize = 20;

/// A workspace in the form in which it is kept.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) nodes: Vec<IndexNode>,
    pub(super) roots: BTreeMap<String, IndexRoot>,
    pub(super) changed_files: u64,
    pub(super) files_unstable: u64,
    pub(super) unstable_paths: Vec<String>,
}

/// Makes blobs of trees and lists, and hands over those that are new.
struct Out<'a> {
    keys: &'a TenantKeys,
    known: &'a Known,
    sender: &'a Sender<Vec<Sealed>>,
    sealer: Option<Sealer>,
    batch: Vec<Sealed>,
    batch_bytes: usize,
}

impl Out<'_> {
    fn add(&mut self, kind: BlobKind, blobs: Vec<(BlobId, Vec<u8>)>) -> Result<(), StoreError> {
        let internal = |error: std::io::Error| StoreError::internal("a new pack", error);
        for (id, plain) in blobs {
            if !self.known.claim(id) {
                continue;
            }
            let sealer = match &mut self.sealer {
                Some(sealer) => sealer,
                none => none.insert(Sealer::new().map_err(internal)?),
            };
            let sealed = sealer.seal(id, kind, plain).map_err(internal)?;
            self.batch_bytes += sealed.stored.len();
            self.batch.push(sealed);
        }
        if self.batch_bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.batch_bytes = 0;
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.sender
            .blocking_send(batch)
            .map_err(|_| StoreError::internal("a new pack", std::io::Error::from(std::io::ErrorKind::BrokenPipe)))
    }
}

/// Builds trees. Blocking: runs beside the uploader that takes what it makes.
pub(super) fn build(
    plan: &Plan,
    old: &IndexData,
    roots: &[String],
    keys: &TenantKeys,
    known: &Known,
    sender: &Sender<Vec<Sealed>>,
) -> Result<Built, StoreError> {
    let mut out = Out { keys, known, sender, sealer: None, batch: Vec::new(), batch_bytes: 0 };
    let (new_of, kept) = number(plan);
    let mut built = Built {
        nodes: Vec::with_capacity(kept.len()),
        roots: BTreeMap::new(),
        changed_files: 0,
        files_unstable: 0,
        unstable_paths: Vec::new(),
    };
    for at in &kept {
        if let Some(node) = make_node(plan, old, &new_of, *at, &mut out)? {
            built.nodes.push(node);
        }
        note_changed(plan, roots, *at, &mut built);
    }
    // Children come after their directories.
    for (at, scanned) in kept.iter().enumerate().rev() {
        let known_dir = plan.old_of.get(*scanned as usize).and_then(|at| old.node(*at));
        finish_dir(&mut built.nodes, at, known_dir, old, &mut out)?;
    }
    out.flush()?;
    let counts = count(&built.nodes, plan, &kept);
    for ((root, path), counts) in plan.scanned.roots.iter().zip(roots).zip(counts) {
        if let Some(node) = new_of.get(*root as usize).copied() {
            built.roots.insert(path.clone(), IndexRoot { node, counts });
        }
    }
    Ok(built)
}

/// Numbers the entries that are kept: not gone, nor beneath a directory that is.
fn number(plan: &Plan) -> (Vec<u32>, Vec<u32>) {
    let mut new_of = vec![NO_NODE; plan.scanned.nodes.len()];
    let mut kept = Vec::new();
    for (at, (node, state)) in (0u32..).zip(plan.scanned.nodes.iter().zip(&plan.states)) {
        let parent_kept = node.parent == NO_NODE || new_of.get(node.parent as usize).is_some_and(|new| *new != NO_NODE);
        if parent_kept
            && !matches!(state, State::Gone)
            && let Some(slot) = new_of.get_mut(at as usize)
        {
            *slot = u32::try_from(kept.len()).unwrap_or(NO_NODE);
            kept.push(at);
        }
    }
    (new_of, kept)
}

fn make_node(
    plan: &Plan,
    old: &IndexData,
    new_of: &[u32],
    at: u32,
    out: &mut Out<'_>,
) -> Result<Option<IndexNode>, StoreError> {
    let (Some(node), Some(state)) = (plan.scanned.node(at), plan.states.get(at as usize)) else {
        return Ok(None);
    };
    let new = |at: u32| new_of.get(at as usize).copied().unwrap_or(NO_NODE);
    let stat = &node.stat;
    let mut made = IndexNode {
        parent: if node.parent == NO_NODE { NO_NODE } else { new(node.parent) },
        name: node.name.clone(),
        mode: stat.mode,
        mtime: stat.mtime,
        ctime: stat.ctime,
        inode: stat.inode,
        device: stat.device,
        racy: false,
        xattrs: Vec::new(),
        body: IndexBody::Symlink { target: Box::default() },
    };
    let known = match state {
        State::Known { old: at } => old.node(*at),
        State::Scanned | State::Unread | State::Linked { .. } | State::Read(_) | State::Gone => None,
    };
    if let Some(known) = known {
        made.xattrs.clone_from(&known.xattrs);
    }
    if let State::Read(read) = state {
        made.xattrs.clone_from(&read.xattrs);
        (made.ctime, made.inode, made.racy) = (read.ctime, read.inode, read.racy);
    }
    made.body = match (&node.kind, state) {
        (ScanKind::Dir { children }, _) => {
            let children = children.iter().map(|child| new(*child)).filter(|child| *child != NO_NODE).collect();
            // The tree is made when the children are known.
            IndexBody::Dir { children, tree: BlobId([0; 32]), parts: Vec::new() }
        }
        (ScanKind::Symlink { target }, _) => IndexBody::Symlink { target: target.clone() },
        (ScanKind::File { .. }, State::Linked { to }) if new(*to) != NO_NODE => {
            IndexBody::Hardlink { to: plan.scanned.path(*to), node: new(*to) }
        }
        (ScanKind::File { .. }, State::Read(read)) => {
            made.mtime = read.mtime;
            let lists = lists(&read.extents, out)?;
            IndexBody::File { size: read.size, extents: Arc::clone(&read.extents), lists }
        }
        (ScanKind::File { .. }, _) => match known.map(|known| &known.body) {
            Some(body @ IndexBody::File { .. }) => body.clone(),
            Some(IndexBody::Dir { .. } | IndexBody::Symlink { .. } | IndexBody::Hardlink { .. }) | None => {
                return Err(StoreError::internal("a new tree", "a file that nobody has read"));
            }
        },
    };
    Ok(Some(made))
}

/// Stores a large file's list of chunks.
fn lists(extents: &[Extent], out: &mut Out<'_>) -> Result<Vec<BlobId>, StoreError> {
    if extents.len() <= INLINE_EXTENTS {
        return Ok(Vec::new());
    }
    let blobs = encode_extents(out.keys, extents).map_err(|error| StoreError::internal("a new tree", error))?;
    let ids = blobs.iter().map(|(id, _)| *id).collect();
    out.add(BlobKind::Extents, blobs)?;
    Ok(ids)
}

fn note_changed(plan: &Plan, roots: &[String], at: u32, built: &mut Built) {
    let (Some(node), Some(State::Read(read))) = (plan.scanned.node(at), plan.states.get(at as usize)) else {
        return;
    };
    if matches!(node.kind, ScanKind::File { .. }) {
        built.changed_files += 1;
        if read.unstable {
            built.files_unstable += 1;
            if built.unstable_paths.len() < MAX_UNSTABLE_NAMED {
                let root = roots.get(usize::from(node.root)).map_or("", String::as_str);
                built.unstable_paths.push(crate::entry::display_path(root, &plan.scanned.path(at)));
            }
        }
    }
}

/// Gives a directory its tree: the old one if nothing in it has changed.
fn finish_dir(
    nodes: &mut [IndexNode],
    at: usize,
    known: Option<&IndexNode>,
    old: &IndexData,
    out: &mut Out<'_>,
) -> Result<(), StoreError> {
    let Some(IndexNode { body: IndexBody::Dir { children, .. }, .. }) = nodes.get(at) else {
        return Ok(());
    };
    let node = |at: &u32| nodes.get(*at as usize);
    let (made, made_parts) = match known.map(|known| &known.body) {
        Some(IndexBody::Dir { children: known, tree, parts })
            if known.len() == children.len()
                && known.iter().zip(children).all(|(known, new)| same(old.node(*known), node(new))) =>
        {
            (*tree, parts.clone())
        }
        _ => {
            let entries = children.iter().filter_map(node).map(tree_entry).collect();
            let encoded = encode_dir(out.keys, entries).map_err(|error| StoreError::internal("a new tree", error))?;
            out.add(BlobKind::Tree, encoded.blobs)?;
            (encoded.tree, encoded.parts)
        }
    };
    if let Some(IndexNode { body: IndexBody::Dir { tree, parts, .. }, .. }) = nodes.get_mut(at) {
        *tree = made;
        *parts = made_parts;
    }
    Ok(())
}

/// Whether two entries are kept the same way.
fn same(old: Option<&IndexNode>, new: Option<&IndexNode>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return false };
    if old.name != new.name || old.mode != new.mode || old.mtime != new.mtime || old.xattrs != new.xattrs {
        return false;
    }
    match (&old.body, &new.body) {
        (IndexBody::Dir { tree: old, .. }, IndexBody::Dir { tree: new, .. }) => old == new,
        (
            IndexBody::File { size: old_size, extents: old, .. },
            IndexBody::File { size: new_size, extents: new, .. },
        ) => old_size == new_size && (Arc::ptr_eq(old, new) || old == new),
        (IndexBody::Symlink { target: old }, IndexBody::Symlink { target: new }) => old == new,
        (IndexBody::Hardlink { to: old, .. }, IndexBody::Hardlink { to: new, .. }) => old == new,
        (
            IndexBody::Dir { .. } | IndexBody::File { .. } | IndexBody::Symlink { .. } | IndexBody::Hardlink { .. },
            _,
        ) => false,
    }
}

fn tree_entry(node: &IndexNode) -> TreeEntry {
    let body = match &node.body {
        IndexBody::Dir { tree, .. } => TreeBody::Dir { tree: *tree },
        IndexBody::File { size, extents, lists } => {
            let content =
                if lists.is_empty() { Content::Inline(extents.to_vec()) } else { Content::Lists(lists.clone()) };
            TreeBody::File { size: *size, content }
        }
        IndexBody::Symlink { target } => TreeBody::Symlink { target: target.to_vec() },
        IndexBody::Hardlink { to, .. } => TreeBody::Hardlink { to: to.clone() },
    };
    TreeEntry { name: node.name.to_vec(), meta: meta(node), body }
}

/// What is kept about an entry.
pub(super) fn meta(node: &IndexNode) -> Meta {
    Meta { mode: node.mode, mtime: node.mtime, xattrs: node.xattrs.clone() }
}

fn count(nodes: &[IndexNode], plan: &Plan, kept: &[u32]) -> Vec<Counts> {
    let mut counts: Vec<Counts> =
        plan.scanned.specials.iter().map(|specials| Counts { specials: *specials, ..Counts::default() }).collect();
    for (node, at) in nodes.iter().zip(kept) {
        let root = plan.scanned.node(*at).map(|ScanNode { root, .. }| usize::from(*root));
        let Some(counts) = root.and_then(|root| counts.get_mut(root)) else { continue };
        match &node.body {
            IndexBody::Dir { .. } => counts.dirs += 1,
            IndexBody::File { size, .. } => {
                counts.files += 1;
                counts.bytes = counts.bytes.saturating_add(*size);
            }
            IndexBody::Hardlink { .. } => counts.files += 1,
            IndexBody::Symlink { .. } => {}
        }
    }
    counts
}
