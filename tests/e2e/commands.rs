//! Commands and their rules, from a call to what ran.

use crate::support::{Cell, code, expect_state, stdout};
use serde_json::{Value, json};

const AGENTS: &str = r#"
[agents.builder.permissions]
mode = "default"
allow = ["execute(make:*)", "write_file(/workspace/out/**)"]
ask = ["execute(make deploy:*)"]
deny = [
  { rule = "execute(git push:*)", message = "Leave pushing to a person.", match = ["git push -f"], not_match = ["git pull"] },
  "list_files(/workspace/private/**)",
  "read_file(/workspace/private/**)",
]

[agents.editor.permissions]
mode = "accept_edits"

[agents.free.permissions]
mode = "bypass"
deny = ["execute(git push:*)"]

[agents.small]
image = "toolcell-test/busybox"
[agents.small.permissions]
mode = "bypass"
deny = ["execute(touch:*)"]

[agents.narrow.permissions]
mode = "bypass"
command_allowlist = ["ls", "touch"]

[agents.dated.permissions]
mode = "bypass"
deny = [
  { rule = "execute(touch old)", expires = "2020-01-01T00:00:00Z" },
  { rule = "execute(touch new)", expires = "2999-01-01T00:00:00Z" },
]
"#;

fn of(agent: &str) -> Value {
    json!({ "agent": agent, "user": "alice" })
}

fn execute(cell: &Cell, agent: &str, command: &str) -> Value {
    cell.call_in(&of(agent), "execute", &json!({ "command": command }))
}

/// Behaviour and stage, and that only what was allowed ran.
#[track_caller]
fn decided(result: &Value, behavior: &str, stage: &str) {
    let decision = &result["decision"];
    assert_eq!((&decision["behavior"], &decision["stage"]), (&json!(behavior), &json!(stage)), "{result:#}");
    assert_eq!(result.get("output").is_some(), behavior == "allow", "{result:#}");
}

#[test]
fn what_a_command_runs_decides() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    for (command, behavior, stage) in [
        ("ls -la && pwd | cat", "allow", "read_only"),
        ("make -n 2>/dev/null; true", "allow", "allow_rule"),
        ("mkdir -p out; echo x > out/log", "ask", "default"),
        ("make -n > out/log; true", "allow", "allow_rule"),
        ("make -n > log", "ask", "default"),
        ("make deploy", "ask", "ask_rule"),
        ("echo $(git push)", "deny", "deny_rule"),
        ("timeout 5 bash -c 'g\"\"it push'", "deny", "deny_rule"),
        ("cat private/key", "deny", "deny_rule"),
        ("cat .env", "ask", "tool_check"),
        ("$COMMAND x", "ask", "ask_rule"),
        ("rm -rf ..", "ask", "tool_check"),
    ] {
        if command.starts_with("make -n > out") {
            stdout(&execute(&cell, "free", "mkdir -p out"));
        }
        let result = execute(&cell, "builder", command);
        decided(&result, behavior, stage);
    }
    let denied = execute(&cell, "builder", "git push");
    assert_eq!(denied["error"]["message"], "Leave pushing to a person.", "{denied:#}");
    let asked = execute(&cell, "builder", "npm run build");
    let rules: Vec<&Value> = asked["decision"]["suggestions"].as_array().unwrap().iter().map(|s| &s["rule"]).collect();
    assert_eq!(rules, ["execute(npm run build)", "execute(npm run build:*)"], "{asked:#}");
    cell.finish();
}

#[test]
fn a_listing_leaves_out_what_is_denied() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let context = json!({ "agent": "builder", "session": "s", "user": "alice" });
    stdout(&execute(&cell, "free", "mkdir -p private; touch private/a b"));
    // The same workspace by another agent's rules would be another slot: the files are this agent's own.
    let made = cell.toolcell(&[
        "run",
        "--agent",
        "builder",
        "--user",
        "alice",
        "--",
        "sh",
        "-c",
        "mkdir private; touch private/a b",
    ]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let put = json!({ "rules": { "allow": ["list_files"] } });
    let answer =
        cell.request("PUT", "/v1/sessions/s/permissions?agent=builder&user=alice", &[], put.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let listed = cell.call_in(&context, "list_files", &json!({ "path": ".", "depth": 2 }));
    expect_state(&listed, "succeeded");
    let names: Vec<&Value> = listed["output"]["entries"].as_array().unwrap().iter().map(|e| &e["path"]).collect();
    assert_eq!((names, &listed["output"]["skipped"]), (vec![&json!("b")], &json!(2)), "{listed:#}");
    cell.finish();
}

#[test]
fn edits_by_command_stay_in_the_working_directory_also_through_links() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let edited =
        execute(&cell, "editor", "mkdir -p src && echo 'a b' > src/a && sed -i 's/a/c/' src/a && cp src/a src/b");
    decided(&edited, "allow", "accept_edits");
    assert_eq!(stdout(&execute(&cell, "editor", "cat src/b")), "c b\n");
    for command in ["cp src/a /home/agent/x", "echo x > ../x", "cd / && touch x", "sed -i 's/a/b/e' src/a"] {
        decided(&execute(&cell, "editor", command), "ask", "default");
    }
    // A link that leads out is seen in the container only: nothing of the command runs.
    let link = "python3 -c 'import os; os.symlink(\"/home/agent\", \"out\")'";
    let made = cell.toolcell(&["run", "--agent", "editor", "--user", "alice", "--", "sh", "-c", link]);
    assert_eq!(made.code, Some(0), "{made:?}");
    for command in ["cp src/a out/x", "touch fine && echo x >> out/x"] {
        decided(&execute(&cell, "editor", command), "ask", "default");
    }
    assert_eq!(stdout(&execute(&cell, "editor", "ls /home/agent; ls -d fine 2>/dev/null || true")), "");
    cell.finish();
}

#[test]
fn where_the_image_has_no_bash_the_text_is_read_as_its_shell_does() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    decided(&execute(&cell, "small", "echo \"$(echo a)\""), "allow", "read_only");
    // For bash these are words; busybox's shell reads something else, so it cannot be known here.
    for command in ["echo {a,b} > f", "[[ a == a ]]", "echo $'a'"] {
        decided(&execute(&cell, "small", command), "ask", "ask_rule");
    }
    decided(&execute(&cell, "small", "sh -c 'touch x'"), "deny", "deny_rule");
    assert_eq!(stdout(&execute(&cell, "small", "ls")), "");
    // Where there is bash it is what bash makes of it.
    decided(&execute(&cell, "free", "echo {a,b} $'c' > f; cat f"), "allow", "bypass");
    cell.finish();
}

#[test]
fn a_command_of_another_shape_does_not_run_whoever_approves_it() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    decided(&execute(&cell, "narrow", "touch a && timeout 5 ls"), "allow", "bypass");
    for command in ["cat a", "ls; id", "ls $(id)", "$x", "sh -c 'ls; id'"] {
        decided(&execute(&cell, "narrow", command), "deny", "command_validator");
    }
    let typed = cell.toolcell(&["run", "--agent", "narrow", "--user", "alice", "--", "id"]);
    assert_eq!(typed.code, Some(126), "{typed:?}");
    cell.finish();
}

#[test]
fn rules_end_when_they_say() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    decided(&execute(&cell, "dated", "touch old"), "allow", "bypass");
    decided(&execute(&cell, "dated", "touch new"), "deny", "deny_rule");
    cell.finish();
}

#[test]
fn a_mode_change_does_not_reach_a_call_under_way() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let context = json!({ "agent": "free", "session": "s", "user": "alice" });
    let call = json!([{ "id": "long", "tool": "execute", "input": { "command": "touch begun; while [ ! -e go ]; do sleep 0.05; done; touch late" } }]);
    let body = json!({ "context": context, "calls": call, "wait": "none" });
    let started = cell.post("/v1/calls", &body).json();
    let reference = started["results"][0]["ref"].as_str().unwrap().to_owned();
    cell.until(&reference, "running");
    cell.wait_for_file("begun");
    let put = cell.request(
        "PUT",
        "/v1/sessions/s/permissions?agent=free&user=alice",
        &[],
        json!({ "mode": "explore" }).to_string().as_bytes(),
    );
    assert_eq!(put.status, 200, "{}", put.text());
    let later = cell.call_in(&context, "execute", &json!({ "command": "touch x" }));
    decided(&later, "deny", "explore");
    let container = cell.container();
    let slot = container.rsplit('-').next().unwrap();
    std::fs::write(cell.workspace(slot).join("go"), "").unwrap();
    let ended = cell.until(&reference, "succeeded");
    assert_eq!(ended["decision"]["stage"], "bypass", "{ended:#}");
    cell.finish();
}

#[test]
fn an_explanation_says_what_a_call_would_do_and_runs_nothing() {
    let Some(mut cell) = Cell::start(AGENTS) else { return };
    let explain = |cell: &Cell, tool: &str, input: Value| {
        let body = json!({ "context": of("builder"), "tool": tool, "input": input });
        cell.post("/v1/permissions/explain", &body)
    };
    let answer = explain(&cell, "execute", json!({ "command": "ls; make all > x" })).json();
    let decision = &answer["decision"];
    assert_eq!(
        (&answer["state"], &decision["behavior"], &decision["stage"]),
        (&json!("asking"), &json!("ask"), &json!("default")),
        "{answer:#}"
    );
    let stages: Vec<&str> =
        decision["trace"].as_array().unwrap().iter().map(|s| s["stage"].as_str().unwrap()).collect();
    let nine = [
        "deny_rule",
        "ask_rule",
        "explore",
        "tool_check",
        "allow_rule",
        "accept_edits",
        "read_only",
        "bypass",
        "default",
    ];
    assert_eq!(stages, nine);
    let details = decision["trace"][4]["details"].to_string();
    assert!(
        details.contains("only reads") && details.contains("execute(make:*)") && details.contains("/workspace/x"),
        "{details}"
    );
    let body = json!({ "context": of("editor"), "tool": "write_file", "input": { "path": "link/x", "content": "" },
        "real_paths": { "link/x": "/etc/x" } });
    let answer = cell.post("/v1/permissions/explain", &body).json();
    assert_eq!(answer["decision"]["stage"], "default", "{answer:#}");
    let invalid = explain(&cell, "execute", json!({ "comand": "x" })).json();
    assert_eq!((&invalid["state"], code(&invalid)), (&json!("invalid"), "invalid_input"), "{invalid:#}");
    let outside = explain(&cell, "read_file", json!({ "path": "/etc/x" })).json();
    assert_eq!((&outside["state"], code(&outside)), (&json!("failed"), "outside_roots"), "{outside:#}");
    let unknown = cell.post("/v1/permissions/explain", &json!({ "context": of("nobody"), "tool": "x", "input": {} }));
    assert_eq!(unknown.problem(404).0, "unknown_agent");
    assert_eq!((cell.containers().len(), cell.get("/v1/calls").json()["items"].as_array().unwrap().len()), (0, 0));
    // With the server and without it the command line says the same.
    let mut said = Vec::new();
    for _ in 0..2 {
        let shown =
            cell.toolcell(&["explain", "execute", "--agent", "builder", "--input", "{\"command\":\"git push\"}"]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        said.push(shown.stdout);
        if said.len() == 1 {
            cell.stop();
        }
    }
    assert_eq!(said[0], said[1]);
    assert!(said[0].starts_with("deny by deny_rule\n  Leave pushing to a person.\n"), "{}", said[0]);
    cell.finish();
}

#[test]
fn recorded_cases_are_decided_by_the_command_line() {
    let Some(cell) = Cell::new(AGENTS) else { return };
    let file = cell.directory().join("cases.jsonl");
    let case = |expect: &str| {
        format!(
            r#"{{"id":"a","mode":"default","rules":{{"allow":["execute(make:*)"],"ask":[],"deny":[]}},"call":{{"tool":"execute","input":{{"command":"make"}}}}{expect}}}"#
        )
    };
    let test = |text: &str| {
        std::fs::write(&file, text).unwrap();
        cell.toolcell(&["rules", "test", file.to_str().unwrap()])
    };
    let allowed = r#","expect":{"behavior":"allow","stage":"allow_rule"}"#;
    let asked = r#","expect":{"behavior":"ask"}"#;
    let answer = |ok: &str| {
        format!(r#"{{"case":1,"id":"a","behavior":"allow","stage":"allow_rule","rule":"execute(make:*)","ok":{ok}}}"#)
            + "\n"
    };
    for (text, stdout, exit) in
        [(case(allowed), answer("true"), 0), (case(asked), answer("false"), 1), (case(""), answer("null"), 0)]
    {
        let ended = test(&text);
        assert_eq!((ended.stdout.as_str(), ended.code), (stdout.as_str(), Some(exit)), "{ended:?}");
    }
    let broken = test(&format!("{}\n{{\"mode\":\"yolo\"}}\n", case(allowed)));
    assert_eq!(broken.stdout, answer("true"));
    let (what, why, _) = broken.failure(125);
    assert!(what.contains("1 of 2 cases") && why.contains("line 2: `mode`"), "{what} {why}");
    cell.finish();
}
