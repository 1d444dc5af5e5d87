//! What is known of programs: which of their calls only read, which edit plain files, which paths they touch, and
//! which of them are dangerous.
//!
//! Everything here is said of one simple command whose words are expanded and whose wrappers are unwound. What is not
//! in a table is not known: it is neither read-only nor a plain edit, and each of its operands may be a path.

use super::script::{Access, Word};
use crate::path::ContainerPath;

mod archives;
mod danger;
mod edits;
mod family;
mod filters;
mod find;
mod git;
mod git_tables;
mod launchers;
mod options;
mod paths;
mod place;
mod readers;
mod reading;
mod sed;
mod sed_script;
mod test_command;
#[cfg(test)]
mod tests;
mod variables;

pub(in crate::shell) use danger::is_download;
pub use danger::{danger_in_pipeline, redirect_danger, removes_dangerous};
pub use family::{Family, family};
pub use place::{Place, redirect};
pub use variables::{is_harmless_variable, is_special_variable};

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

/// What kind of call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reads,
    Edits,
    Other,
}

impl Kind {
    fn reads_if(holds: bool) -> Self {
        if holds { Self::Reads } else { Self::Other }
    }

    fn edits_if(holds: bool) -> Self {
        if holds { Self::Edits } else { Self::Other }
    }
}

/// What is known of the command with these words.
#[must_use]
pub fn examine(words: &[Word], place: &Place<'_>) -> Facts {
    let Some((first, arguments)) = words.split_first() else { return Facts::default() };
    let Some(name) = first.text() else { return Facts::default() };
    let program = base_name(name);
    let mut uses = place::Uses::new(*place);
    if program != name {
        uses.add(first, Access::Read);
    }
    let mut kind =
        if launchers::asks_version(program, arguments) { Kind::Reads } else { classify(program, arguments, &mut uses) };
    // The tables speak of the programs that `PATH` finds.
    if program != name {
        kind = Kind::Other;
    }
    if kind == Kind::Reads && !takes_unknown_data(program) {
        kind = Kind::reads_if(!arguments.iter().any(|word| matches!(word, Word::Unknown { .. })));
    }
    let danger = danger::of_command(program, arguments, &uses);
    Facts {
        read_only: kind == Kind::Reads,
        edits: kind == Kind::Edits && uses.known && !uses.paths.is_empty(),
        launcher: kind == Kind::Other && launchers::is_launcher(program, arguments),
        paths: uses.paths,
        paths_known: uses.known,
        danger,
    }
}

fn classify(program: &str, arguments: &[Word], uses: &mut place::Uses<'_>) -> Kind {
    match program {
        "git" => git::examine(arguments, uses),
        "find" => find::examine(arguments, uses),
        "sed" | "gsed" => sed::examine(arguments, uses),
        _ => reading::examine(program, arguments, uses)
            .or_else(|| edits::examine(program, arguments, uses))
            .unwrap_or_else(|| paths::examine(program, arguments, uses)),
    }
}

/// Programs for which an unknown word is data wherever their own check lets it stand.
fn takes_unknown_data(program: &str) -> bool {
    matches!(program, "echo" | "printf" | "test" | "[" | "true" | "false" | ":" | "exit" | "return" | "sleep" | "seq")
}

/// A program without the directory it lies in.
fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
