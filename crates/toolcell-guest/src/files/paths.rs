//! Paths that the host names: their form, what they lead to, and whether that is what was decided.

use super::beneath::with_fallback;
use crate::errors::{Shown, failure, io_failure};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, Stat, open, openat2, readlinkat};
use rustix::io::Errno;
use toolcell_protocol::{Bytes, ErrorCode, FileTarget, GuestError};

/// What one system call takes (`PATH_MAX`, with the final NUL).
const MOST_PATH_BYTES: usize = 4095;

/// Absolute, without NUL, and short enough for the kernel.
pub(crate) fn check(path: &[u8]) -> Result<(), GuestError> {
    if path.first() != Some(&b'/') || path.contains(&0) {
        return Err(failure(ErrorCode::Invalid, format!("{} is not an absolute path", Shown(path))));
    }
    if path.len() > MOST_PATH_BYTES {
        return Err(failure(ErrorCode::TooLarge, format!("the path {} is longer than 4095 bytes", Shown(path))));
    }
    Ok(())
}

/// Whether `path` is `root` or lies below it; both without `.`, `..` and double slashes.
fn is_beneath(path: &[u8], root: &[u8]) -> bool {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
}

/// Opens whatever `path` leads to, for looking only. Links are followed, but not the kernel's magic ones.
pub(crate) fn open_any(path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    with_fallback(
        || openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS),
        // What a magic link leads to is found out by its real path.
        || open(path, flags, Mode::empty()),
    )
}

/// Opens a path that must not contain any link.
pub(crate) fn open_without_links(path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    with_fallback(
        || openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS),
        || {
            let fd = open(path, flags, Mode::empty())?;
            if real_path(&fd)? == path { Ok(fd) } else { Err(Errno::LOOP) }
        },
    )
}

/// A persisted root, opened for looking only.
pub(crate) fn open_root(root: &[u8]) -> Result<OwnedFd, GuestError> {
    check(root)?;
    look_at_root(root).map_err(|errno| io_failure(errno, "open", root))
}

/// The same for a path that was checked.
pub(crate) fn look_at_root(root: &[u8]) -> Result<OwnedFd, Errno> {
    open_without_links(root, OFlags::PATH | OFlags::DIRECTORY)
}

/// Where an open file is now, as the kernel says.
pub(crate) fn real_path(fd: impl AsFd) -> Result<Vec<u8>, Errno> {
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    Ok(readlinkat(CWD, link, Vec::with_capacity(256))?.into_bytes())
}

/// Opens again, with other rights, exactly what is open: no name is looked up.
pub(crate) fn reopen(fd: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    open(link, flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
}

/// `path` or its parent must lie beneath one of the roots, or of what they lead to.
pub(crate) fn check_roots(real: &[u8], roots: &[Bytes], shown: &[u8]) -> Result<(), GuestError> {
    let literally = roots.iter().any(|root| root.first() == Some(&b'/') && is_beneath(real, root));
    let inside = literally
        || roots.iter().any(|root| {
            check(root).is_ok()
                && open_any(root).and_then(real_path).is_ok_and(|real_root| is_beneath(real, &real_root))
        });
    if inside {
        Ok(())
    } else {
        Err(failure(ErrorCode::OutsideRoots, format!("{} leads out of the workspace", Shown(shown))))
    }
}

/// The path leads elsewhere than when it was decided.
pub(crate) fn changed(path: &[u8]) -> GuestError {
    let message = format!("{} leads elsewhere than when it was decided", Shown(path));
    failure(ErrorCode::ChangedSinceDecision, message)
}

/// Opens an existing target for looking only, and checks in the same step that it is what was decided.
pub(crate) fn open_target(target: &FileTarget) -> Result<OwnedFd, GuestError> {
    check(&target.path)?;
    check(&target.decided)?;
    let fd = open_any(&target.path).map_err(|errno| io_failure(errno, "open", &target.path))?;
    let real = real_path(&fd).map_err(|errno| io_failure(errno, "open", &target.path))?;
    if real != target.decided.as_slice() {
        return Err(changed(&target.path));
    }
    check_roots(&real, &target.roots, &target.path)?;
    Ok(fd)
}

/// Permission bits of a file.
pub(crate) fn mode_bits(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// Directory and last name of a path below `/`.
pub(crate) fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    let name = path.get(slash.checked_add(1)?..)?;
    if name.is_empty() || name == b"." || name == b".." {
        return None;
    }
    let parent = path.get(..slash)?;
    Some((if parent.is_empty() { b"/" } else { parent }, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beneath_means_whole_components() {
        for (path, root, inside) in [
            ("/workspace", "/workspace", true),
            ("/workspace/a", "/workspace", true),
            ("/workspace/a", "/workspace/", true),
            ("/workspace-evil/a", "/workspace", false),
            ("/work", "/workspace", false),
            ("/", "/workspace", false),
            ("/etc/passwd", "/", true),
        ] {
            assert_eq!(is_beneath(path.as_bytes(), root.as_bytes()), inside, "{path} in {root}");
        }
    }

    #[test]
    fn paths_are_absolute_and_bounded_at_4095_bytes() {
        let long = |length: usize| [b"/".as_slice(), &vec![b'a'; length - 1]].concat();
        assert!(check(&long(4095)).is_ok());
        assert_eq!(check(&long(4096)).unwrap_err().code, ErrorCode::TooLarge);
        for bad in [&b""[..], b"a", b"./a", b"/a\0b"] {
            assert_eq!(check(bad).unwrap_err().code, ErrorCode::Invalid);
        }
    }

    #[test]
    fn splitting_gives_a_parent_and_a_real_name() {
        assert_eq!(split(b"/a/b"), Some((&b"/a"[..], &b"b"[..])));
        assert_eq!(split(b"/a"), Some((&b"/"[..], &b"a"[..])));
        for bad in [&b"/"[..], b"/a/", b"/a/..", b"/a/.", b"a"] {
            assert_eq!(split(bad), None);
        }
    }
}
