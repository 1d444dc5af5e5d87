//! The keeper: one root-owned process per running call, to which the kernel hands every process of that call.
//!
//! It is a child of PID 1 and the reaper of its own descendants, so a tool that forks twice or makes a session of its
//! own is still found, counted and ended. When a tree is gone the keeper is free for the next call: it keeps nothing
//! of the last one. Tools run as another user and can neither signal nor read it.

pub(crate) mod job;
mod prepare;
mod tree;

pub(crate) use tree::{Frozen, descendants};

use crate::clock::now_us;
use crate::sys::launch::{ChildStack, Launch, launch};
use crate::sys::process::{self, Ended, Wait};
use crate::sys::signals;
use job::{Cause, Done, FromKeeper, ToKeeper};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use std::collections::{BTreeSet, VecDeque};
use std::mem::MaybeUninit;
use toolcell_protocol::{ErrorCode, ExecSpec, FrameDecoder, GuestError, encode_frame};

/// From TERM to KILL.
pub(crate) const TERM_GRACE_US: u64 = 1_000_000;
/// Between two rounds of KILL, for what does not die at once.
const KILL_AGAIN_US: u64 = 20_000;

/// A keeper's end of its channel to PID 1.
struct Channel {
    socket: OwnedFd,
    decoder: FrameDecoder,
    descriptors: VecDeque<OwnedFd>,
}

/// PID 1 has closed its end.
struct Closed;

impl Channel {
    fn send(&self, message: &FromKeeper) {
        let mut frame = Vec::with_capacity(128);
        if encode_frame(message, &mut frame).is_err() {
            return;
        }
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            match rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                // PID 1 no longer listens; the loop finds that out by itself.
                Err(_) => return,
            }
        }
    }

    /// The next message; `None` if none is complete and `wait` is not set.
    fn receive(&mut self, wait: bool) -> Result<Option<ToKeeper>, Closed> {
        let flags = if wait { RecvFlags::CMSG_CLOEXEC } else { RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT };
        let mut buffer = [0u8; 16 * 1024];
        loop {
            if let Some(message) = self.decoder.next_message().map_err(|_| Closed)? {
                return Ok(Some(message));
            }
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let received =
                rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(&mut buffer)], &mut ancillary, flags);
            match received {
                Ok(message) if message.bytes == 0 => return Err(Closed),
                Ok(message) => {
                    for control in ancillary.drain() {
                        if let RecvAncillaryMessage::ScmRights(descriptors) = control {
                            self.descriptors.extend(descriptors);
                        }
                    }
                    self.decoder.feed(buffer.get(..message.bytes).unwrap_or_default());
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(_) => return Err(Closed),
            }
        }
    }
}

/// A keeper's whole life.
pub(crate) fn main(socket: OwnedFd, uid: u32, gid: u32) {
    let ready = rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .and_then(|()| rustix::thread::set_name(c"toolcell-keeper"))
        .and_then(|()| signals::wake_on_child());
    if ready.is_err() {
        return;
    }
    let mut decoder = FrameDecoder::new();
    decoder.trust();
    let mut channel = Channel { socket, decoder, descriptors: VecDeque::new() };
    let mut stack = ChildStack::new();
    loop {
        match channel.receive(true) {
            Ok(Some(ToKeeper::Run { spec, shell })) => {
                let result = run(&mut channel, &mut stack, spec, shell.as_deref(), (uid, gid));
                channel.descriptors.clear();
                match result {
                    Ok(done) => channel.send(&FromKeeper::Done(done)),
                    Err(error) => channel.send(&FromKeeper::Failed(error)),
                }
            }
            // A stop that crossed the end of its call.
            Ok(Some(ToKeeper::Stop(_) | ToKeeper::EndRest) | None) => {}
            Err(Closed) => return,
        }
    }
}

fn run(
    channel: &mut Channel,
    stack: &mut ChildStack,
    spec: ExecSpec,
    shell: Option<&str>,
    (uid, gid): (u32, u32),
) -> Result<Done, GuestError> {
    let timeout_us = spec.timeout_ms.saturating_mul(1000);
    let cwd = spec.cwd.clone();
    let prepared = prepare::prepare(spec, shell)?;
    let mut stdio = channel.descriptors.drain(..);
    let (Some(input), Some(output), Some(error)) = (stdio.next(), stdio.next(), stdio.next()) else {
        return Err(crate::errors::failure(ErrorCode::Io, "start a process: its descriptors are missing"));
    };
    drop(stdio);
    let started = now_us();
    let launched = launch(
        stack,
        &Launch {
            candidates: &prepared.candidates,
            argv: &prepared.argv,
            env: &prepared.env,
            cwd: &prepared.cwd,
            stdio: [input.as_fd(), output.as_fd(), error.as_fd()],
            script: prepared.script.as_ref().map(AsFd::as_fd),
            uid,
            gid,
        },
    );
    // From here on only the tool holds its ends.
    drop((input, output, error));
    let main = launched.map_err(|failed| {
        let program = prepared.argv.first().map_or(&[][..], |word| word.as_bytes());
        prepare::explain(failed, program, &cwd)
    })?;
    drop(prepared);
    Ok(Tree::new(main, started, timeout_us).watch(channel))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The main process runs.
    Running,
    /// It has ended; PID 1 says when the rest must go.
    Lingering,
    /// TERM was sent; KILL follows at this time.
    Terminating { kill_at: u64 },
    /// KILL is sent until nobody is left; the next round at this time.
    Killing { next: u64 },
}

/// The processes of one call.
struct Tree {
    main: i32,
    started: u64,
    deadline: u64,
    phase: Phase,
    main_ended: bool,
    left: BTreeSet<i32>,
    done: Done,
}

impl Tree {
    fn new(main: i32, started: u64, timeout_us: u64) -> Self {
        Self {
            main,
            started,
            deadline: started.saturating_add(timeout_us),
            phase: Phase::Running,
            main_ended: false,
            left: BTreeSet::new(),
            done: Done::default(),
        }
    }

    /// Until the tree is gone.
    fn watch(mut self, channel: &mut Channel) -> Done {
        let mut open = true;
        loop {
            if self.reap() {
                self.done.left_behind = u32::try_from(self.left.len()).unwrap_or(u32::MAX);
                return self.done;
            }
            if self.main_ended && self.phase == Phase::Running {
                self.phase = Phase::Lingering;
                channel.send(&FromKeeper::MainEnded(self.done.clone()));
            }
            let wake_at = self.advance(now_us());
            let timeout = wake_at.map(|at| at.saturating_sub(now_us()));
            let mut descriptors = [PollFd::new(&channel.socket, PollFlags::IN)];
            signals::poll_or_child(if open { &mut descriptors } else { &mut [] }, timeout);
            let [polled] = &descriptors;
            if !polled.revents().is_empty() {
                open = self.listen(channel);
            }
        }
    }

    /// Takes who has ended; true when nobody is left.
    fn reap(&mut self) -> bool {
        loop {
            match process::reap_one() {
                Wait::Ended(ended) => self.ended(ended),
                Wait::Running => return false,
                Wait::NoChild => return true,
            }
        }
    }

    fn ended(&mut self, ended: Ended) {
        self.done.user_us = self.done.user_us.saturating_add(ended.user_us);
        self.done.system_us = self.done.system_us.saturating_add(ended.system_us);
        self.done.max_rss_kib = self.done.max_rss_kib.max(ended.max_rss_kib);
        if ended.pid == self.main && !self.main_ended {
            self.main_ended = true;
            self.done.exit_code = ended.exit_code;
            self.done.signal = ended.signal;
            self.done.wall_us = now_us().saturating_sub(self.started);
        }
    }

    /// Does what is due, and says when to look again.
    fn advance(&mut self, now: u64) -> Option<u64> {
        if matches!(self.phase, Phase::Running | Phase::Lingering) {
            if now < self.deadline {
                return Some(self.deadline);
            }
            self.stop(Some(Cause::TimedOut), now);
        }
        if let Phase::Terminating { kill_at } = self.phase {
            if now < kill_at {
                return Some(kill_at);
            }
            self.phase = Phase::Killing { next: now };
        }
        if let Phase::Killing { next } = self.phase
            && now >= next
        {
            let killed = tree::kill(self.ancestor());
            if self.main_ended {
                self.left.extend(killed);
            }
            self.phase = Phase::Killing { next: now_us().saturating_add(KILL_AGAIN_US) };
        }
        match self.phase {
            Phase::Killing { next } => Some(next),
            Phase::Running | Phase::Lingering | Phase::Terminating { .. } => None,
        }
    }

    fn ancestor(&self) -> i32 {
        rustix::process::getpid().as_raw_nonzero().get()
    }

    /// Begins to end the tree.
    fn stop(&mut self, cause: Option<Cause>, now: u64) {
        if !matches!(self.phase, Phase::Running | Phase::Lingering) {
            return;
        }
        if !self.main_ended {
            self.done.cause = cause;
        }
        let asked = tree::terminate(self.ancestor());
        if self.main_ended {
            self.left.extend(asked);
        }
        self.phase = Phase::Terminating { kill_at: now.saturating_add(TERM_GRACE_US) };
    }

    /// Hears what PID 1 says; false when it has closed its end and will not listen again.
    fn listen(&mut self, channel: &mut Channel) -> bool {
        loop {
            match channel.receive(false) {
                Ok(Some(ToKeeper::Stop(cause))) => self.stop(Some(cause), now_us()),
                Ok(Some(ToKeeper::EndRest)) => self.stop(None, now_us()),
                Ok(Some(ToKeeper::Run { .. })) => {}
                Ok(None) => return true,
                Err(Closed) => {
                    // Given up, or forgotten: no grace any more.
                    self.phase = Phase::Killing { next: 0 };
                    return false;
                }
            }
        }
    }
}
