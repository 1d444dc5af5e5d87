//! Words and quotes.

use super::reader::{Reader, ends_word};
use crate::shell::ast::{Part, Word};

/// Gathers the parts of a word.
#[derive(Debug)]
pub(super) struct Gather {
    parts: Vec<Part>,
    text: String,
    /// Whether text is quoted.
    pub(super) quoted: bool,
}

impl Gather {
    pub(super) fn new(quoted: bool) -> Self {
        Self { parts: Vec::new(), text: String::new(), quoted }
    }

    pub(super) fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn push(&mut self, part: Part) {
        self.flush();
        self.parts.push(part);
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.parts.push(if self.quoted { Part::Quoted(text) } else { Part::Bare(text) });
        }
    }

    pub(super) fn finish(mut self) -> Vec<Part> {
        self.flush();
        self.parts
    }
}

impl Reader<'_> {
    /// A word that must stand here.
    pub(super) fn needed_word(&mut self) -> Word {
        match self.word() {
            Some(word) => word,
            None => {
                self.unexpected("a word");
                Word::default()
            }
        }
    }

    /// A word, if one begins here.
    pub(super) fn word(&mut self) -> Option<Word> {
        let start = self.position;
        let mut gather = Gather::new(false);
        while let Some(byte) = self.peek() {
            if matches!(byte, b'<' | b'>') && self.peek_at(1) == Some(b'(') {
                self.process(&mut gather);
            } else if ends_word(byte) || !self.unquoted(byte, &mut gather) {
                break;
            }
        }
        let parts = gather.finish();
        if parts.is_empty() {
            return None;
        }
        self.refuse_unusual(&parts);
        Some(Word { parts, start })
    }

    /// One piece of a word outside of quotes; `false`: the word ends before it.
    pub(super) fn unquoted(&mut self, byte: u8, gather: &mut Gather) -> bool {
        match byte {
            b'\\' if self.at_continuation() => return !self.ends_at_continuation(),
            b'\\' => self.escape(gather),
            b'\'' => {
                self.advance(1);
                let text = self.take_while(|byte| byte != b'\'');
                gather.push(Part::Quoted(text.to_owned()));
                self.close(b'\'', "a single quote");
            }
            b'"' => self.double_quotes(gather),
            b'`' => self.backticks(gather),
            b'$' => self.dollar(gather),
            _ => {
                let special = |byte: u8| matches!(byte, b'\\' | b'\'' | b'"' | b'`' | b'$');
                gather.text(self.take_while(|byte| !ends_word(byte) && !special(byte)));
            }
        }
        true
    }

    /// Takes the quote that must stand here.
    pub(super) fn close(&mut self, quote: u8, what: &str) {
        if self.peek() == Some(quote) {
            self.advance(1);
        } else {
            self.stop(&format!("{what} without its end"));
        }
    }

    /// A backslash and a newline within a word are removed; where they end it they are a blank for our purpose.
    fn ends_at_continuation(&mut self) -> bool {
        while self.at_continuation() {
            self.advance(2);
        }
        if !self.peek().is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')')) {
            self.problem("a word that goes on after a backslash and a newline");
            return false;
        }
        true
    }

    /// `\c`
    fn escape(&mut self, gather: &mut Gather) {
        self.advance(1);
        let Some(escaped) = self.rest().chars().next() else {
            self.stop("a backslash at the end");
            return;
        };
        self.advance(escaped.len_utf8());
        gather.push(Part::Quoted(escaped.to_string()));
    }

    /// `\` in double quotes, or in a here-document, where a quote needs none.
    pub(super) fn escape_in_quotes(&mut self, gather: &mut Gather, with_quote: bool) {
        match self.peek_at(1) {
            Some(b'\n') => self.advance(2),
            Some(byte @ (b'$' | b'`' | b'\\' | b'"')) if byte != b'"' || with_quote => {
                self.advance(1);
                gather.text(self.rest().get(..1).unwrap_or_default());
                self.advance(1);
            }
            Some(_) => {
                gather.text("\\");
                self.advance(1);
            }
            None if with_quote => self.stop("a backslash at the end"),
            None => {
                gather.text("\\");
                self.advance(1);
            }
        }
    }

    /// `"…"`
    pub(super) fn double_quotes(&mut self, outer: &mut Gather) {
        self.advance(1);
        let mut gather = Gather::new(true);
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => break,
                b'\\' => self.escape_in_quotes(&mut gather, true),
                b'`' => self.backticks(&mut gather),
                b'$' => self.dollar(&mut gather),
                _ => gather.text(self.take_while(|byte| !matches!(byte, b'"' | b'\\' | b'`' | b'$'))),
            }
        }
        self.close(b'"', "a double quote");
        let parts = gather.finish();
        if parts.is_empty() {
            outer.push(Part::Quoted(String::new()));
        }
        for part in parts {
            outer.push(part);
        }
    }

    /// `<(…)`, `>(…)`
    fn process(&mut self, gather: &mut Gather) {
        self.only_bash("a process substitution");
        self.advance(2);
        let list = self.substitution();
        gather.push(Part::Process(list));
    }

    /// What shells do not agree on, or what looks like a blank and is none.
    fn refuse_unusual(&mut self, parts: &[Part]) {
        let bare = |part: &Part| match part {
            Part::Bare(text) => Some(text.clone()),
            Part::Quoted(_)
            | Part::Parameter { .. }
            | Part::Command { .. }
            | Part::Arithmetic(_)
            | Part::Process(_) => None,
        };
        let text: String = parts.iter().filter_map(bare).collect();
        if !text.is_ascii() && text.chars().any(char::is_whitespace) {
            self.problem("a blank that is none for the shell");
        }
        if !self.is_bash() && expands_braces(&text) {
            self.only_bash("a brace expansion");
        }
        if self.peek() == Some(b'(') && text.ends_with(['@', '?', '*', '+', '!']) {
            self.stop("an extended pattern");
        }
        let whole_bare = matches!(parts, [Part::Bare(_)]);
        let descriptor =
            text.bytes().all(|byte| byte.is_ascii_digit()) || (text.starts_with('{') && text.ends_with('}'));
        if whole_bare && descriptor && matches!(self.peek(), Some(b'<' | b'>')) {
            self.problem("an unusual descriptor before a redirection");
        }
    }
}

/// Whether bash would expand braces in it, or nearly so.
fn expands_braces(text: &str) -> bool {
    let Some((_, inside)) = text.split_once('{') else { return false };
    let Some((inside, _)) = inside.rsplit_once('}') else { return false };
    inside.contains(',') || inside.contains("..")
}
