//! Tools that an operator declares.

use serde_json::{Value, json};
use toolcell_model::ToolName;
use toolcell_permission::{Content, ToolDescription, ToolVerdict};
use toolcell_tools::{Catalogue, CustomTool, CustomToolSpec, ParsedCall, Program, ToolInput};

fn spec() -> CustomToolSpec {
    CustomToolSpec {
        name: "deploy".to_owned(),
        description: "Deploy one environment".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "env": { "type": "string", "pattern": "^[a-z]+$" },
                "hosts": { "type": "array", "items": { "type": "string" } },
                "count": { "type": "integer" },
                "note": { "type": "string" },
                "region": { "type": "string" }
            },
            "required": ["env", "region"],
            "additionalProperties": false
        }),
        argv: ["/usr/bin/deploy", "--env={env}", "{hosts}", "{count}", "--{{{region}}}", "{note}"]
            .map(str::to_owned)
            .into(),
        json_stdin: false,
        read_only: false,
        concurrency_safe: false,
        rule_field: Some("/env".to_owned()),
        rule_fields: [].into(),
        dangerous_files: vec!["prod.key".to_owned()],
        dangerous_directories: vec!["etc/secrets".to_owned()],
        presets: [("region".to_owned(), json!("eu"))].into_iter().collect(),
        timeout_ms: Some(5000),
        cwd: None,
    }
}

fn parse(spec: CustomToolSpec, input: &Value) -> Result<ParsedCall, String> {
    let name = ToolName::parse(spec.name.clone()).unwrap();
    let catalogue = Catalogue::built_in().with_custom([CustomTool::new(spec).unwrap()]).unwrap();
    catalogue.parse(&name, input).map_err(|fault| format!("{}: {}", fault.code, fault.message))
}

fn argv(call: ParsedCall) -> Vec<String> {
    match call.into_input() {
        ToolInput::Custom(input) => match input.into_execute().program {
            Program::Argv(words) => words,
            Program::Shell(text) => panic!("shell text: {text}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn fields_become_words_and_never_more_than_that() {
    let hostile = "$(reboot); `x` 'y' \"z\" --force\n";
    for (input, words) in [
        (json!({ "env": "prod" }), vec!["--env=prod", "--{eu}"]),
        (json!({ "env": "a", "hosts": ["x y", "-z"], "count": 3 }), vec!["--env=a", "x y", "-z", "3", "--{eu}"]),
        (json!({ "env": "a", "hosts": [] }), vec!["--env=a", "--{eu}"]),
        (json!({ "env": "a", "note": hostile }), vec!["--env=a", "--{eu}", hostile]),
        (json!({ "env": "a", "note": "" }), vec!["--env=a", "--{eu}", ""]),
        (json!({ "env": "a", "note": "{env}" }), vec!["--env=a", "--{eu}", "{env}"]),
    ] {
        let mut expected = vec!["/usr/bin/deploy"];
        expected.extend(words);
        assert_eq!(argv(parse(spec(), &input).unwrap()), expected, "{input}");
    }
}

#[test]
fn a_word_of_which_a_field_is_missing_is_left_out() {
    let mut optional = spec();
    optional.argv = ["run", "--note={note}", "{note}", "{count}"].map(str::to_owned).into();
    assert_eq!(argv(parse(optional, &json!({ "env": "a", "count": 1 })).unwrap()), ["run", "1"]);
}

#[test]
fn an_input_that_breaks_the_schema_or_sets_a_preset_is_named() {
    for (input, message) in [
        (json!({ "env": "a", "region": "us" }), "invalid_input: input.region: is preset by the operator; leave it out"),
        (json!({}), "invalid_input: input: \"env\" is a required property"),
        (json!({ "env": 7 }), "invalid_input: input.env: 7 is not of type \"string\""),
        (json!({ "env": "a", "hosts": ["x", null] }), "invalid_input: input.hosts[1]: null is not of type \"string\""),
        (json!(["a"]), "invalid_input: input: expected an object"),
        (json!({ "env": "a", "note": "x\u{0}" }), "invalid_input: input.argv[3]: contains a NUL byte"),
    ] {
        assert_eq!(parse(spec(), &input).unwrap_err(), message);
    }
    assert!(parse(spec(), &json!({ "env": "A B" })).unwrap_err().starts_with("invalid_input: input.env: "));
    assert!(parse(spec(), &json!({ "env": "a", "more": 1 })).unwrap_err().contains("'more' was unexpected"));
    let long = "x".repeat(100_000);
    assert!(parse(spec(), &json!({ "env": "a", "count": long })).unwrap_err().len() < 400);
    let mut loose = spec();
    loose.input_schema["properties"]["note"] = json!({});
    let refused = parse(loose, &json!({ "env": "a", "note": { "a": 1 } })).unwrap_err();
    assert_eq!(refused, "invalid_input: input.note: expected a single value or a list of them: it becomes words");
}

#[test]
fn a_model_does_not_see_what_is_preset() {
    let catalogue = Catalogue::built_in().with_custom([CustomTool::new(spec()).unwrap()]).unwrap();
    let info = catalogue.tools().last().unwrap();
    assert_eq!((info.name.as_ref(), info.read_only, info.concurrency_safe), ("deploy", false, false));
    assert!(info.input_schema["properties"].get("region").is_none(), "{:#}", info.input_schema);
    assert_eq!(info.input_schema["required"], json!(["env"]));
}

#[test]
fn standard_input_is_the_merged_input() {
    let mut with_stdin = spec();
    with_stdin.json_stdin = true;
    let ToolInput::Custom(input) = parse(with_stdin, &json!({ "env": "a" })).unwrap().into_input() else { panic!() };
    let run = input.into_execute();
    let stdin: Value = serde_json::from_str(&run.stdin.unwrap()).unwrap();
    assert_eq!((stdin, run.timeout_ms), (json!({ "env": "a", "region": "eu" }), Some(5000)));
}

#[test]
fn rules_see_the_fields_that_the_operator_names() {
    let fields = |spec: CustomToolSpec, input: Value| -> Vec<(String, Option<String>)> {
        let call = parse(spec, &input).unwrap();
        match call.described().content() {
            Content::Fields(fields) => fields.iter().map(|field| (field.name.clone(), field.value.clone())).collect(),
            other => panic!("{other:?}"),
        }
    };
    let some = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
    assert_eq!(fields(spec(), json!({ "env": "prod" })), vec![some("", "prod")]);
    let mut several = spec();
    several.rule_field = None;
    several.rule_fields = [("c", "/count"), ("r", "/region")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    assert_eq!(fields(several.clone(), json!({ "env": "a", "count": 2 })), vec![some("c", "2"), some("r", "eu")]);
    assert_eq!(fields(several, json!({ "env": "a" })), vec![("c".to_owned(), None), some("r", "eu")]);
    let mut none = spec();
    none.rule_field = None;
    assert_eq!(parse(none, &json!({ "env": "a" })).unwrap().described().content(), Content::Nothing);
}

#[test]
fn dangerous_paths_in_any_field_are_asked_about() {
    let verdict = |note: &str| parse(spec(), &json!({ "env": "a", "note": note })).unwrap().described().verdict();
    for dangerous in [".env", "a/PROD.key", "/etc/secrets/x", "../etc/secrets", "~/.ssh/id_ed25519", "x/.git/config"] {
        assert!(matches!(verdict(dangerous), ToolVerdict::Ask { .. }), "{dangerous}");
    }
    for plain in ["prod", "prod.key/x", "/etc/secretsx", "etc", "about .env files", ""] {
        assert_eq!(verdict(plain), ToolVerdict::Passthrough, "{plain}");
    }
    let listed = parse(spec(), &json!({ "env": "a", "hosts": ["x", ".netrc"] })).unwrap();
    let ToolVerdict::Ask { message } = listed.described().verdict() else { panic!("{listed:?}") };
    assert!(message.contains("`/workspace/.netrc`") && message.contains("`hosts`"), "{message}");
}

#[test]
fn another_declaration_is_another_call() {
    let digest = |spec| parse(spec, &json!({ "env": "a" })).unwrap().input_digest();
    let mut changed = spec();
    changed.argv[0] = "/usr/bin/other".to_owned();
    assert_ne!(digest(spec()), digest(changed));
    let mut preset = spec();
    preset.presets.insert("region".to_owned(), json!("us"));
    assert_ne!(digest(spec()), digest(preset));
    assert_eq!(digest(spec()), digest(spec()));
}

#[test]
fn a_declaration_that_cannot_work_names_its_key() {
    type Change = fn(&mut CustomToolSpec);
    let cases: [(Change, &str); 19] = [
        (|s| s.name = "execute".into(), "name: \"execute\" is the name of a built-in tool"),
        (|s| s.name = "run_code".into(), "name: \"run_code\" is the name of a built-in tool"),
        (|s| s.name = "a b".into(), "name: \"a b\" is not a name of 1 to 64 letters, digits, `_` or `-`"),
        (|s| s.name = "x".repeat(65), "is not a name of 1 to 64"),
        (|s| s.description = " ".into(), "description: is empty"),
        (|s| s.argv = vec![], "argv: names no program"),
        (|s| s.argv[0] = "{env}".into(), "argv: its first word is the program"),
        (|s| s.argv[0] = "/bin/{env}".into(), "argv: its first word is the program"),
        (|s| s.argv[1] = "{nope}".into(), "argv: `{nope}` is neither a property of input_schema nor a preset"),
        (|s| s.argv[1] = "{".into(), "argv: \"{\": `{` begins a field"),
        (|s| s.argv[1] = "}".into(), "argv: \"}\": a `}` that closes nothing"),
        (|s| s.argv[1] = "{}".into(), "argv: \"{}\": `{}` names no field"),
        (|s| s.input_schema = json!({ "type": "string" }), "input_schema: its `type` must be \"object\""),
        (|s| s.input_schema["properties"]["env"] = json!({ "type": "strin" }), "input_schema: "),
        (|s| s.rule_field = Some("/hosts".into()), "rule_field: \"/hosts\" must point"),
        (|s| s.rule_field = Some("env".into()), "rule_field: \"env\" must point"),
        (|s| s.rule_fields = [("a".to_owned(), "/env".to_owned())].into(), "rule_fields: give either"),
        (|s| s.dangerous_files = vec!["../x".into()], "dangerous_files: \"../x\" is not a name"),
        (|s| s.timeout_ms = Some(0), "timeout_ms: must lie between 1 and"),
    ];
    for (change, expected) in cases {
        let mut wrong = spec();
        change(&mut wrong);
        let error = CustomTool::new(wrong).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}\n{expected}");
    }
    let twice = Catalogue::built_in().with_custom([spec(), spec()].map(|spec| CustomTool::new(spec).unwrap()));
    assert_eq!(twice.unwrap_err().to_string(), "name: \"deploy\" is the name of another tool");
}
