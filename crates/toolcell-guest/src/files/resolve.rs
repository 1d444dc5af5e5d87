//! Where paths lead: for the decision, before anything is opened for work.

use super::Answers;
use super::paths::{check, open_any, real_path};
use crate::errors::io_failure;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat, readlinkat};
use rustix::io::Errno;
use toolcell_protocol::{Bytes, ErrorCode, GuestError, GuestMessage, Resolution};

/// Paths of one message; with the kernel's limit for a path, their answer fits into a frame.
const MOST_PATHS: usize = 256;
/// As the kernel's own.
const MOST_LINKS: usize = 40;

/// Answers a `Resolve`.
pub(crate) fn answer(answers: Answers<'_>, paths: &[Bytes]) -> Result<(), GuestError> {
    if paths.len() > MOST_PATHS {
        let message = format!("more than {MOST_PATHS} paths in one message");
        return Err(crate::errors::failure(ErrorCode::Invalid, message));
    }
    let paths = paths
        .iter()
        .map(|path| match resolve(path) {
            Ok(real) => Resolution::Real(real.into()),
            Err(error) => Resolution::Unresolvable { error },
        })
        .collect();
    answers.finish(&GuestMessage::Resolved { op: answers.op(), paths });
    Ok(())
}

/// The real path, as the tool user finds it. What does not exist keeps its name.
pub(crate) fn resolve(path: &[u8]) -> Result<Vec<u8>, GuestError> {
    check(path)?;
    let found = match open_any(path).and_then(real_path) {
        Err(Errno::NOENT) => walk(path),
        found => found,
    };
    let real = found.map_err(|errno| io_failure(errno, "resolve", path))?;
    check(&real)?;
    Ok(real)
}

/// Follows links by hand up to the first component that does not exist.
fn walk(path: &[u8]) -> Result<Vec<u8>, Errno> {
    let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = || open(c"/", look | OFlags::DIRECTORY, Mode::empty());
    let mut at: OwnedFd = root()?;
    let mut real: Vec<Vec<u8>> = Vec::new();
    let mut links = 0usize;
    let mut ahead: Vec<Vec<u8>> = Vec::new();
    push_reversed(&mut ahead, path);
    while let Some(name) = ahead.pop() {
        match name.as_slice() {
            b".." => {
                at = openat(&at, c"..", look | OFlags::DIRECTORY, Mode::empty())?;
                real.pop();
                continue;
            }
            b"" | b"." => continue,
            _ => {}
        }
        let next = match openat(&at, name.as_slice(), look, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT) => {
                real.push(name);
                // Nothing is there, so no link can change what the rest means; only `..` would.
                while let Some(name) = ahead.pop() {
                    match name.as_slice() {
                        b"" | b"." => {}
                        b".." => return Err(Errno::NOENT),
                        _ => real.push(name),
                    }
                }
                break;
            }
            Err(errno) => return Err(errno),
        };
        if FileType::from_raw_mode(fstat(&next)?.st_mode) == FileType::Symlink {
            links = links.saturating_add(1);
            if links > MOST_LINKS {
                return Err(Errno::LOOP);
            }
            let target = readlinkat(&next, c"", Vec::with_capacity(256))?.into_bytes();
            if target.first() == Some(&b'/') {
                at = root()?;
                real.clear();
            }
            push_reversed(&mut ahead, &target);
        } else {
            at = next;
            real.push(name);
        }
    }
    let mut joined = Vec::new();
    for name in &real {
        joined.push(b'/');
        joined.extend_from_slice(name);
    }
    if joined.is_empty() {
        joined.push(b'/');
    }
    Ok(joined)
}

fn push_reversed(ahead: &mut Vec<Vec<u8>>, path: &[u8]) {
    ahead.extend(path.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_and_missing_names_kept() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let text = |path: &str| base.join(path).into_os_string().into_encoded_bytes();
        std::fs::create_dir(base.join("real")).unwrap();
        std::fs::write(base.join("real/file"), "").unwrap();
        symlink("real", base.join("link")).unwrap();
        symlink("../nowhere/x", base.join("real/dangling")).unwrap();
        symlink(base.join("link/dangling"), base.join("chain")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        for (path, real) in [
            ("link/file", "real/file"),
            ("link/../real/./file", "real/file"),
            ("link/new", "real/new"),
            ("link/new/deep/er", "real/new/deep/er"),
            ("chain", "nowhere/x"),
            ("chain/y", "nowhere/x/y"),
            ("link/..", ""),
        ] {
            let expected =
                if real.is_empty() { base.clone().into_os_string().into_encoded_bytes() } else { text(real) };
            assert_eq!(resolve(&text(path)).unwrap(), expected, "{path}");
        }
        for bad in ["loop", "loop/x", "real/file/x", "missing/../real"] {
            assert!(resolve(&text(bad)).is_err(), "{bad}");
        }
        assert_eq!(resolve(b"/").unwrap(), b"/");
        assert!(resolve(b"relative").is_err());
    }
}
