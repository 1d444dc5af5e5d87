//! The command line: exit codes, what is printed where, and how it fails.

use crate::support::{Cell, Ended, command};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

const CODER: &str = "[agents.coder.permissions]\nmode = \"bypass\"\n";
const RUN: [&str; 5] = ["run", "--agent", "coder", "--user", "alice"];

#[track_caller]
fn run(cell: &Cell, options: &[&str], words: &[&str]) -> Ended {
    cell.toolcell(&[&RUN, options, &["--"], words].concat())
}

#[test]
fn run_passes_output_and_exit_code_through_with_and_without_a_server() {
    let Some(mut cell) = Cell::new(CODER) else { return };
    for with_server in [false, true] {
        if with_server {
            cell.serve();
        }
        let ran = run(&cell, &[], &["sh", "-c", "echo out; echo err >&2; echo x >> count"]);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "out\n", "err\n"), "{ran:?}");
        assert_eq!(run(&cell, &[], &["sh", "-c", "exit 3"]).code, Some(3));
        let late = run(&cell, &["--timeout", "0.5"], &["sh", "-c", "echo begun; sleep 600"]);
        assert_eq!((late.code, late.stdout.as_str()), (Some(124), "begun\n"), "{late:?}");
        let killed = run(&cell, &[], &["sh", "-c", "kill -KILL $$"]);
        assert_eq!(killed.code, Some(137), "{killed:?}");
        let missing = run(&cell, &[], &["no-such-program"]);
        assert_eq!(missing.code, Some(127), "{missing:?}");
        assert!(missing.stderr.contains("no-such-program"), "{missing:?}");
        let words = run(&cell, &[], &["printf", "%s|", "a b", "$HOME", "--version"]);
        assert_eq!(words.stdout, "a b|$HOME|--version|");
    }
    // The same workspace, whoever held it.
    assert_eq!(run(&cell, &[], &["wc", "-l", "count"]).stdout, "2 count\n");
    cell.finish();
}

#[test]
fn run_streams_much_output_whole() {
    let Some(mut cell) = Cell::new(CODER) else { return };
    for with_server in [false, true] {
        if with_server {
            cell.serve();
        }
        let ran = run(&cell, &[], &["seq", "-w", "1", "400000"]);
        assert_eq!(ran.code, Some(0));
        let expected: String = (1..=400_000).map(|line| format!("{line:06}\n")).collect();
        assert!(ran.stdout == expected, "{} bytes, not {}", ran.stdout.len(), expected.len());
    }
    cell.finish();
}

#[test]
fn run_passes_standard_input_on_when_asked() {
    let Some(cell) = Cell::new(CODER) else { return };
    let feed = |options: &[&str]| {
        let mut child = cell.command(&[&RUN, options, &["--", "cat"]].concat());
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Without -i nobody reads it.
        let _ = child.stdin.take().unwrap().write_all("line\nü\n".as_bytes());
        Ended::from(child.wait_with_output().unwrap())
    };
    let fed = feed(&["-i"]);
    assert_eq!((fed.code, fed.stdout.as_str()), (Some(0), "line\nü\n"), "{fed:?}");
    let closed = feed(&[]);
    assert_eq!((closed.code, closed.stdout.as_str()), (Some(0), ""), "{closed:?}");
    cell.finish();
}

#[test]
fn an_interrupted_command_ends_and_its_workspace_is_saved() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead, BufReader};
    let Some(cell) = Cell::new(CODER) else { return };
    let mut child = cell.command(&[&RUN[..], &["--", "sh", "-c", "echo kept > file; echo begun; sleep 600"]].concat());
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(run(&cell, &[], &["cat", "file"]).stdout, "kept\n");
    cell.finish();
}

#[test]
fn call_prints_the_result_as_json_and_its_exit_code_says_how_it_ended() {
    let Some(mut cell) = Cell::new(CODER) else { return };
    for with_server in [false, true] {
        if with_server {
            cell.serve();
        }
        let call = |tool: &str, input: &str, more: &[&str]| {
            let words = [&["call", tool, "--agent", "coder", "--user", "alice", "--input", input], more].concat();
            let ended = cell.toolcell(&words);
            let result: Value =
                serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
            (ended.code.unwrap(), result)
        };
        let (exit, result) = call("execute", r#"{"command":"echo x >> count; echo out"}"#, &["--id", "once"]);
        assert_eq!((exit, &result["output"]["stdout"]), (0, &Value::from("out\n")));
        // The id of the first round: with the server it is another process that knows it.
        assert_eq!(result["id"], "once");
        for (tool, input, code, state) in [
            ("execute", r#"{"command":"exit 3"}"#, 1, "failed"),
            ("execute", r#"{"command":"sleep 60","timeout_ms":300}"#, 124, "timed_out"),
            ("execute", r#"{"comand":"x"}"#, 125, "invalid"),
            ("no_such_tool", "{}", 125, "invalid"),
            ("read_file", r#"{"path":"count"}"#, 0, "succeeded"),
        ] {
            let (exit, result) = call(tool, input, &[]);
            assert_eq!((exit, result["state"].as_str().unwrap()), (code, state), "{tool} {input}: {result:#}");
        }
    }
    assert_eq!(run(&cell, &[], &["cat", "count"]).stdout, "x\n", "one id, one run");
    cell.finish();
}

#[test]
fn call_reads_its_input_from_standard_input_when_told() {
    let Some(cell) = Cell::new(CODER) else { return };
    let mut child = cell.command(&["call", "execute", "--agent", "coder", "--user", "alice", "--input", "-"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(br#"{"command":"echo fed"}"#).unwrap();
    let ended = Ended::from(child.wait_with_output().unwrap());
    let result: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    assert_eq!((ended.code, &result["output"]["stdout"]), (Some(0), &Value::from("fed\n")));
    cell.finish();
}

#[test]
fn a_server_with_an_address_is_used_as_its_key_allows() {
    let Some(mut cell) = Cell::new(&format!("[auth]\nmode = \"keys\"\n{CODER}")) else { return };
    cell.serve();
    let url = cell.url();
    let words = |key: &[&str]| {
        let words =
            [&RUN[..], &["--server", &url], key, &["--", "sh", "-c", "echo out; echo err >&2; exit 4"]].concat();
        cell.toolcell(&words)
    };
    // The data directory's own key is found by itself.
    let ran = words(&[]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(4), "out\n", "err\n"), "{ran:?}");
    let (what, why, hint) = words(&["--key", "wrong"]).failure(125);
    assert!(
        what.contains("401") && why.contains("unauthorized") && hint.unwrap().contains("TOOLCELL_KEY"),
        "{what} {why}"
    );
    let nobody = cell.toolcell(&[&RUN[..], &["--server", "http://127.0.0.1:1", "--", "true"]].concat());
    nobody.failure(125);
    let scheme = cell.toolcell(&[&RUN[..], &["--server", "ftp://x", "--", "true"]].concat());
    assert!(scheme.failure(125).1.contains("http://HOST:PORT"));
    cell.finish();
}

#[test]
fn version_and_help_need_nothing() {
    let version = Ended::from(command().arg("version").output().unwrap());
    assert_eq!((version.code, version.stderr.as_str()), (Some(0), ""));
    assert_eq!(version.stdout, format!("toolcell {}\n", env!("CARGO_PKG_VERSION")));
    let help = Ended::from(command().arg("--help").output().unwrap());
    assert_eq!(help.code, Some(0));
    for word in ["serve", "run", "call", "image", "config", "version"] {
        assert!(help.stdout.contains(word), "{}", help.stdout);
    }
}

#[test]
fn a_mistaken_command_line_is_told_from_a_command_that_failed() {
    for arguments in [&["run"][..], &["run", "true"], &["run", "--no-such", "--", "true"], &["no-such"], &[]] {
        let ended = Ended::from(command().args(arguments).output().unwrap());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(125), ""), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains("Usage: toolcell"), "{ended:?}");
    }
}

#[test]
fn config_check_says_what_it_found() {
    let Some(cell) = Cell::new("[agents.coder]\n[agents.other]\n") else { return };
    let ended = cell.toolcell(&["config", "check"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stdout.contains(cell.data_dir().to_str().unwrap()) && ended.stdout.contains("coder, other"),
        "{ended:?}"
    );
    assert!(!cell.data_dir().exists(), "looking makes nothing");
    cell.finish();
}

#[test]
fn what_would_not_start_is_no_valid_configuration() {
    for (config, names) in [
        ("[agents.coder.permissions]\nmode = \"bypass\"\ndeny = [\"exceute\"]\n", "exceute"),
        ("[agents.coder.permissions]\nallow = [\"read_file\", \"exec\"]\n", "exec"),
        ("[agents.coder]\ntools = [\"bash\"]\n", "bash"),
        ("[docker]\nhost = \"tcp://192.0.2.1:2375\"\n", "tcp://192.0.2.1:2375"),
    ] {
        let Some(cell) = Cell::new(config) else { return };
        for arguments in [&["config", "check"][..], &["run", "--agent", "coder", "--", "true"]] {
            let (what, why, _) = cell.toolcell(arguments).failure(125);
            assert!(why.contains(names), "{arguments:?}: {what} {why}");
        }
        cell.finish();
    }
}

#[test]
fn failures_are_one_line_what_one_line_why_and_a_hint() {
    let Some(cell) = Cell::new(CODER) else { return };
    for (arguments, names) in [
        (&["call", "execute", "--agent", "nobody", "--input", "{}"][..], "coder"),
        (&["call", "execute", "--agent", "coder", "--input", "{"], "JSON"),
        (&["run", "--agent", "coder", "--timeout=-1", "--", "true"], "timeout"),
        (&["run", "--agent", "coder", "--timeout", "90000", "--", "true"], "timeout"),
    ] {
        let ended = cell.toolcell(arguments);
        let (what, why, hint) = ended.failure(125);
        assert!(format!("{what} {why} {}", hint.unwrap_or_default()).contains(names), "{ended:?}");
        assert_eq!(ended.stdout, "", "{ended:?}");
    }
    // Nothing that colours a terminal goes to a file.
    let mut cell = cell;
    cell.serve();
    let log = cell.stop();
    assert!(log.contains("listening") && !log.contains('\u{1b}'), "{log:?}");
    cell.finish();
}
