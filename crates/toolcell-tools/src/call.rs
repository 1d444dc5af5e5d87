//! A call whose input has been parsed.

use crate::custom::CustomInput;
use crate::describe::Described;
use crate::execute::{self, ExecuteInput};
use crate::fault::FaultCode;
use crate::list_files::{self, ListFilesInput};
use crate::read_file::{self, ReadFileInput};
use crate::write_file::{self, WriteFileInput};
use std::slice::from_ref;
use toolcell_model::CallFault;
use toolcell_permission::{ContainerPath, Effect, InputDigest};

/// One tool's typed input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolInput {
    /// Of `execute`.
    Execute(ExecuteInput),
    /// Of `read_file`.
    ReadFile(ReadFileInput),
    /// Of `write_file`.
    WriteFile(WriteFileInput),
    /// Of `list_files`.
    ListFiles(ListFilesInput),
    /// Of a tool that the operator declared.
    Custom(CustomInput),
}

/// A valid call. Made by [`crate::Catalogue::parse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedCall {
    input: ToolInput,
    digest: InputDigest,
}

impl ParsedCall {
    pub(crate) fn new(input: ToolInput, digest: InputDigest) -> Self {
        Self { input, digest }
    }

    /// What to run.
    #[must_use]
    pub fn input(&self) -> &ToolInput {
        &self.input
    }

    /// What to run, by value.
    #[must_use]
    pub fn into_input(self) -> ToolInput {
        self.input
    }

    /// The fault of a file tool's call whose path is not beneath one of the agent's file roots. Asked before the
    /// permission engine, so that no person is asked to approve a call that cannot run.
    #[must_use]
    pub fn outside_roots(&self, roots: &[ContainerPath]) -> Option<CallFault> {
        let outside = self.paths().iter().find(|path| !roots.iter().any(|root| path.is_within(root)))?;
        let roots: Vec<String> = roots.iter().map(|root| format!("`{root}`")).collect();
        let roots = if roots.is_empty() { "nothing".to_owned() } else { roots.join(", ") };
        Some(FaultCode::OutsideRoots.with(format!("`{outside}` is out of reach: the file tools work beneath {roots}")))
    }

    /// What the permission engine is told of the call.
    #[must_use]
    pub fn described(&self) -> Described<'_> {
        Described::of(self)
    }

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.input {
            ToolInput::Execute(_) => execute::NAME,
            ToolInput::ReadFile(_) => read_file::NAME,
            ToolInput::WriteFile(_) => write_file::NAME,
            ToolInput::ListFiles(_) => list_files::NAME,
            ToolInput::Custom(input) => &input.tool,
        }
    }

    /// Whether the tool is marked as one that changes nothing.
    #[must_use]
    pub fn read_only(&self) -> bool {
        match &self.input {
            ToolInput::Execute(_) | ToolInput::WriteFile(_) => false,
            ToolInput::ReadFile(_) | ToolInput::ListFiles(_) => true,
            ToolInput::Custom(input) => input.read_only,
        }
    }

    /// Whether it may run beside other calls in its slot.
    #[must_use]
    pub fn concurrency_safe(&self) -> bool {
        match &self.input {
            ToolInput::Execute(_) | ToolInput::WriteFile(_) => false,
            ToolInput::ReadFile(_) | ToolInput::ListFiles(_) => true,
            ToolInput::Custom(input) => input.concurrency_safe,
        }
    }

    /// What the call does.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match &self.input {
            ToolInput::Execute(_) | ToolInput::Custom(_) => Effect::Execute,
            ToolInput::ReadFile(_) | ToolInput::ListFiles(_) => Effect::Read,
            ToolInput::WriteFile(_) => Effect::Write,
        }
    }

    /// The files that a file tool's call names.
    #[must_use]
    pub fn paths(&self) -> &[ContainerPath] {
        match &self.input {
            ToolInput::Execute(_) | ToolInput::Custom(_) => &[],
            ToolInput::ReadFile(input) => from_ref(&input.path),
            ToolInput::WriteFile(input) => from_ref(&input.path),
            ToolInput::ListFiles(input) => from_ref(&input.path),
        }
    }

    /// Names what will run.
    #[must_use]
    pub fn input_digest(&self) -> InputDigest {
        self.digest
    }
}
