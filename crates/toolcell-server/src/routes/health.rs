//! Is the process there; can it run calls.

use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};
use toolcell_runtime::{Runtime, chain};

pub(super) async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

pub(super) async fn readyz(State(runtime): State<Runtime>) -> Result<Json<Value>, Problem> {
    match runtime.engine().await {
        Ok(engine) => {
            Ok(Json(json!({ "status": "ready", "docker": engine.version, "docker_api": engine.api_version })))
        }
        Err(error) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.code(), chain(&error))),
    }
}
