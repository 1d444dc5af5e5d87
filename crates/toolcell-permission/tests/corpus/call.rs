//! A call of `execute`, decided as the server decides it.

use toolcell_model::{AgentName, Identity, TenantId};
use toolcell_permission::shell::settings::{Dialect, ShellSettings};
use toolcell_permission::*;

/// What a call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    Shell(String),
    Argv(Vec<String>),
}

/// A call of `execute`.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) program: Program,
    pub(crate) env: Vec<String>,
    pub(crate) stdin: Option<String>,
    cwd: ContainerPath,
}

impl Call {
    pub(crate) fn of(program: Program) -> Self {
        Self { program, env: Vec::new(), stdin: None, cwd: ContainerPath::workspace() }
    }

    pub(crate) fn shell(text: &str) -> Self {
        Self::of(Program::Shell(text.to_owned()))
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> usize {
        let program = match &self.program {
            Program::Shell(text) => text.len(),
            Program::Argv(words) => words.iter().map(String::len).sum(),
        };
        program + self.env.iter().map(String::len).sum::<usize>() + self.stdin.as_ref().map_or(0, String::len)
    }

    /// As the analysis gets it.
    pub(crate) fn with_text<T>(&self, look: impl FnOnce(&CommandText<'_>) -> T) -> T {
        look(&self.text())
    }

    fn text(&self) -> CommandText<'_> {
        let program = match &self.program {
            Program::Shell(text) => ProgramText::Shell(text),
            Program::Argv(words) => ProgramText::Argv(words),
        };
        CommandText { program, cwd: &self.cwd, env: &self.env, stdin: self.stdin.as_deref() }
    }

    /// What becomes of it where this shell runs commands.
    pub(crate) fn decide(&self, mode: Mode, rules: &RuleSet, dialect: Dialect) -> Decision {
        let context = context(mode, rules, dialect);
        self.decide_in(&context)
    }

    /// What becomes of it in this context.
    pub(crate) fn decide_in(&self, context: &Context) -> Decision {
        let described = Described { call: self };
        let identity = Identity {
            tenant: TenantId::default_tenant(),
            agent: AgentName::parse("coder").unwrap(),
            session: None,
            user: None,
        };
        decide(&DescribedCall::new(&described, &identity, context.shell()), context)
    }
}

/// As an agent has it whose edits are allowed in the workspace.
pub(crate) fn context(mode: Mode, rules: &RuleSet, dialect: Dialect) -> Context {
    Context::new(mode, rules.clone())
        .with_shell(settings(dialect))
        .with_working_directories(vec![ContainerPath::workspace()])
}

pub(crate) fn settings(dialect: Dialect) -> ShellSettings {
    ShellSettings { dialect, ..ShellSettings::default() }
}

pub(crate) fn rules(allow: &[String], ask: &[String], deny: &[String]) -> RuleSet {
    let specs = |texts: &[String]| texts.iter().map(|text| RuleSpec::from(text.as_str())).collect::<Vec<_>>();
    RuleSet::parse(RuleSource::Policy, &specs(allow), &specs(ask), &specs(deny)).unwrap()
}

#[derive(Debug)]
struct Described<'a> {
    call: &'a Call,
}

impl ToolDescription for Described<'_> {
    fn name(&self) -> &str {
        "execute"
    }

    fn read_only(&self) -> bool {
        false
    }

    fn effect(&self) -> Effect {
        Effect::Execute
    }

    fn paths(&self) -> &[ContainerPath] {
        &[]
    }

    fn input_digest(&self) -> InputDigest {
        InputDigest::of(&serde_json::Value::Null)
    }

    fn content(&self) -> Content<'_> {
        Content::Command(self.call.text())
    }
}
