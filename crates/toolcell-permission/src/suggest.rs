//! Rules that would answer a call which is asked about.

use crate::describe::Field;
use crate::mode::Behavior;
use crate::path::ContainerPath;
use crate::rule::{MAX_RULE_BYTES, Rule, RuleSource, escape, quote};
use crate::shell::script::Word;
use serde::{Deserialize, Serialize};

/// Most suggestions of one call.
pub const MAX_SUGGESTIONS: usize = 3;

/// An allow rule that would answer the call, and what it would allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// The rule's text.
    pub rule: String,
    /// What it would allow, in words for a person.
    pub allows: String,
}

impl Suggestion {
    /// `None` where the text is no rule: one that is too long, or holds what a rule cannot. Whatever else could be wrong
    /// with it is escaped by now.
    fn new(rule: String, allows: String) -> Option<Self> {
        let is_rule = rule.len() <= MAX_RULE_BYTES && !rule.chars().any(char::is_control);
        is_rule.then_some(Self { rule, allows })
    }

    /// The same for a command, of which some words mean nothing in a rule, whatever their quotes.
    fn of_command(rule: String, allows: String) -> Option<Self> {
        Rule::parse(Behavior::Allow, RuleSource::Suggested, &rule).ok()?;
        Some(Self { rule, allows })
    }
}

/// A command that an allow rule has to match, and with how many of its words its family begins: the calls that are as
/// harmless as it. `None` if it has no such family.
pub type Asking<'a> = (&'a [Word], Option<usize>);

/// For the commands of a script that an allow rule has to match. For one command: exactly it, then its family. For
/// several: one rule for each, its family's or its own, which are needed together; none if there are more than
/// [`MAX_SUGGESTIONS`], or one of them cannot be told in a rule.
#[must_use]
pub fn for_command(commands: &[Asking<'_>]) -> Vec<Suggestion> {
    if let [(words, family)] = commands {
        return exact_command(words).into_iter().chain(command_family(words, *family)).collect();
    }
    let mut suggestions: Vec<Suggestion> = Vec::new();
    for (words, family) in commands {
        match command_family(words, *family).or_else(|| exact_command(words)) {
            Some(known) if suggestions.contains(&known) => {}
            Some(new) if suggestions.len() < MAX_SUGGESTIONS => suggestions.push(new),
            Some(_) | None => return Vec::new(),
        }
    }
    suggestions
}

fn exact_command(words: &[Word]) -> Option<Suggestion> {
    let words = quoted(words)?;
    Suggestion::of_command(format!("execute({words})"), format!("the command `{words}`, exactly"))
}

fn command_family(words: &[Word], family: Option<usize>) -> Option<Suggestion> {
    let words = quoted(words.get(..family?)?)?;
    Suggestion::of_command(format!("execute({words}:*)"), format!("every command that begins with `{words}`"))
}

/// `None` without words, and where one is not known.
fn quoted(words: &[Word]) -> Option<String> {
    let words: Option<Vec<String>> = words.iter().map(|word| quote(word.text()?)).collect();
    words.filter(|words| !words.is_empty()).map(|words| words.join(" "))
}

/// For a file tool's path: it, its directory, the tool. Never the root or all that lies directly in it.
#[must_use]
pub fn for_path(tool: &str, path: &ContainerPath) -> Vec<Suggestion> {
    let text = path.as_str().filter(|text| *text != "/");
    let exact = text.and_then(|text| {
        let allows = format!("`{tool}` on `{path}`, and on what lies beneath it if it is a directory");
        Suggestion::new(format!("{tool}({})", escape(text)), allows)
    });
    // The last component may be of any encoding; its directory can still be told.
    let directory = path.as_bytes().rsplitn(2, |byte| *byte == b'/').nth(1);
    let directory = directory.and_then(|bytes| std::str::from_utf8(bytes).ok()).filter(|text| !text.is_empty());
    let directory = directory.and_then(|text| {
        let allows = format!("`{tool}` on everything beneath `{}`", ContainerPath::parse(text).ok()?);
        Suggestion::new(format!("{tool}({}/**)", escape(text)), allows)
    });
    exact.into_iter().chain(directory).chain(for_tool(tool)).collect()
}

/// For a tool with fields: their values, then the tool.
#[must_use]
pub fn for_fields(tool: &str, fields: &[Field]) -> Vec<Suggestion> {
    let values: Option<Vec<String>> = fields
        .iter()
        .map(|field| {
            let value = escape(field.value.as_deref()?);
            Some(if field.name.is_empty() { value } else { format!("{}={value}", field.name) })
        })
        .collect();
    let exact = values.map(|values| values.join(",")).filter(|values| !values.is_empty());
    let exact = exact.and_then(|values| {
        Suggestion::new(format!("{tool}({values})"), format!("`{tool}` with the same values of what rules look at"))
    });
    exact.into_iter().chain(for_tool(tool)).collect()
}

/// For a connection to a host.
#[must_use]
pub fn for_host(host: &str) -> Vec<Suggestion> {
    let exact = Suggestion::new(format!("network({host})"), format!("connections to `{host}`"));
    exact.filter(|_| !host.contains('*')).into_iter().collect()
}

/// For a tool of which rules see nothing but the name. Nothing for `execute`: that would allow every command.
#[must_use]
pub fn for_tool(tool: &str) -> Vec<Suggestion> {
    let whole = (tool != "execute" && !tool.contains('*'))
        .then(|| Suggestion::new(tool.to_owned(), format!("every call of `{tool}`")));
    whole.flatten().into_iter().collect()
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "a panic is the test's failure"
    )]
    use super::*;
    use crate::rule::Match;
    use proptest::prelude::*;

    fn rules(suggestions: &[Suggestion]) -> Vec<&str> {
        suggestions.iter().map(|suggestion| suggestion.rule.as_str()).collect()
    }

    fn words(command: &str) -> Vec<Word> {
        command.split(' ').map(|word| Word::Text(word.into())).collect()
    }

    fn parsed(suggestion: &Suggestion) -> Rule {
        Rule::parse(Behavior::Allow, RuleSource::Suggested, &suggestion.rule).unwrap()
    }

    #[test]
    fn commands() {
        let (test, make, unknown) = (words("npm run test -- -u"), words("make check"), [Word::Text("ls".into())]);
        let unknown = [&unknown[..], &[Word::Unknown { prefix: String::new(), many: false }]].concat();
        let suggested = for_command(&[(&test, Some(3))]);
        assert_eq!(rules(&suggested), ["execute(npm run test -- -u)", "execute(npm run test:*)"]);
        let allows: Vec<&str> = suggested.iter().map(|suggestion| suggestion.allows.as_str()).collect();
        let family = "every command that begins with `npm run test`";
        assert_eq!(allows, ["the command `npm run test -- -u`, exactly", family]);
        assert_eq!(rules(&for_command(&[(&test, None)])), ["execute(npm run test -- -u)"]);
        assert_eq!(rules(&for_command(&[(&unknown, None)])), [""; 0]);
        assert_eq!(rules(&for_command(&[(&unknown, Some(1))])), ["execute(ls:*)"]);
        assert_eq!(rules(&for_command(&[(&unknown, Some(0))])), [""; 0]);
        assert_eq!(rules(&for_command(&[(&unknown, Some(9))])), [""; 0]);
        let several = for_command(&[(&test, Some(3)), (&make, None), (&test, Some(3))]);
        assert_eq!(rules(&several), ["execute(npm run test:*)", "execute(make check)"]);
        assert_eq!(rules(&for_command(&[(&make, None), (&unknown, None)])), [""; 0]);
        let many = ["a", "b", "c", "d"].map(words);
        let many: Vec<Asking<'_>> = many.iter().map(|words| (&words[..], None)).collect();
        assert_eq!(for_command(&many).len(), 0);
        assert_eq!(for_command(many.get(..3).unwrap()).len(), 3);
        assert_eq!(for_command(&[]), []);
        assert_eq!(for_command(&[(&words("a\nb"), None)]), []);
        assert_eq!(for_command(&[(&words(&"x".repeat(2000)), None)]), []);
    }

    #[test]
    fn others() {
        let path = |text| ContainerPath::parse(text).unwrap();
        for (subject, expected) in [
            ("/workspace/src/a.rs", &["f(/workspace/src/a.rs)", "f(/workspace/src/**)", "f"][..]),
            ("/workspace", &["f(/workspace)", "f"]),
            ("/", &["f"]),
            ("/a/[x] *", &["f(/a/\\[x\\]\\ \\*)", "f(/a/**)", "f"]),
            ("/a/x\n", &["f(/a/**)", "f"]),
        ] {
            assert_eq!(rules(&for_path("f", &path(subject))), expected);
        }
        assert_eq!(rules(&for_path("f", &ContainerPath::from_bytes(b"/a/\xff").unwrap())), ["f(/a/**)", "f"]);
        let field = |name: &str, value: Option<&str>| Field { name: name.into(), value: value.map(str::to_owned) };
        assert_eq!(rules(&for_fields("f", &[field("", Some("a*"))])), ["f(a\\*)", "f"]);
        let both = [field("env", Some("prod")), field("region", Some("eu,us"))];
        assert_eq!(rules(&for_fields("f", &both)), ["f(env=prod,region=eu\\,us)", "f"]);
        assert_eq!(rules(&for_fields("f", &[field("env", None)])), ["f"]);
        assert_eq!(rules(&for_fields("f", &[])), ["f"]);
        assert_eq!(rules(&for_host("api.example.com")), ["network(api.example.com)"]);
        assert_eq!(for_host("*"), []);
        assert_eq!(for_tool("execute"), []);
        assert_eq!(rules(&for_tool("f")), ["f"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_suggested_command_is_the_one_asked_about(
            texts in proptest::collection::vec(prop_oneof!["\\PC{0,8}", "[a*:'\" \\\\()!;&|~$-]{0,6}"], 1..5),
            family in 1..5_usize,
        ) {
            let words: Vec<Word> = texts.iter().cloned().map(Word::Text).collect();
            let suggested = for_command(&[(&words, Some(family))]);
            // `:*` cannot stand behind an empty word.
            let has_family = texts.get(family - 1).is_some_and(|last| !last.is_empty());
            prop_assert_eq!(suggested.len(), if has_family { 2 } else { 1 });
            for suggestion in &suggested {
                let rule = parsed(suggestion);
                let pattern = rule.content().unwrap().command().unwrap();
                prop_assert_eq!(pattern.matches(&words, false), Match::Yes);
            }
            let more = [&words[..], &[Word::Text("more".into())]].concat();
            let exact = parsed(&suggested[0]);
            prop_assert_eq!(exact.content().unwrap().command().unwrap().matches(&more, false), Match::No);
        }

        #[test]
        fn a_suggested_path_is_the_one_asked_about(
            names in proptest::collection::vec(prop_oneof!["[^/\\pC]{1,6}", "[a*?!~ \\[\\]\\\\()-]{1,5}"], 1..4),
        ) {
            let path = ContainerPath::parse(&format!("/{}", names.join("/"))).unwrap();
            let suggested = for_path("read_file", &path);
            for suggestion in &suggested {
                let rule = parsed(suggestion);
                prop_assert!(rule.content().is_none_or(|content| content.path().unwrap().matches(&path)), "{}", rule.text());
            }
            let sibling = ContainerPath::parse(&format!("{}x", path.as_str().unwrap())).unwrap();
            if path.as_bytes() != b"/" {
                let exact = parsed(&suggested[0]);
                prop_assert!(!exact.content().unwrap().path().unwrap().matches(&sibling), "{}", exact.text());
            }
        }

        #[test]
        fn suggested_fields_are_the_ones_asked_about(
            values in proptest::collection::vec("[a*?!~, =\\[\\]\\\\()-]{0,5}|\\PC{0,6}", 1..4), single in any::<bool>(),
        ) {
            let name = |place: usize| if single { String::new() } else { format!("f{place}") };
            let fields: Vec<Field> = values
                .iter()
                .enumerate()
                .map(|(place, value)| Field { name: name(place), value: Some(value.clone()) })
                .take(if single { 1 } else { 4 })
                .collect();
            let suggested = for_fields("deploy", &fields);
            prop_assert!(suggested.len() == 2 || single && values[0].trim().is_empty());
            for suggestion in &suggested {
                let rule = parsed(suggestion);
                let matches = rule.content().map(|content| content.fields().unwrap().matches(&fields));
                prop_assert_eq!(matches.unwrap_or(Match::Yes), Match::Yes);
            }
        }
    }
}
