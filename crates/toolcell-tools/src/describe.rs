//! What the permission engine is told of a call.
//!
//! The engine is also asked about calls that this program cannot run: rules are tested for tools that another
//! program has, and explained for all that a rule may name. [`describe`] answers for any name.

use crate::call::{ParsedCall, ToolInput};
use crate::catalogue::Catalogue;
use crate::execute::Program;
use crate::fault::FaultCode;
use crate::fields::{invalid, shorten};
use serde_json::Value;
use std::borrow::Cow;
use toolcell_model::CallFault;
use toolcell_permission::{
    CommandText, ContainerPath, Content, Effect, InputDigest, ProgramText, ToolDescription, ToolVerdict,
};

/// A parsed call as the engine sees it.
#[derive(Debug)]
pub struct Described<'a> {
    call: Cow<'a, ParsedCall>,
    /// Names of the variables that an `execute` sets.
    env: Vec<String>,
}

impl<'a> Described<'a> {
    pub(crate) fn of(call: &'a ParsedCall) -> Self {
        let env = match call.input() {
            ToolInput::Execute(input) => input.env.keys().cloned().collect(),
            ToolInput::ReadFile(_) | ToolInput::WriteFile(_) | ToolInput::ListFiles(_) | ToolInput::Custom(_) => {
                Vec::new()
            }
        };
        Self { call: Cow::Borrowed(call), env }
    }

    /// The call that was parsed from this input.
    fn owned(call: ParsedCall, input: &'a Value) -> Self {
        let env = match call.input() {
            ToolInput::Execute(_) => input.get("env").and_then(Value::as_object),
            ToolInput::ReadFile(_) | ToolInput::WriteFile(_) | ToolInput::ListFiles(_) | ToolInput::Custom(_) => None,
        };
        let env = env.into_iter().flat_map(|env| env.keys().cloned()).collect();
        Self { call: Cow::Owned(call), env }
    }
}

impl ToolDescription for Described<'_> {
    fn name(&self) -> &str {
        self.call.name()
    }

    fn read_only(&self) -> bool {
        self.call.read_only()
    }

    fn effect(&self) -> Effect {
        self.call.effect()
    }

    fn paths(&self) -> &[ContainerPath] {
        self.call.paths()
    }

    fn input_digest(&self) -> InputDigest {
        self.call.input_digest()
    }

    fn verdict(&self) -> ToolVerdict {
        match self.call.input() {
            ToolInput::Custom(input) => match &input.objection {
                Some(message) => ToolVerdict::Ask { message: message.clone() },
                None => ToolVerdict::Passthrough,
            },
            ToolInput::Execute(_) | ToolInput::ReadFile(_) | ToolInput::WriteFile(_) | ToolInput::ListFiles(_) => {
                ToolVerdict::Passthrough
            }
        }
    }

    fn content(&self) -> Content<'_> {
        match self.call.input() {
            ToolInput::Execute(input) => Content::Command(CommandText {
                program: match &input.program {
                    Program::Shell(text) => ProgramText::Shell(text),
                    Program::Argv(words) => ProgramText::Argv(words),
                },
                cwd: &input.cwd,
                env: &self.env,
                stdin: input.stdin.as_deref(),
            }),
            ToolInput::ReadFile(_) | ToolInput::WriteFile(_) | ToolInput::ListFiles(_) => Content::Paths,
            ToolInput::Custom(input) if input.fields.is_empty() => Content::Nothing,
            ToolInput::Custom(input) => Content::Fields(&input.fields),
        }
    }
}

/// Names that tools of this program have, or may have: no operator's tool takes one of them.
pub(crate) const RESERVED: [&str; 16] = [
    "execute",
    "read_file",
    "write_file",
    "edit_file",
    "list_files",
    "glob_files",
    "grep_files",
    "move_file",
    "delete_file",
    "make_dir",
    "process_list",
    "process_output",
    "process_input",
    "process_stop",
    "run_code",
    // What rules call a connection.
    "network",
];

/// What the engine is told of a call of any tool: all of it for a built-in one that runs here, the paths and the kind of
/// the other tools by the names that rules know, and nothing but the name of any other, which counts as a tool that
/// may change something.
///
/// # Errors
/// [`FaultCode::InvalidInput`] when the input breaks the tool's form as far as that is known.
pub fn describe<'a>(tool: &'a str, input: &'a Value) -> Result<Box<dyn ToolDescription + 'a>, CallFault> {
    any(&Catalogue::built_in(), tool, input)
}

pub(crate) fn any<'a>(
    catalogue: &Catalogue,
    tool: &'a str,
    input: &'a Value,
) -> Result<Box<dyn ToolDescription + 'a>, CallFault> {
    match catalogue.parse_any(tool, input) {
        Some(call) => Ok(Box::new(Described::owned(call?, input))),
        None => Ok(Box::new(Outline::of(tool, input)?)),
    }
}

/// What is known of a call that does not run here.
#[derive(Debug)]
struct Outline<'a> {
    tool: &'a str,
    effect: Effect,
    read_only: bool,
    paths: Vec<ContainerPath>,
    looks_at: LooksAt<'a>,
    digest: InputDigest,
}

/// What the content of its rules looks at.
#[derive(Debug, Clone, Copy)]
enum LooksAt<'a> {
    Nothing,
    Paths,
    Code(Option<&'a str>),
}

impl<'a> Outline<'a> {
    fn of(tool: &'a str, input: &'a Value) -> Result<Self, CallFault> {
        let given = |name: &str| path(input, name);
        let required = |name: &str| given(name)?.ok_or_else(|| invalid(name, "is required"));
        let searched = || Ok(vec![given("path")?.unwrap_or_else(ContainerPath::workspace)]);
        let (effect, paths, looks_at) = match tool {
            "glob_files" | "grep_files" => (Effect::Read, searched()?, LooksAt::Paths),
            "edit_file" | "delete_file" | "make_dir" => (Effect::Write, vec![required("path")?], LooksAt::Paths),
            "move_file" => (Effect::Write, vec![required("from")?, required("to")?], LooksAt::Paths),
            "process_list" | "process_output" => (Effect::Read, Vec::new(), LooksAt::Nothing),
            // Whatever reads it there may be a shell.
            "process_input" => (Effect::Execute, Vec::new(), LooksAt::Code(None)),
            "run_code" => (Effect::Execute, Vec::new(), LooksAt::Code(shell_code(input)?)),
            _ => (Effect::Execute, Vec::new(), LooksAt::Nothing),
        };
        let read_only = effect == Effect::Read;
        Ok(Self { tool, effect, read_only, paths, looks_at, digest: InputDigest::of(input) })
    }
}

fn path(input: &Value, name: &str) -> Result<Option<ContainerPath>, CallFault> {
    let Some(text) = text(input, name)? else { return Ok(None) };
    ContainerPath::workspace().resolve(text).map(Some).map_err(|error| invalid(name, error))
}

fn text<'a>(input: &'a Value, name: &str) -> Result<Option<&'a str>, CallFault> {
    let Value::Object(fields) = input else {
        return Err(FaultCode::InvalidInput.with("input: expected an object"));
    };
    match fields.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(name, "expected a string")),
    }
}

/// The code if the shell runs it.
fn shell_code(input: &Value) -> Result<Option<&str>, CallFault> {
    let code = text(input, "code")?.ok_or_else(|| invalid("code", "is required"))?;
    match text(input, "language")? {
        Some("bash") => Ok(Some(code)),
        Some("python" | "node") => Ok(None),
        Some(other) => Err(invalid("language", format_args!("{:?} is not bash, python or node", shorten(other)))),
        None => Err(invalid("language", "is required")),
    }
}

impl ToolDescription for Outline<'_> {
    fn name(&self) -> &str {
        self.tool
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
        self.digest
    }

    fn content(&self) -> Content<'_> {
        match self.looks_at {
            LooksAt::Nothing => Content::Nothing,
            LooksAt::Paths => Content::Paths,
            LooksAt::Code(shell) => Content::Code { shell },
        }
    }
}
