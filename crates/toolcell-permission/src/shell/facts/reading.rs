//! Which calls only read: by the table of readers, and for programs with a language of their own by hand.

use super::Kind;
use super::options::{Grammar, Line};
use super::place::Uses;
use super::readers::{Operands, Reader, reader};
use crate::shell::script::{Access, Word};

/// What is known of the call, if the program is one that reads.
pub(super) fn examine(program: &str, arguments: &[Word], uses: &mut Uses<'_>) -> Option<Kind> {
    let reads = match program {
        "echo" | "true" | "false" | ":" | "seq" | "sleep" => true,
        "exit" | "return" | "break" | "continue" | "shift" => at_most_one_number(program, arguments),
        "printf" => printf(arguments),
        "test" | "[" => super::test_command::reads(program, arguments, uses),
        "cd" => cd(arguments, uses),
        "env" => flags_only(arguments, &["-0", "--null"]),
        "command" => lookup(arguments),
        "set" => set(arguments),
        "jobs" => flags_only(arguments, &["-l", "-n", "-p", "-r", "-s"]),
        "dirs" => flags_only(arguments, &["-l", "-p", "-v"]),
        "times" => arguments.is_empty(),
        "umask" => flags_only(arguments, &["-S", "-p"]),
        "ulimit" => arguments.is_empty() || (arguments.len() == 1 && ulimit_asks(arguments)),
        "wait" => arguments.iter().all(|word| word.text().is_some_and(is_job)),
        "hash" => false,
        "xxd" => xxd(arguments, uses),
        "tar" => return Some(super::archives::tar(arguments, uses)),
        "unzip" => return super::archives::unzip(arguments, uses),
        "gzip" | "gunzip" | "bzip2" | "xz" => return super::archives::gzip(arguments, uses),
        "jq" => super::filters::jq(arguments, uses),
        "yq" => super::filters::yq(arguments, uses),
        "dpkg" | "apt-cache" | "apt" | "go" => {
            return packages(program, arguments).then_some(Kind::Reads);
        }
        _ => return reader(program).map(|row| by_table(row, arguments, uses)),
    };
    Some(Kind::reads_if(reads))
}

fn by_table(row: &Reader, arguments: &[Word], uses: &mut Uses<'_>) -> Kind {
    let line = row.grammar.split(arguments);
    let mut fits = !line.unlisted && !line.harmful && (row.any_glob || !line.dashable);
    option_paths(&line, uses);
    match row.operands {
        Operands::None => fits &= line.operands.is_empty(),
        Operands::Data => {}
        Operands::Files => uses.add_all(line.operands.iter().copied(), Access::Read),
        Operands::OneFile => {
            fits &= matches!(line.operands.as_slice(), [] | [Word::Text(_)]);
            let mut operands = line.operands.iter().copied();
            uses.add_all(operands.by_ref().take(1), Access::Read);
            uses.add_all(operands, Access::Write);
        }
        Operands::Tree => tree(&line.operands, uses),
        Operands::Pattern | Operands::PatternTree => pattern(row, &line, uses),
        Operands::Format => {
            fits &= line.operands.iter().all(|word| word.known_prefix().starts_with('+'));
        }
    }
    Kind::reads_if(fits)
}

fn tree(operands: &[&Word], uses: &mut Uses<'_>) {
    if operands.is_empty() {
        uses.add_text(".", Access::Read);
    }
    uses.add_all(operands.iter().copied(), Access::Read);
}

fn pattern(row: &Reader, line: &Line<'_>, uses: &mut Uses<'_>) {
    let elsewhere = match row.name {
        "fd" | "fdfind" => false,
        "rg" => line.has(&["e", "regexp", "f", "file", "files", "type-list"]),
        _ => line.has(&["e", "regexp", "f", "file"]),
    };
    let files = if elsewhere { line.operands.as_slice() } else { line.operands.get(1..).unwrap_or_default() };
    // A glob where the pattern is expected may give the pattern and files.
    if !elsewhere && let Some(glob @ Word::Glob(_)) = line.operands.first() {
        uses.add(glob, Access::Read);
    }
    let recursive =
        row.operands == Operands::PatternTree || line.has(&["r", "R", "recursive", "dereference-recursive"]);
    if recursive { tree(files, uses) } else { uses.add_all(files.iter().copied(), Access::Read) }
}

/// The files that options name. The values of options that are not listed may be files.
pub(super) fn option_paths(line: &Line<'_>, uses: &mut Uses<'_>) {
    use super::options::Takes;
    uses.known &= !line.unclear;
    for given in &line.given {
        let Some(value) = &given.value else { continue };
        match given.takes {
            Takes::Read => uses.add(value, Access::Read),
            Takes::Write => uses.add(value, Access::Write),
            Takes::NotListed => super::paths::value(value, given.long, uses),
            Takes::Nothing | Takes::Glued | Takes::Data => {}
        }
    }
}

fn flags_only(arguments: &[Word], flags: &[&str]) -> bool {
    arguments.iter().all(|word| word.text().is_some_and(|text| flags.contains(&text)))
}

fn at_most_one_number(program: &str, arguments: &[Word]) -> bool {
    let dynamic = matches!(program, "exit" | "return");
    match arguments {
        [] => true,
        [Word::Text(text)] => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()),
        [Word::Unknown { many: false, .. }] => dynamic,
        _ => false,
    }
}

/// Job and process numbers.
fn is_job(text: &str) -> bool {
    let number = text.strip_prefix('%').unwrap_or(text);
    text == "-n" || text == "-f" || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn ulimit_asks(arguments: &[Word]) -> bool {
    let option = arguments.first().and_then(Word::text).and_then(|text| text.strip_prefix('-'));
    option.is_some_and(|letters| !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// The format must be known: `%n` stores into the variable that its argument names, and `-v` into the one named.
fn printf(arguments: &[Word]) -> bool {
    let format = match arguments {
        [Word::Text(dashes), Word::Text(format), ..] if dashes == "--" => format,
        [Word::Text(format), ..] if !format.starts_with('-') => format,
        _ => return false,
    };
    let mut rest = format.as_str();
    while let Some((_, conversion)) = rest.split_once('%') {
        let modifiers = |c: char| {
            c.is_ascii_digit()
                || matches!(c, ' ' | '#' | '+' | '-' | '.' | '*' | '\'' | 'h' | 'j' | 'l' | 'L' | 'q' | 't' | 'z')
        };
        let kind = conversion.trim_start_matches(modifiers);
        if kind.starts_with('n') {
            return false;
        }
        rest = conversion.strip_prefix('%').unwrap_or(conversion);
    }
    true
}

fn cd(arguments: &[Word], uses: &mut Uses<'_>) -> bool {
    let mut operands = arguments;
    while let Some((Word::Text(option), rest)) = operands.split_first()
        && matches!(option.as_str(), "-L" | "-P" | "-e" | "--")
    {
        operands = rest;
    }
    match operands {
        [] => true,
        [Word::Text(text)] if text == "-" => true,
        [word] => {
            uses.add(word, Access::Read);
            matches!(word, Word::Text(text) if !text.starts_with('-'))
        }
        _ => false,
    }
}

/// `command -v`: only asks where a program is.
fn lookup(arguments: &[Word]) -> bool {
    match arguments.split_first() {
        Some((Word::Text(option), _)) => matches!(option.as_str(), "-v" | "-V" | "-pv" | "-pV"),
        Some((Word::Glob(_) | Word::Unknown { .. }, _)) | None => false,
    }
}

/// Options that make a script stricter or more talkative.
fn set(arguments: &[Word]) -> bool {
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let Some(letters) = word.text().and_then(|text| text.strip_prefix(['-', '+'])) else { return false };
        let (letters, named) = letters.strip_suffix('o').map_or((letters, false), |letters| (letters, true));
        if !letters.bytes().all(|letter| matches!(letter, b'e' | b'u' | b'x')) || (letters.is_empty() && !named) {
            return false;
        }
        let known = |name: &str| matches!(name, "pipefail" | "errexit" | "nounset" | "xtrace");
        if named && !rest.next().and_then(Word::text).is_some_and(known) {
            return false;
        }
    }
    !arguments.is_empty()
}

/// Its options are whole words, and a second operand is a file that it writes.
fn xxd(arguments: &[Word], uses: &mut Uses<'_>) -> bool {
    let mut fits = true;
    let mut operands = 0_usize;
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.text() {
            Some("-a" | "-b" | "-C" | "-e" | "-E" | "-i" | "-p" | "-ps" | "-u") => {}
            Some("-c" | "-cols" | "-g" | "-l" | "-len" | "-s" | "-o") => {
                let number = |text: &str| {
                    text.strip_prefix(['-', '+']).unwrap_or(text).starts_with(|c: char| c.is_ascii_digit())
                };
                fits &= rest.next().and_then(Word::text).is_some_and(number);
            }
            Some(option) if option.len() > 1 && option.starts_with('-') => fits = false,
            _ => {
                let access = if operands == 0 { Access::Read } else { Access::Write };
                uses.add(word, access);
                fits &= operands == 0 && word.text().is_some();
                operands = operands.saturating_add(1);
            }
        }
    }
    fits
}

/// Package managers, asked what is there. Those that are programs in python or node are not here: they load what lies in
/// the home directory before they look at their words.
fn packages(program: &str, arguments: &[Word]) -> bool {
    let Some((Word::Text(sub), rest)) = arguments.split_first() else { return false };
    let (short, long, operands) = match (program, sub.as_str()) {
        ("dpkg", "-l" | "-s" | "-L" | "-S" | "--list" | "--status" | "--listfiles" | "--get-selections") => {
            ("", "", true)
        }
        ("apt-cache", "policy" | "show" | "search" | "depends" | "rdepends" | "showpkg") => ("", "names-only", true),
        ("apt", "list") => ("", "installed upgradable all-versions", true),
        ("go", "env") => {
            return rest.iter().all(|word| word.text().is_some_and(|text| !text.starts_with('-') || text == "-json"));
        }
        ("go", "version") => return rest.is_empty(),
        _ => return false,
    };
    // An option of another subcommand must not slip in as a value.
    let line = Grammar { short, long }.split(rest);
    !line.unlisted && !line.harmful && !line.dashable && (operands || line.operands.is_empty())
}
