//! The contract as files: the tools' definitions and the JSON of every kind of output. Fields are only added. Written
//! anew with `TOOLCELL_UPDATE_GOLDEN=1`.

use crate::parse;
use serde_json::{Value, json};
use toolcell_model::{CallFault, CallOutcome};
use toolcell_permission::ContainerPath;
use toolcell_tools::output::{self, ExecuteEnd, FileContent, ListedEntry, ListedKind, StreamCapture, WrittenFile};
use toolcell_tools::{Catalogue, ToolInput};

fn outcome_json(outcome: CallOutcome) -> Value {
    assert_eq!(outcome.fault, None);
    let mut json = json!({"state": outcome.state, "output": outcome.output});
    if let Some(error) = outcome.error {
        json["error"] = json!(error);
    }
    json
}

fn fault_json(fault: CallFault) -> Value {
    json!(fault)
}

fn executed(end: ExecuteEnd, stdout: StreamCapture<'_>, stderr: StreamCapture<'_>) -> Value {
    outcome_json(output::execute(&end, &stdout, &stderr))
}

fn read(input: Value, bytes: &[u8], more: bool, size: u64) -> Value {
    match parse("read_file", input).unwrap().into_input() {
        ToolInput::ReadFile(input) => outcome_json(output::read_file(&input, &FileContent { bytes, more, size })),
        other => panic!("{other:?}"),
    }
}

fn written() -> Value {
    match parse("write_file", json!({"path": "src/a.py", "content": "print(1)\n"})).unwrap().into_input() {
        ToolInput::WriteFile(input) => {
            outcome_json(output::write_file(&input, &WrittenFile { size: 9, sha256: [0xab; 32], created: true }))
        }
        other => panic!("{other:?}"),
    }
}

fn listed() -> Value {
    let entry = |path: &[u8], kind, mode| ListedEntry { path: path.to_vec(), kind, mode, mtime_ms: 1_700_000_000_123 };
    let entries = vec![
        entry(b"src", ListedKind::Directory, 0o40755),
        entry(b"src/a.py", ListedKind::File { size: 9 }, 0o644),
        entry(b"link", ListedKind::Symlink, 0o777),
        entry(b"fifo", ListedKind::Special, 0o600),
        entry(b"caf\xe9", ListedKind::File { size: 0 }, 0o4755),
        entry(b".git", ListedKind::Directory, 0o755),
    ];
    match parse("list_files", json!({"path": ".", "depth": 2, "hidden": true})).unwrap().into_input() {
        ToolInput::ListFiles(input) => outcome_json(output::list_files(&input, entries, false, &|_| false)),
        other => panic!("{other:?}"),
    }
}

fn definitions() -> Value {
    let tool = |tool: toolcell_tools::ToolInfo| {
        json!({
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
            "read_only": tool.read_only,
            "concurrency_safe": tool.concurrency_safe,
        })
    };
    Catalogue::built_in().tools().map(tool).collect()
}

fn contract() -> Vec<(&'static str, Value)> {
    let whole = StreamCapture::whole;
    let ended = |exit_code| ExecuteEnd { exit_code: Some(exit_code), ..ExecuteEnd::default() };
    let part = StreamCapture { head: b"first ", tail: b" last", total: 70_000_000 };
    let killed = ExecuteEnd { signal: Some(9), ..ExecuteEnd::default() };
    let roots = [ContainerPath::workspace()];
    vec![
        ("tools", definitions()),
        ("execute.succeeded", executed(ended(0), whole(b"Python 3.11.2\n"), whole(b""))),
        ("execute.failed", executed(ended(2), whole(b""), whole("é: no such file\n".as_bytes()))),
        ("execute.base64", executed(ended(0), whole(b"\xff\x00"), whole(b"\xfe"))),
        ("execute.truncated", executed(ExecuteEnd { output_limited: true, ..killed }, part, whole(b""))),
        ("execute.truncated_base64", executed(ended(0), StreamCapture { head: b"\xff", ..part }, whole(b""))),
        (
            "execute.timed_out",
            executed(ExecuteEnd { timed_out: true, left_behind: 2, ..killed }, whole(b"so far"), whole(b"")),
        ),
        ("execute.cancelled", executed(ExecuteEnd { cancelled: true, ..killed }, whole(b""), whole(b""))),
        ("execute.out_of_memory", executed(ExecuteEnd { oom_killed: true, ..killed }, whole(b""), whole(b""))),
        ("execute.signal", executed(ExecuteEnd { signal: Some(11), ..killed }, whole(b""), whole(b""))),
        ("read_file.text", read(json!({"path": "a"}), "1\né\n".as_bytes(), false, 5)),
        ("read_file.part", read(json!({"path": "a", "offset": 3, "limit": 1}), b"3\n4\n", false, 2000)),
        ("read_file.base64", read(json!({"path": "a", "encoding": "base64"}), b"\xff\x00", false, 2)),
        ("read_file.not_utf8", read(json!({"path": "a"}), b"\xff\x00", false, 2)),
        ("write_file.created", written()),
        ("list_files", listed()),
        ("fault.unknown_tool", fault_json(parse("shell", json!({})).unwrap_err())),
        ("fault.invalid_input", fault_json(parse("execute", json!({"command": 1})).unwrap_err())),
        (
            "fault.outside_roots",
            fault_json(parse("read_file", json!({"path": "/etc/passwd"})).unwrap().outside_roots(&roots).unwrap()),
        ),
    ]
}

#[test]
fn every_output_is_as_the_contract_says() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contract");
    let update = std::env::var_os("TOOLCELL_UPDATE_GOLDEN").is_some();
    let contract = contract();
    for (name, json) in &contract {
        let file = directory.join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(json).unwrap() + "\n";
        if update {
            std::fs::write(&file, &text).unwrap();
        }
        let agreed = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(serde_json::from_str::<Value>(&agreed).unwrap(), *json, "{name}");
    }
    let mut files: Vec<String> =
        std::fs::read_dir(&directory).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let mut names: Vec<String> = contract.iter().map(|(name, _)| format!("{name}.json")).collect();
    names.sort();
    assert_eq!(files, names, "every file is the contract of something");
}
