//! What a person does with slots and their snapshots: look, stop, save, restore, fork, export, import, delete.
//!
//! Whatever writes takes the slot alone: its gate in this process, then its lease, then its head. What another process
//! holds is not touched. **Read first**: [`take`], then [`change`].

mod archive;
mod change;
mod error;
mod facade;
mod history;
mod look;
mod take;

pub use error::{OperateError, SlotFault};
pub use look::{HeadView, HolderView, Residence, SlotView};

use crate::agent::Agent;
use crate::inner::Inner;
use std::sync::Arc;
use toolcell_model::{
    AgentName, Identity, IsolationScope, ScopeKey, ScopeTuple, SessionId, SlotChoice, TenantId, UserId,
};

/// Names a slot by who it is for, as a call does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotIdentity {
    /// Whose slots.
    pub tenant: TenantId,
    /// The agent.
    pub agent: AgentName,
    /// Which calls share it; the agent's own without one.
    pub scope: Option<IsolationScope>,
    /// The person.
    pub user: Option<UserId>,
    /// The conversation.
    pub session: Option<SessionId>,
}

impl Inner {
    fn agent_of(&self, name: &AgentName) -> Result<&Arc<Agent>, OperateError> {
        self.agents.get(name).ok_or_else(|| OperateError::UnknownAgent {
            agent: name.to_string(),
            known: self.agents.keys().map(AgentName::as_str).collect::<Vec<_>>().join(", "),
        })
    }

    /// The slot that a call of this identity would be in.
    pub(crate) fn tuple_of(&self, named: &SlotIdentity) -> Result<ScopeTuple, OperateError> {
        let agent = self.agent_of(&named.agent)?;
        let identity = Identity {
            tenant: named.tenant.clone(),
            agent: named.agent.clone(),
            session: named.session.clone(),
            user: named.user.clone(),
        };
        let scope = named.scope.unwrap_or(agent.scope);
        match SlotChoice::resolve(scope, &identity, agent.workspace.as_ref()) {
            SlotChoice::Persisted(tuple) => Ok(tuple),
            SlotChoice::Ephemeral { wanted } => Err(OperateError::IdentityRequired { scope: wanted }),
        }
    }

    /// Makes a slot known, so that it can be filled before its first call. Starts nothing.
    pub(crate) async fn make_known(&self, tuple: &ScopeTuple) -> Result<ScopeKey, OperateError> {
        let key = tuple.key();
        self.state.touch_slot(&key, tuple, self.clock.now()).await.map_err(OperateError::State)?;
        Ok(key)
    }
}
