//! Scan, fetch and restore: the workspace's way out and in. These are the runtime's own operations; no tool call
//! reaches them, so they take no permit.

use super::{ANSWER_TIMEOUT, GuestLink, Operation, queue};
use crate::error::SandboxError;
use std::time::Duration;
use toolcell_protocol::limits::MAX_DATA_BYTES;
use toolcell_protocol::{Bytes, FetchedPart, GuestMessage, HostMessage, RestoreItem, ScanEntry};

/// Clearing a large workspace before a restore may take a while.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(600);

/// A walk in progress.
#[derive(Debug)]
pub struct Scan {
    operation: Operation,
}

/// A restore in progress. Dropping it leaves the workspace as it is: half restored, never to be run in.
#[derive(Debug)]
pub struct Restore<'a> {
    link: &'a GuestLink,
    operation: Operation,
}

impl GuestLink {
    /// Begins to walk the persisted roots.
    ///
    /// # Errors
    /// [`SandboxError::LinkLost`].
    pub fn scan(&self, roots: &[String]) -> Result<Scan, SandboxError> {
        let operation = self.open(queue::WALK_BYTES)?;
        let roots = roots.iter().map(|root| Bytes::from(root.as_bytes().to_vec())).collect();
        self.send(&HostMessage::Scan { op: operation.op, roots })?;
        Ok(Scan { operation })
    }

    /// Reads part of a file beneath a persisted root. Many may be under way at once.
    ///
    /// # Errors
    /// [`SandboxError::Guest`], [`SandboxError::LinkLost`], [`SandboxError::Protocol`].
    pub async fn fetch(
        &self,
        root: &str,
        path: &[u8],
        offset: u64,
        max_len: u32,
        want_xattrs: bool,
    ) -> Result<FetchedPart, SandboxError> {
        let operation = self.open(queue::SMALL_BYTES)?;
        let max_len = max_len.min(u32::try_from(MAX_DATA_BYTES).unwrap_or(u32::MAX));
        self.send(&HostMessage::Fetch {
            op: operation.op,
            root: Bytes::from(root.as_bytes().to_vec()),
            path: Bytes::from(path.to_vec()),
            offset,
            max_len,
            want_xattrs,
        })?;
        match operation.next_within(ANSWER_TIMEOUT).await? {
            GuestMessage::Fetched { part, .. } => {
                let end = offset.saturating_add(part.data.len() as u64);
                if part.data.len() > max_len as usize || part.next_offset < end {
                    return Err(self.broke("a fetched part that does not fit what was asked for".to_owned()));
                }
                Ok(part)
            }
            other => Err(self.shared.unexpected(&other)),
        }
    }

    /// Begins to fill persisted roots; with `clear`, removes what they hold first. The roots then belong to the tool
    /// user.
    ///
    /// # Errors
    /// [`SandboxError::LinkLost`].
    pub fn restore(&self, roots: &[String], clear: bool) -> Result<Restore<'_>, SandboxError> {
        let operation = self.open(queue::SMALL_BYTES)?;
        let roots = roots.iter().map(|root| Bytes::from(root.as_bytes().to_vec())).collect();
        self.send(&HostMessage::RestoreBegin { op: operation.op, roots, clear })?;
        Ok(Restore { link: self, operation })
    }
}

impl Scan {
    /// The next entries, parents before children; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// [`SandboxError::Guest`], [`SandboxError::LinkLost`], [`SandboxError::Protocol`].
    pub async fn next(&mut self) -> Result<Option<Vec<ScanEntry>>, SandboxError> {
        match self.operation.next_within(ANSWER_TIMEOUT).await? {
            GuestMessage::ScanEntries { entries, .. } => Ok(Some(entries)),
            GuestMessage::ScanDone { .. } => Ok(None),
            other => Err(self.operation.shared.unexpected(&other)),
        }
    }
}

impl Restore<'_> {
    /// Sends one entry. An entry that cannot be restored shows at [`Self::finish`].
    ///
    /// # Errors
    /// [`SandboxError::LinkLost`].
    pub async fn put(&self, item: RestoreItem) -> Result<(), SandboxError> {
        self.link.send_bulk(&HostMessage::Restore { op: self.operation.op, item }).await
    }

    /// Completes when every entry stands.
    ///
    /// # Errors
    /// [`SandboxError::Guest`] naming the entry that failed, [`SandboxError::LinkLost`].
    pub async fn finish(&self) -> Result<(), SandboxError> {
        self.link.send_bulk(&HostMessage::RestoreEnd { op: self.operation.op }).await?;
        match self.operation.next_within(RESTORE_TIMEOUT).await? {
            GuestMessage::Restored { .. } => Ok(()),
            other => Err(self.link.shared.unexpected(&other)),
        }
    }
}
