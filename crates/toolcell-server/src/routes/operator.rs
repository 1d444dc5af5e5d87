//! `POST /operator/run`, on the data directory's socket only: a person's own command. An ASK counts as answered by
//! whoever typed it; output comes line by line as JSON, and the last line is the result.

use super::body;
use super::calls::tool_calls;
use crate::auth::Principal;
use crate::problem::Problem;
use crate::wire::{self, CallsRequest};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc;
use toolcell_runtime::{Batch, BatchRequest, LiveOutput, Runtime, Stream};

/// Pieces of output on their way to a client; a tool waits for a slow one.
const LIVE_PIECES: usize = 64;
/// A command may take a day.
const LONGEST: Duration = Duration::from_secs(24 * 3600 + 60);

pub(super) async fn run(
    State(runtime): State<Runtime>,
    Extension(principal): Extension<Principal>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let bytes = body(bytes)?;
    let CallsRequest { context, calls, wait: _ } = wire::parse(&bytes)?;
    let (live, pieces) = mpsc::channel(LIVE_PIECES);
    let request = BatchRequest {
        context: context.of(principal.tenant),
        calls: tool_calls(calls)?,
        operator: true,
        live: Some(live),
    };
    let batch = runtime.submit(request).await?;
    let stop = CancelOnDrop { runtime, calls: batch.calls.clone(), armed: true };
    let lines = stream::unfold(Some((pieces, batch, stop)), |state| async {
        let (mut pieces, batch, mut stop) = state?;
        match pieces.recv().await {
            Some(piece) => Some((line(&piece_json(&piece)), Some((pieces, batch, stop)))),
            None => {
                let end = end_json(batch).await;
                stop.armed = false;
                Some((line(&end), None))
            }
        }
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

/// A person who goes away (^C) wants the command to end, unlike an agent's client.
struct CancelOnDrop {
    runtime: Runtime,
    calls: Vec<toolcell_model::CallRef>,
    armed: bool,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.armed {
            for call in &self.calls {
                // One that has ended needs no stopping.
                let _ = self.runtime.cancel(call);
            }
        }
    }
}

fn piece_json(piece: &LiveOutput) -> Value {
    let stream = match piece.stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    };
    json!({ "stream": stream, "data": STANDARD.encode(&piece.data) })
}

async fn end_json(batch: Batch) -> Value {
    let id = batch.id.clone();
    match batch.wait(LONGEST).await {
        Ok(records) => wire::batch(&id, &records),
        Err(error) => json!({ "problem": Problem::from(error) }),
    }
}

fn line(value: &Value) -> Result<String, Infallible> {
    Ok(format!("{value}\n"))
}
