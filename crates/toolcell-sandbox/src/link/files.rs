//! File operations of the tools.

use super::{ANSWER_TIMEOUT, GuestLink, queue};
use crate::error::SandboxError;
use toolcell_protocol::limits::{MAX_DATA_BYTES, MAX_FRAME_BYTES};
use toolcell_protocol::{Bytes, FileFacts, FileTarget, GuestMessage, HostMessage, ListEntry, ReadPart, Resolution};

/// Most paths in one [`GuestLink::resolve`].
const MAX_RESOLVE: usize = 256;

/// Part of a file, and the file as it was when read.
#[derive(Debug)]
pub struct FileRead {
    /// The wanted part, at most as long as asked for.
    pub data: Vec<u8>,
    /// Size, mode and time of the whole file, and whether more of the part was there.
    pub facts: FileFacts,
}

impl GuestLink {
    /// Where logical paths lead, in their order. Advisory by the time it arrives; file operations check again.
    ///
    /// # Errors
    /// [`SandboxError::Guest`], [`SandboxError::LinkLost`], [`SandboxError::Protocol`].
    pub async fn resolve(&self, paths: Vec<Vec<u8>>) -> Result<Vec<Resolution>, SandboxError> {
        let wanted = paths.len();
        if wanted > MAX_RESOLVE {
            return Err(self.broke(format!("{wanted} paths in one request; at most {MAX_RESOLVE}")));
        }
        let operation = self.open(queue::SMALL_BYTES)?;
        let paths = paths.into_iter().map(Bytes::from).collect();
        self.send(&HostMessage::Resolve { op: operation.op, paths })?;
        match operation.next_within(ANSWER_TIMEOUT).await? {
            GuestMessage::Resolved { paths, .. } if paths.len() == wanted => Ok(paths),
            other => Err(self.shared.unexpected(&other)),
        }
    }

    pub(crate) async fn read_file(
        &self,
        target: FileTarget,
        part: ReadPart,
        max_bytes: u64,
    ) -> Result<FileRead, SandboxError> {
        let bound = usize::try_from(max_bytes).unwrap_or(usize::MAX).saturating_mul(2).saturating_add(MAX_FRAME_BYTES);
        let operation = self.open(bound)?;
        self.send(&HostMessage::ReadFile { op: operation.op, target, part, max_bytes })?;
        let mut data = Vec::new();
        loop {
            match operation.next_within(ANSWER_TIMEOUT).await? {
                GuestMessage::Data { data: more, .. } => {
                    data.extend_from_slice(&more);
                    if data.len() as u64 > max_bytes {
                        return Err(self.broke(format!("more than the {max_bytes} bytes asked for")));
                    }
                }
                GuestMessage::FileRead { file, .. } => return Ok(FileRead { data, facts: file }),
                other => return Err(self.shared.unexpected(&other)),
            }
        }
    }

    pub(crate) async fn write_file(&self, request: WriteRequest<'_>) -> Result<Written, SandboxError> {
        let operation = self.open(queue::SMALL_BYTES)?;
        let op = operation.op;
        let WriteRequest { target, mode, overwrite, create_dirs, content } = request;
        let size = content.len() as u64;
        self.send(&HostMessage::WriteFile { op, target, mode, overwrite, create_dirs, size })?;
        let mut parts = content.chunks(MAX_DATA_BYTES).peekable();
        if parts.peek().is_none() {
            self.send(&HostMessage::WriteData { op, data: Bytes::new(), end: true })?;
        }
        while let Some(part) = parts.next() {
            let data = Bytes::from(part.to_vec());
            self.send_bulk(&HostMessage::WriteData { op, data, end: parts.peek().is_none() }).await?;
        }
        match operation.next_within(ANSWER_TIMEOUT).await? {
            GuestMessage::FileWritten { size: written, created, sha256, .. } if written == size => {
                Ok(Written { created, sha256 })
            }
            other => Err(self.shared.unexpected(&other)),
        }
    }

    pub(crate) async fn list_files(
        &self,
        target: FileTarget,
        depth: u32,
        hidden: bool,
        max_entries: u32,
    ) -> Result<(Vec<ListEntry>, bool), SandboxError> {
        let operation = self.open(queue::WALK_BYTES)?;
        self.send(&HostMessage::ListFiles { op: operation.op, target, depth, hidden, max_entries })?;
        let mut all = Vec::new();
        loop {
            match operation.next_within(ANSWER_TIMEOUT).await? {
                GuestMessage::Listed { entries, end, truncated, .. } => {
                    all.extend(entries);
                    if all.len() > max_entries as usize {
                        return Err(self.broke(format!("more than the {max_entries} entries asked for")));
                    }
                    if end {
                        return Ok((all, truncated));
                    }
                }
                other => return Err(self.shared.unexpected(&other)),
            }
        }
    }

    pub(super) fn broke(&self, reason: String) -> SandboxError {
        SandboxError::Protocol { container: self.shared.container.clone(), reason }
    }
}

/// What to write, and how.
#[derive(Debug)]
pub(crate) struct WriteRequest<'a> {
    pub(crate) target: FileTarget,
    pub(crate) mode: Option<u32>,
    pub(crate) overwrite: bool,
    pub(crate) create_dirs: bool,
    pub(crate) content: &'a [u8],
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Nothing was there before.
    pub created: bool,
    /// SHA-256 of the content, as the guest wrote it.
    pub sha256: [u8; 32],
}
