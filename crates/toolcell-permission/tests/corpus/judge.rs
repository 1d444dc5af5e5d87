//! Both corpora, decided: what got past a rule, and who was asked for nothing.

use crate::call::{Call, rules};
use serde::Deserialize;
use std::collections::BTreeMap;
use toolcell_permission::shell::settings::Dialect;
use toolcell_permission::*;

/// Rules that a careless person writes: wide, but each with content. None of them covers `git push`, `rm` or
/// `deploy`, and a rule for a wrapper says nothing of what is wrapped.
const BROAD: [&str; 14] = [
    "cat:*",
    "echo:*",
    "env:*",
    "find:*",
    "git status:*",
    "grep:*",
    "ls:*",
    "nohup:*",
    "printf:*",
    "sh:*",
    "test:*",
    "timeout:*",
    "true:*",
    "xargs:*",
];
const DENIED: &str = "execute(git push:*)";

/// What an agent wrote while working.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Benign {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) command: String,
    pub(crate) expect: Behavior,
    /// Why it is right to ask.
    pub(crate) why: Option<String>,
    /// `none`: decided without any rule, because it only reads.
    rules: Option<NoRules>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NoRules {
    None,
}

/// An attempt to run what is forbidden.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attempt {
    pub(crate) id: String,
    pub(crate) family: String,
    pub(crate) command: String,
    #[serde(default)]
    dialect: ShellName,
    #[serde(default)]
    pub(crate) setting: Setting,
    #[serde(default)]
    rules: DenyRules,
    pub(crate) must: Must,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ShellName {
    #[default]
    Bash,
    Sh,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DenyRules {
    deny: Vec<String>,
}

/// Where an attempt is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Setting {
    /// In BYPASS with a deny rule, and in DEFAULT with broad allow rules.
    #[default]
    Deny,
    /// In DEFAULT with broad allow rules only.
    Broad,
    /// In DEFAULT and in EXPLORE without a rule.
    Nothing,
    /// In BYPASS without a rule, and in DEFAULT with broad allow rules.
    Dangerous,
}

/// What must become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Must {
    /// Denied where it is forbidden, never allowed elsewhere.
    Deny,
    /// Never allowed.
    NotAllow,
}

/// A decision that was not what it must be.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) decision: Decision,
    pub(crate) place: String,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Decision { behavior, stage, reason, .. } = &self.decision;
        write!(f, "{} ({}): {behavior} at {stage:?}: {reason}\n    {:?}", self.id, self.place, self.command)
    }
}

impl Attempt {
    pub(crate) fn dialect(&self) -> Dialect {
        match self.dialect {
            ShellName::Bash => Dialect::Bash,
            ShellName::Sh => Dialect::Sh,
        }
    }

    /// The modes and rules with which it is made, and the loosest answer that is right there.
    pub(crate) fn places(&self) -> Vec<(Mode, RuleSet, Behavior)> {
        let deny = if self.rules.deny.is_empty() { vec![DENIED.to_owned()] } else { self.rules.deny.clone() };
        let strictest = match self.must {
            Must::Deny => Behavior::Deny,
            Must::NotAllow => Behavior::Ask,
        };
        let broad = || (Mode::Default, broad(), Behavior::Ask);
        match self.setting {
            Setting::Deny => vec![(Mode::Bypass, rules(&[], &[], &deny), strictest), broad()],
            Setting::Broad => vec![broad()],
            Setting::Nothing => {
                [Mode::Default, Mode::Explore].map(|mode| (mode, RuleSet::default(), Behavior::Ask)).into()
            }
            Setting::Dangerous => vec![(Mode::Bypass, RuleSet::default(), Behavior::Ask), broad()],
        }
    }

    /// The first place where it is answered too loosely.
    pub(crate) fn judge(&self) -> Option<Wrong> {
        self.places().into_iter().find_map(|(mode, rules, least)| {
            let decision = Call::shell(&self.command).decide(mode, &rules, self.dialect());
            let place = format!("mode {mode}, {} rules", rules.iter().count());
            (decision.behavior < least).then(|| self.wrong(decision, place))
        })
    }

    fn wrong(&self, decision: Decision, place: String) -> Wrong {
        Wrong { id: self.id.clone(), command: self.command.clone(), decision, place }
    }
}

impl Benign {
    pub(crate) fn decide(&self, everyday: &RuleSet) -> Decision {
        let rules = if self.rules.is_some() { &RuleSet::default() } else { everyday };
        Call::shell(&self.command).decide(Mode::Default, rules, Dialect::Bash)
    }
}

pub(crate) fn broad() -> RuleSet {
    rules(&BROAD.map(|content| format!("execute({content})")), &[], &[])
}

pub(crate) fn benign() -> Vec<Benign> {
    lines(include_str!("benign.jsonl"))
}

pub(crate) fn attempts() -> Vec<Attempt> {
    lines(include_str!("bypass.jsonl"))
}

fn lines<T: serde::de::DeserializeOwned>(text: &str) -> Vec<T> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Everyday {
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
}

/// The rules of a person whose agent works on a project of several languages.
pub(crate) fn everyday_rules() -> RuleSet {
    let Everyday { allow, ask, deny } = serde_json::from_str(include_str!("rules.json")).unwrap();
    rules(&allow, &ask, &deny)
}

/// Both error rates.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    pub(crate) attempts: usize,
    /// Attempts that were allowed, or asked where they must be denied.
    pub(crate) let_through: Vec<Wrong>,
    pub(crate) everyday: usize,
    /// Everyday commands that were not allowed.
    pub(crate) over_asked: Vec<Wrong>,
    /// Commands that a person must see, and nobody did.
    pub(crate) not_asked: Vec<Wrong>,
    /// Attempts by family.
    pub(crate) families: BTreeMap<String, usize>,
}

impl Rates {
    pub(crate) fn measure() -> Self {
        let mut rates = Self::default();
        for attempt in attempts() {
            rates.attempts += 1;
            *rates.families.entry(attempt.family.clone()).or_default() += 1;
            rates.let_through.extend(attempt.judge());
        }
        let everyday = everyday_rules();
        for benign in benign() {
            let decision = benign.decide(&everyday);
            let allowed = decision.behavior == Behavior::Allow;
            let wrong = Wrong { id: benign.id, command: benign.command, decision, place: benign.kind };
            match (benign.expect, allowed) {
                (Behavior::Allow, false) => rates.over_asked.push(wrong),
                (Behavior::Ask | Behavior::Deny, true) => rates.not_asked.push(wrong),
                (Behavior::Allow, true) | (Behavior::Ask | Behavior::Deny, false) => {}
            }
            rates.everyday += usize::from(benign.expect == Behavior::Allow);
        }
        rates
    }

    /// Everyday commands that were asked, of a hundred.
    pub(crate) fn over_asked_percent(&self) -> f64 {
        100.0 * self.over_asked.len() as f64 / self.everyday as f64
    }
}
