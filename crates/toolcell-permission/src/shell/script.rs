//! What a script runs, as far as its text tells: the simple commands, and what stands beside them.

use crate::path::ContainerPath;

/// A script, analysed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// Every simple command that may run, in the order of the text; wrappers before what they wrap.
    pub commands: Vec<SimpleCommand>,
    /// Why something in it cannot be known, at most a few of the reasons. Not empty: the script is opaque.
    pub opaque: Vec<String>,
    /// Why a person has to look at how its commands are put together: a download run by a shell, a fork bomb.
    pub dangers: Vec<String>,
}

/// A simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The program and its arguments, at least one word, the first one [`Word::Text`].
    pub words: Vec<Word>,
    /// What a rule has to say about it before the script is allowed.
    pub need: Need,
    /// Why what surrounds it may change what it does: an assignment, a variable that an earlier command exported.
    pub tainted: Option<String>,
    /// Its redirections that open files, and those of the compound commands around it.
    pub redirects: Vec<Redirection>,
    /// Where its standard input comes from.
    pub stdin: Stdin,
    /// Where it runs.
    pub cwd: Cwd,
    /// It runs in a process of a pipeline whose earlier commands are at these places of [`Script::commands`].
    pub fed_by: Vec<usize>,
}

/// What a rule has to say about a command before the script is allowed. Deny and ask rules look at every one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It must be read-only or matched by an allow rule.
    Allow,
    /// It must be matched by an allow rule, never mind what it does: `sudo`, `doas`.
    Explicit,
    /// Nothing: it only runs other commands of this list (`timeout 5 …`), or is a call of the script's own function.
    Nothing,
    /// Nothing, because the `sudo` or `doas` before it is what must be allowed.
    Privileged,
}

/// One word of a command, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Known to the letter.
    Text(String),
    /// A glob: the file names that match it, or itself. What was quoted in it is escaped by a backslash.
    Glob(String),
    /// Not known but for how it begins.
    Unknown {
        /// How it begins.
        prefix: String,
        /// It may be any number of words, none included.
        many: bool,
    },
}

impl Word {
    /// The text, if it is known.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Glob(_) | Self::Unknown { .. } => None,
        }
    }

    /// What it certainly begins with.
    #[must_use]
    pub fn known_prefix(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Glob(pattern) => {
                let end = pattern.find(['*', '?', '[', '\\']).unwrap_or(pattern.len());
                pattern.get(..end).unwrap_or_default()
            }
            Self::Unknown { prefix, .. } => prefix,
        }
    }
}

/// A file that a redirection opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirection {
    /// What for.
    pub access: Access,
    /// Which.
    pub target: Word,
    /// Where a relative one starts: before a `cd` of the command itself.
    pub cwd: Cwd,
}

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// Read.
    Read,
    /// Created, changed.
    Write,
    /// Removed or moved away, with what is in it.
    Remove,
}

/// Where standard input comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// From the call: closed, unless `input.stdin` is given.
    Inherited,
    /// From the earlier commands of the pipeline.
    Pipe,
    /// From a file.
    File(Word),
    /// This text.
    Text(String),
    /// Not known.
    Unknown,
}

/// The working directory, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cwd {
    /// One of these; sorted, each once, at least one.
    OneOf(Vec<ContainerPath>),
    /// Anywhere.
    Unknown,
}
