//! Walking persisted roots for a snapshot: only names and what `stat` says, never content.

use super::beneath::{Place, open_beneath};
use super::paths::open_root;
use super::{Answers, Stop};
use crate::errors::{Shown, failure, io_failure};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, OFlags, RawDir, Statx, StatxFlags, StatxTimestamp, makedev, readlinkat, statx};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use toolcell_protocol::limits::{MAX_ENTRIES_PER_MESSAGE, MAX_PATH_BYTES};
use toolcell_protocol::{Bytes, EntryKind, ErrorCode, GuestError, GuestMessage, ScanEntry, TimeNs};

/// Bytes of names that one directory may have, so that no directory fills the memory; beyond it the operation fails.
const MOST_NAME_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of the paths of directories that are still to be walked; beyond it the scan fails.
const MOST_AHEAD_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of paths in one message.
const MESSAGE_BYTES: usize = 256 * 1024;

/// All names in a directory but `.` and `..`.
pub(crate) fn read_names(directory: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    let mut bytes = 0usize;
    let mut buffer = [MaybeUninit::uninit(); 32 * 1024];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        bytes = bytes.saturating_add(name.len()).saturating_add(24);
        if bytes > MOST_NAME_BYTES {
            return Err(Errno::FBIG);
        }
        names.push(name.to_vec());
    }
    Ok(names)
}

/// A time of `statx`.
pub(crate) fn time(time: &StatxTimestamp) -> TimeNs {
    TimeNs { secs: time.tv_sec, nanos: time.tv_nsec }
}

/// Answers a `Scan`: each directory's entries in the order of their names, before what lies deeper. What is mounted
/// below a root is not shown at all: it is not part of what a snapshot holds.
pub(crate) fn answer(answers: Answers<'_>, roots: &[Bytes]) -> Result<(), Stop> {
    let mut batch = Batch { answers, entries: Vec::new(), bytes: 0 };
    for (number, root) in roots.iter().enumerate() {
        let number =
            u16::try_from(number).map_err(|_| failure(ErrorCode::Invalid, "more roots than a scan can number"))?;
        scan_root(&mut batch, number, root)?;
    }
    batch.flush()?;
    answers.finish(&GuestMessage::ScanDone { op: answers.op() });
    Ok(())
}

struct Batch<'a> {
    answers: Answers<'a>,
    entries: Vec<ScanEntry>,
    bytes: usize,
}

impl Batch<'_> {
    fn add(&mut self, entry: ScanEntry) -> Result<(), Stop> {
        self.bytes = self.bytes.saturating_add(entry.path.len()).saturating_add(64);
        if let EntryKind::Symlink { target } = &entry.kind {
            self.bytes = self.bytes.saturating_add(target.len());
        }
        self.entries.push(entry);
        if self.entries.len() >= MAX_ENTRIES_PER_MESSAGE || self.bytes >= MESSAGE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Stop> {
        self.bytes = 0;
        if !self.entries.is_empty() {
            let entries = std::mem::take(&mut self.entries);
            self.answers.send(&GuestMessage::ScanEntries { op: self.answers.op(), entries })?;
        }
        Ok(())
    }
}

fn look(at: BorrowedFd<'_>, name: &[u8]) -> Result<Statx, Errno> {
    let flags = if name.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::SYMLINK_NOFOLLOW };
    statx(at, name, flags | AtFlags::NO_AUTOMOUNT, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)
}

fn entry(root: u16, path: Vec<u8>, kind: EntryKind, found: &Statx) -> ScanEntry {
    ScanEntry {
        root,
        path: path.into(),
        kind,
        mode: u32::from(found.stx_mode) & 0o7777,
        mtime: time(&found.stx_mtime),
        ctime: time(&found.stx_ctime),
        inode: found.stx_ino,
        device: makedev(found.stx_dev_major, found.stx_dev_minor),
        nlink: found.stx_nlink,
    }
}

fn scan_root(batch: &mut Batch<'_>, number: u16, root: &[u8]) -> Result<(), Stop> {
    let failed = |errno: Errno, path: &[u8]| io_failure(errno, "scan", &[root, b"/", path].concat());
    let top = open_root(root)?;
    let found = look(top.as_fd(), b"").map_err(|errno| failed(errno, b""))?;
    let mount = Place::from_statx(&found).mount;
    batch.add(entry(number, Vec::new(), EntryKind::Dir, &found))?;
    let mut ahead: Vec<Vec<u8>> = vec![Vec::new()];
    let mut ahead_bytes = 0usize;
    while let Some(path) = ahead.pop() {
        ahead_bytes = ahead_bytes.saturating_sub(path.len());
        let directory = match open_beneath(top.as_fd(), &path, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(directory) => directory,
            // It was removed or replaced since it was seen; the next scan sees what is there then.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) if !path.is_empty() => continue,
            Err(errno) => return Err(failed(errno, &path).into()),
        };
        let mut names = read_names(directory.as_fd()).map_err(|errno| failed(errno, &path))?;
        names.sort_unstable();
        let mut below = Vec::new();
        for name in names {
            let Some((found, kind)) = describe(&directory, &name, mount).map_err(|errno| failed(errno, &path))? else {
                continue;
            };
            let whole = join(&path, &name);
            if whole.len() > MAX_PATH_BYTES {
                return Err(too_deep(&whole).into());
            }
            if kind == EntryKind::Dir {
                ahead_bytes = ahead_bytes.saturating_add(whole.len());
                if ahead_bytes > MOST_AHEAD_BYTES {
                    let message = format!("too many directories to walk at {}", Shown(&whole));
                    return Err(failure(ErrorCode::TooLarge, message).into());
                }
                below.push(whole.clone());
            }
            batch.add(entry(number, whole, kind, &found))?;
        }
        ahead.extend(below.into_iter().rev());
    }
    Ok(())
}

/// What a name is; `None` if it is gone or a mount point.
fn describe(directory: &OwnedFd, name: &[u8], mount: u64) -> Result<Option<(Statx, EntryKind)>, Errno> {
    let found = match look(directory.as_fd(), name) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let place = Place::from_statx(&found);
    if place.is_mount_root || place.mount != mount {
        return Ok(None);
    }
    match kind(directory, name, &found) {
        Ok(kind) => Ok(Some((found, kind))),
        // Replaced since it was looked at.
        Err(Errno::NOENT | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// What kind of entry `found` is.
pub(crate) fn kind(directory: &OwnedFd, name: &[u8], found: &Statx) -> Result<EntryKind, Errno> {
    let kind = FileType::from_raw_mode(u32::from(found.stx_mode));
    Ok(if kind == FileType::Directory {
        EntryKind::Dir
    } else if kind == FileType::RegularFile {
        EntryKind::File { size: found.stx_size }
    } else if kind == FileType::Symlink {
        let target = readlinkat(directory, name, Vec::with_capacity(256))?.into_bytes();
        EntryKind::Symlink { target: target.into() }
    } else {
        EntryKind::Special
    })
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

fn too_deep(path: &[u8]) -> GuestError {
    let message = format!("a path is longer than {MAX_PATH_BYTES} bytes: {}", Shown(path));
    failure(ErrorCode::TooLarge, message)
}
