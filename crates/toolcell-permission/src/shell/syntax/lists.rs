//! Lists, pipelines, and what a command begins with.

use super::reader::Reader;
use crate::shell::ast::{AndOr, Command, Connector, List, Pipeline, Word};

impl Reader<'_> {
    /// Commands up to something that ends a list; what that must be is the caller's to say.
    pub(super) fn list(&mut self) -> List {
        let mut list = List::new();
        loop {
            self.skip_newlines();
            if self.at_list_end() {
                return list;
            }
            let Some(mut and_or) = self.and_or() else {
                self.unexpected("a command");
                return list;
            };
            self.skip_blanks();
            let ends_here = match self.peek() {
                Some(b'&') if !self.looks_at("&&") => {
                    and_or.background = true;
                    self.operator(1);
                    false
                }
                Some(b';') if !self.at_arm_end() => {
                    self.operator(1);
                    false
                }
                Some(b'\n') => false,
                Some(_) | None => true,
            };
            list.push(and_or);
            if ends_here {
                return list;
            }
        }
    }

    /// A list that must not be empty.
    pub(super) fn body(&mut self) -> List {
        let list = self.list();
        if list.is_empty() {
            self.unexpected("a command");
        }
        list
    }

    fn at_list_end(&self) -> bool {
        let word = matches!(self.reserved(), Some("then" | "elif" | "else" | "fi" | "do" | "done" | "esac" | "}"));
        word || self.at_arm_end() || matches!(self.peek(), None | Some(b')'))
    }

    /// `;;`, `;&`, `;;&`
    pub(super) fn at_arm_end(&self) -> bool {
        self.peek() == Some(b';') && matches!(self.peek_at(1), Some(b';' | b'&'))
    }

    fn and_or(&mut self) -> Option<AndOr> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.skip_blanks();
            let connector = if self.looks_at("&&") {
                Connector::And
            } else if self.looks_at("||") {
                Connector::Or
            } else {
                break;
            };
            self.operator(2);
            self.skip_newlines();
            match self.pipeline() {
                Some(pipeline) => rest.push((connector, pipeline)),
                None => self.unexpected("a command"),
            }
        }
        Some(AndOr { first, rest, background: false })
    }

    fn pipeline(&mut self) -> Option<Pipeline> {
        let negated = self.reserved() == Some("!");
        if negated {
            if self.peek_at(1) == Some(b'(') {
                self.problem("`!(`, which may be a pattern,");
            }
            self.advance(1);
            self.skip_blanks();
            if self.reserved() == Some("!") {
                self.stop("`!` twice");
            }
        }
        let timed = self.time();
        if timed.is_empty() && matches!(self.reserved(), Some("!" | "time")) {
            return self.deeper(Self::pipeline);
        }
        let mut commands = Vec::new();
        commands.extend(self.command(timed));
        if commands.is_empty() && self.peek() == Some(b'|') {
            self.unexpected("a command");
        }
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'|') || self.looks_at("||") {
                break;
            }
            if self.looks_at("|&") {
                self.only_bash("`|&`");
                self.operator(2);
            } else {
                self.operator(1);
            }
            self.skip_newlines();
            match self.command(Vec::new()) {
                Some(command) => commands.push(command),
                None => self.unexpected("a command"),
            }
        }
        if commands.is_empty() { None } else { Some(Pipeline { negated, commands }) }
    }

    /// `time` with its option, if what follows is a simple command, whose first words they become.
    fn time(&mut self) -> Vec<Word> {
        if self.reserved() != Some("time") {
            return Vec::new();
        }
        let start = self.position;
        let mut words = Vec::new();
        loop {
            words.extend(self.word());
            self.skip_blanks();
            if !matches!(self.bare_run(), "-p" | "--") {
                break;
            }
        }
        if self.at_compound() {
            return Vec::new();
        }
        let odd = self.reserved().is_some() || self.at_assignment();
        if odd || matches!(self.peek(), Some(b'|' | b'&' | b'<' | b'>')) {
            self.problem("`time` before something that is not a plain command");
            return Vec::new();
        }
        self.command_begins(start);
        words
    }

    /// The bytes up to the end of the word, at most a few.
    fn bare_run(&self) -> &str {
        let length = self.rest().bytes().take(3).take_while(|byte| !super::reader::ends_word(*byte)).count();
        self.rest().get(..length).unwrap_or_default()
    }

    /// A command; `None` if none begins here. `first` are words of it that were read already.
    fn command(&mut self, first: Vec<Word>) -> Option<Command> {
        if first.is_empty() {
            if self.at_compound() {
                let compound = self.compound()?;
                return Some(Command::Compound(Box::new(compound), self.redirects()));
            }
            match self.reserved() {
                Some("function") => return self.function(),
                Some("coproc") => return self.coprocess(),
                Some("time") | None => {}
                Some(_) => {
                    self.unexpected("a command");
                    return None;
                }
            }
        }
        self.simple(first)
    }

    /// `function name …`
    fn function(&mut self) -> Option<Command> {
        self.advance("function".len());
        self.skip_blanks();
        let word = self.word().unwrap_or_default();
        self.skip_blanks();
        if self.peek() == Some(b'(') {
            self.advance(1);
            self.expect_parenthesis();
        }
        self.function_body(&word)
    }

    /// What follows the name of a function and its parentheses.
    pub(super) fn function_body(&mut self, name: &Word) -> Option<Command> {
        let name = self.function_name(name)?;
        self.skip_newlines();
        if !self.at_compound() {
            self.unexpected("the body of a function in `{ … }`");
            return None;
        }
        let body = Box::new(self.compound()?);
        Some(Command::Function { name, body, redirects: self.redirects() })
    }

    /// An unusual name is a problem; the body is read nevertheless.
    fn function_name(&mut self, word: &Word) -> Option<String> {
        let name = word.as_bare().unwrap_or_default();
        let rest = |byte: u8| super::reader::in_name(byte) || (self.is_bash() && matches!(byte, b'-' | b'.' | b':'));
        if name.is_empty() {
            self.stop("a function without a plain name");
            return None;
        }
        if !name.bytes().next().is_some_and(super::reader::begins_name) || !name.bytes().all(rest) {
            self.problem("an unusual name of a function");
        }
        Some(name.to_owned())
    }

    /// `coproc …`: the first word of the simple command that follows, whatever else it may be is a problem.
    fn coprocess(&mut self) -> Option<Command> {
        let start = self.position;
        let word = self.word()?;
        self.skip_blanks();
        if self.reserved().is_none() && !self.at_assignment() && self.peek().is_some_and(super::reader::in_name) {
            let second = self.word()?;
            self.skip_blanks();
            if !self.at_compound() && self.reserved().is_none() {
                self.command_begins(start);
                return self.simple(vec![word, second]);
            }
        }
        self.problem("`coproc` before something that is not a plain command");
        self.deeper(|reader| reader.command(Vec::new()))
    }
}

impl Word {
    /// The text of a word that is nothing but bare text.
    pub(super) fn as_bare(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [crate::shell::ast::Part::Bare(text)] => Some(text),
            _ => None,
        }
    }
}
