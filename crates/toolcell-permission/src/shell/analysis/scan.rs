//! What a stretch of a script may change, found without running it: for loops and functions, whose commands run at
//! another time or more than once.

use crate::shell::ast::{
    AndOr, Arithmetic, Assignment, Command, Compound, List, Operation, Part, Pipeline, Redirect, Simple, Value, Word,
};
use std::collections::{BTreeMap, BTreeSet};

/// What may be changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes {
    /// Variables, and whether whatever they get is an integer.
    pub(super) variables: BTreeMap<String, bool>,
    /// The working directory.
    pub(super) directory: bool,
    /// Anything: text that is run, names that are not known.
    pub(super) anything: bool,
    /// Whatever the commands change whose names these variables hold.
    pub(super) called: BTreeSet<String>,
    /// Names of commands, which may be functions.
    pub(super) commands: BTreeSet<String>,
}

impl Changes {
    /// Whether nothing is changed.
    pub(super) fn is_nothing(&self) -> bool {
        self.variables.is_empty() && !self.directory && !self.anything && self.called.is_empty()
    }

    /// By this list, in the shell that runs it.
    pub(super) fn of(list: &List) -> Self {
        let mut changes = Self::default();
        changes.list(list);
        changes
    }

    fn list(&mut self, list: &List) {
        for and_or in list {
            self.and_or(and_or);
        }
    }

    fn and_or(&mut self, and_or: &AndOr) {
        self.pipeline(&and_or.first);
        for (_, pipeline) in &and_or.rest {
            self.pipeline(pipeline);
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        for command in &pipeline.commands {
            match command {
                Command::Simple(simple) => self.simple(simple),
                Command::Compound(compound, redirects) => {
                    self.compound(compound);
                    self.redirects(redirects);
                }
                Command::Function { body, .. } => self.compound(body),
            }
        }
    }

    /// A subshell's changes are taken for the shell's own: too many are no harm.
    fn compound(&mut self, compound: &Compound) {
        match compound {
            Compound::Subshell(list) | Compound::Group(list) => self.list(list),
            Compound::If { branches, otherwise } => {
                for (condition, body) in branches {
                    self.list(condition);
                    self.list(body);
                }
                if let Some(list) = otherwise {
                    self.list(list);
                }
            }
            Compound::Loop { condition, body } => {
                self.list(condition);
                self.list(body);
            }
            Compound::For { name, words, body } => {
                self.assigns(name, false);
                self.words(words.as_deref().unwrap_or_default());
                self.list(body);
            }
            Compound::ForArithmetic { expressions, body } => {
                expressions.iter().for_each(|arithmetic| self.arithmetic(arithmetic));
                self.list(body);
            }
            Compound::Case { subject, arms } => {
                self.word(subject);
                for (patterns, body) in arms {
                    self.words(patterns);
                    self.list(body);
                }
            }
            Compound::Arithmetic(arithmetic) => self.arithmetic(arithmetic),
            Compound::Conditional(conditional) => self.words(&conditional.operands),
        }
    }

    fn simple(&mut self, simple: &Simple) {
        for assignment in &simple.assignments {
            self.assignment(assignment);
        }
        self.words(&simple.words);
        self.redirects(&simple.redirects);
        let Some(first) = simple.words.first() else { return };
        let name = literal(first);
        self.commands.extend(name.clone());
        match name.as_deref() {
            Some("cd" | "pushd" | "popd") => self.directory = true,
            Some("eval" | "source" | "." | "builtin" | "command" | "trap" | "time") => self.anything = true,
            None => match first.parts.as_slice() {
                [Part::Parameter { parameter, .. }]
                    if parameter.index.is_none() && parameter.operation == Operation::Plain =>
                {
                    self.called.insert(parameter.name.clone());
                }
                _ => self.anything = true,
            },
            Some("read" | "mapfile" | "readarray" | "getopts" | "unset" | "printf" | "let" | "set" | "shift") => {
                for word in simple.words.iter().skip(1) {
                    match literal(word) {
                        Some(name) => self.assigns(&name, false),
                        None => self.anything = true,
                    }
                }
                self.assigns("REPLY", false);
                self.assigns("MAPFILE", false);
            }
            Some("export" | "declare" | "typeset" | "local" | "readonly") => {
                for word in simple.words.iter().skip(1) {
                    let text = literal_prefix(word);
                    match text.split_once('=') {
                        Some((name, _)) => self.assigns(name.trim_end_matches('+'), false),
                        None if literal(word).is_some() => self.assigns(&text, false),
                        None => self.anything = true,
                    }
                }
            }
            Some(_) => {}
        }
    }

    fn assignment(&mut self, assignment: &Assignment) {
        let number = match &assignment.value {
            Value::Word(word) => {
                matches!(word.parts.as_slice(), [Part::Arithmetic(_)])
                    && !assignment.append
                    && assignment.index.is_none()
            }
            Value::Array(_) => false,
        };
        self.assigns(&assignment.name, number);
        match &assignment.value {
            Value::Word(word) => self.word(word),
            Value::Array(words) => self.words(words),
        }
    }

    fn assigns(&mut self, name: &str, number: bool) {
        match self.variables.get_mut(name) {
            Some(all_numbers) => *all_numbers &= number,
            None => {
                self.variables.insert(name.to_owned(), number);
            }
        }
    }

    fn redirects(&mut self, redirects: &[Redirect]) {
        for redirect in redirects {
            match redirect {
                Redirect::File { target: word, .. }
                | Redirect::HereDocument { body: word, .. }
                | Redirect::HereString { word, .. } => self.word(word),
            }
        }
    }

    fn words(&mut self, words: &[Word]) {
        words.iter().for_each(|word| self.word(word));
    }

    /// Assignments within a word: `${x:=…}`, `$((x++))`. Commands in it run in processes of their own.
    fn word(&mut self, word: &Word) {
        for part in &word.parts {
            match part {
                Part::Bare(_) | Part::Quoted(_) | Part::Command { .. } | Part::Process(_) => {}
                Part::Arithmetic(arithmetic) => self.arithmetic(arithmetic),
                Part::Parameter { parameter, .. } => match &parameter.operation {
                    Operation::Plain | Operation::Length => {}
                    Operation::Indirect => self.anything = true,
                    Operation::Assign(word) => {
                        self.assigns(&parameter.name, false);
                        self.word(word);
                    }
                    Operation::Default(word) | Operation::Error(word) | Operation::Alternative(word) => self.word(word),
                    Operation::Edit(words) => self.words(words),
                    Operation::Substring(expressions) => {
                        expressions.iter().for_each(|arithmetic| self.arithmetic(arithmetic));
                    }
                },
            }
        }
    }

    fn arithmetic(&mut self, arithmetic: &Arithmetic) {
        for name in &arithmetic.assigns {
            self.assigns(name, true);
        }
        self.anything |= arithmetic.unclear;
    }
}

/// A word's text, if nothing in it is expanded.
pub(super) fn literal(word: &Word) -> Option<String> {
    let mut text = String::new();
    for part in &word.parts {
        match part {
            Part::Bare(piece) if piece.contains(['*', '?', '[', '{', '~']) && piece != "[" => return None,
            Part::Bare(piece) | Part::Quoted(piece) => text.push_str(piece),
            Part::Parameter { .. } | Part::Command { .. } | Part::Arithmetic(_) | Part::Process(_) => return None,
        }
    }
    Some(text)
}

/// The text that a word begins with before anything is expanded.
fn literal_prefix(word: &Word) -> String {
    let mut text = String::new();
    for part in &word.parts {
        match part {
            Part::Bare(piece) | Part::Quoted(piece) => text.push_str(piece),
            Part::Parameter { .. } | Part::Command { .. } | Part::Arithmetic(_) | Part::Process(_) => break,
        }
    }
    text
}

/// Whether a function's body calls the function in a pipeline or in the background: a fork bomb's shape.
pub(super) fn multiplies(name: &str, body: &Compound) -> bool {
    match body {
        Compound::Subshell(list) | Compound::Group(list) => list.iter().any(|and_or| {
            let pipelines = || std::iter::once(&and_or.first).chain(and_or.rest.iter().map(|(_, pipeline)| pipeline));
            let calls = |command: &Command| match command {
                Command::Simple(simple) => simple.words.first().and_then(literal).as_deref() == Some(name),
                Command::Compound(compound, _) => multiplies(name, compound),
                Command::Function { .. } => false,
            };
            pipelines().any(|pipeline| {
                (and_or.background || pipeline.commands.len() > 1) && pipeline.commands.iter().any(calls)
            })
        }),
        Compound::If { .. }
        | Compound::Loop { .. }
        | Compound::For { .. }
        | Compound::ForArithmetic { .. }
        | Compound::Case { .. }
        | Compound::Arithmetic(_)
        | Compound::Conditional(_) => false,
    }
}
