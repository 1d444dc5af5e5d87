//! One digest for one JSON value, however it was written.

use serde_json::Value;

/// BLAKE3-256 of a value's canonical text: no white space, object keys sorted by their UTF-8 bytes, strings and
/// numbers as `serde_json` prints them (so that `1` and `1.0` differ).
#[must_use]
pub fn canonical_json_digest(value: &Value) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    feed(&mut hasher, value);
    *hasher.finalize().as_bytes()
}

fn feed(hasher: &mut blake3::Hasher, value: &Value) {
    match value {
        Value::Null => update(hasher, b"null"),
        Value::Bool(true) => update(hasher, b"true"),
        Value::Bool(false) => update(hasher, b"false"),
        Value::Number(number) => update(hasher, number.to_string().as_bytes()),
        Value::String(text) => feed_text(hasher, text),
        Value::Array(items) => {
            let mut separator: &[u8] = b"[";
            for item in items {
                update(hasher, separator);
                feed(hasher, item);
                separator = b",";
            }
            update(hasher, if items.is_empty() { b"[]" } else { b"]" });
        }
        Value::Object(fields) => {
            // The map is sorted by itself only as long as no crate of the build asks for insertion order.
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by(|(a, _), (b, _)| a.as_bytes().cmp(b.as_bytes()));
            let mut separator: &[u8] = b"{";
            for (name, field) in sorted {
                update(hasher, separator);
                feed_text(hasher, name);
                update(hasher, b":");
                feed(hasher, field);
                separator = b",";
            }
            update(hasher, if fields.is_empty() { b"{}" } else { b"}" });
        }
    }
}

/// As `serde_json` prints it: quote, backslash and control characters escaped, everything else as it is.
fn feed_text(hasher: &mut blake3::Hasher, text: &str) {
    update(hasher, Value::from(text).to_string().as_bytes());
}

fn update(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(bytes);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;

    fn of(text: &str) -> [u8; 32] {
        canonical_json_digest(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn the_canonical_text_is_what_is_hashed() {
        let written = r#" { "b" : [ 1 , 2.5, [], {} ], "a\n\u00e9" : null, "B": {"y":true,"x":false} } "#;
        let canonical = r#"{"B":{"x":false,"y":true},"a\né":null,"b":[1,2.5,[],{}]}"#;
        assert_eq!(of(written), *blake3::hash(canonical.as_bytes()).as_bytes());
    }

    #[test]
    fn different_values_differ() {
        let values = [
            "1",
            "1.0",
            "\"1\"",
            "[1]",
            "[[1]]",
            "{\"a\":1}",
            "{\"a\":\"1\"}",
            "null",
            "[]",
            "{}",
            "[\"1,2\"]",
            "[1,2]",
        ];
        for (i, a) in values.iter().enumerate() {
            for b in values.iter().skip(i + 1) {
                assert_ne!(of(a), of(b), "{a} {b}");
            }
        }
    }
}
