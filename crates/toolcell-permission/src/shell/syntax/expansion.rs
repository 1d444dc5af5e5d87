//! What begins with `$`.

use super::reader::{Reader, begins_name, in_name};
use super::words::Gather;
use crate::shell::ast::{Operation, Parameter, Part, Word};

impl Reader<'_> {
    /// From the `$` on.
    pub(super) fn dollar(&mut self, gather: &mut Gather) {
        let quoted = gather.quoted;
        match self.peek_at(1) {
            Some(b'(') if self.peek_at(2) == Some(b'(') => {
                self.advance(3);
                let arithmetic = self.deeper(|reader| {
                    let arithmetic = reader.arithmetic(b")");
                    reader.close_arithmetic();
                    arithmetic
                });
                gather.push(Part::Arithmetic(arithmetic));
            }
            Some(b'(') => {
                self.advance(2);
                let list = self.substitution();
                gather.push(Part::Command { list, quoted });
            }
            Some(b'{') => {
                self.advance(2);
                if let Some(parameter) = self.deeper(|reader| reader.braces(quoted)) {
                    gather.push(Part::Parameter { parameter, quoted });
                }
            }
            Some(b'[') => self.stop("`$[`"),
            Some(b'\\') if self.peek_at(2) == Some(b'\n') => self.stop("`$` before a backslash and a newline"),
            Some(b'\'') if !quoted => {
                self.advance(1);
                self.ansi_quotes(gather);
            }
            Some(b'"') if !quoted => {
                // A translation takes the place of the text, and commands in it run.
                self.problem("`$\"`");
                self.advance(1);
                self.double_quotes(gather);
            }
            Some(byte) if begins_name(byte) || byte.is_ascii_digit() || is_special(byte) => {
                self.advance(1);
                let name = self.simple_name().unwrap_or_default();
                if self.at_continuation() && self.peek_at(2).is_some_and(in_name) {
                    self.problem("a name that goes on after a backslash and a newline");
                }
                let parameter = Parameter { name, index: None, operation: Operation::Plain };
                gather.push(Part::Parameter { parameter, quoted });
            }
            Some(_) | None => {
                self.advance(1);
                gather.text("$");
            }
        }
    }

    /// A variable's name, one digit, or a special parameter.
    fn simple_name(&mut self) -> Option<String> {
        if let Some(name) = self.name() {
            return Some(name);
        }
        let one = self.peek().filter(|byte| byte.is_ascii_digit() || is_special(*byte))?;
        self.advance(1);
        Some(char::from(one).to_string())
    }

    /// After `${`.
    fn braces(&mut self, quoted: bool) -> Option<Parameter> {
        let length = self.peek() == Some(b'#') && self.peek_at(1).is_some_and(|byte| byte != b'}');
        let indirect = self.peek() == Some(b'!') && self.peek_at(1).is_some_and(|byte| byte != b'}');
        if length || indirect {
            self.advance(1);
        }
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        let name = if digits.is_empty() { self.simple_name() } else { Some(digits.to_owned()) };
        let Some(name) = name else {
            self.unexpected("the name of a parameter");
            return None;
        };
        let mut index = None;
        if self.peek() == Some(b'[') {
            self.only_bash("an array");
            index = Some(Box::new(self.index()));
        }
        let operation = if length {
            Operation::Length
        } else if indirect {
            self.only_bash("`${!`");
            self.indirect(index.is_some())
        } else {
            self.operation(quoted)
        };
        if self.peek() == Some(b'}') {
            self.advance(1);
        } else {
            self.unexpected("`}`");
        }
        Some(Parameter { name, index, operation })
    }

    /// `${!name}`, or the keys of an array.
    fn indirect(&mut self, indexed: bool) -> Operation {
        if matches!(self.peek(), Some(b'@' | b'*')) {
            self.advance(1);
            return Operation::Indirect;
        }
        let index = self.since(self.position.saturating_sub(3));
        let keys = indexed && matches!(index, "[@]" | "[*]");
        if keys { Operation::Edit(Vec::new()) } else { Operation::Indirect }
    }

    fn operation(&mut self, quoted: bool) -> Operation {
        let colon = self.peek() == Some(b':');
        let operator = if colon { self.peek_at(1) } else { self.peek() };
        let replaced: fn(Box<Word>) -> Operation = match operator {
            Some(b'-') => Operation::Default,
            Some(b'=') => Operation::Assign,
            Some(b'?') => Operation::Error,
            Some(b'+') => Operation::Alternative,
            Some(_) if colon => return self.substring(),
            Some(b'#' | b'%' | b'/' | b'^' | b',' | b'~') => return self.edit(quoted),
            Some(b'@') => return self.transformation(),
            Some(_) | None => return Operation::Plain,
        };
        self.advance(if colon { 2 } else { 1 });
        replaced(Box::new(self.braced_word(quoted, false, false)))
    }

    fn substring(&mut self) -> Operation {
        self.only_bash("`${name:offset}`");
        let mut parts = Vec::new();
        while self.peek() == Some(b':') && parts.len() < 2 {
            self.advance(1);
            let start = self.position;
            let mut part = self.arithmetic(b":}");
            // A length below zero may be too far below.
            part.unclear |= !parts.is_empty() && !self.since(start).trim().bytes().all(|byte| byte.is_ascii_digit());
            parts.push(part);
        }
        Operation::Substring(parts)
    }

    fn transformation(&mut self) -> Operation {
        self.only_bash("`${name@…}`");
        let operator = self.peek_at(1);
        self.advance(2);
        match operator {
            Some(b'Q' | b'E' | b'A' | b'a' | b'K' | b'k' | b'U' | b'u' | b'L') => Operation::Edit(Vec::new()),
            Some(_) | None => Operation::Indirect,
        }
    }

    /// `#`, `%`, `/`, `^`, `,`, `~`, once or twice.
    fn edit(&mut self, quoted: bool) -> Operation {
        let operator = self.peek();
        let replaces = operator == Some(b'/');
        if !matches!(operator, Some(b'#' | b'%')) {
            self.only_bash("`${name/…}`");
        }
        self.advance(1);
        if self.peek() == operator || (replaces && matches!(self.peek(), Some(b'#' | b'%'))) {
            self.advance(1);
        }
        let mut words = vec![self.braced_word(quoted, true, replaces)];
        if replaces && self.peek() == Some(b'/') {
            self.advance(1);
            words.push(self.braced_word(quoted, true, false));
        }
        Operation::Edit(words)
    }

    /// Text up to `}`, or up to `/` too. Where shells do not agree on the quotes in it, it is a problem.
    fn braced_word(&mut self, quoted: bool, pattern: bool, until_slash: bool) -> Word {
        let start = self.position;
        let mut gather = Gather::new(quoted);
        while let Some(byte) = self.peek() {
            match byte {
                b'}' => break,
                b'/' if until_slash => break,
                b'{' => self.stop("a brace within `${…}`"),
                b'<' | b'>' if self.peek_at(1) == Some(b'(') => self.stop("a parenthesis within `${…}`"),
                b'"' if quoted => self.stop("a quote within `${…}` in double quotes"),
                b'\\' if quoted => self.braced_escape(&mut gather, pattern),
                b'`' => self.backticks(&mut gather),
                b'$' => self.dollar(&mut gather),
                b'\\' if self.at_continuation() => self.stop("a backslash and a newline within `${…}`"),
                b'\\' | b'\'' | b'"' if !quoted => {
                    self.unquoted(byte, &mut gather);
                }
                _ if !quoted && super::reader::ends_word(byte) => self.stop("several words within `${…}`"),
                _ => {
                    let width = self.rest().chars().next().map_or(1, char::len_utf8);
                    gather.text(self.rest().get(..width).unwrap_or_default());
                    self.advance(width);
                }
            }
        }
        if quoted && pattern && self.since(start).contains('\'') {
            self.stop("a quote within `${…}` in double quotes");
        }
        Word { parts: gather.finish(), start }
    }

    fn braced_escape(&mut self, gather: &mut Gather, pattern: bool) {
        match self.peek_at(1) {
            Some(b'$' | b'`' | b'\\') => self.escape_in_quotes(gather, true),
            Some(byte) if pattern && byte.is_ascii_graphic() && !matches!(byte, b'}' | b'"' | b'\'' | b'{') => {
                self.advance(1);
                gather.text(self.rest().get(..1).unwrap_or_default());
                self.advance(1);
            }
            Some(_) | None => self.stop("a backslash within `${…}` in double quotes"),
        }
    }
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!')
}
