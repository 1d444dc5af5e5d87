//! Names of exactly one call: what a permit is valid for.

use crate::describe::DescribedCall;
use crate::path::ContainerPath;
use serde_json::Value;
use std::fmt;

/// Changing what goes into a digest means another version, never another meaning of this one.
const INPUT_DOMAIN: &[u8] = b"toolcell input 1";
const CALL_DOMAIN: &[u8] = b"toolcell call 1";

/// BLAKE3 of a tool's merged input. The order of an object's fields does not count.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct InputDigest([u8; 32]);

impl InputDigest {
    /// Of this input.
    #[must_use]
    pub fn of(input: &Value) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(INPUT_DOMAIN);
        value(&mut hasher, input);
        Self(*hasher.finalize().as_bytes())
    }

    /// Its 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for InputDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

/// BLAKE3 over tenant, agent, session, user, tool, merged input, and each logical path with its real one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallDigest([u8; 32]);

impl CallDigest {
    pub(crate) fn of<'p>(
        call: &DescribedCall<'_>,
        paths: impl Iterator<Item = (&'p ContainerPath, &'p ContainerPath)>,
    ) -> Self {
        let identity = call.identity();
        let mut hasher = blake3::Hasher::new();
        hasher.update(CALL_DOMAIN);
        bytes(&mut hasher, b't', identity.tenant.as_str().as_bytes());
        bytes(&mut hasher, b'a', identity.agent.as_str().as_bytes());
        if let Some(session) = &identity.session {
            bytes(&mut hasher, b's', session.as_str().as_bytes());
        }
        if let Some(user) = &identity.user {
            bytes(&mut hasher, b'u', user.as_str().as_bytes());
        }
        bytes(&mut hasher, b'n', call.tool().name().as_bytes());
        bytes(&mut hasher, b'i', call.tool().input_digest().as_bytes());
        for (logical, real) in paths {
            bytes(&mut hasher, b'l', logical.as_bytes());
            bytes(&mut hasher, b'r', real.as_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Its 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// 64 lower-case hex digits.
impl fmt::Display for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Tagged and length-prefixed, so that no two sequences feed the same bytes.
fn bytes(hasher: &mut blake3::Hasher, tag: u8, data: &[u8]) {
    hasher.update(&[tag]);
    hasher.update(&(data.len() as u64).to_le_bytes());
    hasher.update(data);
}

fn count(hasher: &mut blake3::Hasher, tag: u8, count: usize) {
    hasher.update(&[tag]);
    hasher.update(&(count as u64).to_le_bytes());
}

/// Recursion is as deep as the value, which the JSON parser bounds at 128.
fn value(hasher: &mut blake3::Hasher, input: &Value) {
    match input {
        Value::Null => count(hasher, b'0', 0),
        Value::Bool(truth) => count(hasher, b'b', usize::from(*truth)),
        Value::Number(number) => bytes(hasher, b'n', number.to_string().as_bytes()),
        Value::String(text) => bytes(hasher, b's', text.as_bytes()),
        Value::Array(items) => {
            count(hasher, b'l', items.len());
            items.iter().for_each(|item| value(hasher, item));
        }
        Value::Object(fields) => {
            count(hasher, b'o', fields.len());
            // Sorted here: whether the map is sorted by itself depends on a feature that any crate may turn on.
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            for (name, field) in fields {
                bytes(hasher, b'k', name.as_bytes());
                value(hasher, field);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;

    fn digest(json: &str) -> InputDigest {
        InputDigest::of(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn field_order_and_spaces_do_not_count() {
        assert_eq!(digest(r#"{"a":1,"b":[true,null]}"#), digest(r#"{ "b": [true, null], "a": 1 }"#));
    }

    #[test]
    fn everything_else_does() {
        let different = [
            "{}",
            "[]",
            "null",
            "0",
            "false",
            "true",
            "1",
            "\"\"",
            "\"1\"",
            "[1,2]",
            "[[1],2]",
            "[[1,2]]",
            "[2,1]",
            r#"{"a":1}"#,
            r#"{"a":"1"}"#,
            r#"{"b":1}"#,
            r#"{"a":{"b":1}}"#,
            r#"["a",1]"#,
            r#"{"ab":"c"}"#,
            r#"{"a":"bc"}"#,
        ];
        for (place, one) in different.iter().enumerate() {
            for other in different.iter().skip(place.saturating_add(1)) {
                assert_ne!(digest(one), digest(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn the_digest_is_pinned() {
        assert_eq!(
            format!("{:?}", digest(r#"{"command":"true"}"#)),
            "28ca29d06a93d0e3a406e6a7caf4bbeddb1a5ca17dbda5eb532101e207b1539a"
        );
    }
}
