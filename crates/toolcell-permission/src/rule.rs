//! Rules: an operator's or a person's standing answers, by tool.

use crate::mode::Behavior;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Longest rule in bytes. A longer one is refused with [`RuleError::Malformed`].
pub const MAX_RULE_BYTES: usize = 256;

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

/// Why a text is not a rule. Every variant names the rule and says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The rule looks at the call's input, which this version cannot.
    #[error("rule {rule:?}: content rules are not known to this version; write `{tool}` for every call of the tool")]
    Content {
        /// The rule, shortened.
        rule: String,
        /// Its tool.
        tool: String,
    },
    /// A leading `!`, which would turn a rule into its opposite.
    #[error("rule {rule:?}: a rule cannot be negated by `!`; put {positive:?} under `allow`, `ask` or `deny` instead")]
    Negated {
        /// The rule, shortened.
        rule: String,
        /// The rule without its `!`.
        positive: String,
    },
    /// The rule is not of the form of rules.
    #[error("rule {rule:?} is malformed: {problem}; expected a tool's name, in which `*` stands for any characters")]
    Malformed {
        /// The rule, shortened.
        rule: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// One rule: which tools, and what to do with their calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    behavior: Behavior,
    source: RuleSource,
    tool: String,
    message: Option<String>,
}

impl Rule {
    /// Reads a rule's text: a tool's name, in which `*` stands for any characters, as in `mcp__github__*`.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn parse(behavior: Behavior, source: RuleSource, text: &str) -> Result<Self, RuleError> {
        let shown = || text.chars().take(80).collect::<String>();
        let malformed = |problem| Err(RuleError::Malformed { rule: shown(), problem });
        if text.is_empty() {
            return malformed("it is empty");
        }
        if text.len() > MAX_RULE_BYTES {
            return malformed("it is longer than 256 bytes");
        }
        if let Some(positive) = text.strip_prefix('!') {
            return Err(RuleError::Negated { rule: shown(), positive: positive.chars().take(80).collect() });
        }
        if let Some((tool, rest)) = text.split_once('(') {
            return match rest.strip_suffix(')') {
                _ if tool.is_empty() => malformed("no tool is named before `(`"),
                None => malformed("`(` is not closed at its end"),
                Some("") => malformed("nothing stands between `(` and `)`"),
                Some(_) => Err(RuleError::Content { rule: shown(), tool: tool.chars().take(80).collect() }),
            };
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return malformed("a tool's name has no spaces or control characters");
        }
        // Whoever writes these means a pattern; a deny rule that quietly matches nothing protects nobody.
        if text.contains([')', '?', '[', ']', '{', '}', ',', '!']) {
            return malformed("`) ? [ ] { } , !` have no meaning in it");
        }
        Ok(Self { behavior, source, tool: text.to_owned(), message: None })
    }

    /// With a message of its own for the model.
    #[must_use]
    pub fn with_message(mut self, message: Option<String>) -> Self {
        self.message = message;
        self
    }

    /// The rule as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.tool
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

    /// Its message for the model.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Whether it is about this tool.
    #[must_use]
    pub fn matches_tool(&self, tool: &str) -> bool {
        glob(&self.tool, tool)
    }
}

/// `*` stands for any characters. Takes each fixed part at its earliest place, so its cost is bounded by the product
/// of the lengths, both at most 256 bytes.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// A rule as configuration writes it: its text, or `{ rule, message }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSpec {
    /// The rule's text.
    pub rule: String,
    /// For the model, instead of the engine's own words.
    pub message: Option<String>,
}

impl From<&str> for RuleSpec {
    fn from(rule: &str) -> Self {
        Self { rule: rule.to_owned(), message: None }
    }
}

/// By hand, because an untagged enum's errors name neither the field nor the rule.
impl<'de> Deserialize<'de> for RuleSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct SpecVisitor;

        impl<'de> Visitor<'de> for SpecVisitor {
            type Value = RuleSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rule such as \"write_file\", or { rule = \"write_file\", message = \"…\" }")
            }

            fn visit_str<E>(self, rule: &str) -> Result<RuleSpec, E> {
                Ok(rule.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RuleSpec, A::Error> {
                let (mut rule, mut message) = (None, None);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "rule" if rule.is_none() => rule = Some(map.next_value()?),
                        "message" if message.is_none() => message = Some(map.next_value()?),
                        "rule" => return Err(A::Error::duplicate_field("rule")),
                        "message" => return Err(A::Error::duplicate_field("message")),
                        other => return Err(A::Error::unknown_field(other, &["rule", "message"])),
                    }
                }
                Ok(RuleSpec { rule: rule.ok_or_else(|| A::Error::missing_field("rule"))?, message })
            }
        }

        from.deserialize_any(SpecVisitor)
    }
}

/// Rules of all sources. Neither their order nor repetition has a meaning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleSet {
    /// Sorted as rules are reported, each once.
    rules: Vec<Rule>,
}

impl RuleSet {
    /// Reads the three lists of one source.
    ///
    /// # Errors
    /// The first [`RuleError`].
    pub fn parse(
        source: RuleSource,
        allow: &[RuleSpec],
        ask: &[RuleSpec],
        deny: &[RuleSpec],
    ) -> Result<Self, RuleError> {
        let lists = [(Behavior::Allow, allow), (Behavior::Ask, ask), (Behavior::Deny, deny)];
        lists
            .into_iter()
            .flat_map(|(behavior, specs)| specs.iter().map(move |spec| (behavior, spec)))
            .map(|(behavior, spec)| Ok(Rule::parse(behavior, source, &spec.rule)?.with_message(spec.message.clone())))
            .collect()
    }

    /// Every rule, in the order in which they are reported.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Of the rules with this behaviour that match the tool, the one to report.
    pub(crate) fn first_match(&self, behavior: Behavior, tool: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.behavior == behavior && rule.matches_tool(tool))
    }
}

impl FromIterator<Rule> for RuleSet {
    fn from_iter<I: IntoIterator<Item = Rule>>(rules: I) -> Self {
        let mut rules: Vec<Rule> = rules.into_iter().collect();
        rules.sort_by(|a, b| {
            let key = |r: &Rule| (r.source, r.tool.clone(), r.behavior, r.message.clone());
            key(a).cmp(&key(b))
        });
        rules.dedup();
        Self { rules }
    }
}

impl IntoIterator for RuleSet {
    type Item = Rule;
    type IntoIter = std::vec::IntoIter<Rule>;

    fn into_iter(self) -> Self::IntoIter {
        self.rules.into_iter()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;

    fn parse(text: &str) -> Result<Rule, RuleError> {
        Rule::parse(Behavior::Allow, RuleSource::Policy, text)
    }

    #[test]
    fn names_and_globs() {
        for (pattern, tool, expected) in [
            ("execute", "execute", true),
            ("execute", "execute2", false),
            ("execute", "Execute", false),
            ("mcp__github__*", "mcp__github__create", true),
            ("mcp__github__*", "mcp__github__", true),
            ("mcp__github__*", "mcp__gitlab__create", false),
            ("*", "anything", true),
            ("*_file", "read_file", true),
            ("*_file", "read_file_", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("**", "", true),
            ("a**b", "ab", true),
            ("*a*", "xay", true),
            ("a*ab", "aab", true),
            ("*ab*ab", "ab", false),
        ] {
            assert_eq!(parse(pattern).unwrap().matches_tool(tool), expected, "{pattern} {tool}");
        }
    }

    #[test]
    fn errors_name_the_rule_and_the_fix() {
        for (text, expected) in [
            (
                "execute(npm run:*)",
                "rule \"execute(npm run:*)\": content rules are not known to this version; write `execute` for every call of the tool",
            ),
            (
                "!execute",
                "rule \"!execute\": a rule cannot be negated by `!`; put \"execute\" under `allow`, `ask` or `deny` instead",
            ),
            ("", "rule \"\" is malformed: it is empty; expected a tool's name, in which `*` stands for any characters"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected);
        }
        for (text, problem) in [
            ("execute(", "`(` is not closed at its end"),
            ("execute(a) b", "`(` is not closed at its end"),
            ("execute()", "nothing stands between `(` and `)`"),
            ("(x)", "no tool is named before `(`"),
            ("read file", "a tool's name has no spaces or control characters"),
            (" execute", "a tool's name has no spaces or control characters"),
            ("execute)", "`) ? [ ] { } , !` have no meaning in it"),
            ("read_?ile", "`) ? [ ] { } , !` have no meaning in it"),
            ("{read,write}_file", "`) ? [ ] { } , !` have no meaning in it"),
        ] {
            assert_eq!(parse(text), Err(RuleError::Malformed { rule: text.into(), problem }));
        }
        assert!(parse(&"x".repeat(MAX_RULE_BYTES)).is_ok());
        assert!(parse(&"x".repeat(MAX_RULE_BYTES + 1)).is_err());
    }

    #[test]
    fn specs_are_texts_or_tables() {
        let read = |json: &str| serde_json::from_str::<RuleSpec>(json).map_err(|e| e.to_string());
        assert_eq!(read(r#""write_file""#), Ok("write_file".into()));
        let told = RuleSpec { rule: "write_file".into(), message: Some("no".into()) };
        assert_eq!(read(r#"{"rule":"write_file","message":"no"}"#), Ok(told));
        assert!(read(r#"{"rule":"x","behavior":"passthrough"}"#).unwrap_err().contains("unknown field `behavior`"));
        assert!(read(r#"{"message":"x"}"#).unwrap_err().contains("missing field `rule`"));
        assert!(read("7").unwrap_err().contains("expected a rule such as"));
    }

    #[test]
    fn reported_by_source_then_text() {
        let rule = |source, text| Rule::parse(Behavior::Deny, source, text).unwrap();
        let set: RuleSet = [
            rule(RuleSource::Session, "a*"),
            rule(RuleSource::Policy, "ab*"),
            rule(RuleSource::Policy, "ab"),
            rule(RuleSource::Policy, "ab"),
        ]
        .into_iter()
        .collect();
        assert_eq!(set.iter().count(), 3);
        assert_eq!(set.first_match(Behavior::Deny, "ab").unwrap().text(), "ab");
        assert_eq!(set.first_match(Behavior::Deny, "ax").unwrap().text(), "a*");
        assert_eq!(set.first_match(Behavior::Ask, "ab"), None);
    }
}
