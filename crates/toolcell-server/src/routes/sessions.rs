//! `/v1/sessions/{session}/permissions`

use super::body;
use crate::auth::Principal;
use crate::problem::Problem;
use crate::wire;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use serde::{Deserialize, Deserializer};
use toolcell_model::{AgentName, SessionId, UserId};
use toolcell_runtime::{Mode, Runtime, SessionChange, SessionKey, SessionPermissions, SessionRules};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Whose {
    agent: AgentName,
    user: Option<UserId>,
}

/// Body of the change. A mode that is null is the agent's.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    #[serde(default, deserialize_with = "present")]
    mode: Option<Option<Mode>>,
    #[serde(default)]
    rules: Option<SessionRules>,
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<Mode>>, D::Error> {
    Option::<Mode>::deserialize(from).map(Some)
}

fn key(
    principal: Principal,
    session: String,
    whose: Result<Query<Whose>, QueryRejection>,
) -> Result<SessionKey, Problem> {
    let Query(Whose { agent, user }) = whose.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let session = SessionId::parse(session).map_err(|error| Problem::invalid(format!("session: {error}")))?;
    Ok(SessionKey { tenant: principal.tenant, agent, session, user })
}

pub(super) async fn show(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(session): Path<String>,
    whose: Result<Query<Whose>, QueryRejection>,
) -> Result<Json<SessionPermissions>, Problem> {
    Ok(Json(runtime.session_permissions(&key(principal, session, whose)?).await?))
}

pub(super) async fn change(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(session): Path<String>,
    whose: Result<Query<Whose>, QueryRejection>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Json<SessionPermissions>, Problem> {
    let bytes = body(bytes)?;
    let Change { mode, rules } = wire::parse(&bytes)?;
    let admin = principal.admin;
    let key = key(principal, session, whose)?;
    Ok(Json(runtime.set_session_permissions(&key, SessionChange { mode, rules }, admin).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_absent_null_or_named() {
        let mode = |body: &str| wire::parse::<Change>(body.as_bytes()).map(|change| change.mode).map_err(|p| p.detail);
        assert_eq!(mode("{}"), Ok(None));
        assert_eq!(mode(r#"{"mode":null}"#), Ok(Some(None)));
        assert_eq!(mode(r#"{"mode":"dont_ask"}"#), Ok(Some(Some(Mode::DontAsk))));
        assert!(mode(r#"{"mode":"yolo"}"#).unwrap_err().starts_with("mode: unknown variant `yolo`"));
        assert!(mode(r#"{"rules":{"alow":[]}}"#).unwrap_err().starts_with("rules.alow: unknown field"));
        assert!(mode(r#"{"rules":{"deny":"x"}}"#).unwrap_err().starts_with("rules.deny: invalid type"));
    }
}
