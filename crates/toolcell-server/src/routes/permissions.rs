//! `/v1/permissions/explain`

use super::body;
use crate::auth::Principal;
use crate::problem::Problem;
use crate::wire;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::{Extension, Json};
use serde_json::Value;
use toolcell_runtime::Runtime;

pub(super) async fn explain(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Problem> {
    let bytes = body(bytes)?;
    let request: wire::ExplainRequest = wire::parse(&bytes)?;
    let hypothesis =
        request.hypothesis(principal.tenant).map_err(|error| Problem::invalid(format!("tool: {error}")))?;
    Ok(Json(wire::explanation(&runtime.explain(&hypothesis).await?)))
}
