//! What tools can do to the machine, to the guest and to each other: nothing.

use crate::support::{Cell, code, expect_state, stdout, wait_for};
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn tools_have_no_privileges() {
    let Some(cell) = Cell::bypass() else { return };
    let identity = cell.output_of("alice", "id -u; id -g; id -G; cat /proc/self/status");
    let lines: Vec<&str> = identity.lines().collect();
    assert_eq!(lines[..3], ["1000", "1000", "1000"]);
    for (field, value) in [
        ("CapInh", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("CapEff", "0000000000000000"),
        ("CapAmb", "0000000000000000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ] {
        let line =
            lines.iter().find(|line| line.starts_with(&format!("{field}:"))).unwrap_or_else(|| panic!("{field}"));
        assert_eq!(line.split_whitespace().nth(1), Some(value), "{line}");
    }
    // KILL, SETUID, SETGID, CHOWN and DAC_OVERRIDE are the guest's; a tool cannot get at them.
    for command in ["sudo true", "su -c true", "mount -t tmpfs none /tmp", "unshare -r true", "chown root /workspace"] {
        let refused = cell.shell("alice", command);
        expect_state(&refused, "failed");
    }
    // Files that the guest writes for the agent belong to the agent.
    expect_state(&cell.call("alice", "write_file", &json!({ "path": "d/f", "content": "" })), "succeeded");
    assert_eq!(cell.output_of("alice", "stat -c '%u:%g' d d/f ."), "1000:1000\n1000:1000\n1000:1000\n");
    cell.finish();
}

#[test]
fn system_calls_that_break_sandboxes_are_not_there() {
    let Some(cell) = Cell::bypass() else { return };
    // io_uring_setup, userfaultfd, keyctl, bpf, perf_event_open, mount, setns, kexec_load.
    let script = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for number in (425, 323, 250, 321, 298, 165, 308, 246):
    result = libc.syscall(number, 0, 0, 0, 0, 0)
    print(number, result, os.strerror(ctypes.get_errno()))
";
    let written = cell.output_of("alice", &format!("cat > calls.py <<'END'\n{script}END\npython3 calls.py"));
    for line in written.lines() {
        let refused = line.contains(" -1 Operation not permitted") || line.contains(" -1 Function not implemented");
        assert!(refused, "{written}");
    }
    assert_eq!(written.lines().count(), 8);
    cell.finish();
}

#[test]
fn the_root_is_read_only_and_there_is_no_network_and_no_engine() {
    let Some(cell) = Cell::bypass() else { return };
    for path in
        ["/usr/bin/x", "/etc/x", "/x", "/.toolcell/run/x", "/.toolcell/bin/x", "/root/x", "/var/tmp/x", "/dev/x"]
    {
        let written = cell.shell("alice", &format!("touch {path}"));
        expect_state(&written, "failed");
    }
    for path in ["/workspace/x", "/home/agent/x", "/tmp/x"] {
        cell.output_of("alice", &format!("printf '#!/bin/sh\\necho ran\\n' > {path}; chmod +x {path}; {path}"));
    }
    assert_eq!(cell.output_of("alice", "ls /sys/class/net"), "lo\n");
    let connect = "python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 80), 2)' 2>&1 | tail -1";
    assert!(cell.output_of("alice", connect).contains("Network is unreachable"));
    assert_eq!(cell.output_of("alice", "ls /var/run/docker.sock /run/docker.sock 2>/dev/null | wc -l"), "0\n");
    // Nothing of the host is mounted but what the slot and the guest need.
    let mounts =
        cell.output_of("alice", "awk '{ print $5 }' /proc/self/mountinfo | grep -Ev '^/(proc|sys|dev)(/|$)' | sort");
    // The engine's own, which it makes for some networks and not for others.
    let of_the_engine = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"];
    let ours: Vec<&str> = mounts.lines().filter(|path| !of_the_engine.contains(path)).collect();
    let guest = ["/.toolcell/bin/toolcell-guest", "/.toolcell/run"];
    assert_eq!(ours, [&["/"], &guest[..], &["/home/agent", "/tmp", "/workspace"]].concat());
    cell.finish();
}

#[test]
fn the_guest_and_its_secret_are_out_of_reach() {
    let Some(cell) = Cell::bypass() else { return };
    cell.output_of("alice", "true");
    let home = cell.data_dir().join("run").join(cell.container());
    let secret = std::fs::read(home.join("secret")).unwrap();
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(secret.len(), 32);

    for file in ["environ", "mem", "maps", "fd", "cwd", "root", "exe", "io"] {
        let read = cell.shell("alice", &format!("ls /proc/1/{file}/ 2>/dev/null || head -c 1 /proc/1/{file}"));
        expect_state(&read, "failed");
    }
    for command in ["kill -9 1", "kill -STOP 1", "pkill -9 -u root", "python3 -c 'import os; os.kill(1, 9)'"] {
        cell.shell("alice", command);
        assert_eq!(cell.output_of("alice", "echo alive"), "alive\n", "{command}");
    }
    // A tool's own memory, environment and descriptors hold nothing of the guest's.
    let environment = cell.output_of("alice", "cat /proc/self/environ /proc/$PPID/environ 2>/dev/null; env");
    assert!(!environment.contains("SECRET") && !environment.contains(&hex), "{environment}");
    let descriptors = cell.output_of("alice", "ls /proc/$$/fd; true");
    assert_eq!(descriptors, "0\n1\n2\n");
    // No socket to connect to, not even a stale one.
    assert_eq!(cell.output_of("alice", "ls -A /.toolcell/run"), "");
    cell.finish();
}

/// Tries to be the guest for as long as it lives, and notes each new way in which that ends.
const STRANGER: &str = r#"
import os, socket
seen = set()
def note(what):
    if what not in seen:
        seen.add(what)
        with open("/workspace/seen", "a") as file:
            file.write(what + "\n")
while True:
    door = socket.socket(socket.AF_UNIX)
    try:
        door.connect("/.toolcell/run/guest.sock")
        note("connected")
    except OSError as error:
        note(type(error).__name__)
    door.close()
"#;

#[test]
fn a_tool_cannot_take_the_guests_place_when_the_server_comes_back() {
    let Some(mut cell) = Cell::bypass() else { return };
    expect_state(&cell.call("alice", "write_file", &json!({ "path": "door.py", "content": STRANGER })), "succeeded");
    let call = cell.start_shell("alice", "python3 door.py");
    let slot = cell.container().rsplit('-').next().unwrap().to_owned();
    let seen = cell.workspace(&slot).join("seen");
    wait_for("the stranger tries", Duration::from_secs(10), || {
        std::fs::read_to_string(&seen).map_err(|error| error.to_string())
    });
    cell.kill();
    cell.serve();
    let after = cell.output_of("alice", "ps -eo args= | grep -c '[d]oor.py'; cat seen");
    let mut lines = after.lines();
    assert_eq!(lines.next(), Some("0"), "{after}");
    let seen: Vec<&str> = lines.collect();
    assert!(!seen.contains(&"connected") && seen.contains(&"FileNotFoundError"), "{seen:?}");
    assert_eq!(code(&cell.recorded(&call)), "interrupted");
    cell.finish();
}

#[test]
fn a_fork_bomb_hits_its_limit_and_the_workspace_goes_on() {
    let config = "[agents.coder.permissions]\nmode = \"bypass\"\n[agents.coder.limits]\npids = 48\n";
    let Some(cell) = Cell::start(config) else { return };
    let script = "import os, sys, time
made = 0
try:
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(600)
        made += 1
except BlockingIOError:
    sys.exit(f'stopped after {made}')
";
    expect_state(&cell.call("alice", "write_file", &json!({ "path": "forks.py", "content": script })), "succeeded");
    let result = cell.shell("alice", "python3 forks.py");
    expect_state(&result, "failed");
    let stderr = result["output"]["stderr"].as_str().unwrap();
    let made: u32 = stderr.trim().rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{result:#}"));
    assert!((20..48).contains(&made), "{stderr}");
    assert!(result["output"]["left_behind"].as_u64().unwrap() >= u64::from(made), "{result:#}");
    assert_eq!(cell.output_of("alice", "ps -eo args= | grep -c '[f]orks.py' || true"), "0\n");
    // One that keeps on forking is ended at its deadline all the same. As a command's text it would be asked about.
    let text = json!({ "path": "bomb", "content": "f() { f | f & }; f; sleep 600" });
    expect_state(&cell.call("alice", "write_file", &text), "succeeded");
    let bomb = cell.call("alice", "execute", &json!({ "command": "bash bomb", "timeout_ms": 1000 }));
    expect_state(&bomb, "timed_out");
    assert_eq!(cell.output_of("alice", "echo usable; cat forks.py | wc -l"), "usable\n9\n");
    cell.finish();
}

const LITTLE_MEMORY: &str =
    "[agents.coder.permissions]\nmode = \"bypass\"\n[agents.coder.limits]\nmemory = \"96MiB\"\n";
const HOG: &str = "python3 -c 'x = bytearray(300 << 20)'";

#[test]
fn a_memory_hog_is_ended_and_the_result_says_why() {
    let Some(cell) = Cell::start(LITTLE_MEMORY) else { return };
    cell.output_of("alice", "echo kept > file");
    let main = cell.shell("alice", &format!("exec {HOG}"));
    expect_state(&main, "failed");
    assert_eq!((code(&main), &main["output"]["oom_killed"]), ("out_of_memory", &json!(true)));
    assert_eq!(main["output"]["signal"], "SIGKILL");
    let fine = cell.shell("alice", "cat file");
    assert_eq!((stdout(&fine).as_str(), &fine["output"]["oom_killed"]), ("kept\n", &json!(false)));
    cell.finish();
}

#[test]
fn a_hog_beneath_a_command_that_goes_on_is_told_too() {
    let Some(cell) = Cell::start(LITTLE_MEMORY) else { return };
    for (command, exit_code) in [(format!("{HOG}; exit 3"), 3), (format!("{HOG}; echo after"), 0)] {
        let result = cell.shell("alice", &command);
        assert_eq!(result["output"]["exit_code"], exit_code, "{result:#}");
        assert_eq!(result["output"]["oom_killed"], true, "{result:#}");
    }
    cell.finish();
}

#[test]
fn a_full_tmp_is_no_space_and_nothing_worse() {
    let config = "[agents.coder.permissions]\nmode = \"bypass\"\n[agents.coder.limits]\ntmp = \"4MiB\"\n";
    let Some(cell) = Cell::start(config) else { return };
    let full = cell.shell("alice", "head -c 9000000 /dev/zero > /tmp/full");
    expect_state(&full, "failed");
    assert!(full["output"]["stderr"].as_str().unwrap().contains("No space left"), "{full:#}");
    let written = cell.call("alice", "write_file", &json!({ "path": "/tmp/other", "content": "x".repeat(1 << 20) }));
    expect_state(&written, "failed");
    assert_eq!(code(&written), "no_space");
    assert_eq!(cell.output_of("alice", "ls -A /tmp; rm /tmp/full; echo fine > /tmp/f; cat /tmp/f"), "full\nfine\n");
    cell.finish();
}

#[test]
fn open_files_are_bounded_and_nothing_dumps_core() {
    let Some(cell) = Cell::bypass() else { return };
    assert_eq!(cell.output_of("alice", "ulimit -Hn; ulimit -Hc"), "4096\n0\n");
    cell.finish();
}

#[test]
fn the_container_is_what_the_hardened_list_says() {
    let config = "[agents.coder.permissions]\nmode = \"bypass\"\n[agents.coder.limits]\nmemory = \"512MiB\"\ncpus = 1.5\n\
                  pids = 77\ntmp = \"32MiB\"\n";
    let Some(cell) = Cell::start(config) else { return };
    let result = cell.shell("alice", "true");
    let container = cell.docker.inspect(&cell.container());
    let host = &container["HostConfig"];
    for (key, expected) in [
        ("CapDrop", json!(["ALL"])),
        ("ReadonlyRootfs", json!(true)),
        ("NetworkMode", json!("none")),
        ("Privileged", json!(false)),
        ("Memory", json!(512 << 20)),
        ("MemorySwap", json!(512 << 20)),
        ("PidsLimit", json!(77)),
        ("NanoCpus", json!(1_500_000_000_u64)),
        ("SecurityOpt", json!(["no-new-privileges"])),
        ("Tmpfs", json!({ "/tmp": format!("rw,exec,nosuid,nodev,mode=1777,size={}", 32 << 20) })),
        ("IpcMode", json!("private")),
        ("PidMode", json!("")),
        ("UTSMode", json!("")),
        ("UsernsMode", json!("")),
        ("Binds", Value::Null),
        ("Devices", Value::Null),
        ("PublishAllPorts", json!(false)),
        ("AutoRemove", json!(false)),
        ("RestartPolicy", json!({ "Name": "", "MaximumRetryCount": 0 })),
    ] {
        let actual = &host[key];
        let same = *actual == expected || (expected.is_null() && *actual == json!([]));
        assert!(same, "{key}: {actual}, not {expected}");
    }
    let mut capabilities: Vec<&str> = host["CapAdd"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for name in &mut capabilities {
        *name = name.trim_start_matches("CAP_");
    }
    capabilities.sort_unstable();
    assert_eq!(capabilities, ["CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID"]);
    let ulimits = json!([
        { "Name": "nofile", "Hard": 4096, "Soft": 4096 },
        { "Name": "core", "Hard": 0, "Soft": 0 },
    ]);
    assert_eq!(host["Ulimits"], ulimits);

    let config = &container["Config"];
    assert_eq!(config["User"], "0:0", "the guest; tools are uid 1000");
    assert_eq!(config["Labels"]["toolcell.slot"], result["slot"]["key"]);
    assert_eq!((&config["Tty"], &config["OpenStdin"]), (&json!(false), &json!(false)));
    let mounts = container["Mounts"].as_array().unwrap();
    let mut seen: Vec<(&str, bool)> =
        mounts.iter().map(|mount| (mount["Destination"].as_str().unwrap(), mount["RW"].as_bool().unwrap())).collect();
    seen.sort_unstable();
    let expected = [
        ("/.toolcell/bin/toolcell-guest", false),
        ("/.toolcell/run", false),
        ("/home/agent", true),
        ("/workspace", true),
    ];
    assert_eq!(seen, expected);
    for mount in mounts {
        let source = mount["Source"].as_str().unwrap();
        assert!(std::path::Path::new(source).starts_with(cell.data_dir()), "{mount}");
        assert!(["rprivate", "private"].contains(&mount["Propagation"].as_str().unwrap()), "{mount}");
    }
    cell.finish();
}

#[test]
fn a_mount_that_the_operator_declares_is_read_only_unless_it_says_otherwise() {
    let config = "[agents.coder.permissions]\nmode = \"bypass\"\n";
    let Some(mut cell) = Cell::new(config) else { return };
    let shared = cell.directory().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("data"), "from the host\n").unwrap();
    let mount = |read_only: &str, path: &str| {
        format!("[[agents.coder.mounts]]\nhost = {:?}\npath = \"{path}\"\n{read_only}\n", shared.display().to_string())
    };
    cell.configure(&format!("{config}{}{}", mount("", "/data"), mount("read_only = false", "/workspace/shared")));
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat /data/data"), "from the host\n");
    expect_state(&cell.shell("alice", "touch /data/x"), "failed");
    assert_eq!(cell.output_of("alice", "cat shared/data; echo own > own"), "from the host\n");
    cell.stop();
    // Neither saved with the workspace nor cleared with it.
    std::fs::write(shared.join("data"), "changed meanwhile\n").unwrap();
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat shared/data own"), "changed meanwhile\nown\n");
    assert_eq!(std::fs::read_to_string(shared.join("data")).unwrap(), "changed meanwhile\n");
    cell.finish();
}
