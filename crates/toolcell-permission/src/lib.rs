//! Decides whether a tool call may run, and makes the [`Permit`] without which none does.
//!
//! **Owns** modes, rules and their matching, the analysis of shell text, dangerous paths and commands, the nine stages
//! of [`decide`], the [validation](validate) of commands, and permits. **Never knows** files, clocks, network or async:
//! everything a decision needs is in the [`Context`] and in what the tool says of its call ([`ToolDescription`]).
//! **Read first**: [`pipeline`], then [`permit`].
//!
//! **Limitations**: rules are policy over what a call says; the container is the boundary for what it does. Rules for
//! file tools look at the files that a command names, not at those that a recursive reader, a copy or a hard link
//! leads to, and no rule sees what a launcher (`make`, `npm run`, `python -c`) runs.
//!
//! # From a call to a permit
//!
//! A call is decided twice: on the paths it names, before anything is acquired for it, and again on the paths they
//! really lead to. Only the second decision gives a [`Permit`].
//!
//! ```
//! # use toolcell_permission::*;
//! # use toolcell_model::*;
//! # #[derive(Debug)]
//! # struct Tool(ContainerPath);
//! # impl ToolDescription for Tool {
//! #     fn name(&self) -> &str { "write_file" }
//! #     fn read_only(&self) -> bool { false }
//! #     fn effect(&self) -> Effect { Effect::Write }
//! #     fn paths(&self) -> &[ContainerPath] { std::slice::from_ref(&self.0) }
//! #     fn input_digest(&self) -> InputDigest { InputDigest::of(&serde_json::json!({})) }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let identity = Identity {
//! #     tenant: TenantId::default_tenant(), agent: AgentName::parse("coder")?, session: None, user: None };
//! # let tool = Tool(ContainerPath::parse("/workspace/notes")?);
//! let context = Context::new(Mode::AcceptEdits, RuleSet::default())
//!     .with_working_directories(vec![ContainerPath::parse("/workspace")?]);
//! let call = DescribedCall::new(&tool, &identity, context.shell());
//! let Authorization::Allowed(clearance) = authorize(&call, &context) else { return Err("refused".into()) };
//!
//! // The slot is held now; the guest said where the path leads.
//! let call = call.resolved(vec![ContainerPath::parse("/workspace/notes")?])?;
//! let Authorization::Allowed(permit) = clearance.authorize(&call, &context) else { return Err("refused".into()) };
//! let permitted = permit.consume(&call.digest())?;
//! assert_eq!(permitted.decision().stage, Stage::AcceptEdits);
//!
//! // Another holder, another link: the second decision is not the first one's.
//! let call = DescribedCall::new(&tool, &identity, context.shell());
//! let Authorization::Allowed(clearance) = authorize(&call, &context) else { return Err("refused".into()) };
//! let call = call.resolved(vec![ContainerPath::parse("/etc/passwd")?])?;
//! assert!(matches!(clearance.authorize(&call, &context), Authorization::Ask(_)));
//! # Ok(())
//! # }
//! ```
#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::wildcard_enum_match_arm,
    clippy::arithmetic_side_effects
)]

pub mod cases;
pub mod context;
pub mod danger;
pub mod decision;
pub mod describe;
pub mod digest;
pub mod mode;
pub mod path;
pub mod permit;
pub mod pipeline;
pub mod policy;
pub mod rule;
pub mod shell;
pub mod suggest;
pub mod validate;

pub use context::Context;
pub use danger::Dangers;
pub use decision::{Decision, ReportedRule, TraceStep, stricter};
pub use describe::{
    CommandText, Content, DescribedCall, Effect, Field, MAX_COMMAND_PATHS, ProgramText, RealPathCount, ResolvedCall,
    ToolDescription, ToolVerdict,
};
pub use digest::{CallDigest, InputDigest};
pub use mode::{Behavior, Mode, ReadOnlyPolicy, Stage};
pub use path::{ContainerPath, PathError};
pub use permit::{
    Asked, Authorization, Basis, Clearance, DecidedPath, Permit, PermitMismatch, PermittedCall, authorize,
};
pub use pipeline::{decide, decide_resolved, explain, explain_resolved};
pub use policy::ExecutionEnvironment;
pub use rule::{Rule, RuleError, RuleSet, RuleSource, RuleSpec};
pub use shell::settings::ShellSettings;
pub use suggest::Suggestion;
