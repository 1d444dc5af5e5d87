//! Calls that say of themselves what a test wants them to say.

use serde_json::Value;
use toolcell_model::{AgentName, Identity, TenantId, UserId};
use toolcell_permission::*;

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) read_only: bool,
    pub(crate) effect: Effect,
    pub(crate) paths: Vec<ContainerPath>,
    pub(crate) verdict: ToolVerdict,
    pub(crate) input: Value,
    pub(crate) looked_at: LookedAt,
}

/// What [`Content`] borrows.
#[derive(Debug, Clone)]
pub(crate) enum LookedAt {
    Nothing,
    Paths,
    Command(Command),
    Code(Option<String>),
    Fields(Vec<Field>),
}

#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) text: Result<String, Vec<String>>,
    pub(crate) cwd: ContainerPath,
    pub(crate) env: Vec<String>,
    pub(crate) stdin: Option<String>,
}

impl Call {
    pub(crate) fn read(paths: &[&str]) -> Self {
        Self::new("read_file", true, Effect::Read, paths)
    }

    pub(crate) fn write(paths: &[&str]) -> Self {
        Self::new("write_file", false, Effect::Write, paths)
    }

    /// Of something that is no command.
    pub(crate) fn execute() -> Self {
        Self { looked_at: LookedAt::Nothing, ..Self::new("execute", false, Effect::Execute, &[]) }
    }

    pub(crate) fn shell(text: &str) -> Self {
        let cwd = ContainerPath::workspace();
        let command = Command { text: Ok(text.to_owned()), cwd, env: Vec::new(), stdin: None };
        Self { looked_at: LookedAt::Command(command), input: serde_json::json!({"command": text}), ..Self::execute() }
    }

    pub(crate) fn code(language: &str, text: &str) -> Self {
        Self {
            name: "run_code".into(),
            looked_at: LookedAt::Code((language == "bash").then(|| text.to_owned())),
            input: serde_json::json!({"language": language, "code": text}),
            ..Self::execute()
        }
    }

    /// Of a custom tool with `rule_fields`.
    pub(crate) fn deploy(fields: &[(&str, &str)]) -> Self {
        let field = |(name, value): &(&str, &str)| Field { name: (*name).into(), value: Some((*value).into()) };
        let fields = LookedAt::Fields(fields.iter().map(field).collect());
        Self { name: "deploy".into(), looked_at: fields, ..Self::execute() }
    }

    pub(crate) fn new(name: &str, read_only: bool, effect: Effect, paths: &[&str]) -> Self {
        let paths = paths.iter().map(|path| ContainerPath::workspace().resolve(path).unwrap()).collect();
        let input = serde_json::json!({});
        let verdict = ToolVerdict::Passthrough;
        Self { name: name.into(), read_only, effect, paths, verdict, input, looked_at: LookedAt::Paths }
    }

    pub(crate) fn with_verdict(mut self, verdict: ToolVerdict) -> Self {
        self.verdict = verdict;
        self
    }

    pub(crate) fn with_env(mut self, name: &str) -> Self {
        if let LookedAt::Command(command) = &mut self.looked_at {
            command.env.push(name.into());
        }
        self
    }

    pub(crate) fn decide(&self, context: &Context) -> Decision {
        decide(&DescribedCall::new(self, &identity("alice"), context.shell()), context)
    }

    pub(crate) fn explain(&self, context: &Context) -> Decision {
        explain(&DescribedCall::new(self, &identity("alice"), context.shell()), context)
    }

    /// The paths that the call names, in their order.
    pub(crate) fn named(&self) -> Vec<ContainerPath> {
        DescribedCall::new(self, &identity("alice"), &ShellSettings::default()).paths().to_vec()
    }

    /// Decided with these real paths; of a command each path leads where it says, unless `real` is not empty.
    pub(crate) fn decide_resolved(&self, real: &[ContainerPath], context: &Context) -> Decision {
        self.in_both(real, context, decide_resolved)
    }

    pub(crate) fn explain_resolved(&self, real: &[ContainerPath], context: &Context) -> Decision {
        self.in_both(real, context, explain_resolved)
    }

    fn in_both(
        &self,
        real: &[ContainerPath],
        context: &Context,
        decide: fn(&ResolvedCall<'_>, &Context) -> Decision,
    ) -> Decision {
        let identity = identity("alice");
        let call = DescribedCall::new(self, &identity, context.shell());
        let real = if real.is_empty() { call.paths() } else { real }.to_vec();
        decide(&call.resolved(real).unwrap(), context)
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

    fn content(&self) -> Content<'_> {
        match &self.looked_at {
            LookedAt::Nothing => Content::Nothing,
            LookedAt::Paths => Content::Paths,
            LookedAt::Command(command) => Content::Command(CommandText {
                program: match &command.text {
                    Ok(text) => ProgramText::Shell(text),
                    Err(words) => ProgramText::Argv(words),
                },
                cwd: &command.cwd,
                env: &command.env,
                stdin: command.stdin.as_deref(),
            }),
            LookedAt::Code(shell) => Content::Code { shell: shell.as_deref() },
            LookedAt::Fields(fields) => Content::Fields(fields),
        }
    }

    fn input(&self) -> &Value {
        &self.input
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
