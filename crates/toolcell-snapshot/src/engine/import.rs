//! An archive as the slot's next snapshot, straight into the store.

use super::archive::{Entry, EntryBody, Input};
use super::build::build;
use super::plan::{Plan, Read, State};
use super::read::{Cutter, SealedPieces, WHOLE_FILE_BYTES};
use super::snapshot::check_roots;
use super::upload::{Known, Sealing, Uploader};
use super::{HeadWriter, SnapshotEngine};
use crate::entry::{EntryKind, MAX_ENTRIES, Meta, ScanEntry, TimeNs, check_xattrs};
use crate::error::{ImportError, SnapshotError, StoreError};
use crate::format::manifest::Manifest;
use crate::format::tree::{Extent, MAX_EXTENTS};
use crate::index::{IndexData, SlotIndex};
use crate::progress::{Phase, Progress, ProgressSink};
use crate::receipt::SnapshotReceipt;
use crate::scan::{ScanBuilder, Scanned};
use futures_util::future::try_join;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

/// Content is read in parts of this size; one that is all zeros becomes a hole.
const PART: usize = 64 * 1024;
const QUEUE: usize = 4;

/// How an archive is taken.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// The persisted roots: an entry of the archive must lie in one of them. Roots that the archive does not have are
    /// carried over as they are.
    pub roots: Vec<String>,
    /// What to note as the image's digest.
    pub image_digest: String,
    /// Whether symbolic links may point out of their root, as those of a virtual environment do. They are kept as text
    /// and never followed here. Hard links never may.
    pub allow_outside_links: bool,
}

/// A file's content, whatever its names.
struct Content {
    size: u64,
    meta: Meta,
    extents: Arc<[Extent]>,
    names: u32,
}

enum Kind {
    Dir(Meta),
    /// The place of its content.
    File(usize),
    Symlink(Vec<u8>, Meta),
}

/// What has been read so far.
#[derive(Default)]
struct Gathered {
    entries: BTreeMap<(u16, Vec<u8>), Kind>,
    contents: Vec<Content>,
    bytes: u64,
}

impl SnapshotEngine {
    /// Makes a tar archive, plain or compressed with zstd, the slot's newest snapshot: each root that it has is
    /// replaced by what it has there. Read once, from its beginning to its end, in bounded memory. What is resident has
    /// to be restored anew.
    ///
    /// Safe to drop at any point, as a snapshot is.
    ///
    /// # Errors
    /// [`ImportError`]: an archive that holds anything doubtful is refused as a whole.
    pub async fn import(
        &self,
        writer: &mut HeadWriter,
        index: &mut SlotIndex,
        archive: &mut (dyn AsyncRead + Send + Unpin),
        options: &ImportOptions,
        progress: &dyn ProgressSink,
    ) -> Result<SnapshotReceipt, ImportError> {
        let started = self.clock.monotonic();
        check_roots(&options.roots).map_err(|detail| SnapshotError::Roots { detail })?;
        self.settle(writer, index).await?;
        let mut receipt = self.blank_receipt(writer);
        let old = self.base_index(writer, index).await?;
        let keys = self.keys.tenant(&writer.tenant);
        let mut uploader = Uploader::new(self, &writer.slot, writer.token(), &old);
        let (out, mut blobs) = mpsc::channel(QUEUE);
        let sealing = Sealing { keys: keys.clone(), known: Arc::new(Known::new(Arc::clone(&old))), out };
        let produce = async {
            let gathered = self.gather(archive, &sealing, options, progress).await?;
            let (roots, plan) = plan(gathered, options, TimeNs { secs: now_secs(self), nanos: 0 })?;
            let building = tokio::task::spawn_blocking(move || {
                let Sealing { keys, known, out } = sealing;
                build(&plan, &IndexData::default(), &roots, &keys, &known, &out)
            });
            let built = building.await.map_err(|error| StoreError::internal("a new tree", error))?;
            built.map_err(ImportError::from)
        };
        let consume = async {
            while let Some(batch) = blobs.recv().await {
                uploader.push(&batch).await?;
            }
            Ok(())
        };
        let (built, ()) = try_join(produce, consume).await?;
        receipt.changed_files = built.changed_files;
        let rest = self.store_rest(writer, &keys, &old, built, &mut uploader, &options.image_digest).await;
        let (manifest, data) = rest?;
        let encoded = manifest.encode(&self.keys)?;
        receipt.new_bytes = uploader.bytes + encoded.len() as u64;
        receipt.new_packs = uploader.packs.len() as u64;
        self.store.put_if_absent(&Manifest::name(&writer.slot, manifest.snapshot), encoded).await?;
        self.commit(writer, index, manifest.snapshot, SlotIndex { data: Arc::new(data) }).await?;
        receipt.describe(&manifest);
        receipt.duration = self.clock.monotonic().saturating_duration_since(started);
        Ok(receipt)
    }

    /// Reads the archive; content goes to the store at once.
    async fn gather(
        &self,
        archive: &mut (dyn AsyncRead + Send + Unpin),
        sealing: &Sealing,
        options: &ImportOptions,
        progress: &dyn ProgressSink,
    ) -> Result<Gathered, ImportError> {
        // Headers come on top of what a workspace may have.
        let most = self.max_workspace_bytes.saturating_mul(2).saturating_add(1 << 30);
        let mut input = Input::new(archive, most).await?;
        let mut gathered = Gathered::default();
        while let Some(entry) = input.next().await? {
            let Some((root, path)) = locate(&entry, options)? else { continue };
            if gathered.entries.len() >= MAX_ENTRIES {
                return Err(ImportError::TooLarge { detail: format!("more than {MAX_ENTRIES} entries") });
            }
            self.take_entry(&mut input, &mut gathered, entry, (root, path), sealing, options).await?;
            let files = gathered.contents.len() as u64;
            progress.report(Progress { files, bytes: gathered.bytes, ..Progress::begin(Phase::Import) });
        }
        Ok(gathered)
    }

    async fn take_entry(
        &self,
        input: &mut Input<'_>,
        gathered: &mut Gathered,
        entry: Entry,
        place: (u16, Vec<u8>),
        sealing: &Sealing,
        options: &ImportOptions,
    ) -> Result<(), ImportError> {
        let Entry { path: name, mut meta, body } = entry;
        if gathered.entries.contains_key(&place) {
            return Err(refused(&name, "it is there twice"));
        }
        check_xattrs(&mut meta.xattrs).map_err(|error| refused(&name, error.to_string()))?;
        let kind = match body {
            EntryBody::Dir => Kind::Dir(meta),
            EntryBody::Symlink { target } => {
                if !options.allow_outside_links && escapes(&place.1, &target) {
                    return Err(refused(&name, "a symbolic link that points out of its root"));
                }
                Kind::Symlink(target, meta)
            }
            EntryBody::Hardlink { to } => {
                let target = split(&to, options).map_err(|why| refused(&name, why))?;
                let same_root = target.filter(|(root, _)| *root == place.0);
                match same_root.and_then(|target| gathered.entries.get(&target)) {
                    Some(Kind::File(at)) => {
                        let at = *at;
                        if let Some(content) = gathered.contents.get_mut(at) {
                            content.names = content.names.saturating_add(1);
                        }
                        Kind::File(at)
                    }
                    Some(Kind::Dir(_) | Kind::Symlink(..)) | None => {
                        return Err(refused(&name, "a hard link to what is no earlier file of the same root"));
                    }
                }
            }
            EntryBody::File { size } => {
                gathered.bytes = gathered.bytes.saturating_add(size);
                if gathered.bytes > self.max_workspace_bytes {
                    return Err(SnapshotError::TooLarge { max: self.max_workspace_bytes }.into());
                }
                let extents = content(input, &name, size, sealing).await?.into();
                gathered.contents.push(Content { size, meta, extents, names: 1 });
                Kind::File(gathered.contents.len() - 1)
            }
        };
        gathered.entries.insert(place, kind);
        Ok(())
    }
}

fn now_secs(engine: &SnapshotEngine) -> i64 {
    i64::try_from(engine.clock.now().0 / 1000).unwrap_or_default()
}

fn refused(path: &[u8], detail: impl Into<String>) -> ImportError {
    let path = path.escape_ascii().take(300).map(char::from).collect();
    ImportError::Entry { path, detail: detail.into() }
}

/// Reads, cuts and seals a file's content.
async fn content(input: &mut Input<'_>, name: &[u8], size: u64, sealing: &Sealing) -> Result<Vec<Extent>, ImportError> {
    let mut cutter = Cutter::new(sealing.keys.cut_seed, size > WHOLE_FILE_BYTES);
    let mut sealed = SealedPieces::new(sealing);
    let mut offset = 0u64;
    while offset < size {
        let len = usize::try_from(size - offset).unwrap_or(PART).min(PART);
        let part = input.read(len).await?;
        if len == PART && part.iter().all(|byte| *byte == 0) {
            cutter.end_run();
        } else {
            cutter.feed(offset, &part);
        }
        offset += len as u64;
        sealed.add(cutter.take()).await?;
        if sealed.extents.len() > MAX_EXTENTS {
            return Err(refused(name, format!("more than {MAX_EXTENTS} pieces")));
        }
    }
    input.skip_padding(size).await?;
    cutter.end_run();
    sealed.add(cutter.take()).await?;
    Ok(sealed.finish().await?)
}

/// The root and the path beneath it. None for a directory above a root.
fn locate(entry: &Entry, options: &ImportOptions) -> Result<Option<(u16, Vec<u8>)>, ImportError> {
    match split(&entry.path, options) {
        Err(why) => Err(refused(&entry.path, why)),
        Ok(Some(place)) if place.1.is_empty() && !matches!(entry.body, EntryBody::Dir) => {
            Err(refused(&entry.path, "a root that is no directory"))
        }
        Ok(Some(place)) => Ok(Some(place)),
        Ok(None) if matches!(entry.body, EntryBody::Dir) && is_above(&entry.path, options) => Ok(None),
        Ok(None) => Err(refused(&entry.path, format!("it lies in none of the roots {}", options.roots.join(", ")))),
    }
}

/// The parts of a name in an archive: relative, normal but for dots and a slash at the end.
fn parts(name: &[u8]) -> Result<Vec<&[u8]>, &'static str> {
    if name.starts_with(b"/") {
        return Err("an absolute path");
    }
    let parts: Vec<&[u8]> = name.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    if parts.contains(&&b".."[..]) { Err("a path with `..`") } else { Ok(parts) }
}

fn split(name: &[u8], options: &ImportOptions) -> Result<Option<(u16, Vec<u8>)>, &'static str> {
    let parts = parts(name)?;
    for (number, root) in (0u16..).zip(&options.roots) {
        let root: Vec<&[u8]> = root.split('/').filter(|part| !part.is_empty()).map(str::as_bytes).collect();
        if let Some(rest) = parts.strip_prefix(&root[..]) {
            return Ok(Some((number, rest.join(&b'/'))));
        }
    }
    Ok(None)
}

fn is_above(name: &[u8], options: &ImportOptions) -> bool {
    let Ok(parts) = parts(name) else { return false };
    let above = |root: &String| {
        let root: Vec<&[u8]> = root.split('/').filter(|part| !part.is_empty()).map(str::as_bytes).collect();
        root.starts_with(&parts)
    };
    options.roots.iter().any(above)
}

/// Whether a symbolic link leads out of its root.
fn escapes(path: &[u8], target: &[u8]) -> bool {
    if target.starts_with(b"/") {
        return true;
    }
    let mut depth = path.iter().filter(|byte| **byte == b'/').count();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

/// What was read in the form in which a scan comes, with everything read already.
fn plan(mut gathered: Gathered, options: &ImportOptions, now: TimeNs) -> Result<(Vec<String>, Plan), ImportError> {
    // Directories that only their content tells of.
    let mut missing = Vec::new();
    for (root, path) in gathered.entries.keys() {
        let mut above = &path[..];
        while !above.is_empty() {
            above = above.iter().rposition(|byte| *byte == b'/').and_then(|cut| above.get(..cut)).unwrap_or_default();
            missing.push((*root, above.to_vec()));
        }
    }
    missing.sort_unstable();
    missing.dedup();
    for place in missing {
        let meta = Meta { mode: 0o755, mtime: now, xattrs: Vec::new() };
        gathered.entries.entry(place).or_insert(Kind::Dir(meta));
    }
    let mut present: Vec<u16> = gathered.entries.keys().map(|(root, _)| *root).collect();
    present.dedup();
    if present.is_empty() {
        return Err(ImportError::Malformed { detail: "it holds nothing of any root".to_owned() });
    }
    let roots: Vec<String> = present.iter().filter_map(|root| options.roots.get(usize::from(*root)).cloned()).collect();
    let mut builder = ScanBuilder::new(roots.len());
    for ((root, path), kind) in &gathered.entries {
        let number = present.iter().position(|known| known == root).and_then(|at| u16::try_from(at).ok());
        let entry = scan_entry(number.unwrap_or_default(), path, kind, &gathered.contents);
        builder.add(entry).map_err(|error| refused(path, error.to_string()))?;
    }
    let scanned = builder.finish().map_err(|error| refused(b"", error.to_string()))?;
    let mut plan = Plan::new(scanned, &IndexData::default(), &roots);
    for at in std::mem::take(&mut plan.todo) {
        if let Some(read) = read_state(&plan.scanned, at, &gathered, &present) {
            plan.set(at, State::Read(Box::new(read)));
        }
    }
    Ok((roots, plan))
}

fn scan_entry(root: u16, path: &[u8], kind: &Kind, contents: &[Content]) -> ScanEntry {
    let (meta, kind, inode, nlink) = match kind {
        Kind::Dir(meta) => (Some(meta), EntryKind::Dir, u64::MAX, 1),
        Kind::Symlink(target, meta) => (Some(meta), EntryKind::Symlink { target: target.clone() }, u64::MAX, 1),
        Kind::File(at) => {
            let content = contents.get(*at);
            let size = content.map_or(0, |content| content.size);
            let names = content.map_or(1, |content| content.names);
            (content.map(|content| &content.meta), EntryKind::File { size }, *at as u64, names)
        }
    };
    let (mode, mtime) = meta.map_or((0o644, TimeNs::default()), |meta| (meta.mode, meta.mtime));
    ScanEntry { root, path: path.to_vec(), kind, mode, mtime, ctime: mtime, inode, device: 0, nlink }
}

fn read_state(scanned: &Scanned, at: u32, gathered: &Gathered, present: &[u16]) -> Option<Read> {
    let node = scanned.node(at)?;
    let root = *present.get(usize::from(node.root))?;
    let (meta, size, extents) = match gathered.entries.get(&(root, scanned.path(at)))? {
        Kind::Dir(meta) | Kind::Symlink(_, meta) => (meta, 0, Arc::default()),
        Kind::File(at) => {
            let content = gathered.contents.get(*at)?;
            (&content.meta, content.size, Arc::clone(&content.extents))
        }
    };
    let Meta { mtime, xattrs, .. } = meta.clone();
    let inode = node.stat.inode;
    // Nothing is known of the files that this becomes: each is read again by the next snapshot, unless it is restored.
    Some(Read { size, mtime, ctime: mtime, inode, xattrs, extents, racy: true, unstable: false })
}
