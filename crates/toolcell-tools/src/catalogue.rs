//! The tools that an agent has.

use crate::call::{ParsedCall, ToolInput};
use crate::execute::ExecuteInput;
use crate::fault::FaultCode;
use crate::fields::{nearest, shorten};
use crate::list_files::ListFilesInput;
use crate::read_file::ReadFileInput;
use crate::write_file::WriteFileInput;
use crate::{execute, list_files, read_file, write_file};
use serde_json::Value;
use toolcell_model::{CallFault, ToolName};
use toolcell_permission::InputDigest;

/// One tool, as told to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does, in words for a model.
    pub description: &'static str,
    /// JSON schema of its input.
    pub input_schema: Value,
    /// It changes nothing, whatever its input.
    pub read_only: bool,
    /// Calls of it may run beside others of the same batch.
    pub concurrency_safe: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Execute,
    ReadFile,
    WriteFile,
    ListFiles,
}

impl Tool {
    const ALL: [Self; 4] = [Self::Execute, Self::ReadFile, Self::WriteFile, Self::ListFiles];

    fn name(self) -> &'static str {
        match self {
            Self::Execute => execute::NAME,
            Self::ReadFile => read_file::NAME,
            Self::WriteFile => write_file::NAME,
            Self::ListFiles => list_files::NAME,
        }
    }

    fn info(self) -> ToolInfo {
        match self {
            Self::Execute => execute::info(),
            Self::ReadFile => read_file::info(),
            Self::WriteFile => write_file::info(),
            Self::ListFiles => list_files::info(),
        }
    }

    fn parse(self, input: &Value) -> Result<ToolInput, CallFault> {
        match self {
            Self::Execute => ExecuteInput::parse(input).map(ToolInput::Execute),
            Self::ReadFile => ReadFileInput::parse(input).map(ToolInput::ReadFile),
            Self::WriteFile => WriteFileInput::parse(input).map(ToolInput::WriteFile),
            Self::ListFiles => ListFilesInput::parse(input).map(ToolInput::ListFiles),
        }
    }
}

/// The enabled tools of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    tools: Vec<Tool>,
}

impl Catalogue {
    /// Every built-in tool.
    #[must_use]
    pub fn built_in() -> Self {
        Self { tools: Tool::ALL.to_vec() }
    }

    /// Only the tools with these names.
    ///
    /// # Errors
    /// [`FaultCode::UnknownTool`], for the first name that no tool of this catalogue has.
    pub fn only(&self, names: &[ToolName]) -> Result<Self, CallFault> {
        for name in names {
            self.find(name)?;
        }
        let named = |tool: &Tool| names.iter().any(|name| name.as_str() == tool.name());
        Ok(Self { tools: self.tools.iter().copied().filter(named).collect() })
    }

    /// The tools, as told to a model.
    pub fn tools(&self) -> impl Iterator<Item = ToolInfo> {
        self.tools.iter().map(|tool| tool.info())
    }

    /// Checks the input, with what the agent's configuration presets already merged into it.
    ///
    /// # Errors
    /// [`FaultCode::UnknownTool`], or [`FaultCode::InvalidInput`] that names the field: the call's state is `invalid`.
    pub fn parse(&self, tool: &ToolName, input: &Value) -> Result<ParsedCall, CallFault> {
        let tool = self.find(tool)?;
        Ok(ParsedCall::new(tool.parse(input)?, InputDigest::of(input)))
    }

    fn find(&self, wanted: &ToolName) -> Result<Tool, CallFault> {
        let found = self.tools.iter().copied().find(|tool| tool.name() == wanted.as_str());
        found.ok_or_else(|| {
            let names: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
            let hint = nearest(wanted.as_str(), names.iter().copied()).map(|name| format!("; did you mean `{name}`?"));
            FaultCode::UnknownTool.with(format!(
                "no tool is named {:?}{} The tools are {}",
                shorten(wanted.as_str()),
                hint.unwrap_or_else(|| ".".to_owned()),
                names.join(", ")
            ))
        })
    }
}
