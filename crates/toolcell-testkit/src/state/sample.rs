//! Values to store.

use serde_json::{Value, json};
use toolcell_model::{
    AgentName, BatchId, CallContext, CallId, CallRef, CallState, SessionId, TenantId, TimingMs, ToolName, UnixMillis,
    UserId,
};
use toolcell_state::{FinishedCall, NewBatch, NewCall, canonical_json_digest};

/// Makes batches for one context.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Who they are for.
    pub context: CallContext,
    /// When they arrive.
    pub now: UnixMillis,
}

impl Default for Sample {
    fn default() -> Self {
        Self::of("acme", "coder", Some("conv"), Some("alice"))
    }
}

impl Sample {
    /// For these names.
    pub fn of(tenant: &str, agent: &str, session: Option<&str>, user: Option<&str>) -> Self {
        let context = CallContext {
            tenant: TenantId::parse(tenant).unwrap(),
            agent: AgentName::parse(agent).unwrap(),
            session: session.map(|id| SessionId::parse(id).unwrap()),
            user: user.map(|id| UserId::parse(id).unwrap()),
        };
        Self { context, now: UnixMillis(1000) }
    }

    /// A batch of calls of the tool `execute`, by id and input.
    pub fn batch(&self, calls: &[(&str, Value)]) -> NewBatch {
        let calls = calls.iter().map(|(id, input)| Self::call(id, "execute", input)).collect();
        NewBatch { batch: BatchId::generate(), context: self.context.clone(), calls, now: self.now }
    }

    /// A batch of one call with an input of its own.
    pub fn one(&self, id: &str) -> NewBatch {
        self.batch(&[(id, json!({ "command": id }))])
    }

    /// One call.
    pub fn call(id: &str, tool: &str, input: &Value) -> NewCall {
        NewCall {
            id: CallId::parse(id).unwrap(),
            call_ref: CallRef::generate(),
            tool: ToolName::parse(tool).unwrap(),
            input: input.clone(),
            input_digest: canonical_json_digest(input),
        }
    }

    /// An end in this state.
    pub fn end(state: CallState, finished_at: u64) -> FinishedCall {
        FinishedCall {
            state,
            output: Some(json!({ "ended": state.as_str() })),
            error: None,
            fault: None,
            decision: None,
            slot: None,
            timing: TimingMs::default(),
            finished_at: UnixMillis(finished_at),
        }
    }
}
