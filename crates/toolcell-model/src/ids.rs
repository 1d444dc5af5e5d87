//! Identifiers that come from outside (byte for byte, never normalised) and those the server makes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Longest identifier in bytes of UTF-8. A longer one is refused with [`IdError::TooLong`].
pub const MAX_ID_BYTES: usize = 256;

/// Why a text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text has no characters.
    #[error("{kind} must not be empty")]
    Empty {
        /// Which identifier was being parsed.
        kind: &'static str,
    },
    /// The text is longer than [`MAX_ID_BYTES`].
    #[error("{kind} has {bytes} bytes; at most {MAX_ID_BYTES} are allowed")]
    TooLong {
        /// Which identifier was being parsed.
        kind: &'static str,
        /// How long the text was.
        bytes: usize,
    },
    /// The text is not of this identifier's form.
    #[error("{kind} {text:?} is malformed: expected {expected}")]
    Malformed {
        /// Which identifier was being parsed.
        kind: &'static str,
        /// The text as given, shortened.
        text: String,
        /// The form in words.
        expected: &'static str,
    },
}

macro_rules! outside_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Accepts any Unicode text of 1 to [`MAX_ID_BYTES`] bytes, byte for byte.
            ///
            /// # Errors
            /// [`IdError::Empty`] or [`IdError::TooLong`].
            pub fn parse(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                if text.is_empty() {
                    return Err(IdError::Empty { kind: $kind });
                }
                if text.len() > MAX_ID_BYTES {
                    return Err(IdError::TooLong { kind: $kind, bytes: text.len() });
                }
                Ok(Self(text))
            }

            /// The identifier as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

outside_id!(
    /// Owner of everything beneath it; a tenant never sees another tenant.
    TenantId, "tenant"
);
outside_id!(
    /// Name of an agent's configuration.
    AgentName, "agent"
);
outside_id!(
    /// A conversation or run, chosen by the caller.
    SessionId, "session"
);
outside_id!(
    /// The person a call is for, chosen by the caller.
    UserId, "user"
);
outside_id!(
    /// A workspace that several agents share on purpose.
    WorkspaceName, "workspace"
);
outside_id!(
    /// Name of a tool.
    ToolName, "tool"
);
outside_id!(
    /// The caller's name for a call: an idempotency key inside (tenant, agent, session, user).
    CallId, "call id"
);

impl TenantId {
    /// The tenant of deployments that have only one.
    #[must_use]
    pub fn default_tenant() -> Self {
        Self("default".to_owned())
    }
}

impl WorkspaceName {
    /// The GLOBAL workspace of agents that name none.
    #[must_use]
    pub fn default_workspace() -> Self {
        Self("default".to_owned())
    }
}

impl CallId {
    /// A fresh id for a call whose caller chose none.
    #[must_use]
    pub fn generate() -> Self {
        Self(format!("auto_{}", uuid::Uuid::now_v7().simple()))
    }
}

macro_rules! made_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// A fresh, time-ordered id.
            #[must_use]
            pub fn generate() -> Self {
                Self(format!(concat!($prefix, "{}"), uuid::Uuid::now_v7().simple()))
            }

            /// Accepts exactly what [`Self::generate`] makes.
            ///
            /// # Errors
            /// [`IdError::Malformed`].
            pub fn parse(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                let ok = text.strip_prefix($prefix).is_some_and(|rest| {
                    rest.len() == 32 && rest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
                });
                if ok {
                    Ok(Self(text))
                } else {
                    Err(IdError::Malformed {
                        kind: $kind,
                        text: text.chars().take(80).collect(),
                        expected: concat!("`", $prefix, "` and 32 lower-case hex digits"),
                    })
                }
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

made_id!(
    /// The server's name for one recorded call; unique everywhere.
    CallRef, "call ref", "call_"
);
made_id!(
    /// The server's name for one request's calls.
    BatchId, "batch", "b_"
);
made_id!(
    /// One data directory's persistent identity: what its containers are labelled with.
    InstanceId, "instance", "i_"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_ids_keep_every_byte_and_have_bounds() {
        let odd = "é\u{202e} /..\n";
        assert_eq!(UserId::parse(odd).map(String::from), Ok(odd.to_owned()));
        assert_eq!(UserId::parse(""), Err(IdError::Empty { kind: "user" }));
        assert!(UserId::parse("x".repeat(MAX_ID_BYTES)).is_ok());
        assert_eq!(
            UserId::parse("x".repeat(MAX_ID_BYTES + 1)),
            Err(IdError::TooLong { kind: "user", bytes: MAX_ID_BYTES + 1 })
        );
    }

    #[test]
    fn made_ids_round_trip_and_refuse_other_text() {
        let made = CallRef::generate();
        assert_eq!(CallRef::parse(made.as_str()), Ok(made.clone()));
        for bad in ["", "call_", "call_../../etc/passwd", "b_0190", &format!("{made}0"), &made.as_str().to_uppercase()]
        {
            assert!(CallRef::parse(bad).is_err(), "{bad}");
        }
        assert_ne!(CallRef::generate(), made);
    }
}
