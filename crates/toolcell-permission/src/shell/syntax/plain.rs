//! Text so plain that it has one reading.

/// Words that mean something to the shell where a command begins.
const RESERVED: [&str; 18] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "time", "until", "while", "export",
];

/// Redirections of which there is one reading, with blanks around them.
const REDIRECTIONS: [&str; 4] = ["2>&1", ">/dev/null", "2>/dev/null", "1>&2"];

/// Whether the text is one line of plain words with nothing but `&&`, `||`, `|`, `;` and a few redirections between
/// them, each of which stands alone. There is nothing in it that two parsers could understand in two ways: no quote, no
/// expansion, no assignment, no reserved word.
pub(super) fn is_plain(text: &str) -> bool {
    // A command has to begin here, because of what stands before.
    let mut begins = true;
    let mut joined = false;
    for word in text.split([' ', '\t']).filter(|word| !word.is_empty()) {
        match word {
            "&&" | "||" | "|" | ";" if begins => return false,
            "&&" | "||" | "|" => (begins, joined) = (true, true),
            ";" => (begins, joined) = (true, false),
            word if REDIRECTIONS.contains(&word) && !begins => {}
            word => {
                // `cd a; ls`
                let (word, ends) = word.strip_suffix(';').map_or((word, false), |word| (word, true));
                let plain = |byte: u8| {
                    byte.is_ascii_alphanumeric()
                        || matches!(byte, b'_' | b'-' | b'.' | b'/' | b':' | b',' | b'@' | b'%' | b'+')
                };
                let value = |byte: u8| byte == b'=' && !begins;
                if word.is_empty() || !word.bytes().all(|byte| plain(byte) || value(byte)) || RESERVED.contains(&word) {
                    return false;
                }
                (begins, joined) = (ends, false);
            }
        }
    }
    !(begins && joined)
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn only_what_has_one_reading() {
        for text in [
            "npm run build",
            "cd /workspace && npm run build 2>&1 | tail -20",
            "git status; git diff | head -5",
            "a --b=c,d@e:f% || x+",
            "",
        ] {
            assert!(is_plain(text), "{text}");
        }
        for text in [
            "a=b c",
            "a 'b'",
            "a $b",
            "a\nb",
            "a&b",
            "a &",
            "(a)",
            "if a",
            "a > f",
            "a 2>&1x",
            "{ a }",
            "a #b",
            "a*",
            "~",
            "! a",
            "[ a ]",
            "a \\",
            "time a",
            "2>&1 a",
            "a ;; b",
            "é",
            "a; =b",
            "a<b",
            "| a",
            "a && || b",
            "a |",
        ] {
            assert!(!is_plain(text), "{text}");
        }
    }
}
