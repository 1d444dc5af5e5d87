//! Patterns for commands.

use super::super::command::CommandPattern;
use super::super::quoting::{quote, split};
use super::super::verdict::Match::{self, Maybe, No, Yes};
use crate::shell::script::Word;
use proptest::prelude::*;
use proptest::sample::select;

fn pattern(text: &str) -> CommandPattern {
    CommandPattern::parse(text).unwrap()
}

fn texts(words: &[&str]) -> Vec<Word> {
    words.iter().map(|word| Word::Text((*word).to_owned())).collect()
}

fn unknown(prefix: &str) -> Word {
    Word::Unknown { prefix: prefix.into(), many: false }
}

fn unknowns(prefix: &str) -> Word {
    Word::Unknown { prefix: prefix.into(), many: true }
}

fn glob(text: &str) -> Word {
    Word::Glob(text.into())
}

fn text(text: &str) -> Word {
    Word::Text(text.into())
}

#[test]
fn known_words() {
    for (rule, command, expected) in [
        ("git status", "git status", true),
        ("git status", "git", false),
        ("git status", "git status -s", false),
        ("git status", "git statusx", false),
        ("npm run:*", "npm run", true),
        ("npm run:*", "npm run build -- -x", true),
        ("npm run:*", "npm runx", false),
        ("npm run:*", "npm", false),
        ("npm run *", "npm run", true),
        ("npm run*", "npm runx", true),
        ("npm run*", "npm run x", false),
        ("npm run*:*", "npm runx y", true),
        ("git * --force", "git --force", true),
        ("git * --force", "git push origin --force", true),
        ("git * --force", "git push --force origin", false),
        ("git * push:*", "git push", true),
        ("git * push:*", "git -C x push origin", true),
        ("git * push:*", "git pushx", false),
        ("git * * push", "git push", true),
        ("*", "anything at all", true),
        ("* --force", "rm --force", true),
        ("*:*", "anything", true),
        ("echo a*b*c", "echo axxbc", true),
        ("echo a*b*c", "echo axxc", false),
        ("echo 'a b'", "echo 'a b'", true),
        ("echo 'a b'", "echo a b", false),
        ("echo \"a * b\"", "echo 'a * b'", true),
        ("echo \"a * b\"", "echo 'a x b'", false),
        ("echo \\*", "echo '*'", true),
        ("echo \\*", "echo x", false),
        ("echo 'x'*", "echo xyz", true),
        ("echo ''", "echo ''", true),
        ("echo ''", "echo", false),
        ("'a b':*", "'a b' c", true),
        ("echo x':*'", "echo 'x:*'", true),
        ("echo x\\:*", "echo x:y", true),
        ("echo x\\:*", "echo x", false),
        ("echo \"a\\\"\\x\"", "echo 'a\"\\x'", true),
        ("echo $HOME ~ ? [a]", "echo $HOME ~ ? [a]", true),
        ("  git   status ", "git status", true),
        ("find . -exec x \\;", "find . -exec x ';'", true),
        ("Git status", "git status", false),
    ] {
        let words: Vec<String> =
            split(command).unwrap().iter().map(|word| word.iter().map(|piece| piece.character).collect()).collect();
        let words: Vec<Word> = words.into_iter().map(Word::Text).collect();
        assert_eq!(pattern(rule).matches(&words, false), Match::known(expected), "{rule}: {command}");
    }
    assert_eq!(pattern("git").matches(&[], false), No);
    assert_eq!(pattern("*").matches(&[], false), Yes);
}

#[test]
fn a_program_by_its_base_name() {
    for (rule, words, plain, by_base_name) in [
        ("git push:*", &["/usr/bin/git", "push"][..], No, Yes),
        ("git push:*", &["./git", "push"], No, Yes),
        ("git push:*", &["bin/", "push"], No, No),
        ("git push:*", &["/usr/bin/gitx", "push"], No, No),
        ("git push:*", &["sudo", "/usr/bin/git", "push"], No, No),
        ("git /x", &["git", "/y/x"], No, No),
        ("git x", &["git", "/y/x"], No, No),
        ("/usr/bin/git:*", &["/usr/bin/git", "push"], Yes, Yes),
        ("/usr/bin/git:*", &["git", "push"], No, No),
        ("* push", &["/usr/bin/git", "push"], Yes, Yes),
        ("python*", &["/usr/bin/python3"], No, Yes),
    ] {
        assert_eq!(pattern(rule).matches(&texts(words), false), plain, "{rule} {words:?}");
        assert_eq!(pattern(rule).matches(&texts(words), true), by_base_name, "{rule} {words:?}");
    }
    let words = [text("/usr/bin/git"), text("push"), unknown("")];
    assert_eq!(pattern("git push:*").matches(&words, true), Yes);
    assert_eq!(pattern("git push:*").matches(&words, false), No);
}

#[test]
fn unknown_words() {
    let git = || text("git");
    let push = || text("push");
    for (rule, words, expected) in [
        ("git push:*", vec![git(), push(), unknown("")], Yes),
        ("git push:*", vec![git(), push(), unknowns("")], Yes),
        ("git push:*", vec![git(), push(), glob("*")], Yes),
        ("git push:*", vec![git(), unknown("")], Maybe),
        ("git push:*", vec![git(), unknown("pu")], Maybe),
        ("git push:*", vec![git(), unknown("lo")], No),
        ("git push:*", vec![git(), unknown("pushx")], No),
        ("git push:*", vec![git(), text("log"), unknown("")], No),
        ("git push:*", vec![git(), unknowns("")], Maybe),
        ("git push:*", vec![git(), unknowns("lo")], No),
        ("git push:*", vec![git(), unknowns(""), push()], Maybe),
        ("git push", vec![git(), push(), unknowns("")], Maybe),
        ("git push", vec![git(), push(), unknown("")], No),
        ("git push x", vec![git(), push(), unknown("x")], Maybe),
        ("git push x*", vec![git(), push(), unknown("x")], Yes),
        ("git push x*y", vec![git(), push(), unknown("x")], Maybe),
        ("git push x*y", vec![git(), push(), unknown("z")], No),
        ("git * --force", vec![git(), unknowns(""), text("--force")], Yes),
        ("git * --force", vec![git(), unknowns("")], Maybe),
        ("git * --force", vec![git(), text("push"), glob("src/*")], No),
        ("git * --force", vec![git(), text("push"), glob("*")], Maybe),
        ("cat *.env", vec![text("cat"), glob("*.en?")], Maybe),
        ("cat *.env", vec![text("cat"), glob("*.rs")], No),
        ("cat .env", vec![text("cat"), glob(".e[nm]v")], Maybe),
        ("cat .env", vec![text("cat"), glob(".f[nm]v")], No),
        ("cat .env", vec![text("cat"), glob("@(.env|x)")], Maybe),
        ("cat \\*", vec![text("cat"), glob("\\**")], Maybe),
        ("rm a b", vec![text("rm"), glob("*")], Maybe),
        ("rm a b c", vec![text("rm"), glob("*"), text("c")], Maybe),
        ("rm a b c", vec![text("rm"), glob("*"), text("d")], No),
        ("cat *.txt", vec![text("cat"), glob("*.txt")], Maybe),
        ("*", vec![unknowns("")], Yes),
    ] {
        assert_eq!(pattern(rule).matches(&words, false), expected, "{rule} {words:?}");
    }
}

/// An item of a pattern as a test makes it; `None` is a `*`.
#[derive(Debug, Clone)]
enum Part {
    Span,
    Word(Vec<Option<char>>),
}

fn render(parts: &[Part]) -> String {
    let word = |part: &Part| match part {
        Part::Span => "*".to_owned(),
        // Nothing is quoted but the empty text, which keeps a word of one star from being a span.
        Part::Word(word) => format!("''{}", word.iter().map(|c| c.unwrap_or('*')).collect::<String>()),
    };
    parts.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn reference_word(word: &[Option<char>], text: &[char]) -> bool {
    match word.split_first() {
        None => text.is_empty(),
        Some((None, rest)) => (0..=text.len()).any(|skip| reference_word(rest, &text[skip..])),
        Some((Some(c), rest)) => text.first() == Some(c) && reference_word(rest, &text[1..]),
    }
}

fn reference(parts: &[Part], words: &[String]) -> bool {
    match parts.split_first() {
        None => words.is_empty(),
        Some((Part::Span, rest)) => (0..=words.len()).any(|skip| reference(rest, &words[skip..])),
        Some((Part::Word(word), rest)) => words.split_first().is_some_and(|(first, others)| {
            reference_word(word, &first.chars().collect::<Vec<_>>()) && reference(rest, others)
        }),
    }
}

fn a_part() -> impl Strategy<Value = Part> {
    let character = select(&[Some('a'), Some('b'), None][..]);
    prop_oneof![
        1 => Just(Part::Span),
        2 => proptest::collection::vec(character, 0..4).prop_filter("a span", |word| {
            word.is_empty() || word.iter().any(Option::is_some)
        }).prop_map(Part::Word),
    ]
}

fn some_parts() -> impl Strategy<Value = Vec<Part>> {
    proptest::collection::vec(a_part(), 1..5)
}

fn a_word() -> impl Strategy<Value = Word> {
    prop_oneof![
        3 => "[ab]{0,2}".prop_map(Word::Text),
        1 => "[ab*?]{1,3}".prop_map(Word::Glob),
        1 => ("[ab]{0,2}", any::<bool>()).prop_map(|(prefix, many)| Word::Unknown { prefix, many }),
    ]
}

const SHORT: [&str; 7] = ["", "a", "b", "aa", "ab", "ba", "bb"];

fn shell_glob(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|skip| shell_glob(rest, &text[skip..])),
        Some((c, rest)) => text.first().is_some_and(|t| *c == '?' || c == t) && shell_glob(rest, &text[1..]),
    }
}

/// Some of what a word may turn out to be.
fn completions(word: &Word) -> Vec<Vec<String>> {
    match word {
        Word::Text(text) => vec![vec![text.clone()]],
        Word::Glob(pattern) => {
            let chars: Vec<char> = pattern.chars().collect();
            let fits = |text: &&&str| !text.is_empty() && shell_glob(&chars, &text.chars().collect::<Vec<_>>());
            let files: Vec<String> = SHORT.iter().filter(fits).map(|text| (*text).to_owned()).collect();
            let one = files.iter().map(|file| vec![file.clone()]);
            let two = files.iter().flat_map(|a| files.iter().map(move |b| vec![a.clone(), b.clone()]));
            one.chain(two).chain([vec![pattern.clone()]]).collect()
        }
        Word::Unknown { prefix, many } => {
            let first: Vec<String> = SHORT.iter().map(|rest| format!("{prefix}{rest}")).collect();
            let one = first.iter().map(|word| vec![word.clone()]);
            if *many {
                let two = first.iter().flat_map(|a| ["a", "b", ""].map(|b| vec![a.clone(), b.to_owned()]));
                one.chain(two).chain([vec![]]).collect()
            } else {
                one.collect()
            }
        }
    }
}

fn all_completions(words: &[Word]) -> Vec<Vec<String>> {
    words.iter().fold(vec![vec![]], |so_far, word| {
        let more = completions(word);
        so_far.iter().flat_map(|begun| more.iter().map(move |rest| [&begun[..], &rest[..]].concat())).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn known_words_match_as_the_obvious_matcher_says(
        parts in some_parts(), words in proptest::collection::vec("[ab]{0,3}", 0..5)
    ) {
        let known: Vec<Word> = words.iter().cloned().map(Word::Text).collect();
        let expected = Match::known(reference(&parts, &words));
        prop_assert_eq!(pattern(&render(&parts)).matches(&known, false), expected);
        prop_assert_eq!(pattern(&render(&parts)).matches(&known, true), expected);
    }

    #[test]
    fn an_answer_about_unknown_words_holds_for_whatever_they_are(
        parts in some_parts(), words in proptest::collection::vec(a_word(), 0..4)
    ) {
        let answer = pattern(&render(&parts)).matches(&words, false);
        for known in all_completions(&words) {
            let matches = reference(&parts, &known);
            prop_assert!(answer == Maybe || (answer == Yes) == matches, "{:?} but {:?}", answer, known);
        }
    }

    #[test]
    fn base_names_only_add_matches(parts in some_parts(), words in proptest::collection::vec("[ab/]{0,3}", 1..4)) {
        let known: Vec<Word> = words.into_iter().map(Word::Text).collect();
        let pattern = pattern(&render(&parts));
        prop_assert!(pattern.matches(&known, true) >= pattern.matches(&known, false));
    }

    #[test]
    fn a_quoted_word_is_itself(word in "\\PC{0,12}", other in "[ab*'\" \\\\(:]{0,4}") {
        let quoted = quote(&word).unwrap();
        let pattern = pattern(&quoted);
        prop_assert_eq!(pattern.matches(&[Word::Text(word.clone())], false), Yes);
        prop_assert_eq!(pattern.matches(&[Word::Text(other.clone())], false), Match::known(other == word));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,24}", words in proptest::collection::vec(a_word(), 0..4)) {
        if let Ok(pattern) = CommandPattern::parse(&text) {
            prop_assert!(pattern.matches(&words, true) >= pattern.matches(&words, false));
        }
    }
}
