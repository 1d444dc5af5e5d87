//! From fields to words.
//!
//! A word that is exactly `{field}` becomes the value, a list one word for each item. Inside of a word, as in
//! `--env={field}`, a single value takes its place. A word of which a field is missing is left out whole, so that an
//! option and its value are best one word.

use super::{CustomToolError, scalar};
use crate::fields::invalid;
use serde_json::{Map, Value};
use toolcell_model::CallFault;

#[derive(Debug)]
enum Piece {
    Text(String),
    Field(String),
}

/// The words of one tool.
#[derive(Debug)]
pub(super) struct Template(Vec<Vec<Piece>>);

impl Template {
    pub(super) fn parse(words: &[String]) -> Result<Self, CustomToolError> {
        let refuse = |problem: String| CustomToolError::new("argv", problem);
        let parsed: Vec<Vec<Piece>> = words
            .iter()
            .map(|word| pieces(word).map_err(|why| refuse(format!("{word:?}: {why}"))))
            .collect::<Result<_, _>>()?;
        match parsed.first().map(Vec::as_slice) {
            Some([Piece::Text(_)]) => Ok(Self(parsed)),
            Some([]) | None => Err(refuse("names no program".to_owned())),
            Some([..]) => {
                Err(refuse("its first word is the program and holds no field: no model chooses what runs".to_owned()))
            }
        }
    }

    /// The fields that it needs.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flatten().filter_map(|piece| match piece {
            Piece::Field(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    pub(super) fn words(&self, input: &Map<String, Value>) -> Result<Vec<String>, CallFault> {
        let mut words = Vec::with_capacity(self.0.len());
        for word in &self.0 {
            if let [Piece::Field(name)] = word.as_slice() {
                match input.get(name) {
                    None | Some(Value::Null) => {}
                    Some(Value::Array(items)) => {
                        for (place, item) in items.iter().enumerate() {
                            let refuse =
                                || invalid(&format!("{name}[{place}]"), "expected a single value: it becomes a word");
                            words.push(scalar(item).ok_or_else(refuse)?);
                        }
                    }
                    Some(value) => {
                        let refuse = || invalid(name, "expected a single value or a list of them: it becomes words");
                        words.push(scalar(value).ok_or_else(refuse)?);
                    }
                }
            } else if let Some(word) = joined(word, input)? {
                words.push(word);
            }
        }
        Ok(words)
    }
}

/// `None` when a field is missing.
fn joined(word: &[Piece], input: &Map<String, Value>) -> Result<Option<String>, CallFault> {
    let mut text = String::new();
    for piece in word {
        match piece {
            Piece::Text(part) => text.push_str(part),
            Piece::Field(name) => match input.get(name) {
                None | Some(Value::Null) => return Ok(None),
                Some(value) => {
                    let refuse = || invalid(name, "expected a single value: it becomes part of a word");
                    text.push_str(&scalar(value).ok_or_else(refuse)?);
                }
            },
        }
    }
    Ok(Some(text))
}

fn pieces(word: &str) -> Result<Vec<Piece>, &'static str> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = word.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '{' if rest.next_if_eq(&'{').is_some() => text.push('{'),
            '}' if rest.next_if_eq(&'}').is_some() => text.push('}'),
            '}' => return Err("a `}` that closes nothing is written `}}`"),
            '{' => {
                let mut name = String::new();
                loop {
                    match rest.next() {
                        Some('}') => break,
                        Some('{') | None => {
                            return Err("`{` begins a field, `{field}`; a brace itself is written `{{`");
                        }
                        Some(part) => name.push(part),
                    }
                }
                if name.is_empty() {
                    return Err("`{}` names no field");
                }
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Field(name));
            }
            other => text.push(other),
        }
    }
    if !text.is_empty() || pieces.is_empty() && !word.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}
