//! `jq` and `yq`: a filter, then files.

use super::options::Grammar;
use super::place::Uses;
use super::reading::option_paths;
use crate::shell::script::{Access, Word};

/// Whether the filter loads modules or data from files that its text names.
fn imports(filter: &str) -> bool {
    let names_file = |(at, word): (usize, &str)| {
        let after = filter.get(at.saturating_add(word.len())..).unwrap_or_default();
        after.trim_start().starts_with(['"', '#'])
    };
    filter.match_indices("import").chain(filter.match_indices("include")).any(names_file)
}

/// `jq` has options with two values, and reads its own options whole or in clusters without values.
pub(super) fn jq(arguments: &[Word], uses: &mut Uses<'_>) -> bool {
    let mut fits = true;
    let (mut filter, mut dashes, mut files) = (false, false, true);
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let option = word.text().filter(|text| !dashes && text.len() > 1 && text.starts_with('-'));
        match option {
            None => {
                // A glob in front may give an option, one in the filter's place may give files.
                fits &= filter || word.text().is_some();
                fits &= dashes || !word.known_prefix().is_empty() || word.text().is_some();
                if !filter {
                    fits &= !word.text().is_some_and(imports);
                    filter = true;
                } else if files {
                    uses.add(word, Access::Read);
                }
            }
            Some("--") => dashes = true,
            Some("--arg" | "--argjson") => {
                fits &= rest.next().and_then(Word::text).is_some() && rest.next().and_then(Word::text).is_some();
            }
            Some("--slurpfile" | "--rawfile") => {
                fits &= rest.next().and_then(Word::text).is_some();
                match rest.next() {
                    Some(file) => uses.add(file, Access::Read),
                    None => fits = false,
                }
            }
            Some("--args" | "--jsonargs") => files = false,
            Some("--indent") => fits &= rest.next().and_then(Word::text).is_some(),
            Some("-f" | "--from-file") => match rest.next() {
                Some(file) => {
                    uses.add(file, Access::Read);
                    filter = true;
                }
                None => fits = false,
            },
            Some(long) if long.starts_with("--") => {
                fits &= matches!(
                    long,
                    "--null-input"
                        | "--raw-input"
                        | "--slurp"
                        | "--compact-output"
                        | "--raw-output"
                        | "--join-output"
                        | "--ascii-output"
                        | "--sort-keys"
                        | "--color-output"
                        | "--monochrome-output"
                        | "--tab"
                        | "--unbuffered"
                        | "--exit-status"
                        | "--stream"
                        | "--seq"
                        | "--raw-output0"
                        | "--help"
                        | "--version"
                );
            }
            Some(short) => {
                let letters = short.trim_start_matches('-');
                fits &= letters.bytes().all(|letter| b"nRscrjaSCMeh".contains(&letter));
            }
        }
    }
    fits
}

/// `yq`: no writing in place, no splitting into files, no operators that load other files or evaluate text.
pub(super) fn yq(arguments: &[Word], uses: &mut Uses<'_>) -> bool {
    let grammar = Grammar {
        short: "rPCMjneNi!s:!o:p:I:",
        long: "prettyPrint colors no-colors tojson null-input exit-status no-doc inplace! in-place! split-exp:! \
            output-format: input-format: indent: unwrapScalar? raw-output help version",
    };
    let words = match arguments.split_first() {
        Some((Word::Text(sub), rest)) if matches!(sub.as_str(), "e" | "eval" | "ea" | "eval-all") => rest,
        _ => arguments,
    };
    let line = grammar.split(words);
    option_paths(&line, uses);
    let access = if line.harmful { Access::Write } else { Access::Read };
    let filter = line.operands.first().copied();
    uses.add_all(line.operands.iter().copied().skip(1), access);
    // With one operand it may be the file.
    if line.operands.len() == 1
        && let Some(only) = filter
    {
        uses.add(only, access);
    }
    let plain =
        filter.is_none_or(|word| word.text().is_some_and(|text| !text.contains("load") && !text.contains("eval")));
    plain && !line.unlisted && !line.harmful && !line.dashable
}
