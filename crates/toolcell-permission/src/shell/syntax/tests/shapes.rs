//! What texts look like as syntax.

use super::dump;
use crate::shell::settings::Dialect;
use crate::shell::syntax::read;

/// Reads each text with bash; no problem may be in it.
fn check(cases: &[(&str, &str)]) {
    let mut wrong = String::new();
    for (text, expected) in cases {
        let syntax = read(text, Dialect::Bash);
        let found = dump::list(&syntax.list);
        if found != *expected || !syntax.problems.is_empty() {
            wrong += &format!("{text:?}\n  found    {found}\n  expected {expected}\n  {:?}\n", syntax.problems);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn lists() {
    check(&[
        ("", ""),
        (" # only a comment", ""),
        ("a; b\nc & d", "a; b; c &; d"),
        ("a && b || c | d", "a && b || c | d"),
        ("a &&\n\n# why\nb", "a && b"),
        ("a |& b", "a | b"),
        ("! a | b", "a | b"),
        ("a;#b", "a"),
        ("a \\\n b", "a b"),
        ("a\\\n b", "a b"),
        ("time -p git push", "time -p git push"),
        ("coproc git push", "coproc git push"),
    ]);
}

#[test]
fn compound_commands() {
    check(&[
        ("(a; b) > c", "(subshell a; b) >c"),
        ("{ a; b; } 2>&1", "(group a; b) 2>&1"),
        ("if a; then b; elif c; then d; else e; fi", "(if [a] [b] [c] [d] else [e])"),
        ("while a; do b; done < c", "(loop [a] [b]) <c"),
        ("until a\ndo b\ndone", "(loop [a] [b])"),
        ("for x in a 'b c'; do d; done", "(for x in a 'b c' [d])"),
        ("for x; do d; done", "(for x [d])"),
        ("select x in a; do d; done", "(for x in a [d])"),
        (
            "for ((i=0; i<n; i++)); do a; done",
            "(for ((reads i assigns i commands )) ((reads i,n assigns  commands )) ((reads i assigns i commands )) [a])",
        ),
        ("case $x in a|b) c;; (d) e;& *) ;; esac", "(case ${x} a b) [c] d) [e] *) [])"),
        ("case x in a) b; esac", "(case x a) [b])"),
        ("((x += $y + 1))", "((reads x,y assigns x commands ))"),
        ("[[ -f a && $b == c* ]]", "[[a ${b} c*]]"),
        ("[[ ! ( a < b ) || -z $c ]]", "[[a b ${c}]]"),
        ("[[ $a -eq b ]]", "[[ evaluated ${a} b]]"),
        ("[[ -v a ]]", "[[ evaluated a]]"),
        ("f() { a; }", "(function f (group a))"),
        ("function f-g { a; } > b", "(function f-g (group a) >b)"),
        ("f () (a)", "(function f (subshell a))"),
        ("f() if a; then b; fi", "(function f (if [a] [b]))"),
    ]);
}

#[test]
fn words() {
    check(&[
        ("a'b c'\"d\"\\ e", "a~'b c'~'d'~' '~e"),
        ("a '' \"\"", "a '' ''"),
        ("a \"x $y z\"", "a 'x '~\"${y}~' z'"),
        ("a \"\\$x \\\" \\\\ \\n \\\n.\"", "a '$x \" \\ \\n .'"),
        ("a $'x\\ty\\x41\\101\\u0042\\'\\cA'", "a 'x\tyAAB'\u{1}'"),
        ("a ~/b *.[ch] {c,d}", "a ~/b *.[ch] {c,d}"),
        ("a $x${y}z$1 $@ $? $", "a ${x}~${y}~z~${1} ${@} ${?} $"),
        ("a \"$\" \"b$\"", "a '$' 'b$'"),
        ("a $(b; c) \"$(d)\"", "a $(b; c) \"$(d)"),
        ("a `b | c` \"`d 'e'`\"", "a $(b | c) \"$(d 'e')"),
        ("a <(b) >(c)", "a <(b) <(c)"),
        ("a $((x + $y * 2)) \"$((1))\"", "a ((reads x,y assigns  commands )) ((reads  assigns  commands ))"),
        ("a $(( $(b) + 1 ))", "a ((reads  assigns  commands $(b) unclear))"),
        ("a $((x[1] + 1))", "a ((reads x assigns  commands  unclear))"),
        ("a $(((1 + 2) * (3)))", "a ((reads  assigns  commands ))"),
        ("a $(< b)", "a $(<b)"),
    ]);
}

#[test]
fn parameters() {
    check(&[
        ("a ${x} ${#x} ${#} ${!} ${10}", "a ${x} ${x length} ${#} ${!} ${10}"),
        ("a ${x-b} ${x:-b} ${x=b} ${x:=b}", "a ${x - b} ${x - b} ${x = b} ${x = b}"),
        ("a ${x?b} ${x:?b} ${x+b} ${x:+b}", "a ${x ? b} ${x ? b} ${x + b} ${x + b}"),
        ("a ${x:-$(b)} ${x:-${y:-c}}", "a ${x - $(b)} ${x - ${y - c}}"),
        ("a ${x#b} ${x##*/} ${x%b} ${x%%.*}", "a ${x edit b} ${x edit */} ${x edit b} ${x edit .*}"),
        ("a ${x/b/c} ${x//b} ${x/#b/c} ${x//\\//_}", "a ${x edit b c} ${x edit b} ${x edit b c} ${x edit '/' _}"),
        ("a ${x^} ${x^^} ${x,,}", "a ${x edit ø} ${x edit ø} ${x edit ø}"),
        (
            "a ${x:1} ${x:1:2} ${x:1:y}",
            "a ${x : ((reads  assigns  commands ))} ${x : ((reads  assigns  commands )) ((reads  assigns  commands ))} ${x : ((reads  assigns  commands )) ((reads y assigns  commands  unclear))}",
        ),
        ("a ${!x} ${x@P} ${x@Q}", "a ${x indirect} ${x indirect} ${x edit }"),
        ("a ${x[1]} ${x[@]} ${#x[@]} ${x[$i]}", "a ${x[1]} ${x[@]} ${x[@] length} ${x[${i}]}"),
        ("a ${!x[@]} ${!x[1]}", "a ${x[@] edit } ${x[1] indirect}"),
    ]);
}

#[test]
fn assignments_and_redirections() {
    check(&[
        ("x= y=1 a b=c", "x:=ø y:=1 a b=c"),
        ("x=\"a b\"$c", "x:='a b'~${c}"),
        ("x+=a", "x+=a"),
        ("x=(a 'b c' [k]=v)", "x:=(a 'b c' [k]=v)"),
        ("x=(\n a # why\n b\n)", "x:=(a b)"),
        ("x+=($(a))", "x+=($(a))"),
        ("x[1]=a y[$i]=b", "x[1]:=a y[${i}]:=b"),
        ("> a b < c", "b >a <c"),
        ("> a", ">a"),
        ("a 2>&1 >b 2>>c >|d <&- 3>&1-", "a 2>&1 >b 2>>c >d <&- 3>&1-"),
        ("a >& b", "a >&b"),
        ("a &>b", "a &>b"),
        ("a &>>b", "a &>b"),
        ("a 2 >b", "a 2 >b"),
        ("a <<< $x", "a <<<${x}"),
        ("a=1 >b c", "a:=1 c >b"),
    ]);
}

#[test]
fn here_documents() {
    check(&[
        ("a <<E\nb $c \"d\" 'e' \\$f\nE\ng", "a <<'b '~\"${c}~' \"d\" 'e' $f\\n'; g"),
        ("a <<'E'\nb $c\nE", "a <<'b $c\\n'"),
        ("a <<\\E\n$(b)\nE", "a <<'$(b)\\n'"),
        ("a <<E\nE", "a <<ø"),
        ("a <<-E | b\n\tc\n\tE\nd", "a <<'c\\n' | b; d"),
        ("a <<-'E'\n\t\tc\nE", "a <<'c\\n'"),
        ("a <<E\n$(b; c)\nE", "a <<\"$(b; c)~'\\n'"),
        ("a $(b <<E\nx\nE\n) c", "a $(b <<'x\\n') c"),
        ("{ a; } <<E\nx\nE", "(group a) <<'x\\n'"),
    ]);
}

#[test]
fn offsets_are_those_of_the_text() {
    let syntax = read("a && git  push", Dialect::Bash);
    let crate::shell::ast::Command::Simple(simple) = &syntax.list[0].rest[0].1.commands[0] else { panic!() };
    assert_eq!(simple.words.iter().map(|word| word.start).collect::<Vec<_>>(), [5, 10]);
}

/// What we read, but the second parser does not, keeps its shape for the rules that deny.
#[test]
fn a_second_parser_that_disagrees_is_a_problem() {
    for (text, expected) in [
        ("if { a; } then (b) fi", "(if [(group a)] [(subshell b)])"),
        ("{ { a; } }", "(group (group a))"),
        ("a #b\nc#d", "a; c#d"),
        ("time { a; }", "(group a)"),
        ("a \"${x:-it's b}\"", "a \"${x - 'it's b'}"),
        ("a <<A <<'B'\nx\nA\ny\nB\nc", "a <<'x\\n' <<'y\\n'; c"),
        ("if a <<E; then b; fi\nx\nE", "(if [a <<'x\\n'] [b])"),
        ("a <<E &&\nx\nE\nb", "a <<'x\\n' && b"),
        ("cat <<A\n`ls`\nA", "cat <<\"$(ls)~'\\n'"),
        ("for f do a; done", "(for f [a])"),
        ("exec 3<>a", "exec 3<>a"),
    ] {
        let syntax = read(text, Dialect::Bash);
        assert_eq!(dump::list(&syntax.list), expected);
        let [problem] = syntax.problems.as_slice() else { panic!("{text:?}: {:?}", syntax.problems) };
        assert!(problem.contains("second parser") || problem.contains("two parsers"), "{problem}");
    }
}
