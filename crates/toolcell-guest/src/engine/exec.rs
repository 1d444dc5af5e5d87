//! Calls: from `Exec` to `Forget`.

use super::call::{Call, GIVE_UP_US};
use super::input::{Input, MOST_INPUT_BYTES};
use super::keepers::{HandError, Keeper, KeeperId};
use super::output::{Output, Read};
use super::{Engine, NUMBER_END, Source};
use crate::clock::now_us;
use crate::errors::{code_of, failure, reason};
use crate::keeper::descendants;
use crate::keeper::job::{Cause, FromKeeper, ToKeeper};
use crate::sys::process;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Gid, OFlags, Uid};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use toolcell_protocol::message::Op;
use toolcell_protocol::{ErrorCode, ExecSpec, GuestError, GuestMessage, Stdin, Stream};

/// Calls that the guest holds, running or ended and not forgotten. Beyond it a new one is refused.
const MOST_CALLS: usize = 256;
/// Unacknowledged output of all calls together; beyond it tools wait.
const MOST_HELD_BYTES: u64 = 64 * 1024 * 1024;
/// What a call may always hold, so that no other call's output stops it for good.
const LEAST_WINDOW_BYTES: u64 = 64 * 1024;
/// Bytes of a call's reference.
const MOST_REFERENCE_BYTES: usize = 1024;
/// For ending the strays of a keeper that died.
const STRAYS_US: u64 = 5_000_000;

/// Both ends of a call's pipes.
struct Pipes {
    ours: [OwnedFd; 2],
    theirs: [OwnedFd; 2],
    input: Option<(OwnedFd, OwnedFd)>,
}

impl Engine {
    /// Starts a tool.
    pub(super) fn exec(&mut self, op: Op, reference: String, spec: ExecSpec) {
        self.note_op(op);
        if self.hold_back(op, &reference, &spec) {
            return;
        }
        if let Err(error) = self.try_exec(op, reference, spec) {
            self.say(&GuestMessage::Failed { op, error });
        }
    }

    fn try_exec(&mut self, op: Op, reference: String, spec: ExecSpec) -> Result<(), GuestError> {
        if op >= NUMBER_END || self.calls.contains_key(&op) || reference.len() > MOST_REFERENCE_BYTES {
            return Err(failure(ErrorCode::Invalid, "the operation's number or reference cannot be used"));
        }
        if self.stopping.is_some() {
            return Err(failure(ErrorCode::Invalid, "the container is ending"));
        }
        self.make_room()?;
        let pipes = self
            .pipes(&spec.stdin)
            .map_err(|errno| failure(code_of(errno), format!("make pipes for the tool: {}", reason(errno))))?;
        let give_up_at = now_us().saturating_add(spec.timeout_ms.saturating_mul(1000)).saturating_add(GIVE_UP_US);
        let limit = spec.max_output_bytes;
        let job = ToKeeper::Run { spec, shell: self.shell.clone() };
        let keeper = self.hand_over(op, &job, &pipes)?;
        // The tool is being started by now; all else is off its way.
        let Pipes { ours: [stdout, stderr], theirs, input } = pipes;
        drop(theirs);
        let mut call = Call::new(op, reference, Output::new(stdout, limit), Output::new(stderr, limit), give_up_at);
        call.keeper = Some(keeper);
        call.oom_kills_before = self.oom.read();
        call.input = input.map(|(_, write_end)| Input::new(write_end));
        self.calls.insert(op, call);
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.watch_output(op, stream, true);
        }
        Ok(())
    }

    /// Refuses when too many calls are held; failures that the host was told of make room.
    fn make_room(&mut self) -> Result<(), GuestError> {
        if self.calls.len() < MOST_CALLS {
            return Ok(());
        }
        match self.calls.values().find(|call| call.may_be_evicted()).map(|call| call.op) {
            Some(op) => {
                self.calls.remove(&op);
                Ok(())
            }
            None => {
                Err(failure(ErrorCode::TooManyProcesses, format!("the container already holds {MOST_CALLS} calls")))
            }
        }
    }

    fn pipes(&self, stdin: &Stdin) -> Result<Pipes, Errno> {
        let (stdout, stdout_theirs) = self.pipe_to_read()?;
        let (stderr, stderr_theirs) = self.pipe_to_read()?;
        let input = match stdin {
            Stdin::Closed => None,
            Stdin::Stream => {
                let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC)?;
                self.give(&read_end)?;
                rustix::fs::fcntl_setfl(&write_end, OFlags::NONBLOCK)?;
                Some((read_end, write_end))
            }
        };
        Ok(Pipes { ours: [stdout, stderr], theirs: [stdout_theirs, stderr_theirs], input })
    }

    fn pipe_to_read(&self) -> Result<(OwnedFd, OwnedFd), Errno> {
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC)?;
        self.give(&write_end)?;
        // Only our end: a tool must find an ordinary, blocking one.
        rustix::fs::fcntl_setfl(&read_end, OFlags::NONBLOCK)?;
        Ok((read_end, write_end))
    }

    /// Makes a pipe the tool user's, so that opening `/dev/stdout` works.
    fn give(&self, pipe: &OwnedFd) -> Result<(), Errno> {
        rustix::fs::fchown(pipe, Some(Uid::from_raw(self.user.0)), Some(Gid::from_raw(self.user.1)))
    }

    /// Gives the job to a keeper that waits, or to a new one.
    fn hand_over(&mut self, op: Op, job: &ToKeeper, pipes: &Pipes) -> Result<KeeperId, GuestError> {
        let [stdout, stderr] = &pipes.theirs;
        loop {
            let Some(keeper) = self.keepers.take_idle() else {
                self.add_keeper().map_err(|errno| match errno {
                    Errno::AGAIN => failure(ErrorCode::TooManyProcesses, "the container is at its limit of processes"),
                    errno => failure(code_of(errno), format!("make a process: {}", reason(errno))),
                })?;
                continue;
            };
            let stdin = pipes.input.as_ref().map_or(self.null.as_fd(), |(read_end, _)| read_end.as_fd());
            match self.keepers.hand(keeper, op, job, [stdin, stdout.as_fd(), stderr.as_fd()]) {
                Ok(()) => return Ok(keeper),
                // It died while idle; its end as a child will be noticed.
                Err(HandError::Gone) => {}
                Err(HandError::TooLarge) => {
                    self.keepers.free(keeper);
                    return Err(failure(ErrorCode::TooLarge, "the command and its environment are too long"));
                }
            }
        }
    }

    /// Makes one more keeper and watches it.
    pub(super) fn add_keeper(&mut self) -> Result<(), Errno> {
        let (calls, link) = (&mut self.calls, &mut self.link);
        let id = self.keepers.fork(self.user, || {
            // In the copy: let go of the host's connection and of everybody's output.
            calls.clear();
            link.close(0);
        })?;
        if let Some(socket) = self.keepers.socket(id) {
            let data = epoll::EventData::new_u64(Source::Keeper(id).token());
            epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN)?;
        }
        Ok(())
    }

    /// Has one keeper waiting whenever possible, so that the next call need not wait for a fork.
    pub(super) fn replenish(&mut self) {
        if self.keepers.none_idle() && self.stopping.is_none() {
            // Without one the next call tries again, and says why if it cannot.
            let _ = self.add_keeper();
        }
    }

    /// A keeper has said something.
    pub(super) fn keeper_speaks(&mut self, id: KeeperId) {
        while let Some((op, message)) = self.keepers.hear(id) {
            let Some(call) = self.calls.get_mut(&op) else {
                if matches!(message, FromKeeper::Done(_) | FromKeeper::Failed(_)) {
                    self.keepers.free(id);
                }
                continue;
            };
            match message {
                FromKeeper::MainEnded(so_far) => call.main_ended(now_us(), so_far),
                FromKeeper::Failed(error) => {
                    call.keeper = None;
                    call.fail(error);
                    self.keepers.free(id);
                    self.dirty = true;
                    self.tidy(op);
                    return;
                }
                FromKeeper::Done(done) => {
                    call.keeper = None;
                    call.tree_ended(done);
                    self.keepers.free(id);
                    self.drain(op);
                    return;
                }
            }
        }
    }

    /// A keeper has died. Its call has no truthful answer, and what it kept is a child of PID 1 now.
    pub(super) fn keeper_ended(&mut self, keeper: &Keeper) {
        let Some(op) = keeper.op else { return };
        self.log.say("a keeper died during a call");
        self.strays_since = Some(now_us());
        if let Some(call) = self.calls.get_mut(&op) {
            call.keeper = None;
            call.fail(failure(ErrorCode::Io, "the process that kept this call died; how the tool ended is not known"));
            self.dirty = true;
            self.tidy(op);
        }
        self.end_strays(now_us());
    }

    /// Kills what hangs below PID 1 itself, until nothing does.
    pub(super) fn end_strays(&mut self, now: u64) {
        let Some(since) = self.strays_since else { return };
        let strays = descendants(1, &self.keepers.pids());
        for pid in &strays {
            process::signal(*pid, libc::SIGKILL);
        }
        if strays.is_empty() || now.saturating_sub(since) > STRAYS_US {
            self.strays_since = None;
        }
    }

    /// The tree is gone: takes what is still in the pipes. What another process may hold open is not waited for.
    fn drain(&mut self, op: Op) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.read_output(op, stream);
        }
        self.settle(op);
    }

    /// Reads a stream until it is empty (a little at a time while the tool runs), full, or at its end.
    pub(super) fn read_output(&mut self, op: Op, stream: Stream) {
        let mut held: u64 = self.calls.values().map(Call::held).sum();
        let now = now_us();
        let Some(call) = self.calls.get_mut(&op) else { return };
        let gone = call.tree_is_gone();
        let mut watch = None;
        loop {
            let room = MOST_HELD_BYTES.saturating_sub(held).max(LEAST_WINDOW_BYTES.saturating_sub(call.held()));
            let output = call.stream(stream);
            let before = output.held();
            let read = output.read(&mut self.scratch, room);
            held = held.saturating_add(output.held().saturating_sub(before));
            match read {
                Read::Some => {
                    self.dirty = true;
                    if call.stream(stream).is_limited()
                        && call.stop(Cause::OutputLimited, now)
                        && let Some(keeper) = call.keeper
                    {
                        self.keepers.tell(keeper, &ToKeeper::Stop(Cause::OutputLimited));
                    }
                    call.output_came(now);
                    if !gone {
                        break;
                    }
                }
                Read::Empty if gone => {
                    call.stream(stream).pipe = None;
                    break;
                }
                Read::Empty => {
                    watch = Some(true);
                    break;
                }
                Read::Full => {
                    watch = Some(false);
                    break;
                }
                Read::End => {
                    call.stream(stream).pipe = None;
                    break;
                }
            }
        }
        if let Some(watch) = watch {
            self.watch_output(op, stream, watch);
        }
        self.settle(op);
    }

    /// Watches a stream's pipe, or stops watching it.
    fn watch_output(&mut self, op: Op, stream: Stream, watch: bool) {
        let source = match stream {
            Stream::Stdout => Source::Stdout(op),
            Stream::Stderr => Source::Stderr(op),
        };
        let Some(call) = self.calls.get_mut(&op) else { return };
        let output = call.stream(stream);
        let Some(pipe) = &output.pipe else { return };
        if output.watched == watch {
            return;
        }
        let data = epoll::EventData::new_u64(source.token());
        let result = if watch {
            epoll::add(&self.epoll, pipe, data, epoll::EventFlags::IN)
        } else {
            // Removed, not only masked: a pipe that is closed at the other end would wake the loop all the time.
            epoll::delete(&self.epoll, pipe)
        };
        if result.is_ok() {
            output.watched = watch;
        }
    }

    /// If only its report is missing, a call gets it.
    fn settle(&mut self, op: Op) {
        let Some(call) = self.calls.get_mut(&op) else { return };
        if call.can_settle() {
            let kills = if call.needs_oom_check() { self.oom.read() } else { call.oom_kills_before };
            call.settle(kills);
            self.dirty = true;
        }
        self.tidy(op);
    }

    /// Input for a tool.
    pub(super) fn stdin(&mut self, op: Op, data: &[u8], end: bool) {
        let Some(call) = self.calls.get_mut(&op) else { return };
        let Some(input) = &mut call.input else { return };
        if input.add(data, end).is_err() {
            let keeper = call.keeper;
            let message = format!("the tool does not read its input: more than {MOST_INPUT_BYTES} bytes wait for it");
            call.fail(failure(ErrorCode::TooLarge, message));
            if let Some(keeper) = keeper {
                self.keepers.tell(keeper, &ToKeeper::Stop(Cause::Cancelled));
            }
            self.dirty = true;
            self.tidy(op);
            return;
        }
        self.watch_input(op);
    }

    /// The pipe takes more input.
    pub(super) fn write_input(&mut self, op: Op) {
        if let Some(input) = self.calls.get_mut(&op).and_then(|call| call.input.as_mut()) {
            input.write();
            self.watch_input(op);
        }
    }

    fn watch_input(&mut self, op: Op) {
        let Some(input) = self.calls.get_mut(&op).and_then(|call| call.input.as_mut()) else { return };
        let wanted = input.wants_write();
        let (Some(pipe), true) = (&input.pipe, wanted != input.watched) else { return };
        let data = epoll::EventData::new_u64(Source::Stdin(op).token());
        let result = if wanted {
            epoll::add(&self.epoll, pipe, data, epoll::EventFlags::OUT)
        } else {
            epoll::delete(&self.epoll, pipe)
        };
        if result.is_ok() {
            input.watched = wanted;
        }
    }

    /// Stops a call because the host, or the end of the guest, wants it.
    pub(super) fn cancel(&mut self, op: Op) {
        let now = now_us();
        if self.drop_held(op) {
            let error = failure(ErrorCode::Invalid, "it was cancelled before it began");
            self.say(&GuestMessage::Failed { op, error });
            return;
        }
        if let Some(call) = self.calls.get_mut(&op)
            && call.stop(Cause::Cancelled, now)
            && let Some(keeper) = call.keeper
        {
            self.keepers.tell(keeper, &ToKeeper::Stop(Cause::Cancelled));
        }
    }

    /// The host has output up to a place; tools that waited for that go on.
    pub(super) fn acknowledge(&mut self, op: Op, stream: Stream, offset: u64) {
        let Some(call) = self.calls.get_mut(&op) else { return };
        if call.stream(stream).acknowledge(offset) > 0 {
            self.resume_output();
        }
    }

    /// There is room again for output that waits in pipes.
    fn resume_output(&mut self) {
        let waiting: Vec<(Op, Stream)> = self
            .calls
            .values_mut()
            .flat_map(|call| [(call.op, Stream::Stdout, &call.stdout), (call.op, Stream::Stderr, &call.stderr)])
            .filter(|(_, _, output)| output.pipe.is_some() && !output.watched)
            .map(|(op, stream, _)| (op, stream))
            .collect();
        for (op, stream) in waiting {
            self.watch_output(op, stream, true);
            self.read_output(op, stream);
        }
    }

    /// A host wants a call's output and end.
    pub(super) fn attach(&mut self, op: Op, stdout: u64, stderr: u64) {
        match self.calls.get_mut(&op).filter(|call| !call.is_forgotten()) {
            Some(call) => {
                call.attach(stdout, stderr);
                self.dirty = true;
            }
            None => {
                let error = failure(ErrorCode::NotFound, "this container holds no such call");
                self.say(&GuestMessage::Failed { op, error });
            }
        }
    }

    /// The host has recorded how a call ended, or does not care. One that still runs is forgotten when it ends.
    pub(super) fn forget(&mut self, op: Op) {
        let Some(call) = self.calls.get_mut(&op) else { return };
        call.forget();
        self.tidy(op);
        self.resume_output();
    }

    /// Drops a call that has ended and that nobody wants to know of.
    fn tidy(&mut self, op: Op) {
        if self.calls.get(&op).is_some_and(Call::is_over) {
            self.calls.remove(&op);
        }
    }

    /// Ends what was left behind, and answers for trees that do not end.
    pub(super) fn call_timers(&mut self, now: u64) {
        let live: Vec<Op> = self.calls.values().filter(|call| !call.tree_is_gone()).map(|call| call.op).collect();
        for op in live {
            let Some(call) = self.calls.get_mut(&op) else { continue };
            if call.end_rest_at().is_some_and(|at| now >= at) {
                call.rest_is_ending(now);
                if let Some(keeper) = call.keeper {
                    self.keepers.tell(keeper, &ToKeeper::EndRest);
                }
            }
            if now >= call.give_up_at {
                let keeper = call.keeper.take();
                let pid = keeper.and_then(|keeper| self.keepers.pid(keeper));
                let left = pid.map_or(0, |pid| descendants(pid, &[]).len());
                call.give_up(u32::try_from(left).unwrap_or(u32::MAX));
                if let Some(keeper) = keeper {
                    self.keepers.abandon(keeper);
                }
                self.drain(op);
            }
        }
    }
}
