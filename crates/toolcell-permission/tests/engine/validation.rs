//! Commands that may not run, whoever approves them.

use crate::fixture::{Call, context, identity, rules};
use toolcell_permission::validate::validate;
use toolcell_permission::*;

fn listed(mode: Mode, rules: RuleSet) -> Context {
    context(mode, rules).with_command_allowlist(Some(["git", "npm", "ls"].map(str::to_owned).to_vec()))
}

fn first(call: &Call, context: &Context) -> Authorization<Clearance> {
    authorize(&DescribedCall::new(call, &identity("alice"), context.shell()), context)
}

fn accepted(call: &Call) -> bool {
    let context = listed(Mode::Bypass, RuleSet::default());
    validate(&DescribedCall::new(call, &identity("alice"), context.shell()), &context).is_ok()
}

#[test]
fn every_program_must_be_listed_and_nothing_opaque() {
    for (text, expected) in [
        ("git status", true),
        ("ls | git apply; npm run build", true),
        ("timeout 5 git push", true),
        ("env A=1 nice -n 5 npm test", true),
        ("bash -c 'git push && ls'", true),
        ("curl http://x.test", false),
        ("ls && curl http://x.test", false),
        ("timeout 5 curl http://x.test", false),
        ("bash -c 'curl http://x.test'", false),
        ("git log $(curl http://x.test)", false),
        ("/usr/bin/git status", false),
        ("sudo git status", false),
        ("gitx status", false),
        ("$1 status", false),
        ("ls \"unterminated", false),
    ] {
        assert_eq!(accepted(&Call::shell(text)), expected, "{text}");
        assert_eq!(accepted(&Call::code("bash", text)), expected, "{text}");
    }
    assert!(!accepted(&Call::code("python", "git")));
    assert!(accepted(&Call::write(&["a"])) && accepted(&Call::deploy(&[("env", "prod")])));
}

#[test]
fn an_empty_list_accepts_no_command_and_no_list_every_one() {
    let identity = identity("alice");
    let call = Call::shell("ls");
    let described = DescribedCall::new(&call, &identity, &ShellSettings::default());
    let context = context(Mode::Bypass, RuleSet::default());
    assert!(validate(&described, &context).is_ok());
    let refusal = validate(&described, &context.with_command_allowlist(Some(Vec::new()))).unwrap_err();
    assert_eq!(refusal.to_string(), "`ls` is not one of the programs that may run here: none");
}

#[test]
fn what_is_not_listed_is_denied_though_allowed_or_approved() {
    let call = Call::shell("curl http://x.test");
    let asking = listed(Mode::Default, RuleSet::default());
    let allowing = listed(Mode::Default, rules(&["execute"], &[], &[]));
    for context in [&asking, &allowing] {
        match first(&call, context).confirmed_by_operator() {
            Authorization::Denied(decision) => {
                assert_eq!((decision.behavior, decision.stage), (Behavior::Deny, Stage::CommandValidator));
                assert_eq!(
                    decision.message,
                    "This command is not accepted: `curl` is not one of the programs that may run here: git, npm, ls. \
                     Use one of those."
                );
            }
            other => panic!("{other:?}"),
        }
    }
    // The pipeline itself does not know the list.
    assert_eq!(call.decide(&asking).stage, Stage::Default);
    // What is denied anyway keeps its reason.
    match first(&call, &listed(Mode::Bypass, rules(&[], &[], &["execute"]))) {
        Authorization::Denied(decision) => assert_eq!(decision.stage, Stage::DenyRule),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_list_that_arrives_between_the_decisions_counts() {
    let call = Call::shell("curl http://x.test");
    let open = context(Mode::Bypass, RuleSet::default());
    let Authorization::Allowed(clearance) = first(&call, &open) else { panic!("not allowed") };
    let identity = identity("alice");
    let described = DescribedCall::new(&call, &identity, open.shell());
    let real = described.paths().to_vec();
    match clearance.authorize(&described.resolved(real).unwrap(), &listed(Mode::Bypass, RuleSet::default())) {
        Authorization::Denied(decision) => assert_eq!(decision.stage, Stage::CommandValidator),
        other => panic!("{other:?}"),
    }
}
