//! What the engine must know of a call, and who tells it.

use crate::digest::{CallDigest, InputDigest};
use crate::path::ContainerPath;
use std::fmt;
use toolcell_model::Identity;

/// What a tool says of one call: of itself with one validated input. Implemented by the tools.
///
/// It must be truthful and stable: the engine decides on nothing else, and asks more than once.
pub trait ToolDescription: fmt::Debug + Send + Sync {
    /// The tool's name.
    fn name(&self) -> &str;

    /// Whether the call changes nothing.
    fn read_only(&self) -> bool;

    /// What the call does.
    fn effect(&self) -> Effect;

    /// The files that the call names, as the guest will be asked for them. All of them, for [`Effect::Read`] and
    /// [`Effect::Write`]; none for [`Effect::Execute`].
    fn paths(&self) -> &[ContainerPath];

    /// Digest of the merged input that will run.
    fn input_digest(&self) -> InputDigest;

    /// What the tool itself thinks of the input.
    fn verdict(&self) -> ToolVerdict {
        ToolVerdict::Passthrough
    }

    /// What the content of rules looks at.
    fn content(&self) -> Content<'_> {
        Content::Nothing
    }
}

/// What the content of a tool's rules looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// Nothing: only rules without content match.
    Nothing,
    /// [`ToolDescription::paths`], with globs.
    Paths,
    /// A command, which is analysed.
    Command(CommandText<'a>),
    /// Code in some language. The content rules of `execute` look at shell code as at a command; they cannot look into
    /// any other.
    Code {
        /// The text, if the shell runs it.
        shell: Option<&'a str>,
    },
    /// Fields of the input by the names that rules call them; a tool with a single one calls it by no name.
    Fields(&'a [Field]),
}

/// One field of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// What rules call it; empty for a tool's only one.
    pub name: String,
    /// Its value as text; `None` when the input does not have it.
    pub value: Option<String>,
}

/// What `execute` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandText<'a> {
    /// Text or words.
    pub program: ProgramText<'a>,
    /// Where.
    pub cwd: &'a ContainerPath,
    /// Names of the variables that the call sets.
    pub env: &'a [&'a str],
    /// Text for its standard input.
    pub stdin: Option<&'a str>,
}

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramText<'a> {
    /// Text for the shell.
    Shell(&'a str),
    /// A program and its arguments, no shell.
    Argv(&'a [String]),
}

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Reads the files that [`ToolDescription::paths`] names, and what lies beneath them.
    Read,
    /// Changes the files that [`ToolDescription::paths`] names, and nothing else.
    Write,
    /// Runs something whose reach its paths do not tell.
    Execute,
}

/// A tool's own opinion of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolVerdict {
    /// Never, in no mode.
    Deny {
        /// For the model.
        message: String,
    },
    /// Only if a person says so, in every mode.
    Ask {
        /// For the model and the person.
        message: String,
    },
    /// A person should be asked unless a later stage allows the call.
    AdviseAsk {
        /// For the model and the person.
        message: String,
    },
    /// Yes, unless a rule, the mode or a dangerous path objects.
    Allow,
    /// No opinion.
    Passthrough,
}

/// A call, described, and who it is for. Its paths are logical: where they really lead is not known yet.
#[derive(Debug, Clone, Copy)]
pub struct DescribedCall<'a> {
    tool: &'a dyn ToolDescription,
    identity: &'a Identity,
}

impl<'a> DescribedCall<'a> {
    /// `tool`'s call for `identity`.
    #[must_use]
    pub fn new(tool: &'a dyn ToolDescription, identity: &'a Identity) -> Self {
        Self { tool, identity }
    }

    /// What the tool says.
    #[must_use]
    pub fn tool(&self) -> &'a dyn ToolDescription {
        self.tool
    }

    /// Who the call is for.
    #[must_use]
    pub fn identity(&self) -> &'a Identity {
        self.identity
    }

    /// Digest of the call, with each logical path standing in for its real one.
    #[must_use]
    pub fn digest(&self) -> CallDigest {
        let paths = self.tool.paths();
        CallDigest::of(self, paths.iter().zip(paths))
    }

    /// The call with the real path of each of [`ToolDescription::paths`], in their order.
    ///
    /// # Errors
    /// [`RealPathCount`] when these are not as many.
    pub fn resolved(self, real: Vec<ContainerPath>) -> Result<ResolvedCall<'a>, RealPathCount> {
        let expected = self.tool.paths().len();
        if real.len() == expected {
            Ok(ResolvedCall { call: self, real })
        } else {
            Err(RealPathCount { tool: self.tool.name().to_owned(), expected, got: real.len() })
        }
    }
}

/// Real paths that do not belong to the call's logical ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{got} real paths were given for the {expected} paths of a call of `{tool}`")]
pub struct RealPathCount {
    /// The tool.
    pub tool: String,
    /// How many paths the call names.
    pub expected: usize,
    /// How many were given.
    pub got: usize,
}

/// A call of which it is known where its paths really lead.
#[derive(Debug, Clone)]
pub struct ResolvedCall<'a> {
    call: DescribedCall<'a>,
    real: Vec<ContainerPath>,
}

impl<'a> ResolvedCall<'a> {
    /// The call without its real paths.
    #[must_use]
    pub fn described(&self) -> &DescribedCall<'a> {
        &self.call
    }

    /// Where the call's paths lead, in their order.
    #[must_use]
    pub fn real(&self) -> &[ContainerPath] {
        &self.real
    }

    /// Digest of the call with its real paths.
    #[must_use]
    pub fn digest(&self) -> CallDigest {
        CallDigest::of(&self.call, self.call.tool.paths().iter().zip(&self.real))
    }
}
