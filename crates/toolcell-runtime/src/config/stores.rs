//! Where the shared snapshot stores are.

use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// An address that may hold a password; its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// All of it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretUrl(…)")
    }
}

/// `[snapshots.redis]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisSection {
    /// `redis://[user:password@]host[:port][/database]`, `rediss://` for TLS.
    pub url: Option<SecretUrl>,
    /// What all keys begin with.
    pub prefix: String,
    /// Whether a server whose settings cannot be read counts as one that syncs every write.
    pub assume_durable: bool,
}

impl Default for RedisSection {
    fn default() -> Self {
        Self { url: None, prefix: "toolcell:".to_owned(), assume_durable: false }
    }
}

/// `[snapshots.sql]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SqlSection {
    /// Which database.
    pub url: SqlUrl,
}

/// Which database.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum SqlUrl {
    /// A file of this host; without a path it is under `data_dir`.
    Sqlite(Option<PathBuf>),
    /// A Postgres database.
    Postgres(SecretUrl),
}

impl Default for SqlUrl {
    fn default() -> Self {
        Self::Sqlite(None)
    }
}

impl TryFrom<String> for SqlUrl {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(SecretUrl(text)));
        }
        match text.strip_prefix("sqlite") {
            Some("") => Ok(Self::Sqlite(None)),
            Some(path) if path.strip_prefix(':').is_some_and(|path| Path::new(path).is_absolute()) => {
                Ok(Self::Sqlite(path.strip_prefix(':').map(PathBuf::from)))
            }
            // The text may hold a password, so the message does not repeat it.
            Some(_) | None => {
                Err("expected \"sqlite\", \"sqlite:/absolute/path\" or \"postgres://user:password@host/database\"")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_told_apart_and_passwords_are_not_shown() {
        let parse = |text: &str| SqlUrl::try_from(text.to_owned());
        assert_eq!(parse("sqlite").unwrap(), SqlUrl::default());
        assert_eq!(parse("sqlite:/a/b.db").unwrap(), SqlUrl::Sqlite(Some(PathBuf::from("/a/b.db"))));
        for wrong in ["", "sqlite:", "sqlite:relative", "sqlite3", "mysql://root:secret@host"] {
            assert!(!parse(wrong).unwrap_err().contains("secret"), "{wrong}");
        }
        let postgres = parse("postgres://user:secret@host/database").unwrap();
        assert!(matches!(&postgres, SqlUrl::Postgres(url) if url.expose().contains("secret")));
        assert!(!format!("{postgres:?}").contains("secret"));
        let redis = RedisSection { url: Some(SecretUrl("redis://:secret@host".to_owned())), ..RedisSection::default() };
        assert!(!format!("{redis:?}").contains("secret"));
    }
}
