//! The HTTP face: who may come in, and what it says to requests that it cannot take.

use crate::support::Cell;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

const DEFAULT: &str = "[agents.coder]\n";

fn call() -> Value {
    json!({ "tool": "execute", "input": { "command": "true" } })
}

fn request(context: Value, calls: Value) -> Value {
    json!({ "context": context, "calls": calls })
}

#[test]
fn requests_that_break_the_form_are_refused_by_the_name_of_the_field() {
    let Some(cell) = Cell::start(DEFAULT) else { return };
    let agent = json!({ "agent": "coder" });
    let with = |name: &str, value: Value| {
        let mut body = request(agent.clone(), json!([call()]));
        body[name] = value;
        body
    };
    for (body, names) in [
        (with("wiat", json!("none")), "wiat"),
        (with("wait", json!("maybe")), "wait"),
        (with("calls", json!({})), "calls"),
        (with("calls", json!([])), "calls"),
        (with("context", json!({ "agent": "coder", "usr": "x" })), "usr"),
        (with("context", json!({ "agent": "" })), "context.agent"),
        (with("context", json!({ "agent": 7 })), "context.agent"),
        (with("context", json!({ "agent": "coder", "user": "x".repeat(257) })), "context.user"),
        (with("context", json!({})), "agent"),
        (with("calls", json!([call(), { "tool": 7, "input": {} }])), "calls[1].tool"),
        (with("calls", json!([{ "tool": "", "input": {} }])), "calls[0].tool"),
        (with("calls", json!([{ "tool": "execute" }])), "input"),
        (with("calls", json!([{ "tool": "execute", "input": {}, "idd": "x" }])), "idd"),
        (with("calls", json!([{ "tool": "execute", "input": {}, "id": "" }])), "calls[0].id"),
        (json!([]), "the body"),
    ] {
        let (code, detail) = cell.post("/v1/calls", &body).problem(400);
        assert_eq!(code, "invalid_request", "{body}");
        assert!(detail.contains(names), "{body}: {detail}");
    }
    for text in ["", "{", "{} {}", "\u{0}"] {
        let (code, _) = cell.request("POST", "/v1/calls", &[], text.as_bytes()).problem(400);
        assert_eq!(code, "invalid_request", "{text:?}");
    }
    assert_eq!(cell.get("/v1/calls").json()["items"], json!([]), "nothing of it was recorded");
    cell.finish();
}

#[test]
fn an_unknown_agent_is_a_fault_of_the_request_and_the_answer_lists_those_there_are() {
    let Some(cell) = Cell::start(DEFAULT) else { return };
    let (code, detail) = cell.submit(&json!({ "agent": "codr" }), &json!([call()])).problem(404);
    assert_eq!(code, "unknown_agent");
    assert!(detail.contains("codr") && detail.contains("coder"), "{detail}");
    cell.finish();
}

#[test]
fn an_unknown_tool_or_a_bad_input_is_that_calls_own_matter() {
    let Some(cell) = Cell::bypass() else { return };
    let calls = [
        (json!({ "tool": "exec", "input": {} }), "unknown_tool", "exec"),
        (json!({ "tool": "execute", "input": { "comand": "x" } }), "invalid_input", "comand"),
        (json!({ "tool": "execute", "input": { "command": 7 } }), "invalid_input", "command"),
        (json!({ "tool": "execute", "input": { "command": "" } }), "invalid_input", "command"),
        (json!({ "tool": "execute", "input": {} }), "invalid_input", "command"),
        (json!({ "tool": "execute", "input": { "command": "x", "argv": ["x"] } }), "invalid_input", "argv"),
        (json!({ "tool": "execute", "input": { "argv": ["a\u{0}b"] } }), "invalid_input", "argv[0]"),
        (json!({ "tool": "execute", "input": { "command": "x", "timeout_ms": 0 } }), "invalid_input", "timeout_ms"),
        (json!({ "tool": "execute", "input": { "command": "x", "env": { "A=": "" } } }), "invalid_input", "env"),
        (json!({ "tool": "execute", "input": [] }), "invalid_input", "input"),
        (json!({ "tool": "read_file", "input": {} }), "invalid_input", "path"),
        (json!({ "tool": "read_file", "input": { "path": "x", "offset": 0 } }), "invalid_input", "offset"),
        (json!({ "tool": "write_file", "input": { "path": "x" } }), "invalid_input", "content"),
        (
            json!({ "tool": "write_file", "input": { "path": "x", "content": "!", "encoding": "base64" } }),
            "invalid_input",
            "content",
        ),
        (json!({ "tool": "list_files", "input": { "path": "x", "depth": "2" } }), "invalid_input", "depth"),
    ];
    let batch: Vec<&Value> = calls.iter().map(|(call, _, _)| call).collect();
    let results = cell.batch(&json!({ "agent": "coder", "user": "alice" }), &json!(batch));
    for (result, (call, code, names)) in results.iter().zip(&calls) {
        assert_eq!(
            (&result["state"], &result["error"]["code"]),
            (&json!("invalid"), &json!(code)),
            "{call}: {result:#}"
        );
        assert!(result["error"]["message"].as_str().unwrap().contains(names), "{call}: {result:#}");
    }
    assert_eq!(cell.containers(), Vec::<String>::new());
    cell.finish();
}

#[test]
fn requests_have_bounds() {
    let config = "[limits]\nbody = \"64KiB\"\nbatch_calls = 3\n[agents.coder]\n";
    let Some(cell) = Cell::start(config) else { return };
    let agent = json!({ "agent": "coder" });
    let sized = |bytes: usize| {
        let mut body = request(agent.clone(), json!([{ "tool": "execute", "input": { "command": "" } }]));
        let rest = bytes - body.to_string().len();
        body["calls"][0]["input"]["command"] = json!("x".repeat(rest));
        assert_eq!(body.to_string().len(), bytes);
        cell.post("/v1/calls", &body)
    };
    assert_eq!(sized((64 << 10) - 1).status, 200);
    assert_eq!(sized(64 << 10).status, 200);
    let (code, detail) = sized((64 << 10) + 1).problem(413);
    assert_eq!(code, "body_too_large");
    assert!(detail.contains("limits.body"), "{detail}");
    for (count, status) in [(2, 200), (3, 200), (4, 400)] {
        let answer = cell.submit(&agent, &json!(vec![call(); count]));
        assert_eq!(answer.status, status, "{}", answer.text());
        if status == 400 {
            let (code, detail) = answer.problem(400);
            assert_eq!(code, "invalid_request");
            assert!(detail.contains("4 items") && detail.contains('3'), "{detail}");
        }
    }
    cell.finish();
}

#[test]
fn endpoints_and_methods_that_are_not_there_are_problems_too() {
    let Some(cell) = Cell::start(DEFAULT) else { return };
    for path in ["/", "/v2/calls", "/v1/calls/", "/v1", "/v1/calls/x/output", "/operator"] {
        assert_eq!(cell.get(path).problem(404).0, "not_found", "{path}");
    }
    for (method, path) in
        [("DELETE", "/v1/calls"), ("POST", "/healthz"), ("PUT", "/v1/calls/x"), ("GET", "/operator/run")]
    {
        assert_eq!(cell.request(method, path, &[], b"").problem(405).0, "method_not_allowed", "{method} {path}");
    }
    let health = cell.get("/healthz");
    assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("ok")));
    let ready = cell.get("/readyz");
    assert_eq!((ready.status, ready.json()["status"].as_str()), (200, Some("ready")));
    cell.finish();
}

#[test]
fn without_a_key_nothing_is_answered_and_the_admin_key_opens() {
    let config = "[auth]\nmode = \"keys\"\n[agents.coder]\n";
    let Some(mut cell) = Cell::start(config) else { return };
    let path = cell.data_dir().join("admin.key");
    let key = std::fs::read_to_string(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let body = request(json!({ "agent": "coder" }), json!([call()])).to_string();
    for (method, path) in [
        ("POST", "/v1/calls"),
        ("GET", "/v1/calls"),
        ("GET", "/v1/calls/x"),
        ("GET", "/v1/calls/x/output/stdout"),
        ("POST", "/v1/calls/x/cancel"),
        ("GET", "/v1/batches/x"),
    ] {
        for header in [None, Some("Bearer wrong"), Some("Basic dXNlcjo="), Some(key.as_str())] {
            let headers: Vec<(&str, &str)> = header.map(|value| ("Authorization", value)).into_iter().collect();
            let (code, _) = cell.request(method, path, &headers, body.as_bytes()).problem(401);
            assert_eq!(code, "unauthorized", "{method} {path} {header:?}");
        }
    }
    assert_eq!(cell.get("/healthz").status, 200);
    assert_eq!(cell.get("/readyz").status, 200);
    let bearer = format!("Bearer {key}");
    let with_key = |cell: &Cell| cell.request("POST", "/v1/calls", &[("Authorization", &bearer)], body.as_bytes());
    assert_eq!(with_key(&cell).status, 200);
    // The socket is for whoever owns the directory.
    let operator = cell.request("POST", "/operator/run", &[("Authorization", &bearer)], body.as_bytes());
    assert_eq!(operator.problem(403).0, "forbidden");
    let socket = cell.data_dir().join("server.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(cell.data_dir()).unwrap().permissions().mode() & 0o777, 0o700);
    cell.stop();
    cell.serve();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), key, "made once");
    assert_eq!(with_key(&cell).status, 200);
    cell.finish();
}

#[test]
fn other_names_and_other_sites_are_refused() {
    let Some(cell) = Cell::start("[server]\nhosts = [\"tools.example\"]\n[agents.coder]\n") else { return };
    let get = |headers: &[(&str, &str)]| cell.request("GET", "/v1/calls", headers, b"");
    for host in ["localhost", "localhost:80", "127.0.0.1:7070", "[::1]:7070", "tools.example:443"] {
        assert_eq!(get(&[("Host", host)]).status, 200, "{host}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:7070"] {
        assert_eq!(get(&[("Host", host)]).problem(403).0, "forbidden", "{host}");
    }
    assert_eq!(get(&[("Host", "localhost:7070"), ("Origin", "http://localhost:7070")]).status, 200);
    for origin in ["https://evil.example", "http://localhost:8080", "null"] {
        let (code, detail) = get(&[("Host", "localhost:7070"), ("Origin", origin)]).problem(403);
        assert_eq!(code, "forbidden");
        assert!(detail.contains("Origin"), "{detail}");
    }
    // Health as well: a page must not learn that there is a server.
    assert_eq!(cell.request("GET", "/healthz", &[("Host", "evil.example")], b"").status, 403);
    cell.finish();
}
