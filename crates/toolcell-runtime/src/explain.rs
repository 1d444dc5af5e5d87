//! What would become of a call, and why: nothing runs.

use crate::agent::catalogue;
use crate::config::Config;
use crate::error::StartError;
use crate::inner::Inner;
use crate::session::SessionError;
use serde_json::Value;
use std::collections::BTreeMap;
use toolcell_model::{CallContext, CallFault, ToolName};
use toolcell_permission::cases::{CaseAnswer, CaseError, parse};
use toolcell_permission::{
    Behavior, ContainerPath, Decision, DescribedCall, Mode, PathError, explain, explain_resolved, stricter, validate,
};
use toolcell_tools::Catalogue;

/// A call that nobody makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// Who it would be for.
    pub context: CallContext,
    /// The tool.
    pub tool: ToolName,
    /// Its input.
    pub input: Value,
    /// Where paths lead that lead elsewhere than they say.
    pub real_paths: BTreeMap<String, String>,
}

/// What would become of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Explanation {
    /// Its input is not the tool's: it would end `invalid`.
    Invalid(CallFault),
    /// It would end `failed` before it is decided: its path is outside the file roots.
    Failed(CallFault),
    /// It would be decided.
    Decided {
        /// With the trace of what every stage sees.
        decision: Box<Decision>,
        /// The mode that counts.
        mode: Mode,
    },
}

/// It cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// No such agent.
    #[error("no agent is named {agent:?}")]
    UnknownAgent {
        /// What was asked for.
        agent: String,
    },
    /// A real path is none.
    #[error("real_paths.{logical}: {source}")]
    RealPath {
        /// The path that leads there.
        logical: String,
        /// What is wrong.
        source: PathError,
    },
    /// The permissions of the session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A defect of this program.
    #[error("the call cannot be explained: {0}")]
    Internal(String),
}

impl Inner {
    pub(crate) async fn explain(&self, hypothesis: &Hypothesis) -> Result<Explanation, ExplainError> {
        let Hypothesis { context, tool, input, real_paths } = hypothesis;
        let Some(agent) = self.agents.get(&context.agent) else {
            return Err(ExplainError::UnknownAgent { agent: context.agent.to_string() });
        };
        let leads = real_paths.iter().map(lead).collect::<Result<BTreeMap<_, _>, _>>()?;
        let parsed = match agent.catalogue.parse(tool, input) {
            Ok(parsed) => parsed,
            Err(fault) => return Ok(Explanation::Invalid(fault)),
        };
        if let Some(fault) = parsed.outside_roots(&agent.file_roots) {
            return Ok(Explanation::Failed(fault));
        }
        let permissions = self.as_of_now(self.permissions(agent, context).await?);
        let described = parsed.described();
        let call = DescribedCall::new(&described, context, permissions.shell());
        let first = explain(&call, &permissions);
        let real = call.paths().iter().map(|path| leads.get(path).unwrap_or(path).clone()).collect();
        let resolved = call.resolved(real).map_err(|error| ExplainError::Internal(error.to_string()))?;
        let mut decision = stricter(first, explain_resolved(&resolved, &permissions));
        if decision.behavior != Behavior::Deny
            && let Err(refusal) = validate::validate(resolved.described(), &permissions)
        {
            // As for a call: what cannot run is refused after all that was decided of it.
            let trace = decision.trace;
            decision = Decision { trace, ..refusal.into() };
        }
        Ok(Explanation::Decided { decision: Box::new(decision), mode: permissions.mode() })
    }
}

fn lead((logical, real): (&String, &String)) -> Result<(ContainerPath, ContainerPath), ExplainError> {
    let wrong = |source| ExplainError::RealPath { logical: logical.clone(), source };
    Ok((ContainerPath::workspace().resolve(logical).map_err(wrong)?, ContainerPath::parse(real).map_err(wrong)?))
}

/// Decides recorded cases, each by its own rules. Of the configuration it takes the tools of its agents.
#[derive(Debug)]
pub struct RecordedCases {
    tools: Catalogue,
}

impl RecordedCases {
    /// With the custom tools of every agent. Of two agents' tools with one name the first agent's counts.
    ///
    /// # Errors
    /// A custom tool that is none.
    pub fn new(config: &Config) -> Result<Self, StartError> {
        let mut tools = Catalogue::built_in();
        for (name, agent) in &config.agents() {
            tools = tools.or(catalogue(name, agent)?);
        }
        Ok(Self { tools })
    }

    /// Decides the case in one line; `number` counts from 1.
    ///
    /// # Errors
    /// [`CaseError`], which names the field.
    pub fn decide(&self, line: &str, number: usize) -> Result<CaseAnswer, CaseError> {
        let case = parse(line)?;
        case.answer(number, &|tool, input| self.tools.describe(tool, input).map_err(|fault| fault.message))
    }
}
