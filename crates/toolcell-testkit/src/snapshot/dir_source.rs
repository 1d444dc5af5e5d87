//! Real directories as the source of snapshots: what the guest does, for tests.

use super::walk::{lstat, names, open_dir, open_parent, times, xattrs};
use async_trait::async_trait;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fstat, openat, seek};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;
use tokio::sync::mpsc::Sender;
use toolcell_snapshot::{EntryKind, FetchRequest, Fetched, ScanEntry, SourceError, WorkspaceSource};

const BATCH: usize = 256;

/// What is called before a fetch, to change things under the reader.
type Hook = Box<dyn Fn(&FetchRequest) + Send + Sync>;

/// Real directories, one per root. Remembers what was fetched.
pub struct DirSource {
    roots: Vec<PathBuf>,
    fetches: Mutex<Vec<FetchRequest>>,
    hook: Option<Hook>,
}

impl std::fmt::Debug for DirSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirSource").field("roots", &self.roots).finish_non_exhaustive()
    }
}

impl DirSource {
    /// A source over directories that are there.
    #[must_use]
    pub fn new(roots: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { roots: roots.into_iter().collect(), fetches: Mutex::default(), hook: None }
    }

    /// Calls something before each fetch.
    #[must_use]
    pub fn before_fetch(mut self, hook: impl Fn(&FetchRequest) + Send + Sync + 'static) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// What was fetched so far, and forgets it.
    pub fn take_fetches(&self) -> Vec<FetchRequest> {
        std::mem::take(&mut self.fetches.lock().unwrap())
    }

    fn root(&self, root: u16) -> &PathBuf {
        &self.roots[usize::from(root)]
    }
}

fn failed(error: Errno) -> SourceError {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => SourceError::Vanished,
        Errno::ACCESS | Errno::PERM => SourceError::Denied { detail: error.to_string() },
        error => SourceError::Internal { detail: error.to_string() },
    }
}

#[async_trait]
impl WorkspaceSource for DirSource {
    async fn scan(&self, sink: Sender<Vec<ScanEntry>>) -> Result<(), SourceError> {
        let closed = |_| SourceError::Unavailable { detail: "nobody listens".to_owned() };
        let mut batch = Vec::new();
        for (root, base) in (0u16..).zip(&self.roots) {
            let mut pending = vec![Vec::new()];
            batch.push(entry(root, Vec::new(), &fstat(open_dir(base, b"").map_err(failed)?).map_err(failed)?, None));
            while let Some(path) = pending.pop() {
                let dir = open_dir(base, &path).map_err(failed)?;
                for name in names(dir.as_fd()).map_err(failed)? {
                    let stat = match lstat(dir.as_fd(), &name) {
                        Err(Errno::NOENT) => continue,
                        stat => stat.map_err(failed)?,
                    };
                    let below = if path.is_empty() { name.clone() } else { [&path[..], &name].join(&b'/') };
                    let target = match FileType::from_raw_mode(stat.st_mode) {
                        FileType::Symlink => {
                            let name = std::ffi::CString::new(name).expect("names have no NUL");
                            Some(rustix::fs::readlinkat(&dir, &name, Vec::new()).map_err(failed)?.into_bytes())
                        }
                        FileType::Directory => {
                            pending.push(below.clone());
                            None
                        }
                        _ => None,
                    };
                    batch.push(entry(root, below, &stat, target));
                    if batch.len() >= BATCH {
                        sink.send(std::mem::take(&mut batch)).await.map_err(closed)?;
                    }
                }
            }
        }
        sink.send(batch).await.map_err(closed)
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, SourceError> {
        self.fetches.lock().unwrap().push(request.clone());
        if let Some(hook) = &self.hook {
            hook(&request);
        }
        fetch(self.root(request.root), &request).map_err(failed)
    }
}

#[allow(clippy::unnecessary_cast, clippy::cast_possible_truncation, reason = "the types differ by architecture")]
fn entry(root: u16, path: Vec<u8>, stat: &rustix::fs::Stat, target: Option<Vec<u8>>) -> ScanEntry {
    let kind = match (FileType::from_raw_mode(stat.st_mode), target) {
        (FileType::Directory, _) => EntryKind::Dir,
        (FileType::RegularFile, _) => EntryKind::File { size: stat.st_size.unsigned_abs() },
        (FileType::Symlink, Some(target)) => EntryKind::Symlink { target },
        _ => EntryKind::Special,
    };
    let (mtime, ctime) = times(stat);
    ScanEntry {
        root,
        path,
        kind,
        mode: stat.st_mode & 0o7777,
        mtime,
        ctime,
        inode: stat.st_ino as u64,
        device: stat.st_dev as u64,
        nlink: stat.st_nlink as u32,
    }
}

fn fetch(root: &std::path::Path, request: &FetchRequest) -> Result<Fetched, Errno> {
    let file = if request.path.is_empty() {
        open_dir(root, b"")?
    } else {
        let (dir, name) = open_parent(root, &request.path)?;
        openat(&dir, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?
    };
    let mut fetched = Fetched::default();
    let before = fstat(&file)?;
    match FileType::from_raw_mode(before.st_mode) {
        FileType::Directory => fetched.end = true,
        FileType::RegularFile => {
            let size = before.st_size.unsigned_abs();
            let reader = std::fs::File::from(file.try_clone().map_err(|_| Errno::MFILE)?);
            // Looking for holes is expensive where the kernel has to walk the page cache: not where there can be none.
            let dense = before.st_blocks.unsigned_abs() * 512 >= size;
            read_part(&reader, request, size, dense, &mut fetched)?;
        }
        _ => return Err(Errno::NOENT),
    }
    if request.want_xattrs {
        fetched.xattrs = xattrs(&file)?;
    }
    let after = fstat(&file)?;
    if FileType::from_raw_mode(after.st_mode) == FileType::RegularFile {
        fetched.size = after.st_size.unsigned_abs();
        fetched.end = fetched.next_offset >= fetched.size;
    }
    (fetched.mtime, fetched.ctime) = times(&after);
    fetched.inode = after.st_ino;
    Ok(fetched)
}

/// Reads data at the offset up to the next hole, and says where data goes on.
fn read_part(
    file: &std::fs::File,
    request: &FetchRequest,
    size: u64,
    dense: bool,
    fetched: &mut Fetched,
) -> Result<(), Errno> {
    let next_data = |from: u64| {
        if dense {
            return Ok(from);
        }
        match seek(file, SeekFrom::Data(from)) {
            Err(Errno::NXIO) => Ok(size.max(from)),
            found => found,
        }
    };
    let start = next_data(request.offset)?;
    if start > request.offset || start >= size {
        fetched.next_offset = start;
        return Ok(());
    }
    let hole = if dense { size } else { seek(file, SeekFrom::Hole(start))? };
    let len = (hole - start).min(u64::from(request.max_len));
    let mut data = vec![0; usize::try_from(len).expect("bounded by max_len")];
    let mut got = 0;
    while got < data.len() {
        match file.read_at(&mut data[got..], start + got as u64).map_err(|_| Errno::IO)? {
            0 => break,
            more => got += more,
        }
    }
    data.truncate(got);
    let end = start + got as u64;
    fetched.next_offset = if end == hole { next_data(end)? } else { end };
    fetched.data = data;
    Ok(())
}
