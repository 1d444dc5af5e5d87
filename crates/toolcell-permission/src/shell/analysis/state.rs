//! What is known of the shell at one place of a script: variables, directory, what taints the commands that follow.

use crate::path::ContainerPath;
use crate::shell::script::{Cwd, Word};
use std::collections::{BTreeMap, BTreeSet};

/// Most variables that are followed. A further one counts as unknown.
pub(super) const MAX_VARIABLES: usize = 64;
/// Most values that a variable may have at one place. With more only what all of them begin with is known.
pub(super) const MAX_VALUES: usize = 8;
/// Most directories that a command may run in. With more it may be any.
pub(super) const MAX_DIRECTORIES: usize = 4;

/// What a variable holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Variable {
    /// One of these.
    OneOf(Vec<Word>),
    /// An array of exactly these.
    Array(Vec<Word>),
    /// Some integer.
    Number,
    /// Anything.
    Unknown,
}

impl Variable {
    pub(super) fn text(text: &str) -> Self {
        Self::OneOf(vec![Word::Text(text.to_owned())])
    }

    /// One value, but for nothing that can be said of it.
    pub(super) fn values(mut words: Vec<Word>) -> Self {
        words.sort_by_key(|word| (word.known_prefix().to_owned(), word.text().is_none()));
        words.dedup();
        let is_unknown = |word: &Word| matches!(word, Word::Unknown { prefix, .. } if prefix.is_empty());
        if words.iter().all(is_unknown) {
            return Self::Unknown;
        }
        if words.len() > MAX_VALUES {
            let first = words.first().map_or("", Word::known_prefix);
            let prefix = words.iter().fold(first, |common, word| common_prefix(common, word.known_prefix()));
            return Self::OneOf(vec![Word::Unknown { prefix: prefix.to_owned(), many: false }]);
        }
        Self::OneOf(words)
    }

    /// Whether it holds an integer, whatever it is.
    pub(super) fn is_number(&self) -> bool {
        match self {
            Self::Number => true,
            Self::OneOf(words) => words.iter().all(|word| word.text().is_some_and(is_integer)),
            Self::Array(_) | Self::Unknown => false,
        }
    }

    fn join(&self, other: &Self) -> Self {
        match (self, other) {
            (one, two) if one == two => one.clone(),
            (one, two) if one.is_number() && two.is_number() => Self::Number,
            (Self::OneOf(one), Self::OneOf(two)) => Self::values(one.iter().chain(two).cloned().collect()),
            (Self::OneOf(known), Self::Unknown) | (Self::Unknown, Self::OneOf(known)) => Self::perhaps(known),
            (Self::OneOf(_) | Self::Array(_) | Self::Number | Self::Unknown, _) => Self::Unknown,
        }
    }

    /// One of these, or anything.
    fn perhaps(known: &[Word]) -> Self {
        let unknown = Word::Unknown { prefix: String::new(), many: false };
        Self::values(known.iter().cloned().chain([unknown]).collect())
    }
}

/// Decimal digits with an optional sign. Neither octal nor any other form in which a letter could stand.
pub(super) fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.len() <= 18 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn common_prefix<'a>(one: &'a str, two: &str) -> &'a str {
    let same = one.char_indices().zip(two.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
    let shorter = one.len().min(two.len());
    let end = same.unwrap_or(shorter);
    one.get(..end).unwrap_or_default()
}

/// The shell at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) variables: BTreeMap<String, Variable>,
    /// `$1` and so on, if they are known.
    pub(super) positional: Option<Vec<Word>>,
    pub(super) cwd: Cwd,
    /// If the last command failed, the directory is this one.
    pub(super) failed_cwd: Option<Cwd>,
    /// Why later commands may not be what they seem.
    pub(super) taint: Option<String>,
    /// Words are split at blanks, as usual.
    pub(super) splits_at_blanks: bool,
    /// `$HOME` is what it was.
    pub(super) home_is_known: bool,
    /// `set -a`: every assignment is exported.
    pub(super) exports_all: bool,
    /// `set -e`
    pub(super) ends_on_error: bool,
    /// Nothing after this place runs: the shell has ended.
    pub(super) ended: bool,
    /// Functions that are certainly defined.
    pub(super) functions: BTreeSet<String>,
}

impl State {
    pub(super) fn new(cwd: Cwd) -> Self {
        Self {
            variables: BTreeMap::new(),
            positional: None,
            cwd,
            failed_cwd: None,
            taint: None,
            splits_at_blanks: true,
            home_is_known: true,
            exports_all: false,
            ends_on_error: false,
            ended: false,
            functions: BTreeSet::new(),
        }
    }

    pub(super) fn set(&mut self, name: &str, value: Variable) {
        if name == "IFS" {
            self.splits_at_blanks = false;
        }
        if name == "HOME" {
            self.home_is_known = false;
        }
        let known = value != Variable::Unknown;
        if self.variables.contains_key(name) || (known && self.variables.len() < MAX_VARIABLES) {
            self.variables.insert(name.to_owned(), value);
        }
    }

    pub(super) fn taint(&mut self, why: impl FnOnce() -> String) {
        if self.taint.is_none() {
            self.taint = Some(why());
        }
    }

    /// What the last command's success or failure leaves open, closed.
    pub(super) fn settle(&mut self) {
        if let Some(failed) = self.failed_cwd.take() {
            self.cwd = join_cwd(&self.cwd, &failed);
        }
    }

    /// The last command has succeeded.
    pub(super) fn succeeded(&mut self) {
        self.failed_cwd = None;
    }

    /// The last command has failed.
    pub(super) fn failed(&mut self) {
        if let Some(failed) = self.failed_cwd.take() {
            self.cwd = failed;
        }
    }

    /// What holds wherever one of the two holds.
    pub(super) fn join(mut self, mut other: Self) -> Self {
        self.settle();
        other.settle();
        if self.ended {
            return other;
        }
        if other.ended || self == other {
            return self;
        }
        let mut variables = BTreeMap::new();
        for (name, one) in self.variables.iter().chain(&other.variables) {
            let both = self.variables.get(name).zip(other.variables.get(name));
            let joined = both.map_or_else(|| one.join(&Variable::Unknown), |(one, two)| one.join(two));
            if joined != Variable::Unknown {
                variables.insert(name.clone(), joined);
            }
        }
        Self {
            variables,
            positional: if self.positional == other.positional { self.positional } else { None },
            cwd: join_cwd(&self.cwd, &other.cwd),
            failed_cwd: None,
            taint: self.taint.or(other.taint),
            splits_at_blanks: self.splits_at_blanks && other.splits_at_blanks,
            home_is_known: self.home_is_known && other.home_is_known,
            exports_all: self.exports_all || other.exports_all,
            ends_on_error: self.ends_on_error && other.ends_on_error,
            ended: false,
            functions: self.functions.intersection(&other.functions).cloned().collect(),
        }
    }

    /// What holds if perhaps nothing of what led here from `before` has happened, because a redirection failed. If so,
    /// the command has failed.
    pub(super) fn perhaps_not(&mut self, before: Self) {
        let after = std::mem::replace(self, Self::new(Cwd::Unknown));
        let (cwd, failed) = (after.cwd.clone(), after.failed_cwd.clone());
        let (ended, moved) = (after.ended, after.failed_cwd.is_some() || after.cwd != before.cwd);
        let mut unchanged = before;
        unchanged.settle();
        let left = unchanged.cwd.clone();
        *self = unchanged.join(after);
        if moved && !ended {
            self.failed_cwd = Some(failed.map_or_else(|| left.clone(), |failed| join_cwd(&left, &failed)));
            self.cwd = cwd;
        }
    }

    /// In a process of its own: what it changes is not seen here, but for functions that may be defined.
    pub(super) fn child(&self) -> Self {
        let mut child = self.clone();
        child.settle();
        child
    }
}

fn join_cwd(one: &Cwd, two: &Cwd) -> Cwd {
    match (one, two) {
        (Cwd::OneOf(one), Cwd::OneOf(two)) => {
            let all: BTreeSet<&ContainerPath> = one.iter().chain(two).collect();
            if all.len() > MAX_DIRECTORIES { Cwd::Unknown } else { Cwd::OneOf(all.into_iter().cloned().collect()) }
        }
        (Cwd::Unknown, _) | (_, Cwd::Unknown) => Cwd::Unknown,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;

    fn at(path: &str) -> State {
        State::new(Cwd::OneOf(vec![ContainerPath::parse(path).unwrap()]))
    }

    #[test]
    fn a_join_knows_what_both_know() {
        let (mut one, mut two) = (at("/a"), at("/b"));
        one.set("x", Variable::text("git"));
        two.set("x", Variable::text("ls"));
        one.set("y", Variable::text("1"));
        one.set("n", Variable::text("1"));
        two.set("n", Variable::Number);
        let both = one.clone().join(two.clone());
        assert_eq!(
            both.variables.get("x"),
            Some(&Variable::OneOf(vec![Word::Text("git".into()), Word::Text("ls".into())]))
        );
        assert_eq!(both.variables.get("n"), Some(&Variable::Number));
        let perhaps = [Word::Unknown { prefix: String::new(), many: false }, Word::Text("1".into())];
        assert!(matches!(both.variables.get("y"), Some(Variable::OneOf(words)) if words.len() == perhaps.len()));
        assert_eq!(
            both.cwd,
            Cwd::OneOf(vec![ContainerPath::parse("/a").unwrap(), ContainerPath::parse("/b").unwrap()])
        );
        two.ended = true;
        assert_eq!(one.clone().join(two), one);
    }

    #[test]
    fn many_values_leave_what_they_begin_with() {
        let words = (0..=MAX_VALUES).map(|n| Word::Text(format!("src/{n}"))).collect();
        let expected = Word::Unknown { prefix: "src/".into(), many: false };
        assert_eq!(Variable::values(words), Variable::OneOf(vec![expected]));
        assert_eq!(Variable::values(Vec::new()), Variable::Unknown);
    }

    #[test]
    fn integers_have_one_reading() {
        for (text, expected) in [("0", true), ("-12", true), ("", false), ("-", false), ("0x1", false), ("1 ", false)] {
            assert_eq!(is_integer(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_failed_cd_leaves_the_directory() {
        let mut state = at("/a");
        let old = std::mem::replace(&mut state.cwd, at("/b").cwd);
        state.failed_cwd = Some(old.clone());
        let mut failed = state.clone();
        failed.failed();
        assert_eq!(failed.cwd, old);
        let mut succeeded = state.clone();
        succeeded.succeeded();
        assert_eq!(succeeded.cwd, at("/b").cwd);
        state.settle();
        assert_eq!(state, at("/a").join(at("/b")));
    }
}
