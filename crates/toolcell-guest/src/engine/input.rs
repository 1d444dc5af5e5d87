//! Standard input of a call that streams it.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;

/// Bytes that may wait for one tool to read them; beyond it the call is stopped, because the connection that carries
/// them also carries everything else and cannot wait for one tool.
pub(crate) const MOST_INPUT_BYTES: usize = 8 * 1024 * 1024;

/// The write end and what waits for it.
#[derive(Debug)]
pub(crate) struct Input {
    /// Until the end was written, or the tool reads no more.
    pub(crate) pipe: Option<OwnedFd>,
    /// The event loop watches the pipe.
    pub(crate) watched: bool,
    waiting: VecDeque<u8>,
    end: bool,
}

/// The tool does not read what it is given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMuch;

impl Input {
    /// For the write end of a pipe that does not block.
    pub(crate) fn new(pipe: OwnedFd) -> Self {
        Self { pipe: Some(pipe), watched: false, waiting: VecDeque::new(), end: false }
    }

    /// Takes more from the host.
    pub(crate) fn add(&mut self, data: &[u8], end: bool) -> Result<(), TooMuch> {
        if self.end || self.pipe.is_none() {
            return Ok(());
        }
        self.end = end;
        self.waiting.extend(data);
        self.write();
        if self.waiting.len() > MOST_INPUT_BYTES { Err(TooMuch) } else { Ok(()) }
    }

    /// Something waits for the pipe.
    pub(crate) fn wants_write(&self) -> bool {
        self.pipe.is_some() && !self.waiting.is_empty()
    }

    /// Writes what the pipe takes. A tool that has closed its input is no error.
    pub(crate) fn write(&mut self) {
        while let Some(pipe) = &self.pipe {
            let (front, _) = self.waiting.as_slices();
            if front.is_empty() {
                if self.end {
                    self.pipe = None;
                }
                return;
            }
            match rustix::io::write(pipe, front) {
                Ok(written) => {
                    let written = written.min(front.len());
                    self.waiting.drain(..written);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.pipe = None;
                    self.waiting = VecDeque::new();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};

    #[test]
    fn what_waits_is_bounded_at_the_byte() {
        let (read, write) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let mut input = Input::new(write);
        let capacity = 64 * 1024;
        assert_eq!(input.add(&vec![1; capacity], false), Ok(()));
        assert!(!input.wants_write());
        assert_eq!(input.add(&vec![1; MOST_INPUT_BYTES - 1], false), Ok(()));
        assert_eq!(input.add(&[1], false), Ok(()));
        assert_eq!(input.add(&[1], true), Err(TooMuch));
        drop(read);
    }

    #[test]
    fn the_end_closes_after_the_last_byte() {
        let (read, write) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let mut input = Input::new(write);
        input.add(b"hello", true).unwrap();
        assert!(input.pipe.is_none());
        let mut buffer = [0; 10];
        assert_eq!(rustix::io::read(&read, &mut buffer), Ok(5));
        assert_eq!(rustix::io::read(&read, &mut buffer), Ok(0));
    }
}
