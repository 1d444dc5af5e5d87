//! An engine that is not there, a disk that is full, a process that dies.

use crate::support::{Cell, code, expect_state, program, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::Duration;

const BYPASS: &str = "[agents.coder.permissions]\nmode = \"bypass\"\n";

#[test]
fn an_engine_that_comes_later_is_used_as_soon_as_it_is_there() {
    let Some(mut cell) = Cell::new("") else { return };
    let socket = cell.directory().join("docker.sock");
    cell.configure(&format!("[docker]\nhost = \"unix://{}\"\n{BYPASS}", socket.display()));
    cell.serve();
    let (code_of, detail) = cell.get("/readyz").problem(503);
    assert_eq!(code_of, "docker_unavailable");
    assert!(detail.contains(socket.to_str().unwrap()), "{detail}");
    assert_eq!(cell.get("/healthz").status, 200);
    let result = cell.shell("alice", "echo ran");
    expect_state(&result, "error");
    assert_eq!((code(&result), &result["ran"]), ("docker_unavailable", &json!("no")), "{result:#}");
    let problem = &result["problem"];
    assert!(problem["detail"].as_str().unwrap().contains("start the Docker engine"), "{problem}");
    assert!(problem["retry_after_ms"].is_u64(), "{problem}");

    symlink(cell.docker.socket(), &socket).unwrap();
    assert_eq!(cell.output_of("alice", "echo ran | tee file"), "ran\n");
    assert_eq!(cell.get("/readyz").status, 200);
    // Gone again: what runs has a connection of its own, and what is new says so.
    std::fs::remove_file(&socket).unwrap();
    assert_eq!(cell.output_of("alice", "cat file"), "ran\n");
    assert_eq!(code(&cell.shell("bob", "true")), "docker_unavailable");
    cell.get("/readyz").problem(503);
    symlink(cell.docker.socket(), &socket).unwrap();
    assert_eq!(cell.output_of("bob", "echo ran"), "ran\n");
    cell.finish();
}

#[test]
fn commands_without_a_server_say_that_there_is_no_engine() {
    let Some(cell) = Cell::new("[docker]\nhost = \"unix:///no/such.sock\"\n[agents.coder]\n") else { return };
    let ended = cell.toolcell(&["run", "--agent", "coder", "--user", "alice", "--", "true"]);
    let (_, why, _) = ended.failure(125);
    assert!(why.contains("/no/such.sock") && why.contains("start the Docker engine"), "{why}");
    cell.finish();
}

#[test]
fn an_engine_that_this_user_may_not_use_is_named_with_what_to_do() {
    let Some(mut cell) = Cell::new("") else { return };
    // A socket that is there and refuses. The superuser is refused nothing, so it becomes somebody else.
    let socket = cell.directory().join("docker.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o000)).unwrap();
    cell.configure(&format!("[docker]\nhost = \"unix://{}\"\n{BYPASS}", socket.display()));
    if rustix::process::getuid().is_root() {
        const NOBODY: &str = "65534";
        let copy = cell.directory().join("toolcell");
        std::fs::copy(program(), &copy).unwrap();
        std::fs::create_dir(cell.data_dir()).unwrap();
        for path in [cell.directory(), &copy, &cell.config_file(), &cell.data_dir()] {
            std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]).arg(&copy);
        command.args(["serve", "--config"]).arg(cell.config_file());
        cell.try_serve_with(command).unwrap_or_else(|ended| panic!("{ended:?}"));
    } else {
        cell.serve();
    }
    let (code_of, detail) = cell.get("/readyz").problem(503);
    assert_eq!(code_of, "docker_forbidden");
    assert!(detail.contains(socket.to_str().unwrap()), "{detail}");
    let result = cell.shell("alice", "true");
    expect_state(&result, "error");
    assert_eq!((code(&result), &result["ran"]), ("docker_forbidden", &json!("no")), "{result:#}");
    assert!(result["problem"]["detail"].as_str().unwrap().contains("`docker` group"), "{result:#}");
    assert_eq!(result["problem"].get("retry_after_ms"), None, "trying again does not help");
    cell.finish();
}

#[test]
fn a_server_that_is_killed_during_a_call_loses_neither_the_call_nor_the_workspace() {
    let Some(mut cell) = Cell::bypass() else { return };
    let before = cell.shell("alice", "echo before > before");
    let slot = before["slot"]["key"].as_str().unwrap().to_owned();
    let calls = json!([{ "id": "long", "tool": "execute", "input": { "command": "echo during > during; sleep 977" } }]);
    let alice = json!({ "agent": "coder", "user": "alice" });
    let begun = cell.post("/v1/calls", &json!({ "context": alice, "calls": calls, "wait": "none" })).json();
    cell.until(begun["results"][0]["ref"].as_str().unwrap(), "running");
    // One that waits behind it.
    let waiting = json!([{ "id": "waiting", "tool": "execute", "input": { "command": "touch waited" } }]);
    cell.post("/v1/calls", &json!({ "context": alice, "calls": waiting, "wait": "none" }));
    let file = cell.workspace(&slot).join("during");
    wait_for("the call has written its file", Duration::from_secs(20), || {
        std::fs::read_to_string(&file).ok().filter(|text| text == "during\n").ok_or_else(|| format!("no {file:?}"))
    });
    let container = cell.container();
    cell.kill();
    assert_eq!(cell.container(), container, "the container outlives the server");

    cell.serve();
    let record = |id: &str| cell.get(&format!("/v1/calls?id={id}")).json()["items"][0].clone();
    let (long, waited) = (record("long"), record("waiting"));
    for (call, ran) in [(&long, "unknown"), (&waited, "no")] {
        expect_state(call, "error");
        assert_eq!((code(call), call["ran"].as_str()), ("interrupted", Some(ran)), "{call:#}");
    }
    // Asked again, it is not run again.
    let again = cell.batch(&alice, &calls).remove(0);
    assert_eq!((&again["ref"], &again["state"]), (&long["ref"], &json!("error")));
    let after = cell.shell("alice", "ps -eo args= | grep -c '[s]leep 977'; cat before during; ls");
    assert_eq!(stdout(&after), "0\nbefore\nduring\nbefore\nduring\n");
    assert_eq!(cell.container(), container, "and is taken up again");
    cell.stop();
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat before during"), "before\nduring\n");
    cell.finish();
}

#[test]
fn a_server_that_is_killed_and_never_called_again_saves_what_was_there() {
    let Some(mut cell) = Cell::start(&format!("[snapshots]\ndurability = \"stop\"\n{BYPASS}")) else { return };
    let result = cell.shell("alice", "echo unsaved > file");
    assert_eq!((&result["slot"]["durable"], &result["slot"]["snapshot"]), (&json!(false), &Value::Null));
    let slot = result["slot"]["key"].as_str().unwrap();
    let manifests = cell.data_dir().join("snapshots/objects").join(slot).join("manifests");
    assert!(!manifests.exists());
    cell.kill();
    cell.serve();
    wait_for("the workspace is saved", Duration::from_secs(20), || {
        if manifests.exists() { Ok(()) } else { Err(cell.log()) }
    });
    cell.stop();
    assert_eq!(cell.containers(), Vec::<String>::new());
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat file"), "unsaved\n");
    cell.finish();
}

#[test]
fn a_command_that_is_killed_leaves_a_workspace_that_the_next_one_goes_on_with() {
    let Some(cell) = Cell::new(BYPASS) else { return };
    let run = |command: &str| {
        let mut run = cell.command(&["run", "--agent", "coder", "--user", "alice", "--", "sh", "-c", command]);
        run.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        run
    };
    let mut child = run("echo kept > file; echo begun; sleep 978").spawn().unwrap();
    let mut begun = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut begun).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let next = crate::support::Ended::from(run("cat file; ps -eo args= | grep -c '[s]leep 978'").output().unwrap());
    assert_eq!(next.stdout, "kept\n0\n", "{next:?}");
    cell.finish();
}

/// A server with its data directory on a small disk.
fn on_a_small_disk(durability: &str) -> Option<Cell> {
    let mut cell = Cell::new(&format!("[snapshots]\ndurability = {durability:?}\n{BYPASS}"))?;
    if !cell.mount("64m") {
        cell.finish();
        return None;
    }
    cell.serve();
    Some(cell)
}

/// As before, and a workspace with something saved.
fn saved_on_a_small_disk() -> Option<Cell> {
    let cell = on_a_small_disk("call")?;
    let saved = cell.shell("alice", "echo saved > saved");
    assert_eq!(saved["slot"]["durable"], true, "{saved:#}");
    Some(cell)
}

#[track_caller]
fn no_space(result: &Value, state: &str) {
    expect_state(result, state);
    assert_eq!(code(result), "no_space", "{result:#}");
}

#[test]
fn a_file_that_does_not_fit_is_no_space_and_leaves_nothing_behind() {
    let Some(cell) = saved_on_a_small_disk() else { return };
    cell.disk().fill_up_to(5 << 20);
    // Its input is recorded first; then there is not enough left for the file. Or not even for the note that it starts,
    // when the state store has moved the input from its log into its file in between.
    let over = json!({ "path": "saved", "content": "x".repeat(3 << 20) });
    let refused = cell.call("alice", "write_file", &over);
    let state = refused["state"].as_str().unwrap();
    assert!(matches!(state, "failed" | "error"), "{refused:#}");
    no_space(&refused, state);
    cell.disk().free_again();
    assert_eq!(cell.output_of("alice", "cat saved; ls -A"), "saved\nsaved\n");
    cell.disk().fill_up_to(5 << 20);
    // A command may fill what is left; then it cannot be saved either, and the result says both.
    let command = cell.shell("alice", "head -c 9000000 /dev/zero > large");
    expect_state(&command, "error");
    assert_eq!(command["problem"]["code"], "no_space", "{command:#}");
    assert!(command["output"]["stderr"].as_str().unwrap().contains("No space left"), "{command:#}");
    cell.disk().free_again();
    expect_state(&cell.call("alice", "write_file", &over), "succeeded");
    cell.finish();
}

#[test]
fn a_save_that_does_not_fit_is_an_error_and_nothing_is_lost_once_there_is_space() {
    let Some(mut cell) = saved_on_a_small_disk() else { return };
    cell.disk().fill_up_to(5 << 20);
    // Fits into the workspace, and not once more into the store.
    let result = cell.shell("alice", "head -c 3500000 /dev/urandom > random; sha256sum < random; echo written > small");
    no_space(&result, "error");
    assert_eq!(result["ran"], "yes", "{result:#}");
    let sum =
        result["output"]["stdout"].as_str().unwrap_or_else(|| panic!("its output is real: {result:#}")).to_owned();
    assert_eq!((&result["slot"]["durable"], &result["slot"]["snapshot"]), (&json!(false), &Value::Null));
    // More changes would widen the loss; what only reads goes on.
    let more = cell.shell("alice", "echo more > more");
    no_space(&more, "error");
    assert_eq!(more["ran"], "no", "{more:#}");
    assert_eq!(cell.call("alice", "read_file", &json!({ "path": "small" }))["output"]["content"], "written\n");

    cell.disk().free_again();
    let after = cell.shell("alice", "sha256sum < random; cat saved small; ls more 2>/dev/null; true");
    assert_eq!(stdout(&after), format!("{sum}saved\nwritten\n"));
    assert_eq!(after["slot"]["durable"], true, "{after:#}");
    cell.stop();
    cell.serve();
    assert_eq!(cell.output_of("alice", "sha256sum < random; cat saved small"), format!("{sum}saved\nwritten\n"));
    cell.finish();
}

#[test]
fn a_server_that_cannot_save_when_it_stops_keeps_the_workspace_for_the_next_start() {
    let Some(mut cell) = saved_on_a_small_disk() else { return };
    cell.disk().fill_up_to(5 << 20);
    let result = cell.shell("alice", "head -c 3500000 /dev/urandom > random; sha256sum < random");
    no_space(&result, "error");
    let sum = result["output"]["stdout"].as_str().unwrap().to_owned();
    cell.signal(Signal::TERM);
    let ended = cell.ended();
    let (what, why, _) = ended.failure(125);
    assert!(what.contains("stay on this host") && why.contains("1 could not be saved"), "{ended:?}");
    assert!(ended.stderr.contains("ERROR") && ended.stderr.contains("no space"), "{ended:?}");
    cell.disk().free_again();
    cell.serve();
    assert_eq!(cell.output_of("alice", "sha256sum < random; cat saved"), format!("{sum}saved\n"));
    cell.finish();
}

#[test]
fn a_disk_without_any_space_takes_no_calls_and_loses_none() {
    let Some(cell) = saved_on_a_small_disk() else { return };
    cell.disk().fill_up_to(0);
    // The state store may have room of its own for a few more.
    let refused = wait_for("calls are refused", Duration::from_secs(30), || {
        let call = json!([{ "tool": "execute", "input": { "command": "true", "stdin": "x".repeat(1 << 20) } }]);
        let answer = cell.submit(&json!({ "agent": "coder", "user": "alice" }), &call);
        if answer.status == 507 { Ok(answer) } else { Err(answer.text()) }
    });
    assert_eq!(refused.problem(507).0, "no_space");
    // Another workspace cannot be made either, and what was begun for it is gone.
    let bob = cell.submit(
        &json!({ "agent": "coder", "user": "bob" }),
        &json!([{ "tool": "execute", "input": { "command": "true" } }]),
    );
    match bob.status {
        507 => assert_eq!(bob.problem(507).0, "no_space"),
        _ => assert_eq!(code(&bob.json()["results"][0]), "no_space", "{}", bob.text()),
    }
    assert!(cell.containers().len() <= 1);
    cell.disk().free_again();
    assert_eq!(cell.output_of("alice", "cat saved"), "saved\n");
    assert_eq!(cell.output_of("bob", "echo fine"), "fine\n");
    let open: Vec<Value> = ["queued", "running"]
        .iter()
        .flat_map(|state| cell.get(&format!("/v1/calls?state={state}")).json()["items"].as_array().unwrap().clone())
        .collect();
    assert_eq!(open, Vec::<Value>::new());
    cell.finish();
}

#[test]
fn a_result_that_finds_no_space_is_recorded_when_there_is_some() {
    let Some(cell) = on_a_small_disk("stop") else { return };
    cell.output_of("alice", "true");
    let call = cell.start_shell("alice", "until [ -e go ]; do sleep 0.05; done; seq 1 100000");
    let slot = cell.container().rsplit('-').next().unwrap().to_owned();
    cell.disk().fill_up_to(0);
    // A file without content takes no space.
    std::fs::File::create(cell.workspace(&slot).join("go")).unwrap();
    wait_for("the result finds no space", Duration::from_secs(20), || {
        let log = cell.log();
        if log.contains("a result could not be recorded") { Ok(()) } else { Err(log) }
    });
    cell.disk().free_again();
    let recorded = cell.until(&call, "succeeded");
    assert_eq!(recorded["output"]["stdout_bytes"], 588_895, "{recorded:#}");
    cell.finish();
}
