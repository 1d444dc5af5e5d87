//! `execute`: run a command.

use crate::catalogue::ToolInfo;
use crate::fault::FaultCode;
use crate::fields::{Fields, invalid, shorten};
use crate::output::INLINE_BYTES;
use crate::stream::{base64, without_cut_end, without_cut_start};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use toolcell_model::{CallFault, CallOutcome, CallState};
use toolcell_permission::ContainerPath;

/// The tool's name.
pub const NAME: &str = "execute";

/// Longest shell text in bytes. It may travel as a file, so it may be longer than an argument. Beyond: invalid input.
pub const MAX_COMMAND_BYTES: usize = 1024 * 1024;
/// Most words of an argv. Beyond: invalid input.
pub const MAX_ARGV_WORDS: usize = 16 * 1024;
/// Most bytes of all words of an argv. Beyond: invalid input.
pub const MAX_ARGV_BYTES: usize = 1024 * 1024;
/// Longest single word, and longest `NAME=value`: what Linux takes, its end not counted. Beyond: invalid input.
pub const MAX_WORD_BYTES: usize = 128 * 1024 - 1;
/// Most entries of `env`. Beyond: invalid input.
pub const MAX_ENV_ENTRIES: usize = 1024;
/// Most bytes of all names and values of `env`. Beyond: invalid input.
pub const MAX_ENV_BYTES: usize = 256 * 1024;
/// Most bytes of `stdin`. Beyond: invalid input.
pub const MAX_STDIN_BYTES: usize = 16 * 1024 * 1024;
/// Longest timeout: 24 hours. Beyond: invalid input.
pub const MAX_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Text for the agent's shell.
    Shell(String),
    /// A program and its arguments, at least one word.
    Argv(Vec<String>),
}

/// A valid input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteInput {
    /// What to run.
    pub program: Program,
    /// Where; the workspace if the input does not say.
    pub cwd: ContainerPath,
    /// Variables besides the agent's own.
    pub env: BTreeMap<String, String>,
    /// Standard input; closed without.
    pub stdin: Option<String>,
    /// After this time the whole process tree is stopped.
    pub timeout_ms: Option<u64>,
}

pub(crate) fn info() -> ToolInfo {
    ToolInfo {
        name: NAME.into(),
        description:
            "Run a command in the sandbox and wait for it to end. Give either `command` (shell text) or `argv` \
            (a program and its arguments, no shell), exactly one of them. Files in the workspace and in the home \
            directory persist between calls; processes do not: everything the command starts is ended with it. There \
            is no terminal, so use options that avoid prompts."
                .into(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "command": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Shell text, for example `git status && ls -la`. May have several lines."
                },
                "argv": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "maxItems": MAX_ARGV_WORDS,
                    "description": "A program and its arguments, passed on as they are: no quoting, globs or variables."
                },
                "cwd": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Working directory, absolute or relative to /workspace. Default: /workspace."
                },
                "env": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "Environment variables for this command, in addition to the usual ones."
                },
                "stdin": {
                    "type": "string",
                    "description": "Text for the command's standard input. Without it, standard input is closed."
                },
                "timeout_ms": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_TIMEOUT_MS,
                    "description": "Stop the command and everything it started after this many milliseconds."
                }
            },
            "additionalProperties": false
        }),
        read_only: false,
        concurrency_safe: false,
    }
}

impl ExecuteInput {
    pub(crate) fn parse(input: &Value) -> Result<Self, CallFault> {
        let fields = Fields::of(NAME, input, &["command", "argv", "cwd", "env", "stdin", "timeout_ms"])?;
        Ok(Self {
            program: program(&fields)?,
            cwd: fields.path("cwd")?.unwrap_or_else(ContainerPath::workspace),
            env: env(&fields)?,
            stdin: fields.bounded_text("stdin", MAX_STDIN_BYTES)?.map(str::to_owned),
            timeout_ms: fields.integer("timeout_ms", 1..=MAX_TIMEOUT_MS)?,
        })
    }
}

fn program(fields: &Fields<'_>) -> Result<Program, CallFault> {
    match (fields.bounded_text("command", MAX_COMMAND_BYTES)?, fields.texts("argv")?) {
        (Some(_), Some(_)) => Err(invalid("argv", "give either `command` or `argv`, not both")),
        (None, None) => Err(invalid("command", "is required, unless `argv` is given")),
        (Some(text), None) if text.trim().is_empty() => Err(invalid("command", "is empty")),
        (Some(text), None) if text.contains('\0') => Err(invalid("command", "contains a NUL byte")),
        (Some(text), None) => Ok(Program::Shell(text.to_owned())),
        (None, Some(words)) => argv(&words).map(Program::Argv),
    }
}

pub(crate) fn argv<W: AsRef<str>>(words: &[W]) -> Result<Vec<String>, CallFault> {
    if words.first().is_none_or(|program| program.as_ref().is_empty()) {
        return Err(invalid("argv[0]", "the program to run is missing"));
    }
    if words.len() > MAX_ARGV_WORDS {
        return Err(invalid("argv", format_args!("has {} words; at most {MAX_ARGV_WORDS} are allowed", words.len())));
    }
    for (place, word) in words.iter().map(AsRef::as_ref).enumerate() {
        let field = format!("argv[{place}]");
        if word.contains('\0') {
            return Err(invalid(&field, "contains a NUL byte"));
        }
        if word.len() > MAX_WORD_BYTES {
            let problem = format_args!("has {} bytes; at most {MAX_WORD_BYTES} are possible", word.len());
            return Err(invalid(&field, problem));
        }
    }
    let bytes: usize = words.iter().map(|word| word.as_ref().len()).sum();
    if bytes > MAX_ARGV_BYTES {
        return Err(invalid("argv", format_args!("has {bytes} bytes; at most {MAX_ARGV_BYTES} are allowed")));
    }
    Ok(words.iter().map(|word| word.as_ref().to_owned()).collect())
}

fn env(fields: &Fields<'_>) -> Result<BTreeMap<String, String>, CallFault> {
    let entries = fields.text_map("env")?;
    if entries.len() > MAX_ENV_ENTRIES {
        let problem = format_args!("has {} entries; at most {MAX_ENV_ENTRIES} are allowed", entries.len());
        return Err(invalid("env", problem));
    }
    for (name, value) in &entries {
        let field = format!("env.{}", shorten(name));
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(invalid(&field, "the name of a variable is not empty and has no `=` and no NUL byte"));
        }
        if value.contains('\0') {
            return Err(invalid(&field, "contains a NUL byte"));
        }
        // One more for the `=` between them.
        let bytes = name.len() + value.len() + 1;
        if bytes > MAX_WORD_BYTES {
            return Err(invalid(&field, format_args!("has {bytes} bytes; at most {MAX_WORD_BYTES} are possible")));
        }
    }
    let bytes: usize = entries.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_ENV_BYTES {
        return Err(invalid("env", format_args!("has {bytes} bytes; at most {MAX_ENV_BYTES} are allowed")));
    }
    Ok(entries.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// How a command ended, as the kernel told the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExecuteEnd {
    /// Exit code of the main process.
    pub exit_code: Option<i32>,
    /// Signal that ended the main process.
    pub signal: Option<i32>,
    /// It was stopped at its deadline.
    pub timed_out: bool,
    /// It was stopped because someone asked.
    pub cancelled: bool,
    /// It was stopped because it wrote more than is kept.
    pub output_limited: bool,
    /// The kernel ended a process for want of memory while it ran.
    pub oom_killed: bool,
    /// Processes that it had left behind and that were ended with it.
    pub left_behind: u32,
}

/// What is known of one output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamCapture<'a> {
    /// Its first bytes.
    pub head: &'a [u8],
    /// Its last bytes, after `head`. With nothing missing in between when both have `total` bytes together.
    pub tail: &'a [u8],
    /// How many bytes were written to it.
    pub total: u64,
}

impl StreamCapture<'_> {
    /// A stream of which everything is here.
    #[must_use]
    pub fn whole(bytes: &[u8]) -> StreamCapture<'_> {
        StreamCapture { head: bytes, tail: &[], total: bytes.len() as u64 }
    }
}

/// The outcome of a call whose command has ended.
///
/// The output is `{stdout, stderr, exit_code, signal, timed_out, oom_killed, stdout_bytes, stderr_bytes, truncated}`.
/// A stream that is longer than [`INLINE_BYTES`], or of which a part is missing, comes as `stdout`, its first half of
/// that, and `stdout_tail`, its last; one that is not UTF-8 comes as base64 and `stdout_encoding` says so. Likewise
/// `stderr`. `left_behind` and `output_limited` are there when they say something.
#[must_use]
pub fn output(end: &ExecuteEnd, stdout: &StreamCapture<'_>, stderr: &StreamCapture<'_>) -> CallOutcome {
    let mut json = Map::new();
    let mut truncated = false;
    for (name, capture) in [("stdout", stdout), ("stderr", stderr)] {
        truncated |= insert_stream(&mut json, name, capture);
        json.insert(format!("{name}_bytes"), capture.total.into());
    }
    json.insert("exit_code".into(), end.exit_code.into());
    json.insert("signal".into(), end.signal.map(signal_name).map_or(Value::Null, |name| name.into()));
    json.insert("timed_out".into(), end.timed_out.into());
    json.insert("oom_killed".into(), end.oom_killed.into());
    json.insert("truncated".into(), truncated.into());
    if end.left_behind > 0 {
        json.insert("left_behind".into(), end.left_behind.into());
    }
    if end.output_limited {
        json.insert("output_limited".into(), true.into());
    }
    let (state, error) = verdict(end);
    CallOutcome { state, output: Some(Value::Object(json)), error, fault: None }
}

fn verdict(end: &ExecuteEnd) -> (CallState, Option<CallFault>) {
    let (state, code, message) = if end.timed_out {
        let message = "The command was stopped at its deadline. What it had written is in the output.".to_owned();
        (CallState::TimedOut, FaultCode::TimedOut, message)
    } else if end.cancelled {
        (CallState::Cancelled, FaultCode::Cancelled, "The command was stopped because someone asked.".to_owned())
    } else if end.output_limited {
        let message = "The command was stopped because it wrote too much. Let it write less, or to a file.".to_owned();
        (CallState::Failed, FaultCode::OutputLimit, message)
    } else {
        match (end.exit_code, end.signal) {
            (Some(0), _) => return (CallState::Succeeded, None),
            (Some(status), _) => {
                (CallState::Failed, FaultCode::ExitStatus, format!("The command exited with status {status}."))
            }
            (None, Some(_)) if end.oom_killed => {
                let message = "The command was ended because the sandbox ran out of memory.".to_owned();
                (CallState::Failed, FaultCode::OutOfMemory, message)
            }
            (None, Some(signal)) => {
                let message = format!("The command was ended by {}.", signal_name(signal));
                (CallState::Failed, FaultCode::Signal, message)
            }
            (None, None) => {
                (CallState::Failed, FaultCode::ExitStatus, "The command ended without an exit status.".to_owned())
            }
        }
    };
    (state, Some(code.with(message)))
}

/// Says whether bytes are missing.
fn insert_stream(json: &mut Map<String, Value>, name: &str, capture: &StreamCapture<'_>) -> bool {
    let held = capture.head.len() + capture.tail.len();
    let (head, tail) = if held as u64 == capture.total {
        let all = if capture.tail.is_empty() {
            Cow::Borrowed(capture.head)
        } else {
            Cow::Owned([capture.head, capture.tail].concat())
        };
        if all.len() <= INLINE_BYTES {
            insert_text(json, name, &all, None);
            return false;
        }
        (all.clone(), all)
    } else {
        (Cow::Borrowed(capture.head), Cow::Borrowed(capture.tail))
    };
    let half = INLINE_BYTES / 2;
    let head = head.get(..half).unwrap_or(&head);
    let tail = tail.len().checked_sub(half).and_then(|start| tail.get(start..)).unwrap_or(&tail);
    insert_text(json, name, head, Some(tail));
    true
}

fn insert_text(json: &mut Map<String, Value>, name: &str, head: &[u8], tail: Option<&[u8]>) {
    // Only a cut may have halved a character; the end of a whole stream has not.
    let whole_head = if tail.is_some() { without_cut_end(head) } else { head };
    let whole_tail = tail.map(without_cut_start).unwrap_or_default();
    let (head, tail_text) = match (std::str::from_utf8(whole_head), std::str::from_utf8(whole_tail)) {
        (Ok(head), Ok(tail)) => (head.to_owned(), tail.to_owned()),
        _ => {
            json.insert(format!("{name}_encoding"), "base64".into());
            (base64(head), base64(tail.unwrap_or_default()))
        }
    };
    json.insert(name.to_owned(), head.into());
    if tail.is_some() {
        json.insert(format!("{name}_tail"), tail_text.into());
    }
}

/// Names of Linux's signals 1 to 31 on every architecture that Toolcell runs on.
const SIGNALS: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

fn signal_name(signal: i32) -> Cow<'static, str> {
    let place = usize::try_from(signal).ok().and_then(|signal| signal.checked_sub(1));
    match place.and_then(|place| SIGNALS.get(place)) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("signal {signal}")),
    }
}
