//! Expansion: what a word of the text becomes.

use super::field::Fields;
use super::state::{State, Variable};
use super::{Analyser, Flow, braces};
use crate::shell::ast::{self, Operation, Parameter, Part};
use crate::shell::script::{Cwd, Stdin, Word};
use crate::shell::settings::Dialect;

/// Most ways to read one word, when variables in it have several values. With more of them it is unknown.
pub(super) const MAX_READINGS: usize = 16;

/// How a word is expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// As arguments: split, with braces and globs.
    Arguments,
    /// As one word.
    Value,
}

/// What one expansion gives.
enum Gives {
    /// One of these, each a list of fields.
    OneOf(Vec<Vec<Word>>),
    /// Anything, as one field or, unquoted, as many.
    Unknown,
    /// An integer.
    Number,
}

impl Analyser<'_> {
    /// The fields that a word becomes, in each way to read it.
    pub(super) fn words(&mut self, word: &ast::Word, state: &mut State, flow: &Flow) -> Vec<Vec<Word>> {
        if let [Part::Bare(text)] = word.parts.as_slice()
            && !text.contains(['*', '?', '[', '{', '~'])
        {
            return vec![vec![Word::Text(text.clone())]];
        }
        let expanded = match flow.dialect {
            Dialect::Bash => braces::expand(word),
            Dialect::Sh => Some(vec![word.clone()]),
        };
        let Some(words) = expanded else {
            self.substitutions(word, state, flow);
            return vec![vec![Word::Unknown { prefix: String::new(), many: true }]];
        };
        let mut readings = vec![Vec::new()];
        for word in &words {
            let own = self.readings(word, Place::Arguments, state, flow);
            let own: Vec<Vec<Word>> = own.into_iter().map(Fields::finish).collect();
            readings = combine(vec![readings, own]);
        }
        readings
    }

    /// The text that a word becomes where it is not split, in each way to read it.
    pub(super) fn values(&mut self, word: &ast::Word, state: &mut State, flow: &Flow) -> Vec<Word> {
        self.readings(word, Place::Value, state, flow).into_iter().map(Fields::finish_as_one).collect()
    }

    /// The same as one word, unknown if there is more than one way to read it.
    pub(super) fn value(&mut self, word: &ast::Word, state: &mut State, flow: &Flow) -> Word {
        let mut values = self.values(word, state, flow);
        match (values.pop(), values.is_empty()) {
            (Some(word), true) => word,
            (_, _) => Word::Unknown { prefix: String::new(), many: false },
        }
    }

    fn readings(&mut self, word: &ast::Word, place: Place, state: &mut State, flow: &Flow) -> Vec<Fields> {
        let mut readings = vec![Fields::default()];
        for (position, part) in word.parts.iter().enumerate() {
            match part {
                Part::Bare(text) => {
                    let last = position.saturating_add(1) == word.parts.len();
                    // `name=~/x` as an argument as well.
                    let (before, text) = match assigns_home(text) {
                        Some(parts) if position == 0 && place == Place::Arguments => parts,
                        Some(_) | None => ("", text.as_str()),
                    };
                    let (home, rest) = if position == 0 { self.tilde(text, last, state) } else { (Tilde::None, text) };
                    let home = match home {
                        // Only some shells.
                        Tilde::Home(_) if !before.is_empty() && flow.dialect == Dialect::Sh => Tilde::Unknown,
                        home @ (Tilde::None | Tilde::Home(_) | Tilde::Unknown) => home,
                    };
                    for fields in &mut readings {
                        fields.bare(before);
                        match &home {
                            Tilde::None => {}
                            Tilde::Home(path) => fields.quoted(path),
                            Tilde::Unknown => fields.unknown(false),
                        }
                        match place {
                            Place::Arguments => fields.bare(rest),
                            Place::Value if rest.is_empty() => {}
                            Place::Value => fields.quoted(rest),
                        }
                    }
                }
                Part::Quoted(text) => readings.iter_mut().for_each(|fields| fields.quoted(text)),
                Part::Parameter { parameter, quoted } => {
                    let gives = self.parameter(parameter, *quoted, state, flow);
                    let whole = *quoted || place == Place::Value;
                    readings = append(readings, &gives, whole, state.splits_at_blanks);
                }
                Part::Command { list, quoted } => {
                    self.substitution(list, state, flow);
                    let many = !quoted && place == Place::Arguments;
                    readings.iter_mut().for_each(|fields| fields.unknown(many));
                }
                Part::Arithmetic(arithmetic) => {
                    self.arithmetic(arithmetic, state, flow);
                    readings.iter_mut().for_each(|fields| fields.unknown(false));
                }
                Part::Process(list) => {
                    // Whichever way it goes, what runs in it may read what the command writes.
                    let mut child = state.child();
                    let own = Flow { stdin: Stdin::Unknown, fed_by: Vec::new(), ..flow.in_condition() };
                    self.list(list, &mut child, &own);
                    readings.iter_mut().for_each(|fields| fields.quoted("/dev/fd/63"));
                }
            }
        }
        readings
    }

    /// Runs the substitutions of a word that is otherwise unknown.
    fn substitutions(&mut self, word: &ast::Word, state: &mut State, flow: &Flow) {
        self.readings(word, Place::Value, state, flow);
    }

    fn substitution(&mut self, list: &ast::List, state: &State, flow: &Flow) {
        let mut child = state.child();
        self.list(list, &mut child, &flow.in_condition());
    }

    fn tilde<'t>(&self, text: &'t str, last: bool, state: &State) -> (Tilde, &'t str) {
        let Some(after) = text.strip_prefix('~') else { return (Tilde::None, text) };
        let end = after.find('/').unwrap_or(after.len());
        let Some((user, rest)) = after.split_at_checked(end) else { return (Tilde::Unknown, "") };
        let whole = !rest.is_empty() || last;
        let plain = |user: &str| user.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match (self.settings.home.as_str(), user) {
            (Some(home), "") if whole && state.home_is_known => (Tilde::Home(home.to_owned()), rest),
            (_, "root") if whole => (Tilde::Home("/root".to_owned()), rest),
            // Homes lie side by side.
            (Some(home), user)
                if whole && !user.is_empty() && plain(user) && !user.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                let homes = home.rsplit_once('/').map_or("", |(homes, _)| homes);
                (Tilde::Home(format!("{homes}/{user}")), rest)
            }
            (_, _) => (Tilde::Unknown, ""),
        }
    }

    fn parameter(&mut self, parameter: &Parameter, quoted: bool, state: &mut State, flow: &Flow) -> Gives {
        if let Some(index) = &parameter.index {
            return self.element(parameter, index, state, flow);
        }
        let plain = self.plain(&parameter.name, quoted, state);
        match &parameter.operation {
            Operation::Plain => plain,
            Operation::Length => Gives::Number,
            Operation::Assign(_) if !is_name(&parameter.name) => {
                self.opaque("`=` in the expansion of something that cannot be assigned");
                Gives::Unknown
            }
            Operation::Default(word) => {
                let values = self.values(word, state, flow);
                if plain.is_certainly_not_empty() { plain } else { plain.or(values) }
            }
            Operation::Error(word) => {
                self.value(word, state, flow);
                plain
            }
            Operation::Assign(word) => {
                let values = self.values(word, state, flow);
                if plain.is_certainly_not_empty() {
                    plain
                } else {
                    self.assign(&parameter.name, Variable::Unknown, state);
                    plain.or(values)
                }
            }
            Operation::Alternative(word) => {
                let values = self.values(word, state, flow);
                Gives::OneOf(vec![Vec::new()]).or(values)
            }
            Operation::Edit(words) => {
                for word in words {
                    self.value(word, state, flow);
                }
                Gives::Unknown
            }
            Operation::Substring(expressions) => {
                for arithmetic in expressions {
                    self.arithmetic(arithmetic, state, flow);
                }
                Gives::Unknown
            }
            Operation::Indirect => {
                self.opaque(format!(
                    "`${{{}}}` with an operation that takes names or code from a value",
                    parameter.name
                ));
                Gives::Unknown
            }
        }
    }

    fn plain(&self, name: &str, quoted: bool, state: &State) -> Gives {
        if let Some(variable) = state.variables.get(name) {
            return match variable {
                Variable::OneOf(words) => Gives::OneOf(words.iter().map(|word| vec![word.clone()]).collect()),
                // Without an index it is the first element.
                Variable::Array(words) => Gives::OneOf(vec![words.first().into_iter().cloned().collect()]),
                Variable::Number => Gives::Number,
                Variable::Unknown => Gives::Unknown,
            };
        }
        match name {
            "#" | "?" | "$" => Gives::Number,
            "@" => state.positional.clone().map_or(Gives::Unknown, |words| Gives::OneOf(vec![words])),
            "*" if !quoted => state.positional.clone().map_or(Gives::Unknown, |words| Gives::OneOf(vec![words])),
            "HOME" if state.home_is_known => match self.settings.home.as_str() {
                Some(home) => Gives::OneOf(vec![vec![Word::Text(home.to_owned())]]),
                None => Gives::Unknown,
            },
            "PWD" => match (&state.cwd, &state.failed_cwd) {
                (Cwd::OneOf(paths), None) => {
                    let texts = paths.iter().map(|path| path.as_str().map(|text| vec![Word::Text(text.to_owned())]));
                    texts.collect::<Option<Vec<_>>>().map_or(Gives::Unknown, Gives::OneOf)
                }
                (_, _) => Gives::Unknown,
            },
            _ => match (name.parse::<usize>(), &state.positional) {
                (Ok(place), Some(words)) if place > 0 => {
                    // A field of unknown number shifts those after it.
                    let before = words.get(..place.min(words.len())).unwrap_or_default();
                    if before.iter().any(|word| matches!(word, Word::Unknown { many: true, .. } | Word::Glob(_))) {
                        return Gives::Unknown;
                    }
                    Gives::OneOf(vec![words.get(place.saturating_sub(1)).into_iter().cloned().collect()])
                }
                (_, _) => Gives::Unknown,
            },
        }
    }

    /// `${name[index]}`: an index is evaluated, and may run commands.
    fn element(&mut self, parameter: &Parameter, index: &ast::Word, state: &mut State, flow: &Flow) -> Gives {
        let array = state.variables.get(&parameter.name).cloned();
        let index = match index.parts.as_slice() {
            [Part::Bare(text)] if text == "@" || text == "*" => Word::Text(text.clone()),
            _ => {
                self.evaluated(index, state, flow);
                self.value(index, state, flow)
            }
        };
        if parameter.operation == Operation::Length && index.text() != Some("@") && index.text() != Some("*") {
            self.opaque("the length of an element that may not be there");
        }
        let Operation::Plain = parameter.operation else {
            return match &parameter.operation {
                Operation::Length => Gives::Number,
                Operation::Plain
                | Operation::Default(_)
                | Operation::Assign(_)
                | Operation::Error(_)
                | Operation::Alternative(_)
                | Operation::Edit(_)
                | Operation::Substring(_)
                | Operation::Indirect => {
                    self.opaque("an element of an array with an operation on it");
                    Gives::Unknown
                }
            };
        };
        match (array, index.text()) {
            (Some(Variable::Array(words)), Some("@")) => Gives::OneOf(vec![words]),
            (Some(Variable::Array(words)), Some(text)) => {
                let certain = words.iter().all(|word| matches!(word, Word::Text(_)));
                // A leading zero makes it octal.
                let decimal = text == "0" || !text.starts_with('0');
                match text.parse::<usize>() {
                    Ok(place) if certain && decimal => {
                        Gives::OneOf(vec![words.get(place).into_iter().cloned().collect()])
                    }
                    Ok(_) | Err(_) => Gives::Unknown,
                }
            }
            (_, _) => Gives::Unknown,
        }
    }
}

/// `name=` and what follows, if that begins with a `~`.
fn assigns_home(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=').filter(|(_, value)| value.starts_with('~'))?;
    let plain = is_name(name) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    plain.then(|| text.split_at_checked(text.len().saturating_sub(value.len()))).flatten()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

enum Tilde {
    None,
    Home(String),
    Unknown,
}

impl Gives {
    /// This or one of these.
    fn or(self, words: Vec<Word>) -> Self {
        let unknown = || vec![vec![Word::Unknown { prefix: String::new(), many: false }]];
        let own = match self {
            Self::OneOf(readings) => readings,
            Self::Unknown | Self::Number => unknown(),
        };
        let mut readings = own;
        for word in words {
            let reading = vec![word];
            if !readings.contains(&reading) {
                readings.push(reading);
            }
        }
        Self::OneOf(readings)
    }

    fn is_certainly_not_empty(&self) -> bool {
        match self {
            Self::Number => true,
            Self::Unknown => false,
            Self::OneOf(readings) => readings.iter().all(|fields| match fields.as_slice() {
                [word] => !word.known_prefix().is_empty(),
                _ => false,
            }),
        }
    }
}

fn append(readings: Vec<Fields>, gives: &Gives, whole: bool, splits_at_blanks: bool) -> Vec<Fields> {
    let unknown = |mut readings: Vec<Fields>, many| {
        readings.iter_mut().for_each(|fields| fields.unknown(many));
        readings
    };
    match gives {
        Gives::Unknown => unknown(readings, !whole),
        Gives::Number => unknown(readings, !whole && !splits_at_blanks),
        Gives::OneOf(values) if readings.len().saturating_mul(values.len()) > MAX_READINGS => unknown(readings, !whole),
        Gives::OneOf(values) => {
            let mut all = Vec::new();
            for reading in &readings {
                for words in values {
                    let mut fields = reading.clone();
                    append_words(&mut fields, words, whole, splits_at_blanks);
                    all.push(fields);
                }
            }
            all
        }
    }
}

fn append_words(fields: &mut Fields, words: &[Word], whole: bool, splits_at_blanks: bool) {
    for (place, word) in words.iter().enumerate() {
        if place > 0 {
            fields.next();
        }
        match word {
            Word::Text(text) if whole => fields.quoted(text),
            Word::Text(text) if splits_at_blanks => fields.split(text),
            Word::Text(_) => fields.unknown(true),
            Word::Glob(pattern) if whole => fields.matching(pattern),
            // A file's name is split again.
            Word::Glob(_) => fields.unknown(true),
            Word::Unknown { prefix, many } => {
                fields.quoted(prefix);
                fields.unknown(*many || !whole);
            }
        }
    }
}

/// Every reading of what came before with every reading of what follows.
fn product(before: &[Vec<Word>], after: &[Vec<Word>]) -> Vec<Vec<Word>> {
    if before.len().saturating_mul(after.len()) > MAX_READINGS {
        let unknown = vec![Word::Unknown { prefix: String::new(), many: true }];
        let first = before.iter().map(|fields| [fields.clone(), unknown.clone()].concat());
        return first.take(MAX_READINGS).collect();
    }
    before.iter().flat_map(|before| after.iter().map(move |after| [before.clone(), after.clone()].concat())).collect()
}

/// The readings of several words in a row.
pub(super) fn combine(words: Vec<Vec<Vec<Word>>>) -> Vec<Vec<Word>> {
    let mut readings = vec![Vec::new()];
    for word in words {
        // Nearly every word has one: to copy all words before it would make a long command slow.
        if let [only] = word.as_slice() {
            readings.iter_mut().for_each(|before| before.extend_from_slice(only));
        } else {
            readings = product(&readings, &word);
        }
    }
    readings
}
