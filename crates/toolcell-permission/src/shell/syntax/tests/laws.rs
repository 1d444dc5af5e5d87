//! Laws that hold for any text.

use crate::shell::ast::*;
use crate::shell::settings::Dialect;
use crate::shell::syntax::{MAX_DEPTH, MAX_PROBLEMS, MAX_SCRIPT_BYTES, read};
use proptest::prelude::*;

const PIECES: &[&str] = &[
    "a",
    "git push",
    " ",
    " ",
    " ",
    "\n",
    ";",
    "&",
    "|",
    "&&",
    "||",
    "(",
    ")",
    "{ ",
    "}",
    "; }",
    "$(",
    "`",
    "${x",
    "${x:-",
    "$((",
    "))",
    "((",
    "'",
    "\"",
    "\\",
    "\\\n",
    "$",
    "$'",
    "$\"",
    "#",
    "<",
    ">",
    "<<E\n",
    "\nE\n",
    "<<-'E'",
    "<<<",
    "<(",
    ">&2",
    "x=",
    "x[1]=",
    "a=(",
    "if ",
    "; then ",
    "; fi",
    "for i in ",
    "; do ",
    "; done",
    "case x in ",
    "a) ",
    ";; ",
    "esac",
    "[[ ",
    " ]]",
    "! ",
    "time ",
    "coproc ",
    "f() ",
    "function f ",
    "é",
    "\u{a0}",
    "\r",
    "\0",
    "=~",
    "*",
    "[",
    "]",
    "@(",
    "1",
    "+",
    "/",
    "%",
    "{a,b}",
    "~",
];

/// The deepest nesting of lists.
fn depth(list: &List) -> usize {
    let and_or = |and_or: &AndOr| {
        let pipelines = std::iter::once(&and_or.first).chain(and_or.rest.iter().map(|(_, pipeline)| pipeline));
        pipelines.flat_map(|pipeline| &pipeline.commands).map(command_depth).max().unwrap_or(0)
    };
    1 + list.iter().map(and_or).max().unwrap_or(0)
}

fn command_depth(command: &Command) -> usize {
    let inner = match command {
        Command::Simple(simple) => {
            let words =
                simple.words.iter().chain(simple.assignments.iter().filter_map(|assignment| match &assignment.value {
                    Value::Word(word) => Some(word),
                    Value::Array(_) => None,
                }));
            return words.flat_map(|word| &word.parts).map(part_depth).max().unwrap_or(0);
        }
        Command::Compound(inner, _) | Command::Function { body: inner, .. } => inner,
    };
    let lists: Vec<&List> = match &**inner {
        Compound::Subshell(list) | Compound::Group(list) => vec![list],
        Compound::If { branches, otherwise } => {
            branches.iter().flat_map(|(condition, body)| [condition, body]).chain(otherwise).collect()
        }
        Compound::Loop { condition, body } => vec![condition, body],
        Compound::For { body, .. } | Compound::ForArithmetic { body, .. } => vec![body],
        Compound::Case { arms, .. } => arms.iter().map(|(_, body)| body).collect(),
        Compound::Arithmetic(_) | Compound::Conditional(_) => vec![],
    };
    lists.into_iter().map(depth).max().unwrap_or(0)
}

fn part_depth(part: &Part) -> usize {
    match part {
        Part::Command { list, .. } | Part::Process(list) => depth(list),
        Part::Arithmetic(inner) => inner.commands.iter().map(depth).max().unwrap_or(0),
        Part::Bare(_) | Part::Quoted(_) | Part::Parameter { .. } => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_read_without_a_panic(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..30)) {
        let text = pieces.concat();
        for dialect in [Dialect::Bash, Dialect::Sh] {
            let syntax = read(&text, dialect);
            prop_assert!(depth(&syntax.list) <= MAX_DEPTH + 1);
            prop_assert!(syntax.problems.len() <= MAX_PROBLEMS);
            prop_assert_eq!(&syntax, &read(&text, dialect));
        }
    }

    /// What both shells understand means the same to both, as far as the reader says.
    #[test]
    fn what_sh_accepts_bash_accepts(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..12)) {
        let text = pieces.concat();
        let sh = read(&text, Dialect::Sh);
        if sh.problems.is_empty() && !text.contains("time") {
            prop_assert_eq!(sh, read(&text, Dialect::Bash));
        }
    }

    #[test]
    fn a_command_before_a_problem_is_kept(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..12)) {
        let text = format!("git push --force\n{}", pieces.concat());
        let kept = read(&text, Dialect::Bash).list;
        let AndOr { first, .. } = &kept[0];
        let Command::Simple(simple) = &first.commands[0] else { panic!("{kept:?}") };
        prop_assert_eq!(&simple.words[2].parts, &[Part::Bare("--force".to_owned())]);
    }

    #[test]
    fn quoted_text_is_one_word(text in "[a-z $`\"\\\\;&|<>(){}\n#*?~!=]*") {
        let syntax = read(&format!("echo '{text}'"), Dialect::Bash);
        let Command::Simple(simple) = &syntax.list[0].first.commands[0] else { panic!("{syntax:?}") };
        prop_assert_eq!(&simple.words[1].parts, &[Part::Quoted(text)]);
        prop_assert_eq!(syntax.problems, Vec::<String>::new());
    }
}

#[test]
fn nested_openers_are_a_problem_soon() {
    let openers = [
        "(",
        "{ ",
        "$(",
        "`",
        "${x:-",
        "\"$(",
        "\"${x:-",
        "if ",
        "while ",
        "until ",
        "for i in a; do ",
        "case x in x) ",
        "[[ ( ",
        "((",
        "$((",
        "a=(",
        "f() { ",
        "<(",
        "! ",
        "cat <<A $(",
        "a && ",
        "a | ",
        "x[",
        "x[$",
        "<<A ",
        "$((a[",
        "coproc ",
        "function f ",
        "<<A\n",
        "${a[",
        "\\\n",
        "`\\`",
    ];
    for opener in openers {
        let text = opener.repeat(20_000.min(MAX_SCRIPT_BYTES / opener.len()));
        for dialect in [Dialect::Bash, Dialect::Sh] {
            assert!(!read(&text, dialect).problems.is_empty(), "{opener:?}");
        }
    }
}

#[test]
fn depth_has_a_bound() {
    let nested = |depth: usize| format!("{}ls{}", "$(".repeat(depth), ")".repeat(depth));
    assert_eq!(read(&nested(MAX_DEPTH - 1), Dialect::Bash).problems, Vec::<String>::new());
    assert_eq!(read(&nested(MAX_DEPTH), Dialect::Bash).problems, Vec::<String>::new());
    assert!(read(&nested(MAX_DEPTH + 1), Dialect::Bash).problems[0].starts_with("nested too deep"));
}

#[test]
fn length_has_a_bound() {
    for (bytes, fits) in [(MAX_SCRIPT_BYTES - 1, true), (MAX_SCRIPT_BYTES, true), (MAX_SCRIPT_BYTES + 1, false)] {
        let syntax = read(&format!("ls {}", "a".repeat(bytes - 3)), Dialect::Bash);
        assert_eq!(syntax.problems.is_empty(), fits);
        assert_eq!(syntax.list.is_empty(), !fits);
    }
}
