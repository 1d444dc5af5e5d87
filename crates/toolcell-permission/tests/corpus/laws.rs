//! Laws of the shell analysis, over texts that nobody wrote.

use crate::bounds::check_bounds;
use crate::call::{Call, Program};
use crate::judge::{Attempt, Must, Setting, attempts, benign, broad};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::sync::LazyLock;
use toolcell_permission::shell::settings::Dialect;
use toolcell_permission::*;

static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let attempts = attempts().into_iter().map(|attempt| attempt.command);
    benign().into_iter().map(|entry| entry.command).chain(attempts).collect()
});

static DENIED: LazyLock<Vec<Attempt>> = LazyLock::new(|| {
    let certain = |attempt: &Attempt| attempt.must == Must::Deny && attempt.setting == Setting::Deny;
    // A text that redefines or ends something of the shell, or begins with a heredoc, does not stand for itself
    // everywhere; those that do are enough.
    attempts().into_iter().filter(|attempt| certain(attempt) && attempt.dialect() == Dialect::Bash).collect()
});

/// What shells find meaning in.
const ALPHABET: &[&str] = &[
    "git",
    "push",
    "echo",
    "x",
    "=",
    " ",
    "\t",
    "\n",
    "\r",
    ";",
    "&",
    "|",
    "<",
    ">",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "$",
    "`",
    "'",
    "\"",
    "\\",
    "#",
    "!",
    "*",
    "?",
    "~",
    "-",
    "--",
    "+",
    ",",
    ":",
    "@",
    "%",
    "^",
    "/",
    ".",
    "..",
    "0",
    "1",
    "$(",
    "${",
    "$((",
    "((",
    "))",
    "[[",
    "]]",
    "<<",
    "<<-",
    "<<<",
    ">>",
    "&&",
    "||",
    ";;",
    "<(",
    "$'",
    "EOF",
    "if",
    "then",
    "else",
    "elif",
    "fi",
    "for",
    "in",
    "do",
    "done",
    "while",
    "case",
    "esac",
    "function",
    "eval",
    "sh",
    "-c",
    "bash",
    "env",
    "xargs",
    "trap",
    "IFS",
    "PATH",
    "\u{a0}",
    "\u{0}",
    "é",
    "\u{1f600}",
    "\u{202e}",
];

fn soup() -> impl Strategy<Value = String> {
    prop::collection::vec(select(ALPHABET), 0..60).prop_map(|parts| parts.concat())
}

/// A text of a corpus with pieces taken out, put in, or doubled.
fn mutated() -> impl Strategy<Value = String> {
    let edits = prop::collection::vec((any::<Index>(), any::<Index>(), select(ALPHABET), 0..4_u8), 1..5);
    (select(TEXTS.as_slice()), edits).prop_map(|(text, edits)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (from, to, piece, what) in edits {
            let places = chars.len() + 1;
            let (from, to) = (from.index(places), to.index(places));
            let range = from.min(to)..from.max(to).min(from.min(to) + 8);
            match what {
                0 => drop(chars.splice(range, [])),
                1 => drop(chars.splice(from..from, piece.chars())),
                2 => drop(chars.splice(range, piece.chars())),
                _ => {
                    let again: Vec<char> = chars[range].to_vec();
                    drop(chars.splice(to..to, again));
                }
            }
        }
        chars.into_iter().collect()
    })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![soup(), mutated(), ".{0,40}"]
}

fn any_call() -> impl Strategy<Value = Call> {
    let program = prop_oneof![
        4 => any_text().prop_map(Program::Shell),
        1 => prop::collection::vec(any_text(), 0..5).prop_map(Program::Argv),
    ];
    let env = prop::collection::vec(prop_oneof![soup(), "[A-Z_]{1,8}"], 0..3);
    (program, env, prop::option::of(soup())).prop_map(|(program, env, stdin)| {
        let mut call = Call::of(program);
        (call.env, call.stdin) = (env, stdin);
        call
    })
}

/// Quoted for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A text in a place where it runs as well.
fn around(text: &str, place: u8) -> String {
    match place {
        0 => format!("true\n{text}\n"),
        1 => format!("if true; then\n{text}\nfi"),
        2 => format!("(\n{text}\n)"),
        3 => format!("{{\n{text}\n}} 2>/dev/null"),
        4 => format!("for i in 1; do\n{text}\ndone"),
        5 => format!("echo \"$(\n{text}\n)\""),
        6 => format!("bash -c {}", quoted(text)),
        7 => format!("eval {}", quoted(text)),
        8 => format!("f() {{\n{text}\n}}; f"),
        9 => format!("true | {{\n{text}\n}} | cat"),
        10 => format!("case x in (x)\n{text}\n;; esac"),
        11 => format!("timeout 60 nice bash -c {}", quoted(text)),
        12 => format!("while true; do\n{text}\nbreak; done"),
        13 => format!("bash <<'END OF SCRIPT'\n{text}\nEND OF SCRIPT\n"),
        _ => format!("true && {{\n{text}\n}} &\nwait"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics_and_the_answer_is_no_larger_than_its_bound(call in any_call()) {
        check_bounds(&call);
    }

    #[test]
    fn what_is_denied_is_not_allowed_inside_of_anything(
        attempt in select(DENIED.as_slice()),
        places in prop::collection::vec(0..15_u8, 1..4),
    ) {
        let text = places.iter().fold(attempt.command.clone(), |text, place| around(&text, *place));
        for (mode, rules, _) in attempt.places() {
            let decision = Call::shell(&text).decide(mode, &rules, Dialect::Bash);
            prop_assert_ne!(decision.behavior, Behavior::Allow, "{}", text);
        }
    }

    #[test]
    fn a_rule_more_never_loosens_and_a_deny_rule_less_never_tightens(text in any_text()) {
        let deny = |deny: &[&str]| {
            let deny: Vec<String> = deny.iter().map(|&text| text.to_owned()).collect();
            Call::shell(&text).decide(Mode::Bypass, &crate::call::rules(&[], &[], &deny), Dialect::Bash).behavior
        };
        prop_assert!(deny(&[]) <= deny(&["execute(git push:*)"]));
        prop_assert!(deny(&["execute(git push:*)"]) <= deny(&["execute(git push:*)", "execute(echo:*)"]));
        let without = Call::shell(&text).decide(Mode::Default, &RuleSet::default(), Dialect::Bash).behavior;
        let with = Call::shell(&text).decide(Mode::Default, &broad(), Dialect::Bash).behavior;
        prop_assert!(with <= without);
    }
}

/// Bytes of the longest command that is looked at here.
const LONG: usize = 1 << 20;

#[test]
fn a_command_of_a_megabyte_is_asked_or_denied() {
    let deny = crate::call::rules(&[], &[], &["execute(git push:*)".to_owned()]);
    for piece in ["echo x; ", "x", "(", "$(", "{ ", "echo 'git push' | ", "\n", "\\\n", "${x:-", "a=(", "<<E "] {
        let mut text = piece.repeat(LONG / piece.len());
        text.push_str("\ngit push\n");
        let decision = Call::shell(&text).decide(Mode::Bypass, &deny, Dialect::Bash);
        assert_ne!(decision.behavior, Behavior::Allow, "{piece:?}");
    }
}

/// A parser written in C may look characters up in tables that have no place for most of them.
#[test]
fn characters_of_every_plane_stand_everywhere() {
    for c in ['\u{e9}', '\u{2028}', '\u{fffd}', '\u{1f600}', '\u{40000}', '\u{1083f9}', '\u{10ffff}'] {
        for place in [
            "{C",
            "{1C",
            "{1..C}",
            "{a..C}",
            "${C",
            "${xC}",
            "$C",
            "$((C))",
            "$((xC))",
            "((C))",
            "[[ a =~ C ]]",
            "[[ a == C ]]",
            "<<C\nC\n",
            "<<-C\n\tC\n",
            "<<'C'\nC\n",
            "C=1",
            "aC=1",
            "a[C]=1",
            "case C in C) ;; esac",
            "C() { C; }",
            "'C'",
            "\"C\"",
            "$'C'",
            "\\C",
            "#C",
            "C<C",
            "1C>C",
            "`C`",
            "$(C)",
            "<(C)",
            "~C",
            "*C",
            "[C-C]",
            "a{C,C}",
            "@(C)",
        ] {
            check_bounds(&Call::shell(&place.replace('C', &c.to_string())));
        }
    }
}
