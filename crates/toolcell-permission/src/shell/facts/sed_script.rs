//! Scripts of `sed`: whether one only edits text.
//!
//! Accepted is what every `sed` reads alike. Commands and flags that run programs (`e`), write files (`w`, `W`) or read
//! them (`r`, `R`) are not, nor is anything that is not understood.

/// Whether the script neither runs anything nor touches a file.
pub(super) fn is_plain(script: &str) -> bool {
    let mut rest = script;
    let mut depth = 0_usize;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';']);
        let Some(first) = rest.chars().next() else { return depth == 0 };
        if first == '}' {
            let Some(outer) = depth.checked_sub(1) else { return false };
            depth = outer;
            match ended(skip(rest, '}')) {
                Some(after) => rest = after,
                None => return false,
            }
            continue;
        }
        let Some(command) = addresses(rest) else { return false };
        if let Some(inner) = command.strip_prefix('{') {
            depth = depth.saturating_add(1);
            rest = inner;
            continue;
        }
        match command_end(command) {
            Some(after) => rest = after,
            None => return false,
        }
    }
}

fn skip(text: &str, c: char) -> &str {
    text.strip_prefix(c).unwrap_or(text)
}

fn blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

/// Behind a command only these may stand.
fn ended(text: &str) -> Option<&str> {
    let text = blanks(text);
    (text.is_empty() || text.starts_with([';', '\n', '}', '#'])).then_some(text)
}

/// What follows up to two addresses and `!`.
fn addresses(text: &str) -> Option<&str> {
    let mut rest = text;
    if let Some(after) = address(rest)? {
        rest = blanks(after);
        if let Some(second) = rest.strip_prefix(',') {
            let second = blanks(second);
            let counted = second.strip_prefix(['+', '~']);
            rest = match counted {
                Some(number) if number.starts_with(|c: char| c.is_ascii_digit()) => digits(number),
                Some(_) => return None,
                None => address(second)??,
            };
        }
    }
    let rest = blanks(rest);
    Some(blanks(rest.strip_prefix('!').unwrap_or(rest)))
}

/// One address, if there is one; the outer `None` is an error.
#[allow(clippy::option_option, reason = "no address and a broken one are different")]
fn address(text: &str) -> Option<Option<&str>> {
    let first = text.chars().next();
    match first {
        Some('$') => Some(Some(skip(text, '$'))),
        Some(c) if c.is_ascii_digit() => {
            let after = digits(text);
            match after.strip_prefix('~') {
                Some(step) if step.starts_with(|c: char| c.is_ascii_digit()) => Some(Some(digits(step))),
                Some(_) => None,
                None => Some(Some(after)),
            }
        }
        Some('/') => Some(Some(regex(skip(text, '/'), '/')?.trim_start_matches(['I', 'M']))),
        Some('\\') => {
            let delimiter = skip(text, '\\').chars().next()?;
            let body = skip(text, '\\').strip_prefix(delimiter)?;
            Some(Some(regex(body, usable(delimiter)?)?.trim_start_matches(['I', 'M'])))
        }
        _ => Some(None),
    }
}

fn digits(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii_digit())
}

fn usable(delimiter: char) -> Option<char> {
    (!matches!(delimiter, '\n' | '\\' | '[' | ']')).then_some(delimiter)
}

/// What follows the regular expression's end. A delimiter in a bracket expression ends it for some programs and not
/// for others, so that is an error.
fn regex(text: &str, delimiter: char) -> Option<&str> {
    let mut characters = text.char_indices();
    let mut bracket = false;
    while let Some((at, c)) = characters.next() {
        match c {
            '\n' => return None,
            _ if c == delimiter => {
                let end = at.saturating_add(c.len_utf8());
                return (!bracket).then(|| text.get(end..)).flatten();
            }
            '\\' if !bracket => {
                characters.next().filter(|(_, escaped)| *escaped != '\n')?;
            }
            // Escapes in bracket expressions are read differently as well.
            '\\' => {
                characters.clone().next().filter(|(_, next)| *next != delimiter && *next != ']')?;
            }
            '[' if !bracket => {
                bracket = true;
                let mut ahead = characters.clone();
                let mut first = ahead.next();
                if first.is_some_and(|(_, c)| c == '^') {
                    characters.next();
                    first = ahead.next();
                }
                if first.is_some_and(|(_, c)| c == ']') {
                    characters.next();
                }
            }
            '[' => {
                // A class: its `]` does not end the bracket expression.
                let mut ahead = characters.clone();
                if let Some((_, kind @ (':' | '.' | '='))) = ahead.next() {
                    let (_, inside) = text.split_at_checked(at.saturating_add(2))?;
                    let (name, _) = inside.split_once([kind, ']'])?;
                    if name.contains(delimiter) || !inside.get(name.len()..)?.starts_with(&format!("{kind}]")) {
                        return None;
                    }
                    for _ in 0..name.chars().count().saturating_add(3) {
                        characters.next();
                    }
                }
            }
            ']' if bracket => bracket = false,
            _ => {}
        }
    }
    None
}

/// What follows a replacement, or either half of `y`.
fn replacement(text: &str, delimiter: char) -> Option<&str> {
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        if c == delimiter {
            return text.get(at.saturating_add(c.len_utf8())..);
        }
        match c {
            '\n' => return None,
            '\\' => {
                characters.next()?;
            }
            _ => {}
        }
    }
    None
}

/// What follows the command that the text begins with, if it is a plain one.
fn command_end(text: &str) -> Option<&str> {
    let name = text.chars().next()?;
    let after = skip(text, name);
    match name {
        '#' => Some(after.split_once('\n').map_or("", |(_, rest)| rest)),
        '=' | 'd' | 'D' | 'F' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' => ended(after),
        'l' | 'L' | 'q' | 'Q' => ended(digits(blanks(after))),
        'b' | 't' | 'T' | ':' => {
            let label = blanks(after);
            let rest = label.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
            ended(rest)
        }
        // Text goes on to the end of the line, and past it after a backslash, also into the next `-e`.
        'a' | 'i' | 'c' => {
            let (line, rest) = after.split_once('\n').unwrap_or((after, ""));
            (!line.contains('\\') && !blanks(line).is_empty()).then_some(rest)
        }
        's' => {
            let delimiter = usable(after.chars().next()?)?;
            let rest = replacement(regex(skip(after, delimiter), delimiter)?, delimiter)?;
            ended(
                rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M')),
            )
        }
        'y' => {
            let delimiter = usable(after.chars().next()?)?;
            ended(replacement(replacement(skip(after, delimiter), delimiter)?, delimiter)?)
        }
        _ => None,
    }
}
