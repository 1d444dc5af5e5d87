//! Patterns for the words of one command: `npm run:*`, `git * --force`.

use super::glob::{Glob, Token};
use super::quoting::{Piece, split};
use super::sequence;
use super::verdict::Match;
use crate::shell::script::Word;

/// A pattern for the words of one command.
///
/// Words are parted by blanks and may be quoted as in a shell: `'…'`, `"…"`, `\`. An unquoted `*` stands for any
/// characters of a word; as a word by itself for any number of words, none included. `:*` at the end stands for any
/// further words. Nothing else has a meaning: a `$`, a `?` or a `~` is that character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPattern {
    items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    /// Any number of words.
    Span,
    /// One word.
    Word(Glob),
}

impl Item {
    fn is_span(&self) -> bool {
        matches!(self, Self::Span)
    }
}

impl CommandPattern {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut words = split(text)?;
        let operator = |word: &Vec<Piece>| {
            let plain: Option<String> = word.iter().map(|piece| (!piece.quoted).then_some(piece.character)).collect();
            matches!(plain.as_deref(), Some(";" | "&" | "&&" | "|" | "||" | "|&" | ">" | ">>" | "<" | "2>" | "&>"))
        };
        if words.iter().any(operator) {
            return Err("a rule is about one command, so `; & | < >` are no words of it; \
                        write a rule for each command, or quote the word");
        }
        let prefix = match words.last_mut() {
            Some(last) if last.ends_with(&[Piece::plain(':'), Piece::plain('*')]) => {
                last.truncate(last.len().saturating_sub(2));
                if last.is_empty() {
                    return Err("`:*` must follow a word, as in `npm run:*`; write `execute` alone for every command");
                }
                true
            }
            _ => false,
        };
        let mut items: Vec<Item> = words.iter().map(|word| item(word)).collect();
        if prefix {
            items.push(Item::Span);
        }
        // One span after another says no more than one, and costs time at every call.
        items.dedup_by(|later, earlier| later.is_span() && earlier.is_span());
        if items.is_empty() { Err("no word stands between `(` and `)`") } else { Ok(Self { items }) }
    }

    /// Whether it matches a command. With `by_base_name` a program that is named by its path (`/usr/bin/git`) also
    /// matches as its last component: for deny and ask rules, because a path is not the program that an allow rule
    /// names. The cost is bounded by the product of the lengths.
    #[must_use]
    pub fn matches(&self, words: &[Word], by_base_name: bool) -> Match {
        let (mut items, mut left, mut base) = (self.items.as_slice(), words, by_base_name);
        // Most rules are about another program, and this tells so at once.
        while let (Some((item @ Item::Word(_), more)), Some((word @ Word::Text(_), after))) =
            (items.split_first(), left.split_first())
        {
            if fits(item, word, base) == Match::No {
                return Match::No;
            }
            (items, left, base) = (more, after, false);
        }
        if matches!(items, [Item::Span]) {
            return Match::Yes;
        }
        if left.iter().all(|word| word.text().is_some()) {
            let elements = left.iter().enumerate();
            return Match::known(sequence::matches(items, elements, Item::is_span, |item, (place, word)| {
                fits(item, word, base && place == 0) == Match::Yes
            }));
        }
        match_unknown(items, left, base)
    }
}

/// With words that are known in part only: follows what could be and what must be from word to word.
fn match_unknown(items: &[Item], words: &[Word], by_base_name: bool) -> Match {
    let mut could = start(items);
    let mut must = could.clone();
    for (place, word) in words.iter().enumerate() {
        let base = by_base_name && place == 0;
        let could_fit = |item: &Item| fits(item, word, base) != Match::No;
        let must_fit = |item: &Item| fits(item, word, base) == Match::Yes;
        match word {
            Word::Text(_) | Word::Unknown { many: false, .. } => {
                could = step(items, &could, false, could_fit);
                must = step(items, &must, false, must_fit);
            }
            // As many words as there are files, so that only a span is sure of them.
            Word::Glob(_) => {
                could = step(items, &could, true, could_fit);
                must = step(items, &must, false, |_| false);
            }
            // None, or one that begins so and then whatever.
            Word::Unknown { many: true, .. } => {
                let mut open = false;
                could = step(items, &could, false, could_fit)
                    .iter()
                    .zip(&could)
                    .map(|(after, before)| {
                        open |= after;
                        open || *before
                    })
                    .collect();
                must = step(items, &must, false, |_| false);
            }
        }
        if !could.contains(&true) {
            return Match::No;
        }
    }
    match (must.last(), could.last()) {
        (Some(true), _) => Match::Yes,
        (_, Some(true)) => Match::Maybe,
        _ => Match::No,
    }
}

fn item(word: &[Piece]) -> Item {
    let star = |piece: &Piece| !piece.quoted && piece.character == '*';
    if !word.is_empty() && word.iter().all(star) {
        return Item::Span;
    }
    let token = |piece: &Piece| if star(piece) { Token::Many } else { Token::character(piece.character) };
    Item::Word(Glob::new(word.iter().map(token).collect()))
}

/// Whether one word is what an item wants. `base`: it is the program, and its last component will do.
fn fits(item: &Item, word: &Word, base: bool) -> Match {
    let Item::Word(glob) = item else { return Match::Yes };
    match word {
        Word::Text(text) => {
            let bytes = text.as_bytes();
            let matches = glob.matches(bytes) || base && glob.matches_base_name(bytes);
            Match::known(matches)
        }
        Word::Glob(_) | Word::Unknown { .. } if base => Match::Maybe,
        Word::Glob(pattern) if glob.meets(&Glob::of_shell(pattern)) => Match::Maybe,
        Word::Glob(_) => Match::No,
        Word::Unknown { prefix, .. } => glob.matches_prefix(prefix.as_bytes()),
    }
}

/// The places among the items at which the words may begin.
fn start(items: &[Item]) -> Vec<bool> {
    let mut places = vec![true];
    places.extend(items.iter().scan(true, |open, item| {
        *open = *open && item.is_span();
        Some(*open)
    }));
    places
}

/// The places that one more word leads to, or, with `repeat`, one or more words that all fit alike.
fn step(items: &[Item], places: &[bool], repeat: bool, fits: impl Fn(&Item) -> bool) -> Vec<bool> {
    let mut next = Vec::with_capacity(places.len());
    let mut left: Option<(&Item, bool, bool)> = None;
    for (place, reached) in places.iter().enumerate() {
        let here = items.get(place);
        let stays = *reached && here.is_some_and(Item::is_span);
        let comes = left.is_some_and(|(item, before, after)| match item {
            Item::Span => after,
            Item::Word(_) => (before || repeat && after) && fits(item),
        });
        next.push(stays || comes);
        left = here.map(|item| (item, *reached, stays || comes));
    }
    next
}
