//! A call whose input has been parsed.

use crate::execute::{self, ExecuteInput};
use crate::fault::FaultCode;
use crate::list_files::{self, ListFilesInput};
use crate::read_file::{self, ReadFileInput};
use crate::write_file::{self, WriteFileInput};
use std::slice::from_ref;
use toolcell_model::CallFault;
use toolcell_permission::{ContainerPath, Effect, InputDigest, ToolDescription};

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
}

/// A valid call of a built-in tool. Made by [`crate::Catalogue::parse`].
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
}

impl ToolDescription for ParsedCall {
    fn name(&self) -> &str {
        match &self.input {
            ToolInput::Execute(_) => execute::NAME,
            ToolInput::ReadFile(_) => read_file::NAME,
            ToolInput::WriteFile(_) => write_file::NAME,
            ToolInput::ListFiles(_) => list_files::NAME,
        }
    }

    fn read_only(&self) -> bool {
        match &self.input {
            ToolInput::Execute(_) | ToolInput::WriteFile(_) => false,
            ToolInput::ReadFile(_) | ToolInput::ListFiles(_) => true,
        }
    }

    fn effect(&self) -> Effect {
        match &self.input {
            ToolInput::Execute(_) => Effect::Execute,
            ToolInput::ReadFile(_) | ToolInput::ListFiles(_) => Effect::Read,
            ToolInput::WriteFile(_) => Effect::Write,
        }
    }

    fn paths(&self) -> &[ContainerPath] {
        match &self.input {
            ToolInput::Execute(_) => &[],
            ToolInput::ReadFile(input) => from_ref(&input.path),
            ToolInput::WriteFile(input) => from_ref(&input.path),
            ToolInput::ListFiles(input) => from_ref(&input.path),
        }
    }

    fn input_digest(&self) -> InputDigest {
        self.digest
    }
}
