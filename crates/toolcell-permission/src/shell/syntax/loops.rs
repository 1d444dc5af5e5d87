//! `while`, `until`, `for`, `select`.

use super::reader::Reader;
use crate::shell::ast::{Compound, List};

impl Reader<'_> {
    pub(super) fn while_loop(&mut self, word: &str) -> Compound {
        self.advance(word.len());
        let condition = self.body();
        Compound::Loop { condition, body: self.loop_body() }
    }

    fn loop_body(&mut self) -> List {
        self.expect("do");
        let body = self.body();
        self.expect("done");
        body
    }

    pub(super) fn for_loop(&mut self, word: &str) -> Compound {
        self.advance(word.len());
        self.skip_blanks();
        if word == "for" && self.looks_at("((") {
            return self.arithmetic_loop();
        }
        let name = self.name().unwrap_or_default();
        if name.is_empty() || self.peek().is_some_and(|byte| !super::reader::ends_word(byte)) {
            self.unexpected("the name of a variable");
        }
        self.skip_newlines();
        let mut words = None;
        if self.at_in() {
            self.advance(2);
            let mut found = Vec::new();
            self.skip_blanks();
            while let Some(word) = self.word() {
                found.push(word);
                self.skip_blanks();
            }
            words = Some(found);
            if !matches!(self.peek(), Some(b';' | b'\n')) {
                self.unexpected("`;` or a newline");
            }
        }
        self.loop_separator();
        Compound::For { name, words, body: self.loop_body() }
    }

    fn arithmetic_loop(&mut self) -> Compound {
        if !self.is_bash() {
            self.stop("`for ((`, which only bash has,");
        }
        self.advance(2);
        let mut expressions = Vec::new();
        for _ in 0..2 {
            expressions.push(self.arithmetic(b";"));
            self.advance(1);
        }
        expressions.push(self.arithmetic(b")"));
        self.close_arithmetic();
        self.skip_blanks();
        self.loop_separator();
        Compound::ForArithmetic { expressions, body: self.loop_body() }
    }

    fn loop_separator(&mut self) {
        if self.peek() == Some(b';') && !self.at_arm_end() {
            self.operator(1);
        }
        self.skip_newlines();
    }
}
