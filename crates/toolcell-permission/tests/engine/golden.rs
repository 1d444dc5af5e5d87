//! The decision table, as text: a change of the engine shows as a change of `tests/data/decisions.txt`. Written anew
//! with `TOOLCELL_UPDATE_GOLDEN=1`.

use crate::fixture::{Call, VERDICTS, context, path, rules};
use std::fmt::Write as _;
use toolcell_permission::*;

type Texts = &'static [&'static str];

/// A name; what is allowed, asked, denied.
type RuleShape = (&'static str, Texts, Texts, Texts);

const RULE_SHAPES: [RuleShape; 8] = [
    ("none", &[], &[], &[]),
    ("allow", &["*"], &[], &[]),
    ("ask", &[], &["*_file", "execute"], &[]),
    ("deny", &[], &[], &["*_file", "execute"]),
    ("allow+ask", &["*"], &["*_file", "execute"], &[]),
    ("allow+deny", &["*"], &[], &["*_file", "execute"]),
    ("ask+deny", &[], &["*_file", "execute"], &["*"]),
    ("other tool's", &["deploy"], &["deploy*"], &["dep*"]),
];

/// Logical path, real path.
const PATHS: [(&str, &str, &str); 6] = [
    ("inside", "/workspace/src/a", "/workspace/src/a"),
    ("outside", "/etc/a", "/etc/a"),
    ("dangerous", "/workspace/.env", "/workspace/.env"),
    ("link out", "/workspace/link/a", "/etc/a"),
    ("link in", "/etc/link/a", "/workspace/a"),
    ("link to danger", "/workspace/link", "/home/agent/.ssh/id_x"),
];

fn calls() -> Vec<(String, Call, Vec<ContainerPath>)> {
    let mut calls = Vec::new();
    for (effect, call) in [("read", Call::read as fn(&[&str]) -> Call), ("write", Call::write)] {
        for (class, logical, real) in PATHS {
            calls.push((format!("{effect:<7} {class}"), call(&[logical]), vec![path(real)]));
        }
    }
    calls.push(("write   no path".into(), Call::write(&[]), Vec::new()));
    calls.push(("execute".into(), Call::execute(), Vec::new()));
    calls
}

const CONTENT_SHAPES: [RuleShape; 9] = [
    ("none", &[], &[], &[]),
    ("allow push", &["execute(git push:*)"], &[], &[]),
    ("ask push", &["execute"], &["execute(git push:*)"], &[]),
    ("deny push", &["execute"], &[], &["execute(git push:*)"]),
    ("allow files", &["write_file(/workspace/**)"], &[], &[]),
    ("ask files", &["execute", "write_file"], &["write_file(/workspace/**)"], &[]),
    ("deny files", &["execute", "write_file"], &[], &["write_file(/etc/**)"]),
    ("deny reads", &["*"], &[], &["read_file(/etc/**)"]),
    ("unreadable", &["*"], &[], &["exec*( 'x)"]),
];

const SCRIPTS: [(&str, &str); 15] = [
    ("reads", "git status && cat src/a"),
    ("reads outside", "cat /etc/a"),
    ("edits inside", "mkdir -p src && touch src/a"),
    ("edits outside", "touch /etc/a"),
    ("writes inside", "ls > a"),
    ("writes outside", "ls > /etc/a"),
    ("other", "make test"),
    ("push", "git push origin main"),
    ("push, wrapped", "timeout 5 bash -c 'git push'"),
    ("push, with rights", "sudo git push"),
    ("opaque", "$1 push"),
    ("tainted", "PATH=/workspace/bin git status"),
    ("dangerous path", "cat .env"),
    ("dangerous", "rm -rf /"),
    ("no command", "x=1"),
];

fn line(table: &mut String, columns: &[&str], decision: &Decision) {
    for (column, width) in columns.iter().zip([13, 14, 24]) {
        write!(table, "{column:<width$}| ").unwrap();
    }
    let demoted = if decision.demoted { " (demoted)" } else { "" };
    writeln!(table, "{:<5} {}{demoted}", decision.behavior.as_str(), decision.stage).unwrap();
}

fn table() -> String {
    let mut table = String::from("# mode × rules × effect and path class\n");
    for mode in Mode::ALL {
        for (shape, allow, ask, deny) in RULE_SHAPES {
            let context = context(mode, rules(allow, ask, deny));
            for (name, call, real) in calls() {
                line(&mut table, &[mode.as_str(), shape, &name], &call.decide_resolved(&real, &context));
            }
        }
    }
    table.push_str("\n# mode × rules with content × script, of execute and as shell code\n");
    for mode in Mode::ALL {
        for (shape, allow, ask, deny) in CONTENT_SHAPES {
            let context = context(mode, rules(allow, ask, deny));
            for (name, text) in SCRIPTS {
                line(&mut table, &[mode.as_str(), shape, name], &Call::shell(text).decide_resolved(&[], &context));
            }
            for (name, text) in [("code: reads", "ls"), ("code: push", "git push")] {
                line(
                    &mut table,
                    &[mode.as_str(), shape, name],
                    &Call::code("bash", text).decide_resolved(&[], &context),
                );
            }
            let python = Call::code("python", "print(1)");
            line(&mut table, &[mode.as_str(), shape, "code: python"], &python.decide_resolved(&[], &context));
        }
    }
    table.push_str("\n# mode × rules with content × path class\n");
    for mode in Mode::ALL {
        for (shape, allow, ask, deny) in CONTENT_SHAPES.into_iter().skip(4).take(4) {
            let context = context(mode, rules(allow, ask, deny));
            for (name, call, real) in calls().into_iter().filter(|(_, call, _)| !call.paths.is_empty()) {
                line(&mut table, &[mode.as_str(), shape, &name], &call.decide_resolved(&real, &context));
            }
        }
    }
    table.push_str("\n# mode × read_only × call\n");
    for mode in Mode::ALL {
        for policy in ReadOnlyPolicy::ALL {
            let context = context(mode, RuleSet::default()).with_read_only(policy);
            for (name, call, real) in [
                ("read    outside", Call::read(&["/etc/a"]), vec![path("/etc/a")]),
                ("read    dangerous", Call::read(&[".env"]), vec![path("/workspace/.env")]),
                ("write   outside", Call::write(&["/etc/a"]), vec![path("/etc/a")]),
                ("execute", Call::execute(), Vec::new()),
                ("shell   reads", Call::shell("git status"), Vec::new()),
                ("shell   edits", Call::shell("touch a"), Vec::new()),
            ] {
                line(&mut table, &[mode.as_str(), policy.as_str(), name], &call.decide_resolved(&real, &context));
            }
        }
    }
    table.push_str("\n# mode × rules × the tool's own verdict, for execute and for a write to a dangerous path\n");
    for mode in Mode::ALL {
        for (shape, allow, ask, deny) in RULE_SHAPES.iter().take(4) {
            let context = context(mode, rules(allow, ask, deny));
            for (verdict, make) in VERDICTS {
                let execute = Call::execute().with_verdict(make());
                line(&mut table, &[mode.as_str(), shape, &format!("execute {verdict}")], &execute.decide(&context));
                let danger = Call::write(&[".git/config"]).with_verdict(make());
                line(&mut table, &[mode.as_str(), shape, &format!("danger  {verdict}")], &danger.decide(&context));
            }
        }
    }
    table
}

#[test]
fn the_decision_table_is_as_reviewed() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/decisions.txt");
    let table = table();
    if std::env::var_os("TOOLCELL_UPDATE_GOLDEN").is_some() {
        std::fs::write(file, &table).unwrap();
    }
    let reviewed = std::fs::read_to_string(file).unwrap();
    for (number, (now, then)) in table.lines().zip(reviewed.lines()).enumerate() {
        assert_eq!(now, then, "line {} of {file}", number + 1);
    }
    assert_eq!(table.lines().count(), reviewed.lines().count());
}
