//! Filling persisted roots from a snapshot, entry by entry, as the tool user.
//!
//! Every entry is made below its root without following a link and without crossing a mount point, and nothing that
//! exists is ever replaced. The first entry that cannot be made ends the restore.

use super::Answers;
use super::beneath::{Place, is_proper, open_beneath};
use super::clear::clear;
use super::identity::Identity;
use super::paths::{check, look_at_root, mode_bits, reopen};
use crate::errors::{Shown, failure, io_failure};
use crate::outbox::Generation;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, fchmod, fchown, fsetxattr, fstat,
    ftruncate, futimens, linkat, mkdirat, openat, symlinkat, unlinkat, utimensat,
};
use rustix::io::{Errno, pwrite};
use std::collections::BTreeMap;
use toolcell_protocol::message::Op;
use toolcell_protocol::{Bytes, EntryMeta, ErrorCode, GuestError, GuestMessage, RestoreItem, TimeNs};

/// Restores that may go on at the same time; one more drops the oldest.
const MOST_RESTORES: usize = 4;
/// Roots of one restore.
const MOST_ROOTS: usize = 64;
/// Memory for the directories whose mode and time are set at the end.
const MOST_DIRECTORY_BYTES: usize = 64 * 1024 * 1024;

/// A root that is being filled.
#[derive(Debug)]
struct Root {
    path: Vec<u8>,
    directory: OwnedFd,
    mode: u32,
}

/// A file whose extents still come.
#[derive(Debug)]
struct Open {
    root: u16,
    path: Vec<u8>,
    file: OwnedFd,
    size: u64,
    meta: EntryMeta,
}

#[derive(Debug)]
struct Restore {
    identity: Identity,
    roots: Vec<Root>,
    directories: Vec<(u16, Vec<u8>, u32, TimeNs)>,
    directory_bytes: usize,
    open: Option<Open>,
    /// The directory of the last entry: most entries have the same one.
    parent: Option<(u16, Vec<u8>, OwnedFd)>,
}

/// All restores that go on.
#[derive(Debug)]
pub(crate) struct Restorer {
    identity: Identity,
    active: BTreeMap<(Generation, Op), Restore>,
}

impl Restorer {
    /// For a thread that is the tool user.
    pub(crate) fn new(identity: Identity) -> Self {
        Self { identity, active: BTreeMap::new() }
    }

    /// The rest of what was begun will not come.
    pub(crate) fn host_lost(&mut self) {
        self.active.clear();
    }

    /// Opens the roots, gives them to the tool user, and empties them if that is wanted.
    pub(crate) fn begin(&mut self, answers: Answers<'_>, roots: &[Bytes], empty: bool) -> Result<(), GuestError> {
        let key = (answers.generation, answers.op);
        if self.active.contains_key(&key) || roots.len() > MOST_ROOTS {
            return Err(failure(ErrorCode::Invalid, "the operation has begun already, or has too many roots"));
        }
        if self.active.len() >= MOST_RESTORES {
            // The oldest: its host must have given it up without a word.
            self.active.pop_first();
        }
        let opened: Result<Vec<Root>, GuestError> = roots.iter().map(|root| open(root, self.identity, empty)).collect();
        self.active.insert(
            key,
            Restore {
                identity: self.identity,
                roots: opened?,
                directories: Vec::new(),
                directory_bytes: 0,
                open: None,
                parent: None,
            },
        );
        Ok(())
    }

    /// One entry.
    pub(crate) fn add(&mut self, answers: Answers<'_>, item: RestoreItem) -> Result<(), GuestError> {
        let key = (answers.generation, answers.op);
        // What follows a failure is not wanted any more.
        let Some(restore) = self.active.get_mut(&key) else { return Ok(()) };
        let result = restore.add(item);
        if result.is_err() {
            self.active.remove(&key);
        }
        result
    }

    /// Sets what had to wait, and answers.
    pub(crate) fn end(&mut self, answers: Answers<'_>) -> Result<(), GuestError> {
        let Some(restore) = self.active.remove(&(answers.generation, answers.op)) else { return Ok(()) };
        restore.end()?;
        answers.finish(&GuestMessage::Restored { op: answers.op() });
        Ok(())
    }
}

fn open(path: &[u8], identity: Identity, empty: bool) -> Result<Root, GuestError> {
    let failed = |errno| io_failure(errno, "prepare", path);
    check(path)?;
    let directory = identity
        .as_root(|| look_at_root(path).and_then(|found| reopen(&found, OFlags::RDONLY | OFlags::DIRECTORY)))
        .map_err(failed)?;
    let mode = mode_bits(&fstat(&directory).map_err(failed)?);
    take_over(&directory, identity).map_err(failed)?;
    if empty {
        clear(directory.as_fd(), identity)
            .map_err(|error| io_failure(error.errno, "empty", &[path, b"/", &error.path].concat()))?;
    }
    Ok(Root { path: path.to_vec(), directory, mode })
}

/// Makes a directory the tool user's, and one in which it can make entries.
fn take_over(directory: &OwnedFd, identity: Identity) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(identity.uid()), Gid::from_raw(identity.gid()));
    identity.as_root(|| fchown(directory, Some(uid), Some(gid)))?;
    fchmod(directory, Mode::from_raw_mode(0o700))
}

fn timestamps(time: TimeNs) -> Timestamps {
    let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Timestamps {
        last_access: omitted,
        last_modification: Timespec { tv_sec: time.secs, tv_nsec: i64::from(time.nanos) },
    }
}

fn set_xattrs(file: BorrowedFd<'_>, xattrs: &[(Bytes, Bytes)]) -> Result<(), Errno> {
    for (name, value) in xattrs {
        if !name.starts_with(b"user.") {
            return Err(Errno::INVAL);
        }
        fsetxattr(file, name.as_slice(), value, XattrFlags::empty())?;
    }
    Ok(())
}

fn write_at(file: &OwnedFd, mut data: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !data.is_empty() {
        match pwrite(file, data, offset) {
            Ok(written) => {
                data = data.get(written..).unwrap_or_default();
                offset = offset.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Directory and last name of a relative path.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (path.get(..slash).unwrap_or_default(), path.get(slash.saturating_add(1)..).unwrap_or_default()),
        None => (&[], path),
    }
}

impl Restore {
    fn add(&mut self, item: RestoreItem) -> Result<(), GuestError> {
        let continues = matches!(item, RestoreItem::Extent { .. } | RestoreItem::FileEnd { .. });
        if self.open.is_some() != continues {
            return Err(failure(ErrorCode::Invalid, "a file's extents do not follow it"));
        }
        match item {
            RestoreItem::Dir { root, path, meta } => self.directory(root, path.into_vec(), &meta),
            RestoreItem::File { root, path, meta, size, data, complete } => {
                let open = self.file(root, path.into_vec(), meta, size, &data)?;
                if complete {
                    let is_long_enough = u64::try_from(data.len()) == Ok(size);
                    return self.finish(&open, !is_long_enough);
                }
                self.open = Some(open);
                Ok(())
            }
            RestoreItem::Extent { root, path, offset, data } => {
                let open = self.continued(root, &path)?;
                self.extent(&open, offset, &data)?;
                self.open = Some(open);
                Ok(())
            }
            RestoreItem::FileEnd { root, path } => {
                let open = self.continued(root, &path)?;
                self.finish(&open, true)
            }
            RestoreItem::Symlink { root, path, target, meta } => {
                let (parent, name) = self.place(root, &path)?;
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                check_time(meta.mtime)
                    .and_then(|()| symlinkat(target.as_slice(), parent, name))
                    .and_then(|()| utimensat(parent, name, &timestamps(meta.mtime), flags))
                    .map_err(|errno| self.failed(root, &path, errno))
            }
            RestoreItem::Hardlink { root, path, to } => {
                let source = self.open_directory(root, &to)?;
                let (_, source_name) = split(&to);
                let (parent, name) = self.place(root, &path)?;
                linkat(&source, source_name, parent, name, AtFlags::empty())
                    .map_err(|errno| self.failed(root, &path, errno))
            }
            RestoreItem::Remove { root, path } => self.remove(root, &path),
        }
    }

    /// As root, because modes must not stop it; never a mount point, and nothing beyond one.
    fn remove(&mut self, root: u16, path: &[u8]) -> Result<(), GuestError> {
        if path.is_empty() || !is_proper(path) {
            return Err(self.invalid(root, path, "the path is not a proper relative path"));
        }
        self.parent = None;
        let (identity, top) = (self.identity, self.root(root)?.directory.as_fd());
        let (above, name) = split(path);
        let removed = identity.as_root(|| {
            let parent = match open_beneath(top, above, OFlags::RDONLY | OFlags::DIRECTORY) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                parent => parent?,
            };
            match unlinkat(&parent, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(None),
                Err(Errno::ISDIR) => {
                    let directory = open_beneath(top, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
                    Ok(Some((parent, directory)))
                }
                Err(errno) => Err(errno),
            }
        });
        let Some((parent, directory)) = removed.map_err(|errno: Errno| self.failed(root, path, errno))? else {
            return Ok(());
        };
        clear(directory.as_fd(), identity)
            .map_err(|error| self.failed(root, &[path, b"/", &error.path].concat(), error.errno))?;
        let gone = identity.as_root(|| unlinkat(&parent, name, AtFlags::REMOVEDIR));
        gone.map_err(|errno| self.failed(root, path, errno))
    }

    fn whole(&self, root: u16, path: &[u8]) -> Vec<u8> {
        let root = self.roots.get(usize::from(root)).map_or(&[][..], |root| &root.path);
        [root, b"/", path].concat()
    }

    fn failed(&self, root: u16, path: &[u8], errno: Errno) -> GuestError {
        io_failure(errno, "restore", &self.whole(root, path))
    }

    fn invalid(&self, root: u16, path: &[u8], why: &str) -> GuestError {
        failure(ErrorCode::Invalid, format!("restore {}: {why}", Shown(&self.whole(root, path))))
    }

    fn root(&self, number: u16) -> Result<&Root, GuestError> {
        let root = self.roots.get(usize::from(number));
        root.ok_or_else(|| failure(ErrorCode::Invalid, format!("the restore has no root {number}")))
    }

    /// The directory in which `path` lies.
    fn open_directory(&self, root: u16, path: &[u8]) -> Result<OwnedFd, GuestError> {
        if path.is_empty() || !is_proper(path) {
            return Err(self.invalid(root, path, "the path is not a proper relative path"));
        }
        let (directory, _) = split(path);
        open_beneath(self.root(root)?.directory.as_fd(), directory, OFlags::PATH | OFlags::DIRECTORY)
            .map_err(|errno| self.failed(root, path, errno))
    }

    /// The same, remembered, and the name in it.
    fn place<'a>(&mut self, root: u16, path: &'a [u8]) -> Result<(BorrowedFd<'_>, &'a [u8]), GuestError> {
        let (directory, name) = split(path);
        let known = matches!(&self.parent, Some((of, at, _)) if *of == root && at == directory) && is_proper(path);
        if !known {
            let opened = self.open_directory(root, path)?;
            self.parent = Some((root, directory.to_vec(), opened));
        }
        match &self.parent {
            Some((_, _, opened)) if !name.is_empty() => Ok((opened.as_fd(), name)),
            _ => Err(failure(ErrorCode::Invalid, "an entry without a name")),
        }
    }

    fn directory(&mut self, root: u16, path: Vec<u8>, meta: &EntryMeta) -> Result<(), GuestError> {
        if !path.is_empty() {
            let identity = self.identity;
            let (parent, name) = self.place(root, &path)?;
            let made = make_directory(parent, name, identity);
            made.map_err(|errno| self.failed(root, &path, errno))?;
        }
        check_time(meta.mtime).map_err(|errno| self.failed(root, &path, errno))?;
        if !meta.xattrs.is_empty() {
            let opened = self.reopen_directory(root, &path)?;
            set_xattrs(opened.as_fd(), &meta.xattrs).map_err(|errno| self.failed(root, &path, errno))?;
        }
        self.directory_bytes = self.directory_bytes.saturating_add(path.len()).saturating_add(64);
        if self.directory_bytes > MOST_DIRECTORY_BYTES {
            return Err(failure(ErrorCode::TooLarge, "more directories than a restore can hold"));
        }
        self.directories.push((root, path, meta.mode, meta.mtime));
        Ok(())
    }

    fn reopen_directory(&self, root: u16, path: &[u8]) -> Result<OwnedFd, GuestError> {
        open_beneath(self.root(root)?.directory.as_fd(), path, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|errno| self.failed(root, path, errno))
    }

    fn file(&mut self, root: u16, path: Vec<u8>, meta: EntryMeta, size: u64, data: &[u8]) -> Result<Open, GuestError> {
        let (parent, name) = self.place(root, &path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(parent, name, flags, Mode::from_raw_mode(0o600));
        let file = file.map_err(|errno| self.failed(root, &path, errno))?;
        let open = Open { root, path, file, size, meta };
        self.extent(&open, 0, data)?;
        Ok(open)
    }

    /// The open file, if the message means it.
    fn continued(&mut self, root: u16, path: &[u8]) -> Result<Open, GuestError> {
        match self.open.take() {
            Some(open) if open.root == root && open.path == path => Ok(open),
            _ => Err(self.invalid(root, path, "another file is open")),
        }
    }

    fn extent(&self, open: &Open, offset: u64, data: &[u8]) -> Result<(), GuestError> {
        let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
        if offset.checked_add(length).is_none_or(|end| end > open.size) {
            return Err(self.invalid(open.root, &open.path, "data beyond the file's size"));
        }
        write_at(&open.file, data, offset).map_err(|errno| self.failed(open.root, &open.path, errno))
    }

    /// Size, if it may not be what it should be, attributes, mode and time, in an order in which none undoes another.
    fn finish(&self, open: &Open, size_is_open: bool) -> Result<(), GuestError> {
        let sized = if size_is_open { ftruncate(&open.file, open.size) } else { Ok(()) };
        let done = sized
            .and_then(|()| check_time(open.meta.mtime))
            .and_then(|()| set_xattrs(open.file.as_fd(), &open.meta.xattrs))
            .and_then(|()| fchmod(&open.file, Mode::from_raw_mode(open.meta.mode & 0o7777)))
            .and_then(|()| futimens(&open.file, &timestamps(open.meta.mtime)));
        done.map_err(|errno| self.failed(open.root, &open.path, errno))
    }

    /// Modes and times of directories, children before parents.
    fn end(mut self) -> Result<(), GuestError> {
        if self.open.is_some() {
            return Err(failure(ErrorCode::Invalid, "the last file was not completed"));
        }
        self.parent = None;
        for (root, path, mode, mtime) in self.directories.iter().rev() {
            let directory = self.reopen_directory(*root, path)?;
            fchmod(&directory, Mode::from_raw_mode(mode & 0o7777))
                .and_then(|()| futimens(&directory, &timestamps(*mtime)))
                .map_err(|errno| self.failed(*root, path, errno))?;
        }
        // A root without an entry of its own gets back the mode that it had.
        for (number, root) in (0u16..).zip(&self.roots) {
            if !self.directories.iter().any(|(of, path, ..)| *of == number && path.is_empty()) {
                fchmod(&root.directory, Mode::from_raw_mode(root.mode))
                    .map_err(|errno| io_failure(errno, "restore", &root.path))?;
            }
        }
        Ok(())
    }
}

fn check_time(time: TimeNs) -> Result<(), Errno> {
    if time.nanos < 1_000_000_000 { Ok(()) } else { Err(Errno::INVAL) }
}

/// Makes a directory. One that is there already (because something is mounted beneath it, it could not be removed) is
/// taken over, but a mount point is not.
fn make_directory(parent: BorrowedFd<'_>, name: &[u8], identity: Identity) -> Result<(), Errno> {
    match mkdirat(parent, name, Mode::from_raw_mode(0o700)) {
        Err(Errno::EXIST) => {}
        result => return result,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let existing = identity.as_root(|| openat(parent, name, flags, Mode::empty())).map_err(|errno| match errno {
        Errno::NOTDIR | Errno::LOOP => Errno::EXIST,
        errno => errno,
    })?;
    let (here, there) = (Place::of(parent)?, Place::of(existing.as_fd())?);
    if there.is_mount_root || here.mount != there.mount {
        return Err(Errno::XDEV);
    }
    take_over(&existing, identity)
}
