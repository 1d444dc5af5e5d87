//! The words of a decision: modes, behaviours, stages.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How freely an agent may act where no rule says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// What nothing allows is asked.
    #[default]
    Default,
    /// File edits inside the working directories are allowed.
    AcceptEdits,
    /// Only what reads is allowed; everything else is denied.
    Explore,
    /// What nothing objects to is allowed.
    Bypass,
    /// What would be asked is denied: nobody is there to answer.
    DontAsk,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 5] = [Self::Default, Self::AcceptEdits, Self::Explore, Self::Bypass, Self::DontAsk];

    /// The wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "accept_edits",
            Self::Explore => "explore",
            Self::Bypass => "bypass",
            Self::DontAsk => "dont_ask",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a rule or a decision says. Ordered by strictness: `Allow < Ask < Deny`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behavior {
    /// It may run.
    Allow,
    /// A person decides.
    Ask,
    /// It does not run.
    Deny,
}

impl Behavior {
    /// Every behaviour, the least strict first.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// The wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Behavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where in the pipeline a decision was made, in the pipeline's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// A deny rule matches, or cannot be evaluated.
    DenyRule,
    /// An ask rule matches or cannot be evaluated, or it cannot be told whether one does.
    AskRule,
    /// The mode is EXPLORE and the call does more than read.
    Explore,
    /// The tool itself or a policy objects or allows, or a path or command is dangerous.
    ToolCheck,
    /// Allow rules cover the whole call.
    AllowRule,
    /// The mode is ACCEPT_EDITS and the call reads, or edits inside the working directories.
    AcceptEdits,
    /// The call only reads.
    ReadOnly,
    /// The mode is BYPASS.
    Bypass,
    /// Nothing answered.
    Default,
    /// Not one of the pipeline's nine: the command is not of a shape that the agent may run, whoever approves it.
    CommandValidator,
}

impl Stage {
    /// The nine stages of the pipeline, in its order.
    pub const ALL: [Self; 9] = [
        Self::DenyRule,
        Self::AskRule,
        Self::Explore,
        Self::ToolCheck,
        Self::AllowRule,
        Self::AcceptEdits,
        Self::ReadOnly,
        Self::Bypass,
        Self::Default,
    ];

    /// The wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DenyRule => "deny_rule",
            Self::AskRule => "ask_rule",
            Self::Explore => "explore",
            Self::ToolCheck => "tool_check",
            Self::AllowRule => "allow_rule",
            Self::AcceptEdits => "accept_edits",
            Self::ReadOnly => "read_only",
            Self::Bypass => "bypass",
            Self::Default => "default",
            Self::CommandValidator => "command_validator",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which read-only calls are allowed without a rule. EXPLORE and ACCEPT_EDITS allow all of them whatever this says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadOnlyPolicy {
    /// None.
    None,
    /// Read-only shell commands.
    #[default]
    Shell,
    /// Also every tool that is marked read-only.
    All,
}

impl ReadOnlyPolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::None, Self::Shell, Self::All];

    /// The wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Shell => "shell",
            Self::All => "all",
        }
    }
}

impl fmt::Display for ReadOnlyPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(value: impl Serialize) -> String {
        serde_json::to_value(value).map(|v| v.as_str().unwrap_or_default().to_owned()).unwrap_or_default()
    }

    #[test]
    fn the_wire_names_are_what_serde_writes() {
        assert!(Mode::ALL.iter().all(|m| wire(m) == m.as_str()));
        assert!(Behavior::ALL.iter().all(|b| wire(b) == b.as_str()));
        assert!(Stage::ALL.iter().chain(&[Stage::CommandValidator]).all(|s| wire(s) == s.as_str()));
        assert!(ReadOnlyPolicy::ALL.iter().all(|r| wire(r) == r.as_str()));
    }

    #[test]
    fn strictness_is_the_order() {
        assert!(Behavior::Allow < Behavior::Ask && Behavior::Ask < Behavior::Deny);
    }
}
