//! Agents as the configuration makes them, ready to decide and run.

use crate::call::BASE_ENVIRONMENT;
use crate::config::{AgentConfig, Config, PermissionsConfig, file_path};
use crate::error::{StartError, chain};
use crate::workspace::setup::{Projection, Setup, SetupFile};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use toolcell_model::{AgentName, IsolationScope, WorkspaceName};
use toolcell_permission::shell::settings::ShellSettings;
use toolcell_permission::{ContainerPath, Context, Mode, Rule, RuleSet, RuleSource};
use toolcell_sandbox::{HostMount, Limits, SandboxSpec, ToolUser};
use toolcell_tools::{Catalogue, CustomTool};

/// One agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) scope: IsolationScope,
    pub(crate) workspace: Option<WorkspaceName>,
    pub(crate) require_identity: bool,
    pub(crate) catalogue: Catalogue,
    pub(crate) file_roots: Vec<ContainerPath>,
    pub(crate) file_root_texts: Vec<String>,
    /// What its configuration says of permissions; a session may have its own besides.
    pub(crate) context: Arc<Context>,
    permissions: PermissionsConfig,
    pub(crate) spec: SandboxSpec,
    pub(crate) setup: Setup,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) idle_timeout: Duration,
}

/// All agents by name.
pub(crate) fn build(config: &Config) -> Result<BTreeMap<AgentName, Arc<Agent>>, StartError> {
    config.agents().into_iter().map(|(name, agent)| Ok((name.clone(), Arc::new(one(&name, agent)?)))).collect()
}

impl Agent {
    /// The context of a session with a mode and rules of its own.
    pub(crate) fn session_context(&self, mode: Mode, rules: RuleSet) -> Context {
        let rules = self.context.rules().clone().into_iter().chain(rules).collect();
        context(&self.permissions, self.context.shell().clone(), mode, rules)
    }

    /// A rule, not a pattern, that names no tool: it would never do anything.
    pub(crate) fn rule_without_tool<'r>(&self, rules: &'r RuleSet) -> Option<&'r Rule> {
        rule_without_tool(&self.catalogue, rules)
    }
}

/// The one place where a context is made.
fn context(permissions: &PermissionsConfig, shell: ShellSettings, mode: Mode, rules: RuleSet) -> Context {
    Context::new(mode, rules)
        .with_shell(shell)
        .with_command_allowlist(permissions.command_allowlist.clone())
        .with_read_only(permissions.read_only)
        .with_working_directories(permissions.working_directories.clone())
}

/// Built-in tools count although the agent may not have them: a rule may be there before the tool.
fn rule_without_tool<'r>(catalogue: &Catalogue, rules: &'r RuleSet) -> Option<&'r Rule> {
    let built_in = Catalogue::built_in();
    let names = || built_in.tools().chain(catalogue.tools()).map(|tool| tool.name);
    // What stands in parentheses is about inputs; a `*` in it does not make a pattern of the tool's name.
    let is_pattern = |rule: &Rule| rule.text().split('(').next().is_some_and(|tool| tool.contains('*'));
    rules.iter().find(|rule| !is_pattern(rule) && !names().any(|name| rule.matches_tool(&name)))
}

/// Until a container has told which shell its image has, it counts as bash.
fn shell(config: &AgentConfig) -> ShellSettings {
    let base = BASE_ENVIRONMENT.iter().map(|(name, _)| (*name).to_owned());
    ShellSettings { exported: base.chain(config.env.keys().cloned()).collect(), ..ShellSettings::default() }
}

/// The tools of one agent.
pub(crate) fn catalogue(name: &AgentName, config: &AgentConfig) -> Result<Catalogue, StartError> {
    let wrong = |detail: String| StartError::Tools { agent: name.to_string(), detail };
    let custom = config.custom_tools.iter().map(|tool| {
        tool.tool().map_err(|error| StartError::CustomTool {
            agent: name.to_string(),
            tool: tool.name.clone(),
            detail: chain(&error),
        })
    });
    let custom: Vec<CustomTool> = custom.collect::<Result<_, _>>()?;
    let all = Catalogue::built_in().with_custom(custom).map_err(|error| StartError::CustomTool {
        agent: name.to_string(),
        tool: String::new(),
        detail: chain(&error),
    })?;
    let Some(names) = &config.tools else { return Ok(all) };
    let catalogue = all.only(names).map_err(|fault| wrong(fault.message))?;
    match config.custom_tools.iter().find(|tool| !names.iter().any(|name| name.as_str() == tool.name)) {
        Some(tool) => Err(wrong(format!("the custom tool {:?} is declared but not listed; add it", tool.name))),
        None => Ok(catalogue),
    }
}

/// What its workspaces begin with, and what they are kept the same with.
fn setup(name: &AgentName, config: &AgentConfig) -> Result<Setup, StartError> {
    let files = config.files.iter().map(|(key, file)| {
        let wrong = |detail: String| StartError::Files { agent: name.to_string(), file: key.clone(), detail };
        let path = file_path(key).map_err(wrong)?;
        Ok(SetupFile { key: format!("agents.{name}.files.{key:?}"), path, from: file.source().map_err(wrong)? })
    });
    Ok(Setup {
        begins: true,
        files: files.collect::<Result<_, StartError>>()?,
        projections: config
            .projections
            .iter()
            .map(|projection| Projection { host: projection.host.clone(), path: projection.path.clone() })
            .collect(),
        image: config.setup_image.clone(),
    })
}

fn one(name: &AgentName, config: AgentConfig) -> Result<Agent, StartError> {
    let permissions = config.permissions.clone();
    let [allow, ask, deny] = config.rules();
    let rules = RuleSet::parse(RuleSource::Policy, &allow, &ask, &deny)
        .map_err(|source| StartError::Rules { agent: name.to_string(), source })?;
    let catalogue = catalogue(name, &config)?;
    if let Some(rule) = rule_without_tool(&catalogue, &rules) {
        let built_in = Catalogue::built_in();
        let names = built_in.tools().chain(catalogue.tools()).map(|tool| tool.name.into_owned());
        let names: BTreeSet<String> = names.collect();
        return Err(StartError::RuleWithoutTool {
            agent: name.to_string(),
            rule: rule.text().to_owned(),
            tools: names.into_iter().collect::<Vec<_>>().join(", "),
        });
    }
    let context = Arc::new(context(&permissions, shell(&config), permissions.mode, rules));
    let texts = |paths: &[ContainerPath]| -> Vec<String> {
        // Paths from a TOML file are UTF-8.
        paths.iter().filter_map(|path| path.as_str().map(str::to_owned)).collect()
    };
    let limits = &config.limits;
    // The configuration bounds the processors between 0.01 and 1024.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded when the file was read")]
    let cpu_millis = (limits.cpus * 1000.0).round() as u64;
    let spec = SandboxSpec {
        image: config.image.clone(),
        limits: Limits {
            memory_bytes: limits.memory.bytes(),
            cpu_millis,
            pids: limits.pids,
            tmp_bytes: limits.tmp.bytes(),
            workspace_bytes: limits.workspace.bytes(),
            ..Limits::default()
        },
        user: ToolUser::default(),
        persist: texts(&config.persist),
        mounts: config
            .mounts
            .iter()
            .map(|mount| HostMount {
                host: mount.host.clone(),
                path: mount.path.to_string(),
                read_only: mount.read_only,
            })
            .collect(),
        read_only_root: !config.writable_root,
    };
    let setup = setup(name, &config)?;
    Ok(Agent {
        setup,
        scope: config.scope,
        workspace: config.workspace,
        require_identity: config.require_identity,
        catalogue,
        file_root_texts: texts(&config.file_roots),
        file_roots: config.file_roots,
        context,
        permissions,
        spec,
        env: config.env,
        idle_timeout: Duration::from_millis(config.idle_timeout_ms),
    })
}
