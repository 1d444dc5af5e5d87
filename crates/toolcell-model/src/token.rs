//! Numbers and random names that fence writes.

use crate::ids::IdError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The exclusive right to a slot, as a number that only grows per slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(pub u64);

impl FencingToken {
    /// The smallest token above both this one and `floor`; `None` when the numbers are used up.
    #[must_use]
    pub fn next_above(self, floor: FencingToken) -> Option<FencingToken> {
        self.0.max(floor.0).checked_add(1).map(FencingToken)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How often a slot's head has been written; grows by one with each stamp or commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation after this one; `None` when the numbers are used up.
    #[must_use]
    pub fn next(self) -> Option<Generation> {
        self.0.checked_add(1).map(Generation)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! random_128 {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; 16]);

        impl $name {
            /// 128 fresh random bits.
            ///
            /// # Errors
            /// The operating system's random source failed.
            pub fn generate() -> Result<Self, getrandom::Error> {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes)?;
                Ok(Self(bytes))
            }

            /// From its 16 bytes.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// Its 16 bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// Accepts the prefix and 32 lower-case hex digits.
            ///
            /// # Errors
            /// [`IdError::Malformed`].
            pub fn parse(text: &str) -> Result<Self, IdError> {
                text.strip_prefix($prefix)
                    .and_then(|hex| data_encoding::HEXLOWER.decode(hex.as_bytes()).ok())
                    .and_then(|bytes| <[u8; 16]>::try_from(bytes).ok())
                    .map(Self)
                    .ok_or_else(|| IdError::Malformed {
                        kind: $kind,
                        text: text.chars().take(80).collect(),
                        expected: concat!("`", $prefix, "` and 32 lower-case hex digits"),
                    })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), data_encoding::HEXLOWER.encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }
    };
}

random_128!(
    /// One holder's one acquisition of a slot: two acquisitions never share it, whatever the lease store lost.
    Acquisition, "acquisition", "acq_"
);
random_128!(
    /// One attempt to replace a head: how a lost response is told from a write that never happened.
    CommitId, "commit", "com_"
);
random_128!(
    /// One snapshot.
    SnapshotId, "snapshot", "snap_"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_grow_above_both_sides_and_end_loudly() {
        assert_eq!(FencingToken(3).next_above(FencingToken(7)), Some(FencingToken(8)));
        assert_eq!(FencingToken(9).next_above(FencingToken(7)), Some(FencingToken(10)));
        assert_eq!(FencingToken(u64::MAX).next_above(FencingToken(0)), None);
    }

    #[test]
    fn random_names_round_trip() -> Result<(), Box<dyn std::error::Error>> {
        let made = SnapshotId::generate()?;
        assert_eq!(SnapshotId::parse(&made.to_string())?, made);
        assert!(SnapshotId::parse(&made.to_string().to_uppercase()).is_err());
        assert!(Acquisition::parse(&made.to_string()).is_err());
        Ok(())
    }
}
