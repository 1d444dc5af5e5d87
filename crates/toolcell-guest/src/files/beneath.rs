//! Opening names below an open directory, of any depth, without following a link or crossing a mount point.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, openat, openat2, statx};
use rustix::io::Errno;
use toolcell_protocol::limits::MAX_PATH_BYTES;

/// What one step may be long: below `PATH_MAX`.
const STEP_BYTES: usize = 4000;

/// Tries `modern`; on a kernel (or under a filter) without that system call, `classic`, which must be as strict.
pub(crate) fn with_fallback<T>(
    modern: impl Fn() -> Result<T, Errno>,
    classic: impl Fn() -> Result<T, Errno>,
) -> Result<T, Errno> {
    loop {
        match modern() {
            // Something was renamed or mounted during the look-up: the kernel asks to try again.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::PERM) => return classic(),
            result => return result,
        }
    }
}

/// Relative, without empty, `.` and `..` components, NUL, or a trailing slash; empty for the root itself.
pub(crate) fn is_proper(path: &[u8]) -> bool {
    path.is_empty()
        || (path.len() <= MAX_PATH_BYTES
            && !path.contains(&0)
            && path
                .split(|byte| *byte == b'/')
                .all(|name| !name.is_empty() && name != b"." && name != b".." && name.len() <= 255))
}

/// Opens `path` below `root`; the last component is not followed either.
pub(crate) fn open_beneath(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if !is_proper(path) {
        return Err(Errno::INVAL);
    }
    let mut rest = path;
    let mut directory: Option<OwnedFd> = None;
    loop {
        let at = directory.as_ref().map_or(root, AsFd::as_fd);
        if rest.len() <= STEP_BYTES {
            return step(at, rest, flags);
        }
        let head = rest.get(..STEP_BYTES).unwrap_or(rest);
        let slash = head.iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
        let next = step(at, head.get(..slash).unwrap_or_default(), OFlags::PATH | OFlags::DIRECTORY)?;
        directory = Some(next);
        rest = rest.get(slash.saturating_add(1)..).unwrap_or_default();
    }
}

fn step(at: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve =
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
    with_fallback(|| openat2(at, path, flags, Mode::empty(), resolve), || walk(at, path, flags))
}

/// The same, one component after the other.
fn walk(at: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mount = Place::of(at)?.mount;
    let mut names = path.split(|byte| *byte == b'/').peekable();
    let mut directory: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        let here = directory.as_ref().map_or(at, AsFd::as_fd);
        let last = names.peek().is_none();
        let how = if last { flags } else { OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC };
        let next = openat(here, name, how, Mode::empty())?;
        if Place::of(next.as_fd())?.mount != mount {
            return Err(Errno::XDEV);
        }
        directory = Some(next);
    }
    directory.ok_or(Errno::INVAL)
}

/// Which mount something is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The mount's number, or the device's on a kernel that does not say.
    pub(crate) mount: u64,
    /// Something is mounted exactly here.
    pub(crate) is_mount_root: bool,
}

impl Place {
    /// Of an open file.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> Result<Self, Errno> {
        let flags = rustix::fs::AtFlags::EMPTY_PATH | rustix::fs::AtFlags::NO_AUTOMOUNT;
        statx(fd, c"", flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID).map(|found| Self::from_statx(&found))
    }

    /// From what `statx` with `MNT_ID` said.
    pub(crate) fn from_statx(found: &rustix::fs::Statx) -> Self {
        let mount = if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 {
            found.stx_mnt_id
        } else {
            rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor)
        };
        Self { mount, is_mount_root: found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{mkdirat, open, symlinkat};

    #[test]
    fn only_proper_paths() {
        for good in [&b""[..], b"a", b"a/b", b"...", b"a/.b", b"\xff/ "] {
            assert!(is_proper(good), "{good:?}");
        }
        for bad in [&b"/"[..], b"/a", b"a/", b"a//b", b".", b"..", b"a/../b", b"a/./b", b"a\0"] {
            assert!(!is_proper(bad), "{bad:?}");
        }
        assert!(is_proper(&[b'a'; 255]) && !is_proper(&[b'a'; 256]));
        let deep = |length: usize| b"a/".iter().copied().cycle().take(length).collect::<Vec<_>>();
        assert!(is_proper(&deep(MAX_PATH_BYTES - 1)) && !is_proper(&deep(MAX_PATH_BYTES + 1)));
    }

    #[test]
    fn deep_trees_open_and_links_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let root = open(directory.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let name = "n".repeat(250);
        let mut path = String::new();
        let mut at = rustix::io::dup(&root).unwrap();
        for _ in 0..40 {
            mkdirat(&at, name.as_str(), Mode::from_raw_mode(0o755)).unwrap();
            at = openat(&at, name.as_str(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
            path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        }
        assert!(path.len() > 2 * STEP_BYTES);
        symlinkat("/etc", &at, "link").unwrap();
        symlinkat("/etc", &root, "link").unwrap();
        for open in [
            |root: BorrowedFd<'_>, path: &[u8]| open_beneath(root, path, OFlags::RDONLY),
            |root: BorrowedFd<'_>, path: &[u8]| walk(root, path, OFlags::RDONLY | OFlags::NOFOLLOW),
        ] {
            assert_eq!(open(root.as_fd(), b"link").err(), Some(Errno::LOOP));
            assert!(matches!(open(root.as_fd(), b"link/passwd").err(), Some(Errno::LOOP | Errno::NOTDIR)));
            assert!(open(root.as_fd(), name.as_bytes()).is_ok());
        }
        assert!(open_beneath(root.as_fd(), path.as_bytes(), OFlags::RDONLY).is_ok());
        let link = format!("{path}/link");
        assert_eq!(open_beneath(root.as_fd(), link.as_bytes(), OFlags::RDONLY).err(), Some(Errno::LOOP));
    }
}
