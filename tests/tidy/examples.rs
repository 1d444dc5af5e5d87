//! Every recipe of `config/examples/` loads, and decides as it says it does.

use crate::tree;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use toolcell_model::{Identity, TenantId, ToolName};
use toolcell_permission::{Behavior, Context, DescribedCall, RuleSet, RuleSource, decide};
use toolcell_runtime::Config;
use toolcell_tools::Catalogue;

use Behavior::{Allow, Ask, Deny};

/// What a recipe makes of `execute`, `read_file`, `write_file`, and of reading a dangerous path.
const RECIPES: [(&str, [Behavior; 4]); 4] = [
    ("config/examples/ask-for-writes.toml", [Ask, Allow, Ask, Ask]),
    ("config/examples/open-sandbox.toml", [Allow, Allow, Allow, Ask]),
    ("config/examples/read-only-exploration.toml", [Deny, Allow, Deny, Ask]),
    ("config/examples/unattended.toml", [Allow, Allow, Deny, Deny]),
];

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
    let recipes: BTreeMap<&str, [Behavior; 4]> = RECIPES.into();
    let files = tree::files("config/examples", "toml");
    assert_eq!(files, recipes.keys().copied().collect::<Vec<_>>(), "RECIPES has one row for each example");
    for (path, expected) in RECIPES {
        let config = load(path);
        assert_ne!(config, Config::default(), "{path} configures something");
        let found = [
            decided(&config, "execute", &json!({ "command": "true" })),
            decided(&config, "read_file", &json!({ "path": "/workspace/a" })),
            decided(&config, "write_file", &json!({ "path": "/workspace/a", "content": "" })),
            decided(&config, "read_file", &json!({ "path": "/workspace/.env" })),
        ];
        assert_eq!(found, expected, "{path}");
    }
}

#[test]
fn every_example_begins_with_what_it_is_for() {
    for path in tree::files("config/examples", "toml") {
        let text = tree::read(&path);
        assert!(text.lines().next().is_some_and(|line| line.starts_with("# ") && line.contains(": ")), "{path}");
    }
}
