//! What a stage saw, and how that is put into words: for the model as a message, for the audit log as a reason.

use super::rules::At;
use crate::describe::ToolVerdict;
use crate::mode::{Behavior, Mode, ReadOnlyPolicy};
use crate::path::{ContainerPath, misleads};
use crate::rule::Rule;
use crate::shell::facts::Target;
use crate::shell::script::Word;
use std::borrow::Cow;
use std::fmt;

/// How many characters of a command are shown. What is longer ends in `…`.
const MAX_SHOWN: usize = 200;

/// What a stage saw.
#[derive(Debug)]
pub(super) enum Saw<'a> {
    Words(&'static str),
    Mode(Mode),
    NoRule(Behavior),
    NotCovered,
    Rule {
        rule: &'a Rule,
        at: At<'a>,
    },
    /// It cannot be told whether the rule matches, because the input is opaque.
    OpaqueTo {
        rule: &'a Rule,
        reason: &'a str,
    },
    Opaque(&'a str),
    MoreThanReading,
    OnlyReads(&'static str),
    NotCoveredBy(ReadOnlyPolicy),
    Danger(Danger<'a>),
    Opinion {
        verdict: ToolVerdict,
        policy: Option<&'a str>,
    },
    Outside(&'a ContainerPath),
    EditsInside,
    Bypass,
    NoAnswer,
}

/// Why a person has to look at a call whatever the mode.
#[derive(Debug, Clone)]
pub(super) enum Danger<'a> {
    Path(&'a ContainerPath),
    LeadsTo(&'a ContainerPath, &'a ContainerPath),
    /// One that is known in part.
    CouldBe(&'a Target),
    Command(&'a [Word], Cow<'a, str>),
    Script(Cow<'a, str>),
}

impl Saw<'_> {
    /// For the model: what was refused and what it could do instead.
    pub(super) fn message(&self, tool: &str) -> String {
        match self {
            Self::Rule { rule, at } => by_rule(tool, rule, at),
            Self::OpaqueTo { rule, reason } => format!(
                "A person must approve this call of `{tool}`: it cannot be told whether the rule `{}` is about it \
                 ({reason}). Plain commands written out can be told.",
                rule.text()
            ),
            Self::MoreThanReading => {
                format!("`{tool}` may change something, and only reading is allowed here.")
            }
            Self::OnlyReads(_) => format!("`{tool}` only reads."),
            Self::EditsInside => format!("`{tool}` edits inside the working directories."),
            Self::Danger(danger) => danger.message(tool),
            Self::Opinion { verdict, policy } => match (verdict, policy) {
                (
                    ToolVerdict::Deny { message } | ToolVerdict::Ask { message } | ToolVerdict::AdviseAsk { message },
                    _,
                ) => message.clone(),
                (ToolVerdict::Allow | ToolVerdict::Passthrough, None) => format!("`{tool}` allows this input itself."),
                (ToolVerdict::Allow | ToolVerdict::Passthrough, Some(policy)) => {
                    format!("`{tool}` is allowed by the policy `{policy}`.")
                }
            },
            Self::Bypass => "Everything that nothing objects to is allowed here.".to_owned(),
            Self::Words(_)
            | Self::Mode(_)
            | Self::NoRule(_)
            | Self::NotCovered
            | Self::Opaque(_)
            | Self::NotCoveredBy(_)
            | Self::Outside(_)
            | Self::NoAnswer => format!("A person must approve this call of `{tool}`: nothing allows it."),
        }
    }
}

/// A rule's own message is for what it certainly matches.
fn by_rule(tool: &str, rule: &Rule, at: &At<'_>) -> String {
    let text = rule.text();
    let what = match at.place() {
        None => format!("`{tool}`"),
        Some(place) => format!("`{tool}` of {place}"),
    };
    match (rule.behavior(), rule.message()) {
        (_, Some(message)) if at.certain() => message.to_owned(),
        (Behavior::Deny, _) if at.certain() => {
            format!("{what} is denied by the rule `{text}`. Trying again will not help; find another way.")
        }
        (Behavior::Allow, _) => format!("{what} is allowed by the rule `{text}`."),
        (Behavior::Ask, _) if at.certain() && at.place().is_none() => {
            format!("A person must approve this call of `{tool}`: the rule `{text}` says so.")
        }
        (Behavior::Ask, _) if at.certain() => {
            format!("A person must approve {what}: the rule `{text}` says so.")
        }
        (Behavior::Ask | Behavior::Deny, _) => {
            format!(
                "A person must approve {what}: the rule `{text}` may be about it. Exact words and paths can be told."
            )
        }
    }
}

impl fmt::Display for Saw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) | Self::OnlyReads(words) => f.write_str(words),
            Self::Mode(mode) => write!(f, "the mode is {mode}"),
            Self::NoRule(behavior) => write!(f, "no {behavior} rule matches"),
            Self::NotCovered => f.write_str("allow rules do not cover the whole call"),
            Self::Rule { rule, at } => {
                let (behavior, text, source) = (rule.behavior(), rule.text(), rule.source().as_str());
                write!(f, "{behavior} rule `{text}` of source {source} {at}")
            }
            Self::OpaqueTo { rule, reason } => {
                let (behavior, text, source) = (rule.behavior(), rule.text(), rule.source().as_str());
                write!(f, "opaque to the {behavior} rule `{text}` of source {source}: {reason}")
            }
            Self::Opaque(reason) => write!(f, "opaque: {reason}"),
            Self::MoreThanReading => f.write_str("the call does more than read"),
            Self::NotCoveredBy(policy) => write!(f, "read-only, which `read_only = \"{policy}\"` does not cover"),
            Self::Danger(danger) => danger.fmt(f),
            Self::Opinion { verdict, policy } => {
                let whose = |f: &mut fmt::Formatter<'_>| match policy {
                    None => f.write_str("the tool"),
                    Some(policy) => write!(f, "the policy `{policy}`"),
                };
                whose(f)?;
                f.write_str(match verdict {
                    ToolVerdict::Deny { .. } => " refuses this input",
                    ToolVerdict::Ask { .. } => " asks about this input",
                    ToolVerdict::AdviseAsk { .. } => " advises to ask about this input",
                    ToolVerdict::Allow => " allows this input",
                    ToolVerdict::Passthrough => " has no opinion",
                })
            }
            Self::Outside(path) => write!(f, "`{path}` is outside the working directories"),
            Self::EditsInside => f.write_str("every path is inside the working directories"),
            Self::Bypass => f.write_str("the mode is bypass"),
            Self::NoAnswer => f.write_str("no stage answered"),
        }
    }
}

impl Danger<'_> {
    fn message(&self, tool: &str) -> String {
        let holds = "it may hold secrets or run commands.";
        match self {
            Self::Path(path) => format!("A person must approve access to `{path}`: {holds}"),
            Self::LeadsTo(path, real) => {
                format!("A person must approve access to `{path}`, which leads to `{real}`: {holds}")
            }
            Self::CouldBe(target) => {
                format!(
                    "A person must approve access to {}: what that names may hold secrets or run commands.",
                    target.shown()
                )
            }
            Self::Command(words, reason) => format!("A person must approve `{}`: {reason}.", shown(words)),
            Self::Script(reason) => format!("A person must approve this call of `{tool}`: {reason}."),
        }
    }
}

impl fmt::Display for Danger<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "dangerous path `{path}`"),
            Self::LeadsTo(path, real) => write!(f, "`{path}` leads to the dangerous path `{real}`"),
            Self::CouldBe(target) => write!(f, "{} could be a dangerous path", target.shown()),
            Self::Command(words, reason) => write!(f, "dangerous command `{}`: {reason}", shown(words)),
            Self::Script(reason) => write!(f, "dangerous script: {reason}"),
        }
    }
}

impl Target {
    /// For people.
    pub(super) fn shown(&self) -> String {
        let first = match self {
            Self::Known(candidates) => candidates.first().map(ToString::to_string),
            Self::Glob(patterns) => patterns.first().map(|pattern| plain(pattern)),
            Self::Unknown(prefix) => Some(format!("{}…", plain(prefix))),
        };
        format!("`{}`", first.unwrap_or_default())
    }
}

/// Words for people: one line, control and bidirectional characters escaped, at most [`MAX_SHOWN`] characters.
pub(crate) fn shown(words: &[Word]) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() {
            text.push(' ');
        }
        match word {
            Word::Text(word) if word.is_empty() || word.contains([' ', '\'', '"', '*', '?', '$', '`']) => {
                text.push('\'');
                text.push_str(&plain(word));
                text.push('\'');
            }
            Word::Text(word) | Word::Glob(word) => text.push_str(&plain(word)),
            Word::Unknown { prefix, .. } => {
                text.push_str(&plain(prefix));
                text.push('…');
            }
        }
        if text.len() > MAX_SHOWN.saturating_mul(4) {
            break;
        }
    }
    plain(&text)
}

fn plain(text: &str) -> String {
    let mut shown = String::new();
    for (place, c) in text.chars().enumerate() {
        if place >= MAX_SHOWN {
            shown.push('…');
            break;
        }
        if misleads(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}
