//! Which calls share a workspace.

use crate::support::{Cell, expect_state, stdout};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const AGENTS: &str = r#"
[agents.session]
scope = "session"
[agents.session.permissions]
mode = "bypass"

[agents.user.permissions]
mode = "bypass"

[agents.agent]
scope = "agent"
[agents.agent.permissions]
mode = "bypass"

[agents.global]
scope = "global"
[agents.global.permissions]
mode = "bypass"

[agents.team]
scope = "global"
workspace = "team"
[agents.team.permissions]
mode = "bypass"

[agents.editor]
workspace = "shared"
[agents.editor.permissions]
mode = "bypass"

[agents.reviewer]
workspace = "shared"
[agents.reviewer.permissions]
mode = "bypass"

# Its workspace is named as another agent is.
[agents.impostor]
workspace = "user"
[agents.impostor.permissions]
mode = "bypass"

[agents.strict]
require_identity = true
[agents.strict.permissions]
mode = "bypass"

[agents.strict_session]
scope = "session"
require_identity = true
[agents.strict_session.permissions]
mode = "bypass"
"#;

fn context(agent: &str, user: Option<&str>, session: Option<&str>) -> Value {
    json!({ "agent": agent, "user": user, "session": session })
}

/// Leaves a mark in the workspace and answers with all marks there, and the result.
#[track_caller]
fn mark(cell: &Cell, context: &Value, name: &str) -> (BTreeSet<String>, Value) {
    let result = cell.call_in(context, "execute", &json!({ "command": format!("touch {name}; ls") }));
    (stdout(&result).lines().map(str::to_owned).collect(), result)
}

#[track_caller]
fn sees(cell: &Cell, context: &Value, name: &str, expected: &[&str]) -> Value {
    let (marks, result) = mark(cell, context, name);
    assert_eq!(marks, expected.iter().map(|mark| (*mark).to_owned()).collect(), "{context}");
    result
}

#[test]
fn a_session_has_a_workspace_whoever_the_user_is() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let first = sees(&cell, &context("session", Some("alice"), Some("s1")), "a", &["a"]);
    assert_eq!(first["slot"]["scope"], "session");
    sees(&cell, &context("session", Some("bob"), Some("s1")), "b", &["a", "b"]);
    sees(&cell, &context("session", Some("alice"), Some("s2")), "c", &["c"]);
    cell.finish();
}

#[test]
fn a_user_has_a_workspace_per_agent_and_without_a_user_the_session_has_one() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let first = sees(&cell, &context("user", Some("alice"), Some("s1")), "a", &["a"]);
    assert_eq!(first["slot"]["scope"], "user");
    sees(&cell, &context("user", Some("alice"), Some("s2")), "b", &["a", "b"]);
    sees(&cell, &context("user", Some("bob"), Some("s1")), "c", &["c"]);
    let fallen_back = sees(&cell, &context("user", None, Some("s1")), "d", &["d"]);
    assert_eq!((&fallen_back["slot"]["scope"], &fallen_back["slot"]["ephemeral"]), (&json!("session"), &json!(false)));
    // A session's slot is the session's, whichever agent came to it.
    sees(&cell, &context("session", None, Some("s1")), "e", &["d", "e"]);
    cell.finish();
}

#[test]
fn an_agent_has_a_workspace_for_all_its_users() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let first = sees(&cell, &context("agent", Some("alice"), None), "a", &["a"]);
    assert_eq!(first["slot"]["scope"], "agent");
    sees(&cell, &context("agent", None, None), "b", &["a", "b"]);
    sees(&cell, &context("agent", Some("bob"), Some("s")), "c", &["a", "b", "c"]);
    cell.finish();
}

#[test]
fn a_global_workspace_is_one_per_name() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let first = sees(&cell, &context("global", Some("alice"), None), "a", &["a"]);
    assert_eq!(first["slot"]["scope"], "global");
    sees(&cell, &context("global", None, None), "b", &["a", "b"]);
    sees(&cell, &context("team", Some("alice"), None), "c", &["c"]);
    cell.finish();
}

#[test]
fn agents_share_a_workspace_that_both_name_and_no_other() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    sees(&cell, &context("editor", Some("alice"), None), "a", &["a"]);
    sees(&cell, &context("reviewer", Some("alice"), None), "b", &["a", "b"]);
    sees(&cell, &context("reviewer", Some("bob"), None), "c", &["c"]);
    assert_eq!(cell.containers().len(), 2);
    // An agent and a workspace of the same name are not the same.
    sees(&cell, &context("user", Some("alice"), None), "d", &["d"]);
    sees(&cell, &context("impostor", Some("alice"), None), "e", &["e"]);
    cell.finish();
}

#[test]
fn without_identity_a_batch_has_a_workspace_that_ends_with_it() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let nobody = context("user", None, None);
    let execute = |command: &str| json!({ "tool": "execute", "input": { "command": command } });
    let results = cell.batch(&nobody, &json!([execute("touch a; pwd"), execute("ls")]));
    assert_eq!(stdout(&results[0]), "/workspace\n");
    assert_eq!(stdout(&results[1]), "a\n");
    for result in &results {
        let slot = &result["slot"];
        assert_eq!(
            (&slot["ephemeral"], &slot["durable"], &slot["snapshot"]),
            (&json!(true), &json!(false), &Value::Null)
        );
    }
    let key = results[0]["slot"]["key"].as_str().unwrap();
    assert_eq!(results[1]["slot"]["key"], key);
    assert_eq!(cell.containers(), Vec::<String>::new(), "it ends with the batch, not later");
    assert!(!cell.workspace(key).exists());
    assert_eq!(names_with(&cell.data_dir(), key), Vec::<String>::new(), "not a lock, not an object");

    let next = cell.call_in(&nobody, "execute", &json!({ "command": "ls" }));
    assert_eq!(stdout(&next), "");
    assert_ne!(next["slot"]["key"], key);
    // A session without a name is nobody's either.
    let session = cell.call_in(&context("session", Some("alice"), None), "execute", &json!({ "command": "ls" }));
    assert_eq!(session["slot"]["ephemeral"], true, "{session:#}");
    cell.finish();
}

#[test]
fn identities_are_any_text_and_none_leads_to_anothers_workspace() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let long = "x".repeat(256);
    let names = [
        "a",
        "A",
        "a ",
        "a/b",
        "../a",
        "a\u{0}",
        "ä",
        "a\u{308}",
        "🦀",
        "$(touch /tmp/x)",
        "--user",
        "a\nb",
        long.as_str(),
    ];
    let mut keys = BTreeSet::new();
    // One workspace each; only what is shown is where the name ends up.
    for (number, name) in names.iter().enumerate() {
        let result = sees(&cell, &context("user", Some(name), None), &number.to_string(), &[&number.to_string()]);
        let key = result["slot"]["key"].as_str().unwrap().to_owned();
        let is_key = key.len() == 54 && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        assert!(is_key && keys.insert(key), "{name:?}: {result:#}");
    }
    // Not the same parts of another identity either.
    sees(&cell, &context("user", None, Some("a")), "session", &["session"]);
    cell.finish();
}

#[test]
fn two_servers_on_one_engine_have_nothing_in_common() {
    let Some(one) = Cell::bypass() else { return };
    let Some(other) = Cell::bypass() else { return one.finish() };
    let first = one.shell("alice", "echo one > file; cat file");
    let second = other.shell("alice", "ls; echo other > file; cat file");
    assert_eq!((stdout(&first), stdout(&second)), ("one\n".to_owned(), "other\n".to_owned()));
    assert_eq!(first["slot"]["key"], second["slot"]["key"], "the same identity, in two instances");
    assert_ne!(one.container(), other.container());
    other.finish();
    assert_eq!(one.output_of("alice", "cat file"), "one\n");
    one.finish();
}

fn names_with(directory: &std::path::Path, part: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.file_name().to_string_lossy().contains(part) {
            found.push(entry.path().display().to_string());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(names_with(&entry.path(), part));
        }
    }
    found
}

#[test]
fn an_agent_that_requires_an_identity_refuses_calls_without() {
    let Some(cell) = Cell::start(AGENTS) else { return };
    let calls = json!([{ "tool": "execute", "input": { "command": "true" } }]);
    for (context, field) in [
        (context("strict", None, None), "context.user"),
        (context("strict_session", Some("alice"), None), "context.session"),
    ] {
        let (code, detail) = cell.submit(&context, &calls).problem(422);
        assert_eq!(code, "identity_required");
        assert!(detail.contains(field), "{detail}");
    }
    assert_eq!(cell.get("/v1/calls").json()["items"], json!([]));
    assert_eq!(cell.containers(), Vec::<String>::new());
    expect_state(
        &cell.call_in(&context("strict", Some("alice"), None), "execute", &json!({ "command": "true" })),
        "succeeded",
    );
    cell.finish();
}

const TWO_SPECS: &str = r#"
[agents.small]
workspace = "shared"
[agents.small.limits]
pids = 100
[agents.small.permissions]
mode = "bypass"

[agents.large]
workspace = "shared"
[agents.large.limits]
pids = 200
[agents.large.permissions]
mode = "bypass"
"#;

#[test]
fn agents_with_different_containers_take_turns_on_one_workspace() {
    let Some(cell) = Cell::start(TWO_SPECS) else { return };
    let mut expected = Vec::new();
    for turn in 0..4 {
        let agent = if turn % 2 == 0 { "small" } else { "large" };
        let command = format!("echo {agent}{turn} >> log; cat log");
        expected.push(format!("{agent}{turn}"));
        let result = cell.call_in(&context(agent, Some("alice"), None), "execute", &json!({ "command": command }));
        assert_eq!(stdout(&result).lines().collect::<Vec<_>>(), expected);
        assert_eq!(result["slot"]["restored_from"].is_string(), turn > 0, "{result:#}");
        let pids = cell.docker.inspect(&cell.container())["HostConfig"]["PidsLimit"].clone();
        assert_eq!(pids, if turn % 2 == 0 { 100 } else { 200 });
    }
    // Both at once: one waits for the other.
    let logs: Vec<String> = std::thread::scope(|scope| {
        let run = |agent: &'static str| {
            let input = json!({ "command": "echo both >> log; sleep 0.2; grep -c both log" });
            let cell = &cell;
            scope.spawn(move || stdout(&cell.call_in(&context(agent, Some("alice"), None), "execute", &input)))
        };
        [run("small"), run("large")].into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(logs.iter().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(["1\n", "2\n"]));
    cell.finish();
}
