//! One output stream of a call: what was read and the host has not acknowledged.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use toolcell_protocol::limits::OUTPUT_WINDOW_BYTES;

/// What a pipe holds as it is made, and what it is enlarged to when a tool has filled it once.
const PIPE_BYTES: usize = 64 * 1024;
const WIDE_PIPE_BYTES: usize = 256 * 1024;

/// A stream.
#[derive(Debug)]
pub(crate) struct Output {
    /// The read end, until nothing more can come.
    pub(crate) pipe: Option<OwnedFd>,
    /// The event loop watches the pipe.
    pub(crate) watched: bool,
    buffer: VecDeque<u8>,
    /// Place in the stream of the buffer's first byte: what is below is acknowledged.
    base: u64,
    /// Place of the next byte to send on this connection.
    sent: u64,
    limit: u64,
    limited: bool,
    /// Nobody wants it any more: it is read, so that the tool does not wait, and thrown away.
    unwanted: bool,
    /// The pipe was made larger.
    wide: bool,
}

/// What reading came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// Bytes came; there may be more.
    Some,
    /// Nothing at the moment.
    Empty,
    /// The window is full.
    Full,
    /// Nobody can write any more.
    End,
}

impl Output {
    /// A stream that may carry `limit` bytes.
    pub(crate) fn new(pipe: OwnedFd, limit: u64) -> Self {
        let buffer = VecDeque::new();
        Self {
            pipe: Some(pipe),
            watched: false,
            buffer,
            base: 0,
            sent: 0,
            limit,
            limited: false,
            unwanted: false,
            wide: false,
        }
    }

    /// Bytes of the stream so far.
    pub(crate) fn end(&self) -> u64 {
        self.base.saturating_add(self.held())
    }

    /// Bytes that are not acknowledged.
    pub(crate) fn held(&self) -> u64 {
        u64::try_from(self.buffer.len()).unwrap_or(u64::MAX)
    }

    /// The tool has written more than it may.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited
    }

    /// Everything that was read was sent, and nothing more will come.
    pub(crate) fn is_complete(&self) -> bool {
        self.pipe.is_none() && self.sent >= self.end()
    }

    /// Reads once, as much as the window and `room` (what all streams together may still hold) allow.
    pub(crate) fn read(&mut self, scratch: &mut [u8], room: u64) -> Read {
        let Some(pipe) = &self.pipe else { return Read::End };
        let window = OUTPUT_WINDOW_BYTES.saturating_sub(self.held()).min(room);
        // What is thrown away needs no window.
        let most =
            if self.limited || self.unwanted { scratch.len() } else { usize::try_from(window).unwrap_or(usize::MAX) };
        let most = most.min(scratch.len());
        if most == 0 {
            return Read::Full;
        }
        let Some(space) = scratch.get_mut(..most) else { return Read::Full };
        match rustix::io::read(pipe, space) {
            Ok(0) => Read::End,
            Ok(read) => {
                if read >= PIPE_BYTES && !self.wide {
                    self.wide = true;
                    // Fewer turns for a tool that writes much. A refusal costs only that.
                    let _ = rustix::pipe::fcntl_setpipe_size(pipe, WIDE_PIPE_BYTES);
                }
                self.take(scratch.get(..read).unwrap_or_default());
                Read::Some
            }
            Err(Errno::AGAIN | Errno::INTR) => Read::Empty,
            Err(_) => Read::End,
        }
    }

    /// Throws away what is there and what will come.
    pub(crate) fn discard(&mut self) {
        self.unwanted = true;
        self.buffer = VecDeque::new();
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.unwanted {
            return;
        }
        let room = usize::try_from(self.limit.saturating_sub(self.end())).unwrap_or(usize::MAX);
        let kept = bytes.get(..room).unwrap_or(bytes);
        if kept.len() < bytes.len() {
            self.limited = true;
        }
        self.buffer.extend(kept);
    }

    /// Up to `most` bytes that this connection has not seen, with their place; they count as sent.
    pub(crate) fn next(&mut self, most: usize) -> Option<(u64, &[u8])> {
        let skip = usize::try_from(self.sent.saturating_sub(self.base)).ok()?;
        let (front, back) = self.buffer.as_slices();
        let part = match front.get(skip..) {
            Some(part) if !part.is_empty() => part,
            _ => back.get(skip.saturating_sub(front.len())..)?,
        };
        let part = part.get(..most).unwrap_or(part);
        if part.is_empty() {
            return None;
        }
        let offset = self.sent;
        self.sent = self.sent.saturating_add(u64::try_from(part.len()).ok()?);
        Some((offset, part))
    }

    /// The host has everything below `offset`. Returns how many bytes were dropped.
    pub(crate) fn acknowledge(&mut self, offset: u64) -> u64 {
        let drop = offset.min(self.end()).saturating_sub(self.base);
        self.buffer.drain(..usize::try_from(drop).unwrap_or(0).min(self.buffer.len()));
        self.base = self.base.saturating_add(drop);
        self.sent = self.sent.max(self.base);
        if self.buffer.is_empty() && self.buffer.capacity() > 64 * 1024 {
            self.buffer = VecDeque::new();
        }
        drop
    }

    /// Sends again from `offset` on, as far as it is still held.
    pub(crate) fn rewind(&mut self, offset: u64) {
        self.sent = offset.clamp(self.base, self.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(limit: u64) -> Output {
        let (read, _write) = rustix::pipe::pipe().unwrap();
        Output::new(read, limit)
    }

    #[test]
    fn the_limit_is_exact() {
        for (bytes, kept, limited) in [(9, 9, false), (10, 10, false), (11, 10, true)] {
            let mut output = stream(10);
            output.take(&vec![7; bytes]);
            assert_eq!((output.end(), output.is_limited()), (kept, limited), "{bytes} bytes");
        }
        let mut output = stream(10);
        output.take(&[1; 10]);
        assert!(!output.is_limited());
        output.take(&[1; 1]);
        assert!(output.is_limited());
        assert_eq!(output.end(), 10);
    }

    #[test]
    fn acknowledged_bytes_are_gone_and_the_rest_comes_again() {
        let mut output = stream(100);
        output.take(b"0123456789");
        assert_eq!(output.next(4), Some((0, &b"0123"[..])));
        assert_eq!(output.acknowledge(2), 2);
        output.rewind(0);
        assert_eq!(output.next(3), Some((2, &b"234"[..])));
        assert_eq!(output.next(100), Some((5, &b"56789"[..])));
        assert_eq!(output.next(100), None);
        output.rewind(7);
        assert_eq!(output.next(100), Some((7, &b"789"[..])));
        assert_eq!(output.acknowledge(u64::MAX), 8);
        output.rewind(u64::MAX);
        output.take(b"ab");
        assert_eq!(output.next(100), Some((10, &b"ab"[..])));
    }

    #[test]
    fn acknowledging_what_was_not_sent_yet_skips_it() {
        let mut output = stream(100);
        output.take(b"0123456789");
        output.acknowledge(5);
        assert_eq!(output.next(100), Some((5, &b"56789"[..])));
    }
}
