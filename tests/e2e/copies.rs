//! Copies of a workspace: forks and archives; and what is removed of its history.

use crate::support::Cell;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

const CALL: &str = "[snapshots]\ndurability = \"call\"\nkeep_last = 2\n[agents.coder.permissions]\nmode = \"bypass\"\n";

/// Kinds of things that a workspace may hold.
const MAKE: &str = "mkdir -p d/empty; echo text > d/file; ln d/file hard; ln -s d/file link; chmod 750 d/file; \
    head -c 300000 /dev/urandom > random; truncate -s 5M sparse; touch -d '2001-02-03 04:05:06.789' old; \
    printf x > \"$(printf 'odd\\377')\"";
/// Everything that an archive must bring back, in an order of its own.
const LOOK: &str = "{ find . -printf '%y %m %s %T@ %n %l %p\\n' | sort -k7 | sed 's/^d \\([0-9]*\\) [0-9]*/d \\1/'; \
    find . -type f -exec sha256sum {} + | sort -k2; stat -c %i hard d/file | uniq | wc -l; } | cat -v";

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
fn what_is_exported_and_imported_is_the_same_by_command_and_over_http() {
    let Some(mut cell) = Cell::new(CALL) else { return };
    let run = |cell: &Cell, user: &str, command: &str| {
        let ended = cell.toolcell(&["run", "--agent", "coder", "--user", user, "--", "sh", "-c", command]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    };
    run(&cell, "alice", MAKE);
    let original = run(&cell, "alice", LOOK);
    for (round, name) in ["plain.tar", "small.tar.zst"].into_iter().enumerate() {
        if round == 1 {
            cell.serve();
        }
        let archive = cell.directory().join(name);
        let archive = archive.to_str().unwrap();
        let export = |more: &[&str]| {
            let words = ["snapshots", "export", "--agent", "coder", "--user", "alice", "--output", archive];
            cell.toolcell(&[&words[..], more].concat())
        };
        let exported = export(&[]);
        assert!(exported.code == Some(0) && exported.stderr.is_empty(), "{exported:?}");
        let (_, why, hint) = export(&[]).failure(125);
        assert!(why.contains("is there already") && hint.unwrap().contains("--force"), "{why}");
        assert_eq!(export(&["--force"]).code, Some(0));
        let user = format!("bob{round}");
        let imported = cell.toolcell(&["snapshots", "import", "--agent", "coder", "--user", &user, "--input", archive]);
        assert!(imported.code == Some(0) && imported.stdout.starts_with("snap_"), "{imported:?}");
        assert_eq!(run(&cell, &user, LOOK), original);
    }
    let parts: Vec<_> = std::fs::read_dir(cell.directory()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!parts.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{parts:?}");
    let to_stdout = ["snapshots", "export", "--agent", "coder", "--user", "alice", "--output", "-"];
    let piped = cell.command(&to_stdout).output().unwrap();
    assert!(piped.status.success() && piped.stdout.len() > 300_000);

    let slot = cell.get("/v1/slots?agent=coder&user=alice").json()["items"][0]["key"].as_str().unwrap().to_owned();
    let path = format!("/v1/slots/{slot}/archive");
    let plain = cell.get(&path);
    assert_eq!((plain.status, plain.header("content-encoding")), (200, None));
    let small = cell.request("GET", &path, &[("Accept-Encoding", "gzip, zstd")], b"");
    assert_eq!(small.header("content-encoding"), Some("zstd"));
    assert_eq!(small.body[..4], [0x28, 0xb5, 0x2f, 0xfd]);
    let carol = post(&cell, "/v1/slots", &json!({ "agent": "coder", "user": "carol" }))["key"].clone();
    let target = format!("/v1/slots/{}/archive", carol.as_str().unwrap());
    let put = cell.request("PUT", &target, &[("Content-Encoding", "zstd")], &small.body);
    assert_eq!(put.status, 200, "{}", put.text());
    assert_eq!(cell.output_of("carol", LOOK), original);
    let refused = cell.request("PUT", &target, &[("Content-Encoding", "gzip")], b"x");
    assert_eq!(refused.problem(415).0, "unsupported_encoding");
    cell.finish();
}

#[test]
fn an_archive_that_is_none_or_breaks_off_commits_nothing() {
    let Some(cell) = Cell::start(CALL) else { return };
    let slot = slot_of(&cell.shell("alice", "echo kept > file; head -c 3000000 /dev/urandom > random"));
    let path = format!("/v1/slots/{slot}/archive");
    let archive = cell.get(&path).body;
    let before = history(&cell, &slot);
    let nonsense = cell.request("PUT", &path, &[], &[7; 4096]);
    assert_eq!(nonsense.problem(422).0, "archive_malformed");
    // Cut in the middle, and the client hangs up.
    let address = cell.url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", archive.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&archive[..archive.len() / 2]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    // A whole transfer of half an archive.
    let half = cell.request("PUT", &path, &[], &archive[..archive.len() / 2]);
    assert!(half.status >= 400, "{}", half.text());
    assert_eq!(history(&cell, &slot)[0]["snapshot"], before[0]["snapshot"]);
    assert_eq!(cell.output_of("alice", "cat file"), "kept\n");
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
