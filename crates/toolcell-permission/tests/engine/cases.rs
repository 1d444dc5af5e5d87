//! Recorded cases, in the form that `toolcell rules test` reads.

use crate::fixture::{Call, path};
use serde::Deserialize;
use std::collections::BTreeMap;
use toolcell_permission::*;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    #[serde(rename = "note")]
    _note: Option<String>,
    mode: Mode,
    #[serde(default)]
    read_only: ReadOnlyPolicy,
    #[serde(default)]
    working_directories: Vec<String>,
    rules: Rules,
    call: CaseCall,
    #[serde(default)]
    real_paths: BTreeMap<String, String>,
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    allow: Vec<RuleSpec>,
    ask: Vec<RuleSpec>,
    deny: Vec<RuleSpec>,
}

#[derive(Deserialize)]
struct CaseCall {
    tool: String,
    input: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    behavior: Behavior,
    stage: Option<Stage>,
}

#[test]
fn every_recorded_case_holds() {
    let text = include_str!("../data/cases.jsonl");
    for line in text.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let named = case.call.input.get("path").and_then(|path| path.as_str());
        let call = match (case.call.tool.as_str(), named) {
            ("read_file", Some(path)) => Call::read(&[path]),
            ("write_file", Some(path)) => Call::write(&[path]),
            ("execute", None) => Call::execute(),
            other => panic!("{}: no such tool: {other:?}", case.id),
        };
        let rules = RuleSet::parse(RuleSource::Policy, &case.rules.allow, &case.rules.ask, &case.rules.deny).unwrap();
        let context = Context::new(case.mode, rules)
            .with_read_only(case.read_only)
            .with_working_directories(case.working_directories.iter().map(|directory| path(directory)).collect());
        let real = |logical: &ContainerPath| {
            let resolved = logical.as_str().and_then(|logical| case.real_paths.get(logical));
            resolved.map_or_else(|| logical.clone(), |real| path(real))
        };
        let real: Vec<ContainerPath> = call.paths.iter().map(real).collect();
        let decision = stricter(call.decide(&context), call.decide_resolved(&real, &context));
        assert_eq!(decision.behavior, case.expect.behavior, "{}: {decision:?}", case.id);
        if let Some(stage) = case.expect.stage {
            assert_eq!(decision.stage, stage, "{}: {decision:?}", case.id);
        }
    }
    assert_eq!(text.lines().count(), 23);
}
