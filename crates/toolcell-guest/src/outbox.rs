//! The way from the file workers to the host: bounded, and gone with the connection.

use crate::clock::boot_us;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use toolcell_protocol::{FrameError, encode_frame};

/// Bytes of frames that may wait; beyond it a worker waits until the host has read.
const MOST_WAITING_BYTES: usize = 2 * 1024 * 1024;

/// One connection to a host. Answers to work that came over an earlier one have nowhere to go.
pub(crate) type Generation = u64;

/// The host that the work was for is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

#[derive(Debug, Default)]
struct State {
    generation: Generation,
    /// When the host went away, on the boot clock; `None` while it is there.
    lost_at_us: Option<u64>,
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// Shared by the event loop and all workers.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    space: Condvar,
    wake: OwnedFd,
    fence_ttl_us: u64,
}

impl Outbox {
    /// Without a host yet.
    pub(crate) fn new(fence_ttl_ms: u64) -> Result<Self, Errno> {
        Ok(Self {
            state: Mutex::new(State { lost_at_us: Some(boot_us()), ..State::default() }),
            space: Condvar::new(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            fence_ttl_us: fence_ttl_ms.saturating_mul(1000),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readable when a worker wants the event loop's attention.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Makes the event loop look.
    pub(crate) fn nudge(&self) {
        // A counter that is full is readable already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// The event loop has looked.
    pub(crate) fn looked(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }

    /// A host is there. Returns the new connection's name.
    pub(crate) fn connected(&self) -> Generation {
        let mut state = self.state();
        state.generation = state.generation.saturating_add(1);
        state.lost_at_us = None;
        state.generation
    }

    /// The host is gone: what waits is dropped, and so is what workers still say to it.
    pub(crate) fn disconnected(&self) {
        let mut state = self.state();
        state.lost_at_us = Some(boot_us());
        state.frames = VecDeque::new();
        state.bytes = 0;
        drop(state);
        self.space.notify_all();
    }

    /// How long the host has been away; 0 while it is there.
    pub(crate) fn away_us(&self) -> u64 {
        self.state().lost_at_us.map_or(0, |lost| boot_us().saturating_sub(lost))
    }

    /// The host has been away so long that someone else may own the files: nothing new begins.
    pub(crate) fn fenced(&self) -> bool {
        self.away_us() > self.fence_ttl_us
    }

    /// Whether answers of that connection still have a reader.
    pub(crate) fn alive(&self, generation: Generation) -> bool {
        let state = self.state();
        state.generation == generation && state.lost_at_us.is_none()
    }

    /// Queues a message; waits while too much is queued.
    pub(crate) fn send(&self, generation: Generation, message: &impl Serialize) -> Result<(), Gone> {
        let frame = encode(message);
        let mut state = self.state();
        while state.bytes >= MOST_WAITING_BYTES && state.generation == generation && state.lost_at_us.is_none() {
            state = self.space.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.push(state, generation, frame)
    }

    /// Queues an operation's last message; never waits.
    pub(crate) fn finish(&self, generation: Generation, message: &impl Serialize) -> Result<(), Gone> {
        let frame = encode(message);
        self.push(self.state(), generation, frame)
    }

    fn push(&self, mut state: MutexGuard<'_, State>, generation: Generation, frame: Vec<u8>) -> Result<(), Gone> {
        if state.generation != generation || state.lost_at_us.is_some() {
            return Err(Gone);
        }
        let first = state.frames.is_empty();
        state.bytes = state.bytes.saturating_add(frame.len());
        state.frames.push_back(frame);
        drop(state);
        if first {
            self.nudge();
        }
        Ok(())
    }

    /// Moves waiting frames to the end of `out`: all, or as many as have `enough` bytes together.
    pub(crate) fn drain_into(&self, out: &mut Vec<u8>, enough: usize) {
        let mut state = self.state();
        let before = state.bytes;
        while before.saturating_sub(state.bytes) < enough {
            let Some(frame) = state.frames.pop_front() else { break };
            state.bytes = state.bytes.saturating_sub(frame.len());
            out.extend_from_slice(&frame);
        }
        let freed = state.bytes < before;
        drop(state);
        if freed {
            self.space.notify_all();
        }
    }
}

/// One frame. A message that does not fit would be a bug of a worker, whose bounds are below a frame's.
fn encode(message: &impl Serialize) -> Vec<u8> {
    let mut frame = Vec::new();
    match encode_frame(message, &mut frame) {
        Ok(()) | Err(FrameError::Unsendable { .. } | FrameError::TooLong { .. } | FrameError::Malformed { .. }) => {
            frame
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolcell_protocol::{Bytes, GuestMessage};

    fn data(bytes: usize) -> GuestMessage {
        GuestMessage::Data { op: 1, data: Bytes::from(vec![0; bytes]) }
    }

    #[test]
    fn a_worker_waits_at_the_bound_and_goes_on_when_the_host_reads() {
        let outbox = Outbox::new(1000).unwrap();
        let generation = outbox.connected();
        let frames = 20usize;
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| (0..frames).try_for_each(|_| outbox.send(generation, &data(512 * 1024))));
            let mut got = 0;
            while got < frames {
                let mut out = Vec::new();
                assert!(outbox.state().bytes <= MOST_WAITING_BYTES + 513 * 1024, "the bound holds");
                outbox.drain_into(&mut out, 1);
                got += usize::from(!out.is_empty());
                std::thread::yield_now();
            }
            assert_eq!(worker.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn a_lost_host_releases_workers_and_takes_nothing_more() {
        let outbox = Outbox::new(1000).unwrap();
        let old = outbox.connected();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                loop {
                    if outbox.send(old, &data(1024 * 1024)).is_err() {
                        break;
                    }
                }
            });
            while outbox.state().bytes < MOST_WAITING_BYTES {
                std::thread::yield_now();
            }
            outbox.disconnected();
            worker.join().unwrap();
        });
        let new = outbox.connected();
        assert_eq!(outbox.finish(old, &data(1)), Err(Gone));
        assert!(outbox.alive(new) && !outbox.alive(old));
        let mut out = Vec::new();
        outbox.drain_into(&mut out, usize::MAX);
        assert_eq!(out.len(), 0);
    }

    #[test]
    fn without_a_host_nothing_begins_after_the_fence() {
        let outbox = Outbox::new(0).unwrap();
        outbox.connected();
        assert!(!outbox.fenced());
        outbox.disconnected();
        while outbox.away_us() == 0 {
            std::hint::spin_loop();
        }
        assert!(outbox.fenced());
    }
}
