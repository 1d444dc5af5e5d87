//! Reading a tool's input field by field, with errors that a model can act on.

use crate::fault::FaultCode;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use toolcell_model::CallFault;
use toolcell_permission::ContainerPath;

/// Most characters of a wrong value that an error repeats.
const SHOWN_CHARS: usize = 40;

/// The fields of one input, none of them unknown.
pub(crate) struct Fields<'a>(&'a Map<String, Value>);

/// The fault of one field: `input.timeout_ms: …`.
pub(crate) fn invalid(field: &str, problem: impl std::fmt::Display) -> CallFault {
    FaultCode::InvalidInput.with(format!("input.{field}: {problem}"))
}

impl<'a> Fields<'a> {
    pub(crate) fn of(tool: &str, input: &'a Value, known: &[&str]) -> Result<Self, CallFault> {
        let Value::Object(map) = input else {
            return Err(FaultCode::InvalidInput.with(format!("input: expected an object, got {}", shown(input))));
        };
        if let Some(unknown) = map.keys().find(|name| !known.contains(&name.as_str())) {
            let hint = nearest(unknown, known.iter().copied()).map(|name| format!("; did you mean `{name}`?"));
            let problem = format!(
                "`{tool}` has no such field{} Its fields are {}",
                hint.unwrap_or_else(|| ".".to_owned()),
                known.join(", ")
            );
            return Err(invalid(&shorten(unknown), problem));
        }
        Ok(Self(map))
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, CallFault> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(expected(name, "a string", other)),
        }
    }

    pub(crate) fn required_text(&self, name: &str) -> Result<&'a str, CallFault> {
        self.text(name)?.ok_or_else(|| invalid(name, "is required"))
    }

    /// A text of at most `max` bytes.
    pub(crate) fn bounded_text(&self, name: &str, max: usize) -> Result<Option<&'a str>, CallFault> {
        match self.text(name)? {
            Some(text) if text.len() > max => {
                Err(invalid(name, format_args!("has {} bytes; at most {max} are allowed", text.len())))
            }
            text => Ok(text),
        }
    }

    /// An absolute path, or one relative to the workspace.
    pub(crate) fn path(&self, name: &str) -> Result<Option<ContainerPath>, CallFault> {
        let resolve = |text| ContainerPath::workspace().resolve(text).map_err(|error| invalid(name, error));
        self.text(name)?.map(resolve).transpose()
    }

    pub(crate) fn required_path(&self, name: &str) -> Result<ContainerPath, CallFault> {
        self.path(name)?.ok_or_else(|| invalid(name, "is required"))
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, CallFault> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::Bool(truth)) => Ok(Some(*truth)),
            Some(other) => Err(expected(name, "true or false", other)),
        }
    }

    pub(crate) fn integer(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, CallFault> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        match value.as_u64().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let wanted = format!("an integer between {} and {}", range.start(), range.end());
                Err(expected(name, &wanted, value))
            }
        }
    }

    pub(crate) fn one_of<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>, CallFault> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let chosen = value.as_str().and_then(|text| choices.iter().find(|(choice, _)| *choice == text));
        match chosen {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => {
                let names: Vec<String> = choices.iter().map(|(choice, _)| format!("\"{choice}\"")).collect();
                Err(expected(name, &names.join(" or "), value))
            }
        }
    }

    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<&'a str>>, CallFault> {
        let items = match self.0.get(name) {
            None => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(expected(name, "a list of strings", other)),
        };
        let item = |(place, item): (usize, &'a Value)| match item {
            Value::String(text) => Ok(text.as_str()),
            other => Err(expected(&format!("{name}[{place}]"), "a string", other)),
        };
        items.iter().enumerate().map(item).collect::<Result<_, _>>().map(Some)
    }

    pub(crate) fn text_map(&self, name: &str) -> Result<BTreeMap<&'a str, &'a str>, CallFault> {
        let entries = match self.0.get(name) {
            None => return Ok(BTreeMap::new()),
            Some(Value::Object(entries)) => entries,
            Some(other) => return Err(expected(name, "an object of strings", other)),
        };
        let entry = |(key, value): (&'a String, &'a Value)| match value {
            Value::String(text) => Ok((key.as_str(), text.as_str())),
            other => Err(expected(&format!("{name}.{}", shorten(key)), "a string", other)),
        };
        entries.iter().map(entry).collect()
    }
}

fn expected(field: &str, wanted: &str, got: &Value) -> CallFault {
    invalid(field, format_args!("expected {wanted}, got {}", shown(got)))
}

/// A scalar as JSON, shortened; of lists and objects only what they are.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => Value::String(shorten(text)).to_string(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

pub(crate) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The name that was probably meant: at most a third of it differs.
pub(crate) fn nearest<'n>(given: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let given: Vec<char> = given.chars().take(SHOWN_CHARS).collect();
    names
        .map(|name| (distance(&given, name), name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Levenshtein's distance, one row at a time.
fn distance(given: &[char], name: &str) -> usize {
    let mut row: Vec<usize> = (0..=given.len()).collect();
    for (line, wanted) in name.chars().enumerate() {
        let mut left = line + 1;
        let mut above_left = line;
        for (cell, have) in row.iter_mut().skip(1).zip(given) {
            let changed = above_left + usize::from(*have != wanted);
            above_left = *cell;
            left = changed.min(above_left + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or(name.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message<T>(result: Result<T, CallFault>) -> String {
        result.err().map(|fault| format!("{} {}", fault.code, fault.message)).unwrap_or_default()
    }

    #[test]
    fn wrong_types_name_the_field_and_what_was_wanted() {
        let input = json!({"n": "x", "t": 7, "b": "true", "l": ["a", null], "m": {"K": 1}, "c": "z", "p": "a\u{0}"});
        let Ok(fields) = Fields::of("tool", &input, &["n", "t", "b", "l", "m", "c", "p"]) else { panic!("known") };
        for (got, wanted) in [
            (message(fields.integer("n", 1..=9)), "input.n: expected an integer between 1 and 9, got \"x\""),
            (message(fields.integer("t", 1..=6)), "input.t: expected an integer between 1 and 6, got 7"),
            (message(fields.text("t")), "input.t: expected a string, got 7"),
            (message(fields.required_text("absent")), "input.absent: is required"),
            (message(fields.bounded_text("n", 0)), "input.n: has 1 bytes; at most 0 are allowed"),
            (message(fields.boolean("b")), "input.b: expected true or false, got \"true\""),
            (message(fields.texts("l")), "input.l[1]: expected a string, got null"),
            (
                message(fields.texts("m")),
                "input.l: expected a list of strings, got an object".replace("input.l", "input.m").as_str(),
            ),
            (message(fields.text_map("m")), "input.m.K: expected a string, got 1"),
            (message(fields.text_map("l")), "input.l: expected an object of strings, got a list"),
            (message(fields.one_of("c", &[("x", 1), ("y", 2)])), "input.c: expected \"x\" or \"y\", got \"z\""),
            (message(fields.path("p")), "input.p: the path contains a NUL byte"),
        ] {
            assert_eq!(got, format!("invalid_input {wanted}"));
        }
    }

    #[test]
    fn unknown_fields_name_the_nearest_known_one() {
        let known = ["command", "argv", "cwd", "timeout_ms"];
        let of = |input: Value| message(Fields::of("execute", &input, &known));
        assert_eq!(
            of(json!({"comand": "x"})),
            "invalid_input input.comand: `execute` has no such field; did you mean `command`? Its fields are command, argv, cwd, timeout_ms"
        );
        assert!(of(json!({"timeout": 1})).contains("did you mean `timeout_ms`?"));
        assert!(of(json!({"zzz": 1})).contains("no such field. Its fields are"));
        assert_eq!(of(json!("ls")), "invalid_input input: expected an object, got \"ls\"");
        assert_eq!(of(json!(["ls"])), "invalid_input input: expected an object, got a list");
        let long = "x".repeat(10_000);
        assert!(of(json!({ long: 1 })).len() < 200);
    }

    #[test]
    fn distances() {
        let between = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), b);
        for (a, b, steps) in
            [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("argv", "argv", 0)]
        {
            assert_eq!(between(a, b), steps, "{a} {b}");
        }
    }
}
