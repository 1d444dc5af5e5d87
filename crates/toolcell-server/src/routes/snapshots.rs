//! `/v1/slots/{key}/…`: a slot's history, and what is done with it.

use super::body;
use super::slots::{Who, key, nothing};
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
use toolcell_model::SnapshotId;
use toolcell_runtime::{Runtime, StateError};

/// Snapshots of a page when the request names no limit.
const DEFAULT_PAGE: usize = 50;
/// Most snapshots of a page.
const MAX_PAGE: usize = 200;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    next: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn history(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(HistoryQuery { next, limit }) = query.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let limit = limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Problem::invalid(format!("limit: {limit} is not between 1 and {MAX_PAGE}")));
    }
    let history = runtime.history(&principal.tenant, &key(text)?).await?;
    let newest = history.first().map(|info| info.snapshot);
    // A page begins after a snapshot that may be gone by now.
    let begin = match next {
        None => 0,
        Some(last) => {
            let last = SnapshotId::parse(&last).map_err(|_| Problem::from(StateError::BadCursor))?;
            let place = history.iter().position(|info| info.snapshot == last);
            place.ok_or_else(|| Problem::from(StateError::BadCursor))?.saturating_add(1)
        }
    };
    let rest = history.get(begin..).unwrap_or_default();
    let page = rest.get(..limit.min(rest.len())).unwrap_or_default();
    let items: Vec<Value> = page.iter().map(|info| wire::snapshots::snapshot(info, newest)).collect();
    let next = page.last().filter(|_| page.len() < rest.len()).map(|info| info.snapshot);
    Ok(Json(json!({ "items": items, "next": next })))
}

/// Which snapshot; the newest one if it is not said.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    #[serde(default)]
    snapshot: Option<SnapshotId>,
}

/// A body of which every field may be left out; none at all will do.
fn which(bytes: Result<Bytes, BytesRejection>) -> Result<Which, Problem> {
    let bytes = body(bytes)?;
    if bytes.is_empty() { Ok(Which::default()) } else { wire::parse(&bytes) }
}

pub(super) async fn verify(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    let Which { snapshot } = which(bytes)?;
    Ok(Json(wire::snapshots::verified(&runtime.verify(&principal.tenant, &key(text)?, snapshot).await?)))
}

pub(super) async fn gc(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    nothing(bytes)?;
    Ok(Json(wire::snapshots::collected(&runtime.gc(&principal.tenant, &key(text)?).await?)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Restore {
    snapshot: SnapshotId,
}

pub(super) async fn restore(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    let Restore { snapshot } = wire::parse(&body(bytes)?)?;
    let key = key(text)?;
    let newest = runtime.restore(&principal.tenant, &key, snapshot).await?;
    Ok(Json(json!({ "key": key, "restored": snapshot, "snapshot": newest })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fork {
    to: Who,
    #[serde(default)]
    snapshot: Option<SnapshotId>,
}

pub(super) async fn fork(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let Fork { to, snapshot } = wire::parse(&body(bytes)?)?;
    let tenant = principal.tenant;
    let (target, newest) = runtime.fork(&tenant, &key(text)?, snapshot, &to.of(tenant.clone())).await?;
    Ok((StatusCode::CREATED, Json(json!({ "key": target, "snapshot": newest }))))
}
