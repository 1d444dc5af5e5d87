//! Commands made of commands; loops and `[[` are in files of their own.

use super::reader::Reader;
use crate::shell::ast::{Compound, List};

impl Reader<'_> {
    /// Whether a compound command begins here.
    pub(super) fn at_compound(&self) -> bool {
        self.peek() == Some(b'(')
            || matches!(self.reserved(), Some("{" | "if" | "while" | "until" | "for" | "select" | "case" | "[["))
    }

    /// A compound command, if one begins here.
    pub(super) fn compound(&mut self) -> Option<Compound> {
        self.deeper(|reader| {
            if reader.looks_at("((") {
                reader.only_bash("`((`");
                if reader.is_bash() {
                    return Some(reader.arithmetic_command());
                }
            }
            if reader.peek() == Some(b'(') {
                reader.operator(1);
                let list = reader.body();
                reader.expect_parenthesis();
                return Some(Compound::Subshell(list));
            }
            match reader.reserved()? {
                "{" => {
                    reader.advance(1);
                    let list = reader.body();
                    reader.expect("}");
                    Some(Compound::Group(list))
                }
                "if" => Some(reader.conditional_lists()),
                word @ ("while" | "until") => Some(reader.while_loop(word)),
                word @ ("for" | "select") => Some(reader.for_loop(word)),
                "case" => Some(reader.case()),
                "[[" => Some(reader.conditional()),
                _ => None,
            }
        })
    }

    fn arithmetic_command(&mut self) -> Compound {
        self.advance(2);
        let arithmetic = self.arithmetic(b")");
        self.close_arithmetic();
        Compound::Arithmetic(arithmetic)
    }

    fn conditional_lists(&mut self) -> Compound {
        self.advance("if".len());
        let mut branches = Vec::new();
        loop {
            let condition = self.body();
            self.expect("then");
            let body = self.body();
            branches.push((condition, body));
            if self.reserved() != Some("elif") {
                break;
            }
            self.advance("elif".len());
        }
        let otherwise = (self.reserved() == Some("else")).then(|| {
            self.advance("else".len());
            self.body()
        });
        self.expect("fi");
        Compound::If { branches, otherwise }
    }

    fn case(&mut self) -> Compound {
        self.advance("case".len());
        self.skip_blanks();
        let subject = self.needed_word();
        self.skip_newlines();
        self.expect_in();
        let mut arms = Vec::new();
        loop {
            self.skip_newlines();
            if self.reserved() == Some("esac") || self.peek().is_none() {
                break;
            }
            arms.push(self.arm());
            self.skip_blanks();
            if !self.at_arm_end() {
                break;
            }
            if self.looks_at(";;&") || self.looks_at(";&") {
                self.only_bash("`;&`");
            }
            let length = if self.looks_at(";;&") { 3 } else { 2 };
            self.operator(length);
        }
        self.expect("esac");
        Compound::Case { subject, arms }
    }

    fn arm(&mut self) -> (Vec<crate::shell::ast::Word>, List) {
        if self.peek() == Some(b'(') {
            self.operator(1);
            self.skip_blanks();
            if self.reserved() == Some("esac") {
                self.stop("the pattern `esac`");
            }
        }
        let mut patterns = vec![self.needed_word()];
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'|') || matches!(self.peek_at(1), Some(b'|' | b'&')) {
                break;
            }
            self.operator(1);
            self.skip_blanks();
            patterns.push(self.needed_word());
        }
        self.expect_parenthesis();
        (patterns, self.list())
    }

    /// `in`, which is reserved only in `for` and `case`.
    fn expect_in(&mut self) {
        if self.at_in() {
            self.advance(2);
        } else {
            self.unexpected("`in`");
        }
    }

    /// Whether the word `in` stands here.
    pub(super) fn at_in(&self) -> bool {
        self.looks_at("in") && self.peek_at(2).is_none_or(super::reader::ends_word)
    }
}
