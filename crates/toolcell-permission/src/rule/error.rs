//! Why a text is not a rule.

/// Why a text is not a rule. Every variant names the rule and says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// What stands between the parentheses is no pattern for the tool's calls.
    #[error("rule {rule:?}: {problem}")]
    Content {
        /// The rule, shortened.
        rule: String,
        /// What is wrong with it, and what to write.
        problem: &'static str,
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
    #[error(
        "rule {rule:?} is malformed: {problem}; expected a tool's name, in which `*` stands for any characters, \
         or `tool(content)`"
    )]
    Malformed {
        /// The rule, shortened.
        rule: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// One of the rule's own examples does not hold.
    #[error("rule {rule:?}: its `{list}` lists {example:?}, {problem}; change the rule or the example")]
    Example {
        /// The rule, shortened.
        rule: String,
        /// `match` or `not_match`.
        list: &'static str,
        /// The example, shortened.
        example: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// A text, shortened for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}
