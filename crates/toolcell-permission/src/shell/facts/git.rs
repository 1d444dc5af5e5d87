//! `git`: which of its calls only read, and which files it names. It may work inside `.git` by itself.

use super::git_tables::{COMPARING, Rule, STASH, Subcommand, subcommand};
use super::options::{Grammar, Grammars, Line};
use super::place::{Place, Uses};
use super::reading::option_paths;
use super::{Kind, paths};
use crate::path::ContainerPath;
use crate::shell::script::{Access, Cwd, Word};
use std::borrow::Cow;

/// A call, behind its global options.
pub(super) struct Call<'w> {
    pub(super) sub: Option<&'w str>,
    pub(super) arguments: &'w [Word],
    /// Its global options change nothing but where it works.
    plain: bool,
    /// They say which programs it runs.
    pub(super) configured: bool,
    /// Where it works: `-C` is followed.
    cwd: Cow<'w, Cwd>,
}

/// Takes the global options off.
pub(super) fn call<'w>(words: &'w [Word], cwd: &'w Cwd) -> Call<'w> {
    let mut call = Call { sub: None, arguments: &[], plain: true, configured: false, cwd: Cow::Borrowed(cwd) };
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        let Some(text) = word.text() else {
            call.plain = false;
            continue;
        };
        match text {
            "-C" => {
                let Some((directory, after)) = rest.split_first() else { break };
                rest = after;
                let moved = moved(&call.cwd, directory);
                call.cwd = Cow::Owned(moved);
            }
            "--no-pager"
            | "-P"
            | "--no-optional-locks"
            | "--literal-pathspecs"
            | "--glob-pathspecs"
            | "--noglob-pathspecs"
            | "--icase-pathspecs" => {}
            "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path" | "--config-env" | "--super-prefix" => {
                call.plain = false;
                call.configured |= matches!(text, "-c" | "--config-env");
                // `--exec-path` has no value of its own.
                if text != "--exec-path" {
                    rest = rest.get(1..).unwrap_or_default();
                }
            }
            option if option.starts_with('-') => {
                call.plain = false;
                call.configured |= option.starts_with("--exec-path=") || option.starts_with("--config-env=");
            }
            sub => {
                call.sub = Some(sub);
                call.arguments = rest;
                break;
            }
        }
    }
    call
}

fn moved(cwd: &Cwd, directory: &Word) -> Cwd {
    let (Cwd::OneOf(bases), Some(text)) = (cwd, directory.text()) else {
        return match directory.text().map(ContainerPath::parse) {
            Some(Ok(path)) => Cwd::OneOf(vec![path]),
            Some(Err(_)) | None => Cwd::Unknown,
        };
    };
    if text.is_empty() {
        return cwd.clone();
    }
    bases.iter().map(|base| base.resolve(text)).collect::<Result<_, _>>().map_or(Cwd::Unknown, Cwd::OneOf)
}

pub(super) fn examine(words: &[Word], uses: &mut Uses<'_>) -> Kind {
    let call = call(words, uses.place.cwd);
    let mut inner = Uses::new(Place { settings: uses.place.settings, cwd: &call.cwd });
    if matches!(call.cwd, Cow::Owned(_)) {
        inner.add_text(".", Access::Read);
    }
    let kind = match call.sub {
        Some(sub) => within(sub, call.arguments, &mut inner),
        None => Kind::reads_if(matches!(words, [Word::Text(only)] if matches!(only.as_str(), "--version" | "-v"))),
    };
    uses.known &= inner.known;
    uses.paths.append(&mut inner.paths);
    match call.sub {
        Some(_) if !call.plain => {
            global_paths(words, uses);
            Kind::Other
        }
        Some(_) | None => kind,
    }
}

/// `--work-tree=x` and the like name files too. The repository is git's own matter.
fn global_paths(words: &[Word], uses: &mut Uses<'_>) {
    for word in words.iter().take_while(|word| word.known_prefix().starts_with("--")) {
        let value = word.text().and_then(|text| text.split_once('=')).map(|(_, value)| Word::Text(value.to_owned()));
        if let Some(value) = value.filter(|_| !word.known_prefix().starts_with("--git-dir=")) {
            paths::value(&value, true, uses);
        }
    }
}

fn within(sub: &str, arguments: &[Word], uses: &mut Uses<'_>) -> Kind {
    let (row, arguments) = match (sub, arguments.split_first()) {
        ("stash", Some((Word::Text(action), rest))) => (STASH.iter().find(|row| row.name == action), rest),
        _ => (subcommand(sub), arguments),
    };
    let Some(row) = row else { return other(sub, arguments, uses) };
    let second = if row.compares { COMPARING } else { Grammar { short: "", long: "" } };
    let line = Grammars { first: row.grammar, second }.split(arguments);
    option_paths(&line, uses);
    operands(row.name, &line, Access::Read, uses);
    let reads = !line.unlisted && !line.harmful && !line.dashable && fits(row, &line) && !signatures(row, &line);
    Kind::reads_if(reads)
}

fn fits(row: &Subcommand, line: &Line<'_>) -> bool {
    let first = line.operands.first().map(|word| word.text().unwrap_or_default());
    // `git config get` and `git config list` are the newer spelling; then there is no other action among the options.
    let newer = row.name == "config" && matches!(first, Some("get" | "list"));
    match row.rule {
        Rule::Any => true,
        Rule::ListsWith(options) => line.operands.is_empty() || line.has(options),
        Rule::Needs(options) => newer || line.has(options),
        Rule::AtMostOne => line.operands.len() <= 1,
        Rule::First(wanted) => first.is_none_or(|first| wanted.contains(&first)),
        Rule::NotFirst(unwanted) => first.is_none_or(|first| !unwanted.contains(&first)),
    }
}

/// A format with `%G` checks signatures with a program that the repository names, and so may a format that it names.
fn signatures(row: &Subcommand, line: &Line<'_>) -> bool {
    const BUILT_IN: &[&str] = &["oneline", "short", "medium", "full", "fuller", "reference", "email", "mboxrd", "raw"];
    let formats = line.values(&["format", "pretty"]).chain(line.values(&["sort"]));
    let mut texts = formats.map(|format| format.text().unwrap_or("%G"));
    texts.any(|text| {
        let own = text.contains('%') || text.starts_with("format:") || text.starts_with("tformat:");
        text.contains("%G") || text.contains("signature") || (row.compares && !own && !BUILT_IN.contains(&text))
    })
}

/// Subcommands that change something, with the values of their options that are no files.
fn other(sub: &str, arguments: &[Word], uses: &mut Uses<'_>) -> Kind {
    let grammar = match sub {
        "commit" => Grammar {
            short: "aspvqnezm:F<t<C:c:",
            long: "message: file< template< author: date: amend no-edit all no-verify allow-empty signoff fixup: squash: trailer: cleanup: quiet verbose",
        },
        "tag" => Grammar { short: "asfdm:F<u:l", long: "annotate message: file< force delete sign" },
        "merge" | "revert" | "cherry-pick" | "am" => Grammar {
            short: "m:F<nqvxes:X:",
            long: "message: file< no-ff ff-only squash abort continue strategy: strategy-option: no-commit no-edit",
        },
        "push" | "pull" | "fetch" => Grammar {
            short: "ufqvno:dat",
            long: "force set-upstream tags all delete push-option: receive-pack: upload-pack: force-with-lease? depth: prune",
        },
        "clone" => Grammar {
            short: "b:o:c:qj:u:n",
            long: "branch: depth: origin: config: single-branch recurse-submodules? bare mirror quiet upload-pack: filter: reference< template<",
        },
        "stash" => Grammar { short: "m:uakqp", long: "message: include-untracked all keep-index quiet patch" },
        "notes" => Grammar { short: "m:F<f", long: "message: file<" },
        "config" => Grammar { short: "lzf>e", long: "file> add unset unset-all replace-all global local system" },
        "checkout" | "switch" | "branch" => {
            Grammar { short: "b:B:c:C:fqtdDmM", long: "orphan: track? force quiet detach create: delete move" }
        }
        "archive" => Grammar { short: "o>v", long: "output> format: prefix: remote:" },
        "init" => Grammar { short: "qb:", long: "bare quiet initial-branch: template< separate-git-dir>" },
        "format-patch" => Grammar { short: "o>n#", long: "output-directory> stdout" },
        "bundle" | "worktree" | "add" | "rm" | "mv" | "reset" | "restore" | "clean" | "apply" => Grammar {
            short: "b:B:s:e:AnNfuvipqrdxX",
            long: "source: exclude: staged worktree hard soft mixed cached all update patch force dry-run quiet verbose",
        },
        _ => Grammar { short: "", long: "" },
    };
    let line = grammar.split(arguments);
    option_paths(&line, uses);
    let access = match sub {
        "add" | "stage" | "commit" | "apply" | "am" | "push" | "merge" | "rebase" | "tag" => Access::Read,
        "rm" | "mv" => Access::Remove,
        _ => Access::Write,
    };
    match (sub, line.operands.split_last()) {
        ("mv", Some((last, sources))) => {
            uses.add_all(sources.iter().copied(), Access::Remove);
            uses.add(last, Access::Write);
        }
        // A key and its value.
        ("config" | "push" | "pull" | "fetch" | "remote" | "tag" | "branch", _) => {
            operands(sub, &line, Access::Read, uses);
        }
        _ => operands(sub, &line, access, uses),
    }
    // A path that something changes is named by a word that may be any.
    uses.known &= !line.operands.iter().any(|word| matches!(word, Word::Unknown { .. }));
    Kind::Other
}

/// Whether it may be a file where a revision may stand as well: with `names`, whatever does not look like a revision.
fn may_be_file(text: &str, names: bool) -> bool {
    let hash = text.len() >= 7 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let range = text
        .split_once("..")
        .is_some_and(|(from, to)| !from.is_empty() && !from.ends_with('/') && !to.starts_with('/'));
    let revision = text.is_empty() || hash || range || text.starts_with("HEAD") || text.contains(['@', '~', '^']);
    !revision && (names || text.contains(['/', '.']) || text.starts_with("id_"))
}

/// A file, or a pattern: `git` expands those that the shell has left alone, and a `*` of it may stand for anything.
fn pathspec(word: &Word, access: Access, uses: &mut Uses<'_>) {
    match word {
        Word::Text(text) if text.contains(['*', '?', '[']) => uses.add(&Word::Glob(text.clone()), access),
        Word::Text(_) | Word::Glob(_) | Word::Unknown { .. } => uses.add(word, access),
    }
}

/// Operands are revisions or files. Behind `--` and for commands that take nothing else they are files, and so is what
/// stands behind a colon (`HEAD:x`).
fn operands(sub: &str, line: &Line<'_>, access: Access, uses: &mut Uses<'_>) {
    let only_files =
        matches!(sub, "add" | "stage" | "rm" | "clean" | "apply" | "ls-files" | "check-ignore" | "init" | "restore")
            || line.has(&["no-index"]);
    let names = !matches!(
        sub,
        "push"
            | "pull"
            | "fetch"
            | "remote"
            | "tag"
            | "branch"
            | "merge"
            | "rebase"
            | "cherry-pick"
            | "revert"
            | "switch"
            | "stash"
            | "worktree"
            | "bisect"
            | "list"
    );
    let skipped = match sub {
        "grep" if !line.has(&["e", "f"]) => 1,
        "for-each-ref" | "config" | "remote" | "describe" | "cherry" => usize::MAX,
        _ => 0,
    };
    let files_from = line.before_dashes.unwrap_or(usize::MAX);
    for (at, word) in line.operands.iter().enumerate().skip(skipped) {
        let text = word.known_prefix();
        let spec = text.strip_prefix(':');
        if at >= files_from || only_files {
            match spec {
                // Magic: `:(top)x`, `:/x`, and `:!x`, which leaves `x` out.
                Some(magic) if !magic.starts_with(['!', '^']) && !magic.starts_with("(exclude") => {
                    let plain = magic.split_once(')').map_or(magic, |(_, plain)| plain).trim_start_matches(['/', ':']);
                    pathspec(&Word::Text(plain.to_owned()), access, uses);
                }
                Some(_) => {}
                None => pathspec(word, access, uses),
            }
        } else if text.contains("://") {
            // Another repository.
        } else if text.contains(':') {
            // Before the last colon may stand a stage (`:0:x`) or a date (`HEAD@{10:00}:x`).
            for (at, _) in text.match_indices(':') {
                let file = text.get(at.saturating_add(1)..).unwrap_or_default().trim_start_matches('/');
                pathspec(&Word::Text(file.to_owned()), access, uses);
            }
        } else if matches!(word, Word::Glob(_)) || may_be_file(text, names) {
            pathspec(word, access, uses);
        } else if matches!(word, Word::Unknown { .. }) {
            uses.known = false;
        }
    }
    for value in line.values(&["L"]) {
        if let Some((_, file)) = value.known_prefix().rsplit_once(':') {
            uses.add_text(file, access);
        }
    }
}
