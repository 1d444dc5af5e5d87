//! Reading the file and the environment. The only place that reads environment variables.

use super::{AuthMode, Config, SnapshotStoreKind};
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};
use toolcell_permission::ContainerPath;

/// `TOOLCELL__SECTION__KEY=value` overrides a key: `TOOLCELL__SERVER__LISTEN=127.0.0.1:8080`.
pub const ENVIRONMENT_PREFIX: &str = "TOOLCELL__";

/// A persisted root's directory on the host is named by the path in hex, and a name has at most 255 bytes.
const MAX_ROOT_BYTES: usize = 120;

/// Why there is no valid configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read the configuration {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a valid configuration.
    #[error("{path} is not a valid configuration: {detail}")]
    File {
        /// The file.
        path: PathBuf,
        /// Line, key and what is expected.
        detail: String,
    },
    /// An environment variable is not a valid override.
    #[error("the environment variable {variable} is not a valid override: {detail}")]
    Environment {
        /// The variable.
        variable: String,
        /// What is expected.
        detail: String,
    },
    /// Every key is valid, but not together.
    #[error("{key}: {detail}")]
    Combination {
        /// The key to change.
        key: String,
        /// What is wrong and what to do.
        detail: String,
    },
}

impl Config {
    /// Reads the file (all defaults without one), then the overrides of the process's environment.
    ///
    /// # Errors
    /// [`ConfigError`]; a file's error names line and key.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let overrides = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| name.starts_with(ENVIRONMENT_PREFIX))?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        Self::load_with(path, overrides.collect())
    }

    /// As [`Config::load`], with the overrides given.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load_with(path: Option<&Path>, mut overrides: Vec<(String, String)>) -> Result<Self, ConfigError> {
        let mut table = match path {
            Some(path) => read_table(path)?,
            None => toml::Table::new(),
        };
        // A fixed order, so that an error names the same variable each time.
        overrides.sort();
        for (variable, value) in &overrides {
            apply(&mut table, variable, value)?;
        }
        let config = Self::deserialize(toml::Value::Table(table));
        let config = config.map_err(|error| ConfigError::Environment {
            variable: overrides.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
            detail: one_line(&error.to_string()),
        })?;
        config.check()?;
        Ok(config)
    }

    /// `DOCKER_HOST` counts where the configuration names no engine.
    #[must_use]
    pub fn docker_host(&self) -> String {
        let environment = || std::env::var_os("DOCKER_HOST").and_then(|host| host.into_string().ok());
        let host = self.docker.host.clone().or_else(|| environment().filter(|host| !host.is_empty()));
        host.unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned())
    }

    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key: String, detail: String| Err(ConfigError::Combination { key, detail });
        if self.auth.mode == AuthMode::None && !self.server.listen.ip().is_loopback() {
            return wrong(
                "auth.mode".to_owned(),
                format!(
                    "\"none\" gives everyone all roles, so server.listen must be a loopback address, not {}; use \
                     \"keys\"",
                    self.server.listen
                ),
            );
        }
        if let Some((name, detail)) = self.snapshots.encryption.contradiction() {
            return wrong(name.to_owned(), detail.to_owned());
        }
        if let Some((name, detail)) =
            self.snapshots.s3.mistake().filter(|_| self.snapshots.store == SnapshotStoreKind::S3)
        {
            return wrong(name.to_owned(), detail.to_owned());
        }
        if self.snapshots.store == SnapshotStoreKind::Redis && self.snapshots.redis.url.is_none() {
            let detail = "snapshots.store = \"redis\" needs the address of the server: redis://[user:password@]host";
            return wrong("snapshots.redis.url".to_owned(), detail.to_owned());
        }
        for (name, value) in [
            ("limits.batch_calls", self.limits.batch_calls as u64),
            ("limits.call_timeout_ms", self.limits.call_timeout_ms),
            ("limits.body", self.limits.body.bytes()),
            ("docker.pull_timeout_ms", self.docker.pull_timeout_ms.0),
        ] {
            if value == 0 {
                return wrong(name.to_owned(), "must be more than 0".to_owned());
            }
        }
        for (name, agent) in &self.agents {
            let key = |field: &str| format!("agents.{name}.{field}");
            if agent.image.is_empty() || agent.image.contains(char::is_whitespace) {
                return wrong(key("image"), format!("{:?} is not an image name", agent.image));
            }
            if agent.persist.is_empty() {
                return wrong(key("persist"), "names no directory: nothing would survive".to_owned());
            }
            for (place, root) in agent.persist.iter().enumerate() {
                if root.as_bytes().len() > MAX_ROOT_BYTES || root.as_bytes().len() < 2 {
                    return wrong(
                        key("persist"),
                        format!("{root} is not a directory name of 2 to {MAX_ROOT_BYTES} bytes"),
                    );
                }
                let inside = |other: &&ContainerPath| root.is_within(other);
                if let Some(other) = agent.persist[..place].iter().find(inside) {
                    return wrong(key("persist"), format!("{root} lies within {other}; name the outer one only"));
                }
                if let Some(later) = agent.persist[place + 1..].iter().find(inside) {
                    return wrong(key("persist"), format!("{root} lies within {later}; name the outer one only"));
                }
            }
            for mount in &agent.mounts {
                if !mount.host.is_absolute() {
                    return wrong(key("mounts"), format!("host = {:?} must be absolute", mount.host.display()));
                }
                let beneath = |taken: &str| ContainerPath::parse(taken).is_ok_and(|taken| mount.path.is_within(&taken));
                let is_root = mount.path.components().next().is_none();
                let taken = ["/proc", "/sys", "/dev", "/.toolcell"].into_iter().any(beneath);
                let covers = |root: &ContainerPath| root.is_within(&mount.path);
                if is_root || taken || agent.persist.iter().any(covers) || mount.path.as_str() == Some("/tmp") {
                    return wrong(
                        key("mounts"),
                        format!("path = {} is taken; choose a directory of its own, or one beneath a root", mount.path),
                    );
                }
            }
            for (file, path) in set_up_paths(agent) {
                let is_within = |root: &ContainerPath| path.is_within(root) && path != *root;
                if !agent.persist.iter().any(is_within) {
                    return wrong(key(&file), format!("{path} does not lie beneath a directory of persist"));
                }
                if let Some(mount) = agent.mounts.iter().find(|mount| path.is_within(&mount.path)) {
                    return wrong(key(&file), format!("{path} lies in the mount {}", mount.path));
                }
            }
            if let Some(projection) = agent.projections.iter().find(|projection| !projection.host.is_absolute()) {
                let host = projection.host.display();
                return wrong(key("projections"), format!("host = {host:?} must be absolute"));
            }
            for tool in &agent.custom_tools {
                if let Err(error) = tool.tool() {
                    return wrong(key(&format!("custom_tools.{}.{}", tool.name, error.field)), error.problem);
                }
            }
            if let Some(bad) = agent.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
                return wrong(key("env"), format!("{bad:?} is not a variable name"));
            }
            for (limit, value, least) in [
                ("limits.memory", agent.limits.memory.bytes(), 16 << 20),
                ("limits.pids", u64::from(agent.limits.pids), 8),
                ("limits.tmp", agent.limits.tmp.bytes(), 1 << 20),
                ("limits.workspace", agent.limits.workspace.bytes(), crate::workspace::disk::LEAST_BYTES),
            ] {
                if value < least {
                    return wrong(key(limit), format!("{value} is too little to run anything; at least {least}"));
                }
            }
        }
        Ok(())
    }
}

/// Where files and projections go, with their keys.
fn set_up_paths(agent: &super::AgentConfig) -> Vec<(String, ContainerPath)> {
    // Their form was checked when the file was read.
    let files = agent.files.keys().filter_map(|path| Some((format!("files.{path:?}"), super::file_path(path).ok()?)));
    let projections = agent.projections.iter().map(|projection| ("projections".to_owned(), projection.path.clone()));
    files.chain(projections).collect()
}

fn read_table(path: &Path) -> Result<toml::Table, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let file_error =
        |error: &toml::de::Error| ConfigError::File { path: path.to_owned(), detail: located(&text, error) };
    // Once as the real thing, for errors that name the line; the table is what the environment is laid over.
    toml::from_str::<Config>(&text).map_err(|error| file_error(&error))?;
    toml::from_str::<toml::Table>(&text).map_err(|error| file_error(&error))
}

/// `line 3: `imgae = "x"`: unknown field …`
fn located(text: &str, error: &toml::de::Error) -> String {
    let message = one_line(error.message());
    let Some(span) = error.span() else { return message };
    let before = text.get(..span.start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let shown = text.lines().nth(line - 1).unwrap_or_default().trim();
    // A secret with a slip in it is still a secret.
    let secret = shown.split_once('=').map(|(key, _)| key.trim()).filter(|key| is_secret(key));
    let shown: String = secret.unwrap_or(shown).chars().take(120).collect();
    let message = if secret.is_some() { without_value(&message) } else { message };
    format!("line {line}: `{shown}`: {message}")
}

/// What was expected, without what was found: a value of another kind is quoted in such messages.
fn without_value(message: &str) -> String {
    message.rsplit_once(", expected ").map_or_else(|| message.to_owned(), |(_, wanted)| format!("expected {wanted}"))
}

/// Whether a key's value is not to be shown.
fn is_secret(key: &str) -> bool {
    ["secret", "key", "keys", "url"].iter().any(|end| key.rsplit(['_', '.']).next() == Some(end))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn apply(table: &mut toml::Table, variable: &str, value: &str) -> Result<(), ConfigError> {
    let wrong = |detail: String| ConfigError::Environment { variable: variable.to_owned(), detail };
    let path = variable.strip_prefix(ENVIRONMENT_PREFIX).unwrap_or(variable).to_lowercase();
    let keys: Vec<&str> = path.split("__").collect();
    let Some((last, parents)) = keys.split_last().filter(|_| keys.iter().all(|key| !key.is_empty())) else {
        return Err(wrong(format!("the name must be {ENVIRONMENT_PREFIX}SECTION__KEY")));
    };
    let mut place = &mut *table;
    for key in parents {
        let entry = place.entry(*key).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        place = entry.as_table_mut().ok_or_else(|| wrong(format!("`{key}` is not a section")))?;
    }
    // `5`, `true`, `["a"]` as TOML would read them; whatever is no TOML value is a string.
    let parsed = toml::from_str::<toml::Table>(&format!("value = {value}")).ok();
    let parsed = parsed.and_then(|mut table| table.remove("value"));
    place.insert((*last).to_owned(), parsed.unwrap_or_else(|| toml::Value::String(value.to_owned())));
    // Tried one by one, so that the error names the one variable.
    let shown = |error: &str| if is_secret(last) { without_value(error) } else { error.to_owned() };
    Config::deserialize(toml::Value::Table(table.clone()))
        .map_err(|error| wrong(shown(&one_line(&error.to_string()))))?;
    Ok(())
}

pub(super) fn default_data_dir() -> PathBuf {
    home().map_or_else(|| PathBuf::from("/var/lib/toolcell"), |home| home.join(".local/share/toolcell"))
}

pub(super) fn path_with_home<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    let text = String::deserialize(from)?;
    let path = match text.strip_prefix("~/") {
        Some(rest) => home().map(|home| home.join(rest)).ok_or_else(|| {
            serde::de::Error::custom(format_args!("{text:?} needs the variable HOME, which is not set"))
        })?,
        None => PathBuf::from(&text),
    };
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(serde::de::Error::custom(format_args!("{text:?} must be absolute or begin with ~/")))
    }
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, overrides: &[(&str, &str)]) -> Result<Config, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("toolcell.toml");
        std::fs::write(&path, text).unwrap();
        let overrides = overrides.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Config::load_with(Some(&path), overrides).map_err(|error| error.to_string())
    }

    fn error(text: &str) -> String {
        load(text, &[]).expect_err(text)
    }

    #[test]
    fn an_empty_file_is_valid_and_has_one_agent() {
        let config = load("", &[]).unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(config.agents().keys().map(AgentName::as_str).collect::<Vec<_>>(), ["default"]);
    }
    use toolcell_model::AgentName;

    #[test]
    fn errors_name_file_line_and_key() {
        let text = "data_dir = \"/d\"\n\n[agents.coder]\nimgae = \"x\"\n";
        let message = error(text);
        assert!(
            message.contains("toolcell.toml") && message.contains("line 4") && message.contains("imgae"),
            "{message}"
        );
        for (text, line, key) in [
            ("[server]\nlisten = 7\n", "line 2", "listen"),
            ("[server]\nlisten = \"nowhere\"\n", "line 2", "listen"),
            ("[agents.a.limits]\nmemory = \"2GB\"\n", "line 2", "memory"),
            ("[agents.a.permissions]\nmode = \"yolo\"\n", "line 2", "mode"),
            ("[agents.a.permissions]\ndeny = [\"execute(rm\"]\n", "line 2", "execute(rm"),
            ("[agents.a]\nfile_roots = [\"workspace\"]\n", "line 2", "file_roots"),
            ("[agents.a]\nscope = \"everyone\"\n", "line 2", "scope"),
            ("[snapshots]\nid_secret = \"abc\"\n", "line 2", "id_secret"),
            ("[state]\nurl = \"mysql://x\"\n", "line 2", "url"),
            ("data_dir = \"relative\"\n", "line 1", "data_dir"),
            ("[server\n", "line 1", "[server"),
        ] {
            let message = error(text);
            assert!(message.contains(line) && message.contains(key), "{text:?}: {message}");
        }
    }

    #[test]
    fn a_misspelt_secret_is_not_shown() {
        for key in ["id_secret", "encryption.key", "encryption.old_keys"] {
            let message = error(&format!("[snapshots]\n{key} = \"0badc0de\"\n"));
            assert!(message.contains("line 2") && message.contains(key) && !message.contains("0badc0de"), "{message}");
        }
        let variable = "TOOLCELL__SNAPSHOTS__ENCRYPTION__OLD_KEYS";
        let message = load("", &[(variable, "0badc0de")]).unwrap_err().to_string();
        assert!(message.contains(variable) && !message.contains("0badc0de"), "{message}");
    }

    #[test]
    fn keys_that_do_not_go_together_name_the_key() {
        let message = error("[server]\nlisten = \"0.0.0.0:1\"\n[auth]\nmode = \"none\"\n");
        assert!(message.contains("auth.mode") && message.contains("loopback"), "{message}");
        let message = error("[agents.a]\npersist = [\"/w\", \"/w/x\"]\n");
        assert!(message.contains("agents.a.persist"), "{message}");
        for (host, path) in [
            ("x", "/data"),
            ("/srv", "/"),
            ("/srv", "/.toolcell/run"),
            ("/srv", "/proc/1"),
            ("/srv", "/workspace"),
            ("/srv", "/home"),
            ("/srv", "/tmp"),
        ] {
            let message = error(&format!("[[agents.a.mounts]]\nhost = {host:?}\npath = {path:?}\n"));
            assert!(message.contains("agents.a.mounts"), "{path}: {message}");
        }
        assert!(load("[[agents.a.mounts]]\nhost = \"/srv\"\npath = \"/workspace/data\"\n", &[]).is_ok());
    }

    #[test]
    fn the_environment_overrides_and_its_errors_name_the_variable() {
        let config = load(
            "[server]\nlisten = \"127.0.0.1:1\"\n",
            &[
                ("TOOLCELL__SERVER__LISTEN", "127.0.0.1:2"),
                ("TOOLCELL__AGENTS__CODER__PERMISSIONS__MODE", "bypass"),
                ("TOOLCELL__AGENTS__CODER__LIMITS__PIDS", "64"),
                ("TOOLCELL__AGENTS__CODER__TOOLS", "[\"execute\"]"),
            ],
        )
        .unwrap();
        assert_eq!(config.server.listen.port(), 2);
        let (_, coder) = config.agents.first_key_value().unwrap();
        assert_eq!(coder.limits.pids, 64);
        assert_eq!(coder.tools.as_ref().map(Vec::len), Some(1));
        for (variable, value) in [
            ("TOOLCELL__SERVER__LISTEN", "x"),
            ("TOOLCELL__SERVER__LISTNE", "127.0.0.1:2"),
            ("TOOLCELL__", "x"),
            ("TOOLCELL__DATA_DIR__X", "x"),
        ] {
            let message =
                load("data_dir = \"/d\"", &[("TOOLCELL__LEASE__WAIT_MS", "5"), (variable, value)]).unwrap_err();
            assert!(message.contains(variable), "{message}");
        }
    }
}
