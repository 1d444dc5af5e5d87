//! `toolcell explain`: what would become of a call, and why.

use super::call::input;
use super::context::{Backend, backend, load};
use crate::cli::{ConfigArgs, ExplainArgs};
use crate::failure::Failure;
use crate::logging;
use serde_json::{Value, json};
use std::process::ExitCode;
use toolcell_model::TenantId;
use toolcell_runtime::Runtime;
use toolcell_server::wire;

pub(crate) async fn run(config: &ConfigArgs, args: ExplainArgs) -> Result<ExitCode, Failure> {
    logging::init("warn", false);
    let config = load(config)?;
    let context = &args.call.context;
    let body = json!({
        "context": { "agent": context.agent, "session": context.session, "user": context.user },
        "tool": args.call.tool,
        "input": input(&args.call.input)?,
    });
    let explanation = match backend(config, &context.server).await? {
        Backend::Server(server) => server.post("/v1/permissions/explain", &body).await?.json().await?,
        Backend::Embedded(runtime) => {
            let explained = explain_here(&runtime, &body).await;
            runtime.shutdown().await;
            explained?
        }
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&explanation).unwrap_or_else(|_| explanation.to_string()));
    } else {
        print!("{}", shown(&explanation));
    }
    Ok(ExitCode::SUCCESS)
}

/// The same parsing as a server's, so that the same input has the same error.
async fn explain_here(runtime: &Runtime, body: &Value) -> Result<Value, Failure> {
    let refused = |detail: String| Failure::new("the call was not explained", detail);
    let text = body.to_string();
    let request: wire::ExplainRequest = wire::parse(text.as_bytes()).map_err(|problem| refused(problem.detail))?;
    let hypothesis = request.hypothesis(TenantId::default_tenant()).map_err(|error| refused(error.to_string()))?;
    let explained = runtime.explain(&hypothesis).await;
    let explained = explained.map_err(|error| Failure::of("the call was not explained", &error))?;
    Ok(wire::explanation(&explained))
}

/// Control and bidirectional characters of a call must not make the terminal show something else.
fn shown(explanation: &Value) -> String {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut lines = Vec::new();
    if let Some(error) = explanation.get("error") {
        lines.push(format!("{}: {}", text(explanation, "state"), text(error, "message")));
    }
    if let Some(decision) = explanation.get("decision") {
        let demoted = decision.get("demoted") == Some(&Value::Bool(true));
        let note = if demoted { " (an ask that nobody can answer in this mode)" } else { "" };
        lines.push(format!("{} by {}{note}", text(decision, "behavior"), text(decision, "stage")));
        lines.push(format!("  {}", text(decision, "message")));
        lines.push(String::new());
        lines.push(format!("stages, in mode {}:", text(explanation, "mode")));
        for step in decision.get("trace").and_then(Value::as_array).into_iter().flatten() {
            let gives = step.get("gives").and_then(Value::as_str).unwrap_or("-");
            lines.push(format!("  {:<13}{gives:<7}{}", text(step, "stage"), text(step, "saw")));
            for detail in step.get("details").and_then(Value::as_array).into_iter().flatten() {
                lines.push(format!("{:22}{}", "", detail.as_str().unwrap_or_default()));
            }
        }
        let suggestions: Vec<&Value> =
            decision.get("suggestions").and_then(Value::as_array).into_iter().flatten().collect();
        if !suggestions.is_empty() {
            lines.push(String::new());
            lines.push("allow rules that would answer it:".to_owned());
        }
        for suggestion in suggestions {
            lines.push(format!("  {}  {}", text(suggestion, "rule"), text(suggestion, "allows")));
        }
    }
    lines.into_iter().map(|line| toolcell_server::wire::escaped(&line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_shown_and_control_characters_are_not_obeyed() {
        let explanation = json!({
            "state": "asking", "mode": "default",
            "decision": {
                "behavior": "ask", "stage": "default", "message": "A person\u{1b}[2J must approve \u{202e}it.",
                "demoted": false,
                "suggestions": [{ "rule": "execute(make)", "allows": "this call" }],
                "trace": [
                    { "stage": "deny_rule", "gives": null, "saw": "no deny rule matches" },
                    { "stage": "default", "gives": "ask", "saw": "no stage answered", "details": ["`make`: x"] },
                ],
            },
        });
        let expected = "ask by default\n  A person\\u{1b}[2J must approve \\u{202e}it.\n\nstages, in mode default:\n  \
            deny_rule    -      no deny rule matches\n  default      ask    no stage answered\n                      \
            `make`: x\n\nallow rules that would answer it:\n  execute(make)  this call\n";
        assert_eq!(shown(&explanation), expected);
        let invalid = json!({ "state": "invalid", "error": { "code": "unknown_tool", "message": "no tool" } });
        assert_eq!(shown(&invalid), "invalid: no tool\n");
    }
}
