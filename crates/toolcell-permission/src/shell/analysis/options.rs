//! Skips the options of a program that runs another one.

use crate::shell::script::Word;

/// The options that a program has. Any other one is not understood.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    /// Letters without a value.
    pub(super) flags: &'static str,
    /// Letters with a value: the rest of the word, or the next one.
    pub(super) valued: &'static str,
    /// Long ones without a value.
    pub(super) long_flags: &'static [&'static str],
    /// Long ones with a value, after `=` or in the next word.
    pub(super) long_valued: &'static [&'static str],
}

/// Options that are not understood: the program that they stand before cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotUnderstood;

impl Options {
    /// The place of the first word that is no option. Abbreviated long options are not understood.
    pub(super) fn skip(&self, words: &[Word], from: usize) -> Result<usize, NotUnderstood> {
        let mut at = from;
        loop {
            if words.get(at).and_then(Word::text) == Some("--") {
                return Ok(at.saturating_add(1));
            }
            match self.one(words, at)? {
                Some(next) => at = next,
                None => return Ok(at),
            }
        }
    }

    /// The place after the option that stands at `at`, with its value; `None` if none stands there.
    pub(super) fn one(&self, words: &[Word], at: usize) -> Result<Option<usize>, NotUnderstood> {
        let text = match words.get(at) {
            None => return Ok(None),
            Some(Word::Text(text)) => text.as_str(),
            Some(word) if word.known_prefix().is_empty() || word.known_prefix().starts_with('-') => {
                return Err(NotUnderstood);
            }
            Some(_) => return Ok(None),
        };
        let next = at.saturating_add(1);
        if let Some(long) = text.strip_prefix("--") {
            return match long.split_once('=') {
                Some((name, _)) if self.long_valued.contains(&name) => Ok(Some(next)),
                None if self.long_flags.contains(&long) => Ok(Some(next)),
                None if self.long_valued.contains(&long) => one_more(words, next).map(Some),
                Some(_) | None => Err(NotUnderstood),
            };
        }
        match text.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            Some(letters) if self.takes_next(letters)? => one_more(words, next).map(Some),
            Some(_) => Ok(Some(next)),
            None => Ok(None),
        }
    }

    /// Whether the last of these letters takes the next word as its value.
    fn takes_next(&self, letters: &str) -> Result<bool, NotUnderstood> {
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            if self.valued.contains(letter) {
                return Ok(rest.as_str().is_empty());
            }
            if !self.flags.contains(letter) {
                return Err(NotUnderstood);
            }
        }
        Ok(false)
    }
}

/// A value of unknown number of words leaves open where the program is.
fn one_more(words: &[Word], at: usize) -> Result<usize, NotUnderstood> {
    match words.get(at) {
        Some(Word::Text(_) | Word::Unknown { many: false, .. }) => Ok(at.saturating_add(1)),
        Some(Word::Glob(_) | Word::Unknown { many: true, .. }) | None => Err(NotUnderstood),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Options = Options { flags: "ab", valued: "n", long_flags: &["all"], long_valued: &["number"] };

    fn skip(line: &str) -> Result<usize, NotUnderstood> {
        let word = |text: &str| match text {
            "?" => Word::Unknown { prefix: String::new(), many: false },
            "?+" => Word::Unknown { prefix: String::new(), many: true },
            text => Word::Text(text.to_owned()),
        };
        SAMPLE.skip(&line.split(' ').map(word).collect::<Vec<_>>(), 1)
    }

    #[test]
    fn finds_the_first_operand() {
        for (line, expected) in [
            ("x", Ok(1)),
            ("x c", Ok(1)),
            ("x -a -b c", Ok(3)),
            ("x -ab c", Ok(2)),
            ("x -n 5 c", Ok(3)),
            ("x -n5 c", Ok(2)),
            ("x -an5 c", Ok(2)),
            ("x -an 5 c", Ok(3)),
            ("x -n ? c", Ok(3)),
            ("x --all --number=5 c", Ok(3)),
            ("x --number 5 c", Ok(3)),
            ("x -- -a", Ok(2)),
            ("x - c", Ok(1)),
            ("x -c", Err(NotUnderstood)),
            ("x --al c", Err(NotUnderstood)),
            ("x --all=1 c", Err(NotUnderstood)),
            ("x -n ?+ c", Err(NotUnderstood)),
            ("x -n", Err(NotUnderstood)),
            ("x ? c", Err(NotUnderstood)),
        ] {
            assert_eq!(skip(line), expected, "{line}");
        }
    }
}
