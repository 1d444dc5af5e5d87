//! What the engine answers.

use crate::mode::{Behavior, Stage};
use crate::rule::{Rule, RuleSource};
use crate::suggest::Suggestion;
use serde::{Deserialize, Serialize};

/// The engine's answer about one call. It is a record, not a right: what runs needs a [`crate::Permit`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What happens to the call.
    pub behavior: Behavior,
    /// Which stage said so.
    pub stage: Stage,
    /// The rule that said so, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<ReportedRule>,
    /// For the model: what was refused and what it could do instead.
    pub message: String,
    /// For the audit log.
    pub reason: String,
    /// It was an ASK that DONT_ASK turned into a DENY; `stage` is the ASK's.
    pub demoted: bool,
    /// Allow rules that would have answered an ASK, the narrowest first; none where no rule could.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Suggestion>,
    /// Every stage with what it saw, in the pipeline's order: of an explanation; empty otherwise. Not serialized, as
    /// an explanation shows it by itself.
    #[serde(skip)]
    pub trace: Vec<TraceStep>,
}

/// A rule as a decision names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedRule {
    /// Its text.
    pub rule: String,
    /// Where it comes from.
    pub source: RuleSource,
}

impl From<&Rule> for ReportedRule {
    fn from(rule: &Rule) -> Self {
        Self { rule: rule.text().to_owned(), source: rule.source() }
    }
}

/// One stage of one decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStep {
    /// The stage.
    pub stage: Stage,
    /// What it gives, taken by itself; `None` when it has nothing to say.
    pub gives: Option<Behavior>,
    /// What it saw.
    pub saw: String,
    /// What it saw of each part of the call: of a command's commands one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// Of two decisions about one call the stricter; the second of equals, because it knew more.
#[must_use]
pub fn stricter(first: Decision, second: Decision) -> Decision {
    if first.behavior > second.behavior { first } else { second }
}
