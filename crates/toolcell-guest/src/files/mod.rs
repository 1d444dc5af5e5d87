//! File operations, on threads of their own: a slow disk or a large scan never delays a call.
//!
//! Three lanes, so that none waits for another: `Look` (resolve, read, list: with the tool user's file identity),
//! `Bulk` (scan and fetch: as root, overriding modes) and `Write` (one thread, which takes everything in the order in
//! which it came, and which never waits for the host).

mod beneath;
mod clear;
mod fetch;
mod identity;
mod list;
mod paths;
mod read;
mod resolve;
mod restore;
mod scan;
pub(crate) mod work;
mod write;

use crate::errors::failure;
use crate::outbox::{Generation, Gone, Outbox};
use identity::Identity;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use toolcell_protocol::message::Op;
use toolcell_protocol::{ErrorCode, GuestError, GuestMessage};
use work::{Bulk, Look, Task, Work};

/// Operations that may wait in a lane; beyond it one more is refused.
const MOST_WAITING: usize = 4096;
/// Content that may wait for the disk, in bytes and in messages; beyond it the guest reads nothing more from the host.
const MOST_WAITING_BYTES: usize = 4 * 1024 * 1024;
const MOST_WAITING_CONTENT: usize = 1024;
const STACK_BYTES: usize = 256 * 1024;

/// How an operation that sends several messages went wrong.
pub(crate) enum Stop {
    /// The host is gone; nobody wants to know.
    Gone,
    /// Tell the host.
    Failed(GuestError),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<GuestError> for Stop {
    fn from(error: GuestError) -> Self {
        Self::Failed(error)
    }
}

/// Where an operation's answers go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answers<'a> {
    outbox: &'a Outbox,
    generation: Generation,
    op: Op,
}

impl Answers<'_> {
    /// The operation.
    pub(crate) fn op(&self) -> Op {
        self.op
    }

    /// One of several messages; waits while the host is slow.
    pub(crate) fn send(&self, message: &impl Serialize) -> Result<(), Gone> {
        self.outbox.send(self.generation, message)
    }

    /// The last message.
    pub(crate) fn finish(&self, message: &GuestMessage) {
        // A host that is gone does not want it.
        let _ = self.outbox.finish(self.generation, message);
    }

    /// The operation failed.
    pub(crate) fn fail(&self, error: GuestError) {
        self.finish(&GuestMessage::Failed { op: self.op, error });
    }

    /// Says so if an operation failed.
    pub(crate) fn close(&self, result: Result<(), Stop>) {
        match result {
            Ok(()) | Err(Stop::Gone) => {}
            Err(Stop::Failed(error)) => self.fail(error),
        }
    }
}

/// Something for a worker.
#[derive(Debug)]
enum Item {
    Work(Generation, Work),
    /// Nothing more will come for what has begun.
    HostLost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Look,
    Bulk,
    Write,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<Item>,
    bytes: usize,
    idle: usize,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_full(&self) -> bool {
        let waiting = self.waiting();
        waiting.bytes > MOST_WAITING_BYTES || waiting.items.len() > MOST_WAITING_CONTENT
    }

    /// Waits for the next item. The second value says that the lane was full and is not any more.
    fn take(&self) -> (Item, bool) {
        let mut waiting = self.waiting();
        loop {
            let was_full = waiting.bytes > MOST_WAITING_BYTES || waiting.items.len() > MOST_WAITING_CONTENT;
            if let Some(item) = waiting.items.pop_front() {
                if let Item::Work(_, work) = &item {
                    waiting.bytes = waiting.bytes.saturating_sub(work.weight());
                }
                let full = waiting.bytes > MOST_WAITING_BYTES || waiting.items.len() > MOST_WAITING_CONTENT;
                return (item, was_full && !full);
            }
            waiting.idle = waiting.idle.saturating_add(1);
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle = waiting.idle.saturating_sub(1);
        }
    }
}

/// Threads of one kind and what waits for them.
#[derive(Debug)]
struct Lane {
    role: Role,
    queue: Arc<Queue>,
    threads: usize,
    most_threads: usize,
}

impl Lane {
    fn new(role: Role, most_threads: usize) -> Self {
        Self { role, queue: Arc::new(Queue::default()), threads: 0, most_threads }
    }

    fn submit(&mut self, item: Item, context: &Context) -> Result<(), GuestError> {
        let mut waiting = self.queue.waiting();
        if waiting.items.len() >= MOST_WAITING && matches!(item, Item::Work(..)) {
            return Err(failure(ErrorCode::Invalid, format!("more than {MOST_WAITING} operations wait")));
        }
        let needs_thread = waiting.idle <= waiting.items.len() && self.threads < self.most_threads;
        if let Item::Work(_, work) = &item {
            waiting.bytes = waiting.bytes.saturating_add(work.weight());
        }
        waiting.items.push_back(item);
        drop(waiting);
        self.queue.more.notify_one();
        if needs_thread && !self.start_thread(context) && self.threads == 0 {
            *self.queue.waiting() = Waiting::default();
            return Err(failure(ErrorCode::TooManyProcesses, "the container is at its limit of processes"));
        }
        Ok(())
    }

    fn start_thread(&mut self, context: &Context) -> bool {
        let (queue, context, role) = (Arc::clone(&self.queue), context.clone(), self.role);
        let thread = std::thread::Builder::new()
            .name("toolcell-files".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || context.work(role, &queue));
        if thread.is_ok() {
            self.threads = self.threads.saturating_add(1);
        }
        thread.is_ok()
    }
}

/// What every worker has.
#[derive(Debug, Clone)]
struct Context {
    user: (u32, u32),
    outbox: Arc<Outbox>,
}

impl Context {
    /// A worker's whole life.
    fn work(&self, role: Role, queue: &Queue) {
        let identity = Identity::new(self.user);
        let ready = role == Role::Bulk || identity.become_tool();
        let mut writer = write::Writer::new(identity);
        let mut restorer = restore::Restorer::new(identity);
        loop {
            let (item, has_space) = queue.take();
            if has_space {
                self.outbox.nudge();
            }
            let Item::Work(generation, work) = item else {
                writer.host_lost();
                restorer.host_lost();
                continue;
            };
            let answers = Answers { outbox: &self.outbox, generation, op: work.op };
            if !ready {
                answers.fail(failure(ErrorCode::Io, "a worker cannot take the tool user's identity"));
                continue;
            }
            if self.outbox.fenced() {
                // Someone else may own the files by now.
                writer.host_lost();
                restorer.host_lost();
                continue;
            }
            match work.task {
                Task::Write(task) => writer.take(answers, &mut restorer, task),
                Task::Look(task) if self.outbox.alive(generation) => answers.close(look(answers, task)),
                Task::Bulk(task) if self.outbox.alive(generation) => answers.close(bulk(answers, task)),
                // Nobody waits for the answer.
                Task::Look(_) | Task::Bulk(_) => {}
            }
        }
    }
}

fn look(answers: Answers<'_>, task: Look) -> Result<(), Stop> {
    match task {
        Look::Resolve { paths } => Ok(resolve::answer(answers, &paths)?),
        Look::Read { target, part, max_bytes } => read::answer(answers, &target, part, max_bytes),
        Look::List { target, depth, hidden, max_entries } => list::answer(answers, &target, depth, hidden, max_entries),
    }
}

fn bulk(answers: Answers<'_>, task: Bulk) -> Result<(), Stop> {
    match task {
        Bulk::Scan { roots } => scan::answer(answers, &roots),
        Bulk::Fetch { root, path, offset, max_len, want_xattrs } => {
            Ok(fetch::answer(answers, &root, &path, offset, max_len, want_xattrs)?)
        }
    }
}

/// All lanes.
#[derive(Debug)]
pub(crate) struct Workers {
    context: Context,
    look: Lane,
    bulk: Lane,
    write: Lane,
}

impl Workers {
    /// Without a thread yet: each lane starts its own when it is first needed.
    pub(crate) fn new(user: (u32, u32), outbox: Arc<Outbox>) -> Self {
        Self {
            context: Context { user, outbox },
            look: Lane::new(Role::Look, 2),
            bulk: Lane::new(Role::Bulk, 2),
            write: Lane::new(Role::Write, 1),
        }
    }

    /// Content waits for the disk: read nothing more from the host.
    pub(crate) fn are_full(&self) -> bool {
        self.write.threads > 0 && self.write.queue.is_full()
    }

    /// Content that was announced will not come any more.
    pub(crate) fn host_lost(&mut self) {
        if self.write.threads > 0 {
            // It has a thread, so it takes this.
            let _ = self.write.submit(Item::HostLost, &self.context);
        }
    }

    /// Hands an operation to its lane.
    pub(crate) fn submit(&mut self, generation: Generation, work: Work) -> Result<(), GuestError> {
        let lane = match work.task {
            Task::Look(_) => &mut self.look,
            Task::Bulk(_) => &mut self.bulk,
            Task::Write(_) => &mut self.write,
        };
        lane.submit(Item::Work(generation, work), &self.context)
    }
}
