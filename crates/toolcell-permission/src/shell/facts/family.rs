//! Families of commands that may be suggested as a rule.

use super::base_name;
use crate::shell::script::Word;

/// A family of commands: what begins with these words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// How many words name it.
    pub words: usize,
    /// Only with nothing behind them: further words may make the program run something else (`make check SHELL=…`).
    pub exact: bool,
}

/// The family that the command belongs to, if there is one that is sensible to allow as a whole: a subcommand with one
/// purpose, or a script or target that has a name. Never what starts anything (`python3`, `npm run`, `make`).
#[must_use]
pub fn family(words: &[Word]) -> Option<Family> {
    let mut texts = words.iter().map_while(Word::text);
    let program = texts.next()?;
    if base_name(program) != program {
        return None;
    }
    let open = |words| Some(Family { words, exact: false });
    let exact = |words: usize, all: usize| (words == all).then_some(Family { words, exact: true });
    let first = texts.next();
    let second = texts.next();
    let named = |word: Option<&str>| word.is_some_and(is_name);
    match (program, first?) {
        ("npm" | "pnpm" | "yarn" | "bun", "run" | "run-script") if named(second) => open(3),
        ("npm" | "pnpm" | "yarn", "test" | "audit" | "outdated" | "ls" | "view") => open(2),
        ("make" | "gmake" | "just" | "task" | "rake" | "ninja", target) if is_name(target) => exact(2, words.len()),
        ("gradle" | "mvn" | "tox", target) if is_name(target) => exact(2, words.len()),
        (
            "cargo",
            "test" | "build" | "check" | "clippy" | "fmt" | "doc" | "bench" | "tree" | "metadata" | "nextest",
        ) => open(2),
        ("go", "test" | "fmt" | "doc") => open(2),
        (
            "git",
            "add" | "commit" | "checkout" | "switch" | "restore" | "merge" | "stash" | "branch" | "tag" | "mv" | "rm"
            | "cherry-pick" | "revert" | "reset" | "init",
        ) => open(2),
        ("ruff", "check" | "format")
        | ("kubectl", "get" | "describe" | "logs")
        | ("docker", "ps" | "images" | "logs") => open(2),
        ("terraform", "validate" | "fmt") | ("pip" | "pip3", "list" | "show" | "freeze") => open(2),
        ("gh", "pr" | "issue" | "run" | "repo") if matches!(second, Some("list" | "view" | "status" | "diff")) => {
            open(3)
        }
        ("mkdir" | "touch" | "black" | "gofmt" | "tsc", _) => open(1),
        _ => None,
    }
}

/// A script's or target's name: no option, no assignment, no path.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-:.".contains(&byte))
}
