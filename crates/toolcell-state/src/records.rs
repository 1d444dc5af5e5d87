//! What is stored, as values.

use crate::owner::OwnerId;
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use toolcell_model::{
    Acquisition, BatchId, CallContext, CallFault, CallId, CallRef, CallState, FencingToken, Generation, RuntimeFault,
    ScopeKey, ScopeTuple, SessionId, SlotReport, TenantId, TimingMs, ToolName, UnixMillis, UserId,
};

/// One request's calls, before any of them is known to be new.
#[derive(Debug, Clone, PartialEq)]
pub struct NewBatch {
    /// The batch's fresh name.
    pub batch: BatchId,
    /// Who all its calls are for.
    pub context: CallContext,
    /// In the order of the request.
    pub calls: Vec<NewCall>,
    /// When the request arrived.
    pub now: UnixMillis,
}

/// One call of a [`NewBatch`].
#[derive(Debug, Clone, PartialEq)]
pub struct NewCall {
    /// The caller's name for it, unique within (tenant, agent, session, user).
    pub id: CallId,
    /// The name under which it is recorded if it is new.
    pub call_ref: CallRef,
    /// The tool.
    pub tool: ToolName,
    /// The input as the caller gave it.
    pub input: Value,
    /// [`crate::canonical_json_digest`] of the input.
    pub input_digest: [u8; 32],
}

/// What became of one call of a recorded batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Recorded {
    /// It is new, and now queued under its [`NewCall::call_ref`].
    Fresh,
    /// The same call was recorded before; nothing was written.
    Existing(Box<CallRecord>),
}

/// One call, as far as it got.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    /// The server's name for it.
    pub call_ref: CallRef,
    /// The batch that recorded it first.
    pub batch: BatchId,
    /// Who it is for.
    pub context: CallContext,
    /// The caller's name for it.
    pub id: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The input as the caller gave it.
    pub input: Value,
    /// [`crate::canonical_json_digest`] of the input.
    pub input_digest: [u8; 32],
    /// Where it stands.
    pub state: CallState,
    /// The process that recorded it, claimed it or took it over last.
    pub owner: OwnerId,
    /// The fencing token it was started under.
    pub token: Option<FencingToken>,
    /// The permission engine's decision.
    pub decision: Option<Value>,
    /// The tool's output.
    pub output: Option<Value>,
    /// The tool's or the validation's answer.
    pub error: Option<CallFault>,
    /// The runtime's failure.
    pub fault: Option<RuntimeFault>,
    /// The slot it ran in.
    pub slot: Option<SlotReport>,
    /// Where the time went; known once it has ended.
    pub timing: Option<TimingMs>,
    /// When it was recorded.
    pub created_at: UnixMillis,
    /// When it was claimed.
    pub started_at: Option<UnixMillis>,
    /// When it ended.
    pub finished_at: Option<UnixMillis>,
}

/// A change between states that can still change. Starting and ending a call have methods of their own.
#[derive(Debug, Clone, PartialEq)]
pub enum CallUpdate {
    /// To [`CallState::Asking`]: it waits for a person.
    Ask {
        /// Why, as far as the permission engine says.
        decision: Option<Value>,
    },
    /// To [`CallState::Queued`]: a person allowed it, or it provably never started.
    Requeue,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedCall {
    /// A final state.
    pub state: CallState,
    /// The tool's output.
    pub output: Option<Value>,
    /// The tool's or the validation's answer.
    pub error: Option<CallFault>,
    /// The runtime's failure.
    pub fault: Option<RuntimeFault>,
    /// The decision; `None` keeps the one recorded when it asked.
    pub decision: Option<Value>,
    /// The slot it ran in.
    pub slot: Option<SlotReport>,
    /// Where the time went.
    pub timing: TimingMs,
    /// When it ended.
    pub finished_at: UnixMillis,
}

/// Which calls to list. Everything that is given must match; what is not given matches all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFilter {
    /// Whose calls.
    pub tenant: TenantId,
    /// Of this agent.
    pub agent: Option<toolcell_model::AgentName>,
    /// Of this session.
    pub session: Option<SessionId>,
    /// For this user.
    pub user: Option<UserId>,
    /// With this caller's id.
    pub id: Option<CallId>,
    /// In this state.
    pub state: Option<CallState>,
}

impl CallFilter {
    /// All calls of a tenant.
    #[must_use]
    pub const fn of(tenant: TenantId) -> Self {
        Self { tenant, agent: None, session: None, user: None, id: None, state: None }
    }
}

/// A batch with its calls.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchRecord {
    /// Its name.
    pub batch: BatchId,
    /// Who its calls are for.
    pub context: CallContext,
    /// When it was recorded.
    pub created_at: UnixMillis,
    /// Its calls in the order of the request, those among them that an earlier batch recorded included. A call whose
    /// record has expired is left out.
    pub calls: Vec<CallRecord>,
}

/// Whose permissions are kept: one conversation of an agent, for one user where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// Owner of everything below.
    pub tenant: TenantId,
    /// The agent.
    pub agent: toolcell_model::AgentName,
    /// The conversation.
    pub session: SessionId,
    /// The person; an absent one is distinct from every present one.
    pub user: Option<UserId>,
}

/// What one session may do beside its agent's configuration, in the words of whoever decides. Texts of at most
/// [`crate::MAX_SESSION_TEXT_BYTES`] each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPermissions {
    /// The name of a mode; the agent's counts without one.
    pub mode: Option<String>,
    /// Rules, as JSON text.
    pub rules: String,
}

/// Part of a listing.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page starts; `None` after the last one.
    pub next: Option<Cursor>,
}

/// Where a page starts: opaque text that a listing gave out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(String);

impl Cursor {
    /// Whatever a client sent back; a listing refuses what it did not give out.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text to give to a client.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which container a slot's newest holder bound to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The slot.
    pub slot: ScopeKey,
    /// The container's id.
    pub container: String,
    /// The token of the holder.
    pub token: FencingToken,
    /// The holder's acquisition.
    pub acquisition: Acquisition,
    /// Names what the container was made from.
    pub spec_hash: String,
    /// The image it runs.
    pub image_digest: String,
    /// Where the secret is kept that its guest knows the host by.
    pub secret_path: PathBuf,
    /// When it was bound.
    pub started_at: UnixMillis,
    /// Whether its workspace is complete; until then the container is good for nothing.
    pub restored: bool,
}

/// A slot that has been used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRecord {
    /// Its name.
    pub key: ScopeKey,
    /// What the name stands for.
    pub tuple: ScopeTuple,
    /// When it was first touched.
    pub created_at: UnixMillis,
    /// When it was last touched.
    pub last_used_at: UnixMillis,
    /// The highest generation of its head that was noted.
    pub highest_generation: Option<Generation>,
}
