//! Rules as a whole.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    reason = "a panic is the test's failure"
)]

mod command;
mod fields;
mod path;

use super::*;

fn parse(text: &str) -> Result<Rule, RuleError> {
    Rule::parse(Behavior::Allow, RuleSource::Policy, text)
}

#[test]
fn names_and_globs() {
    for (pattern, tool, expected) in [
        ("execute", "execute", true),
        ("execute", "execute2", false),
        ("execute", "Execute", false),
        ("mcp__github__*", "mcp__github__create", true),
        ("mcp__github__*", "mcp__github__", true),
        ("mcp__github__*", "mcp__gitlab__create", false),
        ("*", "anything", true),
        ("*_file", "read_file", true),
        ("*_file", "read_file_", false),
        ("a*b*c", "axxbyyc", true),
        ("a*b*c", "axxcyyb", false),
        ("a*a", "a", false),
        ("a*a", "aa", true),
        ("**", "", true),
        ("a**b", "ab", true),
        ("*a*", "xay", true),
        ("a*ab", "aab", true),
        ("*ab*ab", "ab", false),
        ("a\\*", "a\\x", true),
    ] {
        assert_eq!(parse(pattern).unwrap().matches_tool(tool), expected, "{pattern} {tool}");
    }
}

#[test]
fn errors_name_the_rule_and_the_fix() {
    for (text, expected) in [
        (
            "!execute",
            "rule \"!execute\": a rule cannot be negated by `!`; put \"execute\" under `allow`, `ask` or `deny` instead",
        ),
        (
            "read_file(!/a)",
            "rule \"read_file(!/a)\": a rule cannot be negated by `!`; put \"read_file(/a)\" under `allow`, `ask` or `deny` instead",
        ),
        (
            "",
            "rule \"\" is malformed: it is empty; expected a tool's name, in which `*` stands for any characters, or `tool(content)`",
        ),
        (
            "execute(:*)",
            "rule \"execute(:*)\": `:*` must follow a word, as in `npm run:*`; write `execute` alone for every command",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), expected);
    }
    for (text, problem) in [
        ("execute(", "`(` is not closed at its end"),
        ("execute(a) b", "`(` is not closed at its end"),
        ("execute()", "nothing stands between `(` and `)`"),
        ("execute(  )", "nothing stands between `(` and `)`"),
        ("(x)", "no tool is named before `(`"),
        ("read file", "a tool's name has no spaces or control characters"),
        (" execute", "a tool's name has no spaces or control characters"),
        ("execute(a\tb)", "it holds a control character"),
        ("execute)", "`) ? [ ] { } , !` have no meaning in it"),
        ("read_?ile", "`) ? [ ] { } , !` have no meaning in it"),
        ("{read,write}_file", "`) ? [ ] { } , !` have no meaning in it"),
        ("{read,write}_file(/a)", "`) ? [ ] { } , !` have no meaning in it"),
    ] {
        assert_eq!(parse(text), Err(RuleError::Malformed { rule: text.into(), problem }));
    }
    for text in [
        "execute(git 'x)",
        "execute(git \"x)",
        "execute(git x\\)",
        "execute(git add && git commit)",
        "execute(npm :*)",
        "read_file(/a[b)",
        "read_file(/a/[z-a])",
        "read_file(/a/[[:alpha:]])",
        "read_file(~root/x)",
        "read_file( /a)",
        "read_file(/a )",
        "read_file(/a/**/../b)",
        "network(https://example.com)",
        "network(example.com:443)",
        "network(a*.example.com)",
        "network(*.)",
        "deploy(a=1,a=2)",
        "deploy(x[)",
    ] {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, RuleError::Content { .. }), "{error:?}");
        assert!(error.to_string().contains(&text.chars().take(8).collect::<String>()), "{error}");
    }
    assert!(parse(&"x".repeat(MAX_TOOL_BYTES)).is_ok());
    assert!(parse(&"x".repeat(MAX_TOOL_BYTES + 1)).is_err());
    let long = |bytes: usize| format!("x({})", "y".repeat(bytes - 3));
    assert!(parse(&long(MAX_RULE_BYTES)).is_ok());
    assert!(parse(&long(MAX_RULE_BYTES + 1)).is_err());
}

/// Where the tool is a pattern, it is not known what the content must be.
#[test]
fn content_of_a_pattern_of_tools_is_an_error_at_the_call() {
    let rule = parse("*(/a/[b)").unwrap();
    let content = rule.content().unwrap();
    assert!(content.path().is_err() && content.fields().is_err() && content.host().is_err());
    assert!(content.command().is_ok());
    assert!(parse("*_file(/workspace/**)").unwrap().content().unwrap().path().is_ok());
    assert!(parse("execute").unwrap().content().is_none());
    assert!(parse("execute(echo (a) b)").unwrap().content().is_some());
}

#[test]
fn reported_by_source_then_text() {
    let rule = |source, text| Rule::parse(Behavior::Deny, source, text).unwrap();
    let set: RuleSet = [
        rule(RuleSource::Session, "a*"),
        rule(RuleSource::Policy, "ab*"),
        rule(RuleSource::Policy, "ab"),
        rule(RuleSource::Policy, "ab"),
        rule(RuleSource::User, "ab(x)"),
    ]
    .into_iter()
    .collect();
    assert_eq!(set.iter().count(), 4);
    let texts = |set: &RuleSet, behavior, tool: &str| -> Vec<String> {
        set.candidates(behavior, tool, None).map(|rule| rule.text().to_owned()).collect()
    };
    assert_eq!(texts(&set, Behavior::Deny, "ab"), ["ab", "ab*", "ab(x)", "a*"]);
    assert_eq!(texts(&set, Behavior::Deny, "ax"), ["a*"]);
    assert_eq!(texts(&set, Behavior::Ask, "ab"), [""; 0]);
    assert!(set.has_content(true, "ab") && !set.has_content(true, "ax") && !set.has_content(false, "ab"));

    let mut more = set.clone();
    more.extend([rule(RuleSource::Policy, "aa*"), rule(RuleSource::Session, "a*(y)")]);
    assert_eq!(texts(&more, Behavior::Deny, "aab"), ["aa*", "a*", "a*(y)"]);
    assert!(more.has_content(true, "ax") && !more.has_content(true, "b"));
    let mut same = set.clone();
    same.extend(set.clone());
    assert_eq!(same, set);
}

#[test]
fn expired_rules_match_nothing() {
    let rule = parse("a").unwrap().with_expiry(Some(UnixMillis(10)));
    let set: RuleSet = [rule].into_iter().collect();
    let found = |now: Option<u64>| set.candidates(Behavior::Allow, "a", now.map(UnixMillis)).count();
    assert_eq!([found(None), found(Some(9)), found(Some(10)), found(Some(11))], [1, 1, 0, 0]);
}

#[test]
fn examples_that_lie_are_errors() {
    let load = |rule: &str, matching: &[&str], not_matching: &[&str]| {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let spec = RuleSpec { matching: list(matching), not_matching: list(not_matching), ..RuleSpec::from(rule) };
        Rule::from_spec(Behavior::Allow, RuleSource::Policy, &spec).map_err(|error| error.to_string())
    };
    for (rule, matching, not_matching) in [
        ("execute(npm run:*)", &["npm run", "npm 'run' build"][..], &["npm runx", "npm", "/bin/npm run"][..]),
        ("read_file(/workspace/docs/**)", &["docs/a.md", "/workspace/docs/b"], &["docs/../a", "~/docs/a"]),
        ("read_file(~/.cache)", &["~/.cache/x"], &["/root/.cache"]),
        ("deploy(staging-*)", &["staging-1"], &["prod"]),
        ("deploy(env=prod,region=eu-*)", &["env=prod,region=eu-1", "region=eu-2,env=prod"], &["env=prod,region=us"]),
        ("network(*.example.com)", &["a.example.com"], &["example.com", "xexample.com"]),
        ("*_file(/workspace/**)", &["read_file(/workspace/a)"], &["read_file(/etc/x)", "execute(/workspace/a)"]),
        ("mcp__*", &["mcp__a", "mcp__b(x)"], &["execute"]),
        ("execute", &["anything at all"], &[]),
    ] {
        load(rule, matching, not_matching).unwrap();
        for example in matching {
            load(rule, &[], &[example]).unwrap_err();
        }
        for example in not_matching {
            load(rule, &[example], &[]).unwrap_err();
        }
    }
    assert_eq!(
        load("execute(npm run:*)", &["npm runx"], &[]).unwrap_err(),
        "rule \"execute(npm run:*)\": its `match` lists \"npm runx\", which it does not match; \
         change the rule or the example"
    );
    assert_eq!(
        load("execute(npm run:*)", &[], &["npm run x"]).unwrap_err(),
        "rule \"execute(npm run:*)\": its `not_match` lists \"npm run x\", which it matches; \
         change the rule or the example"
    );
    assert!(load("execute(a)", &["a 'b"], &[]).unwrap_err().contains("a quote is not closed"));
    assert!(load("*_file(/a)", &["read_file"], &[]).unwrap_err().contains("says nothing of the call's content"));
}
