//! A snapshot store that fails: what is saved stays saved, what is not stays in the container, and nobody is told
//! otherwise.

use crate::support::{Cell, code, expect_state, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(90);

/// A server whose local store can be taken away.
fn cell(durability: &str) -> Option<Cell> {
    Cell::start(&format!(
        "[snapshots]\ndurability = {durability:?}\nmax_lag_ms = 200\n[lease]\nwait_ms = 1000\n\
         [agents.coder.permissions]\nmode = \"bypass\"\n"
    ))
}

fn store(cell: &Cell) -> PathBuf {
    cell.data_dir().join("snapshots")
}

/// The store is gone: where it was is a file.
fn take_away(cell: &Cell) {
    std::fs::rename(store(cell), cell.directory().join("away")).unwrap();
    std::fs::write(store(cell), "").unwrap();
}

fn bring_back(cell: &Cell) {
    std::fs::remove_file(store(cell)).unwrap();
    std::fs::rename(cell.directory().join("away"), store(cell)).unwrap();
}

#[track_caller]
fn wait_until_saved(cell: &Cell, user: &str) {
    wait_for("everything is saved", LONG, || {
        let found = cell.get(&format!("/v1/slots?agent=coder&user={user}")).json();
        if found["items"][0]["unsaved"] == false { Ok(()) } else { Err(found.to_string()) }
    });
}

#[test]
fn lazily_a_store_that_is_gone_stops_changes_and_not_reading_and_loses_nothing() {
    let Some(mut cell) = cell("lazy") else { return };
    cell.output_of("alice", "echo saved > saved");
    wait_until_saved(&cell, "alice");
    take_away(&cell);
    // Within the window.
    assert_eq!(cell.output_of("alice", "echo window > window; echo done"), "done\n");
    let refused = wait_for("changes are refused", LONG, || {
        let more = cell.shell("alice", "echo more >> more");
        if more["state"] == "error" { Ok(more) } else { Err(more.to_string()) }
    });
    assert_eq!((code(&refused), &refused["ran"]), ("store_unavailable", &json!("no")), "{refused:#}");
    assert!(refused["problem"]["retry_after_ms"].is_u64() || refused["problem"]["detail"].is_string(), "{refused:#}");
    let before = cell.output_of_reading("alice", "/workspace/window");
    assert_eq!(before, "window\n", "what only reads goes on");
    let log = cell.log();
    assert!(log.contains("could not be saved; it stays in its container"), "{log}");
    bring_back(&cell);
    wait_until_saved(&cell, "alice");
    let counted = cell.output_of("alice", "cat saved window; wc -l < more");
    wait_until_saved(&cell, "alice");
    cell.stop();
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat saved window; wc -l < more"), counted);
    cell.finish();
}

#[test]
fn with_durability_call_the_result_says_that_it_ran_and_is_not_saved() {
    let Some(cell) = cell("call") else { return };
    expect_state(&cell.shell("alice", "echo saved > saved"), "succeeded");
    take_away(&cell);
    let unsaved = cell.shell("alice", "echo unsaved > unsaved; echo done");
    expect_state(&unsaved, "error");
    assert_eq!((code(&unsaved), &unsaved["ran"]), ("store_unavailable", &json!("yes")), "{unsaved:#}");
    assert_eq!(unsaved["output"]["stdout"], "done\n", "its output is real");
    assert_eq!(
        (&unsaved["slot"]["durable"], &unsaved["slot"]["snapshot"]),
        (&json!(false), &Value::Null),
        "{unsaved:#}"
    );
    let more = cell.shell("alice", "echo more > more");
    assert_eq!((code(&more), &more["ran"]), ("store_unavailable", &json!("no")), "{more:#}");
    assert_eq!(cell.output_of_reading("alice", "/workspace/unsaved"), "unsaved\n");
    // Operations say the same.
    let key = unsaved["slot"]["key"].as_str().unwrap();
    let (found, detail) = cell.post(&format!("/v1/slots/{key}/snapshot"), &json!({})).problem(503);
    assert_eq!(found, "store_unavailable", "{detail}");
    let shown = cell.get(&format!("/v1/slots/{key}")).json();
    assert_eq!((&shown["residency"], &shown["unsaved"]), (&json!("resident"), &json!(true)), "{shown:#}");
    assert!(shown["head_error"].is_string(), "{shown:#}");
    bring_back(&cell);
    let after = cell.shell("alice", "cat saved unsaved; ls more 2>/dev/null; true");
    assert_eq!(stdout(&after), "saved\nunsaved\n");
    assert_eq!(after["slot"]["durable"], true, "{after:#}");
    cell.finish();
}

#[test]
fn a_server_that_stops_without_its_store_keeps_the_files_and_says_so() {
    let Some(mut cell) = cell("lazy") else { return };
    cell.output_of("alice", "echo saved > saved");
    wait_until_saved(&cell, "alice");
    take_away(&cell);
    cell.output_of("alice", "echo unsaved > unsaved");
    cell.signal(Signal::TERM);
    let ended = cell.ended();
    let (what, why, _) = ended.failure(125);
    assert!(what.contains("stay on this host") && why.contains("1 could not be saved"), "{ended:?}");
    assert!(ended.stderr.contains("the workspace stays on this host for the next start"), "{ended:?}");
    bring_back(&cell);
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat saved unsaved"), "saved\nunsaved\n");
    cell.finish();
}

#[test]
fn a_store_that_has_lost_a_slot_is_never_written_over() {
    let Some(mut cell) = cell("call") else { return };
    let saved = cell.shell("alice", "echo saved > saved");
    let key = saved["slot"]["key"].as_str().unwrap().to_owned();
    cell.stop();
    let heads = store(&cell).join("heads");
    std::fs::rename(&heads, cell.directory().join("heads")).unwrap();
    std::fs::create_dir(&heads).unwrap();
    cell.serve();
    let refused = cell.shell("alice", "echo new > new");
    expect_state(&refused, "error");
    assert_eq!((code(&refused), &refused["ran"]), ("head_missing", &json!("no")), "{refused:#}");
    assert!(refused["problem"]["detail"].as_str().unwrap().contains("[snapshots] names the store"), "{refused:#}");
    let answer = cell.request("DELETE", &format!("/v1/slots/{key}"), &[], b"");
    let (found, _) = answer.problem(409);
    assert_eq!(found, "head_missing");
    assert!(answer.json()["hint"].as_str().unwrap().contains("backup"), "{}", answer.text());
    assert_eq!(std::fs::read_dir(&heads).unwrap().count(), 0, "nothing was written over it");
    std::fs::remove_dir(&heads).unwrap();
    std::fs::rename(cell.directory().join("heads"), &heads).unwrap();
    assert_eq!(cell.output_of("alice", "cat saved; ls"), "saved\nsaved\n");
    cell.finish();
}
