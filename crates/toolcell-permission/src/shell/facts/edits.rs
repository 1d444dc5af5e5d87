//! Plain file commands: their whole effect is on the files that they name.

use super::Kind;
use super::options::{Grammar, Line};
use super::place::{Uses, escape};
use super::reading::option_paths;
use crate::shell::script::{Access, Word};
use std::borrow::Cow;

pub(super) const RM: Grammar = Grammar {
    short: "dfiIrRv",
    long: "dir force interactive? no-preserve-root! one-file-system preserve-root? recursive verbose help version",
};

const CP: Grammar = Grammar {
    short: "abdfHilLnPpRrsS:!t>TuvxZ",
    long: "archive attributes-only backup? copy-contents debug dereference no-dereference force interactive link \
        no-clobber no-preserve: no-target-directory one-file-system parents preserve? recursive reflink? \
        remove-destination sparse: strip-trailing-slashes suffix:! symbolic-link target-directory> update? verbose",
};

const MV: Grammar = Grammar {
    short: "bfinS:!t>TuvZ",
    long: "backup? debug force interactive no-clobber no-target-directory strip-trailing-slashes suffix:! \
        target-directory> update? verbose",
};

const LN: Grammar = Grammar {
    short: "bfiLnPrsS:!t>Tv",
    long: "backup? force interactive logical no-dereference physical relative suffix:! symbolic target-directory> \
        no-target-directory verbose",
};

const MKDIR: Grammar = Grammar { short: "m:pvZ", long: "mode: parents verbose" };
const TOUCH: Grammar = Grammar { short: "acd:fhmr<t:", long: "date: no-create no-dereference reference< time:" };
const TEE: Grammar = Grammar { short: "aip", long: "append ignore-interrupts output-error?" };
// `-p` also removes the directories above.
const RMDIR: Grammar = Grammar { short: "p!v", long: "parents! verbose ignore-fail-on-non-empty" };
pub(super) const CHMOD: Grammar = Grammar {
    short: "cfRvHLP",
    long: "changes silent quiet verbose recursive reference< preserve-root no-preserve-root! dereference no-dereference",
};

/// What is known of the call, if the program is a plain file command.
pub(super) fn examine(program: &str, arguments: &[Word], uses: &mut Uses<'_>) -> Option<Kind> {
    let (grammar, access) = match program {
        "mkdir" => (MKDIR, Access::Write),
        "touch" => (TOUCH, Access::Write),
        "tee" => (TEE, Access::Write),
        "rm" => (RM, Access::Remove),
        "rmdir" => (RMDIR, Access::Remove),
        "cp" => return Some(transfer(CP, Access::Read, arguments, uses)),
        "mv" => return Some(transfer(MV, Access::Remove, arguments, uses)),
        "ln" => return Some(link(arguments, uses)),
        "chmod" => return Some(chmod(arguments, uses)),
        _ => return None,
    };
    let line = grammar.split(arguments);
    option_paths(&line, uses);
    uses.add_all(line.operands.iter().copied(), access);
    let forced = program == "rm" && line.has(&["r", "R", "recursive"]) && line.has(&["f", "force"]);
    Some(Kind::edits_if(plain(&line) && !forced))
}

fn plain(line: &Line<'_>) -> bool {
    !line.unlisted && !line.harmful && !line.dashable
}

/// `cp` and `mv`: sources, then where they go.
fn transfer(grammar: Grammar, source_access: Access, arguments: &[Word], uses: &mut Uses<'_>) -> Kind {
    let line = grammar.split(arguments);
    option_paths(&line, uses);
    let directory = line.values(&["t", "target-directory"]).last();
    let (sources, destination) = match (directory, line.operands.split_last()) {
        (Some(directory), _) => (line.operands.as_slice(), Some(directory)),
        (None, Some((last, sources))) => (sources, Some(*last)),
        (None, None) => (line.operands.as_slice(), None),
    };
    uses.add_all(sources.iter().copied(), source_access);
    if let Some(destination) = destination {
        if directory.is_none() {
            uses.add(destination, Access::Write);
        }
        for source in sources {
            let whole = line.has(&["parents"]);
            if let Some(inside) = inside(destination, source, whole) {
                uses.add(&inside, Access::Write);
            }
        }
    }
    Kind::edits_if(plain(&line) && !sources.is_empty())
}

/// The file that a source becomes in a directory: its last name, or its whole path. What is unknown of either is
/// unknown already.
fn inside(directory: &Word, source: &Word, whole: bool) -> Option<Word> {
    let (name, glob) = match source {
        Word::Text(text) => (text.as_str(), false),
        Word::Glob(pattern) => (pattern.as_str(), true),
        Word::Unknown { .. } => return None,
    };
    let name = name.trim_end_matches('/');
    let name = if whole { name } else { name.rsplit('/').next().unwrap_or(name) };
    if matches!(name, "" | "." | "..") {
        return None;
    }
    match directory {
        Word::Text(text) if !glob => Some(Word::Text(format!("{text}/{name}"))),
        Word::Text(text) => Some(Word::Glob(format!("{}/{name}", escape(text)))),
        Word::Glob(pattern) if glob => Some(Word::Glob(format!("{pattern}/{name}"))),
        Word::Glob(pattern) => Some(Word::Glob(format!("{pattern}/{}", escape(name)))),
        Word::Unknown { .. } => None,
    }
}

/// `ln`: what a link leads to counts as read. A relative symbolic link starts where the link is.
fn link(arguments: &[Word], uses: &mut Uses<'_>) -> Kind {
    let line = LN.split(arguments);
    option_paths(&line, uses);
    let here = Word::Text(".".to_owned());
    let directory = line.values(&["t", "target-directory"]).last();
    let (targets, link) = match (directory, line.operands.as_slice()) {
        (Some(directory), targets) => (targets, Cow::Borrowed(directory)),
        (None, targets @ [_]) => (targets, Cow::Borrowed(&here)),
        (None, operands) => match operands.split_last() {
            Some((last, targets)) => (targets, Cow::Borrowed(*last)),
            None => (operands, Cow::Borrowed(&here)),
        },
    };
    let symbolic = line.has(&["s", "symbolic"]) && !line.has(&["r", "relative"]);
    let named = line.operands.len() > 1 && directory.is_none();
    if named {
        uses.add(&link, Access::Write);
    }
    for target in targets {
        uses.add(target, Access::Read);
        if let Some(inside) = inside(&link, target, false) {
            uses.add(&inside, Access::Write);
        }
        if symbolic && !target.known_prefix().starts_with('/') {
            starts_at_link(&link, target, named, uses);
        }
    }
    Kind::edits_if(plain(&line) && !targets.is_empty())
}

/// The last operand may be the link or a directory for it.
fn starts_at_link(link: &Word, target: &Word, named: bool, uses: &mut Uses<'_>) {
    if let Some(within) = inside(link, target, true) {
        uses.add(&within, Access::Read);
    }
    let parent = match link.text() {
        _ if !named => None,
        Some(text) => Some(text.trim_end_matches('/').rsplit_once('/').map_or(".", |(parent, _)| parent)),
        None => None,
    };
    // The parent of `/x` is the root.
    let parent = parent.map(|parent| Word::Text(if parent.is_empty() { "/".to_owned() } else { parent.to_owned() }));
    if let Some(within) = parent.and_then(|parent| inside(&parent, target, true)) {
        uses.add(&within, Access::Read);
    }
}

/// `chmod`: its mode may look like an option (`-x`).
fn chmod(arguments: &[Word], uses: &mut Uses<'_>) -> Kind {
    let words = chmod_words(arguments);
    let line = CHMOD.split(&words);
    option_paths(&line, uses);
    let files = match line.has(&["reference"]) {
        true => line.operands.as_slice(),
        false => line.operands.get(1..).unwrap_or_default(),
    };
    // A glob for the mode gives a mode and files.
    let mode_known = line.operands.first().is_none_or(|mode| mode.text().is_some()) || line.has(&["reference"]);
    uses.known &= mode_known;
    uses.add_all(files.iter().copied(), Access::Write);
    Kind::edits_if(plain(&line) && mode_known && !files.is_empty())
}

/// The words with a mode like `-x` written as `a-x`, which is no option.
pub(super) fn chmod_words(arguments: &[Word]) -> Cow<'_, [Word]> {
    let is_mode = |text: &str| {
        text.strip_prefix('-')
            .is_some_and(|mode| mode.starts_with(['r', 'w', 'x', 'X', 's', 't']) && !mode.contains(['R', 'v', 'f']))
    };
    let Some(at) = arguments.iter().position(|word| word.text().is_some_and(is_mode)) else {
        return Cow::Borrowed(arguments);
    };
    let dashes = arguments.iter().position(|word| word.text() == Some("--"));
    if dashes.is_some_and(|dashes| dashes < at) {
        return Cow::Borrowed(arguments);
    }
    let mut words = arguments.to_vec();
    let mode = words.remove(at);
    // It is the mode wherever it stands.
    let first = Word::Text(format!("a{}", mode.text().unwrap_or_default()));
    words.insert(0, first);
    Cow::Owned(words)
}
