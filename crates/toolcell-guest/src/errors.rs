//! From the kernel's error numbers to the protocol's failures.

use rustix::io::Errno;
use std::fmt::Display;
use toolcell_protocol::{ErrorCode, GuestError};

/// A failure with its message.
pub(crate) fn failure(code: ErrorCode, message: impl Into<String>) -> GuestError {
    GuestError { code, message: message.into() }
}

/// The kind of failure that an error number means for an operation on a file.
pub(crate) fn code_of(errno: Errno) -> ErrorCode {
    match errno {
        Errno::NOENT => ErrorCode::NotFound,
        Errno::ISDIR => ErrorCode::IsDirectory,
        Errno::NOTDIR => ErrorCode::NotADirectory,
        Errno::EXIST | Errno::NOTEMPTY => ErrorCode::AlreadyExists,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => ErrorCode::PermissionDenied,
        Errno::XDEV => ErrorCode::OutsideRoots,
        Errno::NOSPC | Errno::DQUOT => ErrorCode::NoSpace,
        Errno::FBIG | Errno::NAMETOOLONG | Errno::TOOBIG => ErrorCode::TooLarge,
        Errno::LOOP => ErrorCode::TooManyLinks,
        Errno::NXIO | Errno::NODEV => ErrorCode::NotRegular,
        Errno::INVAL => ErrorCode::Invalid,
        Errno::AGAIN | Errno::MFILE | Errno::NFILE => ErrorCode::TooManyProcesses,
        _ => ErrorCode::Io,
    }
}

/// What the kernel said about `path` while the guest was `doing` something.
pub(crate) fn io_failure(errno: Errno, doing: &str, path: &[u8]) -> GuestError {
    failure(code_of(errno), format!("{doing} {}: {}", Shown(path), reason(errno)))
}

/// The kernel's words for an error number.
pub(crate) fn reason(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    match text.find(" (os error") {
        Some(end) => text.get(..end).unwrap_or_default().to_lowercase(),
        None => text,
    }
}

/// Shows bytes that are probably text: anything else is escaped, and a long path is cut.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const MOST: usize = 512;
        let cut = self.0.len() > MOST;
        let shown = self.0.get(..MOST).unwrap_or(self.0);
        for chunk in shown.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    write!(f, "{character}")?;
                }
            }
            write!(f, "{}", chunk.invalid().escape_ascii())?;
        }
        if cut { f.write_str("…") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_and_why_without_numbers() {
        let error = io_failure(Errno::NOENT, "open", b"/workspace/a\nb\xff");
        assert_eq!(error.code, ErrorCode::NotFound);
        assert_eq!(error.message, "open /workspace/a\\nb\\xff: no such file or directory");
    }

    #[test]
    fn long_paths_are_cut_at_512_bytes() {
        assert_eq!(Shown(&[b'a'; 511]).to_string().chars().count(), 511);
        assert_eq!(Shown(&[b'a'; 512]).to_string(), "a".repeat(512));
        assert_eq!(Shown(&[b'a'; 513]).to_string(), format!("{}…", "a".repeat(512)));
    }
}
