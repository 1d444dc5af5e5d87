//! Emptying a persisted root: everything below it but what is mounted there.

use super::beneath::{Place, open_beneath};
use super::identity::Identity;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags, fchmod, renameat, statx, unlinkat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::mem::MaybeUninit;

/// A directory deeper than this is moved up to the root before it is emptied, so that no path gets long.
const MOST_DEPTH: usize = 64;
/// Directories that are remembered of one directory before they are emptied and it is read again.
const MOST_AT_ONCE: usize = 128;

/// Why a root could not be emptied, and where.
#[derive(Debug)]
pub(crate) struct ClearError {
    pub(crate) errno: Errno,
    pub(crate) path: Vec<u8>,
}

impl From<Errno> for ClearError {
    fn from(errno: Errno) -> Self {
        Self { errno, path: Vec::new() }
    }
}

struct Clearer<'a> {
    root: BorrowedFd<'a>,
    identity: Identity,
    mount: u64,
    ahead: Vec<Vec<u8>>,
    /// Directories that stay because something is mounted beneath them.
    kept: BTreeSet<Vec<u8>>,
    moved: u64,
}

/// Removes everything below `root` without following a link or crossing a mount point. As root, because modes must
/// not stop it.
pub(crate) fn clear(root: BorrowedFd<'_>, identity: Identity) -> Result<(), ClearError> {
    let mount = Place::of(root)?.mount;
    let ahead = vec![Vec::new()];
    let mut clearer = Clearer { root, identity, mount, ahead, kept: BTreeSet::new(), moved: 0 };
    identity.as_root(|| {
        while let Some(path) = clearer.ahead.pop() {
            clearer.visit(&path).map_err(|errno| ClearError { errno, path })?;
        }
        Ok(())
    })
}

impl Clearer<'_> {
    /// Removes what is no directory, remembers what is, and comes back until nothing is left but what stays.
    fn visit(&mut self, path: &[u8]) -> Result<(), Errno> {
        let directory = match open_beneath(self.root, path, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(Errno::NOENT) => return Ok(()),
            directory => directory?,
        };
        let mut below = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 32 * 1024];
        let mut entries = RawDir::new(&directory, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if self.remove(&directory, name)? {
                continue;
            }
            let whole = if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() };
            if !self.kept.contains(&whole) {
                below.push(self.flatten(&directory, name, whole)?);
            }
            if below.len() >= MOST_AT_ONCE {
                break;
            }
        }
        if !below.is_empty() {
            self.ahead.push(path.to_vec());
            self.ahead.append(&mut below);
        } else if !path.is_empty() {
            self.remove_directory(path)?;
        }
        Ok(())
    }

    /// True if the name is gone or must stay; false if it is a directory to be emptied.
    fn remove(&self, directory: &OwnedFd, name: &[u8]) -> Result<bool, Errno> {
        match self.unlink(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::BUSY) => return Ok(true),
            // A directory; some file systems say that they do not permit it.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let found = statx(directory, name, flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)?;
        let place = Place::from_statx(&found);
        if place.is_mount_root || place.mount != self.mount {
            return Ok(true);
        }
        if FileType::from_raw_mode(u32::from(found.stx_mode)) == FileType::Directory {
            Ok(false)
        } else {
            Err(Errno::PERM)
        }
    }

    /// In a sticky directory only owners remove; the directory goes anyway, so it loses its mode.
    fn unlink(&self, directory: &OwnedFd, name: &[u8], flags: AtFlags) -> Result<(), Errno> {
        match unlinkat(directory, name, flags) {
            Err(Errno::PERM) => {
                if self.identity.as_tool_again(|| fchmod(directory, Mode::from_raw_mode(0o700))).is_err() {
                    return Err(Errno::PERM);
                }
                unlinkat(directory, name, flags)
            }
            result => result,
        }
    }

    /// Moves a directory that lies too deep up to the root. Returns where it is.
    fn flatten(&mut self, directory: &OwnedFd, name: &[u8], whole: Vec<u8>) -> Result<Vec<u8>, Errno> {
        if whole.iter().filter(|byte| **byte == b'/').count() < MOST_DEPTH {
            return Ok(whole);
        }
        loop {
            self.moved = self.moved.saturating_add(1);
            let place = format!(".toolcell-clear-{}", self.moved).into_bytes();
            match renameat(directory, name, self.root, place.as_slice()) {
                Ok(()) => return Ok(place),
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn remove_directory(&mut self, path: &[u8]) -> Result<(), Errno> {
        let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => {
                (path.get(..slash).unwrap_or_default(), path.get(slash.saturating_add(1)..).unwrap_or_default())
            }
            None => (&[][..], path),
        };
        let parent = open_beneath(self.root, above, OFlags::RDONLY | OFlags::DIRECTORY)?;
        match self.unlink(&parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY) => {
                self.kept.insert(path.to_vec());
                Ok(())
            }
            Err(errno) => Err(errno),
        }
    }
}
