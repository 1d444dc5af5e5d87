//! Writing a file for a tool: all of it, or nothing.
//!
//! The content goes into a file that has no name where the file system can do that, or an unpredictable one. Only
//! when all of it is on the disk does it get the wanted name, in one step. The place is the one that was decided: its
//! directory is opened without following any link, and the name is never followed either.

use super::identity::Identity;
use super::paths::{changed, check, check_roots, mode_bits, open_without_links, real_path, split};
use super::read::must_be_file;
use super::restore::Restorer;
use super::work::{Wish, Write};
use super::{Answers, resolve};
use crate::errors::{Shown, failure, io_failure};
use crate::outbox::Generation;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Stat, Uid, fchmod, fchown, fsync, linkat, mkdirat, openat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use toolcell_protocol::message::Op;
use toolcell_protocol::{ErrorCode, FileTarget, GuestError, GuestMessage};

/// Files that may be half written at the same time; one more drops the oldest.
const MOST_WRITES: usize = 64;
/// Mode of a new file if none is wanted, and of new directories.
const NEW_FILE_MODE: u32 = 0o644;
const NEW_DIRECTORY_MODE: u32 = 0o755;

/// The content on its way.
#[derive(Debug)]
enum Temporary {
    /// Goes away by itself if nothing comes of it.
    Unnamed,
    /// Removed when dropped.
    Named(Vec<u8>),
}

/// A file that is being written.
#[derive(Debug)]
struct Writing {
    target: FileTarget,
    wish: Wish,
    parent: OwnedFd,
    name: Vec<u8>,
    before: Option<Stat>,
    file: OwnedFd,
    temporary: Temporary,
    written: u64,
    digest: Sha256,
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Temporary::Named(name) = &self.temporary {
            // Nothing can be done about a failure, and the name says what it is.
            let _ = unlinkat(&self.parent, name.as_slice(), AtFlags::empty());
        }
    }
}

/// The write lane's state.
#[derive(Debug)]
pub(crate) struct Writer {
    identity: Identity,
    writes: BTreeMap<(Generation, Op), Writing>,
}

impl Writer {
    /// For a thread that is the tool user.
    pub(crate) fn new(identity: Identity) -> Self {
        Self { identity, writes: BTreeMap::new() }
    }

    /// The rest of what was begun will not come.
    pub(crate) fn host_lost(&mut self) {
        self.writes.clear();
    }

    /// The next task of this lane.
    pub(crate) fn take(&mut self, answers: Answers<'_>, restorer: &mut Restorer, task: Write) {
        let key = (answers.generation, answers.op);
        let result = match task {
            Write::File { target, wish } => self.begin(key, target, wish),
            Write::Data { data, end } => self.add(answers, &data, end),
            Write::RestoreBegin { roots, clear } => restorer.begin(answers, &roots, clear),
            Write::RestoreItem(item) => restorer.add(answers, item),
            Write::RestoreEnd => restorer.end(answers),
        };
        if let Err(error) = result {
            self.writes.remove(&key);
            answers.fail(error);
        }
    }

    fn begin(&mut self, key: (Generation, Op), target: FileTarget, wish: Wish) -> Result<(), GuestError> {
        if self.writes.contains_key(&key) {
            return Err(failure(ErrorCode::Invalid, "this operation has begun already"));
        }
        if self.writes.len() >= MOST_WRITES {
            // The oldest: its host must have given it up without a word.
            self.writes.pop_first();
        }
        self.writes.insert(key, prepare(target, wish)?);
        Ok(())
    }

    fn add(&mut self, answers: Answers<'_>, data: &[u8], end: bool) -> Result<(), GuestError> {
        let key = (answers.generation, answers.op);
        // What follows a failure is not wanted any more.
        let Some(writing) = self.writes.get_mut(&key) else { return Ok(()) };
        writing.append(data)?;
        if end && let Some(writing) = self.writes.remove(&key) {
            answers.finish(&writing.complete(answers.op(), self.identity)?);
        }
        Ok(())
    }
}

/// Opens the place, checks that it is the decided one, and makes a file for the content.
fn prepare(target: FileTarget, wish: Wish) -> Result<Writing, GuestError> {
    check(&target.path)?;
    check(&target.decided)?;
    let real = resolve::resolve(&target.path)
        .map_err(|reason| failure(ErrorCode::NotFound, format!("write {}: {reason}", Shown(&target.path))))?;
    if real != target.decided.as_slice() {
        return Err(changed(&target.path));
    }
    check_roots(&target.decided, &target.roots, &target.path)?;
    let Some((directory, name)) = split(&target.decided) else {
        return Err(failure(ErrorCode::IsDirectory, format!("{} is a directory", Shown(&target.path))));
    };
    let (directory, name) = (directory.to_vec(), name.to_vec());
    let parent = open_parent(&directory, wish.create_dirs, &target.path)?;
    let failed = |errno| io_failure(errno, "write", &target.path);
    let before = match statat(&parent, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(failed(errno)),
    };
    if let Some(stat) = &before {
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Symlink {
            return Err(changed(&target.path));
        }
        must_be_file(stat, &target.path)?;
        if !wish.overwrite {
            return Err(exists(&target.path));
        }
        // Replacing needs only the directory's permission; a file that its user may not write is not replaced.
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match openat(&parent, name.as_slice(), flags, Mode::empty()) {
            // A program that is running may be replaced, though not written.
            Ok(_) | Err(Errno::TXTBSY) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    let (file, temporary) = temporary(&parent).map_err(failed)?;
    let digest = Sha256::new();
    Ok(Writing { target, wish, parent, name, before, file, temporary, written: 0, digest })
}

fn exists(path: &[u8]) -> GuestError {
    failure(ErrorCode::AlreadyExists, format!("{} exists already", Shown(path)))
}

/// Opens a directory by its real path; makes what is missing of it, as the tool user, if that is wanted.
fn open_parent(directory: &[u8], create: bool, shown: &[u8]) -> Result<OwnedFd, GuestError> {
    let look = OFlags::PATH | OFlags::DIRECTORY;
    let failed = |errno| match errno {
        // The decided path has no link in it: here is one, so it is not what was decided.
        Errno::LOOP => changed(shown),
        errno => io_failure(errno, "open the directory of", shown),
    };
    match open_without_links(directory, look) {
        Err(Errno::NOENT) if create => {}
        found => return found.map_err(failed),
    }
    let mut missing = Vec::new();
    let mut existing = directory;
    let mut at = loop {
        let Some((above, name)) = split(existing) else { return Err(failed(Errno::NOENT)) };
        missing.push(name);
        existing = above;
        match open_without_links(existing, look) {
            Err(Errno::NOENT) => {}
            found => break found.map_err(failed)?,
        }
    };
    while let Some(name) = missing.pop() {
        match mkdirat(&at, name, Mode::from_raw_mode(NEW_DIRECTORY_MODE)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(io_failure(errno, "make the directory of", shown)),
        }
        at = openat(&at, name, look | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    }
    Ok(at)
}

/// A name that nobody guesses.
fn unpredictable_name() -> Result<Vec<u8>, Errno> {
    let mut random = [0u8; 12];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!(".toolcell-{digits}.tmp").into_bytes())
}

fn temporary(parent: &OwnedFd) -> Result<(OwnedFd, Temporary), Errno> {
    let mode = Mode::from_raw_mode(0o600);
    match openat(parent, c".", OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, mode) {
        Ok(file) => return Ok((file, Temporary::Unnamed)),
        // What file systems and kernels without it say.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL | Errno::NOSYS) => {}
        Err(errno) => return Err(errno),
    }
    let name = unpredictable_name()?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(parent, name.as_slice(), flags, mode)?;
    Ok((file, Temporary::Named(name)))
}

impl Writing {
    fn failed(&self, errno: Errno) -> GuestError {
        io_failure(errno, "write", &self.target.path)
    }

    fn append(&mut self, data: &[u8]) -> Result<(), GuestError> {
        self.written = self.written.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
        if self.written > self.wish.size {
            return Err(failure(ErrorCode::Invalid, "more content came than was announced"));
        }
        let mut rest = data;
        while !rest.is_empty() {
            match rustix::io::write(&self.file, rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed(errno)),
            }
        }
        self.digest.update(data);
        Ok(())
    }

    /// Everything has come: makes it the file.
    fn complete(mut self, op: Op, identity: Identity) -> Result<GuestMessage, GuestError> {
        if self.written != self.wish.size {
            return Err(failure(ErrorCode::Invalid, "less content came than was announced"));
        }
        self.dress(identity).map_err(|errno| self.failed(errno))?;
        fsync(&self.file).map_err(|errno| self.failed(errno))?;
        // The directory may have been moved since it was opened.
        let (directory, _) = split(&self.target.decided).unwrap_or_default();
        if real_path(&self.parent).map_err(|errno| self.failed(errno))? != directory {
            return Err(changed(&self.target.path));
        }
        match self.publish() {
            Ok(()) => {}
            Err(Errno::EXIST) if !self.wish.overwrite => return Err(exists(&self.target.path)),
            Err(errno) => return Err(self.failed(errno)),
        }
        let sha256 = std::mem::take(&mut self.digest).finalize().into();
        Ok(GuestMessage::FileWritten { op, size: self.written, created: self.before.is_none(), sha256 })
    }

    /// Mode and owner.
    fn dress(&self, identity: Identity) -> Result<(), Errno> {
        let Some(before) = &self.before else {
            return fchmod(&self.file, Mode::from_raw_mode(self.wish.mode.unwrap_or(NEW_FILE_MODE) & 0o7777));
        };
        let own = before.st_uid == identity.uid() && before.st_gid == identity.gid();
        // Content of the tool user must not run with somebody else's rights.
        let kept = if own { mode_bits(before) } else { mode_bits(before) & 0o777 };
        fchmod(&self.file, Mode::from_raw_mode(self.wish.mode.unwrap_or(kept) & if own { 0o7777 } else { 0o777 }))?;
        if own {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(before.st_uid), Gid::from_raw(before.st_gid));
        identity.as_root(|| fchown(&self.file, Some(uid), Some(gid)))
    }

    /// Gives the file its name, in one step.
    fn publish(&mut self) -> Result<(), Errno> {
        let name = self.name.clone();
        if !self.wish.overwrite {
            return match &self.temporary {
                Temporary::Unnamed => self.link(&name),
                Temporary::Named(temporary) => {
                    rename_new(&self.parent, temporary, &name)?;
                    self.temporary = Temporary::Unnamed;
                    Ok(())
                }
            };
        }
        if matches!(self.temporary, Temporary::Unnamed) {
            let temporary = unpredictable_name()?;
            self.link(&temporary)?;
            self.temporary = Temporary::Named(temporary);
        }
        if let Temporary::Named(temporary) = &self.temporary {
            renameat(&self.parent, temporary.as_slice(), &self.parent, name.as_slice())?;
            self.temporary = Temporary::Unnamed;
        }
        Ok(())
    }

    /// Gives the unnamed file a name that must not exist.
    fn link(&self, name: &[u8]) -> Result<(), Errno> {
        let source = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
        linkat(CWD, source, &self.parent, name, AtFlags::SYMLINK_FOLLOW)
    }
}

/// Renames to a name that must not exist.
fn rename_new(parent: &OwnedFd, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    match renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(parent, from, parent, to, AtFlags::empty())?;
            // The content has its name; the other one is only litter.
            let _ = unlinkat(parent, from, AtFlags::empty());
            Ok(())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::paths::open_any;

    #[test]
    fn temporary_names_differ_and_are_recognisable() {
        let (one, two) = (unpredictable_name().unwrap(), unpredictable_name().unwrap());
        assert_ne!(one, two);
        assert!(one.starts_with(b".toolcell-") && one.ends_with(b".tmp"));
    }

    #[test]
    fn renaming_to_an_existing_name_fails_and_keeps_both() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a"), "a").unwrap();
        std::fs::write(directory.path().join("b"), "b").unwrap();
        let parent = open_any(directory.path().as_os_str().as_encoded_bytes()).unwrap();
        assert_eq!(rename_new(&parent, b"a", b"b"), Err(Errno::EXIST));
        assert_eq!(std::fs::read(directory.path().join("b")).unwrap(), b"b");
        rename_new(&parent, b"a", b"c").unwrap();
        assert_eq!(std::fs::read(directory.path().join("c")).unwrap(), b"a");
    }
}
