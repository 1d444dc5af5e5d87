//! Programs that may run `MARK push`, in whatever ways a shell has to run something.

/// A shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shell {
    Bash,
    Dash,
}

impl Shell {
    /// The name by which a program calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Dash => "sh",
        }
    }
}

/// A program of this shell: the same one for the same seed.
pub(super) fn program(shell: Shell, seed: u64) -> String {
    let mut generator = Generator { random: Random(seed), delimiters: 0 };
    let depth = 1 + generator.random.below(DEEPEST);
    let mut text = generator.code(shell, depth);
    if generator.random.one_in(3) {
        let before = generator.decoy(shell);
        text = format!("{before}\n{text}");
    }
    if generator.random.one_in(4) {
        text.push('\n');
    }
    text
}

/// What the marker is called, and what it must be told.
pub(super) const MARK: &str = "MARK";
pub(super) const PUSH: &str = "push";
/// Where it is, in the sandbox.
pub(super) const MARK_DIRECTORY: &str = "/workspace/bin";

const DEEPEST: usize = 4;

/// Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

struct Generator {
    random: Random,
    delimiters: usize,
}

impl Generator {
    /// Commands that are whole lines: what follows begins on a line of its own.
    fn code(&mut self, shell: Shell, depth: usize) -> String {
        if depth == 0 {
            return match self.random.below(12) {
                0 => self.decoy(shell),
                1 => self.dead(shell),
                2 => self.wrapped_mark(shell),
                _ => self.mark(shell),
            };
        }
        let mut code = self.structure(shell, depth);
        if self.random.one_in(5) {
            let more = if self.random.one_in(2) { self.decoy(shell) } else { self.dead(shell) };
            code = if self.random.one_in(2) { format!("{more}\n{code}") } else { format!("{code}\n{more}") };
        }
        code
    }

    /// Code inside of something that runs it.
    fn structure(&mut self, shell: Shell, depth: usize) -> String {
        let kinds = if shell == Shell::Bash { 52 } else { 42 };
        let kind = self.random.below(kinds);
        if (25..=37).contains(&kind) {
            return self.text(shell, depth, kind);
        }
        let a = self.code(shell, depth - 1);
        let (x, f) = (self.variable(), self.function());
        match kind {
            0 => format!("true\n{a}\ntrue"),
            1 => format!("true && {{\n{a}\n}}"),
            2 => format!("false || (\n{a}\n)"),
            3 => format!("true | {{\n{a}\n}}"),
            4 => format!("{{\n{a}\n}} | cat"),
            5 => format!("(\n{a}\n) >/dev/null 2>&1"),
            6 => format!("{{\n{a}\n}} &\nwait"),
            7 => format!("if true; then\n{a}\nfi"),
            8 => format!("if\n{a}\nthen :; else :; fi"),
            9 => format!("if false; then :; elif\n{a}\nthen :\nfi"),
            10 => format!("if ! true; then :; else\n{a}\nfi"),
            11 => format!("while true; do\n{a}\nbreak\ndone"),
            12 => format!("until false; do\n{a}\nbreak; done"),
            13 => format!("while\n{a}\nfalse\ndo :; done"),
            14 => format!("for {x} in 1 2; do\n{a}\ndone"),
            15 => format!("case x in\n(x)\n{a}\n;;\nesac"),
            16 => format!("case y in x) :;; *)\n{a}\nesac"),
            17 => format!("{f}() {{\n{a}\n}}\n{f}"),
            18 => format!("{f}() (\n{a}\n); {f} x"),
            19 => format!(": \"$(\n{a}\n)\""),
            20 => format!("{x}=$(\n{a}\n)"),
            21 => format!("{x}=`\n{}\n`", in_backticks(&a)),
            22 => format!("echo ${{unset:-$(\n{a}\n)}}"),
            23 => format!("case $(\n{a}\n) in *) ;; esac"),
            24 => format!("for {x} in $(\n{a}\n); do :; done"),
            38 => format!("{x}=$(( $(\n{a}\necho 1) + 1 ))"),
            39 => format!("(\n({a}\n)\n)"),
            40 => {
                let end = self.delimiter();
                format!("cat <<{end}\n$(\n{a}\n)\n{end}")
            }
            41 => format!("{x}=1\nwhile [ \"${x}\" = 1 ]; do\n{x}=2\n{a}\n{x}=3\ndone"),
            42 => format!("cat <(\n{a}\n)"),
            43 => format!("[[ a == a ]] && {{\n{a}\n}}"),
            44 => format!("((1)) && {{\n{a}\n}}"),
            45 => format!("function {f} {{\n{a}\n}}; {f}"),
            46 => format!("for ((i=0; i<1; i++)); do\n{a}\ndone"),
            47 => format!("case x in x) ;;& *)\n{a}\nesac"),
            48 => format!("time {{\n{a}\n}}"),
            49 => format!("echo x | tee >(\n{a}\n) | cat"),
            50 => format!("coproc {{\n{a}\n}}\nwait"),
            51 => format!("[[ -n $(\n{a}\necho x) ]]"),
            other => unreachable!("{other}"),
        }
    }

    /// Code as text, and something that runs text.
    fn text(&mut self, shell: Shell, depth: usize, kind: usize) -> String {
        let inner = if self.random.one_in(2) { Shell::Bash } else { Shell::Dash };
        let other = inner.name();
        let evaluated = matches!(kind, 25..=28);
        let a = self.code(if evaluated { shell } else { inner }, depth - 1);
        let (x, end) = (self.variable(), self.delimiter());
        let quoted = self.quoted(shell, &a);
        match kind {
            25 => format!("eval {quoted}"),
            26 => format!("{x}={quoted}\neval \"${x}\""),
            27 => format!("(trap {quoted} EXIT\n)"),
            28 => format!("eval eval {}", self.quoted(shell, &quoted)),
            29 => format!("{other} -c {quoted}"),
            30 => format!("{}{other} -c {quoted} {x} y", self.wrapper(shell)),
            31 => format!("{other} <<'{end}'\n{a}\n{end}"),
            32 => format!("{other} <<{end}\n{}\n{end}", in_heredoc(&a)),
            33 => format!("printf '%s\\n' {quoted} | {other}"),
            34 => format!("echo | xargs {other} -c {quoted}"),
            35 => format!("find . -maxdepth 0 -exec {other} -c {quoted} \\;"),
            36 if shell == Shell::Bash => format!("{other} <<< {quoted}"),
            36 => format!("cat <<'{end}' | {other}\n{a}\n{end}"),
            37 => format!("{x}={quoted}; {other} -ec \"${x}\""),
            other => unreachable!("{other}"),
        }
    }

    /// The text as one word.
    fn quoted(&mut self, shell: Shell, text: &str) -> String {
        match self.random.below(if shell == Shell::Bash { 4 } else { 3 }) {
            0 => in_double_quotes(text),
            3 => in_dollar_quotes(text),
            _ => in_single_quotes(text),
        }
    }

    /// Words before a command that run it.
    fn wrapper(&mut self, shell: Shell) -> &'static str {
        let all = [
            "env ",
            "env A=1 ",
            "timeout 5 ",
            "timeout -s KILL 5 ",
            "nice ",
            "nice -n 1 ",
            "nohup ",
            "command ",
            "setsid -w ",
            "stdbuf -oL ",
            "A=1 ",
            "env -u X timeout 5 nice ",
            "time ",
        ];
        let known = if shell == Shell::Bash { &all[..] } else { &all[..all.len() - 1] };
        self.random.pick(known)
    }

    /// `MARK push` behind wrappers.
    fn wrapped_mark(&mut self, shell: Shell) -> String {
        let wrapper = self.wrapper(shell);
        let (mark, push) = (self.word(shell, MARK), self.word(shell, PUSH));
        match self.random.below(6) {
            0 => format!("echo | xargs {mark} {push}"),
            1 => format!("find . -maxdepth 0 -exec {mark} {push} {{}} +"),
            2 => format!("(exec {mark} {push})"),
            3 => format!("echo {PUSH} | xargs -n 1 {mark}"),
            _ => format!("{wrapper}{mark} {push}"),
        }
    }

    /// `MARK push` in some spelling.
    fn mark(&mut self, shell: Shell) -> String {
        let (mark, push) = (self.word(shell, MARK), self.word(shell, PUSH));
        let (x, y, f) = (self.variable(), self.variable(), self.function());
        let kinds = if shell == Shell::Bash { 30 } else { 22 };
        match self.random.below(kinds) {
            0 => format!("{x}={mark}; ${x} {push}"),
            1 => format!("{x}='MARK push'; ${x}"),
            2 => format!("{x}={push}\n{mark} \"${x}\""),
            3 => format!("{x}=RK; MA${{{x}}} {push}"),
            4 => format!("{x}={mark} && ${{{x}:-echo}} {push}"),
            5 => format!("${{unset:-{mark}}} {push}"),
            6 => format!("set -- {push}; {mark} \"$1\""),
            7 => format!("set -- {mark} {push}; \"$@\""),
            8 => format!("{f}() {{ \"$@\"; }}; {f} {mark} {push}"),
            9 => format!("for {x} in {mark}; do ${x} {push}; done"),
            10 => format!("$(echo {MARK}) {push}"),
            11 => format!("{mark} `echo {PUSH}`"),
            12 => format!(">/dev/null {mark} {push} 2>&1"),
            13 => format!("{MARK_DIRECTORY}/MAR[K] {push}"),
            14 => format!("{x}=echo; if true; then {x}={mark}; fi; ${x} {push}"),
            15 => format!("{x}=MARK{y}; ${{{x}%{y}}} {push}"),
            16 => format!("echo {MARK} | while read {x}; do ${x} {push}; done"),
            17 => format!("{x}=echo; {f}() {{ {x}={mark}; }}; {f}; ${x} {push}"),
            18 => format!("{x}=echo; while ${x} {push}; do [ \"${x}\" = echo ] || break; {x}={mark}; done"),
            19 => format!("IFS=,; {x}=MARK,push; ${x}"),
            20 => format!(": ${{{x}:={mark}}}; ${x} {push}"),
            21 => format!("{x}={mark}; ({x}=echo); ${x} {push}"),
            22 => format!("{{{MARK},{PUSH}}}"),
            23 => format!("{x}=({mark} {push}); \"${{{x}[@]}}\""),
            24 => format!("read {x} <<< {MARK}; ${x} {push}"),
            25 => format!("printf -v {x} {MARK}; ${x} {push}"),
            26 => format!("{x}=M; {x}+=ARK; ${x} {push}"),
            27 => format!("MAR{{K,}} {push}"),
            28 => format!("{f}() {{ local {x}={mark}; ${x} {push}; }}; {f}"),
            29 => format!("{x}=echo; {f}() {{ local {x}; {x}=x; }}; {f}; {x}=${{{x}/echo/{MARK}}}; ${x} {push}"),
            other => unreachable!("{other}"),
        }
    }

    /// A word in some spelling.
    fn word(&mut self, shell: Shell, word: &str) -> String {
        let at = 1 + self.random.below(word.len() - 1);
        let (head, tail) = word.split_at(at);
        let kinds = if shell == Shell::Bash { 14 } else { 11 };
        match self.random.below(kinds) {
            0 => format!("'{word}'"),
            1 => format!("\"{word}\""),
            2 => format!("{head}''{tail}"),
            3 => format!("{head}\"{tail}\""),
            4 => format!("{head}\\{tail}"),
            5 => format!("{head}\\\n{tail}"),
            6 => format!("\"{head}\\\n{tail}\""),
            7 if word == MARK => format!("{MARK_DIRECTORY}/{MARK}"),
            8 => format!("{head}${{unset}}{tail}"),
            11 => format!("$'{word}'"),
            12 => format!("$'\\x{:02x}{}'", word.as_bytes()[0], &word[1..]),
            13 => format!("{head}$'\\{:03o}{}'", tail.as_bytes()[0], &tail[1..]),
            _ => word.to_owned(),
        }
    }

    /// Text that only looks like it.
    fn decoy(&mut self, shell: Shell) -> String {
        let (x, end) = (self.variable(), self.delimiter());
        let kinds = if shell == Shell::Bash { 11 } else { 10 };
        match self.random.below(kinds) {
            0 => "echo 'MARK push'".to_owned(),
            1 => "# MARK push".to_owned(),
            2 => format!("cat <<'{end}'\nMARK push\n$(MARK push)\n{end}"),
            3 => ": MARK push; : \"MARK push\"".to_owned(),
            4 => format!("{x}='MARK push'"),
            5 => "printf '%s\\n' \"MARK push\" '$(MARK push)'".to_owned(),
            6 => "echo \\$\\(MARK push\\) \\; MARK push".to_owned(),
            7 => "echo MARK push # ; MARK push".to_owned(),
            8 => "MARK pull".to_owned(),
            9 => format!("cat <<{end} >/dev/null\nMARK push \\$(MARK push)\n{end}"),
            10 => "echo $'\\'; MARK push; #'".to_owned(),
            other => unreachable!("{other}"),
        }
    }

    /// Code that never runs.
    fn dead(&mut self, shell: Shell) -> String {
        let f = self.function();
        let mark = self.mark(shell);
        match self.random.below(4) {
            0 => format!("if false; then\n{mark}\nfi"),
            1 => format!("false && {{\n{mark}\n}}"),
            2 => format!("unused_{f}() {{\n{mark}\n}}"),
            3 => format!("case x in y)\n{mark}\n;; esac"),
            other => unreachable!("{other}"),
        }
    }

    /// One of a few, so that they get in each other's way.
    fn variable(&mut self) -> &'static str {
        self.random.pick(&["x", "y", "z"])
    }

    fn function(&mut self) -> &'static str {
        self.random.pick(&["f", "g"])
    }

    /// One that no other heredoc has.
    fn delimiter(&mut self) -> String {
        self.delimiters += 1;
        format!("END{}", self.delimiters)
    }
}

fn in_single_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn in_double_quotes(text: &str) -> String {
    format!("\"{}\"", escaped(text, &['\\', '"', '$', '`']))
}

fn in_heredoc(text: &str) -> String {
    escaped(text, &['\\', '$', '`'])
}

fn in_backticks(text: &str) -> String {
    escaped(text, &['\\', '`'])
}

fn in_dollar_quotes(text: &str) -> String {
    format!("$'{}'", escaped(text, &['\\', '\'']).replace('\n', "\\n"))
}

fn escaped(text: &str, special: &[char]) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if special.contains(&c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
