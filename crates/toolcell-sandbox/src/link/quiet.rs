//! Stopping the tools of a container for as long as a snapshot reads it.

use super::{ANSWER_TIMEOUT, GuestLink, Operation, Shared, queue};
use crate::error::SandboxError;
use std::sync::Arc;
use std::time::Duration;
use toolcell_protocol::{GuestMessage, HostMessage};

/// The first protocol that has it.
const SINCE_PROTOCOL: u16 = 2;

/// Every tool process of the container stands still. They go on when it is dropped, when the connection ends, or when
/// their time is over.
#[derive(Debug)]
pub struct Quiet {
    shared: Arc<Shared>,
    operation: Operation,
    /// They were not let go yet.
    armed: bool,
    /// How many processes were stopped.
    pub processes: u32,
}

impl GuestLink {
    /// Stops every tool process, for at most `longest`. Calls that come meanwhile begin afterwards. Dropping the
    /// future lets them go on.
    ///
    /// # Errors
    /// [`SandboxError::Guest`] if one of them does not stop, [`SandboxError::LinkLost`], [`SandboxError::Protocol`] from
    /// a guest that is too old to know how.
    pub async fn quiesce(&self, longest: Duration) -> Result<Quiet, SandboxError> {
        if self.shared.protocol < SINCE_PROTOCOL {
            let reason = "the guest of this container is too old to stop its tools; stop the slot once".to_owned();
            return Err(SandboxError::Protocol { container: self.shared.container.clone(), reason });
        }
        let operation = self.open(queue::SMALL_BYTES)?;
        let op = operation.op;
        let mut quiet = Quiet { shared: Arc::clone(&self.shared), operation, armed: true, processes: 0 };
        let max_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self.send(&HostMessage::Quiesce { op, max_ms })?;
        match quiet.operation.next_within(ANSWER_TIMEOUT).await? {
            GuestMessage::Quiesced { processes, .. } => {
                quiet.processes = processes;
                Ok(quiet)
            }
            other => Err(self.shared.unexpected(&other)),
        }
    }

    /// Lets the tools go on. `false`: their time was over before, and what was read meanwhile is of several moments.
    ///
    /// # Errors
    /// [`SandboxError::LinkLost`], [`SandboxError::Protocol`]; the tools go on in any case.
    pub async fn resume(&self, mut quiet: Quiet) -> Result<bool, SandboxError> {
        let operation = self.open(queue::SMALL_BYTES)?;
        self.send(&HostMessage::Resume { op: operation.op })?;
        quiet.armed = false;
        match operation.next_within(ANSWER_TIMEOUT).await? {
            GuestMessage::Resumed { in_time, .. } => Ok(in_time),
            other => Err(self.shared.unexpected(&other)),
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if self.armed {
            let op = self.shared.next_op();
            // If it cannot be sent, the connection has ended, and the guest lets them go by itself.
            drop(self.shared.send(&HostMessage::Resume { op }));
        }
    }
}
