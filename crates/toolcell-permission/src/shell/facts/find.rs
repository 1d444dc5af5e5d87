//! `find`: its own words. What `-exec` runs is a command of its own and looked at as one.

use super::place::Uses;
use super::{Kind, PathUse};
use crate::danger::{Pattern, could_be_dangerous, single_names};
use crate::shell::script::{Access, Word};

/// A call of `find`, taken apart.
#[derive(Debug, Default)]
struct Search<'w> {
    starts: Vec<&'w Word>,
    patterns: Vec<&'w Word>,
    regexes: Vec<&'w Word>,
    /// It has tests, so that it does not act on everything it finds.
    filtered: bool,
    deletes: bool,
    runs: bool,
    /// Something that is not on the list of what only looks.
    beyond: bool,
}

/// What a word of the expression takes.
enum Takes {
    Nothing,
    Data,
    File,
    Pattern,
    Regex,
}

fn looking(word: &str) -> Option<Takes> {
    Some(match word {
        "!"
        | "("
        | ")"
        | ","
        | "-a"
        | "-and"
        | "-o"
        | "-or"
        | "-not"
        | "-true"
        | "-false"
        | "-print"
        | "-print0"
        | "-ls"
        | "-prune"
        | "-quit"
        | "-depth"
        | "-d"
        | "-mount"
        | "-xdev"
        | "-daystart"
        | "-follow"
        | "-noleaf"
        | "-warn"
        | "-nowarn"
        | "-ignore_readdir_race"
        | "-noignore_readdir_race"
        | "-empty"
        | "-executable"
        | "-readable"
        | "-writable"
        | "-nogroup"
        | "-nouser" => Takes::Nothing,
        "-maxdepth" | "-mindepth" | "-regextype" | "-printf" | "-amin" | "-cmin" | "-mmin" | "-atime" | "-ctime"
        | "-mtime" | "-fstype" | "-gid" | "-uid" | "-group" | "-user" | "-inum" | "-links" | "-perm" | "-size"
        | "-type" | "-xtype" | "-used" | "-context" => Takes::Data,
        "-newer" | "-anewer" | "-cnewer" | "-samefile" | "-files0-from" => Takes::File,
        "-name" | "-iname" | "-path" | "-ipath" | "-wholename" | "-iwholename" | "-lname" | "-ilname" => Takes::Pattern,
        "-regex" | "-iregex" => Takes::Regex,
        _ if word.starts_with("-newer") && word.len() == 8 => Takes::File,
        _ => return None,
    })
}

pub(super) fn examine(arguments: &[Word], uses: &mut Uses<'_>) -> Kind {
    let search = read(arguments, uses);
    let access = match (search.deletes, search.filtered) {
        (true, false) => Access::Remove,
        (true, true) => Access::Write,
        (false, _) => Access::Read,
    };
    if search.starts.is_empty() {
        uses.add_text(".", access);
    }
    uses.add_all(search.starts.iter().copied(), access);
    if search.deletes || search.runs {
        found(&search, uses);
    }
    Kind::reads_if(!search.beyond && !search.deletes && !search.runs)
}

/// Whether it deletes everything that it finds.
pub(super) fn deletes_everything(arguments: &[Word], uses: &Uses<'_>) -> bool {
    let search = read(arguments, &mut Uses::new(uses.place));
    search.deletes && !search.filtered
}

fn read<'w>(arguments: &'w [Word], uses: &mut Uses<'_>) -> Search<'w> {
    let mut search = Search::default();
    let mut rest = arguments.iter().peekable();
    // Options come first, then where to start.
    while rest.next_if(|word| matches!(word.text(), Some("-H" | "-L" | "-P" | "-O1" | "-O2" | "-O3" | "--"))).is_some()
    {
    }
    let begins = |text: &str| text.starts_with('-') || matches!(text, "(" | "!" | ",");
    while let Some(word) = rest.next_if(|word| !begins(word.known_prefix())) {
        // A name that begins with a dash would be part of the expression.
        search.beyond |= word.known_prefix().is_empty();
        search.starts.push(word);
    }
    while let Some(word) = rest.next() {
        let Some(text) = word.text() else {
            search.beyond = true;
            uses.known = false;
            continue;
        };
        search.filtered |=
            !matches!(text, "-delete" | "-depth" | "-d" | "-mindepth" | "-print" | "-mount" | "-xdev" | "-true");
        match text {
            "-delete" => search.deletes = true,
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                search.runs = true;
                while let Some(part) = rest.next() {
                    let brace = part.text() == Some("{}");
                    if part.text() == Some(";") || (brace && rest.next_if(|next| next.text() == Some("+")).is_some()) {
                        break;
                    }
                }
            }
            "-fprint" | "-fprint0" | "-fls" => {
                search.beyond = true;
                uses.add_all(rest.next(), Access::Write);
            }
            "-fprintf" => {
                search.beyond = true;
                uses.add_all(rest.next(), Access::Write);
                rest.next();
            }
            _ => match looking(text) {
                Some(takes) => argument(&takes, &mut rest, &mut search, uses),
                None => search.beyond = true,
            },
        }
    }
    search
}

fn argument<'w>(
    takes: &Takes,
    rest: &mut impl Iterator<Item = &'w Word>,
    search: &mut Search<'w>,
    uses: &mut Uses<'_>,
) {
    if matches!(takes, Takes::Nothing) {
        return;
    }
    let Some(value) = rest.next() else {
        search.beyond = true;
        return;
    };
    // An unquoted pattern may become several words, the others of which are part of the expression. Those cannot
    // begin with a dash if it does not begin with a wildcard; with one, only hand-made names do.
    let pattern = matches!(takes, Takes::Pattern | Takes::Regex);
    match value {
        Word::Text(_) => {}
        Word::Glob(_) if pattern && !value.known_prefix().is_empty() => {}
        Word::Glob(_) | Word::Unknown { .. } => search.beyond = true,
    }
    match takes {
        Takes::Nothing | Takes::Data => {}
        Takes::File => uses.add(value, Access::Read),
        Takes::Pattern => search.patterns.push(value),
        Takes::Regex => search.regexes.push(value),
    }
}

/// What it finds goes to a command or is deleted, so names that it looks for count as named.
fn found(search: &Search<'_>, uses: &mut Uses<'_>) {
    let access = if search.deletes { Access::Remove } else { Access::Read };
    for pattern in &search.patterns {
        let text = match pattern {
            Word::Text(text) | Word::Glob(text) => text.as_str(),
            Word::Unknown { .. } => continue,
        };
        let last = text.rsplit('/').next().unwrap_or(text);
        match hidden(last) {
            Some(name) if !could_be_dangerous(text) => uses.add_text(name, access),
            Some(_) | None => {
                let relative = text.trim_start_matches("*/").trim_start_matches('/');
                let named = if could_be_dangerous(text) { relative } else { last };
                let target = uses.place.target(&Word::Glob(named.to_owned()));
                uses.paths.push(PathUse { target, access });
            }
        }
    }
    for regex in &search.regexes {
        let plain: String = regex.known_prefix().chars().filter(|c| *c != '\\').collect();
        if let Some(name) = single_names().find(|name| plain.contains(*name)) {
            uses.add_text(name, access);
        }
    }
}

/// The first dangerous name that the pattern matches the way `find` does, to which a leading dot is nothing special.
/// A pattern that matches nearly everything is not about that name.
fn hidden(pattern: &str) -> Option<&'static str> {
    let pattern = Pattern::read(pattern);
    let exact = |name: &&str| *name != ".env.local" && pattern.matches(name);
    (!pattern.is_everything()).then(|| single_names().find(exact)).flatten()
}
