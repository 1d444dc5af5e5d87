//! `[agents.NAME.files]` and `[[agents.NAME.projections]]`

use crate::workspace::setup::Origin;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::PathBuf;
use toolcell_permission::ContainerPath;

/// One file or directory that a workspace begins with: exactly one of `text`, `local` and `git`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileConfig {
    /// Its content.
    pub text: Option<String>,
    /// A file or directory of the host.
    pub local: Option<PathBuf>,
    /// A git repository: `https://…`, `file:///…` or an absolute path.
    pub git: Option<String>,
    /// Branch, tag or commit.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Shown to the git server as a password; never in the workspace.
    pub token: Option<Token>,
}

/// A secret; its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// Its text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// `[[agents.NAME.projections]]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectionConfig {
    /// Absolute path on the host of the server; a directory or a file.
    pub host: PathBuf,
    /// Absolute path in the container, beneath a persisted root.
    #[serde(deserialize_with = "super::agent::container_path")]
    pub path: ContainerPath,
}

/// Where a file of the configuration goes: beneath `/workspace`, unless its path is absolute.
pub(crate) fn file_path(text: &str) -> Result<ContainerPath, String> {
    let whole = if text.starts_with('/') { text.to_owned() } else { format!("/workspace/{text}") };
    if text.is_empty() || text.split('/').any(|name| name == "..") {
        return Err("a path without `..` is expected".to_owned());
    }
    ContainerPath::parse(&whole).map_err(|error| error.to_string())
}

impl FileConfig {
    /// What it says, if it says one thing.
    pub(crate) fn source(&self) -> Result<Origin, String> {
        let Self { text, local, git, reference, token } = self;
        if git.is_none() && (reference.is_some() || token.is_some()) {
            return Err("ref and token belong to git".to_owned());
        }
        match (text, local, git) {
            (Some(text), None, None) => Ok(Origin::Text(text.clone())),
            (None, Some(local), None) if local.is_absolute() => Ok(Origin::Local(local.clone())),
            (None, Some(local), None) => Err(format!("local = {:?} must be absolute", local.display())),
            (None, None, Some(url)) => {
                let (reference, token) = (reference.clone(), token.clone());
                check_git(url, reference.as_deref())?;
                Ok(Origin::Git { url: url.clone(), reference, token })
            }
            _ => Err("exactly one of text, local and git is expected".to_owned()),
        }
    }
}

fn check_git(url: &str, reference: Option<&str>) -> Result<(), String> {
    let rest = url.strip_prefix("https://");
    if rest.is_none() && !url.starts_with('/') && !url.starts_with("file:///") {
        return Err(format!("git = {url:?} must begin with https://, file:/// or /"));
    }
    if rest.is_some_and(|rest| rest.split('/').next().is_some_and(|host| host.contains('@'))) {
        return Err("git must not hold a password: it would be in the repository's configuration; use token".to_owned());
    }
    match reference {
        Some(name)
            if name.is_empty() || name.starts_with('-') || name.contains(|c: char| c.is_whitespace() || c == ':') =>
        {
            Err(format!("ref = {name:?} is not a branch, tag or commit"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Checked here, so that an error names the line and the file.
pub(super) fn files<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, FileConfig>, D::Error> {
    let tables = BTreeMap::<String, toml::Value>::deserialize(from)?;
    let mut files = BTreeMap::new();
    for (path, table) in tables {
        let wrong = |detail: &str| serde::de::Error::custom(format_args!("{path:?}: {detail}"));
        let file = FileConfig::deserialize(table);
        let file = file.map_err(|error| {
            let known = "a file has text, local, or git with ref and token";
            wrong(&format!("{known}; {}", error.message().replace("unknown field", "it has no")))
        })?;
        file.source().map_err(|error| wrong(&error))?;
        file_path(&path).map_err(|error| wrong(&error))?;
        files.insert(path, file);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(toml: &str) -> Result<Origin, String> {
        toml::from_str::<FileConfig>(toml).map_err(|error| error.to_string())?.source()
    }

    #[test]
    fn a_file_says_exactly_one_thing() {
        assert!(matches!(source("text = \"x\""), Ok(Origin::Text(_))));
        assert!(matches!(source("local = \"/srv/x\""), Ok(Origin::Local(_))));
        assert!(matches!(source("git = \"https://host/x\"\nref = \"main\""), Ok(Origin::Git { .. })));
        for wrong in [
            "",
            "text = \"x\"\nlocal = \"/x\"",
            "local = \"x\"",
            "text = \"x\"\nref = \"main\"",
            "git = \"http://host/x\"",
            "git = \"ext::sh -c x\"",
            "git = \"--upload-pack=x\"",
            "git = \"https://user:secret@host/x\"",
            "git = \"/x\"\nref = \"--upload-pack=x\"",
            "git = \"/x\"\nref = \"a:b\"",
        ] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn relative_paths_are_beneath_the_workspace() {
        assert_eq!(file_path("a/b").unwrap().to_string(), "/workspace/a/b");
        assert_eq!(file_path("/home/agent/.profile").unwrap().to_string(), "/home/agent/.profile");
        assert!(file_path("../x").is_err() && file_path("").is_err());
    }

    #[test]
    fn a_token_is_not_shown() {
        let file: FileConfig = toml::from_str("git = \"https://host/x\"\ntoken = \"hush\"").unwrap();
        assert!(!format!("{file:?}").contains("hush"));
    }
}
