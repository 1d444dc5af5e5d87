//! Commands: how they end, what they write, and what they leave behind.

use crate::support::{Cell, code, expect_state, stdout};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolcell_runtime::MAX_STREAM_BYTES;
use toolcell_tools::output::INLINE_BYTES;

/// The name that the tests' own long processes go by.
const COUNT_SLEEPERS: &str = "ps -eo args= | grep -c '^sleep 9' || true";

#[track_caller]
fn no_sleepers(cell: &Cell, user: &str) {
    assert_eq!(cell.output_of(user, COUNT_SLEEPERS), "0\n");
}

/// A tree that does what it can to outlive its call.
const STUBBORN: &str = "echo begun
trap '' TERM HUP INT
(setsid sh -c 'trap \"\" TERM HUP; sleep 911; sleep 912' &)
setsid sh -c 'setsid sh -c \"trap \\\"\\\" TERM; sleep 921; sleep 922\" & sleep 923' &
(sleep 931 & exec sleep 932) &
sleep 941
sleep 942";

#[test]
fn a_timeout_ends_the_whole_tree_in_time_and_disturbs_nobody_else() {
    let Some(cell) = Cell::bypass() else { return };
    cell.output_of("alice", "true");
    cell.output_of("bob", "true");
    let bobs = cell.start_shell("bob", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done");
    let started = Instant::now();
    let result = cell.call("alice", "execute", &json!({ "command": STUBBORN, "timeout_ms": 700 }));
    let took = started.elapsed();
    expect_state(&result, "timed_out");
    assert_eq!(code(&result), "timed_out");
    assert_eq!((&result["output"]["timed_out"], &result["output"]["stdout"]), (&json!(true), &json!("begun\n")));
    assert!(took >= Duration::from_millis(700) && took < Duration::from_millis(2700), "{took:?}");
    no_sleepers(&cell, "alice");
    assert_eq!(stdout(&cell.until(&bobs, "succeeded")), "1\n2\n3\n4\n5\n6\n7\n8\n");
    cell.finish();
}

#[test]
fn cancelling_ends_the_whole_tree_and_keeps_what_was_written() {
    let Some(cell) = Cell::bypass() else { return };
    cell.output_of("alice", "true");
    let call = cell.start_shell("alice", &format!("echo before; touch begun\n{STUBBORN}"));
    cell.wait_for_file("begun");
    let waiting = json!({ "tool": "execute", "input": { "command": "touch ran" } });
    let waiting = json!({ "context": { "agent": "coder", "user": "alice" }, "calls": [waiting], "wait": "none" });
    let waiting = cell.post("/v1/calls", &waiting).json()["results"][0]["ref"].as_str().unwrap().to_owned();
    // One that waits for its turn is cancelled without having run.
    assert_eq!(cell.post(&format!("/v1/calls/{waiting}/cancel"), &json!({})).status, 202);
    let never = cell.until(&waiting, "cancelled");
    assert_eq!((code(&never), &never["output"]), ("cancelled", &Value::Null));

    let started = Instant::now();
    assert_eq!(cell.post(&format!("/v1/calls/{call}/cancel"), &json!({})).status, 202);
    let cancelled = cell.until(&call, "cancelled");
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(code(&cancelled), "cancelled");
    assert!(cancelled["output"]["stdout"].as_str().unwrap().starts_with("before\n"), "{cancelled:#}");
    no_sleepers(&cell, "alice");
    assert_eq!(cell.output_of("alice", "ls"), "begun\n");
    // One that has ended stays as it is.
    assert_eq!(cell.post(&format!("/v1/calls/{call}/cancel"), &json!({})).status, 200);
    assert_eq!(cell.recorded(&call)["state"], "cancelled");
    assert_eq!(cell.post("/v1/calls/call_00000000000000000000000000000000/cancel", &json!({})).status, 404);
    cell.finish();
}

#[test]
fn a_command_that_forks_into_the_background_is_answered_at_once_and_leaves_nothing() {
    let Some(cell) = Cell::bypass() else { return };
    cell.output_of("alice", "true");
    // The background process holds the pipe open, as daemons do.
    for (command, least) in [
        ("sleep 901 & echo started", 1),
        ("(setsid sleep 902 &); setsid sh -c 'trap \"\" TERM; sleep 903' & echo started", 2),
        ("nohup sleep 904 >/dev/null 2>&1 & echo started", 1),
    ] {
        let started = Instant::now();
        let result = cell.shell("alice", command);
        assert!(started.elapsed() < Duration::from_secs(3), "{command}: {:?}", started.elapsed());
        assert_eq!(stdout(&result), "started\n");
        assert!(result["output"]["left_behind"].as_u64().unwrap() >= least, "{result:#}");
        no_sleepers(&cell, "alice");
    }
    let clean = cell.shell("alice", "sleep 0.1 & wait; echo done");
    assert_eq!(clean["output"].get("left_behind"), None, "{clean:#}");
    cell.finish();
}

fn page(cell: &Cell, call: &str, query: &str) -> (Vec<u8>, u64) {
    let answer = cell.get(&format!("/v1/calls/{call}/output/{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let total = answer.header("toolcell-total-bytes").unwrap().parse().unwrap();
    (answer.body, total)
}

#[test]
fn ten_megabytes_of_output_are_shown_in_part_and_kept_whole() {
    let Some(cell) = Cell::bypass() else { return };
    // Lines of eight bytes.
    let result = cell.shell("alice", "seq -w 1 1310720; echo warning >&2");
    expect_state(&result, "succeeded");
    let whole: Vec<u8> = (1..=1_310_720).flat_map(|line| format!("{line:07}\n").into_bytes()).collect();
    let output = &result["output"];
    assert_eq!((&output["truncated"], &output["stdout_bytes"]), (&json!(true), &json!(whole.len())));
    let (head, tail) = (output["stdout"].as_str().unwrap(), output["stdout_tail"].as_str().unwrap());
    assert_eq!(head.len() + tail.len(), INLINE_BYTES);
    assert!(whole.starts_with(head.as_bytes()) && whole.ends_with(tail.as_bytes()));
    assert_eq!((&output["stderr"], output.get("stderr_tail")), (&json!("warning\n"), None));

    let call = result["ref"].as_str().unwrap();
    let mut collected = Vec::new();
    while collected.len() < whole.len() {
        let (part, total) = page(&cell, call, &format!("stdout?offset={}", collected.len()));
        assert!(!part.is_empty() && total == whole.len() as u64);
        collected.extend(part);
    }
    assert!(collected == whole, "the pages are not the output");
    assert_eq!(page(&cell, call, "stdout?offset=8000&limit=8").0, b"0001001\n");
    assert_eq!(page(&cell, call, "stdout?offset=99999999").0, b"");
    assert_eq!(page(&cell, call, "stderr?offset=4").0, b"ing\n");
    for (path, status) in [("stdin", 404), ("stdout?offset=x", 400), ("stdout?of=1", 400)] {
        assert_eq!(cell.get(&format!("/v1/calls/{call}/output/{path}")).status, status, "{path}");
    }
    cell.finish();
}

#[test]
fn output_at_the_inline_bound_one_below_and_one_above() {
    let Some(cell) = Cell::bypass() else { return };
    for (bytes, truncated) in [(INLINE_BYTES - 1, false), (INLINE_BYTES, false), (INLINE_BYTES + 1, true)] {
        let result = cell.shell("alice", &format!("head -c {bytes} /dev/zero | tr '\\0' x"));
        expect_state(&result, "succeeded");
        let output = &result["output"];
        assert_eq!((&output["truncated"], &output["stdout_bytes"]), (&json!(truncated), &json!(bytes)), "{bytes}");
        let shown = output["stdout"].as_str().unwrap().len();
        let tail = output.get("stdout_tail").map_or(0, |tail| tail.as_str().unwrap().len());
        assert_eq!(shown + tail, bytes.min(INLINE_BYTES), "{bytes}");
        let (all, total) = page(&cell, result["ref"].as_str().unwrap(), "stdout");
        assert_eq!((all.len(), total), (bytes, bytes as u64));
    }
    cell.finish();
}

#[test]
fn output_that_is_not_utf8_comes_as_base64_and_says_so() {
    let Some(cell) = Cell::bypass() else { return };
    let result = cell.shell("alice", "printf '\\377\\376ok'; echo plain >&2");
    expect_state(&result, "succeeded");
    let output = &result["output"];
    assert_eq!((&output["stdout"], &output["stdout_encoding"]), (&json!("//5vaw=="), &json!("base64")));
    assert_eq!((&output["stderr"], output.get("stderr_encoding")), (&json!("plain\n"), None));
    assert_eq!(page(&cell, result["ref"].as_str().unwrap(), "stdout").0, b"\xff\xfeok");
    cell.finish();
}

#[test]
fn a_command_that_never_stops_writing_is_stopped() {
    let Some(cell) = Cell::bypass() else { return };
    let result = cell.shell("alice", "yes");
    expect_state(&result, "failed");
    assert_eq!((code(&result), &result["output"]["output_limited"]), ("output_limit", &json!(true)));
    assert_eq!(result["output"]["truncated"], true);
    let written = result["output"]["stdout_bytes"].as_u64().unwrap();
    assert!(written <= MAX_STREAM_BYTES && written > MAX_STREAM_BYTES / 2, "{written}");
    let (last, total) = page(&cell, result["ref"].as_str().unwrap(), &format!("stdout?offset={}", written - 2));
    assert_eq!((last.len(), total), (2, written));
    assert_eq!(cell.output_of("alice", "echo next; ps -eo comm= | grep -cx yes || true"), "next\n0\n");
    cell.finish();
}

#[test]
fn a_command_has_its_input_directory_and_environment() {
    let config =
        "[agents.coder.permissions]\nmode = \"bypass\"\n[agents.coder.env]\nFROM_AGENT = \"agent\"\nBOTH = \"agent\"\n";
    let Some(cell) = Cell::start(config) else { return };
    let run = |input: Value| stdout(&cell.call("alice", "execute", &input));
    assert_eq!(run(json!({ "argv": ["cat"], "stdin": "line\nü" })), "line\nü");
    assert_eq!(run(json!({ "argv": ["cat"] })), "", "closed");
    let large = "x".repeat(3 << 20);
    assert_eq!(run(json!({ "argv": ["wc", "-c"], "stdin": large })).trim(), large.len().to_string());
    // Not read by the command: no reason to hang.
    assert_eq!(run(json!({ "argv": ["echo", "done"], "stdin": large })), "done\n");
    assert_eq!(run(json!({ "argv": ["pwd"], "cwd": "/tmp" })), "/tmp\n");
    assert_eq!(run(json!({ "command": "mkdir -p a/b" })), "");
    assert_eq!(run(json!({ "argv": ["pwd"], "cwd": "a/b" })), "/workspace/a/b\n");
    let nowhere = cell.call("alice", "execute", &json!({ "argv": ["pwd"], "cwd": "nowhere" }));
    assert_eq!(code(&nowhere), "not_found");
    let env = json!({ "command": "echo $FROM_AGENT $BOTH $FROM_CALL", "env": { "FROM_CALL": "call", "BOTH": "call" } });
    assert_eq!(run(env), "agent call call\n");
    // Nothing of the server's environment, and no start-up file of a shell.
    let names = run(json!({ "argv": ["env"], "env": { "BASH_ENV": "/workspace/rc", "ENV": "/workspace/rc" } }));
    assert!(!names.contains("CARGO") && !names.contains("TOOLCELL"), "{names}");
    let start_up = "import pathlib\nfor name in ('rc', '/home/agent/.bashrc', '/home/agent/.profile'):\n    \
                    pathlib.Path(name).write_text('echo rc')";
    assert_eq!(run(json!({ "argv": ["python3", "-c", start_up] })), "");
    assert_eq!(run(json!({ "command": "echo only", "env": { "BASH_ENV": "/workspace/rc" } })), "only\n");
    cell.finish();
}

#[test]
fn exit_codes_and_signals_are_the_kernels() {
    let Some(cell) = Cell::bypass() else { return };
    for (command, exit, signal) in [
        ("exit 3", json!(3), Value::Null),
        ("exit 255", json!(255), Value::Null),
        ("kill -TERM $$", Value::Null, json!("SIGTERM")),
        ("kill -KILL $$", Value::Null, json!("SIGKILL")),
        ("kill -SEGV $$", Value::Null, json!("SIGSEGV")),
        ("no-such-command", json!(127), Value::Null),
    ] {
        let result = cell.shell("alice", command);
        expect_state(&result, "failed");
        let expected = if exit.is_null() { "signal" } else { "exit_status" };
        assert_eq!(code(&result), expected, "{command}");
        assert_eq!((&result["output"]["exit_code"], &result["output"]["signal"]), (&exit, &signal), "{command}");
    }
    let fine = cell.shell("alice", "true");
    assert_eq!((&fine["output"]["exit_code"], &fine["output"]["signal"]), (&json!(0), &Value::Null));
    cell.finish();
}

#[test]
fn no_command_poisons_the_next_one() {
    let Some(cell) = Cell::bypass() else { return };
    for command in [
        "cat <<END\nnever ended",
        "echo 'unbalanced",
        "echo \"unbalanced",
        "exit 7",
        "set -e; false",
        "exec 1>&- 2>&-; exit 1",
        "cd /tmp; export LEAK=1; alias ls=false; ulimit -t 1; umask 0777; exit 1",
        "kill -STOP $$ & sleep 0.1; kill -9 $$",
        ")(",
        "read answer; exit 4",
    ] {
        cell.call("alice", "execute", &json!({ "command": command, "timeout_ms": 5000 }));
        let next = cell.shell("alice", "echo next $LEAK; pwd; umask; type ls | head -1; touch f; rm f");
        assert_eq!(stdout(&next), "next\n/workspace\n0022\nls is /usr/bin/ls\n", "after {command:?}");
    }
    let heredoc = "cat <<'END' > script\necho \"it's $HOME\"\nEND\nsh script";
    assert_eq!(cell.output_of("alice", heredoc), "it's /home/agent\n");
    cell.finish();
}

#[test]
fn no_zombie_stays_after_many_calls() {
    let Some(cell) = Cell::bypass() else { return };
    for _ in 0..20 {
        cell.output_of("alice", "for i in 1 2 3; do (sh -c '(true &) & true' &); done; true & true");
    }
    let processes = cell.output_of("alice", "ps -eo stat=,comm=");
    assert_eq!(processes.lines().filter(|line| line.starts_with('Z')).count(), 0, "{processes}");
    // The guest, its spare keeper, this call's keeper, the shell, ps.
    assert!(processes.lines().count() <= 6, "{processes}");
    cell.finish();
}

#[test]
fn commands_of_one_workspace_run_one_after_another() {
    let Some(cell) = Cell::bypass() else { return };
    cell.output_of("alice", "echo 0 > n");
    let increment = "n=$(cat n); sleep 0.05; echo $((n + 1)) > n";
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| cell.output_of("alice", increment));
        }
    });
    assert_eq!(cell.output_of("alice", "cat n"), "8\n");
    cell.finish();
}
