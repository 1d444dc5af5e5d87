//! What holds for every command.

use super::{facts_in, path, settings};
use crate::shell::facts::{Place, examine};
use crate::shell::script::{Cwd, Word};
use proptest::prelude::*;

const PIECES: &[&str] = &[
    "git",
    "ls",
    "cat",
    "sort",
    "find",
    "sed",
    "tar",
    "cp",
    "mv",
    "rm",
    "chmod",
    "ln",
    "test",
    "[",
    "]",
    "printf",
    "jq",
    "yq",
    "xxd",
    "log",
    "diff",
    "branch",
    "config",
    "-o",
    "-r",
    "-rf",
    "--",
    "-",
    "--output",
    "--output=x",
    "-exec",
    ";",
    "{}",
    "+",
    "-name",
    "*.py",
    "-n",
    "-i",
    "-e",
    "p",
    "s/a/b/",
    "w x",
    "-C",
    "a",
    ".env",
    "/",
    "..",
    "=",
    "-f",
    "-t",
    "xf",
    "%s",
    "-v",
    "--list",
    "-c",
    "x=y",
    "(",
    ")",
    "!",
    "-delete",
    "",
    "é",
    "-é",
    "[",
    "[!",
    "\\",
    "s/[/]/",
    "a\\",
    "{",
    "}",
    "--é=é",
    "777",
];

fn word() -> impl Strategy<Value = Word> {
    let text = prop_oneof![
        4 => proptest::sample::select(PIECES).prop_map(str::to_owned),
        1 => "[-a-z=*?\\[\\]/.\\\\{};!~é ]{0,8}",
    ];
    (text, 0..10_u8, any::<bool>()).prop_map(|(text, kind, many)| match kind {
        0 => Word::Glob(text),
        1 => Word::Unknown { prefix: text, many },
        _ => Word::Text(text),
    })
}

proptest! {
    #[test]
    fn a_call_is_one_kind(words in proptest::collection::vec(word(), 0..9)) {
        let cwd = Cwd::OneOf(vec![path("/workspace")]);
        let facts = examine(&words, &Place { settings: &settings(), cwd: &cwd });
        prop_assert!(!(facts.read_only && (facts.launcher || facts.edits)));
        prop_assert!(!facts.edits || (facts.paths_known && !facts.paths.is_empty()));
    }

    #[test]
    fn what_writes_is_not_reading(words in proptest::collection::vec(word(), 0..9)) {
        let cwd = Cwd::OneOf(vec![path("/workspace")]);
        let facts = examine(&words, &Place { settings: &settings(), cwd: &cwd });
        let writes = facts.paths.iter().any(|used| used.access != crate::shell::script::Access::Read);
        prop_assert!(!(facts.read_only && writes), "{words:?}: {:?}", facts.paths);
    }

    #[test]
    fn no_unlisted_option_reads(
        program in proptest::sample::select(&["ls", "cat", "grep", "sort", "rg", "tail", "diff", "du", "git log", "git diff", "sed p"][..]),
        option in "--z[a-z]{0,6}q(=x)?",
    ) {
        let line = format!("{program} {option}");
        prop_assert!(!facts_in("/workspace", &line).read_only);
    }

    #[test]
    fn an_unknown_word_neither_reads_nor_edits(
        program in proptest::sample::select(&["ls", "cat", "grep x", "sort", "rg x", "git log", "touch", "cp a", "rm", "sed p"][..]),
        prefix in "[-a-z/]{0,4}",
        many in any::<bool>(),
    ) {
        let mut words = super::words(program);
        words.push(Word::Unknown { prefix, many });
        let cwd = Cwd::OneOf(vec![path("/workspace")]);
        let facts = examine(&words, &Place { settings: &settings(), cwd: &cwd });
        prop_assert!(!facts.read_only && !facts.edits);
    }
}

#[test]
fn options_are_whole_names() {
    use crate::shell::facts::options::Grammar;
    let grammar = Grammar { short: "ab:", long: "all almost-all output> color?" };
    let unlisted = |option: &str| grammar.split(&[Word::Text(option.into()), Word::Text("x".into())]).unlisted;
    for listed in ["--all", "--almost-all", "--output", "--output=x", "--color", "--color=x", "-a", "-ab", "-bx"] {
        assert!(!unlisted(listed), "{listed}");
    }
    for other in [
        "--al",
        "--almost",
        "--all=x",
        "--all almost-all",
        "--color?",
        "--output>",
        "--",
        "-c",
        "-a:",
        "-:",
        "-?",
        "--=x",
        "-#",
    ] {
        assert_eq!(unlisted(other), other != "--", "{other}");
    }
}
