//! `toolcell call`: an agent's call.

use super::context::{Backend, backend, load, only_result, query, request};
use super::which::activity;
use crate::cli::{CallArgs, ConfigArgs};
use crate::client::Server;
use crate::failure::{EXIT_ASKING, EXIT_DENIED, EXIT_FAILED, EXIT_TIMED_OUT, Failure};
use crate::{logging, progress};
use serde_json::Value;
use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;
use toolcell_model::TenantId;
use toolcell_runtime::{BatchRequest, Runtime};
use toolcell_server::{InProcess, wire};

/// An embedded call has no server to ask again: it waits for its end.
const LONGEST: Duration = Duration::from_secs(24 * 3600 + 60);

pub(crate) async fn run(config: &ConfigArgs, args: CallArgs) -> Result<ExitCode, Failure> {
    logging::init("warn", false);
    let config = load(config)?;
    let input = input(&args.call.input)?;
    let body = request(&args.call.context, args.id.as_deref(), &args.call.tool, input);
    let whose = query(&args.call.context);
    let batch = match backend(config, &args.call.context.server).await? {
        Backend::Server(server) => {
            let posted = async { server.post("/v1/calls", &body).await?.json().await };
            progress::while_waiting(posted, async || activity(&server, &whose).await).await?
        }
        Backend::Embedded(runtime) => {
            let here = Server::Here(InProcess::new(runtime.clone()));
            let done =
                progress::while_waiting(submit_here(&runtime, &body), async || activity(&here, &whose).await).await;
            runtime.shutdown().await;
            done?
        }
    };
    let result = only_result(batch)?;
    println!("{}", serde_json::to_string_pretty(&result).unwrap_or_else(|_| result.to_string()));
    Ok(ExitCode::from(exit_code(&result)))
}

pub(crate) fn input(text: &str) -> Result<Value, Failure> {
    let mut from_stdin = String::new();
    let text = if text == "-" {
        std::io::stdin()
            .read_to_string(&mut from_stdin)
            .map_err(|error| Failure::of("the input cannot be read from standard input", &error))?;
        &from_stdin
    } else {
        text
    };
    serde_json::from_str(text)
        .map_err(|error| Failure::of("--input is not JSON", &error).hint("for example --input '{\"command\": \"ls\"}'"))
}

async fn submit_here(runtime: &Runtime, body: &Value) -> Result<Value, Failure> {
    let request = batch_request(body, false)?;
    let batch = runtime.submit(request).await?;
    let id = batch.id.clone();
    let records = batch.wait(LONGEST).await;
    let records = records.map_err(|error| Failure::of("the result cannot be read", &error))?;
    Ok(wire::batch(&id, &records))
}

/// The same parsing as a server's, so that the same input has the same error.
pub(crate) fn batch_request(body: &Value, operator: bool) -> Result<BatchRequest, Failure> {
    let refused = |detail: String| Failure::new("the call was not taken", detail);
    let text = body.to_string();
    let parsed: wire::CallsRequest = wire::parse(text.as_bytes()).map_err(|problem| refused(problem.detail))?;
    let calls = parsed.calls.into_iter().map(wire::Call::into_tool_call).collect::<Result<_, _>>();
    let calls = calls.map_err(|error| refused(error.to_string()))?;
    Ok(BatchRequest { context: parsed.context.of(TenantId::default_tenant()), calls, operator, live: None })
}

/// What a script needs to know of a result.
fn exit_code(result: &Value) -> u8 {
    match result.get("state").and_then(Value::as_str).unwrap_or_default() {
        "succeeded" | "queued" | "running" => 0,
        "failed" | "cancelled" => 1,
        "timed_out" => EXIT_TIMED_OUT,
        "asking" => EXIT_ASKING,
        "denied" => EXIT_DENIED,
        _ => EXIT_FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_an_exit_code() {
        use toolcell_model::CallState;
        for state in CallState::ALL {
            let code = exit_code(&serde_json::json!({ "state": state }));
            let expected = match state {
                CallState::Succeeded | CallState::Queued | CallState::Running => 0,
                CallState::Failed | CallState::Cancelled => 1,
                CallState::TimedOut => 124,
                CallState::Asking => 75,
                CallState::Denied => 126,
                CallState::Invalid | CallState::Error => 125,
            };
            assert_eq!(code, expected, "{state}");
        }
    }
}
