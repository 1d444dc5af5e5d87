//! `` `…` ``

use super::reader::Reader;
use super::words::Gather;
use crate::shell::ast::{List, Part};

impl Reader<'_> {
    /// From the first backtick on.
    pub(super) fn backticks(&mut self, gather: &mut Gather) {
        self.advance(1);
        let start = self.position;
        let mut escaped = false;
        let mut removed = false;
        let length = self.rest().bytes().take_while(|byte| {
            let ends = *byte == b'`' && !escaped;
            removed |= escaped && matches!(byte, b'\\' | b'`' | b'$' | b'"' | b'\n');
            escaped = *byte == b'\\' && !escaped;
            !ends
        });
        let end = start.saturating_add(length.count());
        if end >= self.end {
            self.stop("a backtick without its end");
            return;
        }
        let list = if removed {
            self.problem("a backslash within backticks");
            let text = unescaped(self.text.get(start..end).unwrap_or_default());
            self.position = end;
            self.deeper(|reader| reader.of_other(&text).script())
        } else {
            self.until(end, |reader| reader.enclosed(Self::script))
        };
        self.close(b'`', "a backtick");
        gather.push(Part::Command { list, quoted: gather.quoted });
    }

    /// A list that is a token of the text around it, up to its parenthesis.
    pub(super) fn substitution(&mut self) -> List {
        let list = self.enclosed(|reader| {
            let list = reader.list();
            if reader.peek() == Some(b')') {
                reader.refuse_pending();
            }
            list
        });
        self.expect_parenthesis();
        list
    }

    /// Reads what has here-documents of its own.
    fn enclosed(&mut self, read: impl FnOnce(&mut Self) -> List) -> List {
        self.deeper(|reader| {
            let outer = std::mem::take(&mut reader.pending);
            let waiting = reader.waiting;
            reader.waiting = waiting.saturating_add(outer.len());
            let list = read(reader);
            reader.waiting = waiting;
            reader.pending = outer;
            list
        })
    }
}

fn unescaped(text: &str) -> String {
    let mut result = String::new();
    let mut escaped = false;
    for c in text.chars() {
        if escaped && !matches!(c, '\\' | '`' | '$' | '"') {
            result.push('\\');
        }
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            escaped = false;
            result.push(c);
        }
    }
    result
}
