//! The tools that an agent has.

use crate::call::{ParsedCall, ToolInput};
use crate::custom::{CustomTool, CustomToolError};
use crate::describe;
use crate::execute::ExecuteInput;
use crate::fault::FaultCode;
use crate::fields::{nearest, shorten};
use crate::list_files::ListFilesInput;
use crate::read_file::ReadFileInput;
use crate::write_file::WriteFileInput;
use crate::{execute, list_files, read_file, write_file};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use toolcell_model::{CallFault, ToolName};
use toolcell_permission::{InputDigest, ToolDescription};

/// One tool, as told to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What it does, in words for a model.
    pub description: Cow<'static, str>,
    /// JSON schema of its input.
    pub input_schema: Value,
    /// It changes nothing, whatever its input.
    pub read_only: bool,
    /// Calls of it may run beside others of the same batch.
    pub concurrency_safe: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BuiltIn {
    Execute,
    ReadFile,
    WriteFile,
    ListFiles,
}

impl BuiltIn {
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

/// One tool of a catalogue.
#[derive(Debug, Clone)]
enum Tool {
    BuiltIn(BuiltIn),
    Custom(Arc<CustomTool>),
}

impl Tool {
    fn name(&self) -> &str {
        match self {
            Self::BuiltIn(tool) => tool.name(),
            Self::Custom(tool) => tool.name(),
        }
    }

    fn info(&self) -> ToolInfo {
        match self {
            Self::BuiltIn(tool) => tool.info(),
            Self::Custom(tool) => tool.info(),
        }
    }

    fn parse(&self, input: &Value) -> Result<ParsedCall, CallFault> {
        match self {
            Self::BuiltIn(tool) => Ok(ParsedCall::new(tool.parse(input)?, InputDigest::of(input))),
            Self::Custom(tool) => {
                let input = tool.parse(input)?;
                let digest = input.digest();
                Ok(ParsedCall::new(ToolInput::Custom(input), digest))
            }
        }
    }
}

/// The enabled tools of one agent.
#[derive(Debug, Clone)]
pub struct Catalogue {
    tools: Vec<Tool>,
}

impl Catalogue {
    /// Every built-in tool.
    #[must_use]
    pub fn built_in() -> Self {
        Self { tools: BuiltIn::ALL.map(Tool::BuiltIn).to_vec() }
    }

    /// With these tools besides.
    ///
    /// # Errors
    /// A name that another tool has already.
    pub fn with_custom(mut self, tools: impl IntoIterator<Item = CustomTool>) -> Result<Self, CustomToolError> {
        for tool in tools {
            if self.tools.iter().any(|other| other.name() == tool.name()) {
                return Err(CustomToolError::new("name", format!("{:?} is the name of another tool", tool.name())));
            }
            self.tools.push(Tool::Custom(Arc::new(tool)));
        }
        Ok(self)
    }

    /// Only the tools with these names.
    ///
    /// # Errors
    /// [`FaultCode::UnknownTool`], for the first name that no tool of this catalogue has.
    pub fn only(&self, names: &[ToolName]) -> Result<Self, CallFault> {
        for name in names {
            self.find(name)?;
        }
        let named = |tool: &&Tool| names.iter().any(|name| name.as_str() == tool.name());
        Ok(Self { tools: self.tools.iter().filter(named).cloned().collect() })
    }

    /// The tools, as told to a model.
    pub fn tools(&self) -> impl Iterator<Item = ToolInfo> {
        self.tools.iter().map(Tool::info)
    }

    /// Checks the model's input, and merges what the tool presets into it.
    ///
    /// # Errors
    /// [`FaultCode::UnknownTool`], or [`FaultCode::InvalidInput`] that names the field: the call's state is `invalid`.
    pub fn parse(&self, tool: &ToolName, input: &Value) -> Result<ParsedCall, CallFault> {
        self.find(tool)?.parse(input)
    }

    /// The call if the tool is one of this catalogue or built in, enabled or not; `None` for any other name.
    pub(crate) fn parse_any(&self, tool: &str, input: &Value) -> Option<Result<ParsedCall, CallFault>> {
        let built_in = || BuiltIn::ALL.into_iter().find(|known| known.name() == tool).map(Tool::BuiltIn);
        let found = self.tools.iter().find(|known| known.name() == tool).cloned().or_else(built_in);
        found.map(|tool| tool.parse(input))
    }

    /// What the permission engine is told of a call of any tool, also of one that this catalogue does not have: see
    /// [`describe::describe`].
    ///
    /// # Errors
    /// [`FaultCode::InvalidInput`].
    pub fn describe<'a>(&self, tool: &'a str, input: &'a Value) -> Result<Box<dyn ToolDescription + 'a>, CallFault> {
        describe::any(self, tool, input)
    }

    fn find(&self, wanted: &ToolName) -> Result<&Tool, CallFault> {
        let found = self.tools.iter().find(|tool| tool.name() == wanted.as_str());
        found.ok_or_else(|| {
            let names: Vec<&str> = self.tools.iter().map(Tool::name).collect();
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
