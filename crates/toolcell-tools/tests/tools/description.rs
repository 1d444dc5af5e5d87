//! What the tools tell the permission engine, and models.

use crate::parse;
use serde_json::json;
use toolcell_permission::{ContainerPath, Effect, InputDigest, ToolDescription, ToolVerdict};
use toolcell_tools::Catalogue;

#[test]
fn each_tool_describes_its_call() {
    let write = json!({"path": "b/../c", "content": "x"});
    for (tool, input, read_only, effect, paths) in [
        ("execute", json!({"command": "cat .env", "cwd": "/tmp"}), false, Effect::Execute, vec![]),
        ("read_file", json!({"path": "/etc//x/"}), true, Effect::Read, vec!["/etc/x"]),
        ("write_file", write, false, Effect::Write, vec!["/workspace/c"]),
        ("list_files", json!({"path": ".."}), true, Effect::Read, vec!["/"]),
    ] {
        let parsed = parse(tool, input.clone()).unwrap();
        let call = parsed.described();
        let named: Vec<String> = call.paths().iter().map(ToString::to_string).collect();
        assert_eq!(
            (call.name(), call.read_only(), call.effect(), named),
            (tool, read_only, effect, paths.into_iter().map(str::to_owned).collect(),)
        );
        assert_eq!((call.verdict(), call.input_digest()), (ToolVerdict::Passthrough, InputDigest::of(&input)));
    }
}

#[test]
fn the_catalogue_and_the_calls_agree() {
    let inputs = json!({"path": "a", "content": "x", "command": "ls"});
    for tool in Catalogue::built_in().tools() {
        let schema = &tool.input_schema;
        assert_eq!(schema["additionalProperties"], json!(false), "{}", tool.name);
        let required = schema["required"].as_array().cloned().unwrap_or_else(|| vec![json!("command")]);
        let input = required.iter().map(|name| name.as_str().unwrap());
        let input = input.map(|name| (name.to_owned(), inputs[name].clone())).collect();
        let call = parse(&tool.name, serde_json::Value::Object(input)).unwrap();
        assert_eq!((call.name(), call.read_only()), (tool.name.as_ref(), tool.read_only));
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 10), "{}.{name}", tool.name);
        }
    }
}

#[test]
fn file_roots_bind_the_file_tools_only() {
    let roots = ["/workspace", "/home/agent", "/tmp"].map(|root| ContainerPath::parse(root).unwrap());
    let check = |tool: &str, path: &str| {
        let input = if tool == "write_file" { json!({"path": path, "content": ""}) } else { json!({"path": path}) };
        parse(tool, input).unwrap().outside_roots(&roots)
    };
    for tool in ["read_file", "write_file", "list_files"] {
        for inside in ["a", ".", "/tmp", "/home/agent/.bashrc", "/etc/../tmp/x"] {
            assert_eq!(check(tool, inside), None, "{tool} {inside}");
        }
        for outside in ["/", "/etc/passwd", "../etc", "/workspace2/a", "/home", "/tmp/../root"] {
            assert_eq!(check(tool, outside).unwrap().code, "outside_roots", "{tool} {outside}");
        }
    }
    assert_eq!(
        check("read_file", "/etc/x").unwrap().message,
        "`/etc/x` is out of reach: the file tools work beneath `/workspace`, `/home/agent`, `/tmp`"
    );
    assert!(parse("read_file", json!({"path": "a"})).unwrap().outside_roots(&[]).is_some());
    assert_eq!(parse("execute", json!({"command": "ls /", "cwd": "/"})).unwrap().outside_roots(&roots), None);
}
