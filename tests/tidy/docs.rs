//! What `README.md` and `ARCHITECTURE.md` name is there.
//!
//! Looked at are backticks and code blocks: paths of the repository, crates, Rust names, configuration keys, endpoints,
//! subcommands and flags; and the targets of links.

use crate::tree;
use std::collections::HashSet;

const DOCUMENTS: [&str; 2] = ["README.md", "ARCHITECTURE.md"];

/// What names are held against.
struct Repository {
    /// Every word of the sources and the configuration.
    words: HashSet<String>,
    /// The command line's definition.
    cli: String,
    /// The routes' definition.
    routes: String,
}

impl Repository {
    fn read() -> Self {
        let sources = tree::files("crates", "rs").into_iter().chain(tree::files("config", "toml"));
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = |path: String| {
            let text = tree::read(&path);
            text.split(|c| !is_word(c)).map(str::to_owned).collect::<Vec<_>>()
        };
        Self {
            words: sources.flat_map(words).collect(),
            cli: tree::read("crates/toolcell-cli/src/cli.rs"),
            routes: tree::read("crates/toolcell-server/src/auth.rs"),
        }
    }

    /// Everything that a document names and the repository does not have.
    fn missing(&self, text: &str) -> Vec<String> {
        let Pieces { spans, block_lines, links } = pieces(text);
        let in_spans = spans.iter().filter_map(|span| self.wrong_span(span));
        let in_blocks = block_lines.iter().filter_map(|line| self.wrong_command(line));
        let in_links = links.iter().filter(|link| !exists(link)).map(|link| format!("no file for the link ({link})"));
        in_spans.chain(in_blocks).chain(in_links).collect()
    }

    fn wrong_span(&self, span: &str) -> Option<String> {
        if let Some(wrong) = self.wrong_command(span) {
            return Some(wrong);
        }
        if let Some((method, path)) = span.split_once(" /") {
            let is_method = ["GET", "PUT", "POST", "DELETE"].contains(&method);
            let row = format!("(\"{method}\", \"/{path}\"");
            return (is_method && !self.routes.contains(&row)).then(|| format!("`{span}` is no endpoint"));
        }
        if span.contains(char::is_whitespace) || looks_like_path(span) {
            return None;
        }
        if let Some(rest) = span.strip_prefix("toolcell-") {
            let there = span == "toolcell-tests" || tree::crates().iter().any(|name| name == span);
            return (!there && !rest.contains('<')).then(|| format!("`{span}` is no crate"));
        }
        let name = span.strip_suffix("()").unwrap_or(span);
        let segments: Vec<&str> = name.split([':', '.']).filter(|part| !part.is_empty()).collect();
        let is_name = |part: &&str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_identifier(name) || !segments.iter().all(is_name) {
            return None;
        }
        let unknown = segments.iter().find(|part| !self.words.contains(**part));
        unknown.map(|part| format!("`{span}`: no source has the word {part}"))
    }

    /// Commands of this repository: `scripts/…`, `images/…` and `toolcell SUBCOMMAND --flag`.
    fn wrong_command(&self, line: &str) -> Option<String> {
        let mut words = line.split_whitespace();
        let first = words.next()?;
        if looks_like_path(first) {
            return (!exists(first)).then(|| format!("`{first}` is no path of the repository"));
        }
        if first != "toolcell" {
            return None;
        }
        for (place, word) in words.take_while(|word| *word != "--" && *word != "#").enumerate() {
            if place == 0 && word.chars().all(|c| c.is_ascii_lowercase()) {
                let variant = format!("{}{}", word[..1].to_uppercase(), &word[1..]);
                if !self.cli.contains(&format!("    {variant}(")) && !self.cli.contains(&format!("    {variant},")) {
                    return Some(format!("`{line}`: no subcommand {word}"));
                }
            }
            if let Some(flag) = word.strip_prefix("--").map(|flag| flag.replace('-', "_"))
                && !self.cli.contains(&format!("pub(crate) {flag}: "))
            {
                return Some(format!("`{line}`: no flag {word}"));
            }
        }
        None
    }
}

/// CamelCase, `snake_case`, `path::like` or `dotted.key`: a name that cannot be a mere word of English.
fn is_identifier(name: &str) -> bool {
    let camel = name.chars().next().is_some_and(|c| c.is_ascii_uppercase()) && name.chars().any(|c| c.is_lowercase());
    camel || name.contains('_') || name.contains("::") || (name.contains('.') && !name.ends_with('.'))
}

/// Begins at the repository's root, or ends like one of its files.
fn looks_like_path(text: &str) -> bool {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_./*-".contains(c));
    let first = text.split('/').next().unwrap_or_default();
    let at_root = text.contains('/') && !first.is_empty() && tree::root().join(first).exists();
    let ours = [".rs", ".toml", ".md"].iter().any(|end| text.ends_with(end)) && !text.starts_with(['/', '~', '.']);
    plain && (at_root || ours)
}

/// Whether the path is there; a `*` stands for any part of a last component, and something must match it.
fn exists(path: &str) -> bool {
    let path = path.split('#').next().unwrap_or_default();
    // What a build makes is there only after it.
    if path.is_empty() || path.contains("://") || path == "target/release/toolcell" {
        return true;
    }
    let Some((before, after)) = path.split_once('*') else { return tree::root().join(path).exists() };
    let (directory, start) = before.rsplit_once('/').unwrap_or(("", before));
    let names = std::fs::read_dir(tree::root().join(directory)).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).any(|n| n.starts_with(start) && n.ends_with(after))
}

struct Pieces {
    spans: Vec<String>,
    block_lines: Vec<String>,
    links: Vec<String>,
}

fn pieces(text: &str) -> Pieces {
    let (mut prose, mut block_lines, mut in_block) = (String::new(), Vec::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            block_lines.push(line.trim().to_owned());
        } else {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    assert!(!in_block, "a code block is not closed");
    assert_eq!(prose.matches('`').count() % 2, 0, "a backtick is not closed");
    let spans = prose.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let links = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| to.to_owned());
    Pieces { spans, block_lines, links: links.collect() }
}

#[test]
fn what_the_documents_name_is_there() {
    let repository = Repository::read();
    for document in DOCUMENTS {
        let missing = repository.missing(&tree::read(document));
        assert!(missing.is_empty(), "{document}:\n{}", missing.join("\n"));
    }
}

#[test]
fn planted_names_are_noticed() {
    let repository = Repository::read();
    for (text, name) in [
        ("see `crates/toolcell-runtime/src/nowhere.rs`", "nowhere.rs"),
        ("see `crates/toolcell-nowhere/`", "toolcell-nowhere"),
        ("see `scripts/nowhere --now`", "scripts/nowhere"),
        ("see `config/nowhere/*.toml`", "config/nowhere"),
        ("see `NOWHERE.md`", "NOWHERE.md"),
        ("see [it](docs/nowhere.md)", "docs/nowhere.md"),
        ("the crate `toolcell-nowhere`", "toolcell-nowhere"),
        ("the type `NoSuchThing`", "NoSuchThing"),
        ("the call `SnapshotStore::no_such_call`", "no_such_call"),
        ("the key `limits.no_such_key`", "no_such_key"),
        ("`POST /v1/nowhere`", "/v1/nowhere"),
        ("`toolcell nowhere`", "nowhere"),
        ("`toolcell run --nowhere -- ls`", "--nowhere"),
        ("```sh\ntoolcell nowhere\n```", "nowhere"),
        ("```sh\nscripts/nowhere\n```", "scripts/nowhere"),
    ] {
        let missing = repository.missing(text);
        assert!(missing.len() == 1 && missing[0].contains(name), "{text}: {missing:?}");
    }
}

#[test]
fn names_that_are_there_and_other_words_pass() {
    let text = "`scripts/test`, `config/examples/*.toml`, `Cargo.toml`, `toolcell-model`, `SnapshotStore::head_cas`, \
        `limits.wait_ms`, `POST /v1/calls`, `toolcell run --agent A -- ls --nowhere`, `asking`, `ASK`, `ran: \"no\"`, \
        `data_dir/admin.key`, `/workspace`, `durable: false`, [here](README.md#top), [there](https://example.org/x)";
    assert_eq!(Repository::read().missing(text), Vec::<String>::new());
}

#[test]
fn documents_speak_of_what_is() {
    for document in DOCUMENTS {
        let text = tree::read(document).to_lowercase();
        for word in ["currently", "not yet", "at the moment", "coming soon", "work in progress", "in the future"] {
            assert!(!text.contains(word), "{document} says {word:?}, which rots");
        }
    }
}
