//! `execute`: a process in the container.

use super::environment::environment;
use super::{LiveOutput, Placed, failed};
use crate::error::CallError;
use crate::inner::Inner;
use crate::output::MAX_STREAM_BYTES;
use crate::workspace::watch;
use std::collections::BTreeMap;
use std::time::Duration;
use toolcell_model::{CallFault, CallOutcome};
use toolcell_permission::{CallDigest, Permit};
use toolcell_protocol::{Bytes, ExecSpec, ExitReport, Program, Stdin, Stream};
use toolcell_sandbox::{ExecEvent, SandboxError};
use toolcell_tools::output::{self, ExecuteEnd};
use toolcell_tools::{ExecuteInput, Program as ToolProgram};

/// How long after its deadline a call's end may come from the guest: TERM, a second, KILL, the drain, and some air.
/// Beyond it the container counts as lost.
const AFTER_DEADLINE: Duration = Duration::from_secs(10);

impl Inner {
    pub(super) async fn execute(
        &self,
        placed: &Placed<'_>,
        permit: Permit,
        digest: &CallDigest,
        input: ExecuteInput,
    ) -> Result<CallOutcome, CallError> {
        let timeout_ms = input.timeout_ms.unwrap_or(self.config.limits.call_timeout_ms);
        let spec = exec_spec(&input, environment(placed, &input, permit.decision()), timeout_ms);
        let sandbox = &placed.residency.sandbox;
        let mut handle = sandbox.exec(permit, digest, placed.call, spec).map_err(CallError::Sandbox)?;
        if let Some(stdin) = &input.stdin {
            handle.send_stdin(stdin.as_bytes()).map_err(CallError::Sandbox)?;
        }
        let mut stdout = self.outputs.capture(placed.call, Stream::Stdout);
        let mut stderr = self.outputs.capture(placed.call, Stream::Stderr);
        let deadline = tokio::time::sleep(Duration::from_millis(timeout_ms) + AFTER_DEADLINE);
        tokio::pin!(deadline);
        let overdue = tokio::time::Instant::now() + Duration::from_millis(timeout_ms);
        let mut cancel_sent = false;
        let too_large = watch::until_too_large(placed.residency);
        tokio::pin!(too_large);
        let mut stopped_for_space = false;
        let exit = loop {
            let event = tokio::select! {
                // What has come is taken before the deadline counts: this process may have been the one that slept.
                biased;
                () = placed.attention.cancel.cancelled(), if !cancel_sent => {
                    cancel_sent = true;
                    handle.cancel().map_err(CallError::Sandbox)?;
                    deadline.as_mut().reset(tokio::time::Instant::now() + AFTER_DEADLINE);
                    continue;
                }
                event = handle.next() => event,
                () = &mut too_large, if !stopped_for_space => {
                    stopped_for_space = true;
                    if !cancel_sent {
                        cancel_sent = true;
                        handle.cancel().map_err(CallError::Sandbox)?;
                        deadline.as_mut().reset(tokio::time::Instant::now() + AFTER_DEADLINE);
                    }
                    continue;
                }
                () = placed.residency.lease_lost() => return Err(CallError::LeaseLost),
                () = &mut deadline => {
                    let container = sandbox.name().to_owned();
                    placed.residency.mark_broken();
                    let seconds = timeout_ms / 1000 + AFTER_DEADLINE.as_secs();
                    return Err(CallError::Sandbox(SandboxError::GuestTimeout { container, seconds }));
                }
            };
            match event {
                Ok(ExecEvent::Output { stream, data, .. }) => {
                    match stream {
                        Stream::Stdout => stdout.add(&data),
                        Stream::Stderr => stderr.add(&data),
                    }
                    handle.acknowledge().map_err(CallError::Sandbox)?;
                    if let Some(live) = &placed.attention.live {
                        // A tool waits for a slow listener, but neither its deadline nor a cancel does. A listener that
                        // has gone away changes nothing.
                        tokio::select! {
                            _ = live.send(LiveOutput { call: placed.call.clone(), stream, data }) => {}
                            () = placed.attention.cancel.cancelled() => {}
                            () = tokio::time::sleep_until(overdue) => {}
                        }
                    }
                }
                Ok(ExecEvent::Exited(exit)) => break exit,
                Err(SandboxError::Guest(error)) => {
                    return Ok(failed(CallFault { code: error.code.as_str().to_owned(), message: error.message }));
                }
                Err(error) => return Err(CallError::Sandbox(error)),
            }
        };
        let mut outcome = output::execute(&execute_end(&exit), &stdout.shown(), &stderr.shown());
        let outgrown = watch::has_outgrown(placed.residency).await;
        watch::explain(&mut outcome, placed.residency, stopped_for_space || outgrown);
        Ok(outcome)
    }
}

fn execute_end(exit: &ExitReport) -> ExecuteEnd {
    ExecuteEnd {
        exit_code: exit.exit_code,
        signal: exit.signal,
        timed_out: exit.timed_out,
        cancelled: exit.cancelled,
        output_limited: exit.output_limited,
        oom_killed: exit.oom_killed,
        left_behind: exit.left_behind,
    }
}

fn exec_spec(input: &ExecuteInput, env: BTreeMap<String, String>, timeout_ms: u64) -> ExecSpec {
    let bytes = |text: &str| Bytes::from(text.as_bytes().to_vec());
    ExecSpec {
        program: match &input.program {
            ToolProgram::Shell(text) => Program::Shell(bytes(text)),
            ToolProgram::Argv(words) => Program::Argv(words.iter().map(|word| bytes(word)).collect()),
        },
        cwd: Bytes::from(input.cwd.as_bytes().to_vec()),
        env: env.into_iter().map(|(name, value)| (bytes(&name), bytes(&value))).collect(),
        stdin: if input.stdin.is_some() { Stdin::Stream } else { Stdin::Closed },
        timeout_ms,
        max_output_bytes: MAX_STREAM_BYTES,
    }
}
