//! Agents as the configuration makes them, ready to decide and run.

use crate::config::{AgentConfig, Config};
use crate::error::StartError;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use toolcell_model::{AgentName, IsolationScope, WorkspaceName};
use toolcell_permission::{ContainerPath, Context, Rule, RuleSet, RuleSource};
use toolcell_sandbox::{HostMount, Limits, SandboxSpec, ToolUser};
use toolcell_tools::Catalogue;

/// One agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) scope: IsolationScope,
    pub(crate) workspace: Option<WorkspaceName>,
    pub(crate) require_identity: bool,
    pub(crate) catalogue: Catalogue,
    pub(crate) file_roots: Vec<ContainerPath>,
    pub(crate) file_root_texts: Vec<String>,
    pub(crate) context: Context,
    pub(crate) spec: SandboxSpec,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) idle_timeout: Duration,
}

/// All agents by name.
pub(crate) fn build(config: &Config) -> Result<BTreeMap<AgentName, Arc<Agent>>, StartError> {
    config.agents().into_iter().map(|(name, agent)| Ok((name.clone(), Arc::new(one(&name, agent)?)))).collect()
}

fn one(name: &AgentName, config: AgentConfig) -> Result<Agent, StartError> {
    let permissions = &config.permissions;
    let rules = RuleSet::parse(RuleSource::Policy, &permissions.allow, &permissions.ask, &permissions.deny)
        .map_err(|source| StartError::Rules { agent: name.to_string(), source })?;
    let known = |rule: &Rule| Catalogue::built_in().tools().any(|tool| rule.matches_tool(tool.name));
    if let Some(rule) = rules.iter().find(|rule| !rule.text().contains('*') && !known(rule)) {
        let names: Vec<&str> = Catalogue::built_in().tools().map(|tool| tool.name).collect();
        return Err(StartError::RuleWithoutTool {
            agent: name.to_string(),
            rule: rule.text().to_owned(),
            tools: names.join(", "),
        });
    }
    let context = Context::new(permissions.mode, rules)
        .with_read_only(permissions.read_only)
        .with_working_directories(permissions.working_directories.clone());
    let all = Catalogue::built_in();
    let catalogue = match &config.tools {
        None => all,
        Some(names) => {
            all.only(names).map_err(|fault| StartError::Tools { agent: name.to_string(), detail: fault.message })?
        }
    };
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
        spec,
        env: config.env,
        idle_timeout: Duration::from_millis(config.idle_timeout_ms),
    })
}
