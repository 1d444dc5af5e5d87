//! The gate by itself: for hosts that want decisions about calls and write no configuration.
//!
//! ```
//! use toolcell_permission::policy::{Gate, PolicyCall, PolicyVerdict};
//! use toolcell_permission::policy::{allow_tools, deny_tools, require_approval_for_tools};
//! # use toolcell_permission::*;
//! # use toolcell_model::*;
//! # #[derive(Debug)]
//! # struct Tool(&'static str, serde_json::Value);
//! # impl ToolDescription for Tool {
//! #     fn name(&self) -> &str { self.0 }
//! #     fn read_only(&self) -> bool { false }
//! #     fn effect(&self) -> Effect { Effect::Execute }
//! #     fn paths(&self) -> &[ContainerPath] { &[] }
//! #     fn input_digest(&self) -> InputDigest { InputDigest::of(&self.1) }
//! #     fn input(&self) -> &serde_json::Value { &self.1 }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let identity = Identity {
//! #     tenant: TenantId::default_tenant(), agent: AgentName::parse("coder")?, session: None, user: None };
//! # let behavior = |tool: &str, input: &str, context: &Context| -> Result<Behavior, Box<dyn std::error::Error>> {
//! #     let tool = Tool(Box::leak(tool.to_owned().into_boxed_str()), serde_json::from_str(input)?);
//! #     Ok(decide(&DescribedCall::new(&tool, &identity, context.shell()), context).behavior)
//! # };
//! let context = allow_tools(["search", "deploy"])?
//!     .and(deny_tools(["drop_table"], "Nothing is dropped here.")?)
//!     .and(require_approval_for_tools(["mcp__mail__*"], "A person reads every mail first.")?)
//!     .and(Gate::policy("production", |call: &PolicyCall<'_>| {
//!         if call.tool == "deploy" && call.input["env"] == "prod" {
//!             PolicyVerdict::RequireApproval { message: "A person must approve what goes to production.".into() }
//!         } else {
//!             PolicyVerdict::NoOpinion
//!         }
//!     }))
//!     .context(Mode::DontAsk);
//!
//! assert_eq!(behavior("search", r#"{}"#, &context)?, Behavior::Allow);
//! assert_eq!(behavior("drop_table", r#"{}"#, &context)?, Behavior::Deny);
//! assert_eq!(behavior("deploy", r#"{"env": "test"}"#, &context)?, Behavior::Allow);
//! // Nobody can be asked in this mode.
//! assert_eq!(behavior("deploy", r#"{"env": "prod"}"#, &context)?, Behavior::Deny);
//! # Ok(())
//! # }
//! ```

use crate::context::Context;
use crate::describe::ToolVerdict;
use crate::mode::{Behavior, Mode};
use crate::rule::{RuleError, RuleSet, RuleSource, RuleSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Where calls run. Policies can read it; it routes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionEnvironment {
    /// On the machine of the host itself.
    Local,
    /// In a container on this machine.
    #[default]
    Sandbox,
    /// In a container on another machine.
    RemoteSandbox,
}

impl ExecutionEnvironment {
    /// The wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Sandbox => "sandbox",
            Self::RemoteSandbox => "remote_sandbox",
        }
    }
}

impl fmt::Display for ExecutionEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a policy is told of a call.
#[derive(Debug, Clone, Copy)]
pub struct PolicyCall<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The merged input; null where the tool keeps it to itself.
    pub input: &'a Value,
    /// The caller's id of the call, if it is known.
    pub call_id: Option<&'a str>,
    /// Where the call would run.
    pub environment: ExecutionEnvironment,
}

/// What a policy says of a call. It counts as the tool's own opinion does, and the strictest of all counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyVerdict {
    /// Yes, unless a rule, the mode, the tool or something dangerous objects.
    Allow,
    /// Never, in no mode.
    Deny {
        /// For the model.
        message: String,
    },
    /// Only if a person says so, in every mode.
    RequireApproval {
        /// For the model and the person.
        message: String,
    },
    /// Nothing.
    NoOpinion,
}

impl From<PolicyVerdict> for ToolVerdict {
    fn from(verdict: PolicyVerdict) -> Self {
        match verdict {
            PolicyVerdict::Allow => Self::Allow,
            PolicyVerdict::Deny { message } => Self::Deny { message },
            PolicyVerdict::RequireApproval { message } => Self::Ask { message },
            PolicyVerdict::NoOpinion => Self::Passthrough,
        }
    }
}

/// An opinion on calls besides the tools' own. Closures are policies.
///
/// It is asked at every decision about a call, so it must answer alike for like calls, and at once.
pub trait Policy: Send + Sync {
    /// What it says of this call.
    fn check(&self, call: &PolicyCall<'_>) -> PolicyVerdict;
}

impl<F: Fn(&PolicyCall<'_>) -> PolicyVerdict + Send + Sync> Policy for F {
    fn check(&self, call: &PolicyCall<'_>) -> PolicyVerdict {
        self(call)
    }
}

/// Policies with the names by which decisions mention them.
#[derive(Clone, Default)]
pub(crate) struct Policies(Vec<(String, Arc<dyn Policy>)>);

impl Policies {
    pub(crate) fn add(&mut self, name: String, policy: impl Policy + 'static) {
        self.0.push((name, Arc::new(policy)));
    }

    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// What each says of the call.
    pub(crate) fn check(&self, call: &PolicyCall<'_>) -> impl Iterator<Item = (&str, PolicyVerdict)> {
        self.0.iter().map(|(name, policy)| (name.as_str(), policy.check(call)))
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Rules and policies that are put together before they become a [`Context`]. Their order has no meaning.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    rules: RuleSet,
    policies: Policies,
}

/// Every call of these tools is allowed, unless something objects. `*` in a name stands for any characters.
///
/// # Errors
/// [`RuleError`] for what is not a tool's name.
pub fn allow_tools<T: AsRef<str>>(tools: impl IntoIterator<Item = T>) -> Result<Gate, RuleError> {
    Gate::of(Behavior::Allow, tools, None)
}

/// No call of these tools runs; the model is told `message`.
///
/// # Errors
/// [`RuleError`] for what is not a tool's name.
pub fn deny_tools<T: AsRef<str>>(tools: impl IntoIterator<Item = T>, message: &str) -> Result<Gate, RuleError> {
    Gate::of(Behavior::Deny, tools, Some(message))
}

/// A person is asked about every call of these tools, with `message`.
///
/// # Errors
/// [`RuleError`] for what is not a tool's name.
pub fn require_approval_for_tools<T: AsRef<str>>(
    tools: impl IntoIterator<Item = T>,
    message: &str,
) -> Result<Gate, RuleError> {
    Gate::of(Behavior::Ask, tools, Some(message))
}

impl Gate {
    /// One policy; decisions mention it by `name`.
    #[must_use]
    pub fn policy(name: &str, policy: impl Policy + 'static) -> Self {
        let mut policies = Policies::default();
        policies.add(name.to_owned(), policy);
        Self { rules: RuleSet::default(), policies }
    }

    /// Both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.rules.extend(other.rules);
        self.policies.extend(other.policies);
        self
    }

    /// A context of these rules and policies.
    #[must_use]
    pub fn context(self, mode: Mode) -> Context {
        Context::new(mode, self.rules).with_policies(self.policies)
    }

    fn of<T: AsRef<str>>(
        behavior: Behavior,
        tools: impl IntoIterator<Item = T>,
        message: Option<&str>,
    ) -> Result<Self, RuleError> {
        let spec = |tool: T| RuleSpec { message: message.map(str::to_owned), ..RuleSpec::from(tool.as_ref()) };
        let specs: Vec<RuleSpec> = tools.into_iter().map(spec).collect();
        let (mut allow, mut ask, mut deny) = (Vec::new(), Vec::new(), Vec::new());
        match behavior {
            Behavior::Allow => allow = specs,
            Behavior::Ask => ask = specs,
            Behavior::Deny => deny = specs,
        }
        Ok(Self { rules: RuleSet::parse(RuleSource::Policy, &allow, &ask, &deny)?, policies: Policies::default() })
    }
}
