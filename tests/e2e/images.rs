//! The guest brings what the tools need: they work in whatever image there is.

use crate::support::{Cell, code, expect_state, stdout};
use serde_json::{Value, json};

const IMAGES: &str = r#"
[agents.base]
image = "toolcell/base"
[agents.base.permissions]
mode = "bypass"

[agents.busybox]
image = "toolcell-test/busybox"
[agents.busybox.permissions]
mode = "bypass"

[agents.empty]
image = "toolcell-test/empty"
[agents.empty.permissions]
mode = "bypass"
"#;

fn of(agent: &str) -> Value {
    json!({ "agent": agent, "user": "alice" })
}

#[track_caller]
fn file_tools_work(cell: &Cell, agent: &str) {
    let call = |tool: &str, input: Value| cell.call_in(&of(agent), tool, &input);
    let text = "one\ntwo\nthree\n";
    let written = call("write_file", json!({ "path": "/workspace/a/b/file.txt", "content": text, "mode": "0640" }));
    expect_state(&written, "succeeded");
    assert_eq!((&written["output"]["size"], &written["output"]["created"]), (&json!(text.len()), &json!(true)));
    let bytes = json!({ "path": "a/bytes", "content": "AAH/gA==", "encoding": "base64" });
    expect_state(&call("write_file", bytes), "succeeded");

    let read = call("read_file", json!({ "path": "a/b/file.txt" }));
    assert_eq!(read["output"]["content"], text, "{read:#}");
    let part = call("read_file", json!({ "path": "a/b/file.txt", "offset": 2, "limit": 1 }));
    assert_eq!(part["output"]["content"], "two\n", "{part:#}");
    let bytes = call("read_file", json!({ "path": "a/bytes", "encoding": "base64" }));
    assert_eq!(bytes["output"]["content"], "AAH/gA==", "{bytes:#}");
    let not_text = call("read_file", json!({ "path": "a/bytes" }));
    assert_eq!(code(&not_text), "not_utf8");

    let listed = call("list_files", json!({ "path": "/workspace", "depth": 3 }));
    expect_state(&listed, "succeeded");
    let entries = listed["output"]["entries"].as_array().unwrap();
    let seen: Vec<String> = entries
        .iter()
        .map(|entry| format!("{} {}", entry["path"].as_str().unwrap(), entry["type"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, ["a directory", "a/b directory", "a/b/file.txt file", "a/bytes file"]);
    assert_eq!((&entries[2]["mode"], &entries[2]["size"]), (&json!("0640"), &json!(text.len())));

    for (tool, input, expected) in [
        ("read_file", json!({ "path": "a/missing" }), "not_found"),
        ("read_file", json!({ "path": "a/b" }), "is_directory"),
        ("list_files", json!({ "path": "a/b/file.txt" }), "not_a_directory"),
        ("write_file", json!({ "path": "a/b", "content": "x" }), "is_directory"),
        ("write_file", json!({ "path": "a/b/file.txt", "content": "x", "overwrite": false }), "already_exists"),
        ("write_file", json!({ "path": "a/none/x", "content": "x", "create_dirs": false }), "not_found"),
    ] {
        let failed = call(tool, input.clone());
        expect_state(&failed, "failed");
        assert_eq!(code(&failed), expected, "{tool} {input}: {failed:#}");
    }
}

#[test]
fn the_base_image_runs_commands_and_file_tools() {
    let Some(cell) = Cell::start(IMAGES) else { return };
    file_tools_work(&cell, "base");
    let execute = |input: Value| cell.call_in(&of("base"), "execute", &input);
    // A shell, and the tools that agents reach for; the shell is bash.
    let tools = "for tool in python3 pip git rg curl ps; do command -v $tool >/dev/null || echo no $tool; done; \
                 echo ${BASH_VERSION:+bash} $HOME $USER";
    assert_eq!(stdout(&execute(json!({ "command": tools }))), "bash /home/agent agent\n");
    assert_eq!(stdout(&execute(json!({ "argv": ["printf", "%s|", "a b", "$HOME", "*"] }))), "a b|$HOME|*|");
    let missing = execute(json!({ "argv": ["no-such-program"] }));
    expect_state(&missing, "failed");
    assert_eq!(code(&missing), "not_found");
    cell.finish();
}

#[test]
fn a_busybox_runs_commands_and_file_tools() {
    let Some(cell) = Cell::start(IMAGES) else { return };
    file_tools_work(&cell, "busybox");
    let execute = |input: Value| cell.call_in(&of("busybox"), "execute", &input);
    assert_eq!(stdout(&execute(json!({ "command": "echo $0; id -u; cat a/b/file.txt | wc -l" }))), "sh\n1000\n3\n");
    assert_eq!(stdout(&execute(json!({ "argv": ["echo", "a b"] }))), "a b\n");
    let bash = execute(json!({ "argv": ["bash", "-c", "true"] }));
    assert_eq!(code(&bash), "not_found");
    cell.finish();
}

#[test]
fn an_empty_image_has_the_file_tools_and_says_what_it_lacks() {
    let Some(mut cell) = Cell::start(IMAGES) else { return };
    file_tools_work(&cell, "empty");
    let shell = cell.call_in(&of("empty"), "execute", &json!({ "command": "echo hello" }));
    expect_state(&shell, "failed");
    assert_eq!(code(&shell), "no_shell");
    let program = cell.call_in(&of("empty"), "execute", &json!({ "argv": ["ls"] }));
    expect_state(&program, "failed");
    assert_eq!(code(&program), "not_found");
    cell.stop();
    cell.serve();
    let back = cell.call_in(&of("empty"), "read_file", &json!({ "path": "a/b/file.txt" }));
    assert_eq!(back["output"]["content"], "one\ntwo\nthree\n", "{back:#}");
    cell.finish();
}
