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

impl Default for ShellSettings {
    /// Bash, with the usual home and workspace, and nothing known to be exported.
    fn default() -> Self {
        Self {
            dialect: Dialect::Bash,
            home: ContainerPath::home(),
            workspace: ContainerPath::workspace(),
            exported: BTreeSet::new(),
        }
    }
}
