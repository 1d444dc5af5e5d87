//! From a spec to what the kernel wants: words, environment, candidates for the program, a script's descriptor.

use crate::errors::{Shown, failure, io_failure, reason};
use crate::sys::launch::{LaunchError, Step};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use std::ffi::CString;
use toolcell_protocol::{Bytes, ErrorCode, ExecSpec, GuestError, Program};

/// Where programs are looked for when the environment has no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// The kernel's limit for a single word, its final NUL included (`MAX_ARG_STRLEN`, 32 pages of 4 KiB).
pub(crate) const MAX_WORD_BYTES: usize = 128 * 1024;

/// A start, ready but for descriptors.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Where the program may be.
    pub(crate) candidates: Vec<CString>,
    /// Its words.
    pub(crate) argv: Vec<CString>,
    /// Its environment.
    pub(crate) env: Vec<CString>,
    /// Its working directory.
    pub(crate) cwd: CString,
    /// A script too long for a word.
    pub(crate) script: Option<OwnedFd>,
}

fn c_string(bytes: Vec<u8>, what: &str) -> Result<CString, GuestError> {
    CString::new(bytes).map_err(|_| failure(ErrorCode::Invalid, format!("{what} contains a NUL byte")))
}

/// Checks and converts a spec.
pub(crate) fn prepare(spec: ExecSpec, shell: Option<&str>) -> Result<Prepared, GuestError> {
    if spec.cwd.first() != Some(&b'/') {
        return Err(failure(ErrorCode::Invalid, format!("the working directory {} is not absolute", Shown(&spec.cwd))));
    }
    let cwd = c_string(spec.cwd.into_vec(), "the working directory")?;
    match spec.program {
        Program::Argv(words) => {
            let env = environment(spec.env, &[])?;
            let name = words.first().map_or(&[][..], |word| word.as_slice()).to_vec();
            if name.is_empty() {
                return Err(failure(ErrorCode::Invalid, "the program has no name"));
            }
            let candidates = candidates(&name, search_path(&env))?;
            let argv: Result<Vec<_>, _> = words.into_iter().map(|word| c_string(word.into_vec(), "a word")).collect();
            Ok(Prepared { candidates, argv: argv?, env, cwd, script: None })
        }
        Program::Shell(text) => {
            let shell = shell.ok_or_else(|| failure(ErrorCode::NoShell, "the image has neither bash nor sh"))?;
            let env = environment(spec.env, &[b"BASH_ENV", b"ENV"])?;
            let text = c_string(text.into_vec(), "the shell text")?;
            let program = c_string(shell.as_bytes().to_vec(), "the shell's path")?;
            let mut argv: Vec<CString> = if shell.ends_with("/bash") {
                vec![c"bash".to_owned(), c"--norc".to_owned(), c"--noprofile".to_owned()]
            } else {
                vec![c"sh".to_owned()]
            };
            let mut script = None;
            if text.as_bytes_with_nul().len() <= MAX_WORD_BYTES {
                argv.extend([c"-c".to_owned(), text]);
            } else {
                script = Some(script_file(text.as_bytes()).map_err(|errno| {
                    failure(ErrorCode::Io, format!("keep a long script in memory: {}", reason(errno)))
                })?);
                argv.push(c"/proc/self/fd/3".to_owned());
            }
            Ok(Prepared { candidates: vec![program], argv, env, cwd, script })
        }
    }
}

fn environment(pairs: Vec<(Bytes, Bytes)>, without: &[&[u8]]) -> Result<Vec<CString>, GuestError> {
    let mut env = Vec::with_capacity(pairs.len());
    for (name, value) in pairs {
        if name.is_empty() || name.contains(&b'=') {
            let message = format!("{} is no name for an environment variable", Shown(&name));
            return Err(failure(ErrorCode::Invalid, message));
        }
        if without.contains(&name.as_slice()) {
            continue;
        }
        let mut entry = name.into_vec();
        entry.push(b'=');
        entry.extend_from_slice(&value);
        env.push(c_string(entry, "an environment variable")?);
    }
    Ok(env)
}

/// `PATH` as the tool will see it.
fn search_path(env: &[CString]) -> &[u8] {
    env.iter().find_map(|entry| entry.as_bytes().strip_prefix(b"PATH=")).unwrap_or(DEFAULT_PATH)
}

/// Where a program's name leads: itself if it has a slash, otherwise one place for each part of `path`.
fn candidates(name: &[u8], path: &[u8]) -> Result<Vec<CString>, GuestError> {
    if name.contains(&b'/') {
        return Ok(vec![c_string(name.to_vec(), "the program's name")?]);
    }
    path.split(|byte| *byte == b':')
        .map(|directory| {
            // An empty part means the working directory.
            let mut place = if directory.is_empty() { b".".to_vec() } else { directory.to_vec() };
            place.push(b'/');
            place.extend_from_slice(name);
            c_string(place, "the program's name")
        })
        .collect()
}

/// A read-only file without a name that holds `text`. Works on a read-only root and cannot be changed by anybody.
fn script_file(text: &[u8]) -> Result<OwnedFd, Errno> {
    let file = rustix::fs::memfd_create(c"script", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = text;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    let path = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&file));
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Says what went wrong in the words of the caller's request.
pub(crate) fn explain(error: LaunchError, program: &[u8], cwd: &[u8]) -> GuestError {
    match error.step {
        Step::Process | Step::Execute if error.errno == Errno::AGAIN => {
            failure(ErrorCode::TooManyProcesses, "the container is at its limit of processes")
        }
        Step::Process | Step::Prepare => failure(ErrorCode::Io, format!("start a process: {}", reason(error.errno))),
        Step::Cwd => io_failure(error.errno, "enter the working directory", cwd),
        Step::Interpreter => failure(
            ErrorCode::NotFound,
            format!("run {}: the interpreter or loader that it names does not exist", Shown(program)),
        ),
        Step::Execute if error.errno == Errno::NOEXEC => {
            failure(ErrorCode::Invalid, format!("run {}: it is not a program of this machine", Shown(program)))
        }
        Step::Execute if error.errno == Errno::TOOBIG => {
            failure(ErrorCode::TooLarge, format!("run {}: arguments and environment are too long", Shown(program)))
        }
        Step::Execute => io_failure(error.errno, "run", program),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolcell_protocol::Stdin;

    fn spec(program: Program, env: &[(&str, &str)]) -> ExecSpec {
        let bytes = |text: &str| Bytes::from(text.as_bytes().to_vec());
        ExecSpec {
            program,
            cwd: bytes("/"),
            env: env.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            stdin: Stdin::Closed,
            timeout_ms: 1000,
            max_output_bytes: 1000,
        }
    }

    fn argv(words: &[&str]) -> Program {
        Program::Argv(words.iter().map(|word| Bytes::from(word.as_bytes().to_vec())).collect())
    }

    fn texts(strings: &[CString]) -> Vec<&str> {
        strings.iter().map(|string| string.to_str().unwrap()).collect()
    }

    #[test]
    fn bare_names_are_looked_up_in_the_given_path_only() {
        let prepared = prepare(spec(argv(&["ls", "-l"]), &[("PATH", "/a::/b/")]), None).unwrap();
        assert_eq!(texts(&prepared.candidates), ["/a/ls", "./ls", "/b//ls"]);
        assert_eq!(texts(&prepared.argv), ["ls", "-l"]);
        let prepared = prepare(spec(argv(&["ls"]), &[]), None).unwrap();
        assert_eq!(texts(&prepared.candidates), ["/usr/local/bin/ls", "/usr/bin/ls", "/bin/ls"]);
        let prepared = prepare(spec(argv(&["./x/ls"]), &[("PATH", "/a")]), None).unwrap();
        assert_eq!(texts(&prepared.candidates), ["./x/ls"]);
    }

    #[test]
    fn shells_start_without_files_and_without_their_variables() {
        let env = [("BASH_ENV", "/evil"), ("ENV", "/evil"), ("HOME", "/h")];
        let program = || Program::Shell(Bytes::from(b"echo 1".to_vec()));
        let prepared = prepare(spec(program(), &env), Some("/bin/bash")).unwrap();
        assert_eq!(texts(&prepared.argv), ["bash", "--norc", "--noprofile", "-c", "echo 1"]);
        assert_eq!(texts(&prepared.env), ["HOME=/h"]);
        let prepared = prepare(spec(program(), &env), Some("/bin/sh")).unwrap();
        assert_eq!(texts(&prepared.argv), ["sh", "-c", "echo 1"]);
        assert_eq!(prepare(spec(program(), &env), None).unwrap_err().code, ErrorCode::NoShell);
    }

    #[test]
    fn text_becomes_a_file_exactly_beyond_the_kernel_limit() {
        let text = |length| Program::Shell(Bytes::from(vec![b'a'; length]));
        for (length, is_file) in [(MAX_WORD_BYTES - 2, false), (MAX_WORD_BYTES - 1, false), (MAX_WORD_BYTES, true)] {
            let prepared = prepare(spec(text(length), &[]), Some("/bin/sh")).unwrap();
            assert_eq!(prepared.script.is_some(), is_file, "{length} bytes");
        }
    }

    #[test]
    fn what_the_kernel_cannot_take_is_refused() {
        let code = |spec| prepare(spec, Some("/bin/sh")).unwrap_err().code;
        assert_eq!(code(spec(argv(&[]), &[])), ErrorCode::Invalid);
        assert_eq!(code(spec(argv(&[""]), &[])), ErrorCode::Invalid);
        assert_eq!(code(spec(argv(&["a\0b"]), &[])), ErrorCode::Invalid);
        assert_eq!(code(spec(argv(&["a", "b\0"]), &[])), ErrorCode::Invalid);
        assert_eq!(code(spec(argv(&["a"]), &[("", "1")])), ErrorCode::Invalid);
        assert_eq!(code(spec(argv(&["a"]), &[("A=B", "1")])), ErrorCode::Invalid);
        assert_eq!(code(spec(argv(&["a"]), &[("A", "1\0")])), ErrorCode::Invalid);
        assert_eq!(code(spec(Program::Shell(Bytes::from(b"a\0".to_vec())), &[])), ErrorCode::Invalid);
        let mut relative = spec(argv(&["a"]), &[]);
        relative.cwd = Bytes::from(b"tmp".to_vec());
        assert_eq!(code(relative), ErrorCode::Invalid);
    }
}
