//! `[[ … ]]`

use super::reader::{Reader, ends_word};
use crate::shell::ast::{Compound, Conditional, Word};

/// Operators before one operand.
const UNARY: &str = "abcdefghknoprstuvwxzGLNORS";

/// Operators that evaluate both operands as arithmetic.
const ARITHMETIC: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Other operators between two operands.
const BINARY: &[&str] = &["=", "==", "!=", "=~", "-nt", "-ot", "-ef"];

impl Reader<'_> {
    pub(super) fn conditional(&mut self) -> Compound {
        self.command_begins(self.position);
        self.advance(2);
        let mut conditional = Conditional { operands: Vec::new(), evaluated: Vec::new() };
        self.alternatives(&mut conditional);
        if self.at_conditional_end() {
            self.advance(2);
        } else {
            self.unexpected("`]]`");
        }
        Compound::Conditional(conditional)
    }

    fn at_conditional_end(&self) -> bool {
        self.looks_at("]]") && self.peek_at(2).is_none_or(ends_word)
    }

    /// Terms joined by `&&` and `||`; how they group does not matter here.
    fn alternatives(&mut self, conditional: &mut Conditional) {
        loop {
            self.term(conditional);
            self.skip_newlines();
            if !self.looks_at("&&") && !self.looks_at("||") {
                break;
            }
            self.operator(2);
        }
    }

    fn term(&mut self, conditional: &mut Conditional) {
        self.skip_newlines();
        while self.peek() == Some(b'!') && self.peek_at(1).is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            self.advance(1);
            self.skip_blanks();
        }
        if self.peek() == Some(b'(') {
            self.deeper(|reader| {
                reader.operator(1);
                reader.alternatives(conditional);
                reader.expect_parenthesis();
            });
            return;
        }
        let first = self.operand();
        self.skip_blanks();
        let bare = first.as_bare().unwrap_or_default();
        if let Some(letter) = bare.strip_prefix('-').filter(|letter| letter.len() == 1)
            && UNARY.contains(letter)
        {
            let operand = self.operand();
            if matches!(letter, "v" | "R") { &mut conditional.evaluated } else { &mut conditional.operands }
                .push(operand);
            return;
        }
        self.comparison(first, conditional);
    }

    fn comparison(&mut self, first: Word, conditional: &mut Conditional) {
        let operands = &mut conditional.operands;
        if matches!(self.peek(), Some(b'<' | b'>')) {
            self.operator(1);
            self.skip_blanks();
            operands.extend([first, self.operand()]);
            return;
        }
        let length = self.rest().bytes().take(4).take_while(|byte| !ends_word(*byte)).count();
        let operator = self.rest().get(..length).unwrap_or_default();
        let arithmetic = ARITHMETIC.contains(&operator);
        if arithmetic || BINARY.contains(&operator) {
            self.advance(length);
            self.skip_blanks();
            let second = self.operand();
            if arithmetic { &mut conditional.evaluated } else { operands }.extend([first, second]);
        } else {
            if self.peek() == Some(b'\n') {
                self.unexpected("an operator");
            }
            operands.push(first);
        }
    }

    fn operand(&mut self) -> Word {
        if self.at_conditional_end() {
            self.unexpected("an operand");
        }
        self.needed_word()
    }
}
