//! `[agents.NAME]`

use super::custom_tool::CustomToolConfig;
use super::files::{FileConfig, ProjectionConfig};
use super::size::ByteSize;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::PathBuf;
use toolcell_model::{IsolationScope, ToolName, WorkspaceName};
use toolcell_permission::{Behavior, ContainerPath, Mode, ReadOnlyPolicy, Rule, RuleSource, RuleSpec};

/// One agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// Image of its containers.
    pub image: String,
    /// Which calls share a slot.
    pub scope: IsolationScope,
    /// Replaces the agent's name in USER and AGENT keys, so that several agents share a workspace.
    pub workspace: Option<WorkspaceName>,
    /// A call whose identity does not suffice for the scope is an error instead of an ephemeral slot.
    pub require_identity: bool,
    /// Names of its tools; all when absent.
    pub tools: Option<Vec<ToolName>>,
    /// The file tools work beneath these.
    #[serde(deserialize_with = "container_paths")]
    pub file_roots: Vec<ContainerPath>,
    /// These survive; everything else ends with the container.
    #[serde(deserialize_with = "container_paths")]
    pub persist: Vec<ContainerPath>,
    /// A slot that does nothing for this long is saved and stopped.
    pub idle_timeout_ms: u64,
    /// The container's root file system can be written (and is gone with the container).
    pub writable_root: bool,
    /// What it may do.
    pub permissions: PermissionsConfig,
    /// What becomes of all calls of a tool, by its name.
    #[serde(deserialize_with = "approvals")]
    pub approval: BTreeMap<String, Approval>,
    /// Tools that it has besides the built-in ones.
    pub custom_tools: Vec<CustomToolConfig>,
    /// Bounds of its containers.
    pub limits: LimitsConfig,
    /// What its containers reach.
    pub network: NetworkConfig,
    /// Environment of its processes.
    pub env: BTreeMap<String, String>,
    /// Host directories in its containers.
    pub mounts: Vec<MountConfig>,
    /// What a workspace begins with, by path.
    #[serde(deserialize_with = "super::files::files")]
    pub files: BTreeMap<String, FileConfig>,
    /// Host directories that each start brings up to date in the workspace.
    pub projections: Vec<ProjectionConfig>,
    /// Image with git, for files that come from a repository; the agent's own without it.
    pub setup_image: Option<String>,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            image: "toolcell/base".to_owned(),
            scope: IsolationScope::User,
            workspace: None,
            require_identity: false,
            tools: None,
            file_roots: known_paths(&["/workspace", "/home/agent", "/tmp"]),
            persist: known_paths(&["/workspace", "/home/agent"]),
            idle_timeout_ms: 600_000,
            writable_root: false,
            permissions: PermissionsConfig::default(),
            approval: BTreeMap::new(),
            custom_tools: Vec::new(),
            limits: LimitsConfig::default(),
            network: NetworkConfig::default(),
            env: BTreeMap::new(),
            mounts: Vec::new(),
            files: BTreeMap::new(),
            projections: Vec::new(),
            setup_image: None,
        }
    }
}

/// `[agents.NAME.permissions]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PermissionsConfig {
    /// What happens to calls that no rule decides.
    pub mode: Mode,
    /// Which read-only calls are allowed without a rule.
    pub read_only: ReadOnlyPolicy,
    /// In mode `accept_edits`, file tools may change what lies in these.
    #[serde(deserialize_with = "container_paths")]
    pub working_directories: Vec<ContainerPath>,
    /// The only programs that its commands may run, whatever else allows them; any without it.
    #[serde(deserialize_with = "programs")]
    pub command_allowlist: Option<Vec<String>>,
    /// Rules that allow.
    #[serde(deserialize_with = "allow_rules")]
    pub allow: Vec<RuleSpec>,
    /// Rules that ask.
    #[serde(deserialize_with = "ask_rules")]
    pub ask: Vec<RuleSpec>,
    /// Rules that deny.
    #[serde(deserialize_with = "deny_rules")]
    pub deny: Vec<RuleSpec>,
}

impl Default for PermissionsConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Default,
            read_only: ReadOnlyPolicy::default(),
            working_directories: known_paths(&["/workspace"]),
            command_allowlist: None,
            allow: Vec::new(),
            ask: Vec::new(),
            deny: Vec::new(),
        }
    }
}

/// What becomes of all calls of a tool: shorthand for a rule without content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// They are allowed.
    Safe,
    /// A person is asked.
    Ask,
    /// They are denied.
    Deny,
}

impl AgentConfig {
    /// The rules that allow, ask and deny, with what `approval` is shorthand for.
    #[must_use]
    pub fn rules(&self) -> [Vec<RuleSpec>; 3] {
        let PermissionsConfig { allow, ask, deny, .. } = &self.permissions;
        let [mut allow, mut ask, mut deny] = [allow, ask, deny].map(Clone::clone);
        for (tool, approval) in &self.approval {
            let list = match approval {
                Approval::Safe => &mut allow,
                Approval::Ask => &mut ask,
                Approval::Deny => &mut deny,
            };
            list.push(tool.as_str().into());
        }
        [allow, ask, deny]
    }
}

/// `[agents.NAME.limits]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Memory, without swap.
    pub memory: ByteSize,
    /// Processors.
    #[serde(deserialize_with = "cpus")]
    pub cpus: f64,
    /// Processes and threads.
    pub pids: u32,
    /// Size of the tmpfs on /tmp; what is in it counts as memory.
    pub tmp: ByteSize,
    /// Size of the workspace: all persisted roots together.
    pub workspace: ByteSize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            memory: ByteSize::mib(2048),
            cpus: 2.0,
            pids: 512,
            tmp: ByteSize::mib(512),
            workspace: ByteSize::mib(4096),
        }
    }
}

/// `[agents.NAME.network]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// What a container reaches.
    pub mode: NetworkMode,
}

/// What a container reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// Nothing.
    #[default]
    None,
}

/// `[[agents.NAME.mounts]]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountConfig {
    /// Absolute path on the host.
    pub host: PathBuf,
    /// Absolute path in the container.
    #[serde(deserialize_with = "container_path")]
    pub path: ContainerPath,
    /// Tools cannot write to it.
    #[serde(default = "yes")]
    pub read_only: bool,
}

const fn yes() -> bool {
    true
}

fn known_paths(paths: &[&str]) -> Vec<ContainerPath> {
    paths.iter().filter_map(|path| ContainerPath::parse(path).ok()).collect()
}

pub(super) fn container_path<'de, D: Deserializer<'de>>(from: D) -> Result<ContainerPath, D::Error> {
    let text = String::deserialize(from)?;
    ContainerPath::parse(&text).map_err(|error| serde::de::Error::custom(format_args!("{text:?}: {error}")))
}

pub(super) fn optional_path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ContainerPath>, D::Error> {
    container_path(from).map(Some)
}

fn container_paths<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ContainerPath>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let parse = |text: &String| {
        ContainerPath::parse(text).map_err(|error| serde::de::Error::custom(format_args!("{text:?}: {error}")))
    };
    texts.iter().map(parse).collect()
}

fn cpus<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let cpus = f64::deserialize(from)?;
    if (0.01..=1024.0).contains(&cpus) {
        Ok(cpus)
    } else {
        Err(serde::de::Error::custom(format_args!("{cpus} is not a number of processors between 0.01 and 1024")))
    }
}

/// Rules are parsed here as well, so that an error names the line.
fn rules<'de, D: Deserializer<'de>>(behavior: Behavior, from: D) -> Result<Vec<RuleSpec>, D::Error> {
    let specs = Vec::<RuleSpec>::deserialize(from)?;
    for spec in &specs {
        Rule::from_spec(behavior, RuleSource::Policy, spec).map_err(serde::de::Error::custom)?;
    }
    Ok(specs)
}

fn allow_rules<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RuleSpec>, D::Error> {
    rules(Behavior::Allow, from)
}

fn ask_rules<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RuleSpec>, D::Error> {
    rules(Behavior::Ask, from)
}

fn deny_rules<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RuleSpec>, D::Error> {
    rules(Behavior::Deny, from)
}

/// The shorthand is for whole tools; what looks at their inputs is a rule.
fn approvals<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Approval>, D::Error> {
    let approvals = BTreeMap::<String, Approval>::deserialize(from)?;
    for tool in approvals.keys() {
        Rule::parse(Behavior::Ask, RuleSource::Policy, tool).map_err(serde::de::Error::custom)?;
        if tool.contains('(') {
            let problem =
                format!("{tool:?}: name a tool here, and write what looks at its input as a rule of permissions");
            return Err(serde::de::Error::custom(problem));
        }
    }
    Ok(approvals)
}

fn programs<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    let programs = Option::<Vec<String>>::deserialize(from)?;
    let wrong =
        |name: &&String| name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '*');
    match programs.iter().flatten().find(wrong) {
        Some(name) => Err(serde::de::Error::custom(format_args!("{name:?} is not the name of a program"))),
        None => Ok(programs),
    }
}
