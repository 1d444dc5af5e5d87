//! Reading what has changed: many small files at a time, a few large ones in pieces, each until it holds still.

use super::RACY_MILLIS;
use super::plan::{Plan, Read, State};
use super::upload::{SealedHandle, Sealing};
use crate::entry::{FetchRequest, Fetched, MAX_ITEM_BYTES, TimeNs, WorkspaceSource, Xattrs, check_xattrs};
use crate::error::{SnapshotError, SourceError};
use crate::format::keys::{BlobId, BlobKind};
use crate::format::tree::{Extent, MAX_EXTENTS, valid_time};
use crate::progress::{NoProgress, Phase, Progress, ProgressSink};
use crate::scan::{ScanKind, ScanNode, Stat};
use fastcdc::v2020::{FastCDC, Normalization};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Semaphore;
use toolcell_model::Clock;

/// Files up to this size are one chunk.
pub(super) const WHOLE_FILE_BYTES: u64 = 1024 * 1024;
const MIN_CHUNK: usize = 256 * 1024;
const AVG_CHUNK: usize = 1024 * 1024;
const MAX_CHUNK: usize = 4 * 1024 * 1024;
/// Entries that are read at a time. Many, because an answer takes much longer to come than a small file to be read; what
/// they may hold is bounded by [`MAX_FETCHED_BYTES`].
const MAX_FETCHES: usize = 128;
/// Bytes of the files that are read at a time, as far as each is held at once; one more file is begun below it.
const MAX_FETCHED_BYTES: u64 = 8 * 1024 * 1024;
/// Large files that are read at a time; each holds up to about three chunks.
const MAX_LARGE: usize = 3;
/// Batches that are hashed at a time.
const MAX_SEALS: usize = 3;
const BATCH_BYTES: usize = 1024 * 1024;
const BATCH_FILES: usize = 128;
/// How often a file that changes while it is read is read before it is taken as read.
const MAX_ATTEMPTS: usize = 3;
/// Largest offset in a file.
const MAX_FILE_BYTES: u64 = i64::MAX as u64;

/// Where bytes are to be read from, and what they become.
pub(super) struct Reader<'a> {
    pub(super) source: &'a dyn WorkspaceSource,
    pub(super) sealing: Sealing,
    pub(super) clock: &'a dyn Clock,
    pub(super) roots: &'a [String],
    pub(super) max_bytes: u64,
    read_bytes: AtomicU64,
    large: Semaphore,
    progress: &'a dyn ProgressSink,
}

/// What reading an entry holds at once, by what the scan said of it.
fn held_bytes(plan: &Plan, at: u32) -> u64 {
    match plan.scanned.node(at) {
        Some(ScanNode { kind: ScanKind::File { size }, .. }) => (*size).min(WHOLE_FILE_BYTES),
        Some(_) | None => 0,
    }
}

/// Consecutive bytes that are not sealed yet.
type Piece = (u64, Vec<u8>);

enum Content {
    Whole(Vec<Piece>),
    Cut(Vec<Extent>),
}

impl Content {
    fn is_empty(&self) -> bool {
        match self {
            Self::Whole(pieces) => pieces.is_empty(),
            Self::Cut(extents) => extents.is_empty(),
        }
    }
}

struct FileRead {
    at: u32,
    seen: Seen,
    xattrs: Xattrs,
    racy: bool,
    unstable: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    size: u64,
    mtime: TimeNs,
    ctime: TimeNs,
    inode: u64,
}

enum Attempt {
    Done {
        seen: Seen,
        stable: bool,
        end: u64,
        xattrs: Xattrs,
        content: Content,
    },
    /// It was to be one chunk, and has become larger than that.
    Outgrown {
        seen: Seen,
    },
}

type FileResult = Result<Option<(FileRead, Content)>, SnapshotError>;

impl<'a> Reader<'a> {
    pub(super) fn new(
        source: &'a dyn WorkspaceSource,
        sealing: Sealing,
        clock: &'a dyn Clock,
        roots: &'a [String],
        max_bytes: u64,
    ) -> Self {
        let large = Semaphore::new(MAX_LARGE);
        Self { source, sealing, clock, roots, max_bytes, read_bytes: AtomicU64::new(0), large, progress: &NoProgress }
    }

    pub(super) fn with_progress(mut self, progress: &'a dyn ProgressSink) -> Self {
        self.progress = progress;
        self
    }

    /// Reads everything that the plan says is unread.
    pub(super) async fn read_all(&self, plan: &mut Plan) -> Result<(), SnapshotError> {
        let mut todo: VecDeque<u32> = std::mem::take(&mut plan.todo).into();
        let total_files = Some(todo.len() as u64);
        let mut files = 0;
        let mut reads: FuturesUnordered<BoxFuture<'_, (u32, FileResult)>> = FuturesUnordered::new();
        let mut seals = FuturesUnordered::new();
        let mut batch: Vec<(FileRead, Vec<Piece>)> = Vec::new();
        let mut batch_bytes = 0;
        let mut fetched_bytes = 0;
        loop {
            while reads.len() < MAX_FETCHES
                && fetched_bytes < MAX_FETCHED_BYTES
                && let Some(at) = todo.pop_front()
            {
                if let Some(read) = self.start(plan, at) {
                    fetched_bytes += held_bytes(plan, at);
                    reads.push(read);
                }
            }
            let full = batch_bytes >= BATCH_BYTES || batch.len() >= BATCH_FILES;
            if full || (reads.is_empty() && !batch.is_empty()) {
                seals.push(self.seal(std::mem::take(&mut batch)));
                batch_bytes = 0;
            }
            if reads.is_empty() && seals.is_empty() && todo.is_empty() {
                return Ok(());
            }
            tokio::select! {
                Some((at, read)) = reads.next(), if seals.len() < MAX_SEALS => {
                    fetched_bytes -= held_bytes(plan, at);
                    files += 1;
                    let bytes = self.read_bytes.load(Ordering::Relaxed);
                    self.progress.report(Progress { files, bytes, total_files, ..Progress::begin(Phase::Read) });
                    match read? {
                        None => todo.extend(plan.gone(at)),
                        Some((read, Content::Cut(extents))) => apply(plan, read, extents),
                        Some((read, Content::Whole(pieces))) if pieces.is_empty() => apply(plan, read, Vec::new()),
                        Some((read, Content::Whole(pieces))) => {
                            batch_bytes += pieces.iter().map(|(_, data)| data.len()).sum::<usize>();
                            batch.push((read, pieces));
                        }
                    }
                }
                Some(sealed) = seals.next() => {
                    for (read, extents) in sealed? {
                        apply(plan, read, extents);
                    }
                }
            }
        }
    }

    fn start<'b>(&'b self, plan: &Plan, at: u32) -> Option<BoxFuture<'b, (u32, FileResult)>> {
        let node = plan.scanned.node(at)?;
        let (root, path, stat) = (node.root, plan.scanned.path(at), node.stat);
        let size = match node {
            ScanNode { kind: ScanKind::File { size }, .. } => Some(*size),
            ScanNode { .. } => None,
        };
        Some(Box::pin(async move {
            let read = match size {
                Some(size) => self.read_file(at, root, &path, stat, size).await,
                None => self.read_dir(at, root, &path).await,
            };
            let read = match read {
                Err(SnapshotError::Read { source: SourceError::Vanished, .. }) if !path.is_empty() => Ok(None),
                read => read.map(Some),
            };
            (at, read)
        }))
    }

    async fn read_dir(&self, at: u32, root: u16, path: &[u8]) -> Result<(FileRead, Content), SnapshotError> {
        let before = self.clock.now();
        let (fetched, seen) = self.fetch(root, path, 0, 0, true).await?;
        let racy = self.is_racy(before.0, seen.ctime);
        let read = FileRead { at, seen, xattrs: fetched.xattrs, racy, unstable: false };
        Ok((read, Content::Whole(Vec::new())))
    }

    async fn read_file(
        &self,
        at: u32,
        root: u16,
        path: &[u8],
        stat: Stat,
        size: u64,
    ) -> Result<(FileRead, Content), SnapshotError> {
        let mut expected = Seen { size, mtime: stat.mtime, ctime: stat.ctime, inode: stat.inode };
        let mut cut = size > WHOLE_FILE_BYTES;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let before = self.clock.now();
            match self.attempt(root, path, expected, cut).await? {
                Attempt::Outgrown { seen } => {
                    cut = true;
                    expected = seen;
                }
                Attempt::Done { mut seen, stable, end, xattrs, content } if stable || attempts >= MAX_ATTEMPTS => {
                    if content.is_empty() && end > 0 && seen.inode != stat.inode {
                        // Another inode without any data may be a directory that took the file's place.
                        return Err(self.failed(root, path, SourceError::Vanished));
                    }
                    let racy = !stable || self.is_racy(before.0, seen.ctime);
                    seen.size = end;
                    return Ok((FileRead { at, seen, xattrs, racy, unstable: !stable }, content));
                }
                Attempt::Done { seen, .. } => {
                    expected = seen;
                    cut = cut || seen.size > WHOLE_FILE_BYTES;
                }
            }
        }
    }

    /// Reads a file once, from its beginning to its end.
    async fn attempt(&self, root: u16, path: &[u8], expected: Seen, cut: bool) -> Result<Attempt, SnapshotError> {
        let _permit = if cut { self.large.acquire().await.ok() } else { None };
        let mut cutter = Cutter::new(self.sealing.keys.cut_seed, cut);
        let mut sealed = SealedPieces::new(&self.sealing);
        let mut xattrs = Vec::new();
        let mut stable = true;
        let (mut offset, mut first, mut empty) = (0u64, true, 0);
        loop {
            let (fetched, seen) = self.fetch(root, path, offset, MAX_ITEM_BYTES, first).await?;
            stable = stable && seen == expected;
            if std::mem::take(&mut first) {
                xattrs = fetched.xattrs;
            }
            empty += usize::from(fetched.data.is_empty());
            let data_end = offset + fetched.data.len() as u64;
            cutter.feed(offset, &fetched.data);
            if fetched.end || fetched.next_offset > data_end {
                cutter.end_run();
            }
            if !cut && cutter.bytes > WHOLE_FILE_BYTES {
                return Ok(Attempt::Outgrown { seen });
            }
            if cut {
                sealed.add(cutter.take()).await?;
            }
            if sealed.extents.len().max(cutter.done.len()).max(empty) > MAX_EXTENTS {
                let detail = format!("more than {MAX_EXTENTS} pieces");
                return Err(self.failed(root, path, SourceError::TooLarge { detail }));
            }
            offset = fetched.next_offset;
            if fetched.end {
                // It shrank or grew under the last read: what was read is no longer what is there.
                stable = stable && seen.size == offset;
                let content = if cut { Content::Cut(sealed.finish().await?) } else { Content::Whole(cutter.take()) };
                return Ok(Attempt::Done { seen, stable, end: offset, xattrs, content });
            }
        }
    }

    /// One fetch, with everything that it says checked.
    async fn fetch(
        &self,
        root: u16,
        path: &[u8],
        offset: u64,
        max_len: usize,
        want_xattrs: bool,
    ) -> Result<(Fetched, Seen), SnapshotError> {
        let request = FetchRequest {
            root,
            path: path.to_vec(),
            offset,
            max_len: u32::try_from(max_len).unwrap_or(u32::MAX),
            want_xattrs,
        };
        let mut fetched = self.source.fetch(request).await.map_err(|source| self.failed(root, path, source))?;
        let len = fetched.data.len() as u64;
        let malformed = |what: &str| Err(self.failed(root, path, SourceError::malformed(what)));
        if fetched.data.len() > max_len {
            return malformed("more data than was asked for");
        }
        let data_end = offset.saturating_add(len);
        if fetched.end {
            // Shorter than what was read: it shrank, and its size will say so.
            fetched.next_offset = fetched.next_offset.max(data_end);
        }
        if fetched.next_offset < data_end || fetched.next_offset > MAX_FILE_BYTES {
            return malformed("a part that goes backwards");
        }
        if max_len > 0 && !fetched.end && fetched.next_offset == offset {
            return malformed("a part that leads nowhere");
        }
        if !valid_time(fetched.mtime) || !valid_time(fetched.ctime) {
            return malformed("an impossible time");
        }
        let read = self.read_bytes.fetch_add(len, Ordering::Relaxed).saturating_add(len);
        // A file may be read several times; what is read again is not more workspace.
        if read > self.max_bytes.saturating_mul(MAX_ATTEMPTS as u64 + 1) || fetched.next_offset > self.max_bytes {
            return Err(SnapshotError::TooLarge { max: self.max_bytes });
        }
        check_xattrs(&mut fetched.xattrs).map_err(|source| self.failed(root, path, source))?;
        let seen = Seen { size: fetched.size, mtime: fetched.mtime, ctime: fetched.ctime, inode: fetched.inode };
        Ok((fetched, seen))
    }

    fn failed(&self, root: u16, path: &[u8], source: SourceError) -> SnapshotError {
        let root = self.roots.get(usize::from(root)).cloned().unwrap_or_default();
        SnapshotError::Read { root, path: path.to_vec(), source }
    }

    fn is_racy(&self, now_millis: u64, ctime: TimeNs) -> bool {
        let millis = u64::try_from(ctime.secs).unwrap_or(0).saturating_mul(1000) + u64::from(ctime.nanos / 1_000_000);
        millis.saturating_add(RACY_MILLIS) >= now_millis
    }

    /// Seals the pieces of many files at once.
    async fn seal(&self, batch: Vec<(FileRead, Vec<Piece>)>) -> Result<Vec<(FileRead, Vec<Extent>)>, SnapshotError> {
        let mut plains = Vec::new();
        let mut files = Vec::with_capacity(batch.len());
        for (read, pieces) in batch {
            let spans: Vec<(u64, usize)> = pieces.iter().map(|(offset, data)| (*offset, data.len())).collect();
            plains.extend(pieces.into_iter().map(|(_, data)| data));
            files.push((read, spans));
        }
        let mut ids = self.sealing.finish(self.sealing.start(BlobKind::Chunk, plains)).await?.into_iter();
        let with_extents = |(read, spans): (FileRead, Vec<(u64, usize)>)| {
            (read, spans.into_iter().zip(ids.by_ref()).map(extent).collect())
        };
        Ok(files.into_iter().map(with_extents).collect())
    }
}

fn extent(((offset, len), chunk): ((u64, usize), BlobId)) -> Extent {
    // Chunks are at most MAX_CHUNK bytes.
    Extent { offset, bytes: u32::try_from(len).unwrap_or(u32::MAX), chunk }
}

fn apply(plan: &mut Plan, read: FileRead, extents: Vec<Extent>) {
    let FileRead { at, seen, xattrs, racy, unstable, .. } = read;
    let Seen { size, mtime, ctime, inode } = seen;
    let read = Read { size, mtime, ctime, inode, xattrs, extents: extents.into(), racy, unstable };
    plan.set(at, State::Read(Box::new(read)));
}

/// Cuts runs of data into chunks.
pub(super) struct Cutter {
    seed: u64,
    cut: bool,
    /// Where the part of the buffer that is not cut yet belongs in the file.
    start: u64,
    buffer: Vec<u8>,
    /// How much of the buffer is cut.
    used: usize,
    done: Vec<Piece>,
    bytes: u64,
}

impl Cutter {
    pub(super) fn new(seed: u64, cut: bool) -> Self {
        Self { seed, cut, start: 0, buffer: Vec::new(), used: 0, done: Vec::new(), bytes: 0 }
    }

    pub(super) fn feed(&mut self, offset: u64, data: &[u8]) {
        if self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
            self.start = offset;
        } else if self.used >= MAX_CHUNK {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.bytes = self.bytes.saturating_add(data.len() as u64);
        self.buffer.extend_from_slice(data);
        while self.cut && self.buffer.len() - self.used >= MAX_CHUNK {
            self.cut_one();
        }
    }

    /// A hole or the end follows.
    pub(super) fn end_run(&mut self) {
        while self.cut && self.used < self.buffer.len() {
            self.cut_one();
        }
        if self.used < self.buffer.len() {
            self.done.push((self.start, std::mem::take(&mut self.buffer)));
        }
    }

    fn cut_one(&mut self) {
        let rest = self.buffer.get(self.used..).unwrap_or_default();
        let level = Normalization::Level1;
        let cdc = FastCDC::with_level_and_seed(rest, MIN_CHUNK, AVG_CHUNK, MAX_CHUNK, level, self.seed);
        let (_, end) = cdc.cut(0, rest.len());
        let chunk = rest.get(..end.max(1)).unwrap_or(rest).to_vec();
        self.used += chunk.len();
        let start = self.start;
        self.start += chunk.len() as u64;
        self.done.push((start, chunk));
    }

    pub(super) fn take(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.done)
    }
}

/// Chunks of one large file: the next are read while the last are hashed.
pub(super) struct SealedPieces<'a> {
    sealing: &'a Sealing,
    pub(super) extents: Vec<Extent>,
    started: Option<Started>,
}

struct Started {
    spans: Vec<(u64, usize)>,
    batch: SealedHandle,
}

impl<'a> SealedPieces<'a> {
    pub(super) fn new(sealing: &'a Sealing) -> Self {
        Self { sealing, extents: Vec::new(), started: None }
    }

    pub(super) async fn add(&mut self, pieces: Vec<Piece>) -> Result<(), SnapshotError> {
        if pieces.is_empty() {
            return Ok(());
        }
        self.settle().await?;
        let spans = pieces.iter().map(|(offset, data)| (*offset, data.len())).collect();
        let plains = pieces.into_iter().map(|(_, data)| data).collect();
        self.started = Some(Started { spans, batch: self.sealing.start(BlobKind::Chunk, plains) });
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), SnapshotError> {
        if let Some(Started { spans, batch }) = self.started.take() {
            let ids = self.sealing.finish(batch).await?;
            self.extents.extend(spans.into_iter().zip(ids).map(extent));
        }
        Ok(())
    }

    pub(super) async fn finish(mut self) -> Result<Vec<Extent>, SnapshotError> {
        self.settle().await?;
        Ok(self.extents)
    }
}
