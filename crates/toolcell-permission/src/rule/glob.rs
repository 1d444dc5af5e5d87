//! One text against one pattern: `*`, `?`, `[a-z]`.

use super::sequence;
use super::verdict::Match;

/// A character; a byte that belongs to none lies above all of them, so that it equals only itself.
type Unit = u32;

const NOT_A_CHARACTER: Unit = 0x11_0000;

/// What a text is made of. Linux promises nothing about the encoding of names, so it may be any bytes.
#[derive(Debug, Clone)]
struct Units<'a>(&'a [u8]);

impl Iterator for Units<'_> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        let (&lead, rest) = self.0.split_first()?;
        let length = match lead {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        let character = self.0.split_at_checked(length).and_then(|(head, tail)| {
            let character = std::str::from_utf8(head).ok()?.chars().next()?;
            Some((Unit::from(character), tail))
        });
        let (unit, rest) = character.unwrap_or((NOT_A_CHARACTER | Unit::from(lead), rest));
        self.0 = rest;
        Some(unit)
    }
}

/// One item of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// This character.
    Unit(Unit),
    /// Any one character.
    One,
    /// Any number of characters.
    Many,
    /// One of these characters, or one that is none of them.
    Class { negated: bool, ranges: Vec<(Unit, Unit)> },
}

impl Token {
    pub(super) fn character(c: char) -> Self {
        Self::Unit(c.into())
    }

    fn takes(&self, unit: Unit) -> bool {
        match self {
            Self::Unit(own) => *own == unit,
            Self::One | Self::Many => true,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&unit)) != *negated
            }
        }
    }

    /// Whether some character may be taken by both; a class is not compared with another one.
    fn shares(&self, other: &Self) -> bool {
        match (self, other) {
            (token, Self::Unit(unit)) | (Self::Unit(unit), token) => token.takes(*unit),
            (Self::One | Self::Many | Self::Class { .. }, Self::One | Self::Many | Self::Class { .. }) => true,
        }
    }

    fn is_span(&self) -> bool {
        matches!(self, Self::Many)
    }
}

/// A pattern for one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    tokens: Vec<Token>,
    /// The only text that fits, where there is one: most patterns are plain, and this is quick.
    literal: Option<Vec<u8>>,
}

impl Glob {
    pub(super) fn new(tokens: Vec<Token>) -> Self {
        let character = |token: &Token| match token {
            Token::Unit(unit) => char::from_u32(*unit),
            Token::One | Token::Many | Token::Class { .. } => None,
        };
        let literal = tokens.iter().map(character).collect::<Option<String>>().map(String::into_bytes);
        Self { tokens, literal }
    }

    /// In which only `*` has a meaning.
    pub(super) fn with_stars_only(text: &str) -> Self {
        Self::new(text.chars().map(|c| if c == '*' { Token::Many } else { Token::character(c) }).collect())
    }

    /// In which `*`, `?` and `[…]` have a meaning, and `\` takes away the next character's.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut tokens = Vec::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            tokens.push(match c {
                '*' => Token::Many,
                '?' => Token::One,
                '[' => class(&mut rest)?,
                '\\' => Token::character(rest.next().ok_or("nothing stands after its last `\\`")?),
                c => Token::character(c),
            });
        }
        Ok(Self::new(tokens))
    }

    /// A word of a shell script. Whatever the shell may take it for fits, and the word itself, so `[` and whatever
    /// follows it is any text.
    pub(super) fn of_shell(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            let extended = matches!(c, '?' | '*' | '+' | '@' | '!') && rest.peek() == Some(&'(');
            if c == '[' || extended {
                tokens.push(Token::Many);
                break;
            }
            tokens.push(match c {
                '*' => Token::Many,
                '?' => Token::One,
                '\\' => Token::character(rest.next().unwrap_or('\\')),
                c => Token::character(c),
            });
        }
        Self::new(tokens)
    }

    /// Whatever begins so.
    pub(super) fn of_prefix(prefix: &[u8]) -> Self {
        Self::new(Units(prefix).map(Token::Unit).chain([Token::Many]).collect())
    }

    /// This text.
    pub(super) fn of_text(text: &[u8]) -> Self {
        Self { tokens: Units(text).map(Token::Unit).collect(), literal: Some(text.to_vec()) }
    }

    pub(super) fn is_literal(&self) -> bool {
        self.literal.is_some()
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        match &self.literal {
            Some(literal) => literal == text,
            None => sequence::matches(&self.tokens, Units(text), Token::is_span, Token::takes),
        }
    }

    /// Whether it matches what stands behind the last slash.
    pub(super) fn matches_base_name(&self, path: &[u8]) -> bool {
        // Looking for a slash in every program's name costs more than all else of most rules.
        if self.literal.as_ref().is_some_and(|literal| !path.ends_with(literal)) {
            return false;
        }
        let mut parts = path.rsplitn(2, |byte| *byte == b'/');
        parts.next().is_some_and(|name| !name.is_empty() && parts.next().is_some() && self.matches(name))
    }

    /// Whether some text fits both.
    pub(super) fn meets(&self, other: &Self) -> bool {
        match (&self.literal, &other.literal) {
            (Some(text), _) => other.matches(text),
            (None, Some(text)) => self.matches(text),
            (None, None) => sequence::meet(&self.tokens, &other.tokens, Token::is_span, Token::is_span, Token::shares),
        }
    }

    /// Of the texts that begin so, whether all, some or none fit. Says [`Match::Maybe`] for some sets of which all fit.
    pub(super) fn matches_prefix(&self, prefix: &[u8]) -> Match {
        if self.tokens.last().is_some_and(Token::is_span) && self.matches(prefix) {
            Match::Yes
        } else if self.meets(&Self::of_prefix(prefix)) {
            Match::Maybe
        } else {
            Match::No
        }
    }
}

/// What stands between `[` and `]`.
fn class(rest: &mut std::str::Chars<'_>) -> Result<Token, &'static str> {
    const UNCLOSED: &str = "a `[` in it is not closed; write `\\[` for the character itself";
    let mut ahead = rest.clone();
    let negated = matches!(ahead.next(), Some('!' | '^'));
    if negated {
        *rest = ahead;
    }
    let mut ranges = Vec::new();
    loop {
        let first = match rest.next().ok_or(UNCLOSED)? {
            ']' if !ranges.is_empty() => return Ok(Token::Class { negated, ranges }),
            '[' if rest.as_str().starts_with([':', '.', '=']) => {
                return Err("named classes such as `[:alpha:]` are not known; write the characters");
            }
            '\\' => rest.next().ok_or(UNCLOSED)?,
            c => c,
        };
        let mut ahead = rest.clone();
        let last = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(last)) if last != ']' => {
                *rest = ahead;
                if last == '\\' { rest.next().ok_or(UNCLOSED)? } else { last }
            }
            _ => first,
        };
        if last < first {
            return Err("a range between `[` and `]` runs backwards");
        }
        ranges.push((first.into(), last.into()));
    }
}

/// A text as a pattern that fits only it.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '~' | ',') || c.is_whitespace() {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
