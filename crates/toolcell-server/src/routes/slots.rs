//! `/v1/slots`: what there is, and what is done with one as a whole.

use super::{body, page_limit};
use crate::auth::Principal;
use crate::problem::Problem;
use crate::wire;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use toolcell_model::{AgentName, IsolationScope, ScopeKey, SessionId, TenantId, UserId};
use toolcell_runtime::{Cursor, Runtime, SlotIdentity};

/// Most slots of a page: for each its head is read.
const MAX_PAGE: usize = 200;

/// Who a slot is for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Who {
    agent: AgentName,
    #[serde(default)]
    scope: Option<IsolationScope>,
    #[serde(default)]
    user: Option<UserId>,
    #[serde(default)]
    session: Option<SessionId>,
}

impl Who {
    pub(super) fn of(self, tenant: TenantId) -> SlotIdentity {
        let Self { agent, scope, user, session } = self;
        SlotIdentity { tenant, agent, scope, user, session }
    }
}

/// A body without fields; none at all will do.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

pub(super) fn nothing(bytes: Result<Bytes, BytesRejection>) -> Result<(), Problem> {
    let bytes = body(bytes)?;
    if !bytes.is_empty() {
        let Nothing {} = wire::parse(&bytes)?;
    }
    Ok(())
}

/// A key that is none names nothing.
pub(super) fn key(text: String) -> Result<ScopeKey, Problem> {
    ScopeKey::parse(text).map_err(|error| Problem::not_found(format!("there is no such slot: {error}")))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    agent: Option<AgentName>,
    scope: Option<IsolationScope>,
    user: Option<UserId>,
    session: Option<SessionId>,
    next: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn list(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(query) = query.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let ListQuery { agent, scope, user, session, next, limit } = query;
    let limit = page_limit(limit, MAX_PAGE)?;
    let Some(agent) = agent else {
        if scope.is_some() || user.is_some() || session.is_some() {
            return Err(Problem::invalid("agent: scope, user and session name a slot only together with an agent"));
        }
        let cursor = next.map(Cursor::from_text);
        let page = runtime.slots(&principal.tenant, cursor.as_ref(), limit).await?;
        let items: Vec<Value> = page.items.iter().map(wire::slots::slot).collect();
        return Ok(Json(json!({ "items": items, "next": page.next.as_ref().map(Cursor::as_str) })));
    };
    let named = Who { agent, scope, user, session }.of(principal.tenant);
    let items: Vec<Value> = runtime.slot_of(&named).await?.iter().map(wire::slots::slot).collect();
    Ok(Json(json!({ "items": items, "next": null })))
}

pub(super) async fn make(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let who: Who = wire::parse(&body(bytes)?)?;
    let slot = runtime.make_slot(&who.of(principal.tenant)).await?;
    Ok((StatusCode::CREATED, Json(wire::slots::slot(&slot))))
}

pub(super) async fn show(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
) -> Result<Json<Value>, Problem> {
    Ok(Json(wire::slots::slot(&runtime.slot(&principal.tenant, &key(text)?).await?)))
}

pub(super) async fn delete(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
) -> Result<Json<Value>, Problem> {
    let key = key(text)?;
    runtime.delete_slot(&principal.tenant, &key).await?;
    Ok(Json(json!({ "key": key, "deleted": true })))
}

pub(super) async fn stop(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    nothing(bytes)?;
    let key = key(text)?;
    runtime.stop_slot(&principal.tenant, &key).await?;
    Ok(Json(wire::slots::slot(&runtime.slot(&principal.tenant, &key).await?)))
}

pub(super) async fn snapshot(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    nothing(bytes)?;
    let key = key(text)?;
    let snapshot = runtime.snapshot_slot(&principal.tenant, &key).await?;
    Ok(Json(json!({ "key": key, "snapshot": snapshot })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ActivityQuery {
    slot: Option<ScopeKey>,
    agent: Option<AgentName>,
    scope: Option<IsolationScope>,
    user: Option<UserId>,
    session: Option<SessionId>,
}

/// For a person who waits: what is being done for a slot in this process, or nothing.
pub(super) async fn activity(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    query: Result<Query<ActivityQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(query) = query.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let ActivityQuery { slot, agent, scope, user, session } = query;
    let activity = match (slot, agent) {
        (Some(slot), None) => {
            runtime.slot(&principal.tenant, &slot).await?;
            runtime.activity(&slot)
        }
        (None, Some(agent)) => runtime.activity_of(&Who { agent, scope, user, session }.of(principal.tenant))?,
        (Some(_), Some(_)) | (None, None) => return Err(Problem::invalid("slot, agent: one of them names the slot")),
    };
    Ok(Json(wire::slots::activity(activity.as_ref())))
}
