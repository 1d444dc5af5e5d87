//! The connection: proof, loss, return, and the end of the guest.

use super::support::{Collected, Guest, Options, argv, possible, read_body, secret, shell, wait_for};
use super::{binary, start, start_with};
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use toolcell_protocol::limits::OUTPUT_WINDOW_BYTES;
use toolcell_protocol::{FrameDecoder, GuestMessage, Handshake, HostMessage, Secret, Stream, Verdict, encode_frame};

#[test]
fn a_host_with_another_secret_gets_nothing_and_the_right_one_still_works() {
    if !possible() {
        return;
    }
    let guest = Guest::start(binary(), &Options::default());
    let mut stranger = guest.accept();
    let mut decoder = FrameDecoder::new();
    let hello = read_body(&mut stranger, &mut decoder).unwrap();
    let mut out = Vec::new();
    Handshake::answer(&hello, &Secret::from_bytes([1; 32]), "stranger", [7; 32], &mut out).unwrap();
    stranger.write_all(&out).unwrap();
    assert!(read_body(&mut stranger, &mut decoder).is_err(), "no proof for a stranger");
    let mut host = guest.host();
    assert_eq!(host.run(argv(&["echo", "hello"])).text(), "hello\n");
}

#[test]
fn garbage_and_huge_frames_end_the_connection_only() {
    if !possible() {
        return;
    }
    let guest = Guest::start(binary(), &Options::default());
    for garbage in [&b"\xff\xff\xff\xff"[..], b"\x04\0\0\0\x09\x09\x09\x09", b"\0\0\0\0"] {
        let mut stranger = guest.accept();
        stranger.write_all(garbage).unwrap();
        let mut rest = Vec::new();
        // Its hello, and then the end.
        let _ = stranger.read_to_end(&mut rest);
    }
    // A host that has proven itself and then breaks the protocol is cut off too.
    let mut host = guest.host();
    host.stream.write_all(b"\xff\xff\xff\xff").unwrap();
    assert!(host.try_receive().is_err());
    let mut host = guest.host();
    host.stream.write_all(b"\x02\0\0\0\xff\xff").unwrap();
    assert!(host.try_receive().is_err());
    assert_eq!(guest.host().run(argv(&["echo", "hello"])).text(), "hello\n");
}

#[test]
fn no_common_version_ends_the_guest_naming_both() {
    if !possible() {
        return;
    }
    let mut guest = Guest::start(binary(), &Options::default());
    let mut stream = guest.accept();
    let hello = read_body(&mut stream, &mut FrameDecoder::new()).unwrap();
    let mut out = Vec::new();
    Handshake::answer(&hello, &secret(), "host-9", [7; 32], &mut out).unwrap();
    // Length, variant, then the chosen protocol in one byte: one that this guest does not speak.
    *out.get_mut(5).unwrap() = 99;
    stream.write_all(&out).unwrap();
    let (code, text) = guest.wait();
    assert_eq!(code, 70);
    assert!(text.contains("host-9") && text.contains("99"), "{text}");

    let mut guest = Guest::start(binary(), &Options::default());
    let mut stream = guest.accept();
    read_body(&mut stream, &mut FrameDecoder::new()).unwrap();
    let mut out = Vec::new();
    encode_frame(&Verdict::Refused { reason: "guest 0.0 is too old".to_owned() }, &mut out).unwrap();
    stream.write_all(&out).unwrap();
    let (code, text) = guest.wait();
    assert_eq!(code, 70);
    assert!(text.contains("guest 0.0 is too old"), "{text}");
}

#[test]
fn a_running_call_survives_the_host_and_no_byte_is_lost() {
    let Some((guest, mut host)) = start() else { return };
    let bytes: u64 = 6_000_000;
    assert!(bytes > OUTPUT_WINDOW_BYTES, "more than fits into the window");
    let op = host.exec(shell(&format!("head -c {bytes} /dev/zero | tr '\\0' q; echo end >&2; exit 9")));
    let mut result = Collected::default();
    while result.stdout.len() < 300_000 {
        let message = host.receive();
        assert!(!host.add(&mut result, op, message));
    }
    drop(host);
    let mut host = guest.host();
    let call = host.calls.first().unwrap().clone();
    assert_eq!((call.op, call.ended), (op, false));
    assert_eq!(call.call, format!("call-{op}"));
    assert!(host.next_op > op);
    // Nothing comes before it is asked for.
    let ping = host.op();
    assert!(matches!(host.ask(&HostMessage::Ping { op: ping }), GuestMessage::Pong { .. }));
    let (stdout, stderr) = (result.stdout.len() as u64, result.stderr.len() as u64);
    host.send(&HostMessage::Attach { op, stdout, stderr });
    loop {
        let message = host.receive();
        if host.add(&mut result, op, message) {
            break;
        }
    }
    assert_eq!(result.stdout.len() as u64, bytes);
    assert!(result.stdout.iter().all(|byte| *byte == b'q'));
    assert_eq!(result.stderr, b"end\n");
    assert_eq!(result.exit().exit_code, Some(9));
}

#[test]
fn a_call_that_ended_meanwhile_is_kept_until_it_is_forgotten() {
    let Some((guest, mut host)) = start() else { return };
    let op = host.exec(shell("sleep 0.3; echo result; exit 3"));
    drop(host);
    std::thread::sleep(Duration::from_millis(600));
    for _ in 0..2 {
        let mut host = guest.host();
        assert!(host.calls.first().unwrap().ended);
        host.send(&HostMessage::Attach { op, stdout: 0, stderr: 0 });
        let mut result = Collected::default();
        while result.exit.is_none() {
            match host.receive() {
                GuestMessage::Output { stream: Stream::Stdout, data, .. } => result.stdout.extend_from_slice(&data),
                GuestMessage::Exited { exit, .. } => result.exit = Some(exit),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(result.text(), "result\n");
        assert_eq!(result.exit().exit_code, Some(3));
    }
    let mut host = guest.host();
    host.send(&HostMessage::Forget { op });
    let ping = host.op();
    host.ask(&HostMessage::Ping { op: ping });
    drop(host);
    assert!(guest.host().calls.is_empty());
}

#[test]
fn a_call_that_is_forgotten_while_it_runs_goes_on_unheard_and_leaves_no_trace() {
    let Some((guest, mut host)) = start() else { return };
    let done = guest.work().join("done");
    let text = format!("head -c 20000000 /dev/zero; touch {}", done.display());
    let loud = host.exec(shell(&text));
    let stopped = host.exec(shell("sleep 1000"));
    host.send(&HostMessage::Forget { op: loud });
    host.send(&HostMessage::Cancel { op: stopped });
    host.send(&HostMessage::Forget { op: stopped });
    wait_for("the tool's last step", || done.exists().then_some(()));
    drop(host);
    let mut host = guest.host();
    assert!(host.calls.is_empty());
    // They do not count any more either.
    for _ in 0..300 {
        let op = host.exec(argv(&["true"]));
        host.send(&HostMessage::Cancel { op });
        host.send(&HostMessage::Forget { op });
    }
    let ping = host.op();
    host.send(&HostMessage::Ping { op: ping });
    loop {
        match host.receive() {
            GuestMessage::Pong { .. } => break,
            GuestMessage::Failed { error, .. } => panic!("{error}"),
            _ => {}
        }
    }
}

#[test]
fn a_failure_that_no_host_heard_is_kept_too() {
    let Some((guest, mut host)) = start() else { return };
    let op = host.exec(argv(&["no-such-program"]));
    drop(host);
    let mut host = guest.host();
    if host.calls.is_empty() {
        // The frame was still in the socket when it closed.
        return;
    }
    assert!(matches!(
        host.ask(&HostMessage::Attach { op, stdout: 0, stderr: 0 }),
        GuestMessage::Failed { op: of, .. } if of == op
    ));
}

#[test]
fn without_a_host_for_too_long_everything_ends() {
    let options = Options { orphan_ttl_ms: 500, ..Options::default() };
    let Some((mut guest, mut host)) = start_with(&options) else { return };
    host.exec(shell("trap '' TERM; while :; do sleep 1; done"));
    // While the host is there, no time passes.
    std::thread::sleep(Duration::from_millis(900));
    assert_eq!(host.run(argv(&["echo", "here"])).text(), "here\n");
    drop(host);
    let begun = Instant::now();
    let (code, text) = guest.wait();
    assert_eq!(code, 0, "{text}");
    assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_millis(3500), "{:?}", begun.elapsed());
}

#[test]
fn a_guest_that_never_finds_a_host_ends() {
    if !possible() {
        return;
    }
    let mut guest = Guest::start(binary(), &Options { orphan_ttl_ms: 300, ..Options::default() });
    assert_eq!(guest.wait().0, 0);
}

fn terminate(guest: &Guest) {
    let pid = guest.pid().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
}

#[test]
fn sigterm_ends_the_guest_quickly() {
    let Some((mut guest, mut host)) = start() else { return };
    let op = host.exec(argv(&["sleep", "1000"]));
    let begun = Instant::now();
    terminate(&guest);
    let result = host.collect(op);
    assert!(result.exit().cancelled);
    assert_eq!(guest.wait().0, 0);
    assert!(begun.elapsed() < Duration::from_millis(700), "{:?}", begun.elapsed());
}

#[test]
fn sigterm_does_not_wait_for_the_deaf() {
    let Some((mut guest, mut host)) = start() else { return };
    let op = host.exec(shell("trap '' TERM; echo deaf; while :; do sleep 1; done"));
    let mut result = Collected::default();
    let message = host.receive();
    assert!(!host.add(&mut result, op, message));
    let begun = Instant::now();
    terminate(&guest);
    assert_eq!(guest.wait().0, 0);
    assert!(begun.elapsed() < Duration::from_millis(2000), "{:?}", begun.elapsed());
}

#[test]
fn shutdown_ends_everything_and_refuses_more() {
    let Some((mut guest, mut host)) = start() else { return };
    let op = host.exec(shell("trap '' TERM; echo deaf; while :; do sleep 0.1; done"));
    let mut result = Collected::default();
    let message = host.receive();
    assert!(!host.add(&mut result, op, message));
    host.send(&HostMessage::Shutdown);
    assert!(host.run(argv(&["true"])).error.is_some());
    assert_eq!(guest.wait().0, 0);
}

#[test]
fn a_guest_is_ready_at_once_and_stays_idle() {
    let Some((guest, mut host)) = start() else { return };
    assert!(host.shell.as_deref().is_some_and(|shell| shell.ends_with("/bash") || shell == "/bin/sh"));
    host.run(argv(&["true"]));
    let switches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", guest.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    // What the last call still causes has settled when two looks agree.
    let settled = wait_for("silence", || {
        let before = switches();
        std::thread::sleep(Duration::from_millis(100));
        (switches() == before).then_some(before)
    });
    std::thread::sleep(Duration::from_millis(500));
    assert!(switches() <= settled + 2, "an idle guest sleeps");
}
