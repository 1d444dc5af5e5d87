//! Scripts and the commands that they run.

use super::*;
use crate::path::ContainerPath;

fn settings(dialect: Dialect) -> ShellSettings {
    ShellSettings { dialect, ..ShellSettings::default() }
}

fn script(text: &str, dialect: Dialect) -> Script {
    let start = Start { cwd: Cwd::OneOf(vec![ContainerPath::workspace()]), taint: None, call_has_stdin: false };
    shell(text, &settings(dialect), start)
}

fn show(word: &Word) -> String {
    match word {
        Word::Text(text) if text.is_empty() || text.contains(|c: char| c.is_whitespace()) => format!("'{text}'"),
        Word::Text(text) => text.clone(),
        Word::Glob(pattern) => format!("<{pattern}>"),
        Word::Unknown { prefix, many: false } => format!("{prefix}?"),
        Word::Unknown { prefix, many: true } => format!("{prefix}?+"),
    }
}

/// `git push; ls a [needs nothing]`, and `opaque` at its end.
fn dump(script: &Script) -> String {
    let command = |command: &SimpleCommand| {
        let mut text = command.words.iter().map(show).collect::<Vec<_>>().join(" ");
        match command.need {
            Need::Allow => {}
            Need::Explicit => text.push_str(" [explicit]"),
            Need::Nothing => text.push_str(" [-]"),
            Need::Privileged => text.push_str(" [privileged]"),
        }
        if command.tainted.is_some() {
            text.push_str(" [tainted]");
        }
        for file in &command.redirects {
            let sign = match file.access {
                crate::shell::script::Access::Read => '<',
                crate::shell::script::Access::Write | crate::shell::script::Access::Remove => '>',
            };
            text.push_str(&format!(" {sign}{}", show(&file.target)));
        }
        text
    };
    let mut parts: Vec<String> = script.commands.iter().map(command).collect();
    if !script.opaque.is_empty() {
        parts.push("opaque".to_owned());
    }
    parts.join("; ")
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let script = script(text, Dialect::Bash);
        let got = dump(&script);
        if got != *expected {
            wrong.push(format!("{text}\n  got      {got}\n  expected {expected}\n  {:?}", script.opaque));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn structure() {
    check(&[
        ("git push", "git push"),
        ("a; b && c || d | e & f\ng", "a; b; c; d; e; f; g"),
        ("(a; b); { c; }", "a; b; c"),
        ("if a; then b; elif c; then d; else e; fi", "a; b; c; d; e"),
        ("while a; do b; done; until c; do d; done", "a; b; c; d"),
        ("for x in 1 2; do a $x; done", "a 1; a 2"),
        ("for x in *.py; do a \"$x\"; done", "a <*.py>"),
        ("for ((i=0;i<3;i++)); do a $i; done", "a ?"),
        ("case $x in a) b;; c|d) e;; esac", "b; e"),
        ("f() { a; }; f", "a; f [-]"),
        ("a $(b) `c` <(d)", "b; c; d; a ?+ ?+ /dev/fd/63"),
        ("cat <<E\n$(a)\nE", "a; cat"),
        ("cat <<'E'\n$(a)\nE", "cat"),
        ("[[ -f $x && $(a) == b ]] && c", "[[ [-]; a; c"),
        ("! a", "a"),
        ("exit 1; a", "exit 1 [-]; a"),
    ]);
}

#[test]
fn words() {
    check(&[
        ("g'i't p\"us\"h \\a $'\\x62'", "git push a b"),
        ("x=git; $x push", "git push"),
        ("x='git push'; $x", "git push"),
        ("x='git push'; \"$x\" a", "'git push' a"),
        ("x=git y=push; $x $y", "git push"),
        ("if a; then x=git; else x=ls; fi; $x b", "a; git b; ls b"),
        ("$x push", "'' push; opaque"),
        ("x=$(a); $x", "a; ''; opaque"),
        ("a \"$x\" $x b$x", "a ? ?+ b?+"),
        ("a {b,c}d {1..3}", "a bd cd 1 2 3"),
        ("a {git,push}", "a git push"),
        ("a ~ ~/x ~b \"~\" x~", "a /home/agent /home/agent/x /home/b ~ x~"),
        ("a $HOME \"$PWD\"", "a /home/agent /workspace"),
        ("HOME=/x; a ~", "a ? [tainted]"),
        ("a *.py '*' [ab] [", "a <*.py> * <[ab]> ["),
        ("x='*'; a $x \"$x\"", "a <*> *"),
        ("set -- git push; \"$@\"", "set -- git push [-]; git push"),
        ("set -- git push; $1 x", "set -- git push [-]; git x"),
        ("a=(git push); \"${a[@]}\"; ${a[0]} x", "git push; git x"),
        ("a $((1+2)) $?", "a ? ?"),
        ("i=0; i=$((i+1)); a $i", "a ?"),
        ("i=0; while b; do i=$((i+1)); done; a $i", "b; a ?"),
        ("a $((x+1))", "a ?; opaque"),
        ("a ${x:-$(b)}", "b; a ?+"),
        ("a ${x@P} ${!x}", "a ?+ ?+; opaque"),
        ("IFS=,; x=git,push; $x", "'' [tainted]; opaque"),
        ("x=a; x+=b; $x", "ab"),
        ("read x; $x", "read x [-]; ''; opaque"),
        ("x=git; f() { $x push; }; f", "'' push; f [-]; opaque"),
        ("x=git; eval x=ls; $x", "eval x=ls [-]; ls"),
        ("for x in git echo; do $x push; done", "echo push; git push"),
        ("for x in 'git push'; do $x; done", "git push"),
        ("y=ls; for c in 'read y'; do $y z; $c; done", "'' z; ''; opaque"),
        ("y=ls; for c in x; do $y z; $c; done", "ls z; x"),
        ("x=git; for i in 1 2; do $x a; x=ls; done", "'' a; opaque"),
    ]);
}

#[test]
fn wrappers() {
    check(&[
        ("timeout 5 git push", "timeout 5 git push [-]; git push"),
        ("timeout -s KILL --preserve-status 5 git push", "timeout -s KILL --preserve-status 5 git push [-]; git push"),
        (
            "env A=1 nice -n 5 git push",
            "env A=1 nice -n 5 git push [-]; nice -n 5 git push [-] [tainted]; git push [tainted]",
        ),
        ("env LANG=C ls", "env LANG=C ls [-]; ls"),
        ("env", "env"),
        ("env -S 'git push'", "env git push [-]; git push"),
        ("env -i -u X -C /a git push", "env -i -u X -C /a git push [-]; git push"),
        ("/usr/bin/env git push", "/usr/bin/env git push; git push"),
        ("sudo -u root git push", "sudo -u root git push [explicit]; git push [privileged]"),
        (
            "sudo sh -c 'a; b'",
            "sudo sh -c 'a; b' [explicit]; sh -c 'a; b' [privileged]; a [privileged]; b [privileged]",
        ),
        ("xargs git push", "xargs git push [-]; git push ?+"),
        ("xargs -n 1 -P4 git push", "xargs -n 1 -P4 git push [-]; git push ?+"),
        ("xargs -I{} git push {}", "xargs -I{} git push {} [-]; git push ?"),
        ("xargs -I % sh -c 'git %'", "xargs -I % sh -c 'git %' [-]; sh -c git ? [-]; opaque"),
        ("xargs", "xargs [-]; echo ?+"),
        ("find . -name x -exec git push \\;", "find . -name x -exec git push ; [-]; find . -name x; git push"),
        ("find . -exec a {} + -exec b {} \\;", "find . -exec a {} + -exec b {} ; [-]; find .; a <./*>; b <./*>"),
        ("find . -name x", "find . -name x"),
        ("command -v git", "command -v git"),
        ("command git push", "command git push [-]; git push"),
        ("builtin eval 'git push'", "builtin eval 'git push' [-]; eval 'git push' [-]; git push"),
        ("exec git push", "exec git push [-]; git push"),
        ("time -p git push", "time -p git push [-]; git push"),
        ("busybox sh -c 'a'", "busybox sh -c a [-]; sh -c a [-]; a"),
        ("trap 'git push' EXIT", "trap 'git push' EXIT [-]; git push"),
        ("x=ls; trap 'x=git' DEBUG; $x push", "trap x=git DEBUG [-]; ls push; opaque"),
        ("trap 'cd /' USR1", "trap 'cd /' USR1 [-]; cd /; opaque"),
        ("trap 'rm f' INT", "trap 'rm f' INT [-]; rm f"),
        ("trap 'x=1; rm f' EXIT", "trap 'x=1; rm f' EXIT [-]; rm f"),
        ("trap - EXIT", "trap - EXIT [-]"),
        ("coproc git push", "coproc git push [-]; git push"),
        (
            "nohup setsid -w stdbuf -oL git push",
            "nohup setsid -w stdbuf -oL git push [-]; setsid -w stdbuf -oL git push [-]; stdbuf -oL git push [-]; git push",
        ),
        ("git -C x --no-pager push", "git push [-]; git -C x --no-pager push"),
        ("git --new-option push", "git ?+ [-]; git --new-option push"),
        ("sudo -s <<< 'git push'", "sudo -s [explicit]; opaque"),
        ("su <<< 'git push'", "su; opaque"),
        ("echo 'git push' | at now", "echo 'git push'; at now; now [-]; opaque"),
        ("flock /tmp/l git push", "flock /tmp/l git push; /tmp/l git push [-]; git push [-]; push [-]"),
        ("su root -c 'git push'", "su root -c 'git push'; root -c 'git push' [-]; git push [-]"),
        ("watch -n 1 sh script", "watch -n 1 sh script; 1 sh script [-]; sh script [-]; script [-]"),
        ("nice -5 git push", "nice -5 git push [-]; git push"),
    ]);
}

#[test]
fn scripts_in_scripts() {
    check(&[
        ("bash -c 'git push'", "bash -c 'git push' [-]; git push"),
        ("bash -euo pipefail -c 'a'", "bash -euo pipefail -c a [-]; a"),
        ("bash -lc a", "bash -lc a [-]; a [tainted]"),
        ("sh -c '\"$1\" push' x git", "sh -c '\"$1\" push' x git [-]; git push"),
        ("sh -c '$0' git", "sh -c $0 git [-]; ''; opaque"),
        ("sh -c \"$x\"", "sh -c ? [-]; opaque"),
        ("sh -c '[[ a ]]'", "sh -c '[[ a ]]' [-]; [[ a ]]; opaque"),
        ("eval \"git push\"", "eval 'git push' [-]; git push"),
        ("eval \"eval 'git push'\"", "eval 'eval 'git push'' [-]; eval 'git push' [-]; git push"),
        ("eval $x", "eval ?+ [-]; opaque"),
        ("bash <<'E'\ngit push\nE", "bash [-]; git push"),
        ("bash <<< 'git push'", "bash [-]; git push"),
        ("echo 'git push' | sh", "echo 'git push'; sh [-]; opaque"),
        ("sh script.sh", "sh script.sh [-]; opaque"),
        ("sh", "sh [-]; opaque"),
        ("sh < /dev/null", "sh [-] </dev/null"),
        ("sudo -n bash", "sudo -n bash [explicit]; bash [privileged]; opaque"),
        ("sudo -i", "sudo -i [explicit]; opaque"),
        ("sudo --login -u a", "sudo --login -u a [explicit]; opaque"),
        ("sudo -k", "sudo -k [explicit]"),
        ("su", "su; opaque"),
        ("su -c ls", "su -c ls; ls [-]"),
        ("source x", "source x; opaque"),
        ("zsh -c a", "zsh -c a [-]; a; opaque"),
        ("bash -O extglob -c a", "bash -O extglob -c a [-]; a; opaque"),
        ("bash /dev/stdin <<< a", "bash /dev/stdin [-]; a"),
    ]);
}

#[test]
fn what_stands_beside() {
    check(&[
        ("A=1 git push", "git push [tainted]"),
        ("LANG=C git push", "git push"),
        ("PATH=x; a", "a [tainted]"),
        ("export FOO=1; a", "export FOO=1 [-]; a [tainted]"),
        ("x=1; export x; a", "export x [-]; a [tainted]"),
        ("x=1; a", "a"),
        ("set -a; x=1; a", "set -a [-]; a [tainted]"),
        ("for PATH in a; do b; done", "b [tainted]"),
        ("while a; do b; export P=1; done", "a [tainted]; b [tainted]; export P=1 [-] [tainted]"),
        ("a > f 2>&1 < g", "a >f <g"),
        ("a >& f; b 2>&-; c &> g", "a >f; b; c >g"),
        ("> f", ": >f"),
        ("{ a; b; } > f", ": >f; a; b"),
        ("a > $x", "a >?"),
        ("a > *", "a ><*>"),
        ("a < /dev/tcp/h/80", "a >/dev/tcp/h/80"),
        ("while read l; do a; done < f", ": <f; read l [-]; a"),
        ("alias a=b; a", "alias a=b [-]; a; opaque"),
        ("cd() { a; }; cd x", "a; cd x [-]; opaque"),
        ("shopt -s expand_aliases", "shopt -s expand_aliases [-]; opaque"),
        ("[ -f a ]; test \"$x\" = b", "[ -f a ]; test ? = b"),
        ("test -v \"$x\"", "test -v ?; opaque"),
        ("[[ -v $x ]]", "[[ [-]; opaque"),
        ("[[ $x -eq 1 ]]", "[[ [-]; opaque"),
        ("[[ $# -eq 1 ]]", "[[ [-]"),
        ("((1 + 1))", "(( [-]"),
        ("printf -v PATH x; a", "printf -v PATH x; a [tainted]"),
        ("PS4='$(git push)'; set -x; a", "set -x [-] [tainted]; a [tainted]; opaque"),
        ("BASH_ENV=f bash -c a", "bash -c a [-] [tainted]; a [tainted]; opaque"),
        ("env ENV=f sh -c a", "env ENV=f sh -c a [-]; sh -c a [-] [tainted]; a [tainted]; opaque"),
        ("hash git; hash -r", "hash git [-]; hash -r [-]"),
        ("hash -p /x git", "hash -p /x git [-]; opaque"),
        ("declare -n x=PATH", "declare -n x=PATH [-]; opaque"),
        ("", ""),
        ("x=1", ""),
    ]);
}

#[test]
fn partly_read_scripts_keep_what_was_read() {
    check(&[
        ("git push; echo \"unterminated", "git push; echo unterminated; opaque"),
        ("echo \"unterminated", "echo unterminated; opaque"),
    ]);
}

fn directories(text: &str) -> Vec<String> {
    let show = |cwd: &Cwd| match cwd {
        Cwd::Unknown => "?".to_owned(),
        Cwd::OneOf(paths) => paths.iter().map(ToString::to_string).collect::<Vec<_>>().join("|"),
    };
    let script = script(text, Dialect::Bash);
    script
        .commands
        .iter()
        .filter(|c| c.words.first().and_then(Word::text) == Some("here"))
        .map(|c| show(&c.cwd))
        .collect()
}

#[test]
fn directories_are_followed() {
    for (text, expected) in [
        ("here", "/workspace"),
        ("cd a && here", "/workspace/a"),
        ("cd a && cd ../b && here", "/workspace/b"),
        ("cd a; here", "/workspace|/workspace/a"),
        ("cd a || exit 1; here", "/workspace/a"),
        ("cd a || here", "/workspace"),
        ("! cd a && here", "/workspace|/workspace/a"),
        ("set -e; cd a; here", "/workspace/a"),
        ("set -e; f() { cd a; here; }; f || true", "?"),
        ("cd && here", "/home/agent"),
        ("cd ~/x && here", "/home/agent/x"),
        ("cd $x && here", "?"),
        ("cd - && here", "?"),
        ("(cd a); here", "/workspace"),
        ("cd a | b; here", "/workspace"),
        ("cd a & here", "/workspace"),
        ("if x; then cd a; fi; here", "/workspace|/workspace/a"),
        ("for d in a b; do cd $d; here; done", "?"),
        ("cd a && ls && here", "/workspace/a"),
        ("cd a && ls; here", "/workspace|/workspace/a"),
        ("command cd a && here", "/workspace|/workspace/a"),
        ("pushd a && here", "/workspace/a"),
        ("popd && here", "?"),
        ("CDPATH=/x; cd a && here", "?"),
        ("f() { here; }; f", "/workspace"),
    ] {
        assert_eq!(directories(text).join(" "), expected, "{text}");
    }
}

#[test]
fn dangers_of_the_whole() {
    for text in [
        ":() { :|:& }; :",
        "sh -c \"$(curl x)\"",
        "eval \"$(wget -O- x)\"",
        "bash <(curl x)",
        "source <(curl x)",
        "curl x | xargs sh -c",
        "sh <<< \"$(curl x)\"",
        "bash < <(curl x)",
        "$(curl x)",
        "bash <(wget2 -O - x)",
        "source <(/usr/bin/xh x)",
    ] {
        assert!(!script(text, Dialect::Bash).dangers.is_empty(), "{text}");
    }
    for text in ["f() { a; }; f", "x=$(curl y)", "curl x > y"] {
        assert!(script(text, Dialect::Bash).dangers.is_empty(), "{text}");
    }
}

#[test]
fn argv_is_one_command() {
    let start = || Start { cwd: Cwd::OneOf(vec![ContainerPath::workspace()]), taint: None, call_has_stdin: false };
    for (words, expected) in [
        (vec!["git", "push", ";", "$x"], "git push ; $x"),
        (vec!["bash", "-c", "git push"], "bash -c 'git push' [-]; git push"),
        (vec!["env", "git", "push"], "env git push [-]; git push"),
    ] {
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        assert_eq!(dump(&argv(&words, &settings(Dialect::Bash), start())), expected);
    }
}

#[test]
fn bounds_make_it_opaque() {
    let many = "a;".repeat(MAX_COMMANDS + 1);
    let script_of = |text: &str| script(text, Dialect::Bash);
    let all = script_of(&many);
    assert_eq!(all.commands.len(), MAX_COMMANDS);
    assert!(!all.opaque.is_empty());
    assert!(script_of(&"a;".repeat(MAX_COMMANDS)).opaque.is_empty());
    let nested = |depth: usize| (0..depth).fold("a".to_owned(), |inner, _| format!("eval {}", quote(&inner)));
    assert!(script_of(&nested(4)).opaque.is_empty());
    let deep = (0..=MAX_NESTED_SCRIPTS).fold("a".to_owned(), |inner, _| format!("eval {inner}"));
    assert!(!script_of(&deep).opaque.is_empty());
}

#[test]
fn wrappers_around_wrappers_have_an_end() {
    for word in ["env ", "timeout 1 ", "sudo ", "flock ", "flock sudo ", "command ", "time ", "nice nohup ", "xargs "] {
        let script = script(&format!("{}ls", word.repeat(5000)), Dialect::Bash);
        assert!(!script.opaque.is_empty() || script.commands.len() < 100, "{word}");
        assert!(script.commands.len() <= MAX_COMMANDS, "{word}");
    }
    let most = format!("{}git push", "env ".repeat(MAX_WRAPPERS - 1));
    assert!(script(&most, Dialect::Bash).opaque.is_empty());
    assert!(!script(&format!("env {most}"), Dialect::Bash).opaque.is_empty());
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Scripts that are opaque, and everyday ones beside them that are not.
#[track_caller]
fn opaque(hostile: &[&str], plain: &[&str]) {
    let is_opaque = |text: &&&str| !script(text, Dialect::Bash).opaque.is_empty();
    let missed: Vec<_> = hostile.iter().filter(|text| !is_opaque(text)).collect();
    let refused: Vec<_> = plain.iter().filter(is_opaque).collect();
    assert!(missed.is_empty() && refused.is_empty(), "not opaque: {missed:#?}\nopaque: {refused:#?}");
}

#[test]
fn what_the_shell_reads_once_more_is_opaque() {
    opaque(
        &[
            "declare -a 'x=($(id))'",
            "declare -A 'x=([$(id)]=1)'",
            "export -a 'x=($(id))'",
            "readonly -a \"x=$y\"",
            "x=(1); declare 'x=($(id))'",
            "x=(1); declare \"x=$y\"",
            "declare \"x=$y\"; x=(1)",
            "read -a x; declare \"x=$y\"",
            "mapfile x; declare \"x=$y\"",
            "wait -np 'a[$(id)]' 1",
            "wait -n -p'a[$(id)]' 1",
            "wait $x",
            "x='a[$(id)]'; y=([$x]=1)",
            "y+=([x]=1)",
            "OPTIND='a[$(id)]'",
            "RANDOM=$x",
            "read HISTCMD",
            "for SECONDS in 'a[$(id)]'; do :; done",
            "echo $\"text\"",
        ],
        &[
            "declare x=1",
            "export x=\"$y\"",
            "declare -r x=\"$y\"",
            "x=(1 2 [4]=3 [ab]*)",
            "x=(1 2); echo ${x[1]} ${#x[@]} ${x[-1]}",
            "read -r -a x; echo ${x[0]}",
            "OPTIND=1; RANDOM=42; SECONDS=0",
            "wait; wait -n; wait %1",
        ],
    );
}

#[test]
fn what_ends_a_line_in_the_middle_is_opaque() {
    opaque(
        &[
            "echo $((1/0))",
            "echo $((1/x))",
            "x=1; echo $((x % x))",
            "x=1; echo $((x /= x))",
            "echo $((2**-1))",
            "echo $((08))",
            "x=08; echo $((x))",
            "echo $((+)) $((1+))",
            "echo $((1 ? 2)) $((1 : 2))",
            "echo $(( (1) 2 ))",
            "echo ${x:0:-5} ${y:1/0}",
            "n=-9; echo ${x:0:n}",
            ": ${1:=a}",
            "UID=5",
            "readonly x=1\nx=2",
            "FUNCNEST=$x",
            "y=(1); y[-9]=1",
            "i=-9; y[i]=1",
            "y=(1); echo ${#y[-9]}",
            "shopt -s failglob",
        ],
        &[
            "n=5; echo $((n/2)) $(( (n + 1) % 3 )) $((-n)) $((n > 3 ? 1 : 0)) $((n++)) $((++n))",
            "n=5; echo $((n == 5 && !n || n != 2)) $((~n & 1 << 2)) $((n += 1, n -= 2)) $((n /= 2))",
            "echo $((0)) $(((1)))",
            "echo ${x:1} ${x: -2} ${x:0:1}",
            "for ((;;)); do break; done",
            "readonly x=1; echo $x",
            "shopt -s nullglob",
        ],
    );
}

#[test]
fn an_assignment_that_does_not_happen() {
    // Whatever the last command runs, it is not only the harmless one.
    for text in [
        "x=git; { x=echo; } >&9; $x push",
        "x=git; export x=echo > /none/f; $x push",
        "set -- git; set -- echo >&9; $1 push",
        "readonly x=git; declare x=echo; $x push",
        "x=git; local x=echo; $x push",
        "x=git; declare -p x=echo; $x push",
        "x=git; declare -Z x=echo; $x push",
        "declare -l x; x=GIT; $x push",
        "x=echo; x=git command eval '$x push'",
        "x=echo; x=git builtin eval '$x push'",
        "x=echo; trap 'x=git' DEBUG; $x push",
        "x=echo; f() { x=git; }; trap f DEBUG; $x push",
        "x=echo; trap f USR1; f() { x=git; }; $x push",
        "x=echo; false || { x=git; exit >&9; }; $x push",
        "x=echo; false || { x=git; exit 1 2; }; $x push",
        "y=([1]=echo [0]=git); ${y[0]} push",
        "y=(a b c d e f g h git j echo); ${y[010]} push",
        "git() { :; }; for i in 1 2; do git push; unset -f git; done",
        "git() { :; }; g() { unset git; }; g; git push",
        "g() { unset git; }; git() { :; }; g; git push",
    ] {
        let script = script(text, Dialect::Bash);
        let counts =
            |command: &SimpleCommand| command.need == Need::Allow && command.words.iter().map(show).eq(["git", "push"]);
        assert!(!script.opaque.is_empty() || script.commands.iter().any(counts), "{text}: {}", dump(&script));
    }
    opaque(
        &[],
        &[
            "x=echo; $x a >&2; $x b 2> /dev/null",
            "trap 'rm -f a' EXIT; trap 'exit 1' INT TERM; x=echo; $x",
            "f() { local x=echo; \"$x\"; }; f",
        ],
    );
}

#[test]
fn a_directory_that_is_perhaps_not_entered() {
    let directories = |text: &str| match script(text, Dialect::Bash).commands.last().map(|last| last.cwd.clone()) {
        Some(Cwd::OneOf(paths)) => paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        Some(Cwd::Unknown) | None => "?".to_owned(),
    };
    for (text, expected) in [
        ("set -e; ! { cd a; b; }", "/workspace /workspace/a"),
        ("set -e; cd a; b", "/workspace/a"),
        ("cd a 2> /dev/null && b", "/workspace/a"),
        ("cd a 2> /dev/null; b", "/workspace /workspace/a"),
        ("cd a > /none/f || b", "/workspace"),
        ("{ cd a && b; } 2> /dev/null; c", "/workspace /workspace/a"),
    ] {
        assert_eq!(directories(text), expected, "{text}");
    }
}

#[test]
fn words_that_name_a_home() {
    check(&[
        ("a of=~/x if=~", "a of=/home/agent/x if=/home/agent"),
        ("a --of=~/x 1=~/x \"b\"=~/x", "a --of=~/x 1=~/x b=~/x"),
        ("nice -5 -6 git push", "nice -5 -6 git push [-]; git push"),
        ("nice -5 -n 3 git push", "nice -5 -n 3 git push; opaque"),
    ]);
}
