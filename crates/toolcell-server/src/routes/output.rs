//! `/v1/calls/{call}/output/{stream}`: all bytes of a stream, beyond what the result shows.

use super::calls::find;
use crate::auth::Principal;
use crate::problem::Problem;
use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use toolcell_runtime::{CallRecord, MAX_OUTPUT_PAGE_BYTES, Runtime, Stream};

/// Says how long the whole stream is.
const TOTAL: HeaderName = HeaderName::from_static("toolcell-total-bytes");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RangeQuery {
    #[serde(default)]
    offset: u64,
    limit: Option<u64>,
}

pub(super) async fn show(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path((call, stream)): Path<(String, String)>,
    query: Result<Query<RangeQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(RangeQuery { offset, limit }) = query.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let limit = limit.unwrap_or(MAX_OUTPUT_PAGE_BYTES).min(MAX_OUTPUT_PAGE_BYTES);
    let wanted = match stream.as_str() {
        "stdout" => Stream::Stdout,
        "stderr" => Stream::Stderr,
        _ => return Err(Problem::not_found("a call's streams are stdout and stderr")),
    };
    let record = find(&runtime, &principal, &call).await?;
    let call_ref = record.call_ref.clone();
    let spooled = tokio::task::spawn_blocking(move || runtime.output(&call_ref, wanted, offset, limit)).await;
    let failed = |detail: String| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "output_unreadable", detail);
    let spooled = spooled.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))?;
    let (bytes, total) = match spooled {
        Some(page) => (page.bytes, page.total),
        None => inline(&record, &stream, offset, limit)?,
    };
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (TOTAL, total.to_string()),
    ];
    Ok((headers, bytes).into_response())
}

/// A stream that was not spooled is in the result, all of it.
fn inline(record: &CallRecord, stream: &str, offset: u64, limit: u64) -> Result<(Vec<u8>, u64), Problem> {
    let output = record.output.as_ref().and_then(Value::as_object);
    let field = |suffix: &str| output.and_then(|output| output.get(&format!("{stream}{suffix}")));
    let Some(text) = field("").and_then(Value::as_str) else {
        return Err(Problem::not_found(format!("the call has no {stream}")));
    };
    let whole = if field("_encoding").and_then(Value::as_str) == Some("base64") {
        STANDARD.decode(text).map_err(|error| Problem::invalid(error.to_string()))?
    } else {
        text.as_bytes().to_vec()
    };
    let total = whole.len() as u64;
    if field("_tail").is_some() {
        return Err(Problem::new(StatusCode::GONE, "output_lost", "the full output could not be kept on the server"));
    }
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(whole.len());
    let end = start.saturating_add(usize::try_from(limit).unwrap_or(usize::MAX)).min(whole.len());
    Ok((whole.get(start..end).unwrap_or_default().to_vec(), total))
}
