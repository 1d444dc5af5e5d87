//! Which calls share a slot, and the slot's injective name.

use crate::ids::{AgentName, IdError, SessionId, TenantId, UserId, WorkspaceName};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Changing what goes into the hash means another version, never another meaning of this one.
const KEY_VERSION: u8 = 1;
const PREFIX: &str = "s1";
const BASE32_CHARS: usize = 52;

/// Which calls share a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationScope {
    /// One slot per session.
    Session,
    /// One slot per agent and user.
    #[default]
    User,
    /// One slot per agent.
    Agent,
    /// One slot per tenant and workspace.
    Global,
}

impl fmt::Display for IsolationScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::User => "user",
            Self::Agent => "agent",
            Self::Global => "global",
        })
    }
}

/// Who a call is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Owner of everything below.
    pub tenant: TenantId,
    /// The agent's configuration.
    pub agent: AgentName,
    /// The conversation, where the caller named one.
    pub session: Option<SessionId>,
    /// The person, where the caller named one.
    pub user: Option<UserId>,
}

/// What stands at the agent's place in USER and AGENT keys. An agent and a workspace of one name are different keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The agent itself.
    Agent(AgentName),
    /// A workspace that several agents share.
    Workspace(WorkspaceName),
}

/// The readable side of a [`ScopeKey`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "scope", rename_all = "snake_case")]
pub enum ScopeTuple {
    /// (tenant, session)
    Session {
        /// Owner of the slot.
        tenant: TenantId,
        /// The conversation.
        session: SessionId,
    },
    /// (tenant, agent or workspace, user)
    User {
        /// Owner of the slot.
        tenant: TenantId,
        /// Agent or shared workspace.
        owner: Owner,
        /// The person.
        user: UserId,
    },
    /// (tenant, agent or workspace)
    Agent {
        /// Owner of the slot.
        tenant: TenantId,
        /// Agent or shared workspace.
        owner: Owner,
    },
    /// (tenant, workspace)
    Global {
        /// Owner of the slot.
        tenant: TenantId,
        /// The workspace; `default` if the agent names none.
        workspace: WorkspaceName,
    },
}

/// The slot that a call belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotChoice {
    /// A slot that is persisted under this tuple.
    Persisted(ScopeTuple),
    /// The identity that the scope needs is missing: a slot for this batch only, never persisted.
    Ephemeral {
        /// The scope that was asked for.
        wanted: IsolationScope,
    },
}

impl SlotChoice {
    /// Resolves the table of scopes: USER without a user falls back to the SESSION slot, SESSION without a session
    /// to an ephemeral slot.
    #[must_use]
    pub fn resolve(scope: IsolationScope, identity: &Identity, workspace: Option<&WorkspaceName>) -> Self {
        let tenant = identity.tenant.clone();
        let owner =
            || workspace.map_or_else(|| Owner::Agent(identity.agent.clone()), |name| Owner::Workspace(name.clone()));
        let session = |tenant: TenantId| match &identity.session {
            Some(session) => Self::Persisted(ScopeTuple::Session { tenant, session: session.clone() }),
            None => Self::Ephemeral { wanted: scope },
        };
        match scope {
            IsolationScope::Session => session(tenant),
            IsolationScope::User => match &identity.user {
                Some(user) => Self::Persisted(ScopeTuple::User { tenant, owner: owner(), user: user.clone() }),
                None => session(tenant),
            },
            IsolationScope::Agent => Self::Persisted(ScopeTuple::Agent { tenant, owner: owner() }),
            IsolationScope::Global => Self::Persisted(ScopeTuple::Global {
                tenant,
                workspace: workspace.cloned().unwrap_or_else(WorkspaceName::default_workspace),
            }),
        }
    }
}

impl ScopeTuple {
    /// The scope that this tuple belongs to.
    #[must_use]
    pub const fn scope(&self) -> IsolationScope {
        match self {
            Self::Session { .. } => IsolationScope::Session,
            Self::User { .. } => IsolationScope::User,
            Self::Agent { .. } => IsolationScope::Agent,
            Self::Global { .. } => IsolationScope::Global,
        }
    }

    /// Who owns the slot.
    #[must_use]
    pub const fn tenant(&self) -> &TenantId {
        match self {
            Self::Session { tenant, .. }
            | Self::User { tenant, .. }
            | Self::Agent { tenant, .. }
            | Self::Global { tenant, .. } => tenant,
        }
    }

    /// The slot's name.
    #[must_use]
    pub fn key(&self) -> ScopeKey {
        let mut hash = KeyHasher::new(self.scope());
        match self {
            Self::Session { tenant, session } => {
                hash.field(b't', tenant.as_str());
                hash.field(b's', session.as_str());
            }
            Self::User { tenant, owner, user } => {
                hash.field(b't', tenant.as_str());
                hash.owner(owner);
                hash.field(b'u', user.as_str());
            }
            Self::Agent { tenant, owner } => {
                hash.field(b't', tenant.as_str());
                hash.owner(owner);
            }
            Self::Global { tenant, workspace } => {
                hash.field(b't', tenant.as_str());
                hash.field(b'w', workspace.as_str());
            }
        }
        hash.finish()
    }
}

/// Length-prefixed and tagged, so that no two tuples feed the same bytes.
struct KeyHasher(blake3::Hasher);

impl KeyHasher {
    fn new(scope: IsolationScope) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"toolcell scope key");
        let tag = match scope {
            IsolationScope::Session => b's',
            IsolationScope::User => b'u',
            IsolationScope::Agent => b'a',
            IsolationScope::Global => b'g',
        };
        hasher.update(&[KEY_VERSION, tag]);
        Self(hasher)
    }

    fn field(&mut self, tag: u8, text: &str) {
        self.0.update(&[tag]);
        self.0.update(&(text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }

    fn owner(&mut self, owner: &Owner) {
        match owner {
            Owner::Agent(name) => self.field(b'a', name.as_str()),
            Owner::Workspace(name) => self.field(b'w', name.as_str()),
        }
    }

    fn finish(self) -> ScopeKey {
        ScopeKey::from_hash(*self.0.finalize().as_bytes())
    }
}

/// Canonical, injective name of a slot: `s1` and 52 lower-case base32 characters. Safe as a file, container, label
/// and lock name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScopeKey(String);

impl ScopeKey {
    fn from_hash(hash: [u8; 32]) -> Self {
        let text = data_encoding::BASE32_NOPAD.encode(&hash).to_ascii_lowercase();
        Self(format!("{PREFIX}{text}"))
    }

    /// A key that no tuple has, for a slot that lives for one batch.
    ///
    /// # Errors
    /// The operating system's random source failed.
    pub fn ephemeral() -> Result<Self, getrandom::Error> {
        let mut random = [0; 32];
        getrandom::fill(&mut random)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"toolcell ephemeral slot");
        hasher.update(&random);
        Ok(Self::from_hash(*hasher.finalize().as_bytes()))
    }

    /// Accepts exactly the canonical text of a key.
    ///
    /// # Errors
    /// [`IdError::Malformed`].
    pub fn parse(text: impl Into<String>) -> Result<Self, IdError> {
        let text = text.into();
        let canonical = text.strip_prefix(PREFIX).filter(|rest| rest.len() == BASE32_CHARS).is_some_and(|rest| {
            let upper = rest.to_ascii_uppercase();
            rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
                && data_encoding::BASE32_NOPAD.decode(upper.as_bytes()).is_ok()
        });
        if canonical {
            Ok(Self(text))
        } else {
            Err(IdError::Malformed {
                kind: "slot key",
                text: text.chars().take(80).collect(),
                expected: "`s1` and 52 lower-case base32 characters",
            })
        }
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ScopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ScopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ScopeKey {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::parse(text)
    }
}

impl FromStr for ScopeKey {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::parse(text)
    }
}

impl From<ScopeKey> for String {
    fn from(key: ScopeKey) -> String {
        key.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;

    fn identity(session: Option<&str>, user: Option<&str>) -> Identity {
        Identity {
            tenant: TenantId::default_tenant(),
            agent: AgentName::parse("coder").unwrap(),
            session: session.map(|s| SessionId::parse(s).unwrap()),
            user: user.map(|u| UserId::parse(u).unwrap()),
        }
    }

    fn key(scope: IsolationScope, identity: &Identity, workspace: Option<&str>) -> Option<ScopeKey> {
        let workspace = workspace.map(|w| WorkspaceName::parse(w).unwrap());
        match SlotChoice::resolve(scope, identity, workspace.as_ref()) {
            SlotChoice::Persisted(tuple) => Some(tuple.key()),
            SlotChoice::Ephemeral { .. } => None,
        }
    }

    #[test]
    fn the_scope_table() {
        use IsolationScope::{Agent, Global, Session, User};
        let both = identity(Some("s"), Some("u"));
        assert_ne!(key(Session, &both, None), key(User, &both, None));
        assert_eq!(key(User, &identity(Some("s"), None), None), key(Session, &both, None));
        assert_eq!(key(User, &identity(None, None), None), None);
        assert_eq!(key(Session, &identity(None, Some("u")), None), None);
        assert_eq!(key(Agent, &identity(None, None), None), key(Agent, &both, None));
        assert_eq!(key(Global, &both, None), key(Global, &both, Some("default")));
        assert_eq!(key(User, &both, None), key(User, &identity(Some("other"), Some("u")), None));
    }

    #[test]
    fn a_workspace_is_never_the_agent_of_the_same_name() {
        let both = identity(Some("s"), Some("u"));
        for scope in [IsolationScope::User, IsolationScope::Agent] {
            assert_ne!(key(scope, &both, None), key(scope, &both, Some("coder")));
        }
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let tuple = |owner: &str, user: &str| ScopeTuple::User {
            tenant: TenantId::default_tenant(),
            owner: Owner::Agent(AgentName::parse(owner).unwrap()),
            user: UserId::parse(user).unwrap(),
        };
        assert_ne!(tuple("ab", "c").key(), tuple("a", "bc").key());
        assert_ne!(tuple("a:b", "c").key(), tuple("a", "b:c").key());
    }

    #[test]
    fn the_text_is_pinned() {
        let key =
            ScopeTuple::Session { tenant: TenantId::default_tenant(), session: SessionId::parse("conv-1").unwrap() }
                .key();
        assert_eq!(key.as_str(), "s1dfqekrqsz7nr7bjkhv2wq6ad7ud3dxlc3wpyuas2dcalyf2l7twa");
        assert_eq!(ScopeKey::parse(key.as_str()), Ok(key.clone()));
        let upper = key.as_str().to_ascii_uppercase();
        for bad in [upper.as_str(), "s1", "../../../etc", &key.as_str()[..53], &format!("{key}a")] {
            assert!(ScopeKey::parse(bad).is_err(), "{bad}");
        }
    }
}
