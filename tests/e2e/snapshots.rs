//! Snapshots as an operator uses them: history, going back, verifying, copies, archives, collection.

use crate::support::{Cell, code, expect_state, stdout};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const CALL: &str = "[snapshots]\ndurability = \"call\"\n[agents.coder.permissions]\nmode = \"bypass\"\n";

fn slot_of(result: &Value) -> String {
    result["slot"]["key"].as_str().unwrap_or_else(|| panic!("{result:#}")).to_owned()
}

fn snapshot_of(result: &Value) -> String {
    result["slot"]["snapshot"].as_str().unwrap_or_else(|| panic!("{result:#}")).to_owned()
}

#[track_caller]
fn post(cell: &Cell, path: &str, body: &Value) -> Value {
    let answer = cell.post(path, body);
    assert!(answer.status < 300, "{path}: {}", answer.text());
    answer.json()
}

fn history(cell: &Cell, slot: &str) -> Vec<Value> {
    let answer = cell.get(&format!("/v1/slots/{slot}/snapshots"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["items"].as_array().unwrap().clone()
}

#[test]
fn the_history_grows_and_going_back_brings_an_older_state_as_it_was() {
    let Some(mut cell) = Cell::start(CALL) else { return };
    let first = cell.shell("alice", "echo one > file; echo kept > kept");
    let (slot, one) = (slot_of(&first), snapshot_of(&first));
    let two = snapshot_of(&cell.shell("alice", "echo two > file; rm kept; echo later > later"));
    let items = history(&cell, &slot);
    assert_eq!(items.len(), 2, "{items:#?}");
    assert_eq!((&items[0]["snapshot"], &items[0]["parent"]), (&json!(two), &json!(one)));
    assert_eq!((&items[1]["snapshot"], &items[1]["newest"]), (&json!(one), &json!(false)));
    for field in ["bytes", "new_bytes", "files", "token", "generation", "created_at_ms"] {
        assert!(items[0][field].is_u64(), "{field}: {items:#?}");
    }
    // Page by page.
    let page = cell.get(&format!("/v1/slots/{slot}/snapshots?limit=1")).json();
    let rest = cell.get(&format!("/v1/slots/{slot}/snapshots?limit=1&next={}", page["next"].as_str().unwrap())).json();
    assert_eq!(json!([page["items"][0], rest["items"][0]]), json!(items));
    assert_eq!(rest["next"], Value::Null);

    let restored = post(&cell, &format!("/v1/slots/{slot}/restore"), &json!({ "snapshot": one }));
    let newest = restored["snapshot"].as_str().unwrap();
    assert_ne!(newest, one, "a new commit, not a rewind");
    let after = cell.shell("alice", "cat file; ls");
    assert_eq!(stdout(&after), "one\nfile\nkept\n", "what was made later is gone, what was deleted is back");
    assert_eq!(after["slot"]["restored_from"], newest);
    // And forward again, after a restart.
    post(&cell, &format!("/v1/slots/{slot}/restore"), &json!({ "snapshot": two }));
    cell.stop();
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat file; ls"), "two\nfile\nlater\n", "what was deleted stays deleted");
    assert!(history(&cell, &slot).len() >= 4);
    cell.finish();
}

#[test]
fn going_back_saves_what_is_there_first() {
    let config = CALL.replace("\"call\"", "\"stop\"");
    let Some(cell) = Cell::start(&config) else { return };
    let slot = slot_of(&cell.shell("alice", "echo one > file"));
    let one = post(&cell, &format!("/v1/slots/{slot}/snapshot"), &json!({}))["snapshot"].clone();
    cell.output_of("alice", "echo unsaved > file");
    post(&cell, &format!("/v1/slots/{slot}/restore"), &json!({ "snapshot": one }));
    assert_eq!(cell.output_of("alice", "cat file"), "one\n");
    let unsaved = history(&cell, &slot)[1]["snapshot"].clone();
    post(&cell, &format!("/v1/slots/{slot}/restore"), &json!({ "snapshot": unsaved }));
    assert_eq!(cell.output_of("alice", "cat file"), "unsaved\n");
    cell.finish();
}

#[test]
fn requests_about_snapshots_that_cannot_be_done_say_why() {
    let Some(cell) = Cell::start(CALL) else { return };
    let slot = slot_of(&cell.shell("alice", "true"));
    let other = slot_of(&cell.shell("bob", "echo x > x"));
    let foreign = history(&cell, &other)[0]["snapshot"].clone();
    let unknown = format!("s1{}", "a".repeat(51) + "q");
    for (path, body, status, expected) in [
        (format!("/v1/slots/{slot}/restore"), json!({}), 400, "invalid_request"),
        (format!("/v1/slots/{slot}/restore"), json!({ "snapshot": "x" }), 400, "invalid_request"),
        (format!("/v1/slots/{slot}/restore"), json!({ "snapshot": foreign }), 404, "not_found"),
        (format!("/v1/slots/{slot}/restore"), json!({ "snapshot": foreign, "force": true }), 400, "invalid_request"),
        (format!("/v1/slots/{unknown}/restore"), json!({ "snapshot": foreign }), 404, "not_found"),
        (format!("/v1/slots/{slot}/verify"), json!({ "snapshot": foreign }), 404, "not_found"),
        (format!("/v1/slots/{slot}/gc"), json!({ "all": true }), 400, "invalid_request"),
        (format!("/v1/slots/{slot}/fork"), json!({}), 400, "invalid_request"),
        (format!("/v1/slots/{slot}/fork"), json!({ "to": { "agent": "coder" } }), 422, "identity_required"),
        (format!("/v1/slots/{slot}/fork"), json!({ "to": { "agent": "nobody" } }), 404, "unknown_agent"),
        (
            format!("/v1/slots/{other}/fork"),
            json!({ "to": { "agent": "coder", "user": "alice" } }),
            409,
            "target_not_empty",
        ),
    ] {
        let (found, detail) = cell.post(&path, &body).problem(status);
        assert_eq!(found, expected, "{path} {body}: {detail}");
    }
    for path in [format!("/v1/slots/{unknown}/snapshots"), format!("/v1/slots/{unknown}/archive")] {
        assert_eq!(cell.get(&path).problem(404).0, "not_found");
    }
    assert_eq!(cell.get(&format!("/v1/slots/{slot}/snapshots?next=x")).problem(400).0, "invalid_request");
    cell.finish();
}

#[test]
fn a_store_that_keeps_nothing_has_no_snapshots_to_operate_on() {
    let Some(cell) = Cell::start(&CALL.replace("[snapshots]\n", "[snapshots]\nstore = \"none\"\n")) else { return };
    let slot = slot_of(&cell.shell("alice", "echo x > x"));
    assert_eq!(cell.get(&format!("/v1/slots/{slot}/snapshots")).problem(409).0, "no_store");
    assert_eq!(cell.post(&format!("/v1/slots/{slot}/snapshot"), &json!({})).problem(409).0, "no_store");
    assert_eq!(cell.request("DELETE", &format!("/v1/slots/{slot}"), &[], b"").status, 200);
    assert_eq!(cell.output_of("alice", "ls"), "");
    cell.finish();
}

/// The packs of a slot in the local store.
fn packs(cell: &Cell, slot: &str) -> Vec<PathBuf> {
    let directory = cell.data_dir().join("snapshots/objects").join(slot).join("packs");
    let mut found: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn flip_a_byte(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_byte_is_found_by_name_and_a_call_is_offered_an_older_snapshot_that_is_whole() {
    let Some(cell) = Cell::start(CALL) else { return };
    let first = cell.shell("alice", "echo old > old");
    let (slot, old) = (slot_of(&first), snapshot_of(&first));
    let before = packs(&cell, &slot);
    let new = snapshot_of(&cell.shell("alice", "head -c 2000000 /dev/urandom > new"));
    let whole = post(&cell, &format!("/v1/slots/{slot}/verify"), &json!({}));
    assert_eq!((&whole["whole"], &whole["problems"]), (&json!(true), &json!([])), "{whole:#}");
    post(&cell, &format!("/v1/slots/{slot}/stop"), &json!({}));
    let pack = packs(&cell, &slot).into_iter().find(|pack| !before.contains(pack)).unwrap();
    flip_a_byte(&pack);
    let name = pack.file_name().unwrap().to_str().unwrap();

    let damaged = post(&cell, &format!("/v1/slots/{slot}/verify"), &json!({}));
    assert_eq!(damaged["whole"], false, "{damaged:#}");
    let problem = &damaged["problems"][0];
    assert!(problem["object"].as_str().unwrap().contains(name), "{damaged:#}");
    assert!(problem["snapshots"].as_array().unwrap().contains(&json!(new)), "{damaged:#}");
    let older = post(&cell, &format!("/v1/slots/{slot}/verify"), &json!({ "snapshot": old }));
    assert_eq!(older["whole"], true, "{older:#}");
    let by_command = cell.toolcell(&["snapshots", "verify", &slot]);
    assert!(by_command.code == Some(1) && by_command.stdout.contains(name), "{by_command:?}");

    let refused = cell.shell("alice", "ls");
    expect_state(&refused, "error");
    assert_eq!((code(&refused), &refused["ran"]), ("snapshot_corrupt", &json!("no")), "{refused:#}");
    let detail = refused["problem"]["detail"].as_str().unwrap();
    assert!(detail.contains(name), "{detail}");
    assert!(detail.contains(&format!("toolcell snapshots restore {slot} {old}")), "{detail}");
    let restored = cell.toolcell(&["snapshots", "restore", &slot, &old]);
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert_eq!(cell.output_of("alice", "ls"), "old\n");
    cell.finish();
}

#[test]
fn the_command_line_shows_a_history_and_goes_back_with_and_without_a_server() {
    let Some(mut cell) = Cell::new(CALL) else { return };
    let run = |cell: &Cell, command: &str| {
        let ended = cell.toolcell(&["run", "--agent", "coder", "--user", "alice", "--", "sh", "-c", command]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    };
    let which = ["--agent", "coder", "--user", "alice"];
    for with_server in [false, true] {
        if with_server {
            cell.serve();
        }
        run(&cell, "echo one > file");
        let taken = cell.toolcell(&[&["snapshots", "take"], &which[..]].concat());
        let one = taken.stdout.trim().to_owned();
        assert!(taken.code == Some(0) && one.starts_with("snap_"), "{taken:?}");
        run(&cell, "echo two > file");
        let listed = cell.toolcell(&[&["snapshots", "list", "--json"], &which[..]].concat());
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|error| panic!("{error}: {listed:?}"));
        let items = listed["items"].as_array().unwrap();
        assert!(items.len() >= 2 && items[1..].iter().any(|item| item["snapshot"] == json!(one)), "{listed:#}");
        let table = cell.toolcell(&[&["snapshots", "list"], &which[..]].concat());
        assert!(table.stdout.starts_with("SNAPSHOT") && table.stdout.contains(&one), "{table:?}");
        assert_eq!(table.stdout.lines().count(), items.len() + 1);
        let shown = cell.toolcell(&[&["snapshots", "show", &one, "--json"], &which[..]].concat());
        assert_eq!(serde_json::from_str::<Value>(&shown.stdout).unwrap()["snapshot"], json!(one));
        let restored = cell.toolcell(&[&["snapshots", "restore", &one], &which[..]].concat());
        assert!(restored.code == Some(0) && restored.stderr.is_empty(), "{restored:?}");
        assert_eq!(run(&cell, "cat file"), "one\n");
        let verified = cell.toolcell(&[&["snapshots", "verify"], &which[..]].concat());
        assert!(verified.code == Some(0) && verified.stdout.contains("is whole"), "{verified:?}");
        let (what, why, hint) = cell.toolcell(&[&["snapshots", "restore"], &which[..]].concat()).failure(125);
        assert!(why.contains("snap_") && hint.unwrap().contains("snapshots list"), "{what} {why}");
        let unknown = format!("snap_{}", "0".repeat(32));
        let (_, why, _) = cell.toolcell(&[&["snapshots", "restore", &unknown], &which[..]].concat()).failure(125);
        assert!(why.contains("not_found"), "{why}");
    }
    cell.finish();
}
