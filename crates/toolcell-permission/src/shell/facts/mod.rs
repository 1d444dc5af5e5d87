//! What is known of programs: which of their calls only read, which edit plain files, which paths they touch, and
//! which of them are dangerous.

use super::script::Access;
use crate::path::ContainerPath;

/// What is known of one simple command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// It only reads: the program is on the read-only list, and every option is on that program's own list.
    pub read_only: bool,
    /// It is a plain file command (`mkdir`, `cp`, `sed -i` …) whose every effect is in `paths`.
    pub edits: bool,
    /// Files that it names.
    pub paths: Vec<PathUse>,
    /// `paths` is all: no operand that is a path is unknown.
    pub paths_known: bool,
    /// Why a person has to look at it, in words for that person.
    pub danger: Option<String>,
    /// It runs what no rule sees: an interpreter's own code, a build tool's targets, an editor.
    pub launcher: bool,
}

/// A file that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathUse {
    /// Which.
    pub target: Target,
    /// What is done with it.
    pub access: Access,
}

/// Which file a word names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One of these: more than one if the working directory is one of several.
    Known(Vec<ContainerPath>),
    /// What matches: absolute, normalised, in the shell's pattern syntax.
    Glob(Vec<String>),
    /// It begins so, made absolute where the working directory is known; the rest is not known.
    Unknown(String),
}
