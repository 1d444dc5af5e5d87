//! Configurations, paths, images and processes that are not as they should be: each has a clear error, and leaves
//! nothing.

use crate::support::{Cell, code, expect_state, stdout};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn a_missing_image_is_named_with_what_to_do_and_leaves_nothing() {
    let config = "[agents.coder]\nimage = \"toolcell/no-such\"\n[agents.coder.permissions]\nmode = \"bypass\"\n\
                  [agents.other]\nimage = \"toolcell-test/busybox\"\n[agents.other.permissions]\nmode = \"bypass\"\n";
    let Some(mut cell) = Cell::start(config) else { return };
    for _ in 0..2 {
        let result = cell.shell("alice", "true");
        expect_state(&result, "error");
        assert_eq!((code(&result), &result["ran"]), ("image_missing", &json!("no")), "{result:#}");
        let detail = result["problem"]["detail"].as_str().unwrap();
        assert!(detail.contains("toolcell/no-such") && detail.contains("build it, or name another image"), "{detail}");
    }
    let ended = cell.toolcell(&["run", "--agent", "coder", "--user", "alice", "--", "true"]);
    let (_, why, _) = ended.failure(125);
    assert!(why.contains("toolcell/no-such"), "{ended:?}");
    // Others are not held up by it, and nothing stands in the way once it is there.
    let other =
        cell.call_in(&json!({ "agent": "other", "user": "alice" }), "execute", &json!({ "command": "echo fine" }));
    assert_eq!(stdout(&other), "fine\n");
    cell.stop();
    cell.configure("[agents.coder.permissions]\nmode = \"bypass\"\n");
    cell.serve();
    assert_eq!(cell.output_of("alice", "echo fine"), "fine\n");
    cell.finish();
}

#[test]
fn a_path_outside_the_roots_is_refused_before_anyone_is_asked() {
    let config = "[agents.coder]\nfile_roots = [\"/workspace\"]\n[agents.free]\nfile_roots = [\"/workspace\"]\n\
                  [agents.free.permissions]\nmode = \"bypass\"\n";
    let Some(cell) = Cell::start(config) else { return };
    for agent in ["coder", "free"] {
        let context = json!({ "agent": agent, "user": "alice" });
        for path in ["/etc/passwd", "../etc/passwd", "/workspace/../etc/passwd", "/workspaces/x", "/", "/tmp/x"] {
            for (tool, input) in [
                ("read_file", json!({ "path": path })),
                ("write_file", json!({ "path": path, "content": "x" })),
                ("list_files", json!({ "path": path })),
            ] {
                let result = cell.call_in(&context, tool, &input);
                expect_state(&result, "failed");
                assert_eq!(code(&result), "outside_roots", "{agent} {tool} {path}");
                assert!(result["error"]["message"].as_str().unwrap().contains("/workspace"), "{result:#}");
            }
        }
    }
    assert_eq!(cell.containers(), Vec::<String>::new());
    // Through a link it is known only in the workspace, and refused there.
    let free = json!({ "agent": "free", "user": "alice" });
    let links = json!({ "command": "ln -s /etc/passwd file; ln -s /etc etc; ln -s /tmp tmp" });
    stdout(&cell.call_in(&free, "execute", &links));
    for (tool, input) in [
        ("read_file", json!({ "path": "file" })),
        ("read_file", json!({ "path": "etc/passwd" })),
        ("write_file", json!({ "path": "tmp/x", "content": "x" })),
        ("list_files", json!({ "path": "etc" })),
    ] {
        let result = cell.call_in(&free, tool, &input);
        expect_state(&result, "failed");
        assert_eq!(code(&result), "outside_roots", "{tool} {input}: {result:#}");
    }
    assert_eq!(stdout(&cell.call_in(&free, "execute", &json!({ "command": "ls /tmp" }))), "");
    cell.finish();
}

#[test]
fn configurations_that_are_wrong_name_file_line_and_key() {
    let Some(cell) = Cell::new("") else { return };
    let file = cell.config_file();
    for (text, line, names) in [
        ("[agents.coder]\nimgae = \"x\"\n", "line 2", "imgae"),
        ("[server]\n\nlisten = 7\n", "line 3", "listen"),
        ("[agents.coder.limits]\nmemory = \"2GB\"\n", "line 2", "memory"),
        ("[agents.coder.permissions]\nmode = \"yolo\"\n", "line 2", "mode"),
        ("[agents.coder.permissions]\ndeny = [\"execute(\"]\n", "line 2", "execute("),
        ("[agents.coder.network]\nmode = \"host\"\n", "line 2", "mode"),
        ("[snapshots]\nstore = \"tape\"\n", "line 2", "store"),
        ("[server\n", "line 1", "[server"),
    ] {
        std::fs::write(&file, text).unwrap();
        for arguments in [&["config", "check"][..], &["serve"], &["run", "--", "true"], &["call", "execute"]] {
            let (what, why, _) = cell.toolcell(arguments).failure(125);
            assert!(what.contains("configuration"), "{what}");
            assert!(
                why.contains(file.to_str().unwrap()) && why.contains(line) && why.contains(names),
                "{text:?}: {why}"
            );
        }
    }
    for (text, names) in [
        ("[server]\nlisten = \"0.0.0.0:0\"\n[auth]\nmode = \"none\"\n", ["auth.mode", "loopback"]),
        ("[agents.coder]\ntools = [\"no_such_tool\"]\n", ["coder", "no_such_tool"]),
        ("[docker]\nhost = \"tcp://127.0.0.1:2375\"\n", ["tcp://127.0.0.1:2375", "unix://"]),
    ] {
        cell.configure(text);
        let ended = cell.toolcell(&["serve"]);
        let (_, why, hint) = ended.failure(125);
        let said = format!("{why} {}", hint.unwrap_or_default());
        assert!(names.iter().all(|name| said.contains(name)), "{text:?}: {said}");
    }
    let missing = crate::support::command().args(["config", "check", "--config", "/no/such.toml"]).output().unwrap();
    let (_, why, _) = crate::support::Ended::from(missing).failure(125);
    assert!(why.contains("/no/such.toml"), "{why}");
    cell.configure("");
    let wrong = cell.command(&["config", "check"]).env("TOOLCELL__SERVER__LISTNE", "x").output().unwrap();
    let (_, why, _) = crate::support::Ended::from(wrong).failure(125);
    assert!(why.contains("TOOLCELL__SERVER__LISTNE"), "{why}");
    cell.finish();
}

#[test]
fn a_second_server_on_one_data_directory_does_not_start() {
    let Some(cell) = Cell::bypass() else { return };
    cell.output_of("alice", "echo kept > file");
    let (_, why, hint) = cell.toolcell(&["serve"]).failure(125);
    assert!(why.contains("another server") && why.contains(cell.data_dir().to_str().unwrap()), "{why}");
    assert!(hint.unwrap().contains("data_dir"));
    // The first one has not noticed.
    assert_eq!(cell.output_of("alice", "cat file"), "kept\n");
    cell.finish();
}

#[test]
fn an_address_that_is_taken_is_named() {
    let Some(cell) = Cell::new("") else { return };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    cell.configure(&format!("[server]\nlisten = \"{address}\"\n"));
    let (_, why, _) = cell.toolcell(&["serve"]).failure(125);
    assert!(why.contains(&address), "{why}");
    cell.finish();
}

/// Takes a number, thinks, and writes the next: two at a time would take the same.
const INCREMENT: &str = "n=$(cat n 2>/dev/null || echo 0); sleep 0.3; echo $((n + 1)) > n; cat n";

#[test]
fn two_commands_without_a_server_on_one_workspace_run_one_after_the_other() {
    let Some(cell) = Cell::new("[agents.coder.permissions]\nmode = \"bypass\"\n") else { return };
    let mut written: Vec<String> = std::thread::scope(|scope| {
        let run = || cell.toolcell(&["run", "--agent", "coder", "--user", "alice", "--", "sh", "-c", INCREMENT]);
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.inspect(|ended| assert_eq!(ended.code, Some(0), "{ended:?}")).map(|ended| ended.stdout).collect()
    });
    written.sort();
    assert_eq!(written, ["1\n", "2\n", "3\n"]);
    cell.finish();
}

#[test]
fn commands_without_a_server_on_different_workspaces_do_not_wait_for_each_other() {
    let Some(cell) = Cell::new("[agents.coder.permissions]\nmode = \"bypass\"\n") else { return };
    // Each ends only when the other has begun: they meet on a mount of both.
    let meeting = cell.directory().join("meeting");
    std::fs::create_dir(&meeting).unwrap();
    std::os::unix::fs::chown(&meeting, Some(1000), Some(1000)).or_else(|_| make_writable(&meeting)).unwrap();
    cell.configure(&format!(
        "[agents.coder.permissions]\nmode = \"bypass\"\n[[agents.coder.mounts]]\nhost = {:?}\npath = \"/meeting\"\n\
         read_only = false\n",
        meeting.display().to_string()
    ));
    std::thread::scope(|scope| {
        let run = |me: &'static str, other: &'static str| {
            let command = format!("touch /meeting/{me}; until [ -e /meeting/{other} ]; do sleep 0.05; done");
            let cell = &cell;
            scope.spawn(move || {
                cell.toolcell(&["run", "--agent", "coder", "--user", me, "--timeout", "30", "--", "sh", "-c", &command])
            })
        };
        for thread in [run("alice", "bob"), run("bob", "alice")] {
            let ended = thread.join().unwrap();
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
    });
    cell.finish();
}

fn make_writable(path: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))
}

#[test]
fn a_command_beside_a_server_goes_through_it_and_is_seen_as_it_writes() {
    let Some(cell) = Cell::bypass() else { return };
    cell.output_of("alice", "echo from the server > file");
    let command = "cat file; echo to stderr >&2; sleep 600";
    let mut child = cell.command(&["run", "--agent", "coder", "--user", "alice", "--", "sh", "-c", command]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let first = |stream: &mut dyn BufRead| {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line
    };
    // Only live output can be read before the command ends.
    assert_eq!(first(&mut BufReader::new(child.stdout.take().unwrap())), "from the server\n");
    assert_eq!(first(&mut BufReader::new(child.stderr.take().unwrap())), "to stderr\n");
    let listed = cell.get("/v1/calls?state=running").json();
    let call = listed["items"][0]["ref"].as_str().unwrap_or_else(|| panic!("{listed:#}")).to_owned();
    // Whoever typed it goes away, and the command with them.
    child.kill().unwrap();
    child.wait().unwrap();
    cell.until(&call, "cancelled");
    assert_eq!(cell.output_of("alice", "ps -eo args= | grep -c '[s]leep 600' || true"), "0\n");
    cell.finish();
}

#[test]
fn file_tools_name_what_is_in_their_way() {
    let Some(cell) = Cell::bypass() else { return };
    let setup = "mkfifo pipe; mkdir locked; touch locked/f; chmod 000 locked; ln -s loop loop; ln -s nowhere dangling; \
                 head -c 3000000 /dev/zero | tr '\\0' x > large; printf '\\xff' > binary; chmod 400 binary";
    cell.output_of("alice", setup);
    let cases: [(&str, Value, &str); 8] = [
        ("read_file", json!({ "path": "pipe" }), "not_regular"),
        ("read_file", json!({ "path": "locked/f" }), "permission_denied"),
        ("list_files", json!({ "path": "locked" }), "permission_denied"),
        ("read_file", json!({ "path": "loop" }), "too_many_links"),
        ("read_file", json!({ "path": "dangling" }), "not_found"),
        ("read_file", json!({ "path": "large/x" }), "not_a_directory"),
        ("read_file", json!({ "path": "binary" }), "not_utf8"),
        ("read_file", json!({ "path": "x".repeat(300) }), "too_large"),
    ];
    for (tool, input, expected) in cases {
        let result = cell.call("alice", tool, &input);
        expect_state(&result, "failed");
        assert_eq!(code(&result), expected, "{tool} {input}: {result:#}");
        assert!(!result["error"]["message"].as_str().unwrap().is_empty());
    }
    cell.output_of("alice", "chmod 700 locked");
    cell.finish();
}
