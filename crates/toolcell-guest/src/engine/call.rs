//! A call that the guest holds: from its start until the host forgets it.

use super::input::Input;
use super::keepers::KeeperId;
use super::output::Output;
use crate::frames::OutputFrame;
use crate::keeper::job::{Cause, Done};
use toolcell_protocol::message::Op;
use toolcell_protocol::{ExitReport, FrameError, GuestError, GuestMessage, LiveCall, Stream, encode_frame};

/// After the main process has ended: how long its output must be quiet before what it left behind is ended.
const QUIET_US: u64 = 100_000;
/// And how long that may take if the output does not get quiet.
const LINGER_US: u64 = 1_000_000;
/// From a stop to the answer, whatever the tree does: TERM, one second, KILL, and some time for the kernel.
pub(crate) const GIVE_UP_US: u64 = 1_900_000;

/// How a call ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It ran.
    Exit(ExitReport),
    /// It did not, or nobody knows how it ended.
    Failed(GuestError),
}

/// The main process has ended, others have not.
#[derive(Debug, Clone, Copy)]
struct Linger {
    since: u64,
    last_output: u64,
}

/// A call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) op: Op,
    pub(crate) reference: String,
    /// The keeper, until the tree is gone.
    pub(crate) keeper: Option<KeeperId>,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
    pub(crate) input: Option<Input>,
    /// The host of this connection wants its output and end.
    pub(crate) attached: bool,
    /// Out-of-memory kills of the container when it began.
    pub(crate) oom_kills_before: u64,
    /// When the host is answered without the keeper.
    pub(crate) give_up_at: u64,
    linger: Option<Linger>,
    /// What the keeper knew when the main process had ended.
    main_done: Option<Done>,
    stop: Option<Cause>,
    done: Option<Done>,
    outcome: Option<Outcome>,
    outcome_sent: bool,
    /// The host wants to hear nothing more of it.
    forgotten: bool,
}

impl Call {
    /// A call that its keeper has begun.
    pub(crate) fn new(op: Op, reference: String, stdout: Output, stderr: Output, give_up_at: u64) -> Self {
        Self {
            op,
            reference,
            keeper: None,
            stdout,
            stderr,
            input: None,
            attached: true,
            oom_kills_before: 0,
            give_up_at,
            linger: None,
            main_done: None,
            stop: None,
            done: None,
            outcome: None,
            outcome_sent: false,
            forgotten: false,
        }
    }

    /// One of the two streams.
    pub(crate) fn stream(&mut self, stream: Stream) -> &mut Output {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Bytes that are not acknowledged.
    pub(crate) fn held(&self) -> u64 {
        self.stdout.held().saturating_add(self.stderr.held())
    }

    /// For the host.
    pub(crate) fn live(&self) -> LiveCall {
        LiveCall { op: self.op, call: self.reference.clone(), ended: self.outcome.is_some() }
    }

    /// A failure that a host was told of: kept only as long as there is room.
    pub(crate) fn may_be_evicted(&self) -> bool {
        self.outcome_sent && matches!(self.outcome, Some(Outcome::Failed(_)))
    }

    /// The tree is gone, or was given up.
    pub(crate) fn tree_is_gone(&self) -> bool {
        self.done.is_some() || self.outcome.is_some()
    }

    /// The main process has ended and others live on.
    pub(crate) fn main_ended(&mut self, now: u64, so_far: Done) {
        self.main_done = Some(so_far);
        self.linger = Some(Linger { since: now, last_output: now });
    }

    /// Bytes have come.
    pub(crate) fn output_came(&mut self, now: u64) {
        if let Some(linger) = &mut self.linger {
            linger.last_output = now;
        }
    }

    /// When what was left behind is to be ended.
    pub(crate) fn end_rest_at(&self) -> Option<u64> {
        let linger = self.linger?;
        let quiet = linger.last_output.saturating_add(QUIET_US);
        Some(quiet.min(linger.since.saturating_add(LINGER_US)))
    }

    /// The keeper was told to end the rest: the answer follows within bounds.
    pub(crate) fn rest_is_ending(&mut self, now: u64) {
        self.linger = None;
        self.give_up_at = self.give_up_at.min(now.saturating_add(GIVE_UP_US));
    }

    /// A stop was asked for; true for the first one, which the keeper must hear.
    pub(crate) fn stop(&mut self, cause: Cause, now: u64) -> bool {
        if self.stop.is_some() || self.tree_is_gone() {
            return false;
        }
        self.stop = Some(cause);
        self.give_up_at = self.give_up_at.min(now.saturating_add(GIVE_UP_US));
        true
    }

    /// The keeper says that the tree is gone.
    pub(crate) fn tree_ended(&mut self, done: Done) {
        self.linger = None;
        self.input = None;
        self.done = Some(done);
    }

    /// The tree does not end in time: answer with what there is. If the main process has not ended either, there is
    /// no exit code and no signal, because nobody knows.
    pub(crate) fn give_up(&mut self, left_behind: u32) {
        let cause = self.stop.or(Some(Cause::TimedOut));
        let so_far = self.main_done.take().unwrap_or_else(|| Done { cause, ..Done::default() });
        self.tree_ended(Done { left_behind, ..so_far });
    }

    /// It cannot be answered properly.
    pub(crate) fn fail(&mut self, error: GuestError) {
        self.linger = None;
        self.input = None;
        self.stdout.pipe = None;
        self.stderr.pipe = None;
        self.outcome = Some(Outcome::Failed(error));
        self.outcome_sent = false;
    }

    /// Whether the report is worth a look at the container's out-of-memory kills.
    pub(crate) fn needs_oom_check(&self) -> bool {
        // Whatever the exit code: the killed process may have been any one of the tree.
        self.outcome.is_none() && self.done.is_some()
    }

    /// When the tree is gone and the pipes are empty, the call has ended. `oom_kills` as they are now.
    pub(crate) fn settle(&mut self, oom_kills: u64) {
        if self.outcome.is_some() || self.stdout.pipe.is_some() || self.stderr.pipe.is_some() {
            return;
        }
        let Some(done) = self.done.take() else { return };
        self.outcome = Some(Outcome::Exit(ExitReport {
            exit_code: done.exit_code,
            signal: done.signal,
            timed_out: done.cause == Some(Cause::TimedOut),
            cancelled: done.cause == Some(Cause::Cancelled),
            output_limited: self.stdout.is_limited() || self.stderr.is_limited(),
            oom_killed: oom_kills > self.oom_kills_before,
            left_behind: done.left_behind,
            stdout_bytes: self.stdout.end(),
            stderr_bytes: self.stderr.end(),
            wall_us: done.wall_us,
            user_us: done.user_us,
            system_us: done.system_us,
            max_rss_kib: done.max_rss_kib,
        }));
    }

    /// Every process of the call is gone and the pipes are read; only the report is missing.
    pub(crate) fn can_settle(&self) -> bool {
        self.done.is_some() && self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    /// A host wants everything from these places on.
    pub(crate) fn attach(&mut self, stdout: u64, stderr: u64) {
        self.attached = true;
        self.outcome_sent = false;
        self.stdout.rewind(stdout);
        self.stderr.rewind(stderr);
    }

    /// The host wants to hear nothing more. The tool goes on; its output is thrown away.
    pub(crate) fn forget(&mut self) {
        self.forgotten = true;
        self.attached = false;
        self.stdout.discard();
        self.stderr.discard();
    }

    /// The host wants to hear nothing more.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.forgotten
    }

    /// It has ended, and nobody wants to know how.
    pub(crate) fn is_over(&self) -> bool {
        self.forgotten && self.outcome.is_some()
    }

    /// The host is gone.
    pub(crate) fn detach(&mut self) {
        self.attached = false;
    }

    /// Appends the next thing to tell the host, at most `most` bytes of data. False when there is none.
    pub(crate) fn encode_next(&mut self, most: usize, out: &mut Vec<u8>) -> Result<bool, FrameError> {
        if !self.attached || self.outcome_sent {
            return Ok(false);
        }
        let op = self.op;
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some((offset, data)) = self.stream(stream).next(most) {
                encode_frame(&OutputFrame { op, stream, offset, data }, out)?;
                return Ok(true);
            }
        }
        if !self.stdout.is_complete() || !self.stderr.is_complete() {
            return Ok(false);
        }
        let message = match &self.outcome {
            None => return Ok(false),
            Some(Outcome::Exit(exit)) => GuestMessage::Exited { op, exit: exit.clone() },
            Some(Outcome::Failed(error)) => GuestMessage::Failed { op, error: error.clone() },
        };
        self.outcome_sent = true;
        encode_frame(&message, out)?;
        Ok(true)
    }
}
