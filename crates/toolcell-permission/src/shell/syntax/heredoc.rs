//! Here-documents. Their bodies are far from their operators, so the text is read twice: first to find the bodies,
//! then to put them where they belong.

use super::reader::Reader;
use super::words::Gather;
use crate::shell::ast::{Part, Word};
use std::collections::BTreeMap;

/// Where bodies begin and end, by the place of their operators.
pub(super) type Bodies = BTreeMap<usize, (usize, usize)>;

/// A here-document whose body follows.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    operator: usize,
    delimiter: String,
    quoted: bool,
    strip_tabs: bool,
}

impl Reader<'_> {
    /// The delimiter after an operator, and the body if it is known.
    pub(super) fn here_document(&mut self, operator: usize, strip_tabs: bool) -> Word {
        self.skip_blanks();
        let start = self.position;
        let word = self.needed_word();
        let mut delimiter = String::new();
        let mut quoted = false;
        let mut unusual = self.since(start).contains(['$', '`', '\n']);
        for part in &word.parts {
            match part {
                Part::Bare(text) => delimiter.push_str(text),
                Part::Quoted(text) => {
                    quoted = true;
                    delimiter.push_str(text);
                }
                Part::Parameter { .. } | Part::Command { .. } | Part::Arithmetic(_) | Part::Process(_) => {
                    unusual = true
                }
            }
        }
        if unusual || delimiter.is_empty() {
            self.stop("an unusual delimiter of a here-document");
        }
        let pending = Pending { operator, delimiter, quoted, strip_tabs };
        let body = match self.bodies.get(&operator).copied() {
            Some(range) if !self.first_pass => self.body_of(&pending, range),
            Some(_) | None => Word::default(),
        };
        self.pending.push(pending);
        body
    }

    /// Takes a newline, and the bodies that follow it.
    pub(super) fn newline(&mut self) {
        if self.waiting > 0 {
            self.stop("a newline in a substitution before the body of a here-document");
        }
        self.advance(1);
        for pending in std::mem::take(&mut self.pending) {
            let start = self.position;
            let Some(end) = self.skip_body(&pending) else {
                self.stop("a here-document without its last line");
                return;
            };
            if self.first_pass {
                self.bodies.insert(pending.operator, (start, end));
                self.body_of(&pending, (start, end));
            }
        }
    }

    /// Here-documents without a newline after them have no body.
    pub(super) fn refuse_pending(&mut self) {
        if !std::mem::take(&mut self.pending).is_empty() {
            self.stop("a here-document without a body");
        }
    }

    /// Goes behind the body; gives its end, before the last line.
    fn skip_body(&mut self, pending: &Pending) -> Option<usize> {
        let mut continued = false;
        loop {
            let start = self.position;
            let rest = self.rest();
            let line = rest.split_once('\n').map_or(rest, |(line, _)| line);
            let text = if pending.strip_tabs { line.trim_start_matches('\t') } else { line };
            if text == pending.delimiter {
                self.advance(line.len().saturating_add(1));
                if continued {
                    self.problem("a here-document whose last line follows a backslash");
                }
                return Some(start);
            }
            if line.len() == rest.len() {
                return None;
            }
            let backslashes = line.bytes().rev().take_while(|byte| *byte == b'\\').count();
            continued = !pending.quoted && backslashes % 2 == 1;
            if continued && (pending.strip_tabs || joins_to(text, &pending.delimiter)) {
                self.problem("a here-document with a line that goes on after a backslash");
            }
            self.advance(line.len().saturating_add(1));
        }
    }

    /// The body as a word.
    fn body_of(&mut self, pending: &Pending, (start, end): (usize, usize)) -> Word {
        let position = std::mem::replace(&mut self.position, start);
        let outer = std::mem::take(&mut self.pending);
        let waiting = std::mem::take(&mut self.waiting);
        let whole = std::mem::replace(&mut self.end, end);
        let parts = if pending.quoted {
            let stripped = |line: &str| line.trim_start_matches('\t').to_owned();
            let lines = self.rest().split_inclusive('\n');
            let text = if pending.strip_tabs { lines.map(stripped).collect() } else { lines.collect() };
            vec![Part::Quoted(text)]
        } else {
            self.deeper(|reader| reader.expanded_body(pending.strip_tabs))
        };
        self.end = whole;
        self.waiting = waiting;
        self.pending = outer;
        if !self.has_stopped() {
            self.position = position;
        }
        Word { parts, start }
    }

    fn expanded_body(&mut self, strip_tabs: bool) -> Vec<Part> {
        let mut gather = Gather::new(true);
        let mut line_begins = true;
        while let Some(byte) = self.peek() {
            if line_begins && strip_tabs {
                self.take_while(|byte| byte == b'\t');
            }
            line_begins = false;
            let start = self.position;
            match self.peek().unwrap_or(byte) {
                b'\n' => {
                    line_begins = true;
                    self.advance(1);
                    gather.text("\n");
                }
                b'\\' => self.escape_in_quotes(&mut gather, false),
                b'$' => self.dollar(&mut gather),
                b'`' => self.backticks(&mut gather),
                _ => gather.text(self.take_while(|byte| !matches!(byte, b'\n' | b'\\' | b'$' | b'`'))),
            }
            if strip_tabs && !line_begins && self.since(start).contains('\n') {
                self.problem("a substitution of several lines where tabs are removed");
            }
        }
        gather.finish()
    }
}

/// Whether a line that ends with a backslash could become the last line together with the next one.
fn joins_to(line: &str, delimiter: &str) -> bool {
    line.strip_suffix('\\').is_some_and(|begin| delimiter.starts_with(begin))
}
