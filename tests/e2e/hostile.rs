//! What tools, clients and machines can do to a slot must not lock it, lose it, or stop the server.

use crate::support::{Cell, code, expect_state, stdout, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

const CALL: &str = "[snapshots]\ndurability = \"call\"\n[agents.coder.permissions]\nmode = \"bypass\"\n";

#[test]
fn a_workspace_that_cannot_be_saved_can_be_put_right_by_its_own_calls() {
    let Some(mut cell) = Cell::start(CALL) else { return };
    cell.output_of("alice", "echo precious > p");
    // Holes cost nothing, and make the file larger than any workspace may be.
    let unsaved = cell.shell("alice", "truncate -s 2T big");
    assert_eq!((code(&unsaved), &unsaved["ran"]), ("too_large", &json!("yes")), "{unsaved:#}");
    assert_eq!(unsaved["slot"]["durable"], json!(false));
    let read = cell.call("alice", "read_file", &json!({ "path": "p" }));
    assert_eq!(read["output"]["content"], "precious\n");
    // Neither a stop nor a start needs it to be saved.
    let ended = {
        cell.signal(Signal::TERM);
        cell.ended()
    };
    ended.failure(125);
    cell.serve();
    let repaired = cell.shell("alice", "rm big; cat p");
    assert_eq!(stdout(&repaired), "precious\n");
    assert_eq!(repaired["slot"]["durable"], json!(true), "{repaired:#}");
    cell.finish();
}

/// The store takes nothing while a file stands at its place.
fn break_store(cell: &Cell) -> PathBuf {
    let away = cell.directory().join("snapshots-away");
    std::fs::rename(cell.data_dir().join("snapshots"), &away).unwrap();
    std::fs::write(cell.data_dir().join("snapshots"), "").unwrap();
    away
}

fn mend_store(cell: &Cell, away: &PathBuf) {
    std::fs::remove_file(cell.data_dir().join("snapshots")).unwrap();
    std::fs::rename(away, cell.data_dir().join("snapshots")).unwrap();
}

#[test]
fn what_a_stop_could_not_save_survives_a_reboot() {
    let Some(mut cell) = Cell::start(CALL) else { return };
    let slot = cell.shell("alice", "echo saved > old")["slot"]["key"].as_str().unwrap().to_owned();
    let away = break_store(&cell);
    let unsaved = cell.shell("alice", "echo hours > new");
    expect_state(&unsaved, "error");
    cell.signal(Signal::TERM);
    cell.ended().failure(125);
    mend_store(&cell, &away);
    // A reboot ends containers, and the workspace's mark must not depend on the boot.
    cell.docker.remove(&cell.container());
    let mark = std::fs::read_to_string(cell.data_dir().join("slots").join(&slot).join("boot")).unwrap();
    assert_eq!(mark, "synced\n");
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat old new"), "saved\nhours\n");
    cell.finish();
}

#[test]
fn what_a_machines_crash_left_is_set_aside_and_the_slot_goes_on_from_its_snapshot() {
    let Some(mut cell) = Cell::start(CALL) else { return };
    let slot = cell.shell("alice", "echo saved > old")["slot"]["key"].as_str().unwrap().to_owned();
    cell.kill();
    cell.docker.remove(&cell.container());
    std::fs::write(cell.data_dir().join("slots").join(&slot).join("boot"), "another boot\n").unwrap();
    cell.serve();
    let next = cell.shell("alice", "cat old");
    assert_eq!(stdout(&next), "saved\n");
    assert!(next["slot"]["restored_from"].is_string(), "{next:#}");
    let aside: Vec<_> = std::fs::read_dir(cell.data_dir().join("unsaved")).unwrap().flatten().collect();
    assert_eq!(aside.len(), 1);
    assert!(aside[0].file_name().to_str().unwrap().starts_with(&slot));
    cell.finish();
}

#[test]
fn a_tree_that_cannot_be_ended_is_answered_in_time() {
    let Some(cell) = Cell::bypass() else { return };
    let call = cell.start_shell("alice", "echo out; touch begun; exec sleep 600");
    cell.wait_for_file("begun");
    // Nothing in the container can stop its keeper; this host's root can, and then no process of the call ends.
    let guest = cell.docker.inspect(&cell.container())["State"]["Pid"].as_u64().unwrap();
    let keeper = wait_for("the call's keeper", Duration::from_secs(10), || {
        keeper_with_a_tool(guest).ok_or_else(|| format!("children of {guest}: {:?}", children(guest)))
    });
    let keeper = Pid::from_raw(i32::try_from(keeper).unwrap()).unwrap();
    kill_process(keeper, Signal::STOP).unwrap();
    let asked = Instant::now();
    cell.post(&format!("/v1/calls/{call}/cancel"), &json!({}));
    let ended = cell.until(&call, "cancelled");
    assert!(asked.elapsed() < Duration::from_secs(6), "answered after {:?}", asked.elapsed());
    assert_eq!(ended["output"]["stdout"], "out\n", "{ended:#}");
    kill_process(keeper, Signal::CONT).unwrap();
    expect_state(&cell.shell("alice", "true"), "succeeded");
    cell.finish();
}

fn children(pid: u64) -> Vec<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

fn keeper_with_a_tool(guest: u64) -> Option<u64> {
    children(guest).into_iter().find(|keeper| !children(*keeper).is_empty())
}

#[test]
fn an_ephemeral_batch_loses_only_the_call_whose_container_died() {
    let Some(cell) = Cell::bypass() else { return };
    let calls = json!([
        { "id": "a", "tool": "execute", "input": { "command": "sleep 600" } },
        { "id": "b", "tool": "execute", "input": { "command": "echo b" } },
        { "id": "c", "tool": "execute", "input": { "command": "echo c" } },
    ]);
    std::thread::scope(|scope| {
        let batch = scope.spawn(|| cell.batch(&json!({ "agent": "coder" }), &calls));
        let container = wait_for("a container", Duration::from_secs(30), || {
            let running = cell.get("/v1/calls?state=running").json();
            let begun = running["items"].as_array().is_some_and(|items| !items.is_empty());
            cell.containers().pop().filter(|_| begun).ok_or_else(|| running.to_string())
        });
        cell.docker.remove(&container);
        let results = batch.join().unwrap();
        assert_eq!(code(&results[0]), "sandbox_lost");
        assert_eq!((stdout(&results[1]), stdout(&results[2])), ("b\n".to_owned(), "c\n".to_owned()));
    });
    cell.finish();
}

#[test]
fn clients_that_say_half_of_something_do_not_keep_the_owner_out() {
    let Some(cell) = Cell::start(CALL) else { return };
    let address = cell.url();
    let address = address.strip_prefix("http://").unwrap();
    let half: Vec<TcpStream> = (0..600)
        .map_while(|_| {
            let mut stream = TcpStream::connect(address).ok()?;
            stream.write_all(b"POST /v1/calls HTTP/1.1\r\nhost: local").ok()?;
            Some(stream)
        })
        .collect();
    assert!(half.len() > 500, "{} connections", half.len());
    // Over the data directory's socket calls run and are saved.
    let ended = cell.toolcell(&["run", "--agent", "coder", "--user", "alice", "--", "touch", "kept"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    drop(half);
    assert_eq!(cell.output_of("alice", "ls"), "kept\n");
    cell.finish();
}

#[test]
fn shared_memory_ends_with_its_call() {
    let Some(cell) = Cell::bypass() else { return };
    let leak = "python3 -c 'import ctypes; c = ctypes.CDLL(None); i = c.shmget(0, 8 << 20, 0o1600); \
                c.shmat.restype = ctypes.c_void_p; assert c.shmat(i, None, 0); print(\"made\")'";
    assert_eq!(cell.output_of("alice", leak), "made\n");
    assert_eq!(cell.output_of("alice", "tail -n +2 /proc/sysvipc/shm | wc -l"), "0\n");
    cell.finish();
}

#[test]
fn a_listener_that_takes_nothing_keeps_no_call_alive() {
    let Some(cell) = Cell::bypass() else { return };
    let endless = ["--", "sh", "-c", "touch begun; exec yes"];
    let run = |options: &[&str]| {
        let arguments = [&["run", "--agent", "coder", "--user", "alice"], options, &endless].concat();
        // Its output is a pipe that nobody reads.
        cell.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    for (options, state) in [(&[][..], "cancelled"), (&["--timeout", "1"], "timed_out")] {
        let mut child = run(options);
        let call = wait_for("the call", Duration::from_secs(30), || {
            let running = cell.get("/v1/calls?state=running").json();
            running["items"][0]["ref"].as_str().map(str::to_owned).ok_or_else(|| running.to_string())
        });
        cell.wait_for_file("begun");
        if state == "cancelled" {
            cell.post(&format!("/v1/calls/{call}/cancel"), &json!({}));
        }
        cell.until(&call, state);
        child.kill().unwrap();
        child.wait().unwrap();
        cell.output_of("alice", "rm begun");
    }
    cell.finish();
}
