//! What gives a permit, and what a permit is good for.

use crate::fixture::{Call, context, identity, path, rules};
use toolcell_model::{AgentName, Identity, SessionId, TenantId};
use toolcell_permission::*;

fn bypass() -> Context {
    context(Mode::Bypass, RuleSet::default())
}

fn cleared(call: &Call, context: &Context) -> Clearance {
    match authorize(&DescribedCall::new(call, &identity("alice"), context.shell()), context) {
        Authorization::Allowed(clearance) => clearance,
        other => panic!("not allowed: {other:?}"),
    }
}

fn answered(call: &Call, context: &Context) -> Clearance {
    match authorize(&DescribedCall::new(call, &identity("alice"), context.shell()), context) {
        Authorization::Ask(asked) => asked.confirm_by_operator(),
        other => panic!("does not ask: {other:?}"),
    }
}

fn resolved(call: &Call, real: &[&str], clearance: Clearance, context: &Context) -> Authorization<Permit> {
    let identity = identity("alice");
    let real = real.iter().map(|text| path(text)).collect();
    clearance.authorize(&DescribedCall::new(call, &identity, context.shell()).resolved(real).unwrap(), context)
}

fn permit(call: &Call, real: &[&str]) -> Permit {
    match resolved(call, real, cleared(call, &bypass()), &bypass()) {
        Authorization::Allowed(permit) => permit,
        other => panic!("not allowed: {other:?}"),
    }
}

fn digest(call: &Call, user: &str, real: &[&str]) -> CallDigest {
    let identity = identity(user);
    let real = real.iter().map(|text| path(text)).collect();
    DescribedCall::new(call, &identity, &ShellSettings::default()).resolved(real).unwrap().digest()
}

#[test]
fn a_permit_covers_exactly_one_call() {
    let call = Call::write(&["/workspace/link"]);
    let own = digest(&call, "alice", &["/workspace/a"]);
    assert!(permit(&call, &["/workspace/a"]).covers(&own));

    let other_input = Call { input: serde_json::json!({"content": "x"}), ..call.clone() };
    let others = [
        digest(&call, "bob", &["/workspace/a"]),
        digest(&call, "alice", &["/workspace/b"]),
        digest(&Call::write(&["/workspace/link2"]), "alice", &["/workspace/a"]),
        digest(&Call::read(&["/workspace/link"]), "alice", &["/workspace/a"]),
        digest(&other_input, "alice", &["/workspace/a"]),
    ];
    for other in others {
        let refused = permit(&call, &["/workspace/a"]).consume(&other).map(|_| ());
        assert_eq!(refused, Err(PermitMismatch { permitted: own, presented: other }));
    }
}

#[test]
fn every_part_of_an_identity_counts() {
    let call = Call::execute();
    let digest = |identity: &Identity| DescribedCall::new(&call, identity, &ShellSettings::default()).digest();
    let alice = identity("alice");
    let session = SessionId::parse("alice").unwrap();
    let others = [
        Identity { tenant: TenantId::parse("other").unwrap(), ..alice.clone() },
        Identity { agent: AgentName::parse("other").unwrap(), ..alice.clone() },
        Identity { session: Some(session.clone()), ..alice.clone() },
        Identity { session: Some(session), user: None, ..alice.clone() },
        Identity { user: None, ..alice.clone() },
    ];
    for other in &others {
        assert_ne!(digest(other), digest(&alice), "{other:?}");
    }
    assert_ne!(digest(&others[3]), digest(&others[4]));
    assert_eq!(digest(&alice), digest(&alice.clone()));
}

#[test]
fn a_consumed_permit_tells_where_the_paths_led() {
    let call = Call::write(&["/workspace/link"]);
    let permitted = permit(&call, &["/workspace/a"]).consume(&digest(&call, "alice", &["/workspace/a"])).unwrap();
    assert_eq!(permitted.paths(), [DecidedPath { logical: path("/workspace/link"), real: path("/workspace/a") }]);
    assert_eq!((permitted.basis(), permitted.decision().stage), (Basis::Engine, Stage::Bypass));
}

#[test]
fn every_path_needs_its_real_one() {
    let call = Call::write(&["/workspace/a"]);
    let identity = identity("alice");
    let error = DescribedCall::new(&call, &identity, &ShellSettings::default()).resolved(Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "0 real paths were given for the 1 paths of a call of `write_file`");
}

#[test]
fn a_clearance_is_no_permit_where_the_path_leads_elsewhere() {
    let call = Call::write(&["/workspace/link"]);
    for (real, stage) in [("/etc/passwd", Stage::Default), ("/home/agent/.ssh/config", Stage::ToolCheck)] {
        let context = context(Mode::AcceptEdits, RuleSet::default());
        match resolved(&call, &[real], cleared(&call, &context), &context) {
            Authorization::Ask(asked) => assert_eq!(asked.decision().stage, stage),
            other => panic!("{real}: {other:?}"),
        }
    }
}

#[test]
fn the_operators_answer_counts_for_this_call_only() {
    let context = context(Mode::Default, RuleSet::default());
    let call = Call::write(&["/workspace/link"]);
    match resolved(&call, &["/workspace/link"], answered(&call, &context), &context) {
        Authorization::Allowed(permit) => {
            assert_eq!((permit.basis(), permit.decision().behavior), (Basis::Operator, Behavior::Ask));
        }
        other => panic!("{other:?}"),
    }
    // Where the path led was not known when the operator answered.
    assert!(matches!(resolved(&call, &["/etc/x"], answered(&call, &context), &context), Authorization::Ask(_)));
    // Neither was another call's input.
    let other = Call { input: serde_json::json!({"content": "x"}), ..call.clone() };
    assert!(matches!(
        resolved(&other, &["/workspace/link"], answered(&call, &context), &context),
        Authorization::Ask(_)
    ));
}

#[test]
fn an_operator_cannot_answer_a_deny() {
    let call = Call::execute();
    let identity = identity("alice");
    for context in [
        context(Mode::Bypass, rules(&["*"], &["*"], &["execute"])),
        context(Mode::DontAsk, RuleSet::default()),
        context(Mode::Explore, RuleSet::default()),
    ] {
        let outcome =
            authorize(&DescribedCall::new(&call, &identity, context.shell()), &context).confirmed_by_operator();
        assert!(matches!(outcome, Authorization::Denied(_)), "{outcome:?}");
    }
}

#[test]
fn a_rule_that_arrives_between_the_decisions_counts() {
    let call = Call::execute();
    let denied = context(Mode::Bypass, rules(&[], &[], &["execute"]));
    assert!(matches!(resolved(&call, &[], cleared(&call, &bypass()), &denied), Authorization::Denied(_)));
    let asking = context(Mode::Default, RuleSet::default());
    assert!(matches!(resolved(&call, &[], answered(&call, &asking), &denied), Authorization::Denied(_)));
    assert!(matches!(resolved(&call, &[], cleared(&call, &bypass()), &asking), Authorization::Ask(_)));
}

#[test]
fn a_context_that_loosens_between_the_decisions_does_not_count() {
    let call = Call::write(&["/workspace/link"]);
    let asking = context(Mode::Default, RuleSet::default());
    match resolved(&call, &["/etc/x"], answered(&call, &asking), &bypass()) {
        Authorization::Ask(asked) => assert_eq!(asked.decision().stage, Stage::Default),
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_two_yeses_the_second_is_recorded() {
    let call = Call::write(&["/workspace/a"]);
    let editing = context(Mode::AcceptEdits, RuleSet::default());
    match resolved(&call, &["/workspace/a"], cleared(&call, &bypass()), &editing) {
        Authorization::Allowed(permit) => assert_eq!(permit.decision().stage, Stage::AcceptEdits),
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_tell_the_model_what_to_do() {
    let told = RuleSpec { message: Some("Use the build tool instead.".into()), ..RuleSpec::from("execute") };
    let own_words = RuleSet::parse(RuleSource::Policy, &[], &[], &[told]).unwrap();
    let message = |call: &Call, context: &Context| call.decide(context).message;
    let execute = Call::execute();
    assert_eq!(message(&execute, &context(Mode::Default, own_words)), "Use the build tool instead.");
    assert_eq!(
        message(&execute, &context(Mode::DontAsk, RuleSet::default())),
        "A person must approve this call of `execute`: nothing allows it. Nobody can be asked in this mode, so the \
         call is denied."
    );
    assert_eq!(
        message(&Call::read(&[".env"]), &bypass()),
        "A person must approve access to `/workspace/.env`: it may hold secrets or run commands."
    );
}

#[test]
fn a_decision_is_recorded_without_its_trace() {
    let decision = Call::execute().decide(&context(Mode::Default, rules(&["execute"], &[], &[])));
    let json = serde_json::to_value(&decision).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "behavior": "allow",
            "stage": "allow_rule",
            "rule": {"rule": "execute", "source": "policy"},
            "message": "`execute` is allowed by the rule `execute`.",
            "reason": "allow rule `execute` of source policy matches",
            "demoted": false,
        })
    );
    let read: Decision = serde_json::from_value(json).unwrap();
    assert_eq!(read, Decision { trace: Vec::new(), ..decision });
}
