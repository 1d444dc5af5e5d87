//! Standing still: every tool process is stopped for as long as the host reads the workspace of one moment.
//!
//! A process that has been sent the signal may still be in a system call that it entered before, and a keeper may be
//! about to start another one; so it counts as quiet only when a whole round finds nobody new and everybody stopped,
//! and rounds go on until the host lets go.

use super::Engine;
use crate::clock::now_us;
use crate::errors::failure;
use crate::keeper::Frozen;
use toolcell_protocol::message::Op;
use toolcell_protocol::{ErrorCode, ExecSpec, GuestMessage};

/// Between rounds while somebody still moves.
const ROUND_US: u64 = 1_000;
/// Between rounds once everybody stands still.
const WATCH_US: u64 = 50_000;
/// A tree that does not stand still within this (a process in an uninterruptible wait) is let go, and the host is told.
const STILL_WITHIN_US: u64 = 2_000_000;
/// Longest time that anybody may ask for.
const MOST_QUIET_MS: u64 = 600_000;
/// Execs that wait for the end; one more is refused.
const MOST_HELD_EXECS: usize = 256;

/// The tools stand still, or are about to.
#[derive(Debug)]
pub(super) struct Quiet {
    /// Who asked; answered when everybody stands still.
    asked: Option<Op>,
    frozen: Frozen,
    since: u64,
    until: u64,
    next_round: u64,
    held: Vec<(Op, String, ExecSpec)>,
}

impl Engine {
    /// The host wants to read one moment.
    pub(super) fn quiesce(&mut self, op: Op, max_ms: u64) {
        self.note_op(op);
        if self.quiet.is_some() {
            let error = failure(ErrorCode::Invalid, "the tools stand still already");
            self.say(&GuestMessage::Failed { op, error });
            return;
        }
        let now = now_us();
        self.quiet = Some(Quiet {
            asked: Some(op),
            frozen: Frozen::default(),
            since: now,
            until: now.saturating_add(max_ms.min(MOST_QUIET_MS).saturating_mul(1000)),
            next_round: now,
            held: Vec::new(),
        });
        self.quiet_timers(now);
    }

    /// The host has read what it wanted.
    pub(super) fn resume(&mut self, op: Op) {
        self.note_op(op);
        let in_time = self.quiet.is_some();
        self.let_go();
        self.say(&GuestMessage::Resumed { op, in_time });
    }

    /// Whether an exec has to wait; then it is kept here.
    pub(super) fn hold_back(&mut self, op: Op, reference: &str, spec: &ExecSpec) -> bool {
        match &mut self.quiet {
            Some(quiet) if quiet.held.len() < MOST_HELD_EXECS => {
                quiet.held.push((op, reference.to_owned(), spec.clone()));
                true
            }
            Some(_) => {
                let error = failure(ErrorCode::TooManyProcesses, "too many calls wait for a snapshot");
                self.say(&GuestMessage::Failed { op, error });
                true
            }
            None => false,
        }
    }

    /// Forgets an exec that waits here; true if there was one.
    pub(super) fn drop_held(&mut self, op: Op) -> bool {
        let Some(quiet) = &mut self.quiet else { return false };
        let before = quiet.held.len();
        quiet.held.retain(|(held, _, _)| *held != op);
        quiet.held.len() < before
    }

    /// Everybody goes on, and what waited begins.
    pub(super) fn let_go(&mut self) {
        let Some(mut quiet) = self.quiet.take() else { return };
        quiet.frozen.thaw();
        for (op, reference, spec) in quiet.held {
            self.exec(op, reference, spec);
        }
    }

    /// When the next round is due.
    pub(super) fn quiet_wake_at(&self) -> Option<u64> {
        self.quiet.as_ref().map(|quiet| quiet.next_round.min(quiet.until))
    }

    /// Stops whoever moves, and says so once nobody does.
    pub(super) fn quiet_timers(&mut self, now: u64) {
        let busy = self.strays_since.is_some() || self.calls.values().any(|call| !call.tree_is_gone());
        let keepers = self.keepers.pids();
        let Some(quiet) = &mut self.quiet else { return };
        if now >= quiet.until {
            self.log.say("a snapshot took too long: the tools go on");
            self.fail_quiet("the tools could not stand still any longer");
            return;
        }
        if now < quiet.next_round {
            return;
        }
        // Without a call there is nobody to stop, and no look at /proc.
        let still = !busy || quiet.frozen.round(1, &keepers);
        quiet.next_round = now.saturating_add(if still { WATCH_US } else { ROUND_US });
        if !still && quiet.asked.is_some() && now.saturating_sub(quiet.since) > STILL_WITHIN_US {
            self.fail_quiet("a tool's process does not stop");
            return;
        }
        if still && let Some(op) = quiet.asked.take() {
            let processes = u32::try_from(quiet.frozen.count()).unwrap_or(u32::MAX);
            self.say(&GuestMessage::Quiesced { op, processes });
        }
    }

    fn fail_quiet(&mut self, why: &str) {
        let asked = self.quiet.as_mut().and_then(|quiet| quiet.asked.take());
        self.let_go();
        if let Some(op) = asked {
            self.say(&GuestMessage::Failed { op, error: failure(ErrorCode::Io, why) });
        }
    }
}
