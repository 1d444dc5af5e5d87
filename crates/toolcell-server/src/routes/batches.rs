//! `/v1/batches`

use crate::auth::Principal;
use crate::problem::Problem;
use crate::wire;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use serde_json::Value;
use toolcell_model::BatchId;
use toolcell_runtime::Runtime;

pub(super) async fn show(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    Path(batch): Path<String>,
) -> Result<Json<Value>, Problem> {
    let missing = || Problem::not_found("there is no batch of this name");
    let id = BatchId::parse(batch).map_err(|_| missing())?;
    let record = runtime.batch(&id).await?.filter(|batch| batch.context.tenant == principal.tenant);
    let record = record.ok_or_else(missing)?;
    Ok(Json(wire::batch(&record.batch, &record.calls)))
}
