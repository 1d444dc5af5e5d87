//! `toolcell run`: a person's own command. Output streams live, the exit code passes through.

use super::call::batch_request;
use super::context::{Backend, backend, load, only_result, query, request};
use super::which::activity;
use crate::cli::{ConfigArgs, RunArgs};
use crate::client::{Answer, Server};
use crate::failure::{
    EXIT_ASKING, EXIT_DENIED, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_NOT_FOUND, EXIT_TIMED_OUT, Failure,
};
use crate::{logging, progress};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use toolcell_model::CallRef;
use toolcell_runtime::{LiveOutput, Runtime, Stream};
use toolcell_server::{InProcess, wire};

const LONGEST: Duration = Duration::from_secs(24 * 3600 + 60);
/// A person's command may take as long as a call may.
const DEFAULT_TIMEOUT_MS: u64 = 24 * 3600 * 1000;
/// Pieces of output on their way to the terminal.
const LIVE_PIECES: usize = 64;

pub(crate) async fn run(config: &ConfigArgs, args: RunArgs) -> Result<ExitCode, Failure> {
    logging::init("warn", false);
    let config = load(config)?;
    let mut input = json!({ "argv": args.command, "timeout_ms": timeout_ms(args.timeout)? });
    if args.stdin {
        let text = tokio::task::spawn_blocking(read_stdin).await;
        let text = text.map_err(|error| Failure::of("standard input cannot be read", &error))??;
        if let Some(fields) = input.as_object_mut() {
            fields.insert("stdin".to_owned(), json!(text));
        }
    }
    let body = request(&args.context, None, "execute", input);
    let whose = query(&args.context);
    let result = match backend(config, &args.context.server).await? {
        Backend::Server(server @ Server::Socket(_)) => {
            let answer = server.post("/operator/run", &body).await?;
            if answer.is_success() { follow(answer, &server, &whose).await? } else { answer.json().await? }
        }
        Backend::Server(server @ (Server::Address { .. } | Server::Here(_))) => {
            let batch = server.post("/v1/calls", &body).await?.json().await?;
            print_whole(&batch)?;
            batch
        }
        Backend::Embedded(runtime) => {
            let done = run_here(&runtime, &body, &whose).await;
            runtime.shutdown().await;
            done?
        }
    };
    conclude(&only_result(result)?)
}

fn timeout_ms(seconds: Option<f64>) -> Result<u64, Failure> {
    let Some(seconds) = seconds else { return Ok(DEFAULT_TIMEOUT_MS) };
    match Duration::try_from_secs_f64(seconds).map(|limit| limit.as_millis()) {
        Ok(millis @ 1..=86_400_000) => Ok(u64::try_from(millis).unwrap_or(DEFAULT_TIMEOUT_MS)),
        Ok(_) | Err(_) => {
            Err(Failure::new("--timeout cannot be used", format!("{seconds} is not between 0.001 and 86400 seconds")))
        }
    }
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Failure::of("standard input cannot be passed on", &error))?;
    Ok(text)
}

async fn run_here(runtime: &Runtime, body: &Value, whose: &str) -> Result<Value, Failure> {
    let (live, mut pieces) = mpsc::channel::<LiveOutput>(LIVE_PIECES);
    let mut request = batch_request(body, true)?;
    request.live = Some(live);
    let failed = |error: std::io::Error| Failure::of("signals cannot be caught", &error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(failed)?;
    let batch = runtime.submit(request).await?;
    let (id, calls) = (batch.id.clone(), batch.calls.clone());
    let here = Server::Here(InProcess::new(runtime.clone()));
    let mut quiet = true;
    loop {
        let next = async {
            let look = async || if quiet { activity(&here, whose).await } else { None };
            progress::while_waiting(pieces.recv(), look).await
        };
        tokio::select! {
            piece = next => match piece {
                Some(piece) => {
                    quiet = false;
                    print_piece(piece.stream == Stream::Stderr, &piece.data)?;
                }
                None => break,
            },
            _ = interrupt.recv() => cancel_all(runtime, &calls),
            _ = terminate.recv() => cancel_all(runtime, &calls),
            _ = hang_up.recv() => cancel_all(runtime, &calls),
        }
    }
    let records = batch.wait(LONGEST).await;
    let records = records.map_err(|error| Failure::of("the result cannot be read", &error))?;
    Ok(wire::batch(&id, &records))
}

fn cancel_all(runtime: &Runtime, calls: &[CallRef]) {
    for call in calls {
        // One that has ended needs no stopping.
        let _ = runtime.cancel(call);
    }
}

/// Prints what comes line by line; the last line is the batch.
async fn follow(mut answer: Answer, server: &Server, whose: &str) -> Result<Value, Failure> {
    let mut buffer: Vec<u8> = Vec::new();
    let broken = |why: &str| Failure::new("the server's answer broke off", why);
    // What takes long before the first output is the image and the workspace.
    let mut next = progress::while_waiting(answer.piece(), async || activity(server, whose).await).await?;
    while let Some(piece) = next {
        buffer.extend_from_slice(&piece);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let json: Value = serde_json::from_slice(&line).map_err(|error| broken(&error.to_string()))?;
            match json.get("stream").and_then(Value::as_str) {
                Some(stream) => {
                    let data = json.get("data").and_then(Value::as_str).unwrap_or_default();
                    let data = STANDARD.decode(data).map_err(|error| broken(&error.to_string()))?;
                    print_piece(stream == "stderr", &data)?;
                }
                None => return Ok(json),
            }
        }
        next = answer.piece().await?;
    }
    Err(broken("it ended before the command did"))
}

fn print_piece(to_stderr: bool, data: &[u8]) -> Result<(), Failure> {
    let written = if to_stderr {
        std::io::stderr().lock().write_all(data)
    } else {
        let mut out = std::io::stdout().lock();
        out.write_all(data).and_then(|()| out.flush())
    };
    written.map_err(|error| Failure::of("output cannot be written", &error))
}

/// A server that cannot be followed: the output comes in one piece.
fn print_whole(batch: &Value) -> Result<(), Failure> {
    let output = batch.pointer("/results/0/output");
    for stream in ["stdout", "stderr"] {
        for part in ["", "_tail"] {
            let Some(text) = output.and_then(|output| output.get(format!("{stream}{part}"))).and_then(Value::as_str)
            else {
                continue;
            };
            let encoding = output.and_then(|output| output.get(format!("{stream}_encoding"))).and_then(Value::as_str);
            let bytes = if encoding == Some("base64") {
                STANDARD.decode(text).unwrap_or_default()
            } else {
                text.as_bytes().to_vec()
            };
            print_piece(stream == "stderr", &bytes)?;
        }
    }
    Ok(())
}

/// The exit code, and a word where it alone would not tell.
fn conclude(result: &Value) -> Result<ExitCode, Failure> {
    if result.pointer("/slot/ephemeral").and_then(Value::as_bool) == Some(true) {
        eprintln!("toolcell: without --user or --session the workspace is gone now");
    }
    let text = |pointer: &str| result.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    match text("/state").as_str() {
        "succeeded" => Ok(ExitCode::SUCCESS),
        "timed_out" => {
            eprintln!("toolcell: stopped at its deadline");
            Ok(ExitCode::from(EXIT_TIMED_OUT))
        }
        "denied" => {
            eprintln!("toolcell: denied\n  {}", text("/error/message"));
            Ok(ExitCode::from(EXIT_DENIED))
        }
        "asking" => {
            eprintln!("toolcell: it waits for an approval\n  {}", text("/decision/message"));
            Ok(ExitCode::from(EXIT_ASKING))
        }
        "cancelled" => {
            eprintln!("toolcell: stopped");
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
        "failed" if text("/error/code") == "not_found" => {
            eprintln!("toolcell: {}", text("/error/message"));
            Ok(ExitCode::from(EXIT_NOT_FOUND))
        }
        "failed" => {
            let code = result.pointer("/output/exit_code").and_then(Value::as_u64).and_then(|c| u8::try_from(c).ok());
            match code {
                Some(code) => Ok(ExitCode::from(code)),
                None => {
                    eprintln!("toolcell: {}\n  {}", text("/error/code"), text("/error/message"));
                    Ok(ExitCode::from(if text("/output/signal").is_empty() { EXIT_FAILED } else { 137 }))
                }
            }
        }
        "queued" | "running" => {
            let call = text("/ref");
            Err(Failure::new("the server does not wait any longer", format!("the command goes on as {call}")))
        }
        _ => {
            let why = match text("/problem/detail") {
                detail if detail.is_empty() => text("/error/message"),
                detail => detail,
            };
            Err(Failure::new("the command did not run to its end", why))
        }
    }
}
