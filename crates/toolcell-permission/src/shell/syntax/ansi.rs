//! `$'…'`

use super::reader::Reader;
use super::words::Gather;
use crate::shell::ast::Part;

impl Reader<'_> {
    /// From the quote on.
    pub(super) fn ansi_quotes(&mut self, gather: &mut Gather) {
        self.only_bash("`$'`");
        self.advance(1);
        let mut bytes = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b'\'' => break,
                b'\\' => {
                    self.advance(1);
                    self.ansi_escape(&mut bytes);
                }
                _ => bytes.extend_from_slice(self.take_while(|byte| !matches!(byte, b'\'' | b'\\')).as_bytes()),
            }
        }
        self.close(b'\'', "a `$'` quote");
        match String::from_utf8(bytes) {
            Ok(text) => gather.push(Part::Quoted(text)),
            Err(_) => self.problem("a `$'` quote that is not UTF-8"),
        }
    }

    fn ansi_escape(&mut self, bytes: &mut Vec<u8>) {
        let Some(letter) = self.peek() else {
            self.stop("a backslash at the end");
            return;
        };
        if matches!(letter, b'0'..=b'7') {
            let value = self.number(3, 8);
            // Bash takes the lowest eight bits.
            self.code(value & 0xff, bytes);
            return;
        }
        self.advance(1);
        match letter {
            b'a' => bytes.push(7),
            b'b' => bytes.push(8),
            b'e' | b'E' => bytes.push(27),
            b'f' => bytes.push(12),
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'v' => bytes.push(11),
            b'\\' | b'\'' | b'"' | b'?' => bytes.push(letter),
            b'x' => {
                let value = self.number(2, 16);
                self.code(value, bytes);
            }
            b'u' | b'U' => {
                let value = self.number(if letter == b'u' { 4 } else { 8 }, 16);
                if value > 0x7f {
                    self.problem("a character by its number, which depends on the locale,");
                } else {
                    self.code(value, bytes);
                }
            }
            b'c' => match self.peek() {
                Some(control) if control.is_ascii_alphabetic() => {
                    self.advance(1);
                    bytes.push(control & 0x1f);
                }
                Some(_) | None => self.stop("an unusual control character in a `$'` quote"),
            },
            _ => self.stop("an unknown escape in a `$'` quote"),
        }
    }

    fn number(&mut self, digits: usize, radix: u32) -> u32 {
        let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
        let length = self.rest().bytes().take(digits).take_while(is_digit).count();
        if length == 0 {
            self.stop("an escape without digits in a `$'` quote");
        }
        let text = self.rest().get(..length).unwrap_or_default();
        let value = u32::from_str_radix(text, radix).unwrap_or_default();
        self.advance(length);
        value
    }

    fn code(&mut self, value: u32, bytes: &mut Vec<u8>) {
        match u8::try_from(value) {
            Ok(byte) if byte != 0 => bytes.push(byte),
            Ok(_) | Err(_) => self.stop("a NUL in a `$'` quote"),
        }
    }
}
