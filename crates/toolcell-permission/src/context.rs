//! What a decision depends on besides the call.

use crate::mode::{Mode, ReadOnlyPolicy};
use crate::path::ContainerPath;
use crate::rule::RuleSet;

/// An agent's permissions at one moment.
#[derive(Debug, Clone, Default)]
pub struct Context {
    mode: Mode,
    read_only: ReadOnlyPolicy,
    rules: RuleSet,
    working_directories: Vec<ContainerPath>,
}

impl Context {
    /// With the default [`ReadOnlyPolicy`] and no working directory.
    #[must_use]
    pub fn new(mode: Mode, rules: RuleSet) -> Self {
        Self { mode, rules, ..Self::default() }
    }

    /// With this policy for calls that only read.
    #[must_use]
    pub fn with_read_only(mut self, policy: ReadOnlyPolicy) -> Self {
        self.read_only = policy;
        self
    }

    /// With these working directories: where ACCEPT_EDITS allows edits.
    #[must_use]
    pub fn with_working_directories(mut self, directories: Vec<ContainerPath>) -> Self {
        self.working_directories = directories;
        self
    }

    /// The mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Which read-only calls are allowed without a rule.
    #[must_use]
    pub fn read_only(&self) -> ReadOnlyPolicy {
        self.read_only
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Where ACCEPT_EDITS allows edits.
    #[must_use]
    pub fn working_directories(&self) -> &[ContainerPath] {
        &self.working_directories
    }
}
