//! One part of a shell pattern, between two slashes, and whether it could match a name.

/// A part of a pattern. Letters are compared without regard to case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Token>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`, and a bracket expression that is not looked into.
    Any,
    /// `*`
    Many,
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Token {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Char(own) => own.eq_ignore_ascii_case(&c),
            Self::Any | Self::Many => true,
            Self::Set { negated, ranges } => {
                let takes = |c: char| ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated;
                takes(c.to_ascii_lowercase()) || takes(c.to_ascii_uppercase())
            }
        }
    }
}

impl Pattern {
    /// Reads one part. A bracket expression with classes in it could match any character.
    pub(crate) fn read(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text;
        let mut unclosed = false;
        while let Some(c) = rest.chars().next() {
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            tokens.push(match c {
                // Behind a bracket that nothing closes another one is not looked for again and again.
                '[' | '*' if (c == '*' || unclosed) && tokens.last() == Some(&Token::Many) => continue,
                '*' => Token::Many,
                '[' if unclosed => Token::Many,
                '?' => Token::Any,
                '\\' => match rest.chars().next() {
                    Some(escaped) => {
                        rest = rest.get(escaped.len_utf8()..).unwrap_or_default();
                        Token::Char(escaped)
                    }
                    None => Token::Char('\\'),
                },
                '[' => match set(rest) {
                    Some((token, after)) => {
                        rest = after;
                        token
                    }
                    None => {
                        unclosed = true;
                        Token::Char('[')
                    }
                },
                literal => Token::Char(literal),
            });
        }
        Self(tokens)
    }

    /// Its text, if it matches nothing else.
    pub(crate) fn literal(&self) -> Option<String> {
        let char = |token: &Token| match token {
            Token::Char(c) => Some(*c),
            Token::Any | Token::Many | Token::Set { .. } => None,
        };
        self.0.iter().map(char).collect()
    }

    /// Whether it is nothing but `*`.
    pub(crate) fn is_everything(&self) -> bool {
        self.0 == [Token::Many]
    }

    /// Whether the shell could take the name for it. A lone `*` is taken to stand for ordinary names.
    pub(crate) fn could_match(&self, name: &str) -> bool {
        !self.is_everything() && self.matches_as_shell(name)
    }

    /// As the shell matches: a leading dot only by a dot.
    pub(crate) fn matches_as_shell(&self, name: &str) -> bool {
        self.minds_the_dot(name) && self.matches(name)
    }

    /// Whether some name that begins with `start` is matched as the shell does.
    pub(crate) fn could_begin(&self, start: &str) -> bool {
        self.minds_the_dot(start) && !self.places_after(start).is_empty()
    }

    /// As other programs match: nothing is special about a dot.
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.places_after(name).contains(&self.0.len())
    }

    fn minds_the_dot(&self, name: &str) -> bool {
        !name.starts_with('.') || self.0.first() == Some(&Token::Char('.'))
    }

    /// Where in the pattern one may be after `text`. Names are short, so this is linear in the pattern.
    fn places_after(&self, text: &str) -> Vec<usize> {
        let mut places = self.with_skips(vec![0]);
        for c in text.chars() {
            let mut next = Vec::new();
            for place in places {
                match self.0.get(place) {
                    Some(Token::Many) => next.push(place),
                    Some(token) if token.takes(c) => next.push(place.saturating_add(1)),
                    Some(_) | None => {}
                }
            }
            next.dedup();
            places = self.with_skips(next);
        }
        places
    }

    /// Adds the places behind every `*`. The places are in order and stay so.
    fn with_skips(&self, places: Vec<usize>) -> Vec<usize> {
        let mut all: Vec<usize> = Vec::with_capacity(places.len().saturating_add(1));
        for place in places {
            if all.last().is_none_or(|last| *last < place) {
                all.push(place);
            }
            let behind = place.saturating_add(1);
            if self.0.get(place) == Some(&Token::Many) && all.last().is_none_or(|last| *last < behind) {
                all.push(behind);
            }
        }
        all
    }
}

/// A bracket expression behind its `[`, and what stands behind it; `None` if it is not closed.
fn set(text: &str) -> Option<(Token, &str)> {
    let negated = text.starts_with(['!', '^']);
    let body = if negated { text.get(1..)? } else { text };
    let (end, special) = closing(body)?;
    let (inside, after) = body.split_at_checked(end)?;
    let after = after.get(1..)?;
    if special {
        return Some((Token::Any, after));
    }
    let mut ranges = Vec::new();
    let mut characters = inside.chars().peekable();
    while let Some(from) = characters.next() {
        let mut ahead = characters.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(to)) => {
                ranges.push((from, to));
                characters = ahead;
            }
            _ => ranges.push((from, from)),
        }
    }
    Some((Token::Set { negated, ranges }, after))
}

/// Where a bracket expression's `]` is, and whether there are escapes or classes before it.
fn closing(body: &str) -> Option<(usize, bool)> {
    let mut special = false;
    let mut characters = body.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        match c {
            // As the first character it is one of the set.
            ']' if at != 0 => return Some((at, special)),
            '\\' => {
                special = true;
                characters.next();
            }
            '[' => {
                let Some(kind) = characters.peek().map(|(_, c)| *c).filter(|c| matches!(c, ':' | '.' | '=')) else {
                    continue;
                };
                special = true;
                characters.next();
                while let Some((_, inner)) = characters.next() {
                    if inner == kind && characters.next_if(|(_, c)| *c == ']').is_some() {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    None
}
