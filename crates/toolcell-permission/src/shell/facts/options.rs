//! Command lines, split into options and operands.

use crate::shell::script::Word;
use std::borrow::Cow;

/// The options that are known of a program.
///
/// `short` holds letters, `long` names parted by blanks. Behind each may stand what follows it: `:` a value that is
/// data, `<` a file that is read, `>` a file that is written, `?` a value only if it is glued to the option; and `!`
/// if the option makes the program do more than read. In `short`, `#` stands for `-NUMBER`. A `-` at its beginning
/// says that the program takes no glued values: `-Lo 2 x` is `-L 2 -o x`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grammar {
    pub(super) short: &'static str,
    pub(super) long: &'static str,
}

/// What follows an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Glued,
    Data,
    Read,
    Write,
    /// The option is not in the grammar.
    NotListed,
}

/// An option as it was given.
#[derive(Debug, Clone)]
pub(super) struct Given<'w> {
    /// Without dashes; `#` for `-NUMBER`.
    pub(super) name: &'w str,
    pub(super) long: bool,
    pub(super) takes: Takes,
    pub(super) value: Option<Cow<'w, Word>>,
}

/// A command's arguments.
#[derive(Debug, Clone, Default)]
pub(super) struct Line<'w> {
    pub(super) given: Vec<Given<'w>>,
    pub(super) operands: Vec<&'w Word>,
    /// How many of the operands stand before `--`, if there is one.
    pub(super) before_dashes: Option<usize>,
    /// Something may be an option that the grammar does not have.
    pub(super) unlisted: bool,
    /// An option makes the program do more than read.
    pub(super) harmful: bool,
    /// A glob may give words that begin with a dash.
    pub(super) dashable: bool,
    /// A word is an option whose value is not known.
    pub(super) unclear: bool,
}

const MARKS: [char; 5] = [':', '<', '>', '?', '!'];

impl Grammar {
    fn short(self, letter: char) -> Option<(Takes, bool)> {
        if MARKS.contains(&letter) || letter == '#' || letter == '-' {
            return None;
        }
        let (_, after) = self.short.split_once(letter)?;
        let end = after.find(|c| !MARKS.contains(&c)).unwrap_or(after.len());
        marks(after.get(..end)?)
    }

    fn long(self, name: &str) -> Option<(Takes, bool)> {
        if name.is_empty() || name.contains(|c| c == ' ' || MARKS.contains(&c)) {
            return None;
        }
        self.long.match_indices(name).find_map(|(at, _)| {
            let (before, after) = self.long.split_at_checked(at)?;
            let after = after.get(name.len()..)?;
            let end = after.find(' ').unwrap_or(after.len());
            if before.is_empty() || before.ends_with(' ') { marks(after.get(..end)?) } else { None }
        })
    }

    /// Splits the words behind the program.
    pub(super) fn split(self, words: &[Word]) -> Line<'_> {
        Grammars { first: self, second: Grammar { short: "", long: "" } }.split(words)
    }
}

/// Two grammars that belong to one program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grammars {
    pub(super) first: Grammar,
    pub(super) second: Grammar,
}

impl Grammars {
    fn short(self, letter: char) -> Option<(Takes, bool)> {
        self.first.short(letter).or_else(|| self.second.short(letter))
    }

    fn long(self, name: &str) -> Option<(Takes, bool)> {
        self.first.long(name).or_else(|| self.second.long(name))
    }

    /// Splits the words behind the program.
    pub(super) fn split(self, words: &[Word]) -> Line<'_> {
        let mut line = Line::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if line.before_dashes.is_some() {
                line.operands.push(word);
                continue;
            }
            match word {
                Word::Text(text) => match text.strip_prefix("--") {
                    Some("") => line.before_dashes = Some(line.operands.len()),
                    Some(option) => self.long_option(option, &mut rest, &mut line),
                    None => match text.strip_prefix('-') {
                        None | Some("") => line.operands.push(word),
                        Some(letters) => self.short_options(letters, &mut rest, &mut line),
                    },
                },
                Word::Glob(_) | Word::Unknown { .. } => self.partly_known(word, &mut line),
            }
        }
        line
    }

    fn long_option<'w>(self, option: &'w str, rest: &mut std::slice::Iter<'w, Word>, line: &mut Line<'w>) {
        let (name, glued) = match option.split_once('=') {
            Some((name, value)) => (name, Some(Cow::Owned(Word::Text(value.to_owned())))),
            None => (option, None),
        };
        let (takes, harmful) = self.long(name).unwrap_or((Takes::NotListed, true));
        let value = match takes {
            Takes::Data | Takes::Read | Takes::Write if glued.is_none() => line.next_value(rest),
            Takes::Data | Takes::Read | Takes::Write | Takes::Glued | Takes::Nothing | Takes::NotListed => glued,
        };
        line.unlisted |= takes == Takes::NotListed || (takes == Takes::Nothing && value.is_some());
        line.harmful |= harmful;
        line.given.push(Given { name, long: true, takes, value });
    }

    fn short_options<'w>(self, letters: &'w str, rest: &mut std::slice::Iter<'w, Word>, line: &mut Line<'w>) {
        if letters.bytes().all(|byte| byte.is_ascii_digit()) && self.first.short.contains('#') {
            line.given.push(Given { name: "#", long: false, takes: Takes::Nothing, value: None });
            return;
        }
        let mut tail = letters;
        let mut guessed = false;
        while let Some(letter) = tail.chars().next() {
            let Some((name, after)) = tail.split_at_checked(letter.len_utf8()) else { return };
            tail = after;
            let (takes, harmful) = self.short(letter).unwrap_or((Takes::NotListed, true));
            line.unlisted |= takes == Takes::NotListed;
            line.harmful |= harmful;
            let glued = || (!after.is_empty()).then(|| Cow::Owned(Word::Text(after.to_owned())));
            let value = match takes {
                Takes::Nothing => None,
                // What follows may be its value or more options: both are looked at.
                Takes::NotListed if guessed => None,
                Takes::NotListed => glued(),
                Takes::Glued => glued(),
                Takes::Data | Takes::Read | Takes::Write if after.is_empty() => line.next_value(rest),
                Takes::Data | Takes::Read | Takes::Write => {
                    line.unlisted |= self.first.short.starts_with('-');
                    glued()
                }
            };
            guessed |= takes == Takes::NotListed;
            let more = matches!(takes, Takes::Nothing | Takes::NotListed);
            line.given.push(Given { name, long: false, takes, value });
            if !more {
                return;
            }
        }
    }

    /// A glob or an unknown word. Only `--name=` at its beginning makes it a known option.
    fn partly_known<'w>(self, word: &'w Word, line: &mut Line<'w>) {
        let prefix = word.known_prefix();
        let many = matches!(word, Word::Unknown { many: true, .. });
        if prefix.is_empty() || many {
            match word {
                Word::Glob(_) => line.dashable = true,
                Word::Text(_) | Word::Unknown { .. } => line.unlisted = true,
            }
            line.operands.push(word);
        } else if !prefix.starts_with('-') {
            line.operands.push(word);
        } else {
            let option = prefix.strip_prefix("--").and_then(|option| option.split_once('='));
            let known = option.and_then(|(name, _)| Some((name, self.long(name)?)));
            match known {
                Some((name, (takes, harmful))) if takes != Takes::Nothing => {
                    line.harmful |= harmful;
                    let value = tail(word, name.len().saturating_add(3));
                    line.given.push(Given { name, long: true, takes, value: Some(Cow::Owned(value)) });
                }
                Some(_) | None => {
                    line.unlisted = true;
                    line.unclear = true;
                    line.unclear_option(option, word);
                }
            }
        }
    }
}

/// What an option's marks say, if they are marks.
fn marks(text: &str) -> Option<(Takes, bool)> {
    let (kind, harmful) = match text.strip_suffix('!') {
        Some(kind) => (kind, true),
        None => (text, false),
    };
    let takes = match kind {
        "" => Takes::Nothing,
        ":" => Takes::Data,
        "<" => Takes::Read,
        ">" => Takes::Write,
        "?" => Takes::Glued,
        _ => return None,
    };
    Some((takes, harmful))
}

/// The word without its first bytes, which are known.
fn tail(word: &Word, from: usize) -> Word {
    let cut = |text: &str| text.get(from..).unwrap_or_default().to_owned();
    match word {
        Word::Text(text) => Word::Text(cut(text)),
        Word::Glob(pattern) => Word::Glob(cut(pattern)),
        Word::Unknown { prefix, many } => Word::Unknown { prefix: cut(prefix), many: *many },
    }
}

impl<'w> Line<'w> {
    fn next_value(&mut self, rest: &mut std::slice::Iter<'w, Word>) -> Option<Cow<'w, Word>> {
        let value = rest.next();
        match value {
            None | Some(Word::Unknown { many: true, .. }) => self.unlisted = true,
            // It may give more than one word, and the others are not the option's.
            Some(Word::Glob(_)) => self.dashable = true,
            Some(Word::Text(_) | Word::Unknown { .. }) => {}
        }
        value.map(Cow::Borrowed)
    }

    fn unclear_option(&mut self, option: Option<(&'w str, &'w str)>, word: &'w Word) {
        let Some((name, _)) = option else { return };
        let value = Some(Cow::Owned(tail(word, name.len().saturating_add(3))));
        self.given.push(Given { name, long: true, takes: Takes::NotListed, value });
    }

    /// Whether one of these letters or this long option was given. A long one may be abbreviated, so this is for
    /// what must not be overlooked.
    pub(super) fn may_have(&self, letters: &str, long: &str) -> bool {
        self.given.iter().any(|given| match given.long {
            true => !long.is_empty() && long.starts_with(given.name),
            false => letters.contains(given.name),
        })
    }

    /// Whether one of these was given, letters as they are and long options by their whole names.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|given| names.contains(&given.name))
    }

    /// The values given to one of these options.
    pub(super) fn values<'l>(&'l self, names: &'l [&str]) -> impl Iterator<Item = &'l Word> {
        self.given.iter().filter(|given| names.contains(&given.name)).filter_map(|given| given.value.as_deref())
    }
}
