//! Names of objects: few shapes, so that none can leave a store's own place.

use serde::{Deserialize, Serialize};
use std::fmt;
use toolcell_model::{FencingToken, IdError, ScopeKey, SnapshotId};

/// Objects of the store itself, and of its slots.
const STORE_OWNER: &str = "store";
const MAX_CLASS_BYTES: usize = 16;
const MAX_LEAF_BYTES: usize = 100;

/// An object's name: `owner/class/leaf`, where the owner is a slot's key or the store itself, the class is 1 to 16
/// lower-case letters, and the leaf is 1 to 100 of `a-z0-9._-` that do not begin with a dot.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectName(String);

/// The beginning of object names: as much of one as is wanted, up to and including the first characters of the leaf.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectPrefix(String);

impl ObjectName {
    /// Accepts exactly the shape of a name.
    ///
    /// # Errors
    /// [`IdError::Malformed`].
    pub fn parse(text: impl Into<String>) -> Result<Self, IdError> {
        let text = text.into();
        let mut parts = text.split('/');
        let ok = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(owner), Some(class), Some(leaf), None) => {
                valid_owner(owner) && valid_class(class) && valid_leaf(leaf)
            }
            _ => false,
        };
        if ok { Ok(Self(text)) } else { Err(malformed(&text)) }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The canary that tells one `id_secret` from another.
    pub(crate) fn canary() -> Self {
        Self(format!("{STORE_OWNER}/meta/canary"))
    }

    /// A pack: the writer's token, so that garbage can be told from a living writer's work, and random bits.
    pub(crate) fn pack(slot: &ScopeKey, token: FencingToken, random: [u8; 16]) -> Self {
        Self(format!("{slot}/packs/{:020}-{}", token.0, data_encoding::HEXLOWER.encode(&random)))
    }

    /// A manifest.
    pub(crate) fn manifest(slot: &ScopeKey, snapshot: SnapshotId) -> Self {
        Self(format!("{slot}/manifests/{}", data_encoding::HEXLOWER.encode(snapshot.as_bytes())))
    }

    /// A pin: `expiring` or `lasting`. A listing shows every expiring one before the first lasting one, so that a fork
    /// that replaces the one by the other is never seen without either.
    pub(crate) fn pin(slot: &ScopeKey, lasting: bool, random: [u8; 16]) -> Self {
        let class = if lasting { "lasting" } else { "expiring" };
        Self(format!("{slot}/pins/{class}-{}", data_encoding::HEXLOWER.encode(&random)))
    }

    /// What a fork's target remembers of its pin in the source: the writer's token and random bits.
    pub(crate) fn fork_note(slot: &ScopeKey, token: FencingToken, random: [u8; 16]) -> Self {
        Self(format!("{slot}/forks/{:020}-{}", token.0, data_encoding::HEXLOWER.encode(&random)))
    }

    /// The slot that it belongs to; none for objects of the store itself.
    pub(crate) fn slot(&self) -> Option<ScopeKey> {
        ScopeKey::parse(self.parts().0).ok()
    }

    /// Whether it is called as packs of slots are.
    pub(crate) fn is_pack(&self) -> bool {
        self.slot().is_some() && self.parts().1 == "packs" && self.token().is_some()
    }

    /// The token in the name of a pack or a fork's note.
    pub(crate) fn token(&self) -> Option<FencingToken> {
        let (digits, random) = self.parts().2.split_once('-')?;
        let shaped = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit()) && !random.is_empty();
        digits.parse().ok().filter(|_| shaped).map(FencingToken)
    }

    /// The snapshot that a manifest's name is about.
    pub(crate) fn snapshot(&self) -> Option<SnapshotId> {
        let (_, class, leaf) = self.parts();
        let bytes = data_encoding::HEXLOWER.decode(leaf.as_bytes()).ok().filter(|_| class == "manifests")?;
        bytes.try_into().ok().map(SnapshotId::from_bytes)
    }

    /// The three parts.
    pub(crate) fn parts(&self) -> (&str, &str, &str) {
        let mut parts = self.0.splitn(3, '/');
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }
}

impl ObjectPrefix {
    /// Everything in the store.
    #[must_use]
    pub fn all() -> Self {
        Self(String::new())
    }

    /// Everything of one class of a slot's objects.
    pub(crate) fn class(slot: &ScopeKey, class: &str) -> Self {
        Self(format!("{slot}/{class}/"))
    }

    /// Everything of a slot.
    #[must_use]
    pub fn slot(slot: &ScopeKey) -> Self {
        Self(format!("{slot}/"))
    }

    /// Accepts what a name can begin with.
    ///
    /// # Errors
    /// [`IdError::Malformed`].
    pub fn parse(text: impl Into<String>) -> Result<Self, IdError> {
        let text = text.into();
        let parts: Vec<&str> = text.split('/').collect();
        let ok = match parts.as_slice() {
            [owner] => owner.len() <= 64 && owner.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
            [owner, class] => valid_owner(owner) && (class.is_empty() || valid_class(class)),
            [owner, class, leaf] => valid_owner(owner) && valid_class(class) && (leaf.is_empty() || valid_leaf(leaf)),
            _ => false,
        };
        if ok { Ok(Self(text)) } else { Err(malformed(&text)) }
    }

    /// The prefix as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn malformed(text: &str) -> IdError {
    IdError::Malformed {
        kind: "object name",
        text: text.chars().take(80).collect(),
        expected: "`<slot or store>/<class>/<leaf>` in lower case",
    }
}

fn valid_owner(owner: &str) -> bool {
    owner == STORE_OWNER || ScopeKey::parse(owner).is_ok()
}

fn valid_class(class: &str) -> bool {
    (1..=MAX_CLASS_BYTES).contains(&class.len()) && class.bytes().all(|b| b.is_ascii_lowercase())
}

fn valid_leaf(leaf: &str) -> bool {
    let char_ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
    (1..=MAX_LEAF_BYTES).contains(&leaf.len()) && !leaf.starts_with('.') && leaf.bytes().all(char_ok)
}

macro_rules! as_text {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }
    };
}

as_text!(ObjectName);
as_text!(ObjectPrefix);

impl TryFrom<String> for ObjectName {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::parse(text)
    }
}

impl From<ObjectName> for String {
    fn from(name: ObjectName) -> String {
        name.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;

    #[test]
    fn names_cannot_leave_their_place() {
        let slot = ScopeKey::ephemeral().unwrap();
        let good = ObjectName::pack(&slot, FencingToken(7), [0xab; 16]);
        assert_eq!(ObjectName::parse(good.as_str()).unwrap(), good);
        assert_eq!(good.parts().0, slot.as_str());
        for bad in [
            "",
            "/",
            "a/b/c",
            "store/meta/..",
            "store/meta/.hidden",
            "store/../canary",
            "/etc/passwd",
            "store/meta/a/b",
            "store/meta/",
            "store//a",
            "store/meta/A",
            "store/meta/a\0",
            &format!("store/meta/{}", "a".repeat(101)),
            &format!("{slot}/packs/../../x"),
            &format!("../{slot}/packs/x"),
        ] {
            assert!(ObjectName::parse(bad).is_err(), "{bad:?}");
        }
        assert!(ObjectName::parse(format!("store/meta/{}", "a".repeat(100))).is_ok());
    }

    #[test]
    fn prefixes_are_beginnings_of_names() {
        let slot = ScopeKey::ephemeral().unwrap();
        for good in ["", "s", "store/", "store/meta/", "store/meta/can", ObjectPrefix::slot(&slot).as_str()] {
            assert!(ObjectPrefix::parse(good).is_ok(), "{good:?}");
        }
        for bad in ["..", "/", "store/../x", "store/meta/..", "x/", "store/meta/a/"] {
            assert!(ObjectPrefix::parse(bad).is_err(), "{bad:?}");
        }
    }
}
