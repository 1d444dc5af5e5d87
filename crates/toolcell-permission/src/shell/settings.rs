//! What the analysis must know besides the text.

use crate::path::ContainerPath;
use std::collections::BTreeSet;

/// The shell that will run the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// GNU bash.
    #[default]
    Bash,
    /// A POSIX shell: dash, or busybox's.
    Sh,
}

/// Where scripts run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellSettings {
    /// The shell that will run the text.
    pub dialect: Dialect,
    /// `~` and `$HOME`.
    pub home: ContainerPath,
    /// What must not be removed as a whole, and where relative paths start unless the call says otherwise.
    pub workspace: ContainerPath,
    /// Variables that every process has in its environment, so that an assignment to one of them is seen by programs.
    pub exported: BTreeSet<String>,
}

/// Bash, `/home/agent`, `/workspace`, and what every process has.
impl Default for ShellSettings {
    fn default() -> Self {
        let exported =
            ["HOME", "LANG", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "TERM", "TZ", "USER", "_"];
        Self {
            dialect: Dialect::default(),
            home: ContainerPath::home(),
            workspace: ContainerPath::workspace(),
            exported: exported.into_iter().map(str::to_owned).collect(),
        }
    }
}
