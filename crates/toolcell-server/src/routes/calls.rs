//! `/v1/calls`

use super::{body, page_limit};
use crate::auth::Principal;
use crate::problem::Problem;
use crate::wire::{self, CallsRequest, Wait};
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use toolcell_model::{AgentName, CallId, CallRef, CallState, SessionId, ToolCall, UserId};
use toolcell_runtime::{BatchRequest, CallFilter, CallRecord, Cursor, Runtime};

/// Most items of a page.
const MAX_PAGE: usize = 500;

/// A request's calls with their ids.
pub(super) fn tool_calls(calls: Vec<wire::Call>) -> Result<Vec<ToolCall>, Problem> {
    let parse = |(place, call): (usize, wire::Call)| {
        call.into_tool_call().map_err(|error| Problem::invalid(format!("calls[{place}].tool: {error}")))
    };
    calls.into_iter().enumerate().map(parse).collect()
}

pub(super) async fn submit(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let bytes = body(bytes)?;
    let CallsRequest { context, calls, wait } = wire::parse(&bytes)?;
    let request =
        BatchRequest { context: context.of(principal.tenant), calls: tool_calls(calls)?, operator: false, live: None };
    let batch = runtime.submit(request).await?;
    let id = batch.id.clone();
    let (status, limit) = match wait {
        Wait::Result => (StatusCode::OK, Duration::from_millis(runtime.config().limits.wait_ms)),
        Wait::None => (StatusCode::ACCEPTED, Duration::ZERO),
    };
    let records = batch.wait(limit).await?;
    Ok((status, Json(wire::batch(&id, &records))).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    agent: Option<AgentName>,
    session: Option<SessionId>,
    user: Option<UserId>,
    id: Option<CallId>,
    state: Option<CallState>,
    next: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn list(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(query) = query.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let ListQuery { agent, session, user, id, state, next, limit } = query;
    let limit = page_limit(limit, MAX_PAGE)?;
    let filter = CallFilter { tenant: principal.tenant, agent, session, user, id, state };
    let cursor = next.map(Cursor::from_text);
    let page = runtime.calls(&filter, cursor.as_ref(), limit).await?;
    let items: Vec<Value> = page.items.iter().map(wire::listed).collect();
    Ok(Json(json!({ "items": items, "next": page.next.as_ref().map(Cursor::as_str) })))
}

/// The caller's own call of this name.
pub(super) async fn find(runtime: &Runtime, principal: &Principal, call: &str) -> Result<CallRecord, Problem> {
    let missing = || Problem::not_found("there is no call of this ref");
    let call = CallRef::parse(call).map_err(|_| missing())?;
    let record = runtime.call(&call).await?;
    record.filter(|record| record.context.tenant == principal.tenant).ok_or_else(missing)
}

pub(super) async fn show(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(call): Path<String>,
) -> Result<Json<Value>, Problem> {
    Ok(Json(wire::listed(&find(&runtime, &principal, &call).await?)))
}

pub(super) async fn cancel(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(call): Path<String>,
) -> Result<Response, Problem> {
    let record = find(&runtime, &principal, &call).await?;
    let status = if runtime.cancel(&record.call_ref) { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(wire::listed(&record))).into_response())
}
