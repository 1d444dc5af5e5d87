#![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
#![allow(clippy::indexing_slicing, reason = "a table's row has a fixed form")]

mod commands;
mod dangers;
mod files;
mod laws;

use super::{Access, Facts, Place, Target, examine};
use crate::path::ContainerPath;
use crate::shell::script::{Cwd, Word};
use crate::shell::settings::{Dialect, ShellSettings};
use std::collections::BTreeSet;

fn path(text: &str) -> ContainerPath {
    ContainerPath::parse(text).unwrap()
}

fn settings() -> ShellSettings {
    ShellSettings {
        dialect: Dialect::Bash,
        home: path("/home/agent"),
        workspace: path("/workspace"),
        exported: BTreeSet::new(),
    }
}

/// Words parted by blanks; `_` in one stands for a blank, `g:` begins a glob, `u:` what begins so, `m:` any number of
/// words of which the first begins so, `t:` text that begins with one of these.
fn words(line: &str) -> Vec<Word> {
    line.split_whitespace()
        .map(|word| match word.split_at_checked(2) {
            Some(("g:", rest)) => Word::Glob(rest.into()),
            Some(("u:", rest)) => Word::Unknown { prefix: rest.into(), many: false },
            Some(("m:", rest)) => Word::Unknown { prefix: rest.into(), many: true },
            Some(("t:", rest)) => Word::Text(rest.into()),
            _ => Word::Text(word.replace('_', " ").replace('§', "_").replace('¶', "\n")),
        })
        .collect()
}

fn facts_in(cwd: &str, line: &str) -> Facts {
    let cwd = Cwd::OneOf(vec![path(cwd)]);
    examine(&words(line), &Place { settings: &settings(), cwd: &cwd })
}

fn facts(line: &str) -> Facts {
    facts_in("/workspace", line)
}

/// `R` reads, `E` edits, `L` launcher, nothing for others.
fn kind(facts: &Facts) -> &'static str {
    match (facts.read_only, facts.edits, facts.launcher) {
        (true, false, false) => "R",
        (false, true, false) => "E",
        (false, false, true) => "L",
        (false, false, false) => "-",
        _ => "more than one",
    }
}

fn shown(facts: &Facts) -> String {
    let mut uses: Vec<String> = facts
        .paths
        .iter()
        .map(|used| {
            let access = match used.access {
                Access::Read => "r",
                Access::Write => "w",
                Access::Remove => "x",
            };
            match &used.target {
                Target::Known(paths) => {
                    let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
                    format!("{access}:{}", paths.join("|"))
                }
                Target::Glob(patterns) => format!("{access}g:{}", patterns.join("|")),
                Target::Unknown(prefix) => format!("{access}u:{prefix}"),
            }
        })
        .collect();
    if !facts.paths_known {
        uses.push("?".into());
    }
    uses.join(" ")
}
