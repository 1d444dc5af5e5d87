//! Shaping: caps, cuts at character boundaries, encodings, states.

use crate::parse;
use base64::Engine as _;
use serde_json::{Value, json};
use toolcell_model::{CallOutcome, CallState};
use toolcell_tools::output::{self, ExecuteEnd, FileContent, INLINE_BYTES, ListedEntry, ListedKind, StreamCapture};
use toolcell_tools::{ListFilesInput, ReadFileInput, ToolInput};

const OK: ExecuteEnd = ExecuteEnd {
    exit_code: Some(0),
    signal: None,
    timed_out: false,
    cancelled: false,
    output_limited: false,
    oom_killed: false,
    left_behind: 0,
};

fn stdout(capture: &StreamCapture<'_>) -> Value {
    output::execute(&OK, capture, &StreamCapture::default()).output.unwrap()
}

fn text<'a>(json: &'a Value, name: &str) -> &'a str {
    json[name].as_str().unwrap_or_else(|| panic!("{name} is no text"))
}

fn decode(text: &str) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

#[test]
fn a_stream_is_inlined_up_to_the_cap_and_halved_beyond() {
    for (size, truncated) in [(INLINE_BYTES - 1, false), (INLINE_BYTES, false), (INLINE_BYTES + 1, true)] {
        let bytes: Vec<u8> = (0..size).map(|place| b'a' + u8::try_from(place % 26).unwrap()).collect();
        // However the two halves were captured, the result is the same.
        for split in [0, 1, size / 2, size - 1, size] {
            let (head, tail) = bytes.split_at(split);
            let json = stdout(&StreamCapture { head, tail, total: size as u64 });
            assert_eq!((&json["truncated"], &json["stdout_bytes"]), (&json!(truncated), &json!(size)));
            if truncated {
                assert_eq!(text(&json, "stdout").as_bytes(), &bytes[..INLINE_BYTES / 2]);
                assert_eq!(text(&json, "stdout_tail").as_bytes(), &bytes[size - INLINE_BYTES / 2..]);
            } else {
                assert_eq!(text(&json, "stdout").as_bytes(), bytes);
                assert_eq!(json.get("stdout_tail"), None);
            }
        }
    }
}

#[test]
fn what_is_missing_makes_it_truncated() {
    let json = stdout(&StreamCapture { head: b"ab", tail: b"yz", total: 26 });
    assert_eq!((text(&json, "stdout"), text(&json, "stdout_tail"), &json["truncated"]), ("ab", "yz", &json!(true)));
    let json = stdout(&StreamCapture { head: b"ab", tail: b"", total: 26 });
    assert_eq!((text(&json, "stdout"), text(&json, "stdout_tail")), ("ab", ""));
}

#[test]
fn cuts_fall_between_characters() {
    // Three bytes each, and neither half of the cap is a multiple of three.
    let euros = "€".repeat(INLINE_BYTES);
    let json = stdout(&StreamCapture::whole(euros.as_bytes()));
    assert_eq!(json.get("stdout_encoding"), None);
    for name in ["stdout", "stdout_tail"] {
        let half = text(&json, name);
        assert!(half.chars().all(|c| c == '€'), "{name}");
        assert!((INLINE_BYTES / 2 - 3..=INLINE_BYTES / 2).contains(&half.len()), "{name}");
    }
}

#[test]
fn bytes_that_are_no_text_come_as_base64_whole() {
    let json = stdout(&StreamCapture::whole(b"ok\xff"));
    assert_eq!((text(&json, "stdout_encoding"), decode(text(&json, "stdout"))), ("base64", b"ok\xff".to_vec()));
    // The end of a whole stream is no cut.
    let json = stdout(&StreamCapture::whole(b"ok\xe2\x82"));
    assert_eq!((text(&json, "stdout_encoding"), decode(text(&json, "stdout"))), ("base64", b"ok\xe2\x82".to_vec()));
    // One bad half makes both base64, with every byte of them.
    let json = stdout(&StreamCapture { head: b"a\xe2\x82", tail: b"\xff", total: 100 });
    assert_eq!(decode(text(&json, "stdout")), b"a\xe2\x82");
    assert_eq!(decode(text(&json, "stdout_tail")), b"\xff");
    assert_eq!(json.get("stderr_encoding"), None);
}

#[test]
fn the_state_follows_how_the_command_ended() {
    for (end, state, code) in [
        (OK, CallState::Succeeded, None),
        // A child was killed, and the command coped.
        (ExecuteEnd { oom_killed: true, ..OK }, CallState::Succeeded, None),
        (ExecuteEnd { exit_code: Some(3), ..OK }, CallState::Failed, Some("exit_status")),
        (ExecuteEnd { exit_code: None, signal: Some(11), ..OK }, CallState::Failed, Some("signal")),
        (
            ExecuteEnd { exit_code: None, signal: Some(9), oom_killed: true, ..OK },
            CallState::Failed,
            Some("out_of_memory"),
        ),
        (ExecuteEnd { exit_code: None, ..OK }, CallState::Failed, Some("exit_status")),
        (ExecuteEnd { timed_out: true, ..OK }, CallState::TimedOut, Some("timed_out")),
        (
            ExecuteEnd { exit_code: None, signal: Some(15), cancelled: true, ..OK },
            CallState::Cancelled,
            Some("cancelled"),
        ),
        (ExecuteEnd { output_limited: true, ..OK }, CallState::Failed, Some("output_limit")),
    ] {
        let outcome = output::execute(&end, &StreamCapture::default(), &StreamCapture::default());
        assert_eq!((outcome.state, outcome.error.map(|fault| fault.code)), (state, code.map(str::to_owned)), "{end:?}");
        assert!(outcome.output.is_some(), "what was captured is never thrown away");
    }
    let signal = |signal| {
        let end = ExecuteEnd { exit_code: None, signal: Some(signal), ..OK };
        output::execute(&end, &StreamCapture::default(), &StreamCapture::default()).output.unwrap()["signal"].clone()
    };
    assert_eq!([1, 9, 15, 31].map(signal), ["SIGHUP", "SIGKILL", "SIGTERM", "SIGSYS"].map(Value::from));
    assert_eq!([0, -1, 32, 64].map(signal), ["signal 0", "signal -1", "signal 32", "signal 64"].map(Value::from));
}

fn read_input(input: Value) -> ReadFileInput {
    match parse("read_file", input).unwrap().into_input() {
        ToolInput::ReadFile(input) => input,
        other => panic!("{other:?}"),
    }
}

fn read(input: Value, bytes: &[u8], more: bool) -> CallOutcome {
    output::read_file(&read_input(input), &FileContent { bytes, more, size: 1 << 40 })
}

/// Content, lines, truncated, next_offset.
fn window(outcome: CallOutcome) -> (String, u64, bool, Option<u64>) {
    let json = outcome.output.unwrap();
    let content = text(&json, "content").to_owned();
    (content, json["lines"].as_u64().unwrap(), json["truncated"].as_bool().unwrap(), json["next_offset"].as_u64())
}

#[test]
fn lines_say_whether_more_follow() {
    let all = json!({"path": "a"});
    let two = json!({"path": "a", "offset": 5, "limit": 2});
    for (input, bytes, more, expected) in [
        (&all, &b""[..], false, ("", 0, false, None)),
        (&all, b"a\nb\n", false, ("a\nb\n", 2, false, None)),
        (&all, b"a\nb", false, ("a\nb", 2, false, None)),
        (&all, b"\n\n", false, ("\n\n", 2, false, None)),
        // The guest's cap fell into the second line.
        (&all, b"a\nb", true, ("a\n", 1, true, Some(2))),
        (&all, b"a\n", true, ("a\n", 1, true, Some(2))),
        // One line alone is longer than the guest's cap.
        (&all, b"a", true, ("a", 1, true, None)),
        (&two, b"a\nb\n", false, ("a\nb\n", 2, false, None)),
        (&two, b"a\nb", false, ("a\nb", 2, false, None)),
        (&two, b"a\nb\nc\n", false, ("a\nb\n", 2, true, Some(7))),
        (&two, b"a\nb\nc", true, ("a\nb\n", 2, true, Some(7))),
        (&two, b"a\nb", true, ("a\n", 1, true, Some(6))),
        // The line after the last wanted one is not looked at.
        (&two, b"a\nb\n\xff", false, ("a\nb\n", 2, true, Some(7))),
    ] {
        let (content, lines, truncated, next) = expected;
        assert_eq!(window(read(input.clone(), bytes, more)), (content.to_owned(), lines, truncated, next), "{bytes:?}");
    }
}

#[test]
fn text_is_inlined_up_to_the_cap_and_cut_after_a_line() {
    let all = json!({"path": "a"});
    let line = "x".repeat(1023) + "\n";
    let full = line.repeat(INLINE_BYTES / 1024);
    assert_eq!(full.len(), INLINE_BYTES);
    let shorter = &full[1..];
    assert_eq!(window(read(all.clone(), shorter.as_bytes(), false)), (shorter.to_owned(), 1024, false, None));
    assert_eq!(window(read(all.clone(), full.as_bytes(), false)), (full.clone(), 1024, false, None));
    let longer = format!("y{full}");
    let (content, lines, truncated, next) = window(read(all.clone(), longer.as_bytes(), false));
    assert_eq!((content.len(), lines, truncated, next), (INLINE_BYTES - 1023, 1023, true, Some(1024)));
    // One line of three-byte characters that never ends.
    let euros = "€".repeat(INLINE_BYTES);
    let (content, lines, truncated, next) = window(read(all, euros.as_bytes(), true));
    assert_eq!((content.len(), lines, truncated, next), (INLINE_BYTES / 3 * 3, 1, true, None));
}

#[test]
fn text_that_is_none_says_so_and_how_to_read_it() {
    for bytes in [&b"a\xff\n"[..], b"a\xe2\x82"] {
        let outcome = read(json!({"path": "a"}), bytes, false);
        assert_eq!((outcome.state, outcome.output), (CallState::Failed, None));
        let fault = outcome.error.unwrap();
        assert_eq!(fault.code, "not_utf8");
        assert_eq!(fault.message, "`/workspace/a` is not UTF-8 text; read it with encoding \"base64\"");
    }
}

#[test]
fn base64_up_to_the_cap() {
    let input = json!({"path": "a", "encoding": "base64"});
    for (size, more, shown, truncated) in [
        (0, false, 0, false),
        (INLINE_BYTES, false, INLINE_BYTES, false),
        (INLINE_BYTES, true, INLINE_BYTES, true),
        (INLINE_BYTES + 1, false, INLINE_BYTES, true),
    ] {
        let json = read(input.clone(), &vec![0xff; size], more).output.unwrap();
        assert_eq!((decode(text(&json, "content")).len(), &json["truncated"]), (shown, &json!(truncated)));
        assert_eq!((text(&json, "encoding"), json.get("lines")), ("base64", None));
    }
}

fn list_input(path: &str) -> ListFilesInput {
    match parse("list_files", json!({"path": path, "hidden": true})).unwrap().into_input() {
        ToolInput::ListFiles(input) => input,
        other => panic!("{other:?}"),
    }
}

fn entry(path: &[u8]) -> ListedEntry {
    ListedEntry { path: path.to_vec(), kind: ListedKind::Directory, mode: 0o755, mtime_ms: 0 }
}

fn list(path: &str, entries: &[&str]) -> (Vec<String>, u64) {
    let entries = entries.iter().map(|name| entry(name.as_bytes())).collect();
    let json = output::list_files(&list_input(path), entries, false, &|_| false).output.unwrap();
    let shown = json["entries"].as_array().unwrap().iter().map(|entry| text(entry, "path").to_owned()).collect();
    (shown, json["skipped"].as_u64().unwrap())
}

#[test]
fn dangerous_entries_are_left_out_and_counted() {
    let entries = ["src", ".git", ".git/config", "a/.env", "a", ".env.example", "src/main.rs", "../etc/.ssh/x"];
    assert_eq!(list(".", &entries), (vec![".env.example".into(), "a".into(), "src".into(), "src/main.rs".into()], 4));
    assert_eq!(list("/home/agent/.docker", &["config.json", "x"]), (vec!["x".into()], 1));
    // A person said yes to the directory itself.
    assert_eq!(list(".git", &["config", "hooks"]), (vec!["config".into(), "hooks".into()], 0));
    // Too long to be judged.
    assert_eq!(list("/", &[&"x".repeat(5000)]), (Vec::new(), 1));
}

#[test]
fn a_listing_is_bounded() {
    let entries: Vec<ListedEntry> = (0..20_000_u32).map(|n| entry(format!("{n:0>100}").as_bytes())).collect();
    let json = output::list_files(&list_input("."), entries.clone(), false, &|_| false).output.unwrap();
    let shown = json["entries"].as_array().unwrap().len();
    assert_eq!((shown, &json["truncated"]), (INLINE_BYTES / 180, &json!(true)));
    let few = entries.into_iter().take(shown).collect();
    assert_eq!(output::list_files(&list_input("."), few, false, &|_| false).output.unwrap()["truncated"], json!(false));
    assert_eq!(
        output::list_files(&list_input("."), Vec::new(), true, &|_| false).output.unwrap()["truncated"],
        json!(true)
    );
}
