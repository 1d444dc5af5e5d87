//! Agents as the configuration makes them, ready to decide and run.

use crate::config::{AgentConfig, Config, PermissionsConfig};
use crate::error::{StartError, chain};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use toolcell_model::{AgentName, IsolationScope, WorkspaceName};
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
        context(&self.permissions, mode, self.context.rules().clone().into_iter().chain(rules).collect())
    }

    /// A rule, not a pattern, that names no tool: it would never do anything.
    pub(crate) fn rule_without_tool<'r>(&self, rules: &'r RuleSet) -> Option<&'r Rule> {
        rule_without_tool(&self.catalogue, rules)
    }
}

/// The one place where a context is made.
fn context(permissions: &PermissionsConfig, mode: Mode, rules: RuleSet) -> Context {
    Context::new(mode, rules)
        .with_read_only(permissions.read_only)
        .with_working_directories(permissions.working_directories.clone())
}

/// Built-in tools count although the agent may not have them: a rule may be there before the tool.
fn rule_without_tool<'r>(catalogue: &Catalogue, rules: &'r RuleSet) -> Option<&'r Rule> {
    let built_in = Catalogue::built_in();
    let names = || built_in.tools().chain(catalogue.tools()).map(|tool| tool.name);
    rules.iter().find(|rule| !rule.text().contains('*') && !names().any(|name| rule.matches_tool(&name)))
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
    let context = Arc::new(context(&permissions, permissions.mode, rules));
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
    Ok(Agent {
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
