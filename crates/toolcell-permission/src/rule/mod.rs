//! Rules: an operator's or a person's standing answers, by tool and by what the call says.
//!
//! A rule is `TOOL` or `TOOL(CONTENT)`. What the content means depends on the tool: a [`CommandPattern`] for `execute`,
//! a [`PathPattern`] for the file tools, a [`HostPattern`] for `network`, a [`FieldPattern`] for every other.

mod command;
mod content;
mod error;
mod examples;
mod fields;
mod glob;
mod host;
mod instant;
mod path;
mod quoting;
mod sequence;
mod set;
mod spec;
#[cfg(test)]
mod tests;
mod verdict;

pub use command::CommandPattern;
pub use content::RuleContent;
pub use error::RuleError;
pub use fields::FieldPattern;
pub use host::HostPattern;
pub use path::PathPattern;
pub use set::RuleSet;
pub use spec::RuleSpec;
pub use verdict::Match;

pub(crate) use glob::escape;
pub(crate) use quoting::quote;

use crate::mode::Behavior;
use content::Kind;
use error::shown;
use glob::Glob;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolcell_model::UnixMillis;

/// Longest rule in bytes. A longer one is refused with [`RuleError::Malformed`].
pub const MAX_RULE_BYTES: usize = 1024;

/// Longest tool's name in a rule in bytes. A longer one is refused with [`RuleError::Malformed`].
pub const MAX_TOOL_BYTES: usize = 256;

/// Who a rule comes from, in the order in which matching rules are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleSource {
    /// The operator's configuration; cannot be removed from below.
    Policy,
    /// One user's.
    User,
    /// A project's.
    Project,
    /// One session's.
    Session,
    /// A suggestion that a person accepted.
    Suggested,
}

impl RuleSource {
    /// The wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::User => "user",
            Self::Project => "project",
            Self::Session => "session",
            Self::Suggested => "suggested",
        }
    }
}

/// One rule: which calls, and what to do with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    behavior: Behavior,
    source: RuleSource,
    text: String,
    /// How much of the text is the tool's name.
    tool_bytes: usize,
    tool: Glob,
    content: Option<Arc<RuleContent>>,
    message: Option<String>,
    expires: Option<UnixMillis>,
}

impl Rule {
    /// Reads a rule's text: a tool's name, in which `*` stands for any characters, as in `mcp__github__*`, and what its
    /// calls must say, as in `execute(npm run:*)`.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn parse(behavior: Behavior, source: RuleSource, text: &str) -> Result<Self, RuleError> {
        let malformed = |problem| RuleError::Malformed { rule: shown(text), problem };
        if text.is_empty() {
            return Err(malformed("it is empty"));
        }
        if text.len() > MAX_RULE_BYTES {
            return Err(malformed("it is longer than 1024 bytes"));
        }
        if let Some(positive) = text.strip_prefix('!') {
            return Err(RuleError::Negated { rule: shown(text), positive: shown(positive) });
        }
        let (name, content) = parts(text).map_err(malformed)?;
        check_tool(name).map_err(malformed)?;
        let tool = Glob::with_stars_only(name);
        let content = match content {
            None => None,
            Some(content) if content.chars().any(char::is_control) => {
                return Err(malformed("it holds a control character"));
            }
            Some(content) => {
                if let Some(positive) = content.trim_start().strip_prefix('!') {
                    let positive = shown(&format!("{name}({positive})"));
                    return Err(RuleError::Negated { rule: shown(text), positive });
                }
                let content = RuleContent::parse(text, content);
                if tool.is_literal() {
                    content.check(Kind::of(name))?;
                }
                Some(Arc::new(content))
            }
        };
        let tool_bytes = name.len();
        Ok(Self { behavior, source, text: text.to_owned(), tool_bytes, tool, content, message: None, expires: None })
    }

    /// Reads a rule as configuration writes it, and checks its examples.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn from_spec(behavior: Behavior, source: RuleSource, spec: &RuleSpec) -> Result<Self, RuleError> {
        let rule = Self::parse(behavior, source, &spec.rule)?;
        examples::check(&rule, &spec.matching, &spec.not_matching)?;
        Ok(rule.with_message(spec.message.clone()).with_expiry(spec.expires))
    }

    /// With a message of its own for the model.
    #[must_use]
    pub fn with_message(mut self, message: Option<String>) -> Self {
        self.message = message;
        self
    }

    /// Matching nothing from this instant on.
    #[must_use]
    pub fn with_expiry(mut self, expires: Option<UnixMillis>) -> Self {
        self.expires = expires;
        self
    }

    /// The rule as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it does with the calls it matches.
    #[must_use]
    pub fn behavior(&self) -> Behavior {
        self.behavior
    }

    /// Who it comes from.
    #[must_use]
    pub fn source(&self) -> RuleSource {
        self.source
    }

    /// What a call must say to be matched; `None`: every call of the tool is.
    #[must_use]
    pub fn content(&self) -> Option<&RuleContent> {
        self.content.as_deref()
    }

    /// Its message for the model.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// From when on it matches nothing.
    #[must_use]
    pub fn expires(&self) -> Option<UnixMillis> {
        self.expires
    }

    /// Whether it matches nothing any more. Without a `now` nothing is expired.
    #[must_use]
    pub fn is_expired(&self, now: Option<UnixMillis>) -> bool {
        matches!((self.expires, now), (Some(expires), Some(now)) if expires <= now)
    }

    /// Whether it is about this tool, whatever its content says.
    #[must_use]
    pub fn matches_tool(&self, tool: &str) -> bool {
        self.tool.matches(tool.as_bytes())
    }

    /// The tool, unless it is a pattern.
    pub(crate) fn exact_tool(&self) -> Option<&str> {
        self.text.get(..self.tool_bytes).filter(|_| self.tool.is_literal())
    }

    /// What rules are sorted by where they are reported. What is equal in it is equal.
    fn order(&self) -> impl Ord {
        (self.source, &self.text, self.behavior, &self.message, self.expires)
    }
}

/// The tool's name and the content.
fn parts(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    let Some((tool, rest)) = text.split_once('(') else { return Ok((text, None)) };
    match rest.strip_suffix(')') {
        _ if tool.is_empty() => Err("no tool is named before `(`"),
        None => Err("`(` is not closed at its end"),
        Some(content) if content.trim().is_empty() => Err("nothing stands between `(` and `)`"),
        Some(content) => Ok((tool, Some(content))),
    }
}

fn check_tool(name: &str) -> Result<(), &'static str> {
    if name.len() > MAX_TOOL_BYTES {
        return Err("its tool's name is longer than 256 bytes");
    }
    if name.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("a tool's name has no spaces or control characters");
    }
    // Whoever writes these means a pattern; a deny rule that quietly matches nothing protects nobody.
    if name.contains([')', '?', '[', ']', '{', '}', ',', '!']) {
        return Err("`) ? [ ] { } , !` have no meaning in it");
    }
    Ok(())
}
