//! Policies: contexts that are put together by a program.

use crate::fixture::{Call, identity};
use serde_json::json;
use std::sync::Arc;
use std::sync::Mutex;
use toolcell_permission::policy::{
    Gate, PolicyCall, PolicyVerdict, allow_tools, deny_tools, require_approval_for_tools,
};
use toolcell_permission::*;

fn call(tool: &str) -> Call {
    Call { name: tool.into(), ..Call::execute() }
}

fn gate() -> Gate {
    allow_tools(["search", "mail"])
        .unwrap()
        .and(deny_tools(["drop_*"], "Nothing is dropped here.").unwrap())
        .and(require_approval_for_tools(["mail"], "A person reads it first.").unwrap())
}

#[test]
fn sets_of_tools_are_rules() {
    let context = gate().context(Mode::Default);
    for (tool, behavior, stage, message) in [
        ("search", Behavior::Allow, Stage::AllowRule, "`search` is allowed by the rule `search`."),
        ("mail", Behavior::Ask, Stage::AskRule, "A person reads it first."),
        ("drop_table", Behavior::Deny, Stage::DenyRule, "Nothing is dropped here."),
        ("other", Behavior::Ask, Stage::Default, "A person must approve this call of `other`: nothing allows it."),
    ] {
        let decision = call(tool).decide(&context);
        assert_eq!((decision.behavior, decision.stage, decision.message.as_str()), (behavior, stage, message));
    }
    assert!(allow_tools(["two words"]).is_err());
}

#[test]
fn the_order_of_parts_has_no_meaning() {
    let opinions = || Gate::policy("a", |_: &PolicyCall<'_>| PolicyVerdict::Allow);
    let objection = || {
        Gate::policy("b", |call: &PolicyCall<'_>| match call.tool {
            "search" => PolicyVerdict::RequireApproval { message: "b".into() },
            _ => PolicyVerdict::NoOpinion,
        })
    };
    for gate in [gate().and(opinions()).and(objection()), objection().and(opinions()).and(gate())] {
        let context = gate.context(Mode::Default);
        let found = |tool| {
            let decision = call(tool).decide(&context);
            (decision.behavior, decision.stage, decision.reason)
        };
        let asked = (Behavior::Ask, Stage::ToolCheck, "the policy `b` asks about this input".to_owned());
        assert_eq!(found("search"), asked);
        let allowed = (Behavior::Allow, Stage::ToolCheck, "the policy `a` allows this input".to_owned());
        assert_eq!(found("other"), allowed);
        assert_eq!(found("drop_it").1, Stage::DenyRule);
        assert_eq!(found("mail").1, Stage::AskRule);
    }
}

#[test]
fn a_policy_is_told_what_the_call_is() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&told);
    let policy = move |call: &PolicyCall<'_>| {
        let id = call.call_id.map(str::to_owned);
        keep.lock().unwrap().push((call.tool.to_owned(), call.input.clone(), id, call.environment));
        PolicyVerdict::NoOpinion
    };
    let context = Context::new(Mode::Default, RuleSet::default())
        .with_policy("p", policy)
        .with_environment(ExecutionEnvironment::RemoteSandbox);
    let call = Call { input: json!({"query": "x"}), ..call("search") };
    let identity = identity("alice");
    let described = DescribedCall::new(&call, &identity, context.shell()).with_id("c1");
    assert_eq!(decide(&described, &context).stage, Stage::Default);
    let expected =
        ("search".to_owned(), json!({"query": "x"}), Some("c1".to_owned()), ExecutionEnvironment::RemoteSandbox);
    assert_eq!(*told.lock().unwrap(), [expected]);
}

#[test]
fn a_tools_own_words_come_before_a_policys_like_ones() {
    let deny = |message: &str| PolicyVerdict::Deny { message: message.into() };
    let context =
        Context::new(Mode::Bypass, RuleSet::default()).with_policy("p", move |_: &PolicyCall<'_>| deny("policy"));
    let refused = ToolVerdict::Deny { message: "tool".into() };
    assert_eq!(call("x").with_verdict(refused).decide(&context).message, "tool");
    let asks = ToolVerdict::Ask { message: "tool".into() };
    assert_eq!(call("x").with_verdict(asks).decide(&context).message, "policy");
}
