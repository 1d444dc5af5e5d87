//! Requests and results as JSON.

pub mod slots;
pub mod snapshots;

use crate::problem::Problem;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use toolcell_model::{
    AgentName, CallContext, CallId, CallState, IdError, SessionId, TenantId, ToolCall, ToolName, UserId,
};
use toolcell_runtime::{Behavior, CallRecord, Explanation, Hypothesis};

/// Body of `POST /v1/calls`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallsRequest {
    /// Who all calls are for.
    pub context: Context,
    /// The calls.
    pub calls: Vec<Call>,
    /// When to answer.
    #[serde(default)]
    pub wait: Wait,
}

/// Who calls are for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// The agent.
    pub agent: AgentName,
    /// The conversation.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// The person.
    #[serde(default)]
    pub user: Option<UserId>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The caller's id; made if absent.
    #[serde(default)]
    pub id: Option<CallId>,
    /// The tool. Whether there is one of that name is the call's matter, not the request's.
    pub tool: String,
    /// Its input.
    pub input: Value,
}

/// Body of `POST /v1/permissions/explain`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    /// Who the call would be for.
    pub context: Context,
    /// The tool.
    pub tool: String,
    /// Its input.
    pub input: Value,
    /// Where paths lead that lead elsewhere than they say.
    #[serde(default)]
    pub real_paths: BTreeMap<String, String>,
}

/// When to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// When all calls have ended or ask.
    #[default]
    Result,
    /// At once.
    None,
}

/// Parses a JSON body; an error names the field.
///
/// # Errors
/// [`Problem`] with code `invalid_request`.
pub fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    let mut from = serde_json::Deserializer::from_slice(body);
    let parsed: T = serde_path_to_error::deserialize(&mut from).map_err(|error| {
        let path = error.path().to_string();
        let at = if path == "." || path == "?" { "the body".to_owned() } else { path };
        Problem::invalid(format!("{at}: {}", error.inner()))
    })?;
    from.end().map_err(|error| Problem::invalid(format!("the body: {error}")))?;
    Ok(parsed)
}

impl Context {
    /// With the caller's tenant.
    #[must_use]
    pub fn of(self, tenant: TenantId) -> CallContext {
        CallContext { tenant, agent: self.agent, session: self.session, user: self.user }
    }
}

impl Call {
    /// With an id of its own if the caller gave none.
    ///
    /// # Errors
    /// A tool name that is empty or too long.
    pub fn into_tool_call(self) -> Result<ToolCall, IdError> {
        let Self { id, tool, input } = self;
        Ok(ToolCall { id: id.unwrap_or_else(CallId::generate), tool: ToolName::parse(tool)?, input })
    }
}

impl ExplainRequest {
    /// With the caller's tenant.
    ///
    /// # Errors
    /// A tool name that is empty or too long.
    pub fn hypothesis(self, tenant: TenantId) -> Result<Hypothesis, IdError> {
        let Self { context, tool, input, real_paths } = self;
        Ok(Hypothesis { context: context.of(tenant), tool: ToolName::parse(tool)?, input, real_paths })
    }
}

/// What would become of a call: the state it would have at once, and its decision with the trace.
#[must_use]
pub fn explanation(explanation: &Explanation) -> Value {
    match explanation {
        Explanation::Invalid(fault) => json!({ "state": CallState::Invalid, "error": fault }),
        Explanation::Failed(fault) => json!({ "state": CallState::Failed, "error": fault }),
        Explanation::Decided { decision, mode } => {
            let state = match decision.behavior {
                Behavior::Allow => CallState::Queued,
                Behavior::Ask => CallState::Asking,
                Behavior::Deny => CallState::Denied,
            };
            let mut shown = json!(decision);
            if let Value::Object(fields) = &mut shown {
                fields.insert("trace".to_owned(), json!(decision.trace));
            }
            json!({ "state": state, "mode": mode, "decision": shown })
        }
    }
}

/// A line for a terminal: control and bidirectional characters are shown, not obeyed.
#[must_use]
pub fn escaped(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for c in line.chars() {
        if toolcell_runtime::misleads(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

/// One call's result so far.
#[must_use]
pub fn result(record: &CallRecord) -> Value {
    let mut json = Map::new();
    json.insert("id".to_owned(), json!(record.id));
    json.insert("ref".to_owned(), json!(record.call_ref));
    json.insert("tool".to_owned(), json!(record.tool));
    json.insert("state".to_owned(), json!(record.state));
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            json.insert(name.to_owned(), value);
        }
    };
    put("output", record.output.clone());
    put("error", record.error.as_ref().map(|error| json!(error)));
    put("problem", record.fault.as_ref().map(|fault| json!(Problem::from(fault))));
    put("ran", record.fault.as_ref().map(|fault| json!(fault.ran)));
    put("decision", record.decision.clone());
    put("slot", record.slot.as_ref().map(|slot| json!(slot)));
    put("timing_ms", record.timing.as_ref().map(|timing| json!(timing)));
    Value::Object(json)
}

/// One call as listings show it: the result, and where it belongs.
#[must_use]
pub fn listed(record: &CallRecord) -> Value {
    let mut json = result(record);
    if let Value::Object(fields) = &mut json {
        let CallContext { tenant: _, agent, session, user } = &record.context;
        fields.insert("batch".to_owned(), json!(record.batch));
        fields.insert("context".to_owned(), json!({ "agent": agent, "session": session, "user": user }));
        fields.insert("created_at_ms".to_owned(), json!(record.created_at));
        fields.insert("started_at_ms".to_owned(), json!(record.started_at));
        fields.insert("finished_at_ms".to_owned(), json!(record.finished_at));
    }
    json
}

/// A batch's results.
#[must_use]
pub fn batch(batch: &toolcell_model::BatchId, records: &[CallRecord]) -> Value {
    let all_denied = !records.is_empty() && records.iter().all(|record| record.state == CallState::Denied);
    json!({
        "batch": batch,
        "all_denied": all_denied,
        "results": records.iter().map(result).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &str) -> String {
        parse::<CallsRequest>(body.as_bytes()).expect_err(body).detail
    }

    #[test]
    fn errors_name_the_field() {
        let call = r#"{"tool":"execute","input":{}}"#;
        for (body, field) in [
            (format!(r#"{{"context":{{"agent":"a"}},"calls":[{call}],"wiat":"none"}}"#), "wiat"),
            (format!(r#"{{"context":{{"agent":"a","usr":"u"}},"calls":[{call}]}}"#), "usr"),
            (format!(r#"{{"context":{{"agent":""}},"calls":[{call}]}}"#), "context.agent"),
            (format!(r#"{{"context":{{"agent":7}},"calls":[{call}]}}"#), "context.agent"),
            (format!(r#"{{"context":{{}},"calls":[{call}]}}"#), "agent"),
            (r#"{"context":{"agent":"a"},"calls":[{"tool":"execute"}]}"#.to_owned(), "input"),
            (r#"{"context":{"agent":"a"},"calls":[{"tool":7,"input":{}}]}"#.to_owned(), "calls[0].tool"),
            (format!(r#"{{"context":{{"agent":"a"}},"calls":[{call}],"wait":"maybe"}}"#), "wait"),
            ("[]".to_owned(), "the body"),
            ("{".to_owned(), "the body"),
            (format!(r#"{{"context":{{"agent":"a"}},"calls":[{call}]}} x"#), "the body"),
        ] {
            let message = error(&body);
            assert!(message.contains(field), "{body}: {message}");
        }
    }
}
