//! The event loop of PID 1: one thread that waits for the host, for keepers and for pipes, and never for a disk.

mod call;
mod exec;
mod input;
mod keepers;
mod link;
mod oom;
mod output;
mod quiet;

use crate::args::Args;
use crate::clock::now_us;
use crate::files::Workers;
use crate::files::work::{Bulk, Look, Task, Wish, Work, Write};
use crate::log::Log;
use crate::outbox::{Generation, Outbox};
use crate::sys::process::{self, Wait};
use crate::sys::signals;
use call::Call;
use keepers::Keepers;
use link::{ENOUGH_OUT_BYTES, Link, Progress};
use oom::OomCounter;
use quiet::Quiet;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;
use toolcell_protocol::message::Op;
use toolcell_protocol::{GuestMessage, HandshakeError, HostMessage, Secret, encode_frame};

/// Exit codes of the guest, which the host reads from the container.
pub(crate) mod exit {
    /// It was asked to end, or has not heard of a host for too long.
    pub(crate) const DONE: u8 = 0;
    /// The command line, the secret or the container is not what it must be.
    pub(crate) const USAGE: u8 = 64;
    /// Host and guest cannot work together.
    pub(crate) const VERSION: u8 = 70;
    /// The kernel refused something that the guest cannot do without.
    pub(crate) const SYSTEM: u8 = 71;
}

/// Bytes of one read from the host or a pipe.
const SCRATCH_BYTES: usize = 256 * 1024;
/// Bytes of output in one frame.
const CHUNK_BYTES: usize = 256 * 1024;
/// For ending all calls when the guest ends: TERM, one second, KILL.
const STOPPING_US: u64 = 1_500_000;
/// Longest wait of the event loop; nothing depends on it.
const LONGEST_WAIT_US: u64 = 60_000_000;

/// What an event is about: the kind in the upper byte, a number below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Link,
    Signals,
    Outbox,
    Keeper(u64),
    Stdout(Op),
    Stderr(Op),
    Stdin(Op),
}

/// Operations and keepers have numbers below this.
const NUMBER_END: u64 = 1 << 56;

impl Source {
    fn token(self) -> u64 {
        let (kind, number) = match self {
            Self::Link => (0u64, 0),
            Self::Signals => (1, 0),
            Self::Outbox => (2, 0),
            Self::Keeper(id) => (3, id),
            Self::Stdout(op) => (4, op),
            Self::Stderr(op) => (5, op),
            Self::Stdin(op) => (6, op),
        };
        (kind << 56) | (number & (NUMBER_END - 1))
    }

    fn from_token(token: u64) -> Option<Self> {
        let number = token & (NUMBER_END - 1);
        Some(match token >> 56 {
            0 => Self::Link,
            1 => Self::Signals,
            2 => Self::Outbox,
            3 => Self::Keeper(number),
            4 => Self::Stdout(number),
            5 => Self::Stderr(number),
            6 => Self::Stdin(number),
            _ => return None,
        })
    }
}

/// Why the guest cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// Something it cannot do without.
    #[error("cannot {0}")]
    System(&'static str, #[source] Errno),
    /// Host and guest will never work together.
    #[error("the host and this guest cannot work together")]
    Hopeless(#[source] HandshakeError),
}

/// PID 1.
#[derive(Debug)]
pub(crate) struct Engine {
    user: (u32, u32),
    shell: Option<String>,
    orphan_ttl_us: u64,
    epoll: OwnedFd,
    signals: OwnedFd,
    null: OwnedFd,
    link: Link,
    /// Which socket of the link is watched, and for what.
    watched: Option<(u64, epoll::EventFlags)>,
    generation: Generation,
    calls: BTreeMap<Op, Call>,
    keepers: Keepers,
    outbox: Arc<Outbox>,
    workers: Workers,
    oom: OomCounter,
    next_op: Op,
    /// Calls may have something to say.
    dirty: bool,
    /// The tools stand still for a snapshot.
    quiet: Option<Quiet>,
    /// Since when strays of a dead keeper are being ended.
    strays_since: Option<u64>,
    /// When the guest ends, whatever still runs.
    stopping: Option<u64>,
    scratch: Vec<u8>,
    log: Log,
}

impl Engine {
    /// Prepares everything but the connection.
    pub(crate) fn new(args: Args, secret: Secret, shell: Option<String>) -> Result<Self, EngineError> {
        let system = |what| move |errno| EngineError::System(what, errno);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let null = rustix::fs::open(c"/dev/null", flags, Mode::empty()).map_err(system("open /dev/null"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("make an event queue"))?;
        let watched = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT];
        let signals = signals::descriptor(&watched).map_err(system("watch signals"))?;
        let outbox = Arc::new(Outbox::new(args.fence_ttl_ms).map_err(system("make an event counter"))?);
        for (fd, source) in [(signals.as_fd(), Source::Signals), (outbox.descriptor(), Source::Outbox)] {
            let data = epoll::EventData::new_u64(source.token());
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN).map_err(system("watch for events"))?;
        }
        let user = (args.uid, args.gid);
        let mut engine = Self {
            user,
            shell,
            orphan_ttl_us: args.orphan_ttl_ms.saturating_mul(1000),
            epoll,
            signals,
            null,
            link: Link::new(args.socket, secret),
            watched: None,
            generation: 0,
            calls: BTreeMap::new(),
            keepers: Keepers::default(),
            workers: Workers::new(user, Arc::clone(&outbox)),
            outbox,
            oom: OomCounter::open(),
            next_op: 1,
            dirty: false,
            quiet: None,
            strays_since: None,
            stopping: None,
            scratch: vec![0; SCRATCH_BYTES],
            log: Log::default(),
        };
        engine.add_keeper().map_err(system("make a keeper"))?;
        Ok(engine)
    }

    /// Until the guest is asked to end.
    pub(crate) fn run(mut self) -> Result<(), EngineError> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        loop {
            let now = now_us();
            self.tick(now);
            // A timer may have ended a call that no event will speak for any more.
            self.speak();
            if self.stopping.is_some_and(|until| now >= until || self.all_ended()) {
                return Ok(());
            }
            let wait = self.wake_at().saturating_sub(now).min(LONGEST_WAIT_US);
            // Rounded up: the queue counts in milliseconds, and waking too early would only turn the loop.
            let wait_ms = i64::try_from(wait.div_ceil(1000)).unwrap_or(0);
            let timeout = Timespec {
                tv_sec: wait_ms.div_euclid(1000),
                tv_nsec: wait_ms.rem_euclid(1000).saturating_mul(1_000_000),
            };
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(EngineError::System("wait for events", errno)),
            }
            for event in &events {
                // Copied: the structure is packed on some machines.
                let (data, flags) = (event.data.u64(), event.flags);
                if let Some(source) = Source::from_token(data) {
                    self.handle(source, flags)?;
                }
            }
            self.speak();
            self.replenish();
        }
    }

    fn handle(&mut self, source: Source, flags: epoll::EventFlags) -> Result<(), EngineError> {
        match source {
            Source::Link => {
                if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                    self.hear()?;
                }
            }
            Source::Signals => {
                while let Some(signal) = signals::next(&self.signals) {
                    if signal == libc::SIGCHLD {
                        self.reap();
                    } else {
                        self.stop();
                    }
                }
            }
            Source::Outbox => self.outbox.looked(),
            Source::Keeper(id) => self.keeper_speaks(id),
            Source::Stdout(op) => self.read_output(op, toolcell_protocol::Stream::Stdout),
            Source::Stderr(op) => self.read_output(op, toolcell_protocol::Stream::Stderr),
            Source::Stdin(op) => self.write_input(op),
        }
        Ok(())
    }

    /// When the next timer is due.
    fn wake_at(&self) -> u64 {
        let mut at = self.stopping.unwrap_or(u64::MAX);
        at = at.min(self.link.wake_at().unwrap_or(u64::MAX));
        if self.strays_since.is_some() {
            at = at.min(now_us().saturating_add(20_000));
        }
        at = at.min(self.quiet_wake_at().unwrap_or(u64::MAX));
        if !self.link.is_up() && self.stopping.is_none() {
            let left = self.orphan_ttl_us.saturating_sub(self.outbox.away_us());
            at = at.min(now_us().saturating_add(left).saturating_add(1000));
        }
        for call in self.calls.values().filter(|call| !call.tree_is_gone()) {
            at = at.min(call.give_up_at).min(call.end_rest_at().unwrap_or(u64::MAX));
        }
        at
    }

    /// Does what is due.
    fn tick(&mut self, now: u64) {
        self.link.tick(now);
        if !self.link.is_up() && self.stopping.is_none() && self.outbox.away_us() >= self.orphan_ttl_us {
            self.log.say("no host for too long: the guest ends");
            self.stop();
        }
        self.end_strays(now);
        self.quiet_timers(now);
        self.call_timers(now);
        // After a dial or a close the socket is another one.
        self.watch_link();
    }

    /// Reads from the host and does what it says.
    fn hear(&mut self) -> Result<(), EngineError> {
        match self.link.read(&mut self.scratch) {
            Progress::Nothing => {}
            Progress::Up => self.greet_host(),
            Progress::Lost => self.lose_host(),
            Progress::Hopeless(error) => return Err(EngineError::Hopeless(error)),
            Progress::Distrusted(error) => self.log.say(&format!("not our host: {error}")),
        }
        loop {
            match self.link.next::<HostMessage>() {
                Ok(Some(message)) => self.obey(message),
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.log.say(&format!("the host broke the protocol: {error}"));
                    self.lose_host();
                    return Ok(());
                }
            }
        }
    }

    fn greet_host(&mut self) {
        self.generation = self.outbox.connected();
        let calls = self.calls.values().filter(|call| !call.is_forgotten()).map(Call::live).collect();
        self.say(&GuestMessage::Ready { calls, next_op: self.next_op, shell: self.shell.clone() });
    }

    fn lose_host(&mut self) {
        if self.link.is_up() {
            self.outbox.disconnected();
            self.workers.host_lost();
            // Nobody will say that it is over.
            self.let_go();
            for call in self.calls.values_mut() {
                call.detach();
            }
        }
        self.link.lose();
    }

    fn obey(&mut self, message: HostMessage) {
        match message {
            HostMessage::Ping { op } => {
                self.note_op(op);
                self.say(&GuestMessage::Pong { op });
            }
            HostMessage::Exec { op, call, spec } => self.exec(op, call, spec),
            HostMessage::StdinData { op, data, end } => self.stdin(op, &data, end),
            HostMessage::Cancel { op } => self.cancel(op),
            HostMessage::OutputAck { op, stream, offset } => self.acknowledge(op, stream, offset),
            HostMessage::Attach { op, stdout, stderr } => self.attach(op, stdout, stderr),
            HostMessage::Forget { op } => self.forget(op),
            HostMessage::Shutdown => self.stop(),
            HostMessage::Resolve { op, paths } => self.work(op, Task::Look(Look::Resolve { paths })),
            HostMessage::ReadFile { op, target, part, max_bytes } => {
                self.work(op, Task::Look(Look::Read { target, part, max_bytes }));
            }
            HostMessage::ListFiles { op, target, depth, hidden, max_entries } => {
                self.work(op, Task::Look(Look::List { target, depth, hidden, max_entries }));
            }
            HostMessage::Scan { op, roots } => self.work(op, Task::Bulk(Bulk::Scan { roots })),
            HostMessage::Fetch { op, root, path, offset, max_len, want_xattrs } => {
                self.work(op, Task::Bulk(Bulk::Fetch { root, path, offset, max_len, want_xattrs }));
            }
            HostMessage::WriteFile { op, target, mode, overwrite, create_dirs, size } => {
                let wish = Wish { mode, overwrite, create_dirs, size };
                self.work(op, Task::Write(Write::File { target, wish }));
            }
            HostMessage::WriteData { op, data, end } => self.work(op, Task::Write(Write::Data { data, end })),
            HostMessage::RestoreBegin { op, roots, clear } => {
                self.work(op, Task::Write(Write::RestoreBegin { roots, clear }));
            }
            HostMessage::Restore { op, item } => self.work(op, Task::Write(Write::RestoreItem(item))),
            HostMessage::RestoreEnd { op } => self.work(op, Task::Write(Write::RestoreEnd)),
            HostMessage::Quiesce { op, max_ms } => self.quiesce(op, max_ms),
            HostMessage::Resume { op } => self.resume(op),
        }
    }

    /// Hands a file operation to the workers.
    fn work(&mut self, op: Op, task: Task) {
        self.note_op(op);
        if let Err(error) = self.workers.submit(self.generation, Work { op, task }) {
            self.say(&GuestMessage::Failed { op, error });
        }
    }

    fn note_op(&mut self, op: Op) {
        self.next_op = self.next_op.max(op.saturating_add(1));
    }

    /// Queues a message for the host.
    fn say(&mut self, message: &GuestMessage) {
        if self.link.is_up() && encode_frame(message, self.link.out()).is_err() {
            self.log.say("a message did not fit into a frame");
        }
    }

    /// Tells the host what there is to tell, calls before files, as far as the socket takes it.
    fn speak(&mut self) {
        loop {
            if self.link.is_up() {
                self.encode_calls();
                let room = ENOUGH_OUT_BYTES.saturating_sub(self.link.waiting());
                self.outbox.drain_into(self.link.out(), room);
            }
            let before = self.link.waiting();
            if !self.link.flush() {
                self.lose_host();
            }
            if before < ENOUGH_OUT_BYTES || self.link.waiting() > 0 {
                break;
            }
        }
        self.watch_link();
    }

    /// Encodes output and ends of calls, in turn, until enough waits for the socket.
    fn encode_calls(&mut self) {
        while self.dirty {
            self.dirty = false;
            for call in self.calls.values_mut() {
                if self.link.waiting() >= ENOUGH_OUT_BYTES {
                    self.dirty = true;
                    return;
                }
                match call.encode_next(CHUNK_BYTES, self.link.out()) {
                    Ok(more) => self.dirty |= more,
                    Err(error) => self.log.say(&error.to_string()),
                }
            }
        }
    }

    /// Watches the link's socket for what is wanted of it now.
    fn watch_link(&mut self) {
        let Some(socket) = self.link.socket() else { return };
        let mut wanted = epoll::EventFlags::empty();
        if !self.workers.are_full() {
            wanted |= epoll::EventFlags::IN;
        }
        if self.link.waiting() > 0 {
            wanted |= epoll::EventFlags::OUT;
        }
        let serial = self.link.serial();
        if self.watched == Some((serial, wanted)) {
            return;
        }
        let data = epoll::EventData::new_u64(Source::Link.token());
        // A closed socket has left the queue by itself.
        let result = match self.watched {
            Some((watched, _)) if watched == serial => epoll::modify(&self.epoll, socket, data, wanted),
            Some(_) | None => epoll::add(&self.epoll, socket, data, wanted),
        };
        match result {
            Ok(()) => self.watched = Some((serial, wanted)),
            Err(_) => self.lose_host(),
        }
    }

    /// Takes children that have ended: keepers, and what a dead keeper left.
    fn reap(&mut self) {
        loop {
            match process::reap_one() {
                Wait::Ended(ended) => {
                    if let Some(keeper) = self.keepers.ended(ended.pid) {
                        self.keeper_ended(&keeper);
                    }
                }
                Wait::Running | Wait::NoChild => return,
            }
        }
    }

    /// Begins to end everything.
    fn stop(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(now_us().saturating_add(STOPPING_US));
            self.let_go();
            let live: Vec<Op> = self.calls.values().filter(|call| !call.tree_is_gone()).map(|call| call.op).collect();
            for op in live {
                self.cancel(op);
            }
        }
    }

    fn all_ended(&self) -> bool {
        self.calls.values().all(Call::tree_is_gone)
    }
}
