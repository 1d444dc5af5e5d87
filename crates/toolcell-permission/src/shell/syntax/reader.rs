//! The reader's place in the text, and what all parts of the grammar need.

use super::heredoc::{Bodies, Pending};
use super::{MAX_DEPTH, MAX_PROBLEMS};
use crate::shell::ast::List;
use crate::shell::settings::Dialect;

/// Words that bash recognises at the beginning of a command.
const RESERVED: &[&str] = &[
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "select",
    "then", "time", "until", "while", "{", "}",
];

/// Those of them that a POSIX shell does not know.
const RESERVED_IN_BASH: &[&str] = &["[[", "]]", "coproc", "function", "select", "time"];

/// Longest of [`RESERVED`].
const LONGEST_RESERVED: usize = 8;

/// Whether a byte ends a bare word.
pub(super) fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')
}

/// Whether a byte may begin a variable's name.
pub(super) fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// Whether a byte may stand in a variable's name.
pub(super) fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Reads one text.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    /// The next byte.
    pub(super) position: usize,
    /// Where the text ends for the construct that is being read.
    pub(super) end: usize,
    pub(super) dialect: Dialect,
    depth: usize,
    stopped: bool,
    problems: Vec<String>,
    /// Where commands begin.
    starts: Vec<usize>,
    /// Here-documents whose bodies follow the next newline.
    pub(super) pending: Vec<Pending>,
    /// How many more of them wait outside the substitution that is being read.
    pub(super) waiting: usize,
    /// Here-documents whose bodies are known, from the first pass.
    pub(super) bodies: Bodies,
    pub(super) first_pass: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, dialect: Dialect) -> Self {
        let mut reader = Self {
            text,
            position: 0,
            end: text.len(),
            dialect,
            depth: 0,
            stopped: false,
            problems: Vec::new(),
            starts: Vec::new(),
            pending: Vec::new(),
            waiting: 0,
            bodies: Bodies::new(),
            first_pass: true,
        };
        if let Some(at) = text.bytes().position(|byte| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n')) {
            reader.problem_at("a control character", at);
        }
        reader
    }

    /// A reader of the same text that knows where the bodies of here-documents are.
    pub(super) fn second_pass(self) -> Self {
        Self { bodies: self.bodies, first_pass: false, ..Self::new(self.text, self.dialect) }
    }

    /// A reader of a text that is not part of this one's, at the same depth.
    pub(super) fn of_other<'b>(&self, text: &'b str) -> Reader<'b> {
        let mut inner = Reader::new(text, self.dialect);
        inner.depth = self.depth;
        inner
    }

    /// The whole text.
    pub(super) fn script(&mut self) -> List {
        let list = self.list();
        if self.peek().is_some() {
            self.unexpected("a command or the end of the script");
        }
        self.refuse_pending();
        list
    }

    /// The problems and where commands begin.
    pub(super) fn finish(self) -> (Vec<String>, Vec<usize>) {
        (self.problems, self.starts)
    }

    pub(super) fn is_bash(&self) -> bool {
        match self.dialect {
            Dialect::Bash => true,
            Dialect::Sh => false,
        }
    }

    /// Something is not understood, but what follows it is.
    pub(super) fn problem(&mut self, what: &str) {
        self.problem_at(what, self.position);
    }

    /// Something at another place is not understood.
    pub(super) fn problem_at(&mut self, what: &str, at: usize) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(format!("{what} at byte {at}"));
        }
    }

    /// What only bash has is a problem elsewhere.
    pub(super) fn only_bash(&mut self, what: &str) {
        if !self.is_bash() && !self.stopped {
            self.problem(&format!("{what}, which only bash has,"));
        }
    }

    /// Nothing that follows is understood.
    pub(super) fn stop(&mut self, what: &str) {
        if !self.stopped {
            self.problem(what);
            self.stopped = true;
        }
    }

    /// Something else was expected here.
    pub(super) fn unexpected(&mut self, expected: &str) {
        let found: String = self.rest().chars().take(12).collect();
        if found.is_empty() {
            self.stop(&format!("the text ends where {expected} is expected,"));
        } else {
            self.stop(&format!("{found:?} instead of {expected}"));
        }
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.stopped
    }

    pub(super) fn command_begins(&mut self, at: usize) {
        self.starts.push(at);
    }

    /// Reads something nested.
    pub(super) fn deeper<T: Default>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        if self.depth >= MAX_DEPTH {
            self.stop("nested too deep");
            return T::default();
        }
        self.depth = self.depth.saturating_add(1);
        let result = read(self);
        self.depth = self.depth.saturating_sub(1);
        result
    }

    /// Reads a part of the text as if it ended at `end`, and goes on from there.
    pub(super) fn until<T>(&mut self, end: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.end;
        self.end = end.min(outer);
        let result = read(self);
        if !self.stopped {
            self.position = self.end;
        }
        self.end = outer;
        result
    }

    pub(super) fn rest(&self) -> &'a str {
        if self.stopped { "" } else { self.text.get(self.position..self.end).unwrap_or_default() }
    }

    /// The text from `start` to here.
    pub(super) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.position).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.peek_at(0)
    }

    /// The byte that follows the next `distance` ones.
    pub(super) fn peek_at(&self, distance: usize) -> Option<u8> {
        let at = self.position.saturating_add(distance);
        if self.stopped || at >= self.end { None } else { self.text.as_bytes().get(at).copied() }
    }

    pub(super) fn looks_at(&self, text: &str) -> bool {
        self.rest().as_bytes().starts_with(text.as_bytes())
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        if !self.stopped {
            self.position = self.position.saturating_add(bytes).min(self.end);
        }
    }

    /// Takes bytes while they are as wanted. `wanted` must not split a character: it takes all bytes above 127 or none.
    pub(super) fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let start = self.position;
        let bytes = self.rest().bytes().take_while(|byte| wanted(*byte)).count();
        self.advance(bytes);
        self.since(start)
    }

    /// A backslash before a newline.
    pub(super) fn at_continuation(&self) -> bool {
        self.peek() == Some(b'\\') && self.peek_at(1) == Some(b'\n')
    }

    fn skip_continuations(&mut self) {
        while self.at_continuation() {
            self.advance(2);
        }
    }

    /// Takes an operator. Shells do not agree on one that goes on in the next line.
    pub(super) fn operator(&mut self, bytes: usize) {
        self.advance(bytes);
        if self.at_continuation() {
            self.skip_continuations();
            if matches!(self.peek(), Some(b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')) {
                self.problem("an operator that may go on after a backslash and a newline");
            }
        }
    }

    /// Skips blanks and a comment. Only where a word may begin.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.advance(1),
                Some(b'\\') if self.at_continuation() => self.advance(2),
                Some(b'#') => {
                    self.take_while(|byte| byte != b'\n');
                }
                Some(_) | None => break,
            }
        }
    }

    /// Skips blanks, comments and newlines with the here-documents that follow them.
    pub(super) fn skip_newlines(&mut self) {
        self.skip_blanks();
        while self.peek() == Some(b'\n') {
            self.newline();
            self.skip_blanks();
        }
    }

    /// The reserved word that stands here, if this is a place where the shell looks for one.
    pub(super) fn reserved(&self) -> Option<&'static str> {
        let bytes = self.rest().as_bytes().iter().take(LONGEST_RESERVED.saturating_add(1));
        let length = bytes.take_while(|byte| !ends_word(**byte)).count();
        let word = self.rest().get(..length)?;
        RESERVED.iter().copied().find(|known| *known == word).filter(|known| self.knows(known))
    }

    fn knows(&self, word: &str) -> bool {
        self.is_bash() || !RESERVED_IN_BASH.contains(&word)
    }

    /// Whether a command whose first word is this one was meant to be something else.
    pub(super) fn is_misplaced(&self, word: &str) -> bool {
        word == "in" || (RESERVED.contains(&word) && word != "time")
    }

    /// Takes a reserved word that must stand here.
    pub(super) fn expect(&mut self, word: &str) {
        if self.reserved() == Some(word) {
            self.advance(word.len());
        } else {
            self.unexpected(&format!("`{word}`"));
        }
    }

    /// Takes a parenthesis that must stand here.
    pub(super) fn expect_parenthesis(&mut self) {
        self.skip_blanks();
        if self.peek() == Some(b')') {
            self.advance(1);
        } else {
            self.unexpected("`)`");
        }
    }

    /// A variable's name.
    pub(super) fn name(&mut self) -> Option<String> {
        if !self.peek().is_some_and(begins_name) {
            return None;
        }
        Some(self.take_while(in_name).to_owned())
    }
}
