//! A rule as configuration writes it.

use super::instant::Instant;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use toolcell_model::UnixMillis;

const KEYS: [&str; 5] = ["rule", "message", "expires", "match", "not_match"];

/// A rule as configuration writes it: its text, or `{ rule, message, expires, match, not_match }`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleSpec {
    /// The rule's text.
    pub rule: String,
    /// For the model, instead of the engine's own words.
    pub message: Option<String>,
    /// From when on the rule matches nothing. Written as RFC 3339 does, such as `2031-01-31T12:00:00Z`, or as a date of
    /// TOML.
    pub expires: Option<UnixMillis>,
    /// `match`: examples that the rule must match. For `execute` each is one command, for the file tools a path, for
    /// other tools the field's text or `name=value,…`; for a rule whose tool is a pattern, `tool(…)` or a tool's name.
    pub matching: Vec<String>,
    /// `not_match`: examples that it must not match.
    pub not_matching: Vec<String>,
}

impl From<&str> for RuleSpec {
    fn from(rule: &str) -> Self {
        Self { rule: rule.to_owned(), ..Self::default() }
    }
}

/// By hand, because an untagged enum's errors name neither the field nor the rule.
impl<'de> Deserialize<'de> for RuleSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct SpecVisitor;

        impl<'de> Visitor<'de> for SpecVisitor {
            type Value = RuleSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rule such as \"write_file\", or { rule = \"write_file\", message = \"…\" }")
            }

            fn visit_str<E>(self, rule: &str) -> Result<RuleSpec, E> {
                Ok(rule.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RuleSpec, A::Error> {
                let mut spec = RuleSpec::default();
                let mut seen = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    let Some(key) = KEYS.into_iter().find(|known| *known == key) else {
                        return Err(A::Error::unknown_field(&key, &KEYS));
                    };
                    if seen.contains(&key) {
                        return Err(A::Error::duplicate_field(key));
                    }
                    seen.push(key);
                    let in_field = |error| A::Error::custom(format_args!("`{key}`: {error}"));
                    match key {
                        "rule" => spec.rule = map.next_value().map_err(in_field)?,
                        "message" => spec.message = map.next_value().map_err(in_field)?,
                        "expires" => {
                            spec.expires = map.next_value::<Option<Instant>>()?.map(|Instant(instant)| instant);
                        }
                        "match" => spec.matching = map.next_value().map_err(in_field)?,
                        _ => spec.not_matching = map.next_value().map_err(in_field)?,
                    }
                }
                if seen.contains(&"rule") { Ok(spec) } else { Err(A::Error::missing_field("rule")) }
            }
        }

        from.deserialize_any(SpecVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_texts_or_tables() {
        let read = |json: &str| serde_json::from_str::<RuleSpec>(json).map_err(|e| e.to_string());
        assert_eq!(read(r#""write_file""#), Ok("write_file".into()));
        let told = RuleSpec { message: Some("no".into()), ..RuleSpec::from("write_file") };
        assert_eq!(read(r#"{"rule":"write_file","message":"no"}"#), Ok(told));
        let all = RuleSpec {
            expires: Some(UnixMillis(1500)),
            matching: vec!["a".into()],
            not_matching: vec!["b".into(), "c".into()],
            ..RuleSpec::from("x(a)")
        };
        let text = r#"{"rule":"x(a)","expires":"1970-01-01T00:00:01.5Z","match":["a"],"not_match":["b","c"]}"#;
        assert_eq!(read(text), Ok(all.clone()));
        // As the TOML reader hands over a date.
        let date =
            text.replace(r#""1970-01-01T00:00:01.5Z""#, r#"{"$__toml_private_datetime":"1970-01-01T00:00:01.5Z"}"#);
        assert_eq!(read(&date), Ok(all));
        for (json, expected) in [
            (r#"{"rule":"x","behavior":"passthrough"}"#, "unknown field `behavior`"),
            (r#"{"rule":"x","rule":"y"}"#, "duplicate field `rule`"),
            (r#"{"message":"x"}"#, "missing field `rule`"),
            (r#"{"rule":7}"#, "`rule`: invalid type"),
            (r#"{"rule":"x","match":"y"}"#, "`match`: invalid type"),
            (r#"{"rule":"x","expires":"tomorrow"}"#, "`expires`: \"tomorrow\" is no instant"),
            (r#"{"rule":"x","expires":7}"#, "an instant for `expires`"),
            (r#"{"rule":"x","expires":{"y":1}}"#, "`expires` is a table"),
            ("7", "expected a rule such as"),
        ] {
            let error = read(json).err().unwrap_or_default();
            assert!(error.contains(expected), "{json}: {error}");
        }
    }
}
