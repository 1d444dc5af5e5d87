//! Typed inputs, defaults, bounds, and errors that name the field.

use crate::{parse, refused};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolcell_model::ToolName;
use toolcell_permission::ContainerPath;
use toolcell_tools::{Catalogue, ExecuteInput, Program, ReadFilePart, ToolInput, execute, write_file};

fn execute_input(input: Value) -> ExecuteInput {
    match parse("execute", input).unwrap().into_input() {
        ToolInput::Execute(input) => input,
        other => panic!("{other:?}"),
    }
}

fn path(text: &str) -> ContainerPath {
    ContainerPath::parse(text).unwrap()
}

#[test]
fn execute_with_and_without_everything() {
    assert_eq!(
        execute_input(json!({"command": "ls\n"})),
        ExecuteInput {
            program: Program::Shell("ls\n".into()),
            cwd: path("/workspace"),
            env: [].into(),
            stdin: None,
            timeout_ms: None,
        }
    );
    assert_eq!(
        execute_input(json!({
            "argv": ["echo", ""], "cwd": "src/..//x", "env": {"A": "", "B": "="}, "stdin": "\u{0}", "timeout_ms": 1
        })),
        ExecuteInput {
            program: Program::Argv(vec!["echo".into(), String::new()]),
            cwd: path("/workspace/x"),
            env: [("A".into(), String::new()), ("B".into(), "=".into())].into(),
            stdin: Some("\0".into()),
            timeout_ms: Some(1),
        }
    );
}

#[test]
fn execute_refuses_what_cannot_run() {
    for (input, message) in [
        (json!({}), "input.command: is required, unless `argv` is given"),
        (json!({"command": "ls", "argv": ["ls"]}), "input.argv: give either `command` or `argv`, not both"),
        (json!({"command": " \n"}), "input.command: is empty"),
        (json!({"command": "a\u{0}"}), "input.command: contains a NUL byte"),
        (json!({"command": ["ls"]}), "input.command: expected a string, got a list"),
        (json!({"argv": []}), "input.argv[0]: the program to run is missing"),
        (json!({"argv": [""]}), "input.argv[0]: the program to run is missing"),
        (json!({"argv": ["a", "b\u{0}"]}), "input.argv[1]: contains a NUL byte"),
        (json!({"argv": "ls -la"}), "input.argv: expected a list of strings, got \"ls -la\""),
        (json!({"command": "ls", "cwd": ""}), "input.cwd: the path is empty"),
        (
            json!({"command": "ls", "timeout_ms": "x"}),
            "input.timeout_ms: expected an integer between 1 and 86400000, got \"x\"",
        ),
        (
            json!({"command": "ls", "timeout_ms": -1}),
            "input.timeout_ms: expected an integer between 1 and 86400000, got -1",
        ),
        (
            json!({"command": "ls", "timeout_ms": 1.5}),
            "input.timeout_ms: expected an integer between 1 and 86400000, got 1.5",
        ),
        (json!({"command": "ls", "env": {"A": 1}}), "input.env.A: expected a string, got 1"),
        (
            json!({"command": "ls", "env": {"A=B": ""}}),
            "input.env.A=B: the name of a variable is not empty and has no `=` and no NUL byte",
        ),
        (
            json!({"command": "ls", "env": {"": ""}}),
            "input.env.: the name of a variable is not empty and has no `=` and no NUL byte",
        ),
        (json!({"command": "ls", "env": {"A": "\u{0}"}}), "input.env.A: contains a NUL byte"),
        (
            json!({"comand": "ls"}),
            "input.comand: `execute` has no such field; did you mean `command`? Its fields are command, argv, cwd, \
             env, stdin, timeout_ms",
        ),
        (json!(null), "input: expected an object, got null"),
    ] {
        assert_eq!(refused("execute", input), message);
    }
}

/// The last accepted size is `max`; one more is refused, and the message names the field and the bound.
fn bounded(field: &str, max: usize, input: impl Fn(usize) -> Value, tool: &str) {
    for size in [max - 1, max] {
        assert!(parse(tool, input(size)).is_ok(), "{field} of {size}");
    }
    let message = refused(tool, input(max + 1));
    assert!(message.starts_with(&format!("input.{field}")) && message.contains(&max.to_string()), "{message}");
    assert!(message.len() < 200, "a message does not repeat a long value");
}

#[test]
fn every_bound_of_execute() {
    let text = |size: usize| "x".repeat(size);
    bounded("command", execute::MAX_COMMAND_BYTES, |size| json!({"command": text(size)}), "execute");
    bounded("argv", execute::MAX_ARGV_WORDS, |size| json!({"argv": vec!["x"; size]}), "execute");
    bounded("argv[1]", execute::MAX_WORD_BYTES, |size| json!({"argv": ["x", text(size)]}), "execute");
    let rest = execute::MAX_ARGV_BYTES / 16;
    let argv = |size: usize| {
        let mut words = vec![text(rest); 15];
        words.push(text(size - 15 * rest));
        json!({"argv": words})
    };
    bounded("argv", execute::MAX_ARGV_BYTES, argv, "execute");
    let stdin = |size: usize| json!({"command": "cat", "stdin": text(size)});
    bounded("stdin", execute::MAX_STDIN_BYTES, stdin, "execute");
    let env = |size: usize| {
        let entries: serde_json::Map<_, _> = (0..size).map(|n| (n.to_string(), json!(""))).collect();
        json!({"command": "env", "env": entries})
    };
    bounded("env", execute::MAX_ENV_ENTRIES, env, "execute");
    // `A` and `=` count as well.
    let entry = |size: usize| json!({"command": "env", "env": {"A": text(size - 2)}});
    bounded("env.A", execute::MAX_WORD_BYTES, entry, "execute");
    let half = execute::MAX_ENV_BYTES / 4;
    let env = |size: usize| {
        let last = size - 3 * half - 4;
        json!({"command": "env", "env": {"A": text(half), "B": text(half), "C": text(half), "D": text(last)}})
    };
    bounded("env", execute::MAX_ENV_BYTES, env, "execute");
    let timeout = |size: usize| json!({"command": "ls", "timeout_ms": size});
    bounded("timeout_ms", usize::try_from(execute::MAX_TIMEOUT_MS).unwrap(), timeout, "execute");
}

#[test]
fn every_bound_of_the_file_tools() {
    let content = |size: usize| json!({"path": "a", "content": "x".repeat(size)});
    bounded("content", write_file::MAX_CONTENT_BYTES, content, "write_file");
    let limit = |size: usize| json!({"path": "a", "limit": size});
    bounded("limit", (1 << 53) - 1, limit, "read_file");
    let depth = |size: usize| json!({"path": "a", "depth": size});
    bounded("depth", 64, depth, "list_files");
    let long = |size: usize| json!({"path": format!("/{}", "x".repeat(size - 1))});
    bounded("path", 4095, long, "read_file");
    for (tool, field) in [("read_file", "offset"), ("read_file", "limit"), ("list_files", "depth")] {
        assert!(
            refused(tool, json!({"path": "a", field: 0})).starts_with(&format!("input.{field}: expected an integer"))
        );
    }
}

#[test]
fn read_file_lines_or_bytes() {
    let part = |input: Value| match parse("read_file", input).unwrap().into_input() {
        ToolInput::ReadFile(input) => (input.path.to_string(), input.part),
        other => panic!("{other:?}"),
    };
    let (whole, lines) = (None, |first, limit| ReadFilePart::Lines { first, limit });
    assert_eq!(part(json!({"path": "a/../b"})), ("/workspace/b".into(), lines(1, whole)));
    assert_eq!(
        part(json!({"path": "/b", "offset": 3, "limit": 2, "encoding": "utf-8"})),
        ("/b".into(), lines(3, Some(2)))
    );
    assert_eq!(part(json!({"path": "/b", "encoding": "base64"})), ("/b".into(), ReadFilePart::Base64));
    assert_eq!(ReadFilePart::lines_to_fetch(Some(2)), 3);
    assert_eq!(ReadFilePart::lines_to_fetch(None), u64::MAX);
    for (input, message) in [
        (json!({}), "input.path: is required"),
        (json!({"path": "a\u{0}"}), "input.path: the path contains a NUL byte"),
        (
            json!({"path": "a", "encoding": "base64", "offset": 2}),
            "input.offset: counts lines; leave it out with encoding \"base64\"",
        ),
        (
            json!({"path": "a", "encoding": "base64", "limit": 2}),
            "input.limit: counts lines; leave it out with encoding \"base64\"",
        ),
        (
            json!({"path": "a", "encoding": "latin1"}),
            "input.encoding: expected \"utf-8\" or \"base64\", got \"latin1\"",
        ),
        (
            json!({"file": "a"}),
            "input.file: `read_file` has no such field. Its fields are path, offset, limit, encoding",
        ),
    ] {
        assert_eq!(refused("read_file", input), message);
    }
}

#[test]
fn write_file_decodes_and_checks() {
    let written = |input: Value| match parse("write_file", input).unwrap().into_input() {
        ToolInput::WriteFile(input) => input,
        other => panic!("{other:?}"),
    };
    let plain = written(json!({"path": "a", "content": "é"}));
    assert_eq!(
        (plain.content.as_slice(), plain.mode, plain.overwrite, plain.create_dirs),
        ("é".as_bytes(), None, true, true)
    );
    let all = json!({"path": "a", "content": "/wA=", "encoding": "base64", "mode": "0755", "overwrite": false, "create_dirs": false});
    let all = written(all);
    assert_eq!(
        (all.content.as_slice(), all.mode, all.overwrite, all.create_dirs),
        (&[0xff, 0][..], Some(0o755), false, false)
    );
    assert_eq!(written(json!({"path": "a", "content": "", "mode": "640"})).mode, Some(0o640));
    for mode in ["", "7", "88", "888", "4755", "07555", "rwx", "+75", "0o755", " 755"] {
        assert_eq!(
            refused("write_file", json!({"path": "a", "content": "", "mode": mode})),
            "input.mode: expected three octal digits such as \"644\" or \"755\"",
            "{mode}"
        );
    }
    for (input, message) in [
        (json!({"path": "a"}), "input.content: is required"),
        (json!({"path": "a", "content": {}}), "input.content: expected a string, got an object"),
        (
            json!({"path": "a", "content": "é", "encoding": "base64"}),
            "input.content: is not base64, which `encoding` says it is",
        ),
        (json!({"path": "a", "content": "", "mode": 755}), "input.mode: expected a string, got 755"),
        (json!({"path": "a", "content": "", "overwrite": "no"}), "input.overwrite: expected true or false, got \"no\""),
    ] {
        assert_eq!(refused("write_file", input), message);
    }
}

#[test]
fn list_files_defaults() {
    match parse("list_files", json!({"path": "."})).unwrap().into_input() {
        ToolInput::ListFiles(input) => {
            assert_eq!((input.path, input.depth, input.hidden), (path("/workspace"), 1, false));
        }
        other => panic!("{other:?}"),
    }
    assert!(refused("list_files", json!({"path": ".", "ignored": true})).contains("`list_files` has no such field"));
}

#[test]
fn unknown_and_disabled_tools_name_those_that_are_there() {
    let name = |name: &str| ToolName::parse(name).unwrap();
    let fault = parse("deploy", json!({})).unwrap_err();
    assert_eq!(
        (fault.code.as_str(), fault.message.as_str()),
        ("unknown_tool", "no tool is named \"deploy\". The tools are execute, read_file, write_file, list_files",)
    );
    assert!(parse("exec", json!({})).unwrap_err().message.contains("did you mean `execute`?"));
    let some = Catalogue::built_in().only(&[name("read_file")]).unwrap();
    let fault = some.parse(&name("execute"), &json!({"command": "ls"})).unwrap_err();
    assert_eq!(fault.message, "no tool is named \"execute\". The tools are read_file");
    assert!(some.parse(&name("read_file"), &json!({"path": "a"})).is_ok());
    assert_eq!(some.tools().map(|tool| tool.name).collect::<Vec<_>>(), ["read_file"]);
    let fault = Catalogue::built_in().only(&[name("read_file"), name("write_fil")]).unwrap_err();
    assert!(fault.message.contains("did you mean `write_file`?"), "{}", fault.message);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        Just(Value::from("/a\u{0}")),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{0,3}", inner, 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a model sends, it hears what is wrong with its fields, and never a panic.
    #[test]
    fn any_value_in_any_field(tool in 0..4_usize, values in proptest::collection::vec(any_json(), 7)) {
        let info = Catalogue::built_in().tools().nth(tool).unwrap();
        let names = info.input_schema["properties"].as_object().unwrap().keys();
        for (name, value) in names.zip(&values) {
            let mut input = json!({"path": "a", "content": "x"});
            if info.name == "execute" {
                input = json!({});
            } else if info.name != "write_file" {
                input.as_object_mut().unwrap().remove("content");
            }
            input[name] = value.clone();
            if let Err(fault) = parse(&info.name, input) {
                prop_assert_eq!(fault.code, "invalid_input");
                prop_assert!(fault.message.starts_with("input."), "{}", fault.message);
            }
        }
    }
}
