//! What an agent may do: nothing runs that was not allowed, and what is asked holds nothing.

use crate::support::{Cell, code, expect_state, stdout};
use serde_json::{Value, json};

const AGENTS: &str = r#"
[agents.plain]

[agents.ruled.permissions]
mode = "bypass"
allow = ["read_file"]
ask = ["list_files"]
deny = [{ rule = "write_file", message = "Write with a command instead." }]

[agents.alone.permissions]
mode = "dont_ask"
allow = ["read_file"]

[agents.explorer.permissions]
mode = "explore"

[agents.editor.permissions]
mode = "accept_edits"
allow = ["execute"]

[agents.free.permissions]
mode = "bypass"

[agents.reader.permissions]
read_only = "all"

[agents.narrow]
tools = ["read_file"]
[agents.narrow.permissions]
mode = "bypass"
"#;

fn of(agent: &str) -> Value {
    json!({ "agent": agent, "user": "alice" })
}

fn execute(command: &str) -> Value {
    json!({ "command": command })
}

fn write(path: &str) -> Value {
    json!({ "path": path, "content": "content" })
}

/// The decision of a result, after a look at what every decision has.
#[track_caller]
fn stage(result: &Value, behavior: &str) -> String {
    let decision = &result["decision"];
    assert_eq!(decision["behavior"], behavior, "{result:#}");
    assert!(!decision["message"].as_str().unwrap().is_empty(), "{result:#}");
    decision["stage"].as_str().unwrap().to_owned()
}

#[test]
fn by_default_everything_is_asked_and_nothing_is_held_meanwhile() {
    let Some(mut cell) = Cell::start(AGENTS) else { return };
    for (tool, input) in [
        ("execute", execute("touch ran")),
        ("write_file", write("ran")),
        ("read_file", json!({ "path": "ran" })),
        ("list_files", json!({ "path": "." })),
    ] {
        let result = cell.call_in(&of("plain"), tool, &input);
        expect_state(&result, "asking");
        assert_eq!(stage(&result, "ask"), "default");
        assert!(result.get("output").is_none() && result.get("slot").is_none(), "{result:#}");
    }
    assert_eq!(cell.containers(), Vec::<String>::new());
    // A pending question is not an answer, and outlives the server.
    cell.stop();
    cell.serve();
    let asking = cell.get("/v1/calls?state=asking").json();
    assert_eq!(asking["items"].as_array().unwrap().len(), 4, "{asking:#}");
    cell.finish();
}

#[test]
fn rules_decide_by_the_tools_name_and_deny_outranks_all() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let denied = cell.call_in(&of("ruled"), "write_file", &write("x"));
    expect_state(&denied, "denied");
    assert_eq!(stage(&denied, "deny"), "deny_rule");
    assert_eq!(denied["error"], json!({ "code": "denied", "message": "Write with a command instead." }));
    assert_eq!(denied["decision"]["rule"]["rule"], "write_file", "{denied:#}");
    let asked = cell.call_in(&of("ruled"), "list_files", &json!({ "path": "." }));
    expect_state(&asked, "asking");
    assert_eq!(stage(&asked, "ask"), "ask_rule");
    assert_eq!(cell.containers(), Vec::<String>::new());
    let allowed = cell.call_in(&of("ruled"), "read_file", &json!({ "path": "missing" }));
    assert_eq!((code(&allowed), stage(&allowed, "allow").as_str()), ("not_found", "allow_rule"));
    cell.finish();
}

#[test]
fn where_nobody_can_be_asked_it_is_denied() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let calls =
        json!([{ "tool": "execute", "input": execute("touch x") }, { "tool": "write_file", "input": write("x") }]);
    let batch = cell.submit(&of("alone"), &calls).json();
    assert_eq!(batch["all_denied"], true, "{batch:#}");
    for result in batch["results"].as_array().unwrap() {
        expect_state(result, "denied");
        assert_eq!(stage(result, "deny"), "default");
        assert_eq!(result["decision"]["demoted"], true);
    }
    let mixed =
        json!([{ "tool": "execute", "input": execute("touch x") }, { "tool": "read_file", "input": { "path": "x" } }]);
    assert_eq!(cell.submit(&of("alone"), &mixed).json()["all_denied"], false);
    cell.finish();
}

#[test]
fn exploring_reads_and_changes_nothing() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let read = cell.call_in(&of("explorer"), "read_file", &json!({ "path": "/home/agent/.bash_logout" }));
    assert_eq!(stage(&read, "allow"), "read_only");
    let listed = cell.call_in(&of("explorer"), "list_files", &json!({ "path": "." }));
    expect_state(&listed, "succeeded");
    let seen = cell.call_in(&of("explorer"), "execute", &execute("ls -A | wc -l"));
    assert_eq!((stage(&seen, "allow").as_str(), stdout(&seen).as_str()), ("read_only", "0\n"));
    for (tool, input) in [("write_file", write("x")), ("execute", execute("touch x")), ("execute", execute("ls > x"))] {
        let denied = cell.call_in(&of("explorer"), tool, &input);
        expect_state(&denied, "denied");
        assert_eq!(stage(&denied, "deny"), "explore");
    }
    cell.finish();
}

#[test]
fn read_only_tools_are_allowed_where_the_configuration_says_so() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let listed = cell.call_in(&of("reader"), "list_files", &json!({ "path": "." }));
    expect_state(&listed, "succeeded");
    assert_eq!(stage(&listed, "allow"), "read_only");
    expect_state(&cell.call_in(&of("reader"), "write_file", &write("x")), "asking");
    cell.finish();
}

#[test]
fn edits_are_accepted_in_the_working_directory_and_not_through_a_link_out_of_it() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let inside = cell.call_in(&of("editor"), "write_file", &write("/workspace/a/b"));
    expect_state(&inside, "succeeded");
    assert_eq!(stage(&inside, "allow"), "accept_edits");
    let outside = cell.call_in(&of("editor"), "write_file", &write("/home/agent/x"));
    expect_state(&outside, "asking");
    assert_eq!(stage(&outside, "ask"), "default");

    let links = "ln -s /home/agent out; ln -s /home/agent/target file; ln -s a in";
    stdout(&cell.call_in(&of("editor"), "execute", &execute(links)));
    for path in ["/workspace/out/x", "out/x", "/workspace/file", "a/../out/x"] {
        let through = cell.call_in(&of("editor"), "write_file", &write(path));
        expect_state(&through, "asking");
        assert_eq!(stage(&through, "ask"), "default", "{path}");
    }
    let within = cell.call_in(&of("editor"), "write_file", &write("in/c"));
    expect_state(&within, "succeeded");
    assert_eq!(stdout(&cell.call_in(&of("editor"), "execute", &execute("ls /home/agent; cat a/c"))), "content");
    cell.finish();
}

#[test]
fn dangerous_paths_are_asked_about_in_every_mode() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    for (agent, tool, path) in [
        ("free", "write_file", "/workspace/.env"),
        ("free", "write_file", ".git/hooks/pre-commit"),
        ("free", "read_file", "/home/agent/.ssh/id_ed25519"),
        ("editor", "write_file", "/workspace/.git/config"),
        ("explorer", "read_file", "/home/agent/.netrc"),
        ("reader", "read_file", ".env"),
    ] {
        let input = if tool == "write_file" { write(path) } else { json!({ "path": path }) };
        let asked = cell.call_in(&of(agent), tool, &input);
        expect_state(&asked, "asking");
        assert_eq!(stage(&asked, "ask"), "tool_check", "{agent} {path}");
    }
    assert_eq!(cell.containers(), Vec::<String>::new());
    // Where a path leads is known only in the workspace.
    let prepare = "python3 -c 'import os; os.mkdir(\".git\"); os.symlink(\".git/config\", \"innocent\")'";
    stdout(&cell.call_in(&of("free"), "execute", &execute(prepare)));
    let through = cell.call_in(&of("free"), "write_file", &write("innocent"));
    expect_state(&through, "asking");
    assert_eq!(stage(&through, "ask"), "tool_check");
    let look = "python3 -c 'import os; print(os.listdir(\".git\"))'";
    assert_eq!(stdout(&cell.call_in(&of("free"), "execute", &execute(look))), "[]\n");
    let free = cell.call_in(&of("free"), "write_file", &write("ordinary"));
    assert_eq!(stage(&free, "allow"), "bypass");
    cell.finish();
}

#[test]
fn an_agent_has_the_tools_that_it_was_given() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let result = cell.call_in(&of("narrow"), "execute", &execute("true"));
    expect_state(&result, "invalid");
    assert_eq!(code(&result), "unknown_tool");
    cell.finish();
}

#[test]
fn a_persons_own_command_is_answered_by_typing_it_and_a_deny_still_denies() {
    let config = "[agents.coder.permissions]\nmode = \"default\"\n\
                  [agents.denied.permissions]\ndeny = [{ rule = \"execute\", message = \"No commands here.\" }]\n";
    let Some(mut cell) = Cell::new(config) else { return };
    for with_server in [false, true] {
        if with_server {
            cell.serve();
        }
        let run = |agent: &str, command: &str| {
            cell.toolcell(&["run", "--agent", agent, "--user", "alice", "--", "sh", "-c", command])
        };
        let ran = run("coder", "echo ran");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "ran\n"), "{ran:?}");
        let denied = run("denied", "echo ran");
        let (what, why, _) = denied.failure(126);
        assert_eq!((what.as_str(), why.as_str(), denied.stdout.as_str()), ("denied", "No commands here.", ""));
        // An agent's call of the same tool is asked about.
        let input = r#"{"command":"touch ran"}"#;
        let asked = cell.toolcell(&["call", "execute", "--agent", "coder", "--user", "alice", "--input", input]);
        assert_eq!(asked.code, Some(75), "{asked:?}");
        assert_eq!(serde_json::from_str::<Value>(&asked.stdout).unwrap()["state"], "asking");
        let denied = cell.toolcell(&["call", "execute", "--agent", "denied", "--user", "alice", "--input", input]);
        assert_eq!(denied.code, Some(126), "{denied:?}");
    }
    cell.finish();
}

const CUSTOM: &str = r#"
[agents.coder]
[agents.coder.env]
PATH = "/workspace/bin:/usr/bin:/bin"
[agents.coder.permissions]
read_only = "all"
allow = ["execute", "show"]
[agents.coder.approval]
forbidden = "deny"

[[agents.coder.custom_tools]]
name = "git"
description = "Look at the repository"
argv = ["git", "{words}"]
input_schema = { type = "object", properties = { words = { type = "array", items = { type = "string" } } }, required = ["words"] }
read_only = true

[[agents.coder.custom_tools]]
name = "show"
description = "Show what came"
argv = ["sh", "-c", 'printf "%s|" "$@"; cat', "show", "--env={env}", "{list}", "{region}"]
input_schema = { type = "object", properties = { env = { type = "string" }, list = { type = "array" } }, required = ["env"], additionalProperties = false }
stdin = "json"
[agents.coder.custom_tools.presets]
region = "eu"

[[agents.coder.custom_tools]]
name = "forbidden"
description = "Never"
argv = ["true"]
input_schema = { type = "object" }
"#;

#[test]
fn an_operators_own_tool_gets_words_and_never_shell_text() {
    let Some(cell) = Cell::start(CUSTOM) else { return };
    let hostile = "$(touch /workspace/ran); `id` \"'";
    let shown = stdout(&cell.call("alice", "show", &json!({ "env": hostile, "list": ["a b", 2] })));
    let (words, stdin) = shown.rsplit_once('|').unwrap();
    assert_eq!(words, format!("--env={hostile}|a b|2|eu"));
    let stdin: Value = serde_json::from_str(stdin).unwrap();
    assert_eq!(stdin, json!({ "env": hostile, "list": ["a b", 2], "region": "eu" }));
    assert_eq!(cell.output_of("alice", "ls"), "");
    for (input, message) in [
        (json!({ "env": "a", "region": "us" }), "input.region: is preset by the operator; leave it out"),
        (json!({}), "input: \"env\" is a required property"),
    ] {
        let invalid = cell.call("alice", "show", &input);
        expect_state(&invalid, "invalid");
        assert_eq!(invalid["error"], json!({ "code": "invalid_input", "message": message }));
    }
    let denied = cell.call("alice", "forbidden", &json!({}));
    assert_eq!(stage(&denied, "deny"), "deny_rule");
    let asked = cell.call("alice", "show", &json!({ "env": ".env" }));
    assert_eq!(stage(&asked, "ask"), "tool_check");
    cell.finish();
}

#[test]
fn a_call_that_only_reads_runs_nothing_that_a_repository_names() {
    let Some(cell) = Cell::start(CUSTOM) else { return };
    let prepare = r#"set -e
git init -q .; git config user.email a@b; git config user.name a
echo one > file; git add file; git commit -qm first; echo two > file
mkdir bin hooks
printf '#!/bin/sh\necho "$0 $*" >> /workspace/ran\n' | tee bin/git bin/marker hooks/post-index-change > hooks/reference-transaction
chmod +x bin/* hooks/*
for key in core.fsmonitor core.pager pager.status pager.diff pager.log core.sshCommand interactive.diffFilter gpg.program
do git config "$key" /workspace/bin/marker; done
git config core.hooksPath /workspace/hooks; git config log.showSignature true
git config --global core.pager /workspace/bin/marker
rm -f ran"#;
    // Before its own bin/git is there, this is the image's.
    stdout(&cell.shell("alice", &format!("PATH=/usr/bin:/bin\n{prepare}")));
    for (words, expected) in [
        (json!(["status"]), "modified:   file"),
        (json!(["diff"]), "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-one\n+two\n"),
        (json!(["--paginate", "log", "-p"]), "+one"),
        (json!(["show"]), "+one"),
    ] {
        let result = cell.call("alice", "git", &json!({ "words": words }));
        assert_eq!(stage(&result, "allow"), "read_only");
        let shown = stdout(&result);
        assert!(shown.contains(expected), "{words}: {shown}");
        assert_eq!(cell.output_of("alice", "cat ran 2>/dev/null; true"), "", "{words}");
    }
    // The same repository, without that care.
    stdout(&cell.shell("alice", "/usr/bin/git diff; /usr/bin/git status"));
    assert!(cell.output_of("alice", "cat ran").contains("marker"));
    cell.finish();
}

#[test]
fn a_session_has_a_mode_and_rules_of_its_own() {
    let Some(mut cell) = Cell::start("[agents.coder.permissions]\nmode = \"bypass\"\n") else { return };
    let path = "/v1/sessions/conv%201/permissions?agent=coder&user=alice";
    let put = |cell: &Cell, body: &Value| {
        let answer = cell.request("PUT", path, &[], body.to_string().as_bytes());
        (answer.status, answer.json())
    };
    let empty = json!({ "allow": [], "ask": [], "deny": [] });
    assert_eq!(cell.get(path).json(), json!({ "mode": "bypass", "agent_mode": "bypass", "rules": empty }));
    let rules =
        json!({ "allow": [], "ask": [], "deny": [{ "rule": "write_file", "message": "Not in this session." }] });
    let set = json!({ "mode": "dont_ask", "agent_mode": "bypass", "rules": rules });
    assert_eq!(put(&cell, &json!({ "mode": "dont_ask", "rules": { "deny": rules["deny"] } })), (200, set.clone()));
    cell.stop();
    cell.serve();
    assert_eq!(cell.get(path).json(), set, "it outlives the server");
    let inside = json!({ "agent": "coder", "session": "conv 1", "user": "alice" });
    let denied = cell.call_in(&inside, "execute", &execute("touch x"));
    assert_eq!((stage(&denied, "deny").as_str(), &denied["decision"]["demoted"]), ("default", &json!(true)));
    let denied = cell.call_in(&inside, "write_file", &write("x"));
    assert_eq!(
        (stage(&denied, "deny").as_str(), &denied["error"]["message"]),
        ("deny_rule", &json!("Not in this session."))
    );
    assert_eq!(denied["decision"]["rule"]["source"], "session");
    for other in
        [json!({ "agent": "coder", "session": "conv 1", "user": "bob" }), json!({ "agent": "coder", "user": "alice" })]
    {
        expect_state(&cell.call_in(&other, "execute", &execute("true")), "succeeded");
    }
    assert_eq!(put(&cell, &json!({ "mode": null, "rules": {} })).1["mode"], "bypass");
    expect_state(&cell.call_in(&inside, "write_file", &write("x")), "succeeded");
    for (body, detail) in [
        (json!({ "mode": "yolo" }), "mode: unknown variant `yolo`"),
        (json!({ "rules": { "deny": ["!x"] } }), "rules.deny[0]: rule \"!x\""),
        (json!({ "rules": { "deny": ["exceute"] } }), "rules.deny: the rule \"exceute\" names no tool"),
        (json!({ "modus": 1 }), "modus: unknown field"),
    ] {
        let (status, problem) = put(&cell, &body);
        let said = problem["detail"].as_str().unwrap_or_default();
        assert!(status == 400 && said.starts_with(detail), "{body}: {problem:#}");
    }
    let unknown = cell.get("/v1/sessions/x/permissions?agent=nobody");
    assert_eq!((unknown.status, unknown.json()["code"].clone()), (404, json!("unknown_agent")));
    assert_eq!(cell.get("/v1/sessions/x/permissions").status, 400, "agent is required");
    cell.finish();
}
