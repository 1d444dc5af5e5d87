//! A tool process, as the host sees it.

use super::{GuestLink, Operation, queue};
use crate::error::SandboxError;
use toolcell_model::CallRef;
use toolcell_protocol::{Bytes, ExecSpec, ExitReport, GuestMessage, HostMessage, Op, Stream};

/// Something that a running tool did.
#[derive(Debug)]
pub enum ExecEvent {
    /// It wrote.
    Output {
        /// To which stream.
        stream: Stream,
        /// At which place of the stream.
        offset: u64,
        /// What.
        data: Vec<u8>,
    },
    /// It ended, and all its output came before this.
    Exited(ExitReport),
}

/// A running tool process. Dropping it before its end cancels the process tree and forgets the result.
#[derive(Debug)]
pub struct ExecHandle {
    operation: Operation,
    ended: bool,
    /// What has been received of each stream.
    received: [u64; 2],
    acknowledged: [u64; 2],
}

/// Acknowledge in steps of this many bytes.
const ACK_STEP_BYTES: u64 = 256 * 1024;

impl GuestLink {
    /// Starts a tool process. Returns at once; what happens comes from [`ExecHandle::next`].
    ///
    /// # Errors
    /// [`SandboxError::LinkLost`] (nothing was started).
    pub(crate) fn exec(&self, call: &CallRef, spec: ExecSpec) -> Result<ExecHandle, SandboxError> {
        let operation = self.open(queue::EXEC_BYTES)?;
        let message = HostMessage::Exec { op: operation.op, call: call.as_str().to_owned(), spec };
        self.send(&message)?;
        Ok(ExecHandle { operation, ended: false, received: [0; 2], acknowledged: [0; 2] })
    }

    /// Ends and forgets an exec that an earlier host started.
    ///
    /// # Errors
    /// [`SandboxError::LinkLost`].
    pub fn discard(&self, op: Op) -> Result<(), SandboxError> {
        self.send(&HostMessage::Cancel { op })?;
        self.send(&HostMessage::Forget { op })
    }
}

impl ExecHandle {
    /// What the tool did next. Nothing may be asked after [`ExecEvent::Exited`]. Cancel safe.
    ///
    /// # Errors
    /// [`SandboxError::Guest`] when the process could not be started, [`SandboxError::LinkLost`],
    /// [`SandboxError::Protocol`].
    pub async fn next(&mut self) -> Result<ExecEvent, SandboxError> {
        match self.operation.next().await {
            Ok(GuestMessage::Output { stream, offset, data, .. }) => {
                let place = stream_place(stream);
                if offset != self.received[place] {
                    return Err(SandboxError::Protocol {
                        container: self.operation.shared.container.clone(),
                        reason: format!("output at {offset} where {} was expected", self.received[place]),
                    });
                }
                self.received[place] = offset.saturating_add(data.len() as u64);
                Ok(ExecEvent::Output { stream, offset, data: data.into_vec() })
            }
            Ok(GuestMessage::Exited { exit, .. }) => {
                self.ended = true;
                Ok(ExecEvent::Exited(exit))
            }
            Ok(other) => Err(self.operation.shared.unexpected(&other)),
            Err(error) => {
                if matches!(error, SandboxError::Guest(_)) {
                    self.ended = true;
                }
                Err(error)
            }
        }
    }

    /// Everything received so far is safe: the guest may drop it, and a tool that waited for room goes on.
    ///
    /// # Errors
    /// [`SandboxError::LinkLost`].
    pub fn acknowledge(&mut self) -> Result<(), SandboxError> {
        for (place, stream) in [Stream::Stdout, Stream::Stderr].into_iter().enumerate() {
            if self.received[place] >= self.acknowledged[place].saturating_add(ACK_STEP_BYTES) {
                let offset = self.received[place];
                self.operation.shared.send(&HostMessage::OutputAck { op: self.operation.op, stream, offset })?;
                self.acknowledged[place] = offset;
            }
        }
        Ok(())
    }

    /// Sends all of the standard input of an exec whose spec says [`toolcell_protocol::Stdin::Stream`].
    ///
    /// # Errors
    /// [`SandboxError::LinkLost`].
    pub fn send_stdin(&self, data: &[u8]) -> Result<(), SandboxError> {
        let mut parts = data.chunks(toolcell_protocol::limits::MAX_DATA_BYTES).peekable();
        if parts.peek().is_none() {
            return self.stdin_part(&[], true);
        }
        while let Some(part) = parts.next() {
            self.stdin_part(part, parts.peek().is_none())?;
        }
        Ok(())
    }

    fn stdin_part(&self, data: &[u8], end: bool) -> Result<(), SandboxError> {
        let data = Bytes::from(data.to_vec());
        self.operation.shared.send(&HostMessage::StdinData { op: self.operation.op, data, end })
    }

    /// Asks the guest to stop the whole tree; the end comes from [`Self::next`] as always.
    ///
    /// # Errors
    /// [`SandboxError::LinkLost`].
    pub fn cancel(&self) -> Result<(), SandboxError> {
        self.operation.shared.send(&HostMessage::Cancel { op: self.operation.op })
    }
}

impl Drop for ExecHandle {
    fn drop(&mut self) {
        let op = self.operation.op;
        // Without a link there is nothing to tell: the container goes, and its processes with it.
        if !self.ended {
            let _ = self.operation.shared.send(&HostMessage::Cancel { op });
        }
        let _ = self.operation.shared.send(&HostMessage::Forget { op });
    }
}

const fn stream_place(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}
