//! What the engine is told of calls by name.

use serde_json::{Value, json};
use toolcell_permission::{Content, Effect, ProgramText};
use toolcell_tools::describe;

#[test]
fn every_tool_that_rules_may_name_is_described() {
    use Effect::{Execute, Read, Write};
    let nothing = Content::Nothing;
    for (tool, input, effect, paths, content) in [
        ("read_file", json!({ "path": "a" }), Read, vec!["/workspace/a"], Content::Paths),
        ("write_file", json!({ "path": "a", "content": "" }), Write, vec!["/workspace/a"], Content::Paths),
        ("list_files", json!({ "path": "." }), Read, vec!["/workspace"], Content::Paths),
        ("edit_file", json!({ "path": "/x/../y", "old": "a", "new": "b" }), Write, vec!["/y"], Content::Paths),
        ("glob_files", json!({ "pattern": "*" }), Read, vec!["/workspace"], Content::Paths),
        ("grep_files", json!({ "pattern": "x", "path": "/a" }), Read, vec!["/a"], Content::Paths),
        ("move_file", json!({ "from": "a", "to": "/b" }), Write, vec!["/workspace/a", "/b"], Content::Paths),
        ("delete_file", json!({ "path": "a" }), Write, vec!["/workspace/a"], Content::Paths),
        ("make_dir", json!({ "path": "a" }), Write, vec!["/workspace/a"], Content::Paths),
        ("process_list", json!({}), Read, vec![], nothing),
        ("process_output", json!({ "process": "p" }), Read, vec![], nothing),
        ("process_input", json!({ "process": "p", "data": "x" }), Execute, vec![], Content::Code { shell: None }),
        ("process_stop", json!({ "process": "p" }), Execute, vec![], nothing),
        ("run_code", json!({ "language": "bash", "code": "ls" }), Execute, vec![], Content::Code { shell: Some("ls") }),
        ("run_code", json!({ "language": "python", "code": "1" }), Execute, vec![], Content::Code { shell: None }),
        ("deploy", json!({ "env": "prod" }), Execute, vec![], nothing),
        ("mcp__github__create", json!(null), Execute, vec![], nothing),
    ] {
        let call = describe(tool, &input).unwrap();
        let named: Vec<String> = call.paths().iter().map(ToString::to_string).collect();
        assert_eq!((call.name(), call.effect(), named), (tool, effect, paths.into_iter().map(str::to_owned).collect()));
        assert_eq!(call.content(), content, "{tool}");
        assert_eq!(call.read_only(), effect == Read, "{tool}");
    }
}

#[test]
fn a_command_is_described_with_all_that_stands_beside_it() {
    let input = json!({ "command": "ls", "cwd": "/tmp", "env": { "B": "1", "A": "2" }, "stdin": "x" });
    let call = describe("execute", &input).unwrap();
    let Content::Command(command) = call.content() else { panic!("{call:?}") };
    let mut env = command.env.to_vec();
    env.sort_unstable();
    assert_eq!(
        (command.program, env, command.stdin),
        (ProgramText::Shell("ls"), vec!["A".to_owned(), "B".to_owned()], Some("x"))
    );
    assert_eq!(command.cwd.to_string(), "/tmp");
    let words: Value = json!({ "argv": ["ls", "-l"] });
    let call = describe("execute", &words).unwrap();
    let Content::Command(command) = call.content() else { panic!("{call:?}") };
    assert_eq!(command.program, ProgramText::Argv(&["ls".to_owned(), "-l".to_owned()]));
}

#[test]
fn what_breaks_a_tools_form_is_refused_by_field() {
    for (tool, input, message) in [
        ("read_file", json!({}), "input.path: is required"),
        ("move_file", json!({ "from": "a" }), "input.to: is required"),
        ("edit_file", json!({ "path": 7 }), "input.path: expected a string"),
        (
            "run_code",
            json!({ "code": "x", "language": "perl" }),
            "input.language: \"perl\" is not bash, python or node",
        ),
        ("run_code", json!({ "language": "bash" }), "input.code: is required"),
        ("make_dir", json!([]), "input: expected an object"),
    ] {
        assert_eq!(describe(tool, &input).unwrap_err().message, message, "{tool}");
    }
}
