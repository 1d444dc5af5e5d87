//! Archives: listing one only reads.

use super::Kind;
use super::options::Grammar;
use super::place::Uses;
use super::reading::option_paths;
use crate::shell::script::{Access, Word};
use std::borrow::Cow;

const LISTING: Grammar = Grammar {
    short: "tvzjJf<C<",
    long: "list verbose gzip bzip2 xz zstd auto-compress file< directory< exclude: wildcards totals full-time \
        numeric-owner",
};

const WRITING: Grammar = Grammar {
    short: "cxruAdtvzjJahpkOPmSWf>C>T<X<g>!b:N:I:!F:!",
    long: "create extract get append update concatenate delete diff compare list verbose gzip bzip2 xz zstd \
        auto-compress file> directory> files-from< exclude-from< exclude: wildcards strip-components: transform: \
        to-command:! checkpoint-action:! checkpoint? use-compress-program:! owner: group: mode: mtime:",
};

/// `tar`. Only `t` reads; an archive with a colon in its name is on another machine.
pub(super) fn tar(arguments: &[Word], uses: &mut Uses<'_>) -> Kind {
    let words = with_dash(arguments);
    let listing = LISTING.split(&words);
    if !listing.unlisted && !listing.dashable && listing.has(&["t", "list"]) {
        let here = |word: &Word| word.text().is_some_and(|text| !text.contains(':'));
        let local = listing.values(&["f", "file"]).all(here);
        option_paths(&listing, uses);
        return Kind::reads_if(local);
    }
    let line = WRITING.split(&words);
    let creates = line.has(&["c", "create", "r", "append", "u", "update", "A", "concatenate", "d", "diff", "compare"]);
    let access = if creates { Access::Read } else { Access::Write };
    let lists = line.has(&["t", "list"]);
    uses.known &= !line.unclear;
    for given in &line.given {
        let Some(value) = &given.value else { continue };
        match given.name {
            "f" | "file" if creates => uses.add(value, Access::Write),
            "f" | "file" | "T" | "files-from" | "X" | "exclude-from" => uses.add(value, Access::Read),
            "C" | "directory" => uses.add(value, access),
            "g" => uses.add(value, Access::Write),
            _ if given.takes == super::options::Takes::NotListed => super::paths::value(value, given.long, uses),
            _ => {}
        }
    }
    if !lists {
        uses.add_all(line.operands.iter().copied(), access);
    }
    if line.has(&["x", "extract", "get"]) && !line.has(&["C", "directory"]) {
        uses.add_text(".", Access::Write);
    }
    Kind::Other
}

/// The old style has its letters without a dash. Their values come as words of their own, in order, which is what a
/// dash means as well as long as a single letter with a value stands last.
fn with_dash(arguments: &[Word]) -> Cow<'_, [Word]> {
    let Some((Word::Text(letters), rest)) = arguments.split_first() else { return Cow::Borrowed(arguments) };
    if letters.is_empty() || letters.starts_with('-') {
        return Cow::Borrowed(arguments);
    }
    let plain: String = letters.chars().filter(|letter| !"fCTXgbNIF".contains(*letter)).collect();
    let mut words = Vec::with_capacity(arguments.len().saturating_add(4));
    if !plain.is_empty() {
        words.push(Word::Text(format!("-{plain}")));
    }
    let mut rest = rest.iter();
    for letter in letters.chars().filter(|letter| "fCTXgbNIF".contains(*letter)) {
        words.push(Word::Text(format!("-{letter}")));
        words.extend(rest.next().cloned());
    }
    words.extend(rest.cloned());
    Cow::Owned(words)
}

/// `unzip -l`, `-v`, `-Z`: lists. Its options stand where they like, so no operand may look like one.
pub(super) fn unzip(arguments: &[Word], uses: &mut Uses<'_>) -> Option<Kind> {
    let (Word::Text(mode), rest) = arguments.split_first()? else { return None };
    if !matches!(mode.as_str(), "-l" | "-lv" | "-v" | "-Z" | "-Z1" | "-t" | "-tq") {
        return None;
    }
    let plain = |word: &Word| !word.known_prefix().is_empty() && !word.known_prefix().starts_with('-');
    if !rest.iter().all(plain) {
        return None;
    }
    uses.add_all(rest.iter().take(1), Access::Read);
    Some(Kind::reads_if(!rest.is_empty()))
}

/// `gzip -l`, `-t`: lists or tests.
pub(super) fn gzip(arguments: &[Word], uses: &mut Uses<'_>) -> Option<Kind> {
    let line = Grammar { short: "ltvq", long: "list test verbose quiet" }.split(arguments);
    let asks = line.has(&["l", "t", "list", "test"]) && !line.unlisted && !line.dashable && !line.operands.is_empty();
    if asks {
        uses.add_all(line.operands.iter().copied(), Access::Read);
    }
    asks.then_some(Kind::Reads)
}
