//! Puts a word's fields together: what it becomes after expansion, splitting and quote removal.

use crate::shell::script::Word;

/// Characters that end a field where an unquoted value is split.
const BLANKS: [char; 3] = [' ', '\t', '\n'];

/// One field that is being put together.
#[derive(Debug, Clone, Default)]
struct Field {
    /// The text so far.
    text: String,
    /// The same with quoted glob characters escaped.
    pattern: String,
    globs: bool,
    /// From here on it is not known; what it began with is in `text`.
    unknown: bool,
    many: bool,
    /// It is there even if it is empty.
    quoted: bool,
}

impl Field {
    fn finish(self) -> Option<Word> {
        if self.unknown {
            return Some(Word::Unknown { prefix: self.text, many: self.many });
        }
        // A lone bracket is itself.
        let globs = self.globs && self.text.contains(['*', '?', ']']);
        if globs {
            Some(Word::Glob(self.pattern))
        } else if self.quoted || !self.text.is_empty() {
            Some(Word::Text(self.text))
        } else {
            None
        }
    }
}

/// The fields of one word.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    done: Vec<Word>,
    open: Field,
}

impl Fields {
    /// Text that nothing is done with.
    pub(super) fn quoted(&mut self, text: &str) {
        self.open.quoted = true;
        self.literal(text);
    }

    fn literal(&mut self, text: &str) {
        if self.open.unknown {
            return;
        }
        self.open.text.push_str(text);
        for c in text.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '\\') {
                self.open.pattern.push('\\');
            }
            self.open.pattern.push(c);
        }
    }

    /// Text whose globs have a meaning.
    pub(super) fn bare(&mut self, text: &str) {
        if self.open.unknown {
            return;
        }
        self.open.text.push_str(text);
        self.open.pattern.push_str(text);
        self.open.globs |= text.contains(['*', '?', '[']);
    }

    /// Something unknown; `many` if it is split into any number of fields.
    pub(super) fn unknown(&mut self, many: bool) {
        self.open.unknown = true;
        self.open.many |= many;
    }

    /// The value of an unquoted expansion: split at blanks, with its globs.
    pub(super) fn split(&mut self, value: &str) {
        if value.contains('\\') && value.contains(['*', '?', '[']) {
            self.unknown(true);
            return;
        }
        let mut pieces = value.split(BLANKS);
        if let Some(first) = pieces.next() {
            self.bare(first);
        }
        for piece in pieces {
            self.next();
            self.bare(piece);
        }
    }

    /// A file name that matches a pattern.
    pub(super) fn matching(&mut self, pattern: &str) {
        if self.open.unknown {
            return;
        }
        self.open.text.push_str(pattern);
        self.open.pattern.push_str(pattern);
        self.open.globs = true;
    }

    /// The next field begins.
    pub(super) fn next(&mut self) {
        let field = std::mem::take(&mut self.open);
        self.done.extend(field.finish());
    }

    /// The fields.
    pub(super) fn finish(mut self) -> Vec<Word> {
        self.next();
        self.done
    }

    /// As one word, whatever is in it: an assignment's value, a redirection's target.
    pub(super) fn finish_as_one(self) -> Word {
        let mut words = self.done;
        let quoted = Field { quoted: true, ..self.open };
        match (words.pop(), quoted.finish()) {
            (None, Some(word)) => word,
            // A value with several fields, as `"$@"` has: what lies between them depends on the shell.
            (_, _) => Word::Unknown { prefix: String::new(), many: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Word {
        Word::Text(text.into())
    }

    #[test]
    fn quoted_and_bare_text() {
        let mut fields = Fields::default();
        fields.bare("a*");
        fields.quoted("*b");
        assert_eq!(fields.finish(), [Word::Glob("a*\\*b".into())]);
        let mut fields = Fields::default();
        fields.quoted("");
        assert_eq!(fields.finish(), [text("")]);
        let mut fields = Fields::default();
        fields.bare("[");
        assert_eq!(fields.finish(), [text("[")]);
        assert_eq!(Fields::default().finish(), []);
    }

    #[test]
    fn values_are_split() {
        let mut fields = Fields::default();
        fields.bare("x");
        fields.split(" git  push ");
        fields.bare("y");
        assert_eq!(fields.finish(), [text("x"), text("git"), text("push"), text("y")]);
    }

    #[test]
    fn unknown_keeps_what_came_before() {
        let mut fields = Fields::default();
        fields.bare("src/");
        fields.unknown(false);
        fields.bare(".rs");
        assert_eq!(fields.finish(), [Word::Unknown { prefix: "src/".into(), many: false }]);
    }
}
