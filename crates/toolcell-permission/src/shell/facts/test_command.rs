//! `test` and `[`.

use super::place::Uses;
use crate::shell::script::{Access, Word};

/// Whether it only looks: each of its operators is known, and where it has a single operator its operands may be any
/// one word. `-v` evaluates an index in its operand, so that has to be a plain name.
pub(super) fn reads(program: &str, arguments: &[Word], uses: &mut Uses<'_>) -> bool {
    let arguments = match (program, arguments.split_last()) {
        ("[", Some((Word::Text(close), rest))) if close == "]" => rest,
        ("[", _) => return false,
        _ => arguments,
    };
    // With more words, what one of them holds may change what the others are.
    let single = arguments.len() <= 4 && !arguments.iter().any(|word| matches!(word.text(), Some("-a" | "-o" | "(")));
    let dynamic = |word: &Word| match word {
        Word::Text(_) => false,
        Word::Unknown { many: false, .. } => !single,
        Word::Glob(_) | Word::Unknown { .. } => true,
    };
    let indexed = |word: &Word| word.known_prefix().contains('[');
    if arguments.iter().any(|word| word.text() == Some("-v")) && arguments.iter().any(indexed) {
        return false;
    }
    !arguments.iter().any(dynamic) && expression(arguments, uses)
}

fn expression(mut rest: &[Word], uses: &mut Uses<'_>) -> bool {
    let mut depth = 0_usize;
    if rest.is_empty() {
        return true;
    }
    loop {
        // Before an operand.
        while let Some((word, after)) = rest.split_first()
            && matches!(word.text(), Some("!" | "("))
            && !after.first().and_then(Word::text).is_some_and(is_binary)
        {
            depth = depth.saturating_add(usize::from(word.text() == Some("(")));
            rest = after;
        }
        let Some(after) = primary(rest, uses) else { return false };
        rest = after;
        while let Some((word, after)) = rest.split_first()
            && word.text() == Some(")")
            && depth > 0
        {
            depth = depth.saturating_sub(1);
            rest = after;
        }
        match rest.split_first() {
            None => return depth == 0,
            Some((word, after)) if matches!(word.text(), Some("-a" | "-o")) => rest = after,
            Some(_) => return false,
        }
    }
}

fn primary<'w>(rest: &'w [Word], uses: &mut Uses<'_>) -> Option<&'w [Word]> {
    match rest {
        [left, Word::Text(operator), right, after @ ..] if is_binary(operator) => {
            if matches!(operator.as_str(), "-nt" | "-ot" | "-ef") {
                uses.add_all([left, right], Access::Read);
                let known = left.text().is_some() && right.text().is_some();
                return known.then_some(after);
            }
            Some(after)
        }
        [Word::Text(operator), operand, after @ ..] if operator.starts_with('-') => match operator.as_str() {
            "-n" | "-z" | "-t" => Some(after),
            "-v" => operand.text().is_some_and(is_name).then_some(after),
            "-a" | "-b" | "-c" | "-d" | "-e" | "-f" | "-g" | "-h" | "-k" | "-p" | "-r" | "-s" | "-u" | "-w" | "-x"
            | "-G" | "-L" | "-N" | "-O" | "-S" => {
                uses.add(operand, Access::Read);
                operand.text().is_some().then_some(after)
            }
            _ => None,
        },
        [Word::Text(_) | Word::Unknown { many: false, .. }] => Some(&[]),
        [Word::Text(_), after @ ..] => Some(after),
        _ => None,
    }
}

fn is_binary(text: &str) -> bool {
    matches!(
        text,
        "=" | "==" | "!=" | "<" | ">" | "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" | "-nt" | "-ot" | "-ef"
    )
}

fn is_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
