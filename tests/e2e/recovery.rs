//! Containers that vanish, servers that stop, objects that rot: what was acknowledged is there, and what cannot be had
//! is said.

use crate::support::{Cell, code, expect_state, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const BYPASS: &str = "[agents.coder.permissions]\nmode = \"bypass\"\n";

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

#[test]
fn a_container_that_vanishes_is_made_again_with_its_files() {
    let Some(cell) = Cell::bypass() else { return };
    for round in 0..2 {
        let command = format!("echo {round} >> log; cat log | wc -l");
        let result = cell.shell("alice", &command);
        assert_eq!(stdout(&result), format!("{}\n", round + 1));
        assert_eq!(result["slot"]["restored_from"].is_string(), round > 0, "{result:#}");
        cell.docker.remove(&cell.container());
    }
    assert_eq!(cell.output_of("alice", "cat log"), "0\n1\n");
    cell.finish();
}

#[test]
fn a_container_that_vanishes_under_a_call_is_told_and_the_next_call_goes_on() {
    let Some(cell) = Cell::bypass() else { return };
    cell.output_of("alice", "echo kept > file");
    let call = cell.start_shell("alice", "echo begun > begun; sleep 600");
    let container = cell.container();
    cell.wait_for_file("begun");
    cell.docker.remove(&container);
    let lost = cell.until(&call, "error");
    assert_eq!((code(&lost), &lost["ran"]), ("sandbox_lost", &json!("unknown")), "{lost:#}");
    let next = cell.shell("alice", "cat file begun");
    assert_eq!(stdout(&next), "kept\nbegun\n");
    assert!(next["slot"]["restored_from"].is_string(), "{next:#}");
    cell.finish();
}

#[test]
fn leftovers_of_its_own_are_removed_at_the_start_and_nothing_else_is() {
    let Some(mut cell) = Cell::bypass() else { return };
    cell.output_of("alice", "echo kept > file");
    let labels = cell.docker.inspect(&cell.container())["Config"]["Labels"].clone();
    cell.stop();
    // A key of the form of a slot's, which no container of the engine has.
    let slot = labels["toolcell.slot"].as_str().unwrap();
    let unique = cell.directory().file_name().unwrap().to_str().unwrap().to_owned();
    let own = format!("toolcell-e2e-{unique}-own");
    let foreign = format!("toolcell-e2e-{unique}-foreign");
    let unlabelled = format!("toolcell-e2e-{unique}-plain");
    cell.docker.create(&own, &labels);
    cell.docker
        .create(&foreign, &json!({ "toolcell.instance": "i_00000000000000000000000000000000", "toolcell.slot": slot }));
    cell.docker.create(&unlabelled, &json!({}));
    // What a crash between two steps leaves on this side.
    for part in ["run", "slots"] {
        std::fs::create_dir_all(cell.data_dir().join(part).join(slot).join("root-2f78")).unwrap();
    }
    cell.serve();
    let there: Vec<bool> = [&own, &foreign, &unlabelled].iter().map(|name| cell.docker.exists(name)).collect();
    cell.docker.remove(&foreign);
    cell.docker.remove(&unlabelled);
    assert_eq!(there, [false, true, true], "{}", cell.log());
    assert!(!cell.data_dir().join("run").join(slot).exists() && !cell.data_dir().join("slots").join(slot).exists());
    assert_eq!(cell.output_of("alice", "cat file"), "kept\n");
    cell.finish();
}

#[test]
fn an_idle_workspace_is_saved_and_stopped_and_comes_back() {
    let config = format!("[agents.coder]\nidle_timeout_ms = 1000\n{BYPASS}");
    let Some(cell) = Cell::start(&config) else { return };
    // Longer than the idle time: a call that runs is not idle.
    let first = cell.shell("alice", "sleep 1.8; echo kept > file; cat file");
    assert_eq!(stdout(&first), "kept\n");
    wait_for("the container is gone", Duration::from_secs(15), || {
        // Looking does not keep it awake.
        cell.get("/v1/calls");
        let containers = cell.containers();
        if containers.is_empty() { Ok(()) } else { Err(format!("{containers:?}")) }
    });
    let slot = first["slot"]["key"].as_str().unwrap();
    wait_for("the workspace's directory is gone", Duration::from_secs(5), || {
        if cell.workspace(slot).exists() { Err("it is there".to_owned()) } else { Ok(()) }
    });
    let back = cell.shell("alice", "cat file");
    assert_eq!(stdout(&back), "kept\n");
    assert!(back["slot"]["restored_from"].is_string(), "{back:#}");
    cell.finish();
}

#[test]
fn a_server_that_is_told_to_stop_lets_running_calls_end() {
    let Some(mut cell) = Cell::bypass() else { return };
    cell.output_of("alice", "true");
    let answer = std::thread::scope(|scope| {
        let client = (*cell).clone();
        let call = scope.spawn(move || client.shell("alice", "touch begun; sleep 1.5; echo done | tee file"));
        wait_for("the call runs", Duration::from_secs(10), || {
            let listed = cell.get("/v1/calls?state=running").json();
            if listed["items"][0].is_object() { Ok(()) } else { Err(listed.to_string()) }
        });
        cell.signal(Signal::TERM);
        call.join().unwrap()
    });
    assert_eq!(stdout(&answer), "done\n");
    cell.stopped();
    assert_eq!(cell.containers(), Vec::<String>::new());
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat file"), "done\n");
    cell.finish();
}

#[test]
fn a_call_that_outlasts_the_grace_time_is_cancelled_and_what_it_wrote_is_saved() {
    let Some(mut cell) = Cell::start(&format!("[server]\ngrace_ms = 500\n{BYPASS}")) else { return };
    cell.output_of("alice", "true");
    let call = cell.start_shell("alice", "echo kept > file; touch begun; sleep 600");
    cell.wait_for_file("begun");
    let waiting = json!([{ "tool": "execute", "input": { "command": "touch ran" } }]);
    let context = json!({ "agent": "coder", "user": "alice" });
    let waiting = cell.post("/v1/calls", &json!({ "context": context, "calls": waiting, "wait": "none" })).json();
    let waiting = waiting["results"][0]["ref"].as_str().unwrap().to_owned();
    let started = Instant::now();
    cell.stop();
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    cell.serve();
    expect_state(&cell.recorded(&call), "cancelled");
    let waiting = cell.recorded(&waiting);
    assert!(["cancelled", "error"].contains(&waiting["state"].as_str().unwrap()), "{waiting:#}");
    assert_eq!(cell.output_of("alice", "cat file; ls"), "kept\nbegun\nfile\n");
    cell.finish();
}

#[test]
fn a_damaged_snapshot_is_an_error_that_names_it_and_never_an_empty_workspace() {
    let Some(mut cell) = Cell::bypass() else { return };
    let slot = cell.shell("alice", "echo kept > file; head -c 100000 /dev/urandom > more")["slot"]["key"].clone();
    cell.output_of("bob", "echo fine > file");
    cell.stop();
    let objects = cell.data_dir().join("snapshots/objects").join(slot.as_str().unwrap());
    let packs = files(&objects.join("packs"));
    assert!(!packs.is_empty());
    let whole: Vec<Vec<u8>> = packs.iter().map(|pack| std::fs::read(pack).unwrap()).collect();
    let damage = |at: fn(usize) -> std::ops::Range<usize>| {
        for (path, bytes) in packs.iter().zip(&whole) {
            let mut bytes = bytes.clone();
            let range = at(bytes.len());
            bytes[range].iter_mut().for_each(|byte| *byte ^= 0x55);
            std::fs::write(path, bytes).unwrap();
        }
    };
    let names: Vec<&str> = packs.iter().map(|pack| pack.file_name().unwrap().to_str().unwrap()).collect();
    let corrupt = |cell: &Cell| {
        let result = cell.shell("alice", "ls");
        expect_state(&result, "error");
        assert_eq!((code(&result), &result["ran"]), ("snapshot_corrupt", &json!("no")), "{result:#}");
        let detail = result["problem"]["detail"].as_str().unwrap().to_owned();
        assert!(names.iter().any(|name| detail.contains(name)), "{detail}");
    };
    cell.serve();
    damage(|length| length / 2..length / 2 + 1);
    corrupt(&cell);
    damage(|length| 0..length);
    corrupt(&cell);
    for pack in &packs {
        std::fs::remove_file(pack).unwrap();
    }
    corrupt(&cell);
    // Others have nothing to do with it.
    assert_eq!(cell.output_of("bob", "cat file"), "fine\n");
    // Nothing was seeded over it: with its objects back it is what it was.
    for (path, bytes) in packs.iter().zip(&whole) {
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(cell.output_of("alice", "cat file; stat -c %s more"), "kept\n100000\n");
    cell.finish();
}

#[test]
fn a_head_that_vanishes_is_refused_and_never_seeded_over() {
    let Some(mut cell) = Cell::bypass() else { return };
    let slot = cell.shell("alice", "echo kept > file")["slot"]["key"].as_str().unwrap().to_owned();
    cell.stop();
    let head = cell.data_dir().join("snapshots/heads").join(&slot);
    let bytes = std::fs::read(&head).unwrap();
    std::fs::remove_file(&head).unwrap();
    cell.serve();
    let result = cell.shell("alice", "ls");
    expect_state(&result, "error");
    assert_eq!((code(&result), &result["ran"]), ("head_missing", &json!("no")), "{result:#}");
    assert!(!head.exists());
    std::fs::write(&head, bytes).unwrap();
    assert_eq!(cell.output_of("alice", "cat file"), "kept\n");
    cell.finish();
}

#[test]
fn with_durability_call_a_result_is_on_disk_before_it_is_told() {
    let Some(mut cell) = Cell::start(&format!("[snapshots]\ndurability = \"call\"\n{BYPASS}")) else { return };
    for round in 0..3 {
        let result = cell.shell("alice", &format!("echo {round} >> log"));
        expect_state(&result, "succeeded");
        assert_eq!(result["slot"]["durable"], true, "{result:#}");
        assert!(result["slot"]["snapshot"].is_string(), "{result:#}");
        // All that is left is the snapshot store.
        let container = cell.container();
        cell.kill();
        cell.docker.remove(&container);
        cell.lose_workspaces();
        cell.serve();
        let expected: String = (0..=round).map(|round| format!("{round}\n")).collect();
        let back = cell.shell("alice", "cat log");
        assert_eq!(stdout(&back), expected);
        assert_eq!(back["slot"]["restored_from"], result["slot"]["snapshot"], "{back:#}");
    }
    cell.finish();
}

#[test]
fn a_server_that_is_killed_at_any_moment_loses_nothing_that_it_acknowledged() {
    let Some(mut cell) = Cell::start(&format!("[snapshots]\ndurability = \"call\"\n{BYPASS}")) else { return };
    let mut acknowledged = Vec::new();
    let alice = json!({ "agent": "coder", "user": "alice" });
    // From before the lease to after the answer; a cold start takes some 300 ms.
    for round in 0..12_u64 {
        let call = json!([{ "id": round.to_string(), "tool": "execute", "input": { "command": format!("touch done{round}") } }]);
        let body = json!({ "context": alice, "calls": call });
        let client = (*cell).clone();
        let asked = std::thread::spawn(move || client.try_post("/v1/calls", &body));
        std::thread::sleep(Duration::from_millis(round * 35));
        cell.kill();
        let answer = asked.join().unwrap().map(|answer| answer.json()["results"][0].clone());
        if let Ok(result) = answer
            && result["slot"]["durable"] == true
        {
            acknowledged.push(round);
        }
        if round % 3 == 2 {
            for container in cell.containers() {
                cell.docker.remove(&container);
            }
        }
        cell.serve();
    }
    let files = cell.output_of("alice", "ls");
    let there = |round: &u64| files.lines().any(|name| name == format!("done{round}"));
    assert!(acknowledged.iter().all(there), "acknowledged: {acknowledged:?}; there: {files}");
    // Whatever was recorded has ended, and nothing ran twice or half.
    let listed = cell.get("/v1/calls?limit=100").json();
    for call in listed["items"].as_array().unwrap() {
        assert!(["succeeded", "error"].contains(&call["state"].as_str().unwrap()), "{call:#}");
        let round: u64 = call["id"].as_str().unwrap().parse().unwrap_or(99);
        if call["state"] == "succeeded" && round < 99 {
            assert!(there(&round), "{call:#}");
        }
        if call["ran"] == "no" {
            assert!(!there(&round), "{call:#}");
        }
    }
    cell.finish();
}

#[test]
fn a_server_of_an_ordinary_user_works_and_leaves_nothing() {
    use std::os::unix::fs::{MetadataExt, chown};
    let Some(mut cell) = Cell::new(BYPASS) else { return };
    if !rustix::process::getuid().is_root() {
        // Every other test is this one.
        return cell.finish();
    }
    // Neither the superuser nor the uid that tools have, and allowed to use the engine.
    const USER: u32 = 12_345;
    let group = std::fs::metadata(cell.docker.socket()).unwrap().gid().to_string();
    let program = cell.directory().join("toolcell");
    std::fs::copy(crate::support::program(), &program).unwrap();
    for path in [cell.directory(), &program, &cell.config_file()] {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    let serve = |cell: &mut Cell| {
        let mut command = std::process::Command::new("setpriv");
        let user = USER.to_string();
        command.args(["--reuid", &user, "--regid", &user, "--groups", &group, "--"]).arg(&program);
        command.args(["serve", "--config"]).arg(cell.config_file());
        cell.try_serve_with(command).unwrap_or_else(|ended| panic!("{ended:?}"));
    };
    serve(&mut cell);
    let ephemeral = cell.call_in(&json!({ "agent": "coder" }), "execute", &json!({ "command": "mkdir d; touch d/f" }));
    expect_state(&ephemeral, "succeeded");
    cell.output_of("alice", "mkdir -p d/e && echo kept > d/e/file && chmod 500 d/e && chmod 700 d");
    let log = cell.stop();
    assert!(!log.contains("WARN a ") && !log.contains("ERROR"), "{log}");
    serve(&mut cell);
    assert_eq!(cell.output_of("alice", "cat d/e/file"), "kept\n");
    cell.finish();
}

#[test]
fn with_durability_lazy_a_change_is_saved_within_the_lag() {
    let Some(mut cell) = Cell::start(&format!("[snapshots]\nmax_lag_ms = 300\n{BYPASS}")) else { return };
    let result = cell.shell("alice", "echo kept > file");
    assert_eq!(result["slot"]["durable"], false, "{result:#}");
    let read = wait_for("the change is saved", Duration::from_secs(10), || {
        let read = cell.call("alice", "read_file", &json!({ "path": "file" }));
        if read["slot"]["durable"] == true { Ok(read) } else { Err(read.to_string()) }
    });
    assert!(read["slot"]["snapshot"].is_string(), "{read:#}");
    let container = cell.container();
    cell.kill();
    cell.docker.remove(&container);
    cell.lose_workspaces();
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat file"), "kept\n");
    cell.finish();
}

#[test]
fn a_store_that_keeps_nothing_says_so_in_every_result() {
    let Some(mut cell) = Cell::start(&format!("[snapshots]\nstore = \"none\"\n{BYPASS}")) else { return };
    for command in ["echo here > file", "cat file"] {
        let result = cell.shell("alice", command);
        expect_state(&result, "succeeded");
        let slot = &result["slot"];
        assert_eq!(
            (&slot["durable"], &slot["snapshot"], &slot["ephemeral"]),
            (&json!("none"), &Value::Null, &json!(false))
        );
    }
    cell.stop();
    assert_eq!(files(&cell.data_dir()).iter().filter(|path| path.ends_with("file")).count(), 0);
    cell.serve();
    let after = cell.shell("alice", "ls");
    assert_eq!((stdout(&after).as_str(), &after["slot"]["restored_from"]), ("", &Value::Null));
    // Killed: the container still has it, and the next server does not go on with it as if it were kept.
    cell.output_of("alice", "echo here > file");
    cell.kill();
    cell.serve();
    assert_eq!(cell.output_of("alice", "ls"), "");
    cell.finish();
}
