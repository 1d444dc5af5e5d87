//! What one session may do beside its agent's configuration.
//!
//! A caller can only make its session tighter, and what it has set never makes a session looser than the agent's
//! configuration is by then; what an admin has set stands as it is. What is kept is read for every call, once, and a
//! call under way keeps what it was decided by.

use crate::agent::Agent;
use crate::inner::Inner;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use toolcell_model::{CallContext, Retry};
use toolcell_permission::{Behavior, Context, Mode, Rule, RuleSet, RuleSource, RuleSpec};
use toolcell_state::{MAX_SESSION_TEXT_BYTES, SessionKey, StateError};

/// How often a change is tried that others get in the way of.
const ATTEMPTS: usize = 8;

/// A session's rules, as configuration writes them: texts, or tables with a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionRules {
    /// Rules that allow.
    pub allow: Vec<Value>,
    /// Rules that ask.
    pub ask: Vec<Value>,
    /// Rules that deny.
    pub deny: Vec<Value>,
}

/// What a session may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionPermissions {
    /// The mode that counts.
    pub mode: Mode,
    /// The agent's.
    pub agent_mode: Mode,
    /// The session's own rules, besides the agent's.
    pub rules: SessionRules,
}

/// A change of it; what is absent stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionChange {
    /// Another mode, or, when it is there and empty, the agent's.
    pub mode: Option<Option<Mode>>,
    /// All of the session's rules.
    pub rules: Option<SessionRules>,
}

/// A session's permissions are not known, or do not change.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No such agent.
    #[error("no agent is named {agent:?}")]
    UnknownAgent {
        /// What was asked for.
        agent: String,
    },
    /// A part of the change makes no sense.
    #[error("{field}: {problem}")]
    Invalid {
        /// Which part.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A caller may not do that.
    #[error("{field}: {problem}")]
    Forbidden {
        /// Which part.
        field: String,
        /// Why not.
        problem: String,
    },
    /// Others change the same session all the time.
    #[error("other requests change this session's permissions at the same time")]
    Contended,
    /// What is kept makes no sense to this version. Nobody guesses what it was meant to forbid.
    #[error("the kept permissions of the session make no sense: {problem}")]
    Unreadable {
        /// What is wrong with them.
        problem: String,
    },
    /// The state store.
    #[error("the permissions of the session cannot be read or written")]
    State(#[source] StateError),
}

impl SessionError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::State(error) => error.retry(),
            Self::Contended => Retry::Later,
            Self::UnknownAgent { .. } | Self::Invalid { .. } | Self::Forbidden { .. } | Self::Unreadable { .. } => {
                Retry::Never
            }
        }
    }
}

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Kept {
    mode: Option<Mode>,
    document: Document,
}

/// The part of it that is JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// The mode is an admin's, and may be looser than the agent's.
    granted: bool,
    rules: SessionRules,
}

impl Kept {
    fn read(kept: Option<&toolcell_state::SessionPermissions>) -> Result<Option<Self>, SessionError> {
        let Some(kept) = kept else { return Ok(None) };
        let unreadable = |problem: String| SessionError::Unreadable { problem };
        let mode = kept.mode.as_deref().map(|name| {
            let found = Mode::ALL.into_iter().find(|mode| mode.as_str() == name);
            found.ok_or_else(|| unreadable(format!("{name:?} is no mode")))
        });
        let document = serde_json::from_str(&kept.rules).map_err(|error| unreadable(error.to_string()))?;
        Ok(Some(Self { mode: mode.transpose()?, document }))
    }

    fn write(&self) -> Result<toolcell_state::SessionPermissions, SessionError> {
        let invalid = |problem: String| SessionError::Invalid { field: "rules".to_owned(), problem };
        let rules = serde_json::to_string(&self.document).map_err(|error| invalid(error.to_string()))?;
        if rules.len() > MAX_SESSION_TEXT_BYTES {
            return Err(invalid(format!("they have {} bytes; at most {MAX_SESSION_TEXT_BYTES} are kept", rules.len())));
        }
        Ok(toolcell_state::SessionPermissions { mode: self.mode.map(|mode| mode.as_str().to_owned()), rules })
    }

    /// The mode that counts. A caller had tightened what the agent's mode was then; where that has become tighter
    /// since, it counts.
    fn mode(&self, agent: Mode) -> Mode {
        match self.mode {
            Some(own) if self.document.granted || is_tighter(own, agent) => own,
            Some(_) | None => agent,
        }
    }

    fn change(&self, agent: &Agent, change: &SessionChange, admin: bool) -> Result<Self, SessionError> {
        let mut next = self.clone();
        if let Some(wanted) = change.mode {
            next.set_mode(agent.context.mode(), wanted, admin)?;
        }
        if let Some(rules) = &change.rules {
            let set = parse(rules)?;
            if let Some(idle) = agent.rule_without_tool(&set) {
                let problem = format!("the rule {:?} names no tool", idle.text());
                return Err(SessionError::Invalid { field: format!("rules.{}", idle.behavior()), problem });
            }
            if !admin {
                only_stricter(&parse(&self.document.rules)?, &set)?;
            }
            next.document.rules = rules.clone();
        }
        Ok(next)
    }

    fn set_mode(&mut self, agent: Mode, wanted: Option<Mode>, admin: bool) -> Result<(), SessionError> {
        let now = self.mode(agent);
        let next = wanted.unwrap_or(agent);
        if admin {
            self.document.granted = wanted.is_some();
        } else if next == now {
            return Ok(());
        } else if !is_tighter(next, now) {
            let problem = format!("a caller may only make the mode stricter, and {next} is not stricter than {now}");
            return Err(SessionError::Forbidden { field: "mode".to_owned(), problem });
        } else if wanted.is_none() {
            self.document.granted = false;
        }
        self.mode = wanted;
        Ok(())
    }
}

/// `bypass > accept_edits > default > dont_ask, explore`, of which the last two cannot be compared.
const fn looseness(mode: Mode) -> u8 {
    match mode {
        Mode::Bypass => 3,
        Mode::AcceptEdits => 2,
        Mode::Default => 1,
        Mode::DontAsk | Mode::Explore => 0,
    }
}

const fn is_tighter(one: Mode, other: Mode) -> bool {
    looseness(one) < looseness(other)
}

/// Nothing is gone, and nothing that allows has come.
fn only_stricter(was: &RuleSet, now: &RuleSet) -> Result<(), SessionError> {
    let has = |set: &RuleSet, rule: &Rule| set.iter().any(|other| other == rule);
    let forbidden = |rule: &Rule, problem: String| {
        Err(SessionError::Forbidden { field: format!("rules.{}", rule.behavior()), problem })
    };
    if let Some(gone) = was.iter().find(|rule| !has(now, rule)) {
        return forbidden(gone, format!("a caller may not remove a rule, and {:?} is missing", gone.text()));
    }
    match now.iter().find(|rule| rule.behavior() == Behavior::Allow && !has(was, rule)) {
        Some(new) => forbidden(new, format!("a caller may not add a rule that allows, such as {:?}", new.text())),
        None => Ok(()),
    }
}

fn parse(rules: &SessionRules) -> Result<RuleSet, SessionError> {
    let lists = [(Behavior::Allow, &rules.allow), (Behavior::Ask, &rules.ask), (Behavior::Deny, &rules.deny)];
    let mut all = Vec::new();
    for (behavior, list) in lists {
        for (place, rule) in list.iter().enumerate() {
            let invalid =
                |problem: String| SessionError::Invalid { field: format!("rules.{behavior}[{place}]"), problem };
            let spec = RuleSpec::deserialize(rule).map_err(|error| invalid(error.to_string()))?;
            let one = std::slice::from_ref(&spec);
            let (allow, ask, deny) = match behavior {
                Behavior::Allow => (one, &[][..], &[][..]),
                Behavior::Ask => (&[][..], one, &[][..]),
                Behavior::Deny => (&[][..], &[][..], one),
            };
            let parsed = RuleSet::parse(RuleSource::Session, allow, ask, deny);
            all.extend(parsed.map_err(|error| invalid(error.to_string()))?);
        }
    }
    Ok(all.into_iter().collect())
}

impl Inner {
    /// What a call is decided by: its agent's permissions, with its session's where it has one.
    pub(crate) async fn permissions(&self, agent: &Agent, context: &CallContext) -> Result<Arc<Context>, SessionError> {
        let Some(session) = &context.session else { return Ok(Arc::clone(&agent.context)) };
        let key = SessionKey {
            tenant: context.tenant.clone(),
            agent: context.agent.clone(),
            session: session.clone(),
            user: context.user.clone(),
        };
        let kept = self.state.session_permissions(&key).await.map_err(SessionError::State)?;
        let Some(kept) = Kept::read(kept.as_ref())? else { return Ok(Arc::clone(&agent.context)) };
        let rules =
            parse(&kept.document.rules).map_err(|error| SessionError::Unreadable { problem: error.to_string() })?;
        Ok(Arc::new(agent.session_context(kept.mode(agent.context.mode()), rules)))
    }

    pub(crate) async fn session_permissions(&self, key: &SessionKey) -> Result<SessionPermissions, SessionError> {
        let agent = self.session_agent(key)?;
        let kept = self.state.session_permissions(key).await.map_err(SessionError::State)?;
        Ok(shown(&agent, &Kept::read(kept.as_ref())?.unwrap_or_default()))
    }

    pub(crate) async fn set_session_permissions(
        &self,
        key: &SessionKey,
        change: SessionChange,
        admin: bool,
    ) -> Result<SessionPermissions, SessionError> {
        let agent = self.session_agent(key)?;
        for _ in 0..ATTEMPTS {
            let was = self.state.session_permissions(key).await.map_err(SessionError::State)?;
            let next = Kept::read(was.as_ref())?.unwrap_or_default().change(&agent, &change, admin)?;
            let now = next.write()?;
            if was.as_ref() == Some(&now) {
                return Ok(shown(&agent, &next));
            }
            let put = self.state.put_session_permissions(key, was.as_ref(), &now).await;
            if put.map_err(SessionError::State)? {
                tracing::info!(
                    agent = key.agent.as_str(),
                    session = key.session.as_str(),
                    mode = now.mode.as_deref(),
                    admin,
                    "a session's permissions have changed"
                );
                return Ok(shown(&agent, &next));
            }
        }
        Err(SessionError::Contended)
    }

    fn session_agent(&self, key: &SessionKey) -> Result<Arc<Agent>, SessionError> {
        let agent = self.agents.get(&key.agent).cloned();
        agent.ok_or_else(|| SessionError::UnknownAgent { agent: key.agent.to_string() })
    }
}

fn shown(agent: &Agent, kept: &Kept) -> SessionPermissions {
    let agent_mode = agent.context.mode();
    SessionPermissions { mode: kept.mode(agent_mode), agent_mode, rules: kept.document.rules.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AgentConfig;
    use serde_json::json;
    use toolcell_model::AgentName;

    fn agent(mode: Mode) -> Arc<Agent> {
        let mut config = AgentConfig::default();
        config.permissions.mode = mode;
        let name = AgentName::parse("coder").unwrap();
        let config = crate::Config { agents: [(name.clone(), config)].into(), ..crate::Config::default() };
        crate::agent::build(&config).unwrap().remove(&name).unwrap()
    }

    fn set_mode(mode: Option<Mode>) -> SessionChange {
        SessionChange { mode: Some(mode), rules: None }
    }

    fn set_rules(rules: Value) -> SessionChange {
        SessionChange { mode: None, rules: Some(serde_json::from_value(rules).unwrap()) }
    }

    #[test]
    fn a_caller_may_stay_or_go_to_a_stricter_mode_and_an_admin_to_any() {
        use Mode::{AcceptEdits, Bypass, Default, DontAsk, Explore};
        let stricter = |mode| match mode {
            Bypass => vec![AcceptEdits, Default, DontAsk, Explore],
            AcceptEdits => vec![Default, DontAsk, Explore],
            Default => vec![DontAsk, Explore],
            DontAsk | Explore => vec![],
        };
        for from in Mode::ALL {
            let agent = agent(from);
            for to in Mode::ALL {
                let by_admin = Kept::default().change(&agent, &set_mode(Some(to)), true).unwrap();
                assert_eq!(by_admin.mode(from), to);
                match Kept::default().change(&agent, &set_mode(Some(to)), false) {
                    Ok(next) => {
                        assert!(next.mode(from) == to && (to == from || stricter(from).contains(&to)), "{from} {to}")
                    }
                    Err(SessionError::Forbidden { field, .. }) => {
                        assert!(field == "mode" && to != from && !stricter(from).contains(&to), "{from} {to}");
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }

    #[test]
    fn back_to_the_agents_mode_is_a_change_like_any_other() {
        let agent = agent(Mode::Bypass);
        let tight = Kept::default().change(&agent, &set_mode(Some(Mode::Default)), false).unwrap();
        assert!(matches!(tight.change(&agent, &set_mode(None), false), Err(SessionError::Forbidden { .. })));
        assert_eq!(tight.change(&agent, &set_mode(None), true).unwrap(), Kept::default());
    }

    #[test]
    fn what_a_caller_has_set_is_never_looser_than_the_agent_and_what_an_admin_has_set_stands() {
        let by_caller = Kept::default().change(&agent(Mode::Bypass), &set_mode(Some(Mode::Default)), false).unwrap();
        assert_eq!(by_caller.mode(Mode::Explore), Mode::Explore);
        assert_eq!(by_caller.mode(Mode::AcceptEdits), Mode::Default);
        let by_admin = Kept::default().change(&agent(Mode::Explore), &set_mode(Some(Mode::Bypass)), true).unwrap();
        assert_eq!(by_admin.mode(Mode::Explore), Mode::Bypass);
        let tightened = by_admin.change(&agent(Mode::Explore), &set_mode(Some(Mode::AcceptEdits)), false).unwrap();
        assert_eq!(tightened.mode(Mode::Explore), Mode::AcceptEdits);
    }

    #[test]
    fn a_caller_may_add_rules_that_ask_or_deny_and_nothing_else() {
        let agent = agent(Mode::Bypass);
        let rules =
            json!({ "allow": ["read_file"], "ask": ["execute"], "deny": [{ "rule": "write_file", "message": "no" }] });
        let kept = Kept::default().change(&agent, &set_rules(rules), true).unwrap();
        for (rules, expected) in [
            (
                json!({ "allow": ["read_file"], "ask": ["execute", "list_files"], "deny": [{ "rule": "write_file", "message": "no" }] }),
                None,
            ),
            (
                json!({ "allow": [{ "rule": "read_file" }], "ask": ["execute"], "deny": [{ "message": "no", "rule": "write_file" }, "execute"] }),
                None,
            ),
            (json!({}), Some("rules.ask: a caller may not remove a rule, and \"execute\" is missing")),
            (
                json!({ "allow": ["read_file"], "ask": ["execute"], "deny": ["write_file"] }),
                Some("rules.deny: a caller may not remove a rule, and \"write_file\" is missing"),
            ),
            (
                json!({ "allow": ["read_file", "*"], "ask": ["execute"], "deny": [{ "rule": "write_file", "message": "no" }] }),
                Some("rules.allow: a caller may not add a rule that allows, such as \"*\""),
            ),
        ] {
            let change = kept.change(&agent, &set_rules(rules.clone()), false);
            assert_eq!(change.as_ref().err().map(ToString::to_string).as_deref(), expected, "{rules}");
            assert!(matches!(change, Ok(_) | Err(SessionError::Forbidden { .. })));
            assert!(kept.change(&agent, &set_rules(rules), true).is_ok());
        }
    }

    #[test]
    fn a_rule_that_makes_no_sense_is_named() {
        let agent = agent(Mode::Default);
        for (rules, expected) in [
            (json!({ "deny": ["execute", "!x"] }), "rules.deny[1]: rule \"!x\": a rule cannot be negated"),
            (json!({ "ask": [7] }), "rules.ask[0]: "),
            (json!({ "allow": [{ "rule": "execute", "mesage": "x" }] }), "rules.allow[0]: unknown field `mesage`"),
            (json!({ "deny": ["exceute"] }), "rules.deny: the rule \"exceute\" names no tool"),
        ] {
            let error = Kept::default().change(&agent, &set_rules(rules), true).unwrap_err();
            assert!(
                matches!(error, SessionError::Invalid { .. }) && error.to_string().starts_with(expected),
                "{error}"
            );
        }
        let many: Vec<String> = (0..10_000).map(|n| format!("execute*{n}")).collect();
        let kept = Kept::default().change(&agent, &set_rules(json!({ "deny": many })), false).unwrap();
        assert!(kept.write().unwrap_err().to_string().starts_with("rules: they have "));
    }

    #[test]
    fn what_is_kept_comes_back_and_what_makes_no_sense_is_not_guessed() {
        let rules = json!({ "deny": ["execute"] });
        let change = SessionChange { mode: Some(Some(Mode::Explore)), ..set_rules(rules) };
        let kept = Kept::default().change(&agent(Mode::Default), &change, false).unwrap();
        assert_eq!(Kept::read(Some(&kept.write().unwrap())).unwrap(), Some(kept.clone()));
        let written = kept.write().unwrap();
        for (mode, rules) in
            [(Some("yolo"), written.rules.as_str()), (None, "{"), (None, "{}"), (None, r#"{"granted":1}"#)]
        {
            let damaged = toolcell_state::SessionPermissions { mode: mode.map(str::to_owned), rules: rules.to_owned() };
            assert!(matches!(Kept::read(Some(&damaged)), Err(SessionError::Unreadable { .. })), "{mode:?} {rules}");
        }
    }
}
