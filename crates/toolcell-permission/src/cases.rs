//! Recorded decisions, to be decided again: one JSON object per line, as `toolcell rules test` reads them.
//!
//! ```json
//! {"id": "p04", "mode": "default", "rules": {"allow": ["execute(make deploy)"], "ask": [], "deny": []},
//!  "call": {"tool": "execute", "input": {"command": "make deploy"}}, "expect": {"behavior": "allow"}}
//! ```
//!
//! A case is decided on logical paths and again on those of `real_paths` (a path that is not there leads where it
//! says), and the stricter decision counts. The shell is bash, the home `/home/agent`, the workspace `/workspace`.

use crate::context::Context;
use crate::decision::{Decision, stricter};
use crate::describe::{DescribedCall, RealPathCount, ToolDescription};
use crate::mode::{Behavior, Mode, ReadOnlyPolicy, Stage};
use crate::path::{ContainerPath, PathError};
use crate::pipeline::{decide, decide_resolved};
use crate::rule::{RuleError, RuleSet, RuleSource, RuleSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use toolcell_model::{AgentName, Identity, TenantId};

/// Says what a tool's call is, by the tool's name and its input; the error says what is wrong with the input. A name
/// that is not known is a custom tool without content that may change something.
pub type Describe<'d> = &'d dyn for<'a> Fn(&'a str, &'a Value) -> Result<Box<dyn ToolDescription + 'a>, String>;

/// A recorded case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it is called.
    #[serde(default)]
    pub id: Option<String>,
    /// For people.
    #[serde(default)]
    pub note: Option<String>,
    /// The mode.
    pub mode: Mode,
    /// Which read-only calls are allowed without a rule.
    #[serde(default)]
    pub read_only: ReadOnlyPolicy,
    /// Where ACCEPT_EDITS allows edits.
    #[serde(default)]
    pub working_directories: Vec<String>,
    /// The rules.
    pub rules: CaseRules,
    /// The call.
    pub call: CaseCall,
    /// Where logical paths lead, if elsewhere than they say.
    #[serde(default)]
    pub real_paths: BTreeMap<String, String>,
    /// What should become of it.
    #[serde(default)]
    pub expect: Option<Expectation>,
}

/// The rules of a case, all of source `policy`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseRules {
    /// What is allowed.
    #[serde(default)]
    pub allow: Vec<RuleSpec>,
    /// What is asked.
    #[serde(default)]
    pub ask: Vec<RuleSpec>,
    /// What is denied.
    #[serde(default)]
    pub deny: Vec<RuleSpec>,
}

/// The call of a case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseCall {
    /// The tool's name.
    pub tool: String,
    /// Its input.
    pub input: Value,
}

/// What should become of a case's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The behaviour.
    pub behavior: Behavior,
    /// The stage; any, if it is not said.
    #[serde(default)]
    pub stage: Option<Stage>,
}

/// What became of a case's call: the line that is printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseAnswer {
    /// Which case, counted from 1.
    pub case: usize,
    /// What it is called.
    pub id: Option<String>,
    /// What becomes of the call.
    pub behavior: Behavior,
    /// Which stage said so.
    pub stage: Stage,
    /// The text of the rule that said so, if one did.
    pub rule: Option<String>,
    /// Whether that is what was expected; null where nothing was.
    pub ok: Option<bool>,
}

/// Why a line is not a case. Every variant names the field.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// It is not of the form of cases.
    #[error("`{field}` cannot be read")]
    Form {
        /// The field, with dots between names; `.` for the line as a whole.
        field: String,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A rule is not one.
    #[error("`rules` cannot be read")]
    Rules(#[source] RuleError),
    /// A path is not one.
    #[error("`{field}` cannot be read")]
    Path {
        /// The field.
        field: String,
        /// What is wrong.
        #[source]
        source: PathError,
    },
    /// The tool does not take the input.
    #[error("`call.input` is no input of `{tool}`: {problem}")]
    Input {
        /// The tool.
        tool: String,
        /// What is wrong, naming the field in it.
        problem: String,
    },
    /// The tool names other paths the second time.
    #[error("the paths of `call` are not stable")]
    Paths(#[source] RealPathCount),
    /// The identity that cases are decided for cannot be made.
    #[error("no identity for the case: {0}")]
    Identity(String),
}

/// Reads one line.
///
/// # Errors
/// [`CaseError::Form`].
pub fn parse(line: &str) -> Result<Case, CaseError> {
    let mut from = serde_json::Deserializer::from_str(line);
    let case = serde_path_to_error::deserialize(&mut from)
        .map_err(|error| CaseError::Form { field: error.path().to_string(), source: error.into_inner() })?;
    from.end().map_err(|source| CaseError::Form { field: ".".to_owned(), source })?;
    Ok(case)
}

impl Case {
    /// Decides it; `number` counts the cases from 1.
    ///
    /// # Errors
    /// [`CaseError`], but never [`CaseError::Form`].
    pub fn answer(&self, number: usize, describe: Describe<'_>) -> Result<CaseAnswer, CaseError> {
        let decision = self.decide(describe)?;
        let holds = |expected: Expectation| {
            decision.behavior == expected.behavior && expected.stage.is_none_or(|stage| stage == decision.stage)
        };
        Ok(CaseAnswer {
            case: number,
            id: self.id.clone(),
            behavior: decision.behavior,
            stage: decision.stage,
            ok: self.expect.map(holds),
            rule: decision.rule.map(|reported| reported.rule),
        })
    }

    /// The stricter of both decisions.
    ///
    /// # Errors
    /// [`CaseError`], but never [`CaseError::Form`].
    pub fn decide(&self, describe: Describe<'_>) -> Result<Decision, CaseError> {
        let context = self.context()?;
        let tool = describe(&self.call.tool, &self.call.input)
            .map_err(|problem| CaseError::Input { tool: self.call.tool.clone(), problem })?;
        let agent = AgentName::parse("default").map_err(|error| CaseError::Identity(error.to_string()))?;
        let identity = Identity { tenant: TenantId::default_tenant(), agent, session: None, user: None };
        let call = DescribedCall::new(tool.as_ref(), &identity, context.shell());
        let first = decide(&call, &context);
        let leads = self.real_paths()?;
        let real = call.paths().iter().map(|path| leads.get(path).unwrap_or(path).clone()).collect();
        let call = call.resolved(real).map_err(CaseError::Paths)?;
        Ok(stricter(first, decide_resolved(&call, &context)))
    }

    fn context(&self) -> Result<Context, CaseError> {
        let CaseRules { allow, ask, deny } = &self.rules;
        let rules = RuleSet::parse(RuleSource::Policy, allow, ask, deny).map_err(CaseError::Rules)?;
        let directories = self.working_directories.iter().enumerate().map(|(place, text)| {
            let field = || format!("working_directories[{place}]");
            ContainerPath::parse(text).map_err(|source| CaseError::Path { field: field(), source })
        });
        let directories = directories.collect::<Result<_, _>>()?;
        Ok(Context::new(self.mode, rules).with_read_only(self.read_only).with_working_directories(directories))
    }

    fn real_paths(&self) -> Result<BTreeMap<ContainerPath, ContainerPath>, CaseError> {
        let read = |logical: &String, real: &String| {
            let bad = |source| CaseError::Path { field: format!("real_paths.{logical}"), source };
            Ok((ContainerPath::workspace().resolve(logical).map_err(bad)?, ContainerPath::parse(real).map_err(bad)?))
        };
        self.real_paths.iter().map(|(logical, real)| read(logical, real)).collect()
    }
}
