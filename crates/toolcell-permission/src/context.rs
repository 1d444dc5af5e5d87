//! What a decision depends on besides the call.

use crate::mode::{Behavior, Mode, ReadOnlyPolicy};
use crate::path::ContainerPath;
use crate::policy::{ExecutionEnvironment, Policies, Policy};
use crate::rule::RuleSet;
use crate::shell::settings::ShellSettings;
use toolcell_model::UnixMillis;

/// An agent's permissions at one moment.
#[derive(Debug, Clone, Default)]
pub struct Context {
    mode: Mode,
    read_only: ReadOnlyPolicy,
    rules: RuleSet,
    working_directories: Vec<ContainerPath>,
    shell: ShellSettings,
    now: Option<UnixMillis>,
    policies: Policies,
    environment: ExecutionEnvironment,
    command_allowlist: Option<Vec<String>>,
}

impl Context {
    /// With the default [`ReadOnlyPolicy`] and [`ShellSettings`], no working directory, and no policy.
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

    /// With this shell for commands.
    #[must_use]
    pub fn with_shell(mut self, shell: ShellSettings) -> Self {
        self.shell = shell;
        self
    }

    /// At this time: rules that have expired by then count as absent. Without it no rule has.
    #[must_use]
    pub fn at(mut self, now: UnixMillis) -> Self {
        self.now = Some(now);
        self
    }

    /// With one more policy: an opinion on calls besides the tool's own.
    #[must_use]
    pub fn with_policy(mut self, name: impl Into<String>, policy: impl Policy + 'static) -> Self {
        self.policies.add(name.into(), policy);
        self
    }

    pub(crate) fn with_policies(mut self, policies: Policies) -> Self {
        self.policies.extend(policies);
        self
    }

    /// Where calls run, as policies are told. It routes nothing.
    #[must_use]
    pub fn with_environment(mut self, environment: ExecutionEnvironment) -> Self {
        self.environment = environment;
        self
    }

    /// With these programs as the only ones that may run as commands. See [`crate::validate`].
    #[must_use]
    pub fn with_command_allowlist(mut self, programs: Option<Vec<String>>) -> Self {
        self.command_allowlist = programs;
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

    /// Whether a deny rule of the tool is about this path: what a listing leaves out. A rule that cannot be evaluated
    /// is.
    #[must_use]
    pub fn denies_path(&self, tool: &str, path: &ContainerPath) -> bool {
        self.rules.candidates(Behavior::Deny, tool, self.now).any(|rule| match rule.content() {
            None => true,
            Some(content) => content.path().map_or(true, |pattern| pattern.covers(path)),
        })
    }

    /// Where ACCEPT_EDITS allows edits.
    #[must_use]
    pub fn working_directories(&self) -> &[ContainerPath] {
        &self.working_directories
    }

    /// The shell that runs commands.
    #[must_use]
    pub fn shell(&self) -> &ShellSettings {
        &self.shell
    }

    /// When it is.
    #[must_use]
    pub fn now(&self) -> Option<UnixMillis> {
        self.now
    }

    pub(crate) fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Where calls run.
    #[must_use]
    pub fn environment(&self) -> ExecutionEnvironment {
        self.environment
    }

    /// The programs that may run as commands, if not every one may.
    #[must_use]
    pub fn command_allowlist(&self) -> Option<&[String]> {
        self.command_allowlist.as_deref()
    }
}
