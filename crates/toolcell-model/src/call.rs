//! A tool call, and what became of it.

use crate::ids::{CallId, ToolName};
use crate::scope::{Identity, IsolationScope, ScopeKey};
use crate::token::{Generation, SnapshotId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Who the calls of a batch are for.
pub type CallContext = Identity;

/// One invocation of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The caller's name for it; an idempotency key.
    pub id: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The tool's input, not yet validated.
    pub input: serde_json::Value,
}

/// Where a call stands. Only [`CallState::Asking`], [`CallState::Queued`] and [`CallState::Running`] can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Unknown tool or input that breaks its schema; never decided.
    Invalid,
    /// The permission engine, or a person, refused it.
    Denied,
    /// Waits for a person.
    Asking,
    /// Recorded, not yet started.
    Queued,
    /// The guest may have heard of it.
    Running,
    /// The tool said yes.
    Succeeded,
    /// The tool said no: non-zero exit, file not found.
    Failed,
    /// The tool was stopped at its deadline.
    TimedOut,
    /// The tool was stopped because someone asked.
    Cancelled,
    /// The runtime failed, with a [`RuntimeFault`].
    Error,
}

impl CallState {
    /// Every state, in the order of the contract.
    pub const ALL: [Self; 10] = [
        Self::Invalid,
        Self::Denied,
        Self::Asking,
        Self::Queued,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::TimedOut,
        Self::Cancelled,
        Self::Error,
    ];

    /// The wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Denied => "denied",
            Self::Asking => "asking",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }

    /// The state with this wire name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether nothing can change it any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Asking | Self::Queued | Self::Running => false,
            Self::Invalid
            | Self::Denied
            | Self::Succeeded
            | Self::Failed
            | Self::TimedOut
            | Self::Cancelled
            | Self::Error => true,
        }
    }
}

impl fmt::Display for CallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a tool, or the check of its input, answered instead of an output: a stable code and a message that a model
/// can act on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFault {
    /// Stable, such as `not_found` or `outside_roots`.
    pub code: String,
    /// For the model.
    pub message: String,
}

/// Whether the tool of a failed call had run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ran {
    /// It did not.
    No,
    /// It did, at least in part.
    Yes,
    /// Nobody can know.
    Unknown,
}

/// The runtime's own failure: the problem object of a call in state `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeFault {
    /// Stable, such as `docker_unavailable` or `lease_lost`.
    pub code: String,
    /// One line of what failed.
    pub title: String,
    /// Why, and what to do about it.
    pub detail: String,
    /// Whether the tool had run.
    pub ran: Ran,
    /// When a retry may help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Whether what a call wrote is in a committed snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// It is.
    Yes,
    /// Not yet.
    No,
    /// The store keeps nothing (`"none"`).
    NoStore,
}

impl Serialize for Durable {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Yes => to.serialize_bool(true),
            Self::No => to.serialize_bool(false),
            Self::NoStore => to.serialize_str("none"),
        }
    }
}

impl<'de> Deserialize<'de> for Durable {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(from)? {
            serde_json::Value::Bool(true) => Ok(Self::Yes),
            serde_json::Value::Bool(false) => Ok(Self::No),
            serde_json::Value::String(text) if text == "none" => Ok(Self::NoStore),
            other => Err(serde::de::Error::custom(format_args!("expected true, false or \"none\", got {other}"))),
        }
    }
}

/// The slot a call ran in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotReport {
    /// The slot's name.
    pub key: ScopeKey,
    /// Which calls share it.
    pub scope: IsolationScope,
    /// Removed when the batch ends, never persisted.
    pub ephemeral: bool,
    /// The head's generation that the holder wrote last.
    pub generation: Generation,
    /// The snapshot that this residency was restored from, on the first call after it.
    pub restored_from: Option<SnapshotId>,
    /// The newest committed snapshot that contains this call.
    pub snapshot: Option<SnapshotId>,
    /// Whether what the call wrote is in a committed snapshot.
    pub durable: Durable,
}

/// Where the time went, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TimingMs {
    /// From arrival to result.
    pub total: f64,
    /// In the permission engine.
    pub decide: f64,
    /// Queueing, lease, container and restore.
    pub acquire: f64,
    /// In the guest.
    pub run: f64,
}

/// The end of a call, or where it rests.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOutcome {
    /// Where the call stands.
    pub state: CallState,
    /// The tool's output.
    pub output: Option<serde_json::Value>,
    /// The tool's or the validation's answer.
    pub error: Option<CallFault>,
    /// The runtime's failure.
    pub fault: Option<RuntimeFault>,
}
