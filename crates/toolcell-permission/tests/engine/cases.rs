//! Recorded cases, in the form that `toolcell rules test` reads.

use crate::tools::describe;
use std::error::Error;
use toolcell_permission::cases::{CaseError, parse};
use toolcell_permission::{Behavior, Stage};

fn chain(error: &CaseError) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

#[test]
fn every_recorded_case_holds() {
    hold(include_str!("../data/permissions.jsonl"), 93);
}

/// Written from the description of the semantics alone.
#[test]
fn every_specified_case_holds() {
    hold(include_str!("../data/specified.jsonl"), 1809);
}

fn hold(text: &str, count: usize) {
    let mut wrong = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let case = parse(line).unwrap();
        let answer = case.answer(number + 1, &|tool, input| describe(tool, input)).unwrap();
        if answer.ok != Some(true) {
            wrong.push(format!("{}\n  {:?}", serde_json::to_string(&answer).unwrap(), case.call));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(text.lines().count(), count);
}

const CASE: &str = r#"{"id": "a", "mode": "default", "rules": {"allow": ["write_file(/workspace/a)"], "ask": [], "deny": []},
    "call": {"tool": "write_file", "input": {"path": "a", "content": ""}}, "real_paths": {"a": "/workspace/a"},
    "working_directories": [], "expect": {"behavior": "allow"}}"#;

#[test]
fn an_answer_is_one_line() {
    let line = |case: &str| {
        serde_json::to_string(&parse(case).unwrap().answer(7, &|tool, input| describe(tool, input)).unwrap()).unwrap()
    };
    assert_eq!(
        line(CASE),
        r#"{"case":7,"id":"a","behavior":"allow","stage":"allow_rule","rule":"write_file(/workspace/a)","ok":true}"#
    );
    let linked = CASE.replace(r#""/workspace/a"}"#, r#""/etc/a"}"#);
    assert_eq!(line(&linked), r#"{"case":7,"id":"a","behavior":"ask","stage":"default","rule":null,"ok":false}"#);
    let bare = r#"{"mode": "explore", "rules": {}, "call": {"tool": "deploy", "input": {}}}"#;
    assert_eq!(line(bare), r#"{"case":7,"id":null,"behavior":"deny","stage":"explore","rule":null,"ok":null}"#);
}

#[test]
fn an_expected_stage_counts() {
    let case = CASE.replace(r#"{"behavior": "allow"}"#, r#"{"behavior": "allow", "stage": "bypass"}"#);
    let answer = parse(&case).unwrap().answer(1, &|tool, input| describe(tool, input)).unwrap();
    assert_eq!((answer.behavior, answer.stage, answer.ok), (Behavior::Allow, Stage::AllowRule, Some(false)));
}

#[test]
fn errors_name_the_field() {
    for (from, to, expected) in [
        (r#""default""#, r#""lax""#, "`mode` cannot be read: unknown variant `lax`"),
        (r#""mode""#, r#""modes""#, "`modes` cannot be read: unknown field `modes`"),
        (r#""ask": []"#, r#""ask": [7]"#, "`rules.ask[0]` cannot be read: invalid type"),
        (r#""tool""#, r#""tools""#, "`call.tools` cannot be read: unknown field `tools`"),
        (r#""behavior""#, r#""behaviour""#, "`expect.behaviour` cannot be read: unknown field"),
        (r#"(/workspace/a)"#, "(", "`rules` cannot be read: rule \"write_file(\""),
        (
            r#""working_directories": []"#,
            r#""working_directories": ["x"]"#,
            "`working_directories[0]` cannot be read: ",
        ),
        (r#""/workspace/a"}"#, r#""a"}"#, "`real_paths.a` cannot be read: the path \"a\" is not absolute"),
        (r#""path": "a""#, r#""path": 1"#, "`call.input` is no input of `write_file`: `path` is not a string"),
    ] {
        assert!(CASE.contains(from), "{from}");
        let case = parse(&CASE.replace(from, to));
        let error = case.and_then(|case| case.answer(1, &|tool, input| describe(tool, input))).unwrap_err();
        assert!(chain(&error).starts_with(expected), "{}", chain(&error));
    }
    assert!(chain(&parse(&format!("{CASE} x")).unwrap_err()).starts_with("`.` cannot be read: trailing characters"));
}

/// `l` is a directory elsewhere, so `l/..` is not the workspace.
#[test]
fn a_link_that_is_left_again_leads_elsewhere() {
    for (command, link, expected) in [
        ("touch l/../x", "/home/agent/d", Behavior::Ask),
        ("echo > l/../x", "/home/agent/d", Behavior::Ask),
        ("cd l && touch ../x", "/home/agent/d", Behavior::Ask),
        ("cd l && echo > ../x", "/home/agent/d", Behavior::Ask),
        ("touch l/../x", "/workspace/d", Behavior::Allow),
        ("cd l && touch ../x", "/workspace/d", Behavior::Allow),
    ] {
        let case = format!(
            r#"{{"mode": "accept_edits", "working_directories": ["/workspace"], "rules": {{}},
            "call": {{"tool": "execute", "input": {{"command": "{command}"}}}}, "real_paths": {{"/workspace/l": "{link}"}}}}"#
        );
        let answer = parse(&case).unwrap().answer(1, &|tool, input| describe(tool, input)).unwrap();
        assert_eq!(answer.behavior, expected, "{command}: {answer:?}");
    }
}
