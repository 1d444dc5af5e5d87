//! Patterns for paths.

use super::super::path::PathPattern;
use crate::path::ContainerPath;
use proptest::prelude::*;
use proptest::sample::select;

fn pattern(text: &str) -> PathPattern {
    PathPattern::parse(text).unwrap()
}

fn path(text: &str) -> ContainerPath {
    ContainerPath::parse(text).unwrap()
}

/// What a pattern says of a path.
#[derive(Debug, PartialEq, Eq)]
enum For {
    All,
    DenyAndAsk,
    None,
}

fn says(pattern: &PathPattern, path: &ContainerPath) -> For {
    match (pattern.matches(path), pattern.covers(path)) {
        (true, true) => For::All,
        (false, true) => For::DenyAndAsk,
        (false, false) => For::None,
        (true, false) => panic!("{path} is allowed but not denied"),
    }
}

#[test]
fn paths() {
    for (text, subject, expected) in [
        ("/workspace/docs", "/workspace/docs", For::All),
        ("/workspace/docs", "/workspace/docs/a/b", For::All),
        ("/workspace/docs/", "/workspace/docs/a", For::All),
        ("/workspace/docs", "/workspace/docs2", For::None),
        ("/workspace/docs/**", "/workspace/docs/a/b", For::All),
        ("/workspace/docs/**", "/workspace/docs", For::DenyAndAsk),
        ("/workspace/docs/**", "/workspace", For::None),
        ("docs/**", "/workspace/docs/a", For::All),
        ("docs/**", "/docs/a", For::None),
        ("./docs", "/workspace/docs", For::All),
        ("../etc", "/etc/x", For::All),
        ("/workspace//docs/./x/../y", "/workspace/docs/y", For::All),
        ("*.pem", "/workspace/a.pem", For::All),
        ("*.pem", "/workspace/x/y/a.pem", For::All),
        ("*.pem", "/etc/a.pem", For::None),
        ("*.pem", "/workspace/a.pem/b", For::DenyAndAsk),
        ("docs", "/workspace/x/docs/a", For::All),
        ("docs/", "/workspace/x/docs/a", For::All),
        (".", "/workspace/x", For::All),
        ("**", "/workspace/x/y", For::All),
        ("/**", "/", For::All),
        ("/**", "/a/b", For::All),
        ("/", "/a/b", For::All),
        ("/**/*.pem", "/etc/a.pem", For::All),
        ("/**/.env", "/.env", For::All),
        ("**/.env", "/workspace/.env", For::All),
        ("/workspace/*", "/workspace/a", For::All),
        ("/workspace/*", "/workspace/a/b", For::DenyAndAsk),
        ("/workspace/*", "/workspace", For::None),
        ("/workspace/*/", "/workspace/a/b", For::All),
        ("/workspace/*/**", "/workspace/a/b/c", For::All),
        ("/workspace/*/x", "/workspace/a/x", For::All),
        ("/workspace/*/x", "/workspace/a/b/x", For::None),
        ("/workspace/**/x", "/workspace/x", For::All),
        ("/workspace/**/x", "/workspace/a/b/x/y", For::All),
        ("/a/**/b/**/c", "/a/b/b/c", For::All),
        ("/a/**/b/**/c", "/a/c/b", For::None),
        ("/a**b", "/axxb", For::All),
        ("/a**b", "/a/b", For::None),
        ("/a?c", "/aéc", For::All),
        ("/a?c", "/ac", For::None),
        ("/[a-c]x", "/bx", For::All),
        ("/[a-c]x", "/dx", For::None),
        ("/[!a-c]x", "/dx", For::All),
        ("/[^a-c]x", "/bx", For::None),
        ("/[]a]x", "/]x", For::All),
        ("/[a\\]]x", "/]x", For::All),
        ("/[a-]x", "/-x", For::All),
        ("/\\*", "/*", For::All),
        ("/\\*", "/x", For::None),
        ("/\\[x]", "/[x]", For::All),
        ("~/x", "/home/agent/x/y", For::All),
        ("~", "/home/agent/x", For::All),
        ("\\~x", "/workspace/~x", For::All),
        ("/Docs", "/docs", For::None),
        ("/a b/c (d)", "/a b/c (d)", For::All),
    ] {
        assert_eq!(says(&pattern(text), &path(subject)), expected, "{text} {subject}");
    }
    let bytes = ContainerPath::from_bytes(b"/workspace/\xff\xc3/x").unwrap();
    assert_eq!(says(&pattern("/workspace/*/x"), &bytes), For::All);
    assert_eq!(says(&pattern("/workspace/??/x"), &bytes), For::All);
    assert_eq!(says(&pattern("/workspace/?/x"), &bytes), For::None);
    assert_eq!(says(&pattern("/workspace/[!a][!b]/x"), &bytes), For::All);
}

#[test]
fn what_could_be_named() {
    for (text, shell, expected) in [
        ("/workspace/.env", "/workspace/.e*", true),
        ("/workspace/.env", "/workspace/*.rs", false),
        ("/workspace/.env", "/workspace/*/x", true),
        ("/workspace/.env", "/etc/*", false),
        ("/etc/**", "/etc/*.conf", true),
        ("/etc/**", "/e*", true),
        ("/etc/**", "/[de]tc/x", true),
        ("/etc/x/y", "/etc/*", false),
        ("*.pem", "/workspace/**/x.p?m", true),
        ("*.pem", "/workspace/src/*.rs", false),
        ("/a/[bc]", "/a/?", true),
        ("/a/[bc]", "/a/d*", false),
        ("/a/\\*", "/a/\\*", true),
        ("/a/b", "/a/\\**", false),
        ("/a/b", "/a/@(b|c)", true),
        ("/etc/**", "/workspace/.*", false),
        ("/etc/**", "/workspace/.*/etc/x", true),
        ("/etc/**", "/etc/x/.*", true),
        ("/etc", "/etc/.*", true),
        ("/etc", "relative*", true),
    ] {
        assert_eq!(pattern(text).could_match_glob(shell), expected, "{text} {shell}");
    }
    for (text, directory, expected) in [
        ("/workspace/docs/private/**", "/workspace/docs", true),
        ("/workspace/docs/private/**", "/workspace/docs/private/x", true),
        ("/workspace/docs/private/**", "/workspace/src", false),
        ("/workspace/docs", "/workspace/docs", true),
        ("/workspace/docs", "/", true),
        ("/workspace/*/x", "/workspace/a/b", false),
        ("*.pem", "/workspace/a", true),
        ("*.pem", "/etc", false),
        ("*.pem", "/", true),
    ] {
        assert_eq!(pattern(text).could_match_beneath(&path(directory)), expected, "{text} {directory}");
    }
    for (text, beginning, expected) in [
        ("/workspace/private/**", "/workspace/pri", true),
        ("/workspace/private/**", "/workspace/pub", false),
        ("/workspace/private/**", "/workspace/", true),
        ("/workspace/private/**", "/work", true),
        ("/workspace/private/**", "/etc", false),
        ("/workspace/private/**", "", true),
        ("/workspace/private/**", "x", true),
        ("/workspace/private/**", "/", true),
        ("/workspace/private/**", "/workspace/private/a/b", true),
        ("/workspace/.env", "/workspace/.", true),
        ("/workspace/.env", "/workspace/src/..", true),
        ("*.pem", "/workspace/x", true),
        ("*.pem", "/etc/x", false),
    ] {
        assert_eq!(pattern(text).could_match_prefix(beginning), expected, "{text} {beginning}");
    }
}

/// Sixteen stretches between stars, none of which ever ends the search early.
#[test]
fn hostile_patterns_are_quick() {
    let names = "/a".repeat(1500);
    let deep = pattern(&format!("{}/b", "/**/a".repeat(100)));
    assert!(!deep.covers(&path(&names)));
    assert!(deep.could_match_beneath(&path(&names)));
    let wide = pattern(&format!("/{}b", "*a".repeat(400)));
    assert!(!wide.covers(&path(&format!("/{}", "a".repeat(4000)))));
    assert!(!wide.could_match_glob(&format!("/{}", "*a".repeat(500))));
}

/// A name's pattern as a test makes it.
#[derive(Debug, Clone, Copy)]
enum Item {
    Char(char),
    One,
    Star,
    /// `[ab]`
    Class,
    /// `[!a]`
    NotA,
}

#[derive(Debug, Clone)]
enum Part {
    Span,
    Name(Vec<Item>),
}

fn render(parts: &[Part]) -> String {
    let item = |item: &Item| match item {
        Item::Char(c) => c.to_string(),
        Item::One => "?".into(),
        Item::Star => "*".into(),
        Item::Class => "[ab]".into(),
        Item::NotA => "[!a]".into(),
    };
    let part = |part: &Part| match part {
        Part::Span => "/**".to_owned(),
        Part::Name(items) => format!("/{}", items.iter().map(item).collect::<String>()),
    };
    parts.iter().map(part).collect()
}

fn reference_name(items: &[Item], name: &[char]) -> bool {
    let Some((item, rest)) = items.split_first() else { return name.is_empty() };
    let one = |fits: fn(char) -> bool| name.first().is_some_and(|c| fits(*c)) && reference_name(rest, &name[1..]);
    match item {
        Item::Char(wanted) => name.first() == Some(wanted) && reference_name(rest, &name[1..]),
        Item::One => one(|_| true),
        Item::Class => one(|c| c == 'a' || c == 'b'),
        Item::NotA => one(|c| c != 'a'),
        Item::Star => (0..=name.len()).any(|skip| reference_name(rest, &name[skip..])),
    }
}

fn reference(parts: &[Part], names: &[Vec<char>]) -> bool {
    match parts.split_first() {
        None => names.is_empty(),
        Some((Part::Span, rest)) => (0..=names.len()).any(|skip| reference(rest, &names[skip..])),
        Some((Part::Name(items), rest)) => {
            names.split_first().is_some_and(|(name, others)| reference_name(items, name) && reference(rest, others))
        }
    }
}

/// What deny and ask rules cover: the path or an ancestor of it, `/**` at the end left away.
fn reference_covers(parts: &[Part], names: &[Vec<char>]) -> bool {
    let end = parts.iter().rposition(|part| matches!(part, Part::Name(_))).map_or(0, |last| last + 1);
    (0..=names.len()).any(|length| reference(&parts[..end], &names[..length]))
}

/// What allow rules cover: the path, an ancestor of it by a plain name at the end, or beneath what stands before `/**`.
fn reference_allows(parts: &[Part], names: &[Vec<char>]) -> bool {
    match parts.split_last() {
        Some((Part::Span, _)) => {
            let end = parts.iter().rposition(|part| matches!(part, Part::Name(_))).map_or(0, |last| last + 1);
            end == 0 || (0..names.len()).any(|length| reference(&parts[..end], &names[..length]))
        }
        Some((Part::Name(items), _)) if items.iter().all(|item| matches!(item, Item::Char(_))) => {
            reference_covers(parts, names)
        }
        _ => reference(parts, names),
    }
}

fn some_parts() -> impl Strategy<Value = Vec<Part>> {
    let item = select(&[Item::Char('a'), Item::Char('b'), Item::One, Item::Star, Item::Class, Item::NotA][..]);
    let name = proptest::collection::vec(item, 1..4)
        .prop_filter("`**` is no name", |items| !matches!(items[..], [Item::Star, Item::Star]));
    let part = prop_oneof![1 => Just(Part::Span), 3 => name.prop_map(Part::Name)];
    proptest::collection::vec(part, 1..5)
}

const NAMES: [&str; 6] = ["a", "b", "ab", "aa", "c", "bab"];

fn some_names(most: usize) -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(select(&NAMES[..]).prop_map(str::to_owned), 0..=most)
}

fn absolute(names: &[String]) -> ContainerPath {
    path(&format!("/{}", names.join("/")))
}

fn characters(names: &[String]) -> Vec<Vec<char>> {
    names.iter().map(|name| name.chars().collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn paths_match_as_the_obvious_matcher_says(parts in some_parts(), names in some_names(4)) {
        let (pattern, path, names) = (pattern(&render(&parts)), absolute(&names), characters(&names));
        prop_assert_eq!(pattern.covers(&path), reference_covers(&parts, &names));
        prop_assert_eq!(pattern.matches(&path), reference_allows(&parts, &names));
        prop_assert!(!pattern.matches(&path) || pattern.covers(&path));
    }

    #[test]
    fn what_lies_beneath_is_thought_of(parts in some_parts(), above in some_names(3), beneath in some_names(3)) {
        let pattern = pattern(&render(&parts));
        let whole = absolute(&[&above[..], &beneath[..]].concat());
        if !beneath.is_empty() && pattern.covers(&whole) {
            prop_assert!(pattern.could_match_beneath(&absolute(&above)));
        }
    }

    #[test]
    fn what_a_shell_pattern_may_name_is_thought_of(parts in some_parts(), names in some_names(3), shape in "[ab*?.]{3,9}") {
        let pattern = pattern(&render(&parts));
        // Each character of the path stays, or is hidden by a wildcard that takes it.
        let mut shapes = shape.chars().cycle();
        let shell: String = absolute(&names).as_str().unwrap().chars().map(|c| match shapes.next() {
            Some(wild @ ('*' | '?')) if c != '/' => wild,
            _ => c,
        }).collect();
        if pattern.covers(&absolute(&names)) {
            prop_assert!(pattern.could_match_glob(&shell), "{}", shell);
        }
    }

    #[test]
    fn what_a_beginning_may_become_is_thought_of(parts in some_parts(), names in some_names(4), cut in 0..12_usize) {
        let (pattern, path) = (pattern(&render(&parts)), absolute(&names));
        let text = path.as_str().unwrap();
        if pattern.covers(&path) {
            prop_assert!(pattern.could_match_prefix(&text[..cut.min(text.len())]));
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,24}", bytes in proptest::collection::vec(1..=255_u8, 0..24), shell in "/\\PC{0,24}") {
        if let Ok(pattern) = PathPattern::parse(&text) {
            let path = ContainerPath::from_bytes(&[b"/", &bytes[..]].concat()).unwrap();
            prop_assert!(!pattern.matches(&path) || pattern.covers(&path));
            let _ = (pattern.could_match_glob(&shell), pattern.could_match_prefix(&shell));
        }
    }
}
