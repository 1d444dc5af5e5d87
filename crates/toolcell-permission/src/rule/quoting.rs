//! The words of a rule's command, and how a word is quoted to be one.

/// A character of a word, and whether it was quoted: then it is only itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) character: char,
    pub(super) quoted: bool,
}

impl Piece {
    pub(super) fn plain(character: char) -> Self {
        Self { character, quoted: false }
    }

    fn quoted(character: char) -> Self {
        Self { character, quoted: true }
    }
}

/// Splits at unquoted spaces. `'…'` takes everything as it is; in `"…"` a backslash quotes `"`, `\`, `$` and a backtick;
/// elsewhere it quotes any character.
pub(super) fn split(text: &str) -> Result<Vec<Vec<Piece>>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<Vec<Piece>> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == ' ' {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match c {
            '\'' => loop {
                match rest.next().ok_or("a `'` is not closed; write `\\'` for the character itself")? {
                    '\'' => break,
                    c => word.push(Piece::quoted(c)),
                }
            },
            '"' => loop {
                const UNCLOSED: &str = "a `\"` is not closed; write `\\\"` for the character itself";
                match rest.next().ok_or(UNCLOSED)? {
                    '"' => break,
                    '\\' => match rest.next().ok_or(UNCLOSED)? {
                        c @ ('"' | '\\' | '$' | '`') => word.push(Piece::quoted(c)),
                        c => word.extend([Piece::quoted('\\'), Piece::quoted(c)]),
                    },
                    c => word.push(Piece::quoted(c)),
                }
            },
            '\\' => word.push(Piece::quoted(rest.next().ok_or("nothing stands after its last `\\`")?)),
            c => word.push(Piece::plain(c)),
        }
    }
    words.extend(word);
    Ok(words)
}

/// A word so that [`split`] gives it back, all quoted that could have a meaning. `None` for control characters, which no
/// rule can hold.
pub(crate) fn quote(word: &str) -> Option<String> {
    if word.chars().any(char::is_control) {
        return None;
    }
    let harmless = |c: char| c.is_alphanumeric() || "_./:=@%+,-".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        return Some(word.to_owned());
    }
    Some(format!("'{}'", word.replace('\'', "'\\''")))
}
