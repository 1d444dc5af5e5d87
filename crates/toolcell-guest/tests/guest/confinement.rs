//! What a tool process is not allowed, and what PID 1 has given up.

use super::support::{Guest, Options, argv, possible, shell};
use super::{binary, start, start_with};

fn status(guest: &Guest) -> String {
    std::fs::read_to_string(format!("/proc/{}/status", guest.pid())).unwrap()
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap().trim()
}

#[test]
fn a_tool_has_no_capability_and_only_its_three_descriptors() {
    let Some((_guest, mut host)) = start() else { return };
    let text = host.run(argv(&["cat", "/proc/self/status"])).text();
    for (name, value) in [
        ("CapInh", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("CapEff", "0000000000000000"),
        ("CapAmb", "0000000000000000"),
        ("CapBnd", "00000000000000e3"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("Groups", ""),
        ("SigBlk", "0000000000000000"),
        ("SigIgn", "0000000000000000"),
    ] {
        assert_eq!(field(&text, name), value, "{name}");
    }
    assert_eq!(field(&text, "Uid"), "1000\t1000\t1000\t1000");
    assert_eq!(field(&text, "Gid"), "1000\t1000\t1000\t1000");
    // `ls` itself has the fourth one open.
    assert_eq!(host.run(argv(&["ls", "/proc/self/fd"])).text(), "0\n1\n2\n3\n");
    let text = host.run(shell("cat /proc/self/oom_score_adj; ulimit -c; umask; ps -o sid=,pgid= -p $$")).text();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words.get(..3).unwrap(), ["500", "0", "0022"]);
    assert_eq!(words.get(3), words.get(4), "a session and a group of its own");
}

#[test]
fn tools_as_root_are_refused() {
    if !possible() {
        return;
    }
    let mut guest = Guest::start(binary(), &Options { uid: 0, ..Options::default() });
    let (code, text) = guest.wait();
    assert_eq!(code, 64);
    assert!(text.contains("never run as root"), "{text}");
}

#[test]
fn anything_but_a_container_is_refused() {
    let output = std::process::Command::new(binary()).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn the_environment_of_pid_1_is_erased() {
    let env = vec![("OTHER_SECRET".to_owned(), "hunter2".to_owned())];
    let Some((guest, mut host)) = start_with(&Options { env, ..Options::default() }) else { return };
    let environ = std::fs::read(format!("/proc/{}/environ", guest.pid())).unwrap();
    assert!(!environ.is_empty() && environ.iter().all(|byte| *byte == 0), "{environ:?}");
    assert_eq!(host.run(argv(&["env"])).text(), "PATH=/usr/bin:/bin\n");
}

#[test]
fn pid_1_and_keepers_are_out_of_reach() {
    let Some((_guest, mut host)) = start() else { return };
    let result = host.run(shell(
        "for p in 1 $PPID; do
            kill -9 $p 2>/dev/null && echo killed $p
            cat /proc/$p/environ /proc/$p/maps /proc/$p/mem 2>/dev/null && echo read $p
            ls /proc/$p/fd 2>/dev/null && echo listed $p
         done
         ls -l /proc/self/fd | grep -c socket",
    ));
    assert_eq!(result.text(), "0\n");
    assert_eq!(host.run(argv(&["echo", "alive"])).text(), "alive\n");
}

#[test]
fn io_uring_and_userfaultfd_do_not_exist() {
    let Some((_guest, mut host)) = start() else { return };
    let number = if cfg!(target_arch = "x86_64") { 323 } else { 282 };
    for call in [425, 426, 427, number] {
        let script = format!("$r = syscall({call}, 1, 0, 0, 0, 0, 0); print $r, ' ', $!+0");
        let result = host.run(argv(&["perl", "-e", &script]));
        assert_eq!(result.text(), "-1 38", "system call {call}");
    }
}

#[test]
fn pid_1_is_small_hardened_and_holds_five_capabilities() {
    let Some((guest, mut host)) = start() else { return };
    for _ in 0..50 {
        host.run(argv(&["echo", "x"]));
    }
    let text = status(&guest);
    for name in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(field(&text, name), "00000000000000e3", "{name}");
    }
    for name in ["CapInh", "CapAmb"] {
        assert_eq!(field(&text, name), "0000000000000000", "{name}");
    }
    assert_eq!(field(&text, "NoNewPrivs"), "1");
    assert_eq!(field(&text, "Seccomp"), "2");
    let resident: u64 = field(&text, "VmRSS").trim_end_matches(" kB").parse().unwrap();
    assert!(resident < 8 * 1024, "{resident} kB");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", guest.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().collect::<Vec<_>>().get(4..6).unwrap(), ["0", "0"]);
}
