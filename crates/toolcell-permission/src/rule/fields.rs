//! Patterns for fields of an input: `staging-*`, `env=prod,region=eu-*`.

use super::glob::Glob;
use super::verdict::Match;
use crate::describe::Field;

/// A pattern for the fields of an input that a tool shows to rules.
///
/// For a tool with a single field it is one pattern for that field's text. For a tool with named fields it is
/// `name=pattern`, several parted by commas, and all must match. `*` and `?` stand for any characters, `[a-z]` for one;
/// `\` takes away the meaning of the next character, a comma too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPattern {
    single: Glob,
    /// `None`: it is not of the form for named fields.
    named: Option<Vec<(String, Glob)>>,
}

impl FieldPattern {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        super::content::check_ends(text)?;
        Ok(Self { single: Glob::parse(text)?, named: named(text)? })
    }

    /// Whether the fields match. [`Match::Maybe`] if the pattern is not one for this tool: it names a field that the
    /// tool does not show, or none where the fields have names. A field that the input does not have matches nothing.
    #[must_use]
    pub fn matches(&self, fields: &[Field]) -> Match {
        if let [Field { name, value }] = fields
            && name.is_empty()
        {
            return Match::known(value.as_ref().is_some_and(|value| self.single.matches(value.as_bytes())));
        }
        let Some(named) = &self.named else { return Match::Maybe };
        let one = |(name, glob): &(String, Glob)| match fields.iter().find(|field| field.name == *name) {
            Some(Field { value: Some(value), .. }) => Match::known(glob.matches(value.as_bytes())),
            Some(Field { value: None, .. }) => Match::No,
            None => Match::Maybe,
        };
        named.iter().map(one).min().unwrap_or(Match::Maybe)
    }

    /// The fields that it names, so that whoever knows the tool can tell whether it has them. None if it is not of the
    /// form for named fields.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().flatten().map(|(name, _)| name.as_str())
    }

    /// Whether an example fits: the single field's text, or `name=value` of each that the pattern names.
    pub(super) fn matches_example(&self, example: &str) -> bool {
        let named = || {
            let pairs: Option<Vec<(&str, &str)>> = example.split(',').map(|pair| pair.split_once('=')).collect();
            let fields: Vec<Field> = pairs?
                .into_iter()
                .map(|(name, value)| Field { name: name.trim().to_owned(), value: Some(value.to_owned()) })
                .collect();
            self.named.as_ref().map(|_| self.matches(&fields) == Match::Yes)
        };
        self.single.matches(example.as_bytes()) || named().unwrap_or_default()
    }
}

/// Reads `name=pattern,…`.
fn named(text: &str) -> Result<Option<Vec<(String, Glob)>>, &'static str> {
    let mut named: Vec<(String, Glob)> = Vec::new();
    for part in split_at_commas(text) {
        let Some((name, pattern)) = part.split_once('=') else { return Ok(None) };
        let name = name.trim_start();
        if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')) {
            return Ok(None);
        }
        if named.iter().any(|(earlier, _)| earlier == name) {
            return Err("it names a field twice; write the field once, or a rule for each");
        }
        // A comma may stand between brackets, and then the parts are none.
        let Ok(glob) = Glob::parse(pattern) else { return Ok(None) };
        named.push((name.to_owned(), glob));
    }
    Ok(Some(named))
}

fn split_at_commas(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let divides = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        divides
    })
}
