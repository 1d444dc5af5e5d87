//! Simple commands and assignments.

use super::reader::{Reader, begins_name, ends_word, in_name};
use crate::shell::ast::{Assignment, Command, Part, Simple, Value, Word};

impl Reader<'_> {
    /// A simple command or the definition of a function. `words` are words of it that were read already.
    pub(super) fn simple(&mut self, words: Vec<Word>) -> Option<Command> {
        let mut begun = !words.is_empty();
        let mut simple = Simple { words, ..Simple::default() };
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect() {
                simple.redirects.push(redirect);
                continue;
            }
            let start = self.position;
            if simple.words.is_empty() && self.at_assignment() {
                simple.assignments.extend(self.assignment());
            } else if let Some(word) = self.word() {
                if simple.words.is_empty() {
                    if self.at_parameters(&simple) {
                        return self.function_body(&word);
                    }
                    if word.as_bare().is_some_and(|text| self.is_misplaced(text)) {
                        self.problem_at("a reserved word as a command", start);
                    }
                }
                let array = self.peek() == Some(b'(') && self.since(start).ends_with('=');
                simple.words.push(word);
                if array {
                    self.problem("an array as an argument");
                    simple.words.extend(self.array());
                }
            } else {
                break;
            }
            if !begun {
                begun = true;
                self.command_begins(start);
            }
        }
        if simple == Simple::default() { None } else { Some(Command::Simple(simple)) }
    }

    /// `()` after a first word: takes it.
    fn at_parameters(&mut self, simple: &Simple) -> bool {
        let blanks = self.rest().bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if self.peek_at(blanks) != Some(b'(') {
            return false;
        }
        self.advance(blanks);
        if *simple != Simple::default() {
            self.unexpected("an argument");
        }
        self.advance(1);
        self.expect_parenthesis();
        !self.has_stopped()
    }

    /// Whether an assignment begins here.
    pub(super) fn at_assignment(&self) -> bool {
        if !self.peek().is_some_and(begins_name) {
            return false;
        }
        let name = self.rest().bytes().take_while(|byte| in_name(*byte)).count();
        match (self.peek_at(name), self.peek_at(name.saturating_add(1))) {
            (Some(b'='), _) | (Some(b'+'), Some(b'=')) => true,
            (Some(b'['), _) => self.index_is_assigned(name),
            (Some(_) | None, _) => false,
        }
    }

    /// Whether `=` follows the index after a name, or the index is unusual.
    fn index_is_assigned(&self, name: usize) -> bool {
        let rest = self.rest().as_bytes().get(name..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| !ends_word(**byte) && **byte != b']').count();
        let nested = rest.iter().take(length).skip(1).any(|byte| *byte == b'[');
        match rest.get(length..) {
            Some([b']', rest @ ..]) => nested || matches!(rest, [b'=', ..] | [b'+', b'=', ..]),
            // Bash looks for the end of the index beyond the word; the assignment says that we do not.
            Some(_) | None => true,
        }
    }

    fn assignment(&mut self) -> Option<Assignment> {
        let name = self.name()?;
        let mut index = None;
        if self.peek() == Some(b'[') {
            self.only_bash("an array");
            index = Some(self.index());
        }
        let append = self.peek() == Some(b'+');
        if append {
            self.only_bash("`+=`");
            self.advance(1);
        }
        if self.peek() != Some(b'=') {
            self.unexpected("`=`");
        }
        self.advance(1);
        let value = if self.peek() == Some(b'(') {
            self.only_bash("an array");
            if index.is_some() {
                self.problem("an array in an array");
            }
            Value::Array(self.array())
        } else {
            let start = self.position;
            Value::Word(self.word().unwrap_or(Word { parts: Vec::new(), start }))
        };
        Some(Assignment { name, index, append, value })
    }

    /// `(…)` with words.
    fn array(&mut self) -> Vec<Word> {
        self.operator(1);
        let mut words = Vec::new();
        loop {
            self.skip_newlines();
            let start = self.position;
            let Some(word) = self.word() else { break };
            // Bash looks for the end of an index beyond the word.
            if let Some(index) = self.since(start).strip_prefix('[')
                && index
                    .find(']')
                    .is_none_or(|end| index.find(['[', '\'', '"', '\\', '`']).is_some_and(|odd| odd < end))
            {
                self.stop("an unusual index");
            }
            words.push(word);
        }
        self.expect_parenthesis();
        if self.peek().is_some_and(|byte| !ends_word(byte)) {
            self.unexpected("a blank after an array");
        }
        words
    }

    /// `[…]` after a name, as it stands there.
    pub(super) fn index(&mut self) -> Word {
        self.advance(1);
        let length = self.rest().bytes().take_while(|byte| !matches!(byte, b']' | b'\n')).count();
        let end = self.position.saturating_add(length);
        let word = self.until(end, |reader| {
            let word = reader.word().unwrap_or_default();
            if word.parts.is_empty() || reader.peek().is_some() {
                reader.stop("an unusual index");
            }
            word
        });
        let nested = |part: &Part| matches!(part, Part::Bare(text) if text.contains('['));
        if self.peek() != Some(b']') || word.parts.iter().any(nested) {
            self.stop("an unusual index");
        }
        self.advance(1);
        word
    }
}
