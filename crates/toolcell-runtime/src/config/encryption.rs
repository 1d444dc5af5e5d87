//! `[snapshots.encryption]`

use super::IdSecret;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toolcell_snapshot::EncryptionKeys;

/// Largest file with a key; a larger one is another file.
const MAX_KEY_FILE_BYTES: u64 = 1024;

/// `[snapshots.encryption]`: with a key, everything in the snapshot store is encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EncryptionConfig {
    /// 64 hex digits; what is written is encrypted with it.
    pub key: Option<IdSecret>,
    /// A file with the key instead; empty for none.
    pub key_file: PathBuf,
    /// Earlier keys, to read what was written with them.
    pub old_keys: Vec<IdSecret>,
}

/// The file that `key_file` names has no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read.
    #[error("[snapshots.encryption] key_file: cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// It holds something else.
    #[error("[snapshots.encryption] key_file: {path} must hold 64 hex digits (32 bytes) and nothing else")]
    Content {
        /// The file.
        path: PathBuf,
    },
}

impl EncryptionConfig {
    /// What is contradictory about it, and the key that it is about.
    pub(super) fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        if self.key.is_some() && self.names_file() {
            return Some(("snapshots.encryption.key_file", "key is set as well; give the key in one place"));
        }
        if self.key.is_none() && !self.names_file() && !self.old_keys.is_empty() {
            return Some((
                "snapshots.encryption.old_keys",
                "neither key nor key_file is set, so nothing would be encrypted; set the key to write with",
            ));
        }
        None
    }

    fn names_file(&self) -> bool {
        !self.key_file.as_os_str().is_empty()
    }

    /// The keys, if there is to be encryption.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn keys(&self) -> Result<Option<EncryptionKeys>, KeyFileError> {
        let current = match &self.key {
            Some(key) => key.clone(),
            None if self.names_file() => key_in(&self.key_file)?,
            None => return Ok(None),
        };
        let old: Vec<[u8; 32]> = self.old_keys.iter().map(|key| *key.expose()).collect();
        Ok(Some(EncryptionKeys::new(current.expose(), &old)))
    }
}

fn key_in(path: &Path) -> Result<IdSecret, KeyFileError> {
    let failed = |source| KeyFileError::Read { path: path.to_owned(), source };
    let content = || KeyFileError::Content { path: path.to_owned() };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_KEY_FILE_BYTES), &mut bytes).map_err(failed)?;
    let text = String::from_utf8(bytes).map_err(|_| content())?;
    IdSecret::try_from(text.trim().to_owned()).map_err(|_| content())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn parse(text: &str) -> EncryptionConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_key_comes_from_one_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let file = parse(&format!("key_file = {path:?}"));
        assert!(matches!(file.keys(), Err(KeyFileError::Read { .. })));
        for (content, good) in [("", false), ("abc", false), (KEY, true), (&format!("{KEY}\n"), true)] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(file.keys().is_ok_and(|keys| keys.is_some()), good, "{content:?}");
        }
        std::fs::write(&path, format!("{KEY}{KEY}")).unwrap();
        let error = file.keys().unwrap_err();
        assert!(error.to_string().contains("key_file") && !error.to_string().contains(KEY), "{error}");

        let key = parse(&format!("key = {KEY:?}\nold_keys = [{KEY:?}]"));
        assert!(key.contradiction().is_none() && key.keys().unwrap().is_some());
        assert!(!format!("{key:?}").contains("0102"), "a secret is not shown");
        assert!(parse("").keys().unwrap().is_none());
        let both = parse(&format!("key = {KEY:?}\nkey_file = \"/k\""));
        assert!(both.contradiction().is_some_and(|(key, _)| key.ends_with("key_file")));
        let neither = parse(&format!("old_keys = [{KEY:?}]"));
        assert!(neither.contradiction().is_some_and(|(key, _)| key.ends_with("old_keys")));
    }
}
