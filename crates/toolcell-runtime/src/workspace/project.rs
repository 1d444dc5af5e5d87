//! Host directories that the operator maintains, kept the same in the workspace: compared by content at each start, so
//! that what is equal is not written, what a tool changed comes back, and what the operator removed goes.
//!
//! A list beside the files says which of them are ours. It lies in the workspace, so a tool can change it: the worst
//! that comes of it is that files of that very directory go or stay, which the tool could do itself.

use super::SetupError;
use super::content::{Body, Content, Kind, Node, Source};
use super::setup::{Projection, beneath};
use std::collections::{BTreeMap, BTreeSet};
use toolcell_protocol::{Bytes, EntryKind, RestoreItem, ScanEntry, TimeNs};
use toolcell_sandbox::GuestLink;

/// The list of what is ours, in the projected directory.
const LIST: &[u8] = b".toolcell-projection";
/// Bytes of one projection, and of what is compared with it.
const MOST_BYTES: u64 = 256 << 20;
/// Entries of one projection and of its directory in the workspace.
const MOST_ENTRIES: usize = 50_000;
/// Bytes of the list; a longer one counts as none.
const MOST_LIST_BYTES: u64 = 16 << 20;
/// Bytes that are fetched at once.
const PART_BYTES: u32 = 256 * 1024;

/// Answers with how many entries were written or removed.
pub(crate) async fn sync(link: &GuestLink, roots: &[String], projections: &[Projection]) -> Result<usize, SetupError> {
    let mut written = 0;
    for projection in projections {
        let one = one(link, roots, projection).await;
        let key = || format!("projections path = {}", projection.path);
        written += one.map_err(|source| SetupError::File { key: key(), source: Box::new(source) })?;
    }
    Ok(written)
}

async fn one(link: &GuestLink, roots: &[String], projection: &Projection) -> Result<usize, SetupError> {
    let Some((root, path)) = beneath(roots, &projection.path) else {
        return Err(SetupError::Path { path: projection.path.to_string() });
    };
    let wanted = wanted(root, &path, projection)?;
    let there = there(link, roots, root, &path).await?;
    let root_path = roots.get(usize::from(root)).map_or("", String::as_str);
    let ours = list(link, root_path, &path, &there).await?;
    let mut remove: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut write: Vec<&Vec<u8>> = Vec::new();
    for (place, node) in &wanted {
        match there.get(place) {
            Some(entry) if is_same(link, root_path, entry, node).await? => {}
            Some(entry) => {
                if !matches!((&entry.kind, &node.kind), (EntryKind::Dir, Kind::Dir)) {
                    remove.insert(place.clone());
                }
                write.push(place);
            }
            None => write.push(place),
        }
    }
    // What a tool has put where a directory must be.
    let above = there.iter().filter(|(place, entry)| place.len() < path.len() && !matches!(entry.kind, EntryKind::Dir));
    remove.extend(above.map(|(place, _)| place.clone()));
    for place in ours.iter().filter(|place| !wanted.contains_key(*place) && there.contains_key(*place)) {
        let mut inside = place.clone();
        inside.push(b'/');
        let foreign = |other: &Vec<u8>| other.starts_with(&inside) && !ours.contains(other);
        // A directory of ours in which a tool has put something stays.
        if !there.keys().any(foreign) {
            remove.insert(place.clone());
        }
    }
    let changes = remove.len() + write.len();
    if changes == 0 {
        return Ok(0);
    }
    apply(link, roots, root, &path, &there, &wanted, &remove, &write).await?;
    Ok(changes)
}

type Wanted = BTreeMap<Vec<u8>, Node>;
type There = BTreeMap<Vec<u8>, ScanEntry>;

/// What the operator has, and the list of it.
fn wanted(root: u16, path: &[u8], projection: &Projection) -> Result<Wanted, SetupError> {
    let mut content = Content::default();
    content.add_host(root, path, &projection.host, None, MOST_BYTES)?;
    if content.nodes.len() > MOST_ENTRIES {
        return Err(SetupError::TooMany);
    }
    let mut wanted: Wanted = content.nodes.into_iter().map(|((_, place), node)| (place, node)).collect();
    // Directories above the projection are not ours.
    wanted.retain(|place, _| place.len() >= path.len());
    if wanted.get(path).is_some_and(|node| matches!(node.kind, Kind::Dir)) {
        let lines: Vec<Vec<u8>> = wanted.keys().filter(|place| !place.contains(&b'\n')).cloned().collect();
        let text = lines.join(&b'\n');
        let size = text.len() as u64;
        let kind = Kind::File { body: Body::Bytes(text.into()), size };
        let list = Node { kind, mode: 0o600, mtime: TimeNs { secs: 0, nanos: 0 } };
        wanted.insert([path, b"/", LIST].concat(), list);
    }
    Ok(wanted)
}

/// What the workspace has there, with the directories above it.
async fn there(link: &GuestLink, roots: &[String], root: u16, path: &[u8]) -> Result<There, SetupError> {
    let mut found = There::new();
    let mut scan = link.scan(roots).map_err(SetupError::Sandbox)?;
    let inside = [path, b"/"].concat();
    while let Some(entries) = scan.next().await.map_err(SetupError::Sandbox)? {
        for entry in entries.into_iter().filter(|entry| entry.root == root) {
            let place: &[u8] = &entry.path;
            let above = path.strip_prefix(place).is_some_and(|rest| rest.starts_with(b"/"));
            if place == path || place.starts_with(&inside) || above {
                found.insert(place.to_vec(), entry);
                if found.len() > MOST_ENTRIES * 2 {
                    return Err(SetupError::TooMany);
                }
            }
        }
    }
    Ok(found)
}

/// The paths that an earlier start wrote, as far as they can be paths of this projection.
async fn list(link: &GuestLink, root: &str, path: &[u8], there: &There) -> Result<BTreeSet<Vec<u8>>, SetupError> {
    let place = [path, b"/", LIST].concat();
    let Some(ScanEntry { kind: EntryKind::File { size }, .. }) = there.get(&place) else { return Ok(BTreeSet::new()) };
    if *size > MOST_LIST_BYTES {
        return Ok(BTreeSet::new());
    }
    let mut text = Vec::new();
    fetch(link, root, &place, *size, |part| text.extend_from_slice(part)).await?;
    let inside = [path, b"/"].concat();
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec);
    Ok(lines.filter(|line| line.starts_with(&inside)).take(MOST_ENTRIES).collect())
}

async fn is_same(link: &GuestLink, root: &str, entry: &ScanEntry, node: &Node) -> Result<bool, SetupError> {
    let mode = entry.mode & 0o7777 == node.mode;
    Ok(match (&entry.kind, &node.kind) {
        (EntryKind::Dir, Kind::Dir) => mode,
        (EntryKind::Symlink { target: there }, Kind::Symlink { target }) => there.as_slice() == target.as_slice(),
        (EntryKind::File { size: there }, Kind::File { body, size }) if mode && there == size => {
            let mut hash = blake3::Hasher::new();
            let whole = fetch(link, root, &entry.path, *size, |part| {
                hash.update(part);
            });
            whole.await? && hash.finalize() == hash_of(body, *size)?
        }
        _ => false,
    })
}

fn hash_of(body: &Body, size: u64) -> Result<blake3::Hash, SetupError> {
    let source = Source::open(body)?;
    let mut hash = blake3::Hasher::new();
    let mut at = 0;
    while at < size {
        let part = source.read(at, size)?;
        hash.update(&part);
        at = at.saturating_add(part.len() as u64);
    }
    Ok(hash.finalize())
}

/// Reads a file of the workspace, holes included. `false` if it was not as long as it was.
async fn fetch(
    link: &GuestLink,
    root: &str,
    path: &[u8],
    size: u64,
    mut take: impl FnMut(&[u8]),
) -> Result<bool, SetupError> {
    let mut at = 0;
    while at < size {
        let part = link.fetch(root, path, at, PART_BYTES, false).await.map_err(SetupError::Sandbox)?;
        take(&part.data);
        let end = at.saturating_add(part.data.len() as u64);
        if part.next_offset <= at || part.next_offset > size {
            return Ok(part.end && end == size);
        }
        let mut hole = part.next_offset.saturating_sub(end);
        while hole > 0 {
            let zeros = [0; 4096];
            let length = usize::try_from(hole).unwrap_or(usize::MAX).min(zeros.len());
            take(zeros.get(..length).unwrap_or(&zeros));
            hole = hole.saturating_sub(length as u64);
        }
        at = part.next_offset;
    }
    Ok(true)
}

#[allow(clippy::too_many_arguments, reason = "the parts of one comparison, used in this one place")]
async fn apply(
    link: &GuestLink,
    roots: &[String],
    root: u16,
    path: &[u8],
    there: &There,
    wanted: &Wanted,
    remove: &BTreeSet<Vec<u8>>,
    write: &[&Vec<u8>],
) -> Result<(), SetupError> {
    let restore = link.restore(roots, false).map_err(SetupError::Sandbox)?;
    // What lies deeper first.
    for place in remove.iter().rev() {
        let item = RestoreItem::Remove { root, path: Bytes::from(place.clone()) };
        restore.put(item).await.map_err(SetupError::Sandbox)?;
    }
    let mut content = Content::default();
    // Directories above are there, or are made; those that are there stay as they are.
    for slash in path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at) {
        let above = path.get(..slash).unwrap_or_default().to_vec();
        let node = match there.get(&above) {
            Some(entry) if matches!(entry.kind, EntryKind::Dir) => {
                Node { kind: Kind::Dir, mode: entry.mode & 0o7777, mtime: entry.mtime }
            }
            Some(_) | None => Node::dir(),
        };
        content.insert(root, above, node)?;
    }
    let written: BTreeSet<&Vec<u8>> = write.iter().copied().collect();
    for (place, node) in wanted {
        if matches!(node.kind, Kind::Dir) || written.contains(place) {
            content.insert(root, place.clone(), node.clone())?;
        }
    }
    content.send(&restore).await?;
    restore.finish().await.map_err(SetupError::Sandbox)
}
