//! One file per resource.

mod batches;
mod calls;
mod health;
mod operator;
mod output;
mod permissions;
mod sessions;
mod slots;
mod snapshots;

use crate::auth::{Gate, check};
use crate::problem::Problem;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware;
use axum::routing::{get, post};
use std::time::Duration;
use toolcell_runtime::Runtime;
use tower_http::timeout::RequestBodyTimeoutLayer;

/// How long a body may pause before its next piece.
const BODY_PAUSE: Duration = Duration::from_secs(30);

/// All routes, behind this gate.
pub(crate) fn router(runtime: Runtime, gate: Gate) -> Router {
    let body_bytes = usize::try_from(runtime.config().limits.body.bytes()).unwrap_or(usize::MAX);
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/v1/calls", post(calls::submit).get(calls::list))
        .route("/v1/calls/{call}", get(calls::show))
        .route("/v1/calls/{call}/output/{stream}", get(output::show))
        .route("/v1/calls/{call}/cancel", post(calls::cancel))
        .route("/v1/batches/{batch}", get(batches::show))
        .route("/v1/sessions/{session}/permissions", get(sessions::show).put(sessions::change))
        .route("/v1/permissions/explain", post(permissions::explain))
        .route("/v1/activity", get(slots::activity))
        .route("/v1/slots", get(slots::list).post(slots::make))
        .route("/v1/slots/{key}", get(slots::show).delete(slots::delete))
        .route("/v1/slots/{key}/snapshot", post(slots::snapshot))
        .route("/v1/slots/{key}/stop", post(slots::stop))
        .route("/v1/slots/{key}/gc", post(snapshots::gc))
        .route("/v1/slots/{key}/verify", post(snapshots::verify))
        .route("/v1/slots/{key}/restore", post(snapshots::restore))
        .route("/v1/slots/{key}/fork", post(snapshots::fork))
        .route("/v1/slots/{key}/snapshots", get(snapshots::history))
        .route("/v1/slots/{key}/archive", get(snapshots::export).put(snapshots::import))
        .route("/operator/run", post(operator::run))
        .route_layer(middleware::from_fn_with_state(gate, check))
        .fallback(no_endpoint)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(body_bytes))
        .layer(RequestBodyTimeoutLayer::new(BODY_PAUSE))
        .with_state(runtime)
}

/// Items of a listing's page when nobody says how many.
const DEFAULT_PAGE: usize = 50;

/// How many items a page of a listing has; more than its `most` is an error that says so.
pub(crate) fn page_limit(limit: Option<usize>, most: usize) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(DEFAULT_PAGE);
    if (1..=most).contains(&limit) {
        Ok(limit)
    } else {
        Err(Problem::invalid(format!("limit: {limit} is not between 1 and {most}")))
    }
}

async fn no_endpoint() -> Problem {
    Problem::not_found("there is no such endpoint")
}

async fn no_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "the endpoint has no such method")
}

/// A body that was read whole, or the problem of one that is too large or broke off.
pub(crate) fn body(
    body: Result<axum::body::Bytes, axum::extract::rejection::BytesRejection>,
) -> Result<axum::body::Bytes, Problem> {
    body.map_err(|rejection| {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body_too_large",
                "the body is larger than limits.body allows; write large files in parts",
            )
        } else {
            Problem::invalid(rejection.body_text())
        }
    })
}
