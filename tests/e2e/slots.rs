//! Slots as an operator sees them: listed, shown, saved, stopped, deleted; over HTTP and by the command line.

use crate::support::{Cell, stdout, wait_for};
use serde_json::{Value, json};
use std::time::Duration;

const CALL: &str = "[snapshots]\ndurability = \"call\"\n[agents.coder.permissions]\nmode = \"bypass\"\n";

fn slot_of(result: &Value) -> String {
    result["slot"]["key"].as_str().unwrap_or_else(|| panic!("{result:#}")).to_owned()
}

#[track_caller]
fn done(cell: &Cell, method: &str, path: &str) -> Value {
    let answer = cell.request(method, path, &[], b"");
    assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
    answer.json()
}

#[test]
fn slots_are_listed_with_whom_they_are_for_and_where_they_are() {
    let Some(cell) = Cell::start(CALL) else { return };
    assert_eq!(cell.get("/v1/slots").json(), json!({ "items": [], "next": null }));
    let alice = cell.shell("alice", "echo kept > file");
    cell.shell("bob", "true");
    let listed = cell.get("/v1/slots").json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed:#}");
    // Page by page it is the same.
    let first = cell.get("/v1/slots?limit=1").json();
    let next = first["next"].as_str().unwrap_or_else(|| panic!("{first:#}"));
    let second = cell.get(&format!("/v1/slots?limit=1&next={next}")).json();
    assert_eq!(json!([first["items"][0], second["items"][0]]), listed["items"]);

    let key = slot_of(&alice);
    let shown = done(&cell, "GET", &format!("/v1/slots/{key}"));
    assert_eq!(shown["key"], json!(key));
    assert_eq!(shown["tuple"]["scope"], "user", "{shown:#}");
    assert_eq!((&shown["tuple"]["user"], &shown["tuple"]["owner"]), (&json!("alice"), &json!({ "agent": "coder" })));
    assert_eq!((&shown["residency"], &shown["unsaved"]), (&json!("resident"), &json!(false)), "{shown:#}");
    assert_eq!(shown["head"]["snapshot"], alice["slot"]["snapshot"], "{shown:#}");
    assert_eq!(shown["holder"]["token"], shown["token"], "{shown:#}");
    assert!(cell.containers().contains(&shown["container"].as_str().unwrap().to_owned()), "{shown:#}");
    // By whom it is for.
    let found = cell.get("/v1/slots?agent=coder&user=alice").json();
    assert_eq!(found["items"][0]["key"], json!(key), "{found:#}");
    assert_eq!(cell.get("/v1/slots?agent=coder&user=nobody").json()["items"], json!([]));
    cell.finish();
}

#[test]
fn requests_about_slots_that_break_the_form_are_refused() {
    let Some(cell) = Cell::start(CALL) else { return };
    let unknown = format!("s1{}", "a".repeat(51) + "q");
    for (method, path, body, status, code) in [
        ("GET", "/v1/slots/nonsense".to_owned(), "", 404, "not_found"),
        ("GET", format!("/v1/slots/{unknown}"), "", 404, "not_found"),
        ("DELETE", format!("/v1/slots/{unknown}"), "", 404, "not_found"),
        ("POST", format!("/v1/slots/{unknown}/stop"), "", 404, "not_found"),
        ("POST", format!("/v1/slots/{unknown}/snapshot"), "", 404, "not_found"),
        ("POST", format!("/v1/slots/{unknown}/stop"), r#"{"force":true}"#, 400, "invalid_request"),
        ("GET", "/v1/slots?limit=0".to_owned(), "", 400, "invalid_request"),
        ("GET", "/v1/slots?user=alice".to_owned(), "", 400, "invalid_request"),
        ("GET", "/v1/slots?next=nonsense".to_owned(), "", 400, "invalid_request"),
        ("GET", "/v1/slots?agent=nobody".to_owned(), "", 404, "unknown_agent"),
        ("GET", "/v1/slots?agent=coder".to_owned(), "", 422, "identity_required"),
        ("POST", "/v1/slots".to_owned(), r#"{"agent":"coder","usr":"x"}"#, 400, "invalid_request"),
        ("GET", "/v1/activity".to_owned(), "", 400, "invalid_request"),
    ] {
        let (found, detail) = cell.request(method, &path, &[], body.as_bytes()).problem(status);
        assert_eq!(found, code, "{method} {path} {body}: {detail}");
    }
    cell.finish();
}

#[test]
fn without_the_admin_key_there_are_no_slots() {
    let Some(cell) = Cell::start("[auth]\nmode = \"keys\"\n[agents.coder]\n") else { return };
    for (method, path) in [("GET", "/v1/slots"), ("DELETE", "/v1/slots/x"), ("POST", "/v1/slots/x/stop")] {
        let (code, _) = cell.request(method, path, &[], b"").problem(401);
        assert_eq!(code, "unauthorized", "{method} {path}");
    }
    let key = std::fs::read_to_string(cell.data_dir().join("admin.key")).unwrap();
    let bearer = format!("Bearer {key}");
    assert_eq!(cell.request("GET", "/v1/slots", &[("Authorization", &bearer)], b"").status, 200);
    cell.finish();
}

#[test]
fn a_slot_that_is_stopped_is_saved_and_goes_on_at_its_next_call() {
    let Some(cell) = Cell::start("[snapshots]\ndurability = \"stop\"\n[agents.coder.permissions]\nmode = \"bypass\"\n")
    else {
        return;
    };
    let before = cell.shell("alice", "echo kept > file");
    assert_eq!(before["slot"]["durable"], false, "{before:#}");
    let key = slot_of(&before);
    let stopped = done(&cell, "POST", &format!("/v1/slots/{key}/stop"));
    assert_eq!((&stopped["residency"], &stopped["container"]), (&json!("stored"), &Value::Null), "{stopped:#}");
    assert!(stopped["head"]["snapshot"].is_string(), "{stopped:#}");
    assert_eq!(cell.containers(), Vec::<String>::new());
    // Again changes nothing.
    done(&cell, "POST", &format!("/v1/slots/{key}/stop"));
    let after = cell.shell("alice", "cat file");
    assert_eq!(stdout(&after), "kept\n");
    assert_eq!(after["slot"]["restored_from"], stopped["head"]["snapshot"], "{after:#}");
    cell.finish();
}

#[test]
fn a_slot_is_saved_when_it_is_asked_for_beside_a_call_that_runs() {
    let Some(cell) = Cell::start("[snapshots]\ndurability = \"stop\"\n[agents.coder.permissions]\nmode = \"bypass\"\n")
    else {
        return;
    };
    let key = slot_of(&cell.shell("alice", "true"));
    let path = format!("/v1/slots/{key}/snapshot");
    let first = done(&cell, "POST", &path);
    let call = cell.start_shell("alice", "echo begun > begun; sleep 600");
    cell.wait_for_file("begun");
    let second = done(&cell, "POST", &path);
    assert_ne!(first["snapshot"], second["snapshot"]);
    assert_eq!(cell.recorded(&call)["state"], "running", "nothing waited for it");
    cell.post(&format!("/v1/calls/{call}/cancel"), &json!({}));
    cell.until(&call, "cancelled");
    cell.finish();
}

#[test]
fn a_deleted_slot_starts_empty_and_nothing_of_it_is_left_on_the_host() {
    let Some(mut cell) = Cell::start(CALL) else { return };
    let key = slot_of(&cell.shell("alice", "echo secret > file"));
    let path = format!("/v1/slots/{key}");
    assert_eq!(done(&cell, "DELETE", &path), json!({ "key": key, "deleted": true }));
    assert_eq!(cell.containers(), Vec::<String>::new());
    assert!(!cell.data_dir().join("slots").join(&key).exists());
    let (code, _) = cell.get(&path).problem(404);
    assert_eq!(code, "not_found");
    assert_eq!(cell.get("/v1/slots").json()["items"], json!([]));
    cell.stop();
    cell.serve();
    let after = cell.shell("alice", "ls -A; echo new > new");
    assert_eq!((slot_of(&after), stdout(&after).as_str()), (key.clone(), ""), "{after:#}");
    // Also one that is not resident.
    done(&cell, "POST", &format!("{path}/stop"));
    done(&cell, "DELETE", &path);
    assert_eq!(cell.output_of("alice", "ls -A"), "");
    cell.finish();
}

#[test]
fn a_slot_with_a_running_call_is_busy_for_those_who_want_it_alone() {
    let Some(cell) = Cell::start(&format!("[lease]\nwait_ms = 300\n{CALL}")) else { return };
    let key = slot_of(&cell.shell("alice", "true"));
    let call = cell.start_shell("alice", "sleep 600");
    for (method, path) in [("DELETE", format!("/v1/slots/{key}")), ("POST", format!("/v1/slots/{key}/stop"))] {
        let answer = cell.request(method, &path, &[], b"");
        let (code, detail) = answer.problem(409);
        assert_eq!(code, "slot_busy", "{detail}");
        assert!(answer.header("retry-after").is_some(), "{}", answer.text());
    }
    cell.post(&format!("/v1/calls/{call}/cancel"), &json!({}));
    cell.until(&call, "cancelled");
    done(&cell, "POST", &format!("/v1/slots/{key}/stop"));
    cell.finish();
}

#[test]
fn what_another_process_holds_is_not_stopped_here() {
    let Some(cell) = Cell::new(&format!("[lease]\nwait_ms = 300\n{CALL}")) else { return };
    let run = |command: &str| {
        cell.command(&["run", "--agent", "coder", "--user", "alice", "--", "sh", "-c", command])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut child = run("echo begun > begun; sleep 979");
    wait_for("the command runs", Duration::from_secs(30), || {
        if cell.containers().is_empty() { Err("no container".to_owned()) } else { Ok(()) }
    });
    cell.wait_for_file("begun");
    let which = ["--agent", "coder", "--user", "alice"];
    let shown = cell.toolcell(&[&["slots", "show", "--json"], &which[..]].concat());
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap_or_else(|error| panic!("{error}: {shown:?}"));
    assert_eq!((&shown["residency"], &shown["holder"]["pid"]), (&json!("held"), &json!(child.id())), "{shown:#}");
    for action in ["stop", "delete"] {
        let (what, why, hint) = cell.toolcell(&[&["slots", action], &which[..]].concat()).failure(125);
        assert!(why.contains("slot_busy"), "{what} {why}");
        assert!(hint.unwrap().contains("holds it"));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    child.wait().unwrap();
    assert_eq!(cell.toolcell(&[&["slots", "delete"], &which[..]].concat()).code, Some(0));
    cell.finish();
}

#[test]
fn the_command_line_lists_shows_stops_and_deletes_with_and_without_a_server() {
    let Some(mut cell) = Cell::new(CALL) else { return };
    for with_server in [false, true] {
        if with_server {
            cell.serve();
        }
        let run = cell.toolcell(&["run", "--agent", "coder", "--user", "alice", "--", "sh", "-c", "echo x > file"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let listed = cell.toolcell(&["slots", "list", "--json"]);
        let json: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|error| panic!("{error}: {listed:?}"));
        let key = json["items"][0]["key"].as_str().unwrap_or_else(|| panic!("{json:#}")).to_owned();
        assert_eq!((json["items"].as_array().unwrap().len(), &json["next"]), (1, &Value::Null));
        let table = cell.toolcell(&["slots", "list"]);
        let lines: Vec<&str> = table.stdout.lines().collect();
        assert!(lines[0].starts_with("SLOT") && lines[1].starts_with(&key), "{table:?}");
        assert!(lines[1].contains("agent coder") && lines[1].contains("user alice"), "{table:?}");
        // Progress is for terminals.
        assert_eq!(table.stderr, "", "{table:?}");
        let by_key = cell.toolcell(&["slots", "show", &key, "--json"]);
        let by_name = cell.toolcell(&["slots", "show", "--agent", "coder", "--user", "alice", "--json"]);
        assert_eq!((by_key.code, &by_key.stdout), (Some(0), &by_name.stdout), "{by_name:?}");
        let stopped = cell.toolcell(&["slots", "stop", &key]);
        assert!(stopped.code == Some(0) && stopped.stdout.contains("stored"), "{stopped:?}");
        let deleted = cell.toolcell(&["slots", "delete", &key]);
        assert_eq!((deleted.code, deleted.stdout), (Some(0), format!("deleted {key}\n")));
        let (what, why, hint) = cell.toolcell(&["slots", "show", &key]).failure(125);
        assert!(why.contains("not_found") && hint.unwrap().contains("slots list"), "{what} {why}");
    }
    for (arguments, names) in [
        (&["slots", "show"][..], "--agent"),
        (&["slots", "show", "nonsense"], "nonsense"),
        (&["slots", "show", "--agent", "nobody"], "unknown_agent"),
        (&["slots", "show", "--agent", "coder"], "identity_required"),
        (&["slots", "stop", "--agent", "coder", "--user", "nobody"], "no call of this identity"),
    ] {
        let (what, why, _) = cell.toolcell(arguments).failure(125);
        assert!(why.contains(names), "{arguments:?}: {what} {why}");
    }
    cell.finish();
}
