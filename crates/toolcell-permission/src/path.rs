//! Absolute, normalised paths inside the container. Pure text: no file is looked at.

use std::fmt;

/// Longest path in bytes: what Linux takes in one system call. A longer one is refused with [`PathError::TooLong`].
pub const MAX_PATH_BYTES: usize = 4095;

/// Why a text is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No characters.
    #[error("the path is empty")]
    Empty,
    /// A NUL byte, which no path of Linux can hold.
    #[error("the path contains a NUL byte")]
    Nul,
    /// Longer than [`MAX_PATH_BYTES`].
    #[error("the path has {bytes} bytes; at most {MAX_PATH_BYTES} are possible")]
    TooLong {
        /// How long it was.
        bytes: usize,
    },
    /// It does not begin with a slash, where only an absolute path has a meaning.
    #[error("the path {path:?} is not absolute")]
    NotAbsolute {
        /// The path, shortened.
        path: String,
    },
}

/// An absolute path inside the container, without `.`, `..`, repeated or trailing slashes. Linux promises nothing
/// about its encoding, so it is bytes.
///
/// `..` is taken away by text, not by following links: the result is what the guest is asked to open, and where that
/// really leads is a second path, decided on as well.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerPath(Vec<u8>);

impl ContainerPath {
    /// `/workspace`: where relative paths start.
    #[must_use]
    pub fn workspace() -> Self {
        Self(b"/workspace".to_vec())
    }

    /// `/home/agent`: the tool user's home.
    #[must_use]
    pub fn home() -> Self {
        Self(b"/home/agent".to_vec())
    }

    /// An absolute path.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn parse(text: &str) -> Result<Self, PathError> {
        Self::from_bytes(text.as_bytes())
    }

    /// An absolute path of any encoding.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PathError> {
        check(bytes)?;
        if bytes.first() != Some(&b'/') {
            let path = String::from_utf8_lossy(bytes).chars().take(80).collect();
            return Err(PathError::NotAbsolute { path });
        }
        Ok(normalise(bytes.split(is_slash)))
    }

    /// An absolute path, or one relative to `self`.
    ///
    /// # Errors
    /// [`PathError`], but never [`PathError::NotAbsolute`].
    pub fn resolve(&self, text: &str) -> Result<Self, PathError> {
        check(text.as_bytes())?;
        if text.starts_with('/') {
            return Self::parse(text);
        }
        let joined = normalise(self.0.split(is_slash).chain(text.as_bytes().split(is_slash)));
        check(&joined.0)?;
        Ok(joined)
    }

    /// The path's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path as text, if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The names between the slashes; none for the root.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
        self.0.split(is_slash).filter(|part| !part.is_empty())
    }

    /// Whether it is `directory` or lies beneath it, component by component: `/workspace2` is not within
    /// `/workspace`.
    #[must_use]
    pub fn is_within(&self, directory: &Self) -> bool {
        let mut own = self.components();
        directory.components().all(|wanted| own.next() == Some(wanted))
    }
}

fn is_slash(byte: &u8) -> bool {
    *byte == b'/'
}

fn check(bytes: &[u8]) -> Result<(), PathError> {
    if bytes.is_empty() {
        return Err(PathError::Empty);
    }
    if bytes.contains(&0) {
        return Err(PathError::Nul);
    }
    if bytes.len() > MAX_PATH_BYTES {
        return Err(PathError::TooLong { bytes: bytes.len() });
    }
    Ok(())
}

fn normalise<'a>(parts: impl Iterator<Item = &'a [u8]>) -> ContainerPath {
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in parts {
        match part {
            b"" | b"." => {}
            b".." => {
                kept.pop();
            }
            name => kept.push(name),
        }
    }
    let mut path = Vec::new();
    for name in kept {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    ContainerPath(path)
}

/// Characters that could make a path look like another one where it is shown.
#[must_use]
pub fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{61c}')
}

/// For people: control and bidirectional characters are escaped, bytes that are not UTF-8 replaced.
impl fmt::Display for ContainerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in String::from_utf8_lossy(&self.0).chars() {
            if misleads(c) { write!(f, "{}", c.escape_unicode())? } else { write!(f, "{c}")? }
        }
        Ok(())
    }
}

impl fmt::Debug for ContainerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;

    fn path(text: &str) -> ContainerPath {
        ContainerPath::parse(text).unwrap()
    }

    #[test]
    fn normalised_by_text() {
        for (given, expected) in [
            ("/", "/"),
            ("//", "/"),
            ("/a//b/./c/", "/a/b/c"),
            ("/a/../../b", "/b"),
            ("/..", "/"),
            ("/a/...", "/a/..."),
            ("/é/ x", "/é/ x"),
        ] {
            assert_eq!(path(given).as_str(), Some(expected), "{given}");
        }
    }

    #[test]
    fn relative_paths_start_at_the_base() {
        let base = ContainerPath::workspace();
        assert_eq!(base, path("/workspace"));
        for (given, expected) in [
            ("a", "/workspace/a"),
            (".", "/workspace"),
            ("../etc/x", "/etc/x"),
            ("/etc//x", "/etc/x"),
            ("~/x", "/workspace/~/x"),
        ] {
            assert_eq!(base.resolve(given).unwrap().as_str(), Some(expected), "{given}");
        }
    }

    #[test]
    fn bad_paths_say_why() {
        assert_eq!(ContainerPath::parse(""), Err(PathError::Empty));
        assert_eq!(ContainerPath::parse("/a\0b"), Err(PathError::Nul));
        assert_eq!(path("/").resolve("a\0"), Err(PathError::Nul));
        assert_eq!(ContainerPath::parse("a/b"), Err(PathError::NotAbsolute { path: "a/b".into() }));
        let longest = format!("/{}", "x".repeat(MAX_PATH_BYTES - 1));
        assert!(ContainerPath::parse(&longest).is_ok());
        assert_eq!(ContainerPath::parse(&format!("{longest}x")), Err(PathError::TooLong { bytes: MAX_PATH_BYTES + 1 }));
        let relative = "x".repeat(MAX_PATH_BYTES - 2);
        assert!(path("/").resolve(&relative).is_ok());
        assert_eq!(path("/ab").resolve(&relative), Err(PathError::TooLong { bytes: MAX_PATH_BYTES + 2 }));
    }

    #[test]
    fn within_goes_by_components() {
        assert!(path("/workspace").is_within(&path("/workspace")));
        assert!(path("/workspace/a").is_within(&path("/workspace/")));
        assert!(path("/x").is_within(&path("/")));
        assert!(!path("/workspace2/a").is_within(&path("/workspace")));
        assert!(!path("/").is_within(&path("/workspace")));
        assert!(!path("/Workspace/a").is_within(&path("/workspace")));
    }

    #[test]
    fn shown_without_tricks() {
        assert_eq!(path("/a\u{202e}b\n").to_string(), "/a\\u{202e}b\\u{a}");
        assert_eq!(ContainerPath::from_bytes(b"/\xff").unwrap().to_string(), "/\u{fffd}");
    }
}
