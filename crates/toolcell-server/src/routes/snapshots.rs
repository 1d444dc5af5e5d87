//! `/v1/slots/{key}/…`: a slot's history, and what is done with it.

use super::slots::{Who, key, nothing};
use super::{body, page_limit};
use crate::auth::Principal;
use crate::problem::Problem;
use crate::wire;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcell_model::SnapshotId;
use toolcell_runtime::{ArchiveFormat, Runtime, StateError};

/// Most snapshots of a page.
const MAX_PAGE: usize = 200;
/// Pieces of an uploaded archive on their way; a client waits for a slow store.
const ARCHIVE_PIECES: usize = 8;

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
    let limit = page_limit(limit, MAX_PAGE)?;
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

/// Whether a list of codings names zstd and does not refuse it.
fn takes_zstd(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("zstd"));
        let refused = parts.any(|part| part.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0));
        named && !refused
    })
}

pub(super) async fn export(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    query: Result<Query<Which>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Query(Which { snapshot }) = query.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let key = key(text)?;
    let format = if takes_zstd(&headers) { ArchiveFormat::TarZstd } else { ArchiveFormat::Tar };
    let mut pieces = runtime.export(&principal.tenant, &key, snapshot, format).await?;
    // Most of what can go wrong does before the first piece, and is told as a problem.
    let first = match pieces.recv().await {
        Some(first) => Some(first?),
        None => None,
    };
    let rest = stream::unfold(pieces, |mut pieces| async { Some((pieces.recv().await?, pieces)) });
    let body = Body::from_stream(stream::iter(first.map(Ok)).chain(rest));
    let name = format!("attachment; filename=\"{key}.tar\"");
    let mut response =
        ([(header::CONTENT_TYPE, "application/x-tar".to_owned()), (header::CONTENT_DISPOSITION, name)], body)
            .into_response();
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    headers.insert(header::VARY, header::HeaderValue::from_static("accept-encoding"));
    if format == ArchiveFormat::TarZstd {
        headers.insert(header::CONTENT_ENCODING, header::HeaderValue::from_static("zstd"));
    }
    Ok(response)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoQuery {}

pub(super) async fn import(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    query: Result<Query<NoQuery>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let Query(NoQuery {}) = query.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let key = key(text)?;
    // What it is, plain or zstd, is seen from its first bytes.
    if !matches!(
        headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes()),
        None | Some(b"identity" | b"zstd")
    ) {
        let detail = "Content-Encoding: an archive is plain or zstd";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding", detail));
    }
    let (pieces, archive) = mpsc::channel(ARCHIVE_PIECES);
    let importing = runtime.import(&principal.tenant, &key, archive);
    let receiving = async move {
        let mut body = body.into_data_stream();
        while let Some(piece) = body.next().await {
            let broken = piece.is_err();
            let piece = piece.map_err(|error| std::io::Error::other(error.to_string()));
            // Nobody takes it: the import has failed, and says why.
            if pieces.send(piece).await.is_err() || broken {
                return;
            }
        }
    };
    let (imported, ()) = tokio::join!(importing, receiving);
    let snapshot = imported?;
    Ok(Json(json!({ "key": key, "snapshot": snapshot })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zstd_is_used_only_where_it_is_asked_for() {
        let asks = |value: &str| {
            let value = value.parse().unwrap();
            takes_zstd(&[(header::ACCEPT_ENCODING, value)].into_iter().collect())
        };
        assert!(asks("zstd") && asks("gzip, ZSTD;q=0.5"));
        assert!(!asks("gzip") && !asks("zstd;q=0") && !asks("*"));
        assert!(!takes_zstd(&HeaderMap::new()));
    }
}
