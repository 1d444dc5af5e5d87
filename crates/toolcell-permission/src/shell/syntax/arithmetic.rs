//! Arithmetic expressions: not what they are worth, only what they touch.

use super::reader::{Reader, begins_name, in_name};
use super::words::Gather;
use crate::shell::ast::{Arithmetic, List, Operation, Parameter, Part, Word};

/// Whether the expression so far is one that the shell understands, and can work out: where it cannot, it gives up the
/// rest of the line.
#[derive(Debug)]
struct Sense {
    /// An operand must follow.
    open: bool,
    /// `?` without its `:`
    questions: usize,
    broken: bool,
    /// The token before is the first half of `&&` or `||`.
    half: Option<char>,
}

impl Sense {
    /// `text` begins with the token, `after` behind it.
    fn token(&mut self, token: Token, text: &str, after: &str) {
        let begins = |operators: &[&str]| operators.iter().any(|operator| text.starts_with(operator));
        let compares = begins(&["==", "!=", "<=", ">="]);
        let half = self.half.take();
        if half.is_some() && text.chars().next() == half {
            return;
        }
        self.half = text.chars().next().filter(|c| matches!(c, '&' | '|'));
        match token {
            Token::Nothing => {}
            Token::Name | Token::Value => {
                self.broken |= !self.open;
                self.open = false;
            }
            Token::Steps => {}
            Token::Assigns => {
                self.broken |= self.open || begins(&["/=", "%="]) && !divides(after);
                self.open = true;
            }
            Token::Operator if !compares && begins(&["(", "!", "~"]) => self.broken |= !self.open,
            Token::Operator if begins(&[")"]) => self.broken |= self.open,
            Token::Operator if begins(&["+", "-"]) => self.open = true,
            Token::Operator => {
                self.broken |= self.open || begins(&["**"]) || begins(&["/", "%"]) && !divides(after);
                self.open = true;
                if begins(&["?"]) {
                    self.questions = self.questions.saturating_add(1);
                }
                if begins(&[":"]) {
                    self.broken |= self.questions == 0;
                    self.questions = self.questions.saturating_sub(1);
                }
            }
        }
    }

    fn at_end(&self, before: Token) -> bool {
        self.broken || self.questions > 0 || (self.open && before != Token::Nothing)
    }
}

/// Whether a number that is not zero follows.
fn divides(text: &str) -> bool {
    text.trim_start_matches([' ', '\t']).starts_with(|c: char| matches!(c, '1'..='9'))
}

/// Digits that mean what they look like.
fn is_decimal(text: &str) -> bool {
    text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'))
}

/// What stands before or behind a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Nothing,
    Operator,
    Assigns,
    /// `++`, `--`
    Steps,
    Name,
    Value,
}

impl Reader<'_> {
    /// `))` that must stand here.
    pub(super) fn close_arithmetic(&mut self) {
        if self.looks_at("))") {
            self.advance(2);
        } else {
            self.unexpected("`))`");
        }
    }

    /// An expression, up to one of `ends` outside of its parentheses.
    pub(super) fn arithmetic(&mut self, ends: &[u8]) -> Arithmetic {
        let mut arithmetic = Arithmetic::default();
        let mut open: usize = 0;
        let mut before = Token::Nothing;
        let mut sense = Sense { open: true, questions: 0, broken: false, half: None };
        while let Some(byte) = self.peek() {
            if open == 0 && ends.contains(&byte) {
                arithmetic.unclear |= sense.at_end(before);
                return arithmetic;
            }
            if matches!(byte, b' ' | b'\t' | b'\n') {
                self.advance(1);
                continue;
            }
            let start = self.position;
            let token = self.arithmetic_token(byte, &mut arithmetic, &mut open);
            sense.token(token, self.since(start), self.rest());
            let operand = |token| matches!(token, Token::Name | Token::Value);
            // Two operands side by side are one after expansion, or none; an assignment to a value is to a name in it.
            if operand(before) && operand(token)
                || before == Token::Value && matches!(token, Token::Assigns | Token::Steps)
                || before == Token::Steps && token == Token::Value
            {
                arithmetic.unclear = true;
            }
            let name = arithmetic.reads.last().cloned();
            let assigns = before == Token::Name && matches!(token, Token::Assigns | Token::Steps)
                || before == Token::Steps && token == Token::Name;
            if assigns {
                arithmetic.assigns.extend(name);
            }
            before = token;
        }
        self.unexpected("the end of an arithmetic expression");
        arithmetic
    }

    fn arithmetic_token(&mut self, byte: u8, arithmetic: &mut Arithmetic, open: &mut usize) -> Token {
        match byte {
            b'(' | b')' => {
                self.advance(1);
                if byte == b'(' {
                    *open = open.saturating_add(1);
                    return Token::Operator;
                }
                match open.checked_sub(1) {
                    Some(rest) => *open = rest,
                    None => self.stop("an unbalanced parenthesis in an arithmetic expression"),
                }
                Token::Operator
            }
            b'0'..=b'9' => {
                let number = self.take_while(|byte| in_name(byte) || matches!(byte, b'#' | b'@'));
                arithmetic.unclear |= !is_decimal(number);
                Token::Value
            }
            b'$' | b'`' => {
                let start = self.position;
                let braces = self.looks_at("${");
                let mut gather = Gather::new(true);
                if byte == b'$' {
                    self.dollar(&mut gather)
                } else {
                    self.backticks(&mut gather)
                }
                if braces && self.since(start).contains(['(', ')', '\'', '"', '\\', '`']) {
                    self.problem("an unusual `${…}` in an arithmetic expression");
                }
                self.arithmetic_parts(gather.finish(), arithmetic);
                Token::Value
            }
            b'[' | b']' => {
                arithmetic.unclear = true;
                self.advance(1);
                Token::Value
            }
            _ if begins_name(byte) => {
                arithmetic.reads.extend(self.name());
                Token::Name
            }
            _ => self.arithmetic_operator(byte),
        }
    }

    fn arithmetic_operator(&mut self, byte: u8) -> Token {
        let compared = ["==", "!=", "<=", ">="].iter().any(|operator| self.looks_at(operator));
        let assigns = ["<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "="];
        if compared {
            self.advance(2);
            Token::Operator
        } else if self.looks_at("++") || self.looks_at("--") {
            self.advance(2);
            Token::Steps
        } else if let Some(operator) = assigns.iter().find(|operator| self.looks_at(operator)) {
            self.advance(operator.len());
            Token::Assigns
        } else if self.looks_at("<<") || self.looks_at(">>") {
            self.advance(2);
            Token::Operator
        } else if matches!(byte, b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'&' | b'|' | b'^' | b'~' | b'!')
            || matches!(byte, b'?' | b':' | b',')
        {
            self.advance(1);
            Token::Operator
        } else {
            self.unexpected("an arithmetic operator");
            Token::Operator
        }
    }

    fn arithmetic_parts(&mut self, parts: Vec<Part>, arithmetic: &mut Arithmetic) {
        for part in parts {
            match part {
                Part::Parameter { parameter, .. } => read_parameter(parameter, arithmetic),
                Part::Command { list, .. } | Part::Process(list) => {
                    arithmetic.unclear = true;
                    arithmetic.commands.push(list);
                }
                Part::Arithmetic(inner) => {
                    arithmetic.reads.extend(inner.reads);
                    arithmetic.assigns.extend(inner.assigns);
                    arithmetic.commands.extend(inner.commands);
                    arithmetic.unclear |= inner.unclear;
                }
                Part::Bare(_) | Part::Quoted(_) => arithmetic.unclear = true,
            }
        }
    }
}

/// The value of a parameter is read as part of the expression.
fn read_parameter(parameter: Parameter, arithmetic: &mut Arithmetic) {
    let Parameter { name, index, operation } = parameter;
    let number = matches!(name.as_str(), "#" | "?" | "$" | "!") || operation == Operation::Length;
    let plain = matches!(operation, Operation::Plain | Operation::Length) && index.is_none();
    if !plain || matches!(name.as_str(), "@" | "*" | "-") {
        arithmetic.unclear = true;
    }
    if let Some(index) = index {
        lists_in(*index, &mut arithmetic.commands);
    }
    lists_in_operation(operation, &mut arithmetic.commands);
    if !number {
        arithmetic.reads.push(name);
    }
}

fn lists_in(word: Word, lists: &mut Vec<List>) {
    for part in word.parts {
        match part {
            Part::Command { list, .. } | Part::Process(list) => lists.push(list),
            Part::Arithmetic(inner) => lists.extend(inner.commands),
            Part::Parameter { parameter, .. } => {
                if let Some(index) = parameter.index {
                    lists_in(*index, lists);
                }
                lists_in_operation(parameter.operation, lists);
            }
            Part::Bare(_) | Part::Quoted(_) => {}
        }
    }
}

fn lists_in_operation(operation: Operation, lists: &mut Vec<List>) {
    match operation {
        Operation::Plain | Operation::Length | Operation::Indirect => {}
        Operation::Default(word) | Operation::Assign(word) | Operation::Error(word) | Operation::Alternative(word) => {
            lists_in(*word, lists);
        }
        Operation::Edit(words) => words.into_iter().for_each(|word| lists_in(word, lists)),
        Operation::Substring(parts) => lists.extend(parts.into_iter().flat_map(|part| part.commands)),
    }
}
