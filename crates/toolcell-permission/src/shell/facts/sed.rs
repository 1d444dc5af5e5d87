//! `sed`: reads without `-i`, edits files with it.

use super::Kind;
use super::options::{Grammar, Line};
use super::place::Uses;
use super::reading::option_paths;
use super::sed_script::is_plain;
use crate::shell::script::{Access, Word};

const GRAMMAR: Grammar = Grammar {
    short: "nEre:f<i?suzl:",
    long: "quiet silent regexp-extended expression: file< in-place? separate unbuffered null-data line-length: posix \
        debug help version",
};

pub(super) fn examine(arguments: &[Word], uses: &mut Uses<'_>) -> Kind {
    let line = GRAMMAR.split(arguments);
    option_paths(&line, uses);
    let in_place = line.has(&["i", "in-place"]);
    let given = line.has(&["e", "expression", "f", "file"]);
    let files = if given { line.operands.as_slice() } else { line.operands.get(1..).unwrap_or_default() };
    let access = if in_place { Access::Write } else { Access::Read };
    uses.add_all(files.iter().copied(), access);
    if !given && let Some(glob @ Word::Glob(_)) = line.operands.first() {
        uses.add(glob, access);
    }
    let suffixes_fit = backups(&line, files, uses);
    if line.unlisted || line.dashable || !suffixes_fit || !scripts_are_plain(&line, given) {
        return Kind::Other;
    }
    if in_place { Kind::edits_if(!files.is_empty()) } else { Kind::Reads }
}

fn scripts_are_plain(line: &Line<'_>, given: bool) -> bool {
    if line.has(&["f", "file"]) {
        return false;
    }
    if given {
        // Each is whole: a script that goes on in the next one is not plain.
        return line.values(&["e", "expression"]).all(|script| script.text().is_some_and(is_plain));
    }
    match line.operands.first() {
        Some(script) => script.text().is_some_and(is_plain),
        None => line.has(&["help", "version"]),
    }
}

/// `-i.bak` keeps the old files beside the new ones. A suffix with `*` or `/` puts them elsewhere.
fn backups(line: &Line<'_>, files: &[&Word], uses: &mut Uses<'_>) -> bool {
    let mut fits = true;
    let kept = |suffix: &Word| suffix.text().is_some_and(|suffix| !suffix.contains(['/', '*']));
    if !line.values(&["i", "in-place"]).all(kept) {
        fits = false;
        uses.known = false;
    }
    // Of several the last one counts.
    let last = line.values(&["i", "in-place"]).last();
    if let Some(suffix) = last.and_then(Word::text).filter(|_| fits) {
        for file in files {
            match file {
                Word::Text(text) => uses.add_text(&format!("{text}{suffix}"), Access::Write),
                Word::Glob(pattern) => uses.add(&Word::Glob(format!("{pattern}{suffix}")), Access::Write),
                Word::Unknown { .. } => {}
            }
        }
    }
    fits
}
