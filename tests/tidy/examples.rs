//! Every recipe of `config/examples/` loads, and decides as it says it does.

use crate::tree;
use serde_json::{Value, json};
use toolcell_model::{Identity, TenantId, ToolName};
use toolcell_permission::{Behavior, Context, DescribedCall, RuleSet, RuleSource, decide};
use toolcell_runtime::Config;
use toolcell_tools::Catalogue;

use Behavior::{Allow, Ask, Deny};

/// A call, and what becomes of it.
type Row = (&'static str, &'static str, Behavior);

/// Of each recipe what it makes of calls: the tool, its `command`, `path` or `to`, and the behaviour.
const RECIPES: [(&str, &[Row]); 6] = [
    (
        "config/examples/allow-and-deny-lists.toml",
        &[
            ("execute", "cd app && npm test -- --watch=false 2>&1 | tail -20", Allow),
            ("execute", "npm run build > build.log", Allow),
            ("execute", "git add -A && git commit -m 'Say why'", Allow),
            ("execute", "mkdir -p src && touch src/a.js", Allow),
            ("execute", "npm install left-pad", Ask),
            ("execute", "npm tester", Ask),
            ("execute", "bash -c 'git push'", Deny),
            ("execute", "git commit -m x --no-verify", Deny),
            ("execute", "echo x > migrations/1.sql", Deny),
            ("write_file", "/workspace/a", Allow),
            ("write_file", "/workspace/migrations/1.sql", Deny),
            ("read_file", "/workspace/.env", Ask),
        ],
    ),
    (
        "config/examples/ask-for-writes.toml",
        &[
            ("execute", "true", Allow),
            ("execute", "python3 -V; touch a", Ask),
            ("read_file", "/workspace/a", Allow),
            ("write_file", "/workspace/a", Ask),
            ("read_file", "/workspace/.env", Ask),
        ],
    ),
    (
        "config/examples/open-sandbox.toml",
        &[
            ("execute", "make all", Allow),
            ("execute", "rm -rf .", Ask),
            ("execute", "$(cat command)", Ask),
            ("execute", "git  push", Deny),
            ("write_file", "/workspace/a", Allow),
            ("write_file", "/workspace/.git/config", Ask),
        ],
    ),
    (
        "config/examples/read-only-exploration.toml",
        &[
            ("execute", "git log --oneline | head -5", Allow),
            ("execute", "make", Deny),
            ("execute", "git log > log", Deny),
            ("read_file", "/workspace/a", Allow),
            ("write_file", "/workspace/a", Deny),
            ("read_file", "/workspace/.env", Ask),
        ],
    ),
    (
        "config/examples/rule-on-a-field.toml",
        &[
            ("send_mail", "ann@example.com", Allow),
            ("send_mail", "ann@example.org", Deny),
            ("send_mail", "ann@example.org,bob@example.com", Deny),
            ("execute", "send-mail", Deny),
        ],
    ),
    (
        "config/examples/unattended.toml",
        &[
            ("execute", "make test > reports/today.txt 2>&1", Allow),
            ("execute", "make deploy", Deny),
            ("execute", "curl x", Deny),
            ("read_file", "/workspace/a", Allow),
            ("write_file", "/workspace/reports/a", Allow),
            ("write_file", "/workspace/a", Deny),
            ("read_file", "/workspace/.env", Deny),
        ],
    ),
];

fn input(tool: &str, about: &str) -> Value {
    match tool {
        "execute" => json!({ "command": about }),
        "read_file" => json!({ "path": about }),
        "write_file" => json!({ "path": about, "content": "" }),
        "send_mail" => json!({ "to": about, "subject": "x" }),
        other => panic!("{other}"),
    }
}

fn load(path: &str) -> Config {
    Config::load_with(Some(&tree::root().join(path)), Vec::new()).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn decided(config: &Config, tool: &str, input: &Value) -> Behavior {
    let (agent, settings) = config.agents().into_iter().next().expect("an agent");
    let permissions = &settings.permissions;
    let [allow, ask, deny] = settings.rules();
    let rules = RuleSet::parse(RuleSource::Policy, &allow, &ask, &deny).unwrap();
    let context = Context::new(permissions.mode, rules)
        .with_read_only(permissions.read_only)
        .with_working_directories(permissions.working_directories.clone());
    let custom = settings.custom_tools.iter().map(|tool| tool.tool().expect("a valid tool"));
    let catalogue = Catalogue::built_in().with_custom(custom).expect("names of their own");
    let call = catalogue.parse(&ToolName::parse(tool).unwrap(), input).expect("a valid input");
    let identity = Identity { tenant: TenantId::default_tenant(), agent, session: None, user: None };
    decide(&DescribedCall::new(&call.described(), &identity, context.shell()), &context).behavior
}

#[test]
fn every_example_is_a_recipe_that_does_what_it_says() {
    let files = tree::files("config/examples", "toml");
    assert_eq!(files, RECIPES.map(|(path, _)| path.to_owned()), "RECIPES has one row for each example");
    for (path, rows) in RECIPES {
        let config = load(path);
        assert_ne!(config, Config::default(), "{path} configures something");
        for (tool, about, expected) in rows {
            assert_eq!(decided(&config, tool, &input(tool, about)), *expected, "{path}: {tool} {about}");
        }
    }
}

#[test]
fn every_example_begins_with_what_it_is_for() {
    for path in tree::files("config/examples", "toml") {
        let text = tree::read(&path);
        assert!(text.lines().next().is_some_and(|line| line.starts_with("# ") && line.contains(": ")), "{path}");
    }
}
