//! Redirections; the bodies of here-documents are in [`super::heredoc`].

use super::reader::Reader;
use crate::shell::ast::{Redirect, RedirectOperator, Word};

/// Most digits of a descriptor: more are not one for some shells.
const MAX_DESCRIPTOR_DIGITS: usize = 3;

impl Reader<'_> {
    /// The redirections after a compound command.
    pub(super) fn redirects(&mut self) -> Vec<Redirect> {
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            match self.redirect() {
                Some(redirect) => redirects.push(redirect),
                None => return redirects,
            }
        }
    }

    /// A redirection, if one begins here.
    pub(super) fn redirect(&mut self) -> Option<Redirect> {
        let digits = self.rest().bytes().take(MAX_DESCRIPTOR_DIGITS).take_while(u8::is_ascii_digit).count();
        let operator = self.rest().get(digits..)?;
        if digits == 0 && operator.starts_with("&>") {
            self.only_bash("`&>`");
            self.operator(if operator.starts_with("&>>") { 3 } else { 2 });
            return Some(self.file(None, RedirectOperator::Both));
        }
        if !operator.starts_with(['<', '>']) || operator.starts_with("<(") || operator.starts_with(">(") {
            return None;
        }
        let descriptor = self.rest().get(..digits).and_then(|text| text.parse().ok());
        if digits > 1 {
            self.only_bash("a descriptor of several digits");
        }
        let start = self.position;
        self.advance(digits);
        let (length, operator) = match operator.as_bytes() {
            [b'<', b'<', b'<', ..] => {
                self.only_bash("`<<<`");
                self.operator(3);
                self.skip_blanks();
                return Some(Redirect::HereString { descriptor, word: self.needed_word() });
            }
            [b'<', b'<', rest @ ..] => {
                let strip_tabs = rest.first() == Some(&b'-');
                self.operator(if strip_tabs { 3 } else { 2 });
                return Some(Redirect::HereDocument { descriptor, body: self.here_document(start, strip_tabs) });
            }
            [b'<', b'&', ..] => (2, RedirectOperator::DuplicateInput),
            [b'<', b'>', ..] => (2, RedirectOperator::ReadWrite),
            [b'<', ..] => (1, RedirectOperator::Read),
            [b'>', b'&', ..] => (2, RedirectOperator::DuplicateOutput),
            [b'>', b'>', ..] => (2, RedirectOperator::Append),
            [b'>', b'|', ..] => (2, RedirectOperator::Write),
            [..] => (1, RedirectOperator::Write),
        };
        self.operator(length);
        Some(self.file(descriptor, operator))
    }

    fn file(&mut self, descriptor: Option<u32>, operator: RedirectOperator) -> Redirect {
        self.skip_blanks();
        let target = self.needed_word();
        let duplicates = matches!(operator, RedirectOperator::DuplicateInput | RedirectOperator::DuplicateOutput);
        if duplicates && !is_descriptor(&target) {
            self.only_bash("a file after `>&`");
        }
        Redirect::File { descriptor, operator, target }
    }
}

fn is_descriptor(word: &Word) -> bool {
    word.as_bare().is_some_and(|text| text == "-" || text.bytes().all(|byte| byte.is_ascii_digit()))
}
