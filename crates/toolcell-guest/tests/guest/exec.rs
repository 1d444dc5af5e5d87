//! Starting tools, their input, output and ends.

use super::start;
use super::support::{Host, PATIENCE, argv, bytes, path_bytes, shell};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use toolcell_protocol::limits::OUTPUT_WINDOW_BYTES;
use toolcell_protocol::{Bytes, ErrorCode, ExecSpec, GuestMessage, HostMessage, Program, Stdin, Stream};

fn code_of(host: &mut Host, spec: ExecSpec) -> (ErrorCode, String) {
    let error = host.run(spec).error.expect("a failure");
    (error.code, error.message)
}

#[test]
fn words_reach_the_program_byte_for_byte() {
    let Some((_guest, mut host)) = start() else { return };
    let mut spec = argv(&["printf", "%s|", "a b", "", "$HOME", "'\"\\"]);
    if let Program::Argv(words) = &mut spec.program {
        words.push(Bytes::from(vec![0xff, b'\n', 0xfe]));
    }
    let result = host.run(spec);
    assert_eq!(result.stdout, b"a b||$HOME|'\"\\|\xff\n\xfe|");
    assert_eq!(result.exit().exit_code, Some(0));
}

#[test]
fn exit_codes_and_signals_come_from_the_kernel() {
    let Some((_guest, mut host)) = start() else { return };
    for code in [0, 1, 127, 255] {
        let result = host.run(shell(&format!("exit {code}")));
        assert_eq!((result.exit().exit_code, result.exit().signal), (Some(code), None));
    }
    let result = host.run(shell("kill -SEGV $$"));
    assert_eq!((result.exit().exit_code, result.exit().signal), (None, Some(11)));
}

#[test]
fn a_timeout_beyond_all_measure_is_none_and_no_time_is_too_little() {
    let Some((_guest, mut host)) = start() else { return };
    let mut spec = argv(&["echo", "in time"]);
    spec.timeout_ms = u64::MAX;
    assert_eq!(host.run(spec).text(), "in time\n");
    let mut spec = argv(&["sleep", "1000"]);
    spec.timeout_ms = 0;
    assert!(host.run(spec).exit().timed_out);
}

#[test]
fn environment_and_directory_are_exactly_the_given_ones() {
    let Some((guest, mut host)) = start() else { return };
    let mut spec = argv(&["/usr/bin/env"]);
    spec.env = vec![(bytes("ONE"), bytes("1")), (bytes("TWO"), bytes("a=b"))];
    assert_eq!(host.run(spec).text(), "ONE=1\nTWO=a=b\n");
    let mut spec = argv(&["pwd"]);
    spec.cwd = path_bytes(&guest.work());
    assert_eq!(host.run(spec).text().trim(), guest.work().to_str().unwrap());
}

#[test]
fn failures_to_start_are_failures_not_exit_codes() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    let write = |name: &str, text: &str, mode: u32| {
        let path = work.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (code, message) = code_of(&mut host, argv(&["no-such-program"]));
    assert_eq!(code, ErrorCode::NotFound);
    assert!(message.contains("no-such-program"), "{message}");
    let plain = write("plain", "#!/bin/sh\n", 0o644);
    assert_eq!(code_of(&mut host, argv(&[&plain])).0, ErrorCode::PermissionDenied);
    let foreign = write("foreign", "not a program", 0o755);
    assert_eq!(code_of(&mut host, argv(&[&foreign])).0, ErrorCode::Invalid);
    let orphan = write("orphan", "#!/no/such/interpreter\n", 0o755);
    let (code, message) = code_of(&mut host, argv(&[&orphan]));
    assert_eq!(code, ErrorCode::NotFound);
    assert!(message.contains("interpreter"), "{message}");
    for (cwd, expected) in [("/no/such/place", ErrorCode::NotFound), ("/etc/passwd", ErrorCode::NotADirectory)] {
        let mut spec = argv(&["true"]);
        spec.cwd = bytes(cwd);
        let (code, message) = code_of(&mut host, spec);
        assert_eq!(code, expected);
        assert!(message.contains(cwd), "{message}");
    }
    let long = "x".repeat(200_000);
    assert_eq!(code_of(&mut host, argv(&["true", &long])).0, ErrorCode::TooLarge);
    // A forbidden program does not hide an allowed one further along.
    write("tool", "#!/bin/sh\necho wrong", 0o644);
    std::fs::create_dir(work.join("bin")).unwrap();
    write("bin/tool", "#!/bin/sh\necho right", 0o755);
    let mut spec = argv(&["tool"]);
    spec.env = vec![(bytes("PATH"), bytes(format!("{0}:{0}/bin", work.display())))];
    assert_eq!(host.run(spec).text(), "right\n");
}

#[test]
fn shell_text_cannot_poison_anything() {
    let Some((guest, mut host)) = start() else { return };
    assert_eq!(host.run(shell("cat <<X\nunquoted $((1+1))\nX\nexit 3; echo no")).text(), "unquoted 2\n");
    let broken = host.run(shell("echo 'never closed"));
    assert_ne!(broken.exit().exit_code, Some(0));
    let evil = guest.work().join("evil");
    std::fs::write(&evil, "echo evil").unwrap();
    let mut spec = shell("echo fine; env");
    spec.env = vec![(bytes("BASH_ENV"), path_bytes(&evil)), (bytes("ENV"), path_bytes(&evil))];
    let text = host.run(spec).text();
    assert!(text.starts_with("fine\n") && !text.contains("evil"), "{text}");
}

#[test]
fn shell_text_of_any_length_runs() {
    let Some((_guest, mut host)) = start() else { return };
    for length in [128 * 1024 - 1, 128 * 1024, 1024 * 1024 - 100] {
        let mut text = "printf begin\n#".to_owned();
        text.push_str(&"x".repeat(length - text.len() - "\nprintf end".len()));
        text.push_str("\nprintf end");
        assert_eq!(text.len(), length);
        assert_eq!(host.run(shell(&text)).text(), "beginend", "{length} bytes");
    }
}

#[test]
fn closed_input_is_empty_and_streamed_input_arrives_whole() {
    let Some((_guest, mut host)) = start() else { return };
    assert_eq!(host.run(argv(&["wc", "-c"])).text().trim(), "0");
    let mut spec = argv(&["sha256sum"]);
    spec.stdin = Stdin::Stream;
    let op = host.exec(spec);
    let part = vec![b'a'; 1_000_000];
    for _ in 0..3 {
        host.send(&HostMessage::StdinData { op, data: bytes(&part), end: false });
    }
    host.send(&HostMessage::StdinData { op, data: bytes(""), end: true });
    let text = host.collect(op).text();
    assert!(text.starts_with("2a152c894398719c0570f83fac34ac03"), "{text}");
}

#[test]
fn a_tool_that_does_not_read_its_input_disturbs_nobody() {
    let Some((_guest, mut host)) = start() else { return };
    let mut spec = argv(&["true"]);
    spec.stdin = Stdin::Stream;
    let op = host.exec(spec);
    for _ in 0..7 {
        host.send(&HostMessage::StdinData { op, data: bytes(vec![0; 1_000_000]), end: false });
    }
    assert_eq!(host.collect(op).exit().exit_code, Some(0));
    let mut spec = argv(&["sleep", "30"]);
    spec.stdin = Stdin::Stream;
    let op = host.exec(spec);
    for _ in 0..10 {
        host.send(&HostMessage::StdinData { op, data: bytes(vec![0; 1_000_000]), end: false });
    }
    assert_eq!(host.collect(op).error.unwrap().code, ErrorCode::TooLarge);
    assert_eq!(host.run(argv(&["echo", "next"])).text(), "next\n");
}

#[test]
fn output_is_kept_byte_for_byte_on_both_streams() {
    let Some((_guest, mut host)) = start() else { return };
    let result = host.run(shell("printf '\\377\\000\\n'; printf 'e\\200' >&2"));
    assert_eq!(result.stdout, b"\xff\0\n");
    assert_eq!(result.stderr, b"e\x80");
    assert_eq!(host.run(shell("echo a > /dev/stdout; echo b > /dev/stderr")).stderr, b"b\n");
}

#[test]
fn ten_megabytes_reach_a_slow_host_complete_in_bounded_memory() {
    let Some((guest, mut host)) = start() else { return };
    host.acknowledge = false;
    let op = host.exec(shell("head -c 10000000 /dev/zero | tr '\\0' z"));
    let mut got: u64 = 0;
    // Until the window is full and the tool waits.
    host.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    loop {
        match host.try_receive() {
            Ok(GuestMessage::Output { offset, data, .. }) => {
                assert_eq!(offset, got);
                got += data.len() as u64;
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
    }
    assert_eq!(got, OUTPUT_WINDOW_BYTES, "exactly the window is sent without acknowledgement");
    let status = std::fs::read_to_string(format!("/proc/{}/status", guest.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(resident < 20_000, "{resident} kB");
    host.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Other calls are not disturbed by the one that waits.
    host.send(&HostMessage::OutputAck { op, stream: Stream::Stdout, offset: got });
    loop {
        match host.receive() {
            GuestMessage::Output { offset, data, .. } => {
                assert_eq!(offset, got);
                got += data.len() as u64;
                assert!(data.iter().all(|byte| *byte == b'z'));
                host.send(&HostMessage::OutputAck { op, stream: Stream::Stdout, offset: got });
            }
            GuestMessage::Exited { exit, .. } => {
                assert_eq!((exit.exit_code, exit.stdout_bytes, got), (Some(0), 10_000_000, 10_000_000));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_long_stream_passes_in_bounded_memory() {
    let Some((guest, mut host)) = start() else { return };
    let bytes: u64 = 60_000_000;
    let mut spec = argv(&["head", "-c", &bytes.to_string(), "/dev/zero"]);
    spec.max_output_bytes = u64::MAX;
    let op = host.exec(spec);
    let mut got: u64 = 0;
    loop {
        match host.receive() {
            GuestMessage::Output { offset, data, .. } => {
                assert_eq!(offset, got);
                got += data.len() as u64;
                host.send(&HostMessage::OutputAck { op, stream: Stream::Stdout, offset: got });
            }
            GuestMessage::Exited { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(got, bytes);
    let status = std::fs::read_to_string(format!("/proc/{}/status", guest.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 24_000, "{peak} kB");
}

#[test]
fn the_output_cap_is_exact_for_each_stream() {
    let Some((_guest, mut host)) = start() else { return };
    for (redirect, stream) in [("", Stream::Stdout), (">&2", Stream::Stderr)] {
        for (bytes, kept, limited) in [(99_999, 99_999, false), (100_000, 100_000, false), (100_001, 100_000, true)] {
            let mut spec = shell(&format!("head -c {bytes} /dev/zero {redirect}; sleep 0.2"));
            spec.max_output_bytes = 100_000;
            let result = host.run(spec);
            let length = if stream == Stream::Stdout { result.stdout.len() } else { result.stderr.len() };
            assert_eq!((length, result.exit().output_limited), (kept, limited), "{bytes} bytes");
            assert_eq!(result.exit().signal, limited.then_some(15), "{bytes} bytes");
        }
    }
    let mut endless = argv(&["yes"]);
    endless.max_output_bytes = 1_000_000;
    let begun = Instant::now();
    let result = host.run(endless);
    assert!(result.exit().output_limited);
    assert_eq!(result.stdout.len(), 1_000_000);
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn the_report_says_what_it_cost() {
    let Some((_guest, mut host)) = start() else { return };
    let result = host.run(shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.2"));
    let exit = result.exit();
    assert!(exit.wall_us >= 200_000, "{exit:?}");
    assert!(exit.user_us > 1_000 && exit.user_us < exit.wall_us, "{exit:?}");
    assert!(exit.max_rss_kib > 100, "{exit:?}");
}

#[test]
fn calls_run_side_by_side() {
    let Some((_guest, mut host)) = start() else { return };
    let begun = Instant::now();
    let count = 40;
    for _ in 0..count {
        host.exec(argv(&["sleep", "0.5"]));
    }
    let mut ended = 0;
    while ended < count {
        match host.receive() {
            GuestMessage::Exited { op, exit } => {
                assert_eq!(exit.exit_code, Some(0));
                host.send(&HostMessage::Forget { op });
                ended += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn calls_that_nobody_forgets_are_bounded_at_256() {
    let Some((_guest, mut host)) = start() else { return };
    let mut last = 0;
    for _ in 0..256 {
        last = host.exec(argv(&["true"]));
        assert!(matches!(host.receive(), GuestMessage::Exited { .. }));
    }
    assert_eq!(code_of(&mut host, argv(&["true"])).0, ErrorCode::TooManyProcesses);
    host.send(&HostMessage::Forget { op: last });
    assert_eq!(host.run(argv(&["true"])).exit().exit_code, Some(0));
}

#[test]
fn failures_that_were_told_make_room() {
    let Some((_guest, mut host)) = start() else { return };
    for _ in 0..300 {
        assert_eq!(code_of(&mut host, argv(&["no-such-program"])).0, ErrorCode::NotFound);
    }
    assert_eq!(host.run(argv(&["true"])).exit().exit_code, Some(0));
}

#[test]
fn numbers_in_use_and_unknown_ones_are_refused() {
    let Some((_guest, mut host)) = start() else { return };
    let op = host.exec(argv(&["sleep", "30"]));
    let again = HostMessage::Exec { op, call: "again".to_owned(), spec: argv(&["true"]) };
    match host.ask(&again) {
        GuestMessage::Failed { error, .. } => assert_eq!(error.code, ErrorCode::Invalid),
        other => panic!("{other:?}"),
    }
    let huge = HostMessage::Exec { op: 1 << 56, call: "huge".to_owned(), spec: argv(&["true"]) };
    assert!(matches!(host.ask(&huge), GuestMessage::Failed { op, .. } if op == 1 << 56));
    match host.ask(&HostMessage::Attach { op: 4711, stdout: 0, stderr: 0 }) {
        GuestMessage::Failed { error, .. } => assert_eq!(error.code, ErrorCode::NotFound),
        other => panic!("{other:?}"),
    }
    for message in [
        HostMessage::Cancel { op: 4711 },
        HostMessage::Forget { op: 4711 },
        HostMessage::StdinData { op: 4711, data: bytes("x"), end: true },
        HostMessage::OutputAck { op: 4711, stream: Stream::Stdout, offset: 1 },
    ] {
        host.send(&message);
    }
    let ping = host.op();
    assert!(matches!(host.ask(&HostMessage::Ping { op: ping }), GuestMessage::Pong { op } if op == ping));
}
