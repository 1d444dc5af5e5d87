//! One operation's unread messages, bounded in bytes. The link's task never waits for a slow reader: a guest that
//! sends more than was asked for loses its connection, and everything that may be asked for has a bound.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;
use toolcell_protocol::limits::{MAX_FRAME_BYTES, OUTPUT_WINDOW_BYTES};
use toolcell_protocol::{EntryKind, GuestMessage};

/// For operations with one short answer.
pub(crate) const SMALL_BYTES: usize = 2 * MAX_FRAME_BYTES;
/// For execs: both streams' windows and the report.
pub(crate) const EXEC_BYTES: usize = 2 * OUTPUT_WINDOW_BYTES as usize + 2 * MAX_FRAME_BYTES;
/// For walks: about two million entries.
pub(crate) const WALK_BYTES: usize = 256 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct OpQueue {
    state: Mutex<State>,
    changed: Notify,
    bound_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<GuestMessage>,
    bytes: usize,
    closed: bool,
}

impl OpQueue {
    pub(crate) fn new(bound_bytes: usize) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), bound_bytes }
    }

    /// Adds a message; `false` when the bound is passed.
    pub(crate) fn push(&self, message: GuestMessage) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes = state.bytes.saturating_add(cost(&message));
        if state.bytes > self.bound_bytes {
            return false;
        }
        state.messages.push_back(message);
        drop(state);
        self.changed.notify_one();
        true
    }

    /// No more will come; what is there can still be read.
    pub(crate) fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.changed.notify_one();
    }

    /// The next message, or `None` when the queue is closed and empty. Cancel safe; one reader at a time.
    pub(crate) async fn pop(&self) -> Option<GuestMessage> {
        loop {
            {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(message) = state.messages.pop_front() {
                    state.bytes = state.bytes.saturating_sub(cost(&message));
                    return Some(message);
                }
                if state.closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }
}

/// About what a message takes in memory.
fn cost(message: &GuestMessage) -> usize {
    const ENTRY: usize = 160;
    let target = |kind: &EntryKind| match kind {
        EntryKind::Symlink { target } => target.len(),
        EntryKind::Dir | EntryKind::File { .. } | EntryKind::Special => 0,
    };
    match message {
        GuestMessage::Output { data, .. } | GuestMessage::Data { data, .. } => ENTRY + data.len(),
        GuestMessage::Fetched { part, .. } => {
            ENTRY + part.data.len() + part.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
        }
        GuestMessage::ScanEntries { entries, .. } => {
            entries.iter().map(|entry| ENTRY + entry.path.len() + target(&entry.kind)).sum()
        }
        GuestMessage::Listed { entries, .. } => {
            entries.iter().map(|entry| ENTRY + entry.path.len() + target(&entry.kind)).sum()
        }
        GuestMessage::Failed { error, .. } => ENTRY + error.message.len(),
        GuestMessage::Resolved { paths, .. } => ENTRY * (1 + paths.len()),
        GuestMessage::Ready { .. }
        | GuestMessage::Pong { .. }
        | GuestMessage::Exited { .. }
        | GuestMessage::FileRead { .. }
        | GuestMessage::FileWritten { .. }
        | GuestMessage::ScanDone { .. }
        | GuestMessage::Restored { .. }
        | GuestMessage::Quiesced { .. }
        | GuestMessage::Resumed { .. } => ENTRY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolcell_protocol::{Bytes, Stream};

    fn output(bytes: usize) -> GuestMessage {
        GuestMessage::Output { op: 1, stream: Stream::Stdout, offset: 0, data: Bytes::from(vec![0; bytes]) }
    }

    #[tokio::test]
    async fn the_bound_is_on_what_is_unread() {
        let queue = OpQueue::new(1000);
        assert!(queue.push(output(800)));
        assert!(queue.pop().await.is_some());
        assert!(queue.push(output(800)));
        assert!(!queue.push(output(100)));
    }

    #[tokio::test]
    async fn a_closed_queue_is_read_to_its_end() {
        let queue = OpQueue::new(1000);
        assert!(queue.push(output(1)));
        queue.close();
        assert!(queue.pop().await.is_some());
        assert!(queue.pop().await.is_none());
    }
}
