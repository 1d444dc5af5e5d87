//! What the engine must know of a call, and who tells it.

use crate::danger::Dangers;
use crate::digest::{CallDigest, InputDigest};
use crate::path::ContainerPath;
use crate::shell::facts::{PathUse, Target};
use crate::shell::settings::ShellSettings;
use crate::shell::{Analysis, analyse, analyse_code};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};
use toolcell_model::Identity;

/// How many distinct paths of a command are looked up in the container. With more than these ACCEPT_EDITS allows
/// nothing, and no allow rule covers a redirection to one of the others.
pub const MAX_COMMAND_PATHS: usize = 256;

static NO_INPUT: Value = Value::Null;
static ALWAYS_DANGEROUS: LazyLock<Dangers> = LazyLock::new(Dangers::default);

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
    /// [`Effect::Write`]; those of a command are found by its analysis.
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

    /// The merged input, for [policies](crate::policy). Null where a tool keeps it to itself.
    fn input(&self) -> &Value {
        &NO_INPUT
    }

    /// Names of files and directories that are dangerous for this tool besides those that always are.
    fn dangerous(&self) -> &Dangers {
        &ALWAYS_DANGEROUS
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
    pub env: &'a [String],
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
#[derive(Debug, Clone)]
pub struct DescribedCall<'a> {
    tool: &'a dyn ToolDescription,
    identity: &'a Identity,
    id: Option<&'a str>,
    command: Option<Arc<DescribedCommand>>,
}

/// What a call runs, analysed once for both decisions.
#[derive(Debug)]
struct DescribedCommand {
    analysis: Analysis,
    /// Sorted, each once.
    paths: Vec<ContainerPath>,
    /// `paths` are all that the command names.
    every_path: bool,
}

impl<'a> DescribedCall<'a> {
    /// `tool`'s call for `identity`. A command is analysed here, for the shell that will run it.
    #[must_use]
    pub fn new(tool: &'a dyn ToolDescription, identity: &'a Identity, shell: &ShellSettings) -> Self {
        let analysis = match tool.content() {
            Content::Command(command) => Some(analyse(&command, shell)),
            Content::Code { shell: Some(text) } => Some(analyse_code(text, shell)),
            Content::Nothing | Content::Paths | Content::Code { shell: None } | Content::Fields(_) => None,
        };
        let command = analysis.map(|analysis| Arc::new(DescribedCommand::new(analysis, tool.paths())));
        Self { tool, identity, id: None, command }
    }

    /// With the caller's id of it, for [policies](crate::policy).
    #[must_use]
    pub fn with_id(mut self, id: &'a str) -> Self {
        self.id = Some(id);
        self
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

    /// The caller's id of it.
    #[must_use]
    pub fn id(&self) -> Option<&'a str> {
        self.id
    }

    /// What it runs, if that is text or words of a command.
    #[must_use]
    pub fn analysis(&self) -> Option<&Analysis> {
        self.command.as_ref().map(|command| &command.analysis)
    }

    /// The files that the call names, as far as they are known: of a tool [`ToolDescription::paths`]; of a command
    /// its operands and redirections, and the directories of its globs, at most [`MAX_COMMAND_PATHS`] of them.
    #[must_use]
    pub fn paths(&self) -> &[ContainerPath] {
        self.command.as_ref().map_or_else(|| self.tool.paths(), |command| &command.paths)
    }

    /// Whether [`Self::paths`] left out none.
    pub(crate) fn names_every_path(&self) -> bool {
        self.command.as_ref().is_none_or(|command| command.every_path)
    }

    /// Digest of the call, with each logical path standing in for its real one.
    #[must_use]
    pub fn digest(&self) -> CallDigest {
        CallDigest::of(self, self.paths().iter().zip(self.paths()))
    }

    /// The call with the real path of each of [`Self::paths`], in their order.
    ///
    /// # Errors
    /// [`RealPathCount`] when these are not as many.
    pub fn resolved(self, real: Vec<ContainerPath>) -> Result<ResolvedCall<'a>, RealPathCount> {
        let expected = self.paths().len();
        if real.len() == expected {
            Ok(ResolvedCall { call: self, real })
        } else {
            Err(RealPathCount { tool: self.tool.name().to_owned(), expected, got: real.len() })
        }
    }
}

impl DescribedCommand {
    fn new(analysis: Analysis, own: &[ContainerPath]) -> Self {
        let mut paths: BTreeSet<ContainerPath> = own.iter().cloned().collect();
        let mut every_path = true;
        let operands = analysis.facts.iter().flat_map(|facts| &facts.paths);
        for path in operands.chain(analysis.redirects.iter().flatten()).flat_map(PathUse::lookups) {
            if paths.len() < MAX_COMMAND_PATHS {
                paths.insert(path);
            } else if !paths.contains(&path) {
                every_path = false;
                break;
            }
        }
        Self { analysis, paths: paths.into_iter().collect(), every_path }
    }
}

impl PathUse {
    /// What has to be looked up in the container to know where the use leads.
    fn lookups(&self) -> Vec<ContainerPath> {
        match &self.target {
            Target::Known(candidates) => candidates.clone(),
            Target::Glob(patterns) => patterns.iter().filter_map(|pattern| glob_directory(pattern)).collect(),
            Target::Unknown(_) => Vec::new(),
        }
    }
}

/// The directory before the first component of an absolute pattern that is not plain text.
pub(crate) fn glob_directory(pattern: &str) -> Option<ContainerPath> {
    let plain = pattern.find(['*', '?', '[', '\\']).and_then(|end| pattern.get(..end)).unwrap_or(pattern);
    let (directory, _) = plain.rsplit_once('/')?;
    ContainerPath::parse(if directory.is_empty() { "/" } else { directory }).ok()
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

    /// Each path of the call with where it leads.
    pub fn paths(&self) -> impl Iterator<Item = (&ContainerPath, &ContainerPath)> {
        self.call.paths().iter().zip(&self.real)
    }

    /// Digest of the call with its real paths.
    #[must_use]
    pub fn digest(&self) -> CallDigest {
        CallDigest::of(&self.call, self.paths())
    }
}
