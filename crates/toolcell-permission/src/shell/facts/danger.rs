//! Calls that a person has to look at whatever the mode.

use super::edits::{CHMOD, RM, chmod_words};
use super::options::Grammar;
use super::place::Uses;
use super::{PathUse, Target, base_name, find, git};
use crate::danger::{Pattern, target_is_dangerous};
use crate::path::ContainerPath;
use crate::shell::script::{Access, SimpleCommand, Word};
use crate::shell::settings::ShellSettings;
use std::collections::HashSet;

/// Why a person has to look at the call, if one has to.
pub(super) fn of_command(program: &str, arguments: &[Word], uses: &Uses<'_>) -> Option<String> {
    let settings = uses.place.settings;
    match program {
        "rm" => removal(arguments, uses),
        "mv" | "rmdir" | "unlink" => uses
            .paths
            .iter()
            .filter(|used| used.access == Access::Remove)
            .find_map(|used| protected(&used.target, settings))
            .map(|what| format!("it takes away {what}")),
        "find" => {
            let everything = find::deletes_everything(arguments, uses);
            let root = uses.paths.iter().find_map(|used| protected(&used.target, settings));
            root.filter(|_| everything).map(|what| format!("it deletes everything in {what}"))
        }
        "git" => force_push(arguments, uses),
        "chmod" => chmod(arguments),
        "chown" => chown(arguments, uses),
        "kill" => kills_everything(arguments).then(|| "it ends every process".to_owned()),
        "dd" => uses
            .paths
            .iter()
            .find(|used| used.access == Access::Write && in_devices(&used.target))
            .map(|_| "it writes to a device".to_owned()),
        "cp" | "tee" | "truncate" | "shred" | "cat" => uses.paths.iter().find_map(redirect_danger),
        "fdisk" | "cfdisk" | "sfdisk" | "sgdisk" | "gdisk" | "parted" | "wipefs" | "mke2fs" | "mkswap" => {
            let asks =
                matches!(arguments, [Word::Text(only)] if matches!(only.as_str(), "-V" | "--version" | "--help"));
            (!asks).then(|| "it changes how a disk is laid out".to_owned())
        }
        "shutdown" | "reboot" | "halt" | "poweroff" => Some("it shuts the machine down".to_owned()),
        "init" | "telinit" => {
            let level = arguments.first().and_then(Word::text);
            matches!(level, Some("0" | "6")).then(|| "it shuts the machine down".to_owned())
        }
        "systemctl" => {
            let verb =
                |word: &Word| matches!(word.text(), Some("poweroff" | "reboot" | "halt" | "kexec" | "soft-reboot"));
            arguments.iter().any(verb).then(|| "it shuts the machine down".to_owned())
        }
        _ if program == "mkfs" || program.starts_with("mkfs.") => Some("it makes a new file system".to_owned()),
        _ => None,
    }
}

/// What the target is, if it is the root, home, the workspace, or a directory above one of these.
fn protected(target: &Target, settings: &ShellSettings) -> Option<String> {
    let holds = |path: &ContainerPath| settings.home.is_within(path) || settings.workspace.is_within(path);
    match target {
        Target::Known(paths) => paths.iter().find(|path| holds(path)).map(ToString::to_string),
        Target::Glob(patterns) => patterns.iter().find(|pattern| matches_protected(pattern, settings)).cloned(),
        Target::Unknown(_) => None,
    }
}

/// Whether the pattern matches home, the workspace, or a directory above.
fn matches_protected(pattern: &str, settings: &ShellSettings) -> bool {
    let parts: Vec<Pattern> = pattern.split('/').filter(|part| !part.is_empty()).map(Pattern::read).collect();
    [&settings.home, &settings.workspace].into_iter().any(|path| {
        let names: Vec<&[u8]> = path.components().collect();
        parts.len() <= names.len()
            && parts
                .iter()
                .zip(names)
                .all(|(part, name)| std::str::from_utf8(name).is_ok_and(|name| part.matches_as_shell(name)))
    })
}

/// `rm`: of what is protected if recursive; of everything in a directory that is, if forced as well.
fn removal(arguments: &[Word], uses: &Uses<'_>) -> Option<String> {
    let settings = uses.place.settings;
    let line = RM.split(arguments);
    if !line.may_have("rR", "recursive") {
        return None;
    }
    let forced = line.may_have("f", "force");
    for word in &line.operands {
        let target = uses.place.target(word);
        let what = protected(&target, settings).or_else(|| {
            let whole = match word {
                Word::Text(text) | Word::Glob(text) => everything_here(text),
                Word::Unknown { .. } => false,
            };
            let contents = matches!(&target, Target::Glob(patterns) if patterns.iter().any(|pattern| contents_of_protected(pattern, settings)));
            (forced && (whole || contents)).then(|| word.known_prefix().to_owned()).map(|text| match text.as_str() {
                "" => "everything here".to_owned(),
                _ => format!("{text}*"),
            })
        });
        if let Some(what) = what {
            return Some(format!("it removes {what} with all that is in it"));
        }
    }
    None
}

/// `.`, `..`, `*` and their spellings, wherever that is.
fn everything_here(text: &str) -> bool {
    let mut parts = text.split('/').filter(|part| !matches!(*part, "" | ".")).peekable();
    if text.starts_with('/') || text.is_empty() {
        return false;
    }
    while parts.next_if(|part| *part == "..").is_some() {}
    match parts.next() {
        None => true,
        Some(part) => is_all(part) && parts.next().is_none(),
    }
}

/// A pattern for all names, or all hidden ones.
fn is_all(part: &str) -> bool {
    matches!(part.trim_start_matches('.'), "*" | "**" | "?*" | "*?" | "[!.]*" | "[^.]*")
}

fn contents_of_protected(pattern: &str, settings: &ShellSettings) -> bool {
    let Some((directory, last)) = pattern.rsplit_once('/') else { return false };
    is_all(last) && (directory.is_empty() || matches_protected(directory, settings))
}

fn chmod(arguments: &[Word]) -> Option<String> {
    let words = chmod_words(arguments);
    let line = CHMOD.split(&words);
    let mode = line.operands.first().and_then(|word| word.text())?;
    let open = line.may_have("R", "recursive") && opens_to_all(mode);
    open.then(|| "it lets everybody change everything beneath a directory".to_owned())
}

/// `777`, or the same in letters.
fn opens_to_all(mode: &str) -> bool {
    if mode.bytes().all(|byte| byte.is_ascii_digit()) {
        return mode.ends_with("777");
    }
    let mut open = [[false; 3]; 3];
    for clause in mode.split(',') {
        let Some((who, what)) = clause.split_once(['+', '=']) else { continue };
        let everybody = who.is_empty() || who.contains('a');
        for (row, letter) in open.iter_mut().zip(['u', 'g', 'o']) {
            if everybody || who.contains(letter) {
                for (cell, permission) in row.iter_mut().zip([['r', 'r'], ['w', 'w'], ['x', 'X']]) {
                    *cell |= what.contains(permission);
                }
            }
        }
    }
    open.iter().flatten().all(|cell| *cell)
}

fn chown(arguments: &[Word], uses: &Uses<'_>) -> Option<String> {
    let line = Grammar { short: "RcfhvHLP", long: "recursive reference<" }.split(arguments);
    if !line.may_have("R", "recursive") {
        return None;
    }
    let workspace = &uses.place.settings.workspace;
    let outside = |text: &str| ContainerPath::parse(text).is_ok_and(|path| !path.is_within(workspace));
    let leaves = uses.paths.iter().filter(|used| used.access == Access::Write).any(|used| match &used.target {
        Target::Known(paths) => paths.iter().any(|path| !path.is_within(workspace)),
        Target::Glob(patterns) => patterns.iter().any(|pattern| {
            let fixed = pattern.find(['*', '?', '[', '\\']).and_then(|end| pattern.get(..end)).unwrap_or(pattern);
            outside(
                fixed
                    .rsplit_once('/')
                    .map_or(fixed, |(directory, _)| if directory.is_empty() { "/" } else { directory }),
            )
        }),
        Target::Unknown(prefix) => prefix.starts_with('/') && prefix.len() > 1 && outside(prefix),
    });
    leaves.then(|| "it changes the owner of everything beneath a directory outside the workspace".to_owned())
}

/// `-1` where process numbers stand: every process there is.
fn kills_everything(arguments: &[Word]) -> bool {
    let mut rest = arguments.iter().map(Word::known_prefix);
    let pids = match rest.next() {
        Some("-s" | "-n" | "--signal") => {
            rest.next();
            rest
        }
        Some("-l" | "-L") | None => return false,
        Some(_) => rest,
    };
    let after_dashes = arguments.first().and_then(Word::text) == Some("--");
    let signal = arguments.first().is_some_and(|word| word.known_prefix().starts_with('-'));
    (signal || after_dashes) && pids.clone().any(|pid| pid == "-1")
}

fn force_push(arguments: &[Word], uses: &Uses<'_>) -> Option<String> {
    let call = git::call(arguments, uses.place.cwd);
    if call.sub != Some("push") {
        return None;
    }
    let grammar = Grammar {
        short: "ufqvndo:46",
        long: "force force-with-lease? force-if-includes push-option: receive-pack: exec: repo: mirror recurse-submodules? \
            signed? all tags delete set-upstream no-verify prune atomic",
    };
    let line = grammar.split(call.arguments);
    // `mirror` is the only one that begins with `mi`.
    let mirror = line.given.iter().any(|given| given.long && given.name.len() > 1 && "mirror".starts_with(given.name));
    let forced =
        line.has(&["f", "force"]) || mirror || line.operands.iter().any(|word| word.known_prefix().starts_with('+'));
    forced.then(|| "it overwrites history on the remote".to_owned())
}

/// Why a person has to look at a file that is written to, if one has to: it is a disk.
#[must_use]
pub fn redirect_danger(used: &PathUse) -> Option<String> {
    const DISKS: &[&str] = &[
        "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "loop", "md", "dm-", "disk", "mapper", "mem", "kmem", "port", "ram",
        "zram", "nbd", "sr",
    ];
    let disk = |path: &str| {
        let device = path.strip_prefix("/dev/");
        device.is_some_and(|device| DISKS.iter().any(|disk| device.starts_with(disk)))
    };
    let writes = match used.access {
        Access::Read => false,
        Access::Write | Access::Remove => true,
    };
    let named = match &used.target {
        Target::Known(paths) => paths.iter().any(|path| path.as_str().is_some_and(disk)),
        Target::Glob(patterns) => patterns.iter().any(|pattern| disk(pattern)),
        Target::Unknown(prefix) => disk(prefix),
    };
    (writes && named).then(|| "it writes to a disk".to_owned())
}

/// Anything in `/dev` but what swallows or shows output.
fn in_devices(target: &Target) -> bool {
    const HARMLESS: &[&str] = &["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full"];
    let device = |path: &str| {
        path.starts_with("/dev/")
            && !HARMLESS.contains(&path)
            && !path.starts_with("/dev/shm/")
            && !path.starts_with("/dev/fd/")
    };
    match target {
        Target::Known(paths) => paths.iter().any(|path| path.as_str().is_some_and(device)),
        Target::Glob(patterns) => patterns.iter().any(|pattern| device(pattern)),
        Target::Unknown(prefix) => prefix.starts_with("/dev/"),
    }
}

/// Whether something is taken away that lies above a dangerous file which is named as well. Takes all paths of a
/// script.
#[must_use]
pub fn removes_dangerous<'a>(uses: impl Iterator<Item = &'a PathUse> + Clone) -> Option<String> {
    let removed = uses.clone().filter(|used| used.access == Access::Remove);
    let removed: HashSet<&[u8]> = removed.flat_map(|used| known(&used.target)).map(ContainerPath::as_bytes).collect();
    if removed.is_empty() {
        return None;
    }
    let mut dangerous = uses.filter(|used| target_is_dangerous(&used.target)).flat_map(|used| known(&used.target));
    let path = dangerous.find(|path| {
        let bytes = path.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut above = ends.chain([bytes.len()]).filter_map(|end| bytes.get(..end));
        removed.contains(&b"/"[..]) || above.any(|directory| removed.contains(directory))
    })?;
    Some(format!("it takes away a directory in which {path} is"))
}

fn known(target: &Target) -> &[ContainerPath] {
    match target {
        Target::Known(paths) => paths,
        Target::Glob(_) | Target::Unknown(_) => &[],
    }
}

/// Why a person has to look at a pipeline, if one has to: what it downloads is run by a shell or an interpreter.
#[must_use]
pub fn danger_in_pipeline(commands: &[SimpleCommand]) -> Option<String> {
    let name =
        |command: &SimpleCommand| command.words.first().and_then(Word::text).map(|name| base_name(name).to_owned());
    for command in commands.iter().filter(|command| reads_code(command)) {
        let sources = command.fed_by.iter().filter_map(|at| commands.get(*at));
        let mut downloads = sources.filter_map(name).filter(|name| is_download(name));
        if let Some(download) = downloads.next() {
            let runner = name(command).unwrap_or_default();
            return Some(format!("`{runner}` runs what `{download}` downloads"));
        }
    }
    None
}

/// Whether the program fetches what somebody else has written.
pub(in crate::shell) fn is_download(program: &str) -> bool {
    matches!(
        base_name(program),
        "curl" | "wget" | "wget2" | "fetch" | "aria2c" | "http" | "https" | "xh" | "lynx" | "axel"
    )
}

fn is_shell(program: &str) -> bool {
    matches!(
        program,
        "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh" | "mksh" | "yash" | "fish" | "csh" | "tcsh" | "rbash"
    )
}

/// Whether the program takes what it runs from standard input: a shell or an interpreter without a script.
fn reads_code(command: &SimpleCommand) -> bool {
    let Some((first, arguments)) = command.words.split_first() else { return false };
    let program = base_name(first.known_prefix());
    let (code, modules): (&[&str], &[&str]) = match super::launchers::unversioned(program) {
        name if is_shell(name) => (&["-c"], &[]),
        "python" | "pypy" => (&["-c"], &["-m"]),
        "perl" | "ruby" => (&["-e", "-E", "-n", "-p"], &[]),
        "node" | "nodejs" | "bun" | "deno" | "tsx" | "ts-node" => (&["-e", "-p", "--eval", "--print"], &[]),
        "php" => (&["-r"], &["-f"]),
        "lua" | "luajit" | "julia" | "Rscript" => (&["-e"], &[]),
        "source" | "." => return arguments.first().is_some_and(is_stdin),
        "xargs" => return builds_code(arguments),
        _ => return false,
    };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let text = word.known_prefix();
        if is_stdin(word) || text == "-s" {
            return true;
        }
        let shell = code == ["-c"] && modules.is_empty();
        // `-ec`, `-lc`; and `-s` in a cluster.
        let cluster = shell && text.starts_with('-') && !text.starts_with("--");
        if cluster && text.contains('c') || code.iter().chain(modules).any(|option| text.starts_with(option)) {
            return false;
        }
        if cluster && text.contains('s') {
            return true;
        }
        match word {
            // Options with a value, among them `-o pipefail`.
            Word::Text(text) if matches!(text.as_str(), "-o" | "-O" | "+o" | "+O" | "-W" | "-X" | "--rcfile") => {
                rest.next();
            }
            Word::Text(text) if text.len() > 1 && text.starts_with(['-', '+']) => {}
            Word::Text(_) | Word::Glob(_) => return false,
            // It may be nothing.
            Word::Unknown { .. } => {}
        }
    }
    true
}

/// `xargs sh -c`, `xargs -I{} sh -c {}`: what is read is the code itself.
fn builds_code(arguments: &[Word]) -> bool {
    let names_shell = |word: &Word| word.text().is_some_and(|text| is_shell(base_name(text)));
    let options = arguments.iter().skip_while(|word| !names_shell(word)).skip(1);
    let mut code = options.skip_while(|word| {
        let text = word.known_prefix();
        !(text.starts_with('-') && !text.starts_with("--") && text.contains('c'))
    });
    // A script that is written out is judged as such; what stands for the read words is not.
    code.next().is_some() && code.next().is_none_or(|word| word.text().is_none_or(|text| matches!(text, "{}" | "%")))
}

fn is_stdin(word: &Word) -> bool {
    matches!(word.text(), Some("-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0"))
}
