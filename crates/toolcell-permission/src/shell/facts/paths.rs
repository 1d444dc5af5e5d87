//! The files that programs name which neither only read nor are plain file commands.
//!
//! Of a program that is not known every operand may be a path, and so may the values of options.

use super::Kind;
use super::launchers::unversioned;
use super::options::Grammar;
use super::place::Uses;
use super::reading::option_paths;
use crate::shell::script::{Access, Word};

/// What a known program's operands are.
#[derive(Debug, Clone, Copy)]
enum Operands {
    /// Not paths.
    Data,
    /// Files that are read.
    Read,
    /// Files that are changed.
    Write,
    /// Data, then files that are changed.
    DataThenWrite,
    /// Code, unless an option holds it, then files that are read.
    CodeThenRead,
    /// A file that is read, unless an option holds code, then anything.
    Script,
    /// Names of things to do; only what looks like a path is one.
    Names,
    /// Files that are read, then one that is written; with a colon they are elsewhere.
    Copy,
}

struct Known {
    grammar: Grammar,
    operands: Operands,
}

const fn known(operands: Operands, short: &'static str, long: &'static str) -> Option<Known> {
    Some(Known { grammar: Grammar { short, long }, operands })
}

fn lookup(program: &str) -> Option<Known> {
    use Operands::{CodeThenRead, Copy, Data, DataThenWrite, Names, Read, Script, Write};
    match unversioned(program) {
        "awk" | "gawk" | "mawk" | "nawk" => known(CodeThenRead, "F:v:f<i:", "field-separator: assign: file< include:"),
        "python" | "pypy" => known(Script, "c:m:W:X:BEIOPqsSuvx", ""),
        "node" | "nodejs" => known(Script, "e:p:r<i", "eval: print: require< import< test check"),
        "perl" => known(Script, "e:E:I<nplawi?M:m:0?", ""),
        "ruby" => known(Script, "e:I<nplarw", ""),
        "php" => known(Script, "r:d:c<S:f<n", ""),
        "lua" | "luajit" => known(Script, "e:l:i", ""),
        "bash" | "sh" | "dash" | "zsh" | "ksh" | "ash" => known(Script, "c:eux", ""),
        "source" | "." => known(Script, "", ""),
        "Rscript" | "julia" | "ts-node" | "tsx" => known(Script, "e:", "eval:"),
        "make" | "gmake" | "ninja" | "just" | "rake" | "task" => {
            known(Names, "C<f<j?kBnsl:", "directory< file< makefile< jobs?")
        }
        "npm" | "pnpm" | "yarn" | "npx" | "bun" | "bunx" => known(Names, "C<w:gDs", "prefix< workspace: silent"),
        "cargo" => known(
            Names,
            "p:F:qvj:",
            "manifest-path< package: features: target-dir> release workspace all-targets bin: test: example:",
        ),
        "go" => known(Names, "C<o>", ""),
        "pip" | "uv" | "poetry" | "gem" | "bundle" => known(Names, "r<c<t>e<qU", "requirement< constraint< target>"),
        "mvn" | "gradle" | "gradlew" | "mvnw" => known(Names, "f<p<qP:", ""),
        "docker" | "podman" | "kubectl" | "helm" | "systemctl" | "service" => {
            known(Names, "f<n:", "file< namespace: env-file<")
        }
        "apt" | "apt-get" | "apk" | "dnf" | "yum" | "brew" => known(Names, "yqo:", ""),
        "ssh" => known(Data, "i<F<L:R:D:p:l:o:J:46AaCfgKkMNnqsTtVvXxYy", ""),
        "scp" | "rsync" => known(
            Copy,
            "i<F<P:o:e:rvazqpCpnuh",
            "exclude: include: exclude-from< files-from< rsh: delete archive verbose compress progress dry-run recursive update",
        ),
        "gzip" | "gunzip" | "bzip2" | "bunzip2" | "xz" | "unxz" | "zstd" | "truncate" | "shred" | "dos2unix" => {
            known(Write, "cdfklnqrtvs:S:u0123456789T:", "size: stdout keep force recursive decompress")
        }
        "unlink" => known(Write, "", ""),
        "chown" | "chgrp" => known(DataThenWrite, "RcfhvHLP", "recursive reference< changes verbose no-dereference"),
        "kill" | "pkill" | "killall" | "export" | "unset" | "readonly" | "declare" | "local" | "typeset" | "read"
        | "let" | "alias" | "unalias" | "trap" | "wait" | "shopt" | "hash" | "umask" | "ulimit" | "getopts"
        | "ping" | "dig" | "host" | "nslookup" | "set" | "jobs" | "fg" | "bg" | "disown" | "shutdown" | "reboot"
        | "expr" | "useradd" | "userdel" | "groupadd" | "nohup" | "nice" | "sleep" | "command" | "builtin" | "exec"
        | "time" => known(Data, "s:n:", ""),
        "less" | "more" | "most" | "view" => known(Read, "nNRSFXeE", ""),
        "curl" => known(
            Names,
            "o>OsSfLkivIGgNX:H:d:u:A:e:T<K<b:c>D>m:w:x:F:E<r:#46jJlnqRV",
            "output> output-dir> request: header: data: data-raw: data-urlencode: data-binary: json: form: user: user-agent: referer: upload-file< config< cookie: cookie-jar> cacert< cert< key< max-time: connect-timeout: retry: write-out: proxy: url: silent fail location compressed insecure remote-name head include show-error dump-header>",
        ),
        "wget" => known(
            Names,
            "O>P>o>a>i<qcNrknvSt:T:U:e:",
            "output-document> directory-prefix> output-file> append-output> input-file< header: post-data: post-file< user-agent: quiet tries: timeout: no-check-certificate",
        ),
        _ => None,
    }
}

/// Reports the files that the call names.
pub(super) fn examine(program: &str, arguments: &[Word], uses: &mut Uses<'_>) -> Kind {
    if program == "dd" {
        for word in arguments {
            device(word, uses);
        }
        return Kind::Other;
    }
    let Some(known) = lookup(program) else {
        unknown(arguments, uses);
        return Kind::Other;
    };
    let line = known.grammar.split(arguments);
    option_paths(&line, uses);
    let operands = line.operands.as_slice();
    let rest = operands.get(1..).unwrap_or_default();
    match known.operands {
        Operands::Data => {}
        Operands::Read => uses.add_all(operands.iter().copied(), Access::Read),
        Operands::Write => uses.add_all(operands.iter().copied(), Access::Write),
        Operands::DataThenWrite => uses.add_all(rest.iter().copied(), Access::Write),
        Operands::CodeThenRead => {
            let files = if line.has(&["f", "file"]) { operands } else { rest };
            uses.add_all(files.iter().copied(), Access::Read);
        }
        Operands::Script => {
            let code = line.has(&["c", "m", "e", "E", "p", "r", "eval", "print"]);
            let script = operands.first().filter(|_| !code).copied();
            uses.add_all(script, Access::Read);
            for word in operands.iter().skip(usize::from(!code)) {
                operand(word, uses);
            }
        }
        Operands::Names => {
            for word in operands {
                if !looks_bare(word) {
                    operand(word, uses);
                }
            }
        }
        Operands::Copy => {
            let local = |word: &&Word| !word.known_prefix().contains(':');
            if let Some((last, sources)) = operands.split_last() {
                uses.add_all(sources.iter().copied().filter(local), Access::Read);
                uses.add_all(Some(*last).filter(local), Access::Write);
            }
        }
    }
    if program == "curl" {
        for data in line.values(&["d", "data", "data-binary", "data-urlencode", "json", "F", "form", "b", "cookie"]) {
            if let Some((_, file)) = data.known_prefix().split_once(['@', '<']).filter(|(name, _)| !name.contains(' '))
            {
                let file = file.split(';').next().unwrap_or(file);
                uses.add_text(file, Access::Read);
            }
        }
    }
    Kind::Other
}

/// `if=`, `of=`
fn device(word: &Word, uses: &mut Uses<'_>) {
    let text = word.known_prefix();
    match text.split_once('=') {
        Some(("if", file)) => at(word, 3, file, Access::Read, uses),
        Some(("of", file)) => at(word, 3, file, Access::Write, uses),
        Some(_) => {}
        None => uses.known &= word.text().is_some(),
    }
}

fn at(word: &Word, from: usize, known: &str, access: Access, uses: &mut Uses<'_>) {
    match word {
        Word::Text(_) => uses.add_text(known, access),
        Word::Glob(pattern) => {
            let rest = pattern.get(from..).unwrap_or_default().to_owned();
            uses.add(&Word::Glob(rest), access);
        }
        Word::Unknown { many, .. } => {
            uses.add(&Word::Unknown { prefix: known.to_owned(), many: *many }, access);
        }
    }
}

/// A program of which nothing is known.
fn unknown(arguments: &[Word], uses: &mut Uses<'_>) {
    let line = Grammar { short: "", long: "" }.split(arguments);
    option_paths(&line, uses);
    for word in line.operands {
        operand(word, uses);
    }
}

/// A word that may be a path, and what of it may be one: behind `=`, `@` or `file://`, between colons.
fn operand(word: &Word, uses: &mut Uses<'_>) {
    let Some(text) = word.text() else {
        uses.add(word, Access::Write);
        return;
    };
    if let Some(local) = text.strip_prefix("file://") {
        uses.add_text(local, Access::Write);
        return;
    }
    if !may_be_path(text) {
        return;
    }
    uses.add(word, Access::Write);
    for part in text.split([':', '=', ',']).filter(|part| part.len() != text.len()) {
        let part = part.strip_prefix('@').unwrap_or(part);
        if shaped_like_path(part) {
            uses.add_text(part, Access::Write);
        }
    }
    if let Some(file) = text.strip_prefix('@').filter(|file| !file.is_empty()) {
        uses.add_text(file, Access::Write);
    }
}

/// The value of an option that is not known. What is glued to a letter is one only if it looks like one: it may as
/// well be more letters.
pub(super) fn value(value: &Word, long: bool, uses: &mut Uses<'_>) {
    match value.text() {
        Some(text) if long || shaped_like_path(text) => operand(value, uses),
        Some(_) => {}
        None => operand(value, uses),
    }
}

fn may_be_path(text: &str) -> bool {
    let blank = text.is_empty() || (text.contains(char::is_whitespace) && !text.contains('/'));
    let number = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+'))
        && text.contains(|c: char| c.is_ascii_digit());
    !blank && !number && !text.contains("://")
}

fn shaped_like_path(text: &str) -> bool {
    (text.contains(['/', '.']) || text.starts_with("id_") || text.starts_with('~')) && may_be_path(text)
}

/// Whether it is a plain name, such as a subcommand or a target.
fn looks_bare(word: &Word) -> bool {
    word.text().is_some_and(|text| !text.starts_with("file://") && !shaped_like_path(text.trim_start_matches('@')))
}
