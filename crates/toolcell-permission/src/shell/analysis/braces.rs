//! Brace expansion: `{a,b}`, `{1..3}`, over the parts of a word.

use crate::shell::ast::{Part, Word};

/// Most words that one word's braces may give. With more the word is unknown.
pub(super) const MAX_WORDS: usize = 64;
/// Deepest nesting. Deeper ones make the word unknown.
const MAX_DEPTH: usize = 8;
/// Longest word whose braces are looked at, in characters. A longer one with braces is unknown.
const MAX_ATOMS: usize = 1024;

/// One character of bare text, or a part that braces only move around.
#[derive(Debug, Clone, PartialEq)]
enum Atom {
    Char(char),
    Part(Part),
}

/// The words that a word's braces give; itself if it has none. `None` if they are too many.
pub(super) fn expand(word: &Word) -> Option<Vec<Word>> {
    let has_braces = word.parts.iter().any(|part| matches!(part, Part::Bare(text) if text.contains('{')));
    if !has_braces {
        return Some(vec![word.clone()]);
    }
    let mut atoms = Vec::new();
    for part in &word.parts {
        match part {
            Part::Bare(text) => atoms.extend(text.chars().map(Atom::Char)),
            Part::Quoted(_)
            | Part::Parameter { .. }
            | Part::Command { .. }
            | Part::Arithmetic(_)
            | Part::Process(_) => atoms.push(Atom::Part(part.clone())),
        }
    }
    if atoms.len() > MAX_ATOMS {
        return None;
    }
    let words = expand_atoms(&atoms, MAX_DEPTH)?;
    Some(words.into_iter().map(|atoms| Word { parts: parts(atoms), start: word.start }).collect())
}

fn parts(atoms: Vec<Atom>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for atom in atoms {
        match atom {
            Atom::Part(part) => parts.push(part),
            Atom::Char(c) => {
                if let Some(Part::Bare(text)) = parts.last_mut() {
                    text.push(c);
                } else {
                    parts.push(Part::Bare(c.to_string()));
                }
            }
        }
    }
    parts
}

fn expand_atoms(atoms: &[Atom], depth: usize) -> Option<Vec<Vec<Atom>>> {
    let mut from = 0;
    // The first brace that is one: an opening one without a comma or a sequence stays as it is.
    while let Some(open) = position(atoms, from, '{') {
        let after = open.saturating_add(1);
        let Some((close, alternatives)) = alternatives(atoms, after) else {
            from = after;
            continue;
        };
        let depth = depth.checked_sub(1)?;
        let choices = match alternatives {
            Alternatives::List(list) => {
                let mut choices = Vec::new();
                for alternative in list {
                    choices.extend(expand_atoms(alternative, depth)?);
                }
                choices
            }
            Alternatives::Sequence(texts) => texts?,
        };
        let before = atoms.get(..open).unwrap_or_default();
        let rest = expand_atoms(atoms.get(close.saturating_add(1)..).unwrap_or_default(), depth)?;
        if choices.len().saturating_mul(rest.len()) > MAX_WORDS {
            return None;
        }
        let mut words = Vec::new();
        for choice in &choices {
            for end in &rest {
                words.push([before, choice, end].concat());
            }
        }
        return Some(words);
    }
    Some(vec![atoms.to_vec()])
}

enum Alternatives<'a> {
    List(Vec<&'a [Atom]>),
    /// `None`: too many.
    Sequence(Option<Vec<Vec<Atom>>>),
}

/// What stands between the brace before `from` and its closing one, if that is an expansion.
fn alternatives(atoms: &[Atom], from: usize) -> Option<(usize, Alternatives<'_>)> {
    let mut depth = 0_usize;
    let mut commas = Vec::new();
    let mut close = None;
    for (at, atom) in atoms.iter().enumerate().skip(from) {
        match atom {
            Atom::Char('{') => depth = depth.saturating_add(1),
            Atom::Char('}') if depth == 0 => {
                close = Some(at);
                break;
            }
            Atom::Char('}') => depth = depth.saturating_sub(1),
            Atom::Char(',') if depth == 0 => commas.push(at),
            Atom::Char(_) | Atom::Part(_) => {}
        }
    }
    let close = close?;
    if commas.is_empty() {
        let inner = atoms.get(from..close)?;
        return sequence(inner).map(|texts| (close, Alternatives::Sequence(texts)));
    }
    let mut list = Vec::new();
    let mut start = from;
    for comma in commas {
        list.push(atoms.get(start..comma)?);
        start = comma.saturating_add(1);
    }
    list.push(atoms.get(start..close)?);
    Some((close, Alternatives::List(list)))
}

/// `1..5`, `a..e`, with a step: `None` if it is no sequence, `Some(None)` if it is one that is too long or unusual.
#[allow(clippy::option_option, reason = "the two are different answers, and it is private")]
fn sequence(atoms: &[Atom]) -> Option<Option<Vec<Vec<Atom>>>> {
    let mut text = String::new();
    for atom in atoms {
        match atom {
            Atom::Char(c) => text.push(*c),
            // `{$x..3}` stays as it is: braces come before parameters.
            Atom::Part(_) => return None,
        }
    }
    let (first, last) = text.split_once("..")?;
    let numbers = first.parse::<i64>().ok().zip(last.parse::<i64>().ok());
    let letter = |text: &str| text.parse::<char>().ok().filter(char::is_ascii_alphabetic);
    if let Some((first_number, last_number)) = numbers {
        let padded = |text: &str| text.trim_start_matches(['-', '+']).starts_with('0') && text.len() > 1;
        let span = first_number.abs_diff(last_number);
        if padded(first) || padded(last) || first.starts_with('+') || last.starts_with('+') || span >= MAX_WORDS as u64
        {
            return Some(None);
        }
        let (low, high) = (first_number.min(last_number), first_number.max(last_number));
        let mut words: Vec<_> = (low..=high).map(|n| n.to_string().chars().map(Atom::Char).collect()).collect();
        if first_number > last_number {
            words.reverse();
        }
        return Some(Some(words));
    }
    if let Some((first, last)) = letter(first).zip(letter(last)) {
        let (low, high) = (first.min(last), first.max(last));
        let mut words: Vec<_> = (low..=high).map(|c| vec![Atom::Char(c)]).collect();
        if first > last {
            words.reverse();
        }
        return Some(Some(words));
    }
    // Steps and the like are expansions in some shells and text in others.
    if last.contains("..") { Some(None) } else { None }
}

fn position(atoms: &[Atom], from: usize, wanted: char) -> Option<usize> {
    atoms.iter().enumerate().skip(from).find(|(_, atom)| **atom == Atom::Char(wanted)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Option<Vec<String>> {
        let word = Word { parts: vec![Part::Bare(text.into())], start: 0 };
        let flat = |word: Word| {
            let bare = |part: Part| if let Part::Bare(text) = part { text } else { String::new() };
            word.parts.into_iter().map(bare).collect()
        };
        expand(&word).map(|words| words.into_iter().map(flat).collect())
    }

    #[test]
    fn as_bash_does_it() {
        for (text, expected) in [
            ("a", "a"),
            ("{}", "{}"),
            ("{a}", "{a}"),
            ("{a,b}", "a b"),
            ("x{a,b}y", "xay xby"),
            ("{a,b}{1,2}", "a1 a2 b1 b2"),
            ("{a,{b,c}}d", "ad bd cd"),
            ("{1..3}", "1 2 3"),
            ("{3..1}", "3 2 1"),
            ("{-1..1}", "-1 0 1"),
            ("{a..c}", "a b c"),
            ("{,x}", " x"),
            ("{a,b", "{a,b"),
            ("a,b}", "a,b}"),
            ("{a..}", "{a..}"),
            ("{{a,b}}", "{a} {b}"),
        ] {
            assert_eq!(texts(text).map(|words| words.join(" ")).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn too_many_is_said() {
        assert_eq!(texts("{1..100}"), None);
        assert_eq!(texts("{01..10}"), None);
        assert_eq!(texts(&"{a,b}".repeat(7)), None);
        assert_eq!(texts(&format!("{}a,b{}", "{x,".repeat(9), "}".repeat(9))), None);
    }

    #[test]
    fn quoted_parts_move_along() {
        let quoted = Part::Quoted(",".into());
        let word = Word { parts: vec![Part::Bare("{a".into()), quoted.clone(), Part::Bare("b,c}".into())], start: 0 };
        let words = expand(&word).unwrap_or_default();
        assert_eq!(words.len(), 2);
        let first = words.into_iter().next().unwrap_or_default();
        assert_eq!(first.parts, [Part::Bare("a".into()), quoted, Part::Bare("b".into())]);
    }
}
