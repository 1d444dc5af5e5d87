//! The host's end of the guest's socket: one connection, many operations at once.
//!
//! Everything that comes in is bounded: a frame by the protocol, an operation's unread messages by its queue. Sending
//! is atomic per frame and never half done when a caller goes away: a frame is put into the outgoing buffer in one
//! step, and a task of the link's own writes it.

mod exec;
mod files;
mod listen;
mod queue;
mod quiet;
mod shell;
mod snapshot;

pub use exec::{ExecEvent, ExecHandle};
pub(crate) use files::WriteRequest;
pub use files::{FileRead, Written};
pub(crate) use listen::{GuestListener, HandshakeIdentity, SOCKET_NAME, peer_pid, shake_hands};
pub use quiet::Quiet;
pub use shell::Shell;
pub use snapshot::{Restore, Scan};

use crate::error::SandboxError;
use queue::OpQueue;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use toolcell_protocol::{FrameDecoder, GuestMessage, HostMessage, LiveCall, Op, encode_frame};

/// Outgoing bytes beyond which bulk senders wait.
const OUTGOING_SOFT_BYTES: usize = 8 * 1024 * 1024;
/// How much one read takes from the socket.
const READ_BYTES: usize = 256 * 1024;
/// How long the guest has to answer a file or scan operation's next message.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to one container's guest. Cheap to share by reference; ends when dropped.
#[derive(Debug)]
pub struct GuestLink {
    shared: Arc<Shared>,
    _pump: AbortOnDropHandle<()>,
}

/// What callers and the link's own task share.
#[derive(Debug)]
pub(crate) struct Shared {
    container: String,
    stream: UnixStream,
    outgoing: Mutex<Outgoing>,
    /// There is something to write.
    filled: Notify,
    /// There is room again.
    drained: Notify,
    operations: Mutex<Operations>,
    next_op: AtomicU64,
    /// The version that both sides speak.
    protocol: u16,
    live: Vec<LiveCall>,
    shell: Option<Shell>,
    closed: CancellationToken,
}

#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    /// How much of `bytes` has been written.
    written: usize,
}

#[derive(Debug, Default)]
struct Operations {
    queues: HashMap<Op, Arc<OpQueue>>,
    /// Why the link ended.
    ended: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of these; the data is whole in any case.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GuestLink {
    /// Takes over a stream after the handshake and the guest's `Ready`.
    pub(crate) fn new(container: String, stream: UnixStream, decoder: FrameDecoder, ready: listen::Ready) -> Self {
        let shared = Arc::new(Shared {
            container,
            stream,
            outgoing: Mutex::default(),
            filled: Notify::new(),
            drained: Notify::new(),
            operations: Mutex::default(),
            next_op: AtomicU64::new(ready.next_op.max(1)),
            protocol: ready.protocol,
            live: ready.calls,
            shell: ready.shell,
            closed: CancellationToken::new(),
        });
        let tasks = TaskTracker::new();
        let pump = tasks.spawn(pump(Arc::clone(&shared), decoder));
        Self { shared, _pump: AbortOnDropHandle::new(pump) }
    }

    /// Execs that the guest still held when it connected: what an earlier host left behind.
    #[must_use]
    pub fn live_calls(&self) -> &[LiveCall] {
        &self.shared.live
    }

    /// The shell that runs shell text in this container; `None` when its image has none.
    #[must_use]
    pub fn shell(&self) -> Option<Shell> {
        self.shared.shell
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.is_cancelled()
    }

    fn open(&self, bound_bytes: usize) -> Result<Operation, SandboxError> {
        let op = self.shared.next_op();
        let queue = Arc::new(OpQueue::new(bound_bytes));
        let mut operations = lock(&self.shared.operations);
        if let Some(reason) = &operations.ended {
            return Err(self.shared.lost(reason.clone()));
        }
        operations.queues.insert(op, Arc::clone(&queue));
        drop(operations);
        Ok(Operation { op, queue, shared: Arc::clone(&self.shared) })
    }

    fn send(&self, message: &HostMessage) -> Result<(), SandboxError> {
        self.shared.send(message)
    }

    /// Sends one of many large messages, waiting while too much is on its way. Cancel safe: the frame is sent whole
    /// or not at all.
    async fn send_bulk(&self, message: &HostMessage) -> Result<(), SandboxError> {
        loop {
            let drained = self.shared.drained.notified();
            if lock(&self.shared.outgoing).bytes.len() < OUTGOING_SOFT_BYTES {
                return self.send(message);
            }
            tokio::select! {
                () = drained => {}
                () = self.shared.closed.cancelled() => return self.send(message),
            }
        }
    }
}

impl Shared {
    fn next_op(&self) -> Op {
        self.next_op.fetch_add(1, Ordering::Relaxed)
    }

    fn lost(&self, reason: String) -> SandboxError {
        SandboxError::LinkLost { container: self.container.clone(), reason }
    }

    fn unexpected(&self, message: &GuestMessage) -> SandboxError {
        let name = format!("{message:?}");
        let name = name.split([' ', '{']).next().unwrap_or_default();
        SandboxError::Protocol { container: self.container.clone(), reason: format!("unexpected answer {name}") }
    }

    fn send(&self, message: &HostMessage) -> Result<(), SandboxError> {
        if self.closed.is_cancelled() {
            let reason = lock(&self.operations).ended.clone();
            return Err(self.lost(reason.unwrap_or_else(|| "closed".to_owned())));
        }
        let mut outgoing = lock(&self.outgoing);
        let idle = outgoing.bytes.is_empty();
        encode_frame(message, &mut outgoing.bytes)
            .map_err(|error| SandboxError::Protocol { container: self.container.clone(), reason: error.to_string() })?;
        if idle {
            // The common case: the socket takes it at once and no other task has to wake up.
            if let Ok(written) = self.stream.try_write(&outgoing.bytes) {
                outgoing.advance(written);
            }
        }
        if !outgoing.bytes.is_empty() {
            self.filled.notify_one();
        }
        Ok(())
    }

    fn has_outgoing(&self) -> bool {
        !lock(&self.outgoing).bytes.is_empty()
    }

    fn write_some(&self) -> std::io::Result<()> {
        let mut outgoing = lock(&self.outgoing);
        while outgoing.written < outgoing.bytes.len() {
            match self.stream.try_write(outgoing.bytes.get(outgoing.written..).unwrap_or_default()) {
                Ok(written) => outgoing.advance(written),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        drop(outgoing);
        self.drained.notify_waiters();
        Ok(())
    }

    fn dispatch(&self, message: GuestMessage) -> Result<(), String> {
        let Some(op) = message_op(&message) else { return Err("Ready came twice".to_owned()) };
        let queue = lock(&self.operations).queues.get(&op).cloned();
        match queue {
            Some(queue) if !queue.push(message) => Err(format!("operation {op} sent more than was asked for")),
            // No queue: the caller has gone; its answer is of no use to anyone.
            Some(_) | None => Ok(()),
        }
    }

    fn end(&self, reason: String) {
        let queues = {
            let mut operations = lock(&self.operations);
            operations.ended.get_or_insert(reason);
            std::mem::take(&mut operations.queues)
        };
        self.closed.cancel();
        for queue in queues.into_values() {
            queue.close();
        }
        self.drained.notify_waiters();
    }
}

impl Outgoing {
    fn advance(&mut self, written: usize) {
        self.written += written;
        if self.written >= self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
    }
}

fn message_op(message: &GuestMessage) -> Option<Op> {
    match message {
        GuestMessage::Ready { .. } => None,
        GuestMessage::Pong { op }
        | GuestMessage::Output { op, .. }
        | GuestMessage::Exited { op, .. }
        | GuestMessage::Failed { op, .. }
        | GuestMessage::Resolved { op, .. }
        | GuestMessage::Data { op, .. }
        | GuestMessage::FileRead { op, .. }
        | GuestMessage::FileWritten { op, .. }
        | GuestMessage::Listed { op, .. }
        | GuestMessage::ScanEntries { op, .. }
        | GuestMessage::ScanDone { op }
        | GuestMessage::Fetched { op, .. }
        | GuestMessage::Restored { op }
        | GuestMessage::Quiesced { op, .. }
        | GuestMessage::Resumed { op, .. } => Some(*op),
    }
}

/// Moves bytes until the connection ends, then tells every operation.
async fn pump(shared: Arc<Shared>, mut decoder: FrameDecoder) {
    let reason = match pump_until_end(&shared, &mut decoder).await {
        Ok(()) => "the guest closed it".to_owned(),
        Err(reason) => reason,
    };
    shared.end(reason);
}

async fn pump_until_end(shared: &Shared, decoder: &mut FrameDecoder) -> Result<(), String> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        // What came together with the handshake is dispatched first.
        while let Some(message) = decoder.next_message::<GuestMessage>().map_err(|error| error.to_string())? {
            shared.dispatch(message)?;
        }
        let writing = shared.has_outgoing();
        tokio::select! {
            ready = shared.stream.readable() => {
                ready.map_err(|error| error.to_string())?;
                match shared.stream.try_read(&mut buffer) {
                    Ok(0) => return Ok(()),
                    Ok(read) => decoder.feed(buffer.get(..read).unwrap_or_default()),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
            ready = shared.stream.writable(), if writing => {
                ready.map_err(|error| error.to_string())?;
                shared.write_some().map_err(|error| error.to_string())?;
            }
            () = shared.filled.notified(), if !writing => {}
        }
    }
}

/// One operation in flight. Dropping it forgets the answers that are still to come.
#[derive(Debug)]
pub(crate) struct Operation {
    op: Op,
    queue: Arc<OpQueue>,
    shared: Arc<Shared>,
}

impl Operation {
    /// The next message of this operation; `Failed` is an error. Cancel safe.
    async fn next(&self) -> Result<GuestMessage, SandboxError> {
        match self.queue.pop().await {
            Some(GuestMessage::Failed { error, .. }) => Err(SandboxError::Guest(error)),
            Some(message) => Ok(message),
            None => {
                let reason = lock(&self.shared.operations).ended.clone();
                Err(self.shared.lost(reason.unwrap_or_else(|| "closed".to_owned())))
            }
        }
    }

    async fn next_within(&self, limit: Duration) -> Result<GuestMessage, SandboxError> {
        tokio::time::timeout(limit, self.next()).await.unwrap_or_else(|_| {
            Err(SandboxError::GuestTimeout { container: self.shared.container.clone(), seconds: limit.as_secs() })
        })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        lock(&self.shared.operations).queues.remove(&self.op);
    }
}
