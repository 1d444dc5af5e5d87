//! Words, made into paths.

use super::{PathUse, Target};
use crate::path::ContainerPath;
use crate::shell::script::{Access, Cwd, Redirection, Word};
use crate::shell::settings::ShellSettings;

/// Where a command runs.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// What is known of the container.
    pub settings: &'a ShellSettings,
    /// The command's working directory.
    pub cwd: &'a Cwd,
}

impl Place<'_> {
    /// Which files the word names. A leading `~` has no meaning here: whoever expands words has dealt with it.
    #[must_use]
    pub fn target(&self, word: &Word) -> Target {
        match word {
            Word::Text(text) => self.text(text),
            Word::Glob(pattern) => self.glob(pattern),
            Word::Unknown { prefix, many } => self.unknown(prefix, *many),
        }
    }

    fn text(&self, text: &str) -> Target {
        // The empty path names nothing; programs that take it at all take it for the working directory.
        let text = if text.is_empty() { "." } else { text };
        let bases = match self.cwd {
            _ if text.starts_with('/') => None,
            Cwd::OneOf(bases) => Some(bases.as_slice()),
            Cwd::Unknown => return Target::Unknown(beneath(text).to_owned()),
        };
        let known: Result<Vec<_>, _> = match bases {
            None => ContainerPath::parse(text).map(|path| vec![path]),
            Some(bases) => bases.iter().map(|base| base.resolve(text)).collect(),
        };
        known.map_or_else(|_| Target::Unknown(text.to_owned()), Target::Known)
    }

    fn glob(&self, pattern: &str) -> Target {
        if pattern.starts_with('/') {
            return Target::Glob(vec![normalise("", pattern)]);
        }
        let Cwd::OneOf(bases) = self.cwd else { return Target::Unknown(pattern.to_owned()) };
        let absolute: Option<Vec<_>> =
            bases.iter().map(|base| Some(normalise(&escape(base.as_str()?), pattern))).collect();
        absolute.map_or_else(|| Target::Unknown(String::new()), Target::Glob)
    }

    fn unknown(&self, prefix: &str, many: bool) -> Target {
        let Cwd::OneOf(bases) = self.cwd else { return Target::Unknown(prefix.to_owned()) };
        match bases.as_slice() {
            // Only the first of several words begins so, and an empty beginning may become a slash.
            _ if prefix.is_empty() || many => Target::Unknown(prefix.to_owned()),
            _ if prefix.starts_with('/') => Target::Unknown(prefix.to_owned()),
            [base] => match base.as_str() {
                Some("/") => Target::Unknown(format!("/{prefix}")),
                Some(base) => Target::Unknown(format!("{base}/{prefix}")),
                None => Target::Unknown(prefix.to_owned()),
            },
            _ => Target::Unknown(prefix.to_owned()),
        }
    }
}

/// A relative path without the dots that say that it is one.
fn beneath(text: &str) -> &str {
    let text = text.trim_start_matches("./");
    if text == "." { "" } else { text }
}

/// The file that a redirection opens; `None` for the devices that are no files: `/dev/null`, the standard streams,
/// the terminal.
#[must_use]
pub fn redirect(redirection: &Redirection, settings: &ShellSettings) -> Option<PathUse> {
    const STREAMS: &[&str] = &["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"];
    let target = Place { settings, cwd: &redirection.cwd }.target(&redirection.target);
    if let Target::Known(paths) = &target
        && paths.iter().all(|path| path.as_str().is_some_and(|text| STREAMS.contains(&text)))
    {
        return None;
    }
    let mut uses = Uses::new(Place { settings, cwd: &redirection.cwd });
    uses.climbs(&redirection.target);
    let target = match target {
        // Where a directory that is left again is a link, the file is another one.
        Target::Known(mut paths) if uses.known => {
            paths.extend(uses.paths.iter().flat_map(|climb| match &climb.target {
                Target::Known(paths) => paths.clone(),
                Target::Glob(_) | Target::Unknown(_) => Vec::new(),
            }));
            paths.sort();
            paths.dedup();
            Target::Known(paths)
        }
        Target::Known(_) => Target::Unknown(redirection.target.known_prefix().to_owned()),
        target @ (Target::Glob(_) | Target::Unknown(_)) => target,
    };
    Some(PathUse { target, access: redirection.access })
}

/// What stands before each `..` of a path, if that is where the file is looked for in a directory that may be a link:
/// `a` and `a/../b` of `a/../b/../c`, and nothing of what begins with `..`.
fn left_again(path: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0_usize;
    for part in path.split('/') {
        if part == ".." && found.len() < MAX_CLIMBS {
            found.extend(path.get(..at).map(|before| before.trim_end_matches('/')));
        }
        at = at.saturating_add(part.len()).saturating_add(1);
    }
    found
}

/// Most places of `..` in a path that are followed; with more of them the path is not known.
const MAX_CLIMBS: usize = 8;

/// Text as a pattern that matches only it.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn normalise(base: &str, pattern: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for part in base.split('/').chain(pattern.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            name => kept.push(name),
        }
    }
    let mut path = String::with_capacity(base.len().saturating_add(pattern.len()).saturating_add(1));
    for name in kept {
        path.push('/');
        path.push_str(name);
    }
    if path.is_empty() {
        path.push('/');
    }
    path
}

/// The paths of a command, as they are found.
#[derive(Debug)]
pub(super) struct Uses<'a> {
    pub(super) place: Place<'a>,
    pub(super) paths: Vec<PathUse>,
    pub(super) known: bool,
}

impl<'a> Uses<'a> {
    pub(super) fn new(place: Place<'a>) -> Self {
        Self { place, paths: Vec::new(), known: true }
    }

    /// The word is a path.
    pub(super) fn add(&mut self, word: &Word, access: Access) {
        // Standard input or output.
        if word.text() == Some("-") {
            return;
        }
        let target = self.place.target(word);
        self.known &= !matches!(target, Target::Unknown(_));
        self.paths.push(PathUse { target, access });
        self.climbs(word);
    }

    /// A path that leaves directories again: these are looked at as well, because where one of them is a link `..`
    /// leads elsewhere than the text says.
    fn climbs(&mut self, word: &Word) {
        let text = match word {
            Word::Text(text) | Word::Glob(text) => text.as_str(),
            Word::Unknown { prefix, .. } => prefix.as_str(),
        };
        if !text.contains("..") {
            return;
        }
        let left = left_again(text);
        self.known &= left.len() < MAX_CLIMBS;
        for before in left {
            match word {
                Word::Glob(_) if before.contains(['*', '?', '[', '\\']) => self.known = false,
                Word::Text(_) | Word::Glob(_) | Word::Unknown { .. } => {
                    let before = if before.is_empty() && text.starts_with('/') { "/" } else { before };
                    let target = self.place.text(before);
                    self.known &= !matches!(target, Target::Unknown(_));
                    self.paths.push(PathUse { target, access: Access::Read });
                }
            }
        }
    }

    pub(super) fn add_text(&mut self, text: &str, access: Access) {
        let target = self.place.text(text);
        self.known &= !matches!(target, Target::Unknown(_));
        self.paths.push(PathUse { target, access });
        self.climbs(&Word::Text(text.to_owned()));
    }

    pub(super) fn add_all<'w>(&mut self, words: impl IntoIterator<Item = &'w Word>, access: Access) {
        for word in words {
            self.add(word, access);
        }
    }
}
