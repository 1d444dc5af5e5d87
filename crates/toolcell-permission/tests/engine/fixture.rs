//! Calls that say of themselves what a test wants them to say.

use toolcell_model::{AgentName, Identity, TenantId, UserId};
use toolcell_permission::*;

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) read_only: bool,
    pub(crate) effect: Effect,
    pub(crate) paths: Vec<ContainerPath>,
    pub(crate) verdict: ToolVerdict,
    pub(crate) input: serde_json::Value,
}

impl Call {
    pub(crate) fn read(paths: &[&str]) -> Self {
        Self::new("read_file", true, Effect::Read, paths)
    }

    pub(crate) fn write(paths: &[&str]) -> Self {
        Self::new("write_file", false, Effect::Write, paths)
    }

    pub(crate) fn execute() -> Self {
        Self::new("execute", false, Effect::Execute, &[])
    }

    fn new(name: &str, read_only: bool, effect: Effect, paths: &[&str]) -> Self {
        let paths = paths.iter().map(|path| ContainerPath::workspace().resolve(path).unwrap()).collect();
        let input = serde_json::json!({});
        Self { name: name.into(), read_only, effect, paths, verdict: ToolVerdict::Passthrough, input }
    }

    pub(crate) fn with_verdict(mut self, verdict: ToolVerdict) -> Self {
        self.verdict = verdict;
        self
    }

    pub(crate) fn decide(&self, context: &Context) -> Decision {
        decide(&DescribedCall::new(self, &identity("alice")), context)
    }

    pub(crate) fn decide_resolved(&self, real: &[ContainerPath], context: &Context) -> Decision {
        let identity = identity("alice");
        decide_resolved(&DescribedCall::new(self, &identity).resolved(real.to_vec()).unwrap(), context)
    }
}

impl ToolDescription for Call {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn paths(&self) -> &[ContainerPath] {
        &self.paths
    }

    fn input_digest(&self) -> InputDigest {
        InputDigest::of(&self.input)
    }

    fn verdict(&self) -> ToolVerdict {
        self.verdict.clone()
    }
}

pub(crate) fn identity(user: &str) -> Identity {
    Identity {
        tenant: TenantId::default_tenant(),
        agent: AgentName::parse("coder").unwrap(),
        session: None,
        user: Some(UserId::parse(user).unwrap()),
    }
}

pub(crate) fn path(text: &str) -> ContainerPath {
    ContainerPath::parse(text).unwrap()
}

pub(crate) fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> RuleSet {
    let specs = |texts: &[&str]| texts.iter().map(|text| RuleSpec::from(*text)).collect::<Vec<_>>();
    RuleSet::parse(RuleSource::Policy, &specs(allow), &specs(ask), &specs(deny)).unwrap()
}

pub(crate) fn context(mode: Mode, rules: RuleSet) -> Context {
    Context::new(mode, rules).with_working_directories(vec![ContainerPath::workspace()])
}

/// A name and how to make it.
pub(crate) type Verdict = (&'static str, fn() -> ToolVerdict);

pub(crate) const VERDICTS: [Verdict; 5] = [
    ("deny", || ToolVerdict::Deny { message: "the tool's words".into() }),
    ("ask", || ToolVerdict::Ask { message: "the tool's words".into() }),
    ("advise_ask", || ToolVerdict::AdviseAsk { message: "the tool's words".into() }),
    ("allow", || ToolVerdict::Allow),
    ("passthrough", || ToolVerdict::Passthrough),
];
