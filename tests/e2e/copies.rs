//! Copies of a workspace: forks; and what is removed of its history.

use crate::support::Cell;
use serde_json::{Value, json};

const CALL: &str = "[snapshots]\ndurability = \"call\"\nkeep_last = 2\n[agents.coder.permissions]\nmode = \"bypass\"\n";

fn slot_of(result: &Value) -> String {
    result["slot"]["key"].as_str().unwrap_or_else(|| panic!("{result:#}")).to_owned()
}

#[track_caller]
fn post(cell: &Cell, path: &str, body: &Value) -> Value {
    let answer = cell.post(path, body);
    assert!(answer.status < 300, "{path}: {}", answer.text());
    answer.json()
}

fn history(cell: &Cell, slot: &str) -> Vec<Value> {
    cell.get(&format!("/v1/slots/{slot}/snapshots")).json()["items"].as_array().unwrap().clone()
}

#[test]
fn a_fork_has_the_files_and_is_independent_of_its_source() {
    let Some(mut cell) = Cell::start(CALL) else { return };
    let slot = slot_of(&cell.shell("alice", "echo shared > file"));
    let forked = post(&cell, &format!("/v1/slots/{slot}/fork"), &json!({ "to": { "agent": "coder", "user": "bob" } }));
    let bob = forked["key"].as_str().unwrap().to_owned();
    assert_ne!(bob, slot);
    let listed = cell.get("/v1/slots?agent=coder&user=bob").json();
    assert_eq!((&listed["items"][0]["key"], &listed["items"][0]["residency"]), (&json!(bob), &json!("stored")));
    assert_eq!(cell.output_of("bob", "cat file; echo bob >> file"), "shared\n");
    assert_eq!(cell.output_of("alice", "cat file; echo alice >> file"), "shared\n");
    // Twice to the same is refused; a deleted one is as good as new.
    let to_bob = json!({ "to": { "agent": "coder", "user": "bob" } });
    assert_eq!(cell.post(&format!("/v1/slots/{slot}/fork"), &to_bob).problem(409).0, "target_not_empty");
    cell.request("DELETE", &format!("/v1/slots/{slot}"), &[], b"");
    // What the fork needs outlives its source.
    cell.stop();
    cell.serve();
    assert_eq!(cell.output_of("bob", "cat file"), "shared\nbob\n");
    assert_eq!(cell.output_of("alice", "ls"), "");
    cell.finish();
}

#[test]
fn a_collection_keeps_what_can_still_be_gone_back_to() {
    let Some(cell) = Cell::start(CALL) else { return };
    let slot = slot_of(&cell.shell("alice", "echo 0 > file"));
    for round in 1..5 {
        cell.output_of("alice", &format!("echo {round} > file; head -c 100000 /dev/urandom > random"));
    }
    assert_eq!(history(&cell, &slot).len(), 5);
    let collected = post(&cell, &format!("/v1/slots/{slot}/gc"), &json!({}));
    assert_eq!(
        (&collected["snapshots_kept"], &collected["snapshots_removed"]),
        (&json!(2), &json!(3)),
        "{collected:#}"
    );
    let items = history(&cell, &slot);
    assert_eq!(items.len(), 2, "{items:#?}");
    // The slot has gone on being resident, and goes on.
    assert_eq!(cell.output_of("alice", "cat file"), "4\n");
    for item in &items {
        let verified = post(&cell, &format!("/v1/slots/{slot}/verify"), &json!({ "snapshot": item["snapshot"] }));
        assert_eq!(verified["whole"], true, "{verified:#}");
    }
    let older = items[1]["snapshot"].clone();
    post(&cell, &format!("/v1/slots/{slot}/restore"), &json!({ "snapshot": older }));
    assert_eq!(cell.output_of("alice", "cat file"), "3\n");
    cell.finish();
}

#[test]
fn a_slot_that_stops_after_many_snapshots_is_cleaned_up() {
    let Some(cell) = Cell::start(CALL) else { return };
    let slot = slot_of(&cell.shell("alice", "echo 0 > file"));
    for round in 1..4 {
        cell.output_of("alice", &format!("echo {round} > file"));
    }
    post(&cell, &format!("/v1/slots/{slot}/stop"), &json!({}));
    assert_eq!(history(&cell, &slot).len(), 2);
    assert_eq!(cell.output_of("alice", "cat file"), "3\n");
    cell.finish();
}
