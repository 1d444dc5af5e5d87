//! Patterns for paths: `/workspace/docs/**`, `*.pem`, `~/.cache/`.

use super::glob::Glob;
use super::sequence;
use crate::path::ContainerPath;
use std::borrow::Cow;

/// What `~` stands for in a rule: the tool user's home.
const HOME: &str = "/home/agent";

/// Longest shell pattern that is compared, in bytes. A longer one could match whatever a rule says.
const MAX_SHELL_PATTERN_BYTES: usize = 8192;

/// A pattern for absolute paths, in the manner of gitignore.
///
/// * `*` and `?` stand for characters of one name, `[a-z]` and `[!a-z]` for one of it, `**` for any number of names,
///   none included; `\` takes away the meaning of the next character. Case counts.
/// * A relative pattern lies under the workspace; one without a slash, such as `*.pem`, anywhere beneath it. `~/` is the
///   home. For a name anywhere in the container write `/**/*.pem`.
/// * What matches a directory covers what lies beneath it. An allow rule that ends in a wildcard does not:
///   `/workspace/*` allows what lies in the directory, `/workspace/*/` and `/workspace/*/**` what is further beneath.
/// * `/workspace/docs/**` is what lies beneath the directory; for deny and ask rules also the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    /// What an allow rule covers.
    narrow: Vec<Item>,
    /// What deny and ask rules cover; ends in a span.
    wide: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    /// Any number of names.
    Span,
    /// One name.
    Name(Glob),
}

impl Item {
    fn is_span(&self) -> bool {
        matches!(self, Self::Span)
    }

    fn any_name() -> Self {
        Self::Name(Glob::with_stars_only("*"))
    }

    fn takes(&self, name: &[u8]) -> bool {
        match self {
            Self::Span => true,
            Self::Name(glob) => glob.matches(name),
        }
    }

    fn shares(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(own), Self::Name(other)) => own.meets(other),
            (Self::Span, _) | (_, Self::Span) => true,
        }
    }
}

impl PathPattern {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        super::content::check_ends(text)?;
        let absolute = absolute(text)?;
        let mut wide: Vec<Item> = Vec::new();
        for name in absolute.split('/') {
            match name {
                "" | "." => {}
                ".." => match wide.pop() {
                    Some(Item::Span) => return Err("`..` after `**` names no directory; write the path without `..`"),
                    Some(Item::Name(_)) | None => {}
                },
                "**" if wide.last().is_some_and(Item::is_span) => {}
                "**" => wide.push(Item::Span),
                name => wide.push(Item::Name(Glob::parse(name)?)),
            }
        }
        let beneath = wide.last().is_some_and(Item::is_span);
        if beneath {
            wide.pop();
        }
        let mut narrow = wide.clone();
        let whole = narrow.is_empty();
        if beneath && !whole {
            narrow.push(Item::any_name());
        }
        let ends_plain = match wide.last() {
            Some(Item::Name(glob)) => glob.is_literal(),
            Some(Item::Span) | None => true,
        };
        if beneath || ends_plain || text.ends_with('/') {
            narrow.push(Item::Span);
        }
        wide.push(Item::Span);
        Ok(Self { narrow, wide })
    }

    /// Whether an allow rule with this pattern covers the path.
    #[must_use]
    pub fn matches(&self, path: &ContainerPath) -> bool {
        sequence::matches(&self.narrow, path.components(), Item::is_span, Item::takes)
    }

    /// Whether a deny or ask rule with this pattern covers the path. So does every path that [`PathPattern::matches`].
    #[must_use]
    pub fn covers(&self, path: &ContainerPath) -> bool {
        sequence::matches(&self.wide, path.components(), Item::is_span, Item::takes)
    }

    /// Whether an absolute pattern of the shell could name a path that the pattern covers.
    #[must_use]
    pub fn could_match_glob(&self, pattern: &str) -> bool {
        if pattern.len() > MAX_SHELL_PATTERN_BYTES || !pattern.starts_with('/') {
            return true;
        }
        let mut items: Vec<Item> = Vec::new();
        let mut names = pattern.split('/').filter(|name| !name.is_empty()).peekable();
        while let Some(name) = names.next() {
            if name == "**" {
                items.push(Item::Span);
                continue;
            }
            let glob = Glob::of_shell(name);
            // `.*` is also `..` for some shells, and then the path goes on elsewhere.
            if !glob.is_literal() && name.starts_with('.') && glob.matches(b"..") {
                return names.peek().is_some()
                    || self.shares(&items)
                    || items.split_last().is_some_and(|(_, above)| self.shares(above))
                    || self.shares(&joined(items, Item::Name(glob)));
            }
            items.push(Item::Name(glob));
        }
        self.shares(&items)
    }

    /// Whether the pattern could cover something beneath the directory: what a recursive removal or a move takes along.
    #[must_use]
    pub fn could_match_beneath(&self, directory: &ContainerPath) -> bool {
        let mut items: Vec<Item> = directory.components().map(|name| Item::Name(Glob::of_text(name))).collect();
        items.extend([Item::any_name(), Item::Span]);
        self.shares(&items)
    }

    /// Whether the pattern could cover a path that begins so, going by the text: a `..` in what is not known is not
    /// thought of. What does not begin with a slash could be anything.
    #[must_use]
    pub fn could_match_prefix(&self, beginning: &str) -> bool {
        let Some((directory, name)) = beginning.rsplit_once('/').filter(|_| beginning.starts_with('/')) else {
            return true;
        };
        let Ok(directory) = ContainerPath::parse(&format!("/{directory}")) else { return true };
        let mut items: Vec<Item> = directory.components().map(|name| Item::Name(Glob::of_text(name))).collect();
        if !matches!(name, "" | "." | "..") {
            items.push(Item::Name(Glob::of_prefix(name.as_bytes())));
        } else if name == ".." {
            items.pop();
        }
        items.push(Item::Span);
        self.shares(&items)
    }

    fn shares(&self, other: &[Item]) -> bool {
        sequence::meet(&self.wide, other, Item::is_span, Item::is_span, Item::shares)
    }
}

fn joined(mut items: Vec<Item>, last: Item) -> Vec<Item> {
    items.push(last);
    items
}

/// The pattern from the root on.
fn absolute(text: &str) -> Result<Cow<'_, str>, &'static str> {
    if text.starts_with('/') {
        return Ok(Cow::Borrowed(text));
    }
    if let Some(rest) = text.strip_prefix('~') {
        return match rest.strip_prefix('/') {
            Some(rest) => Ok(Cow::Owned(format!("{HOME}/{rest}"))),
            None if rest.is_empty() => Ok(Cow::Borrowed(HOME)),
            None => Err("another user's `~` is not known; write the path, or `\\~` for the character itself"),
        };
    }
    let anywhere = !text.trim_end_matches('/').contains('/') && !matches!(text.trim_end_matches('/'), "." | "..");
    Ok(Cow::Owned(format!("/workspace/{}{text}", if anywhere { "**/" } else { "" })))
}

/// What a path in a rule's example stands for.
pub(super) fn example(text: &str) -> Option<ContainerPath> {
    match text.strip_prefix("~/") {
        Some(rest) => ContainerPath::parse(HOME).ok()?.resolve(rest).ok(),
        None => ContainerPath::workspace().resolve(text).ok(),
    }
}
