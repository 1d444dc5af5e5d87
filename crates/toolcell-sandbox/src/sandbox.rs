//! A running container. What runs a tool in it takes a permit by value.

use crate::error::SandboxError;
use crate::link::{ExecHandle, FileRead, GuestLink, WriteRequest, Written};
use toolcell_model::CallRef;
use toolcell_permission::{CallDigest, Permit, PermittedCall};
use toolcell_protocol::{Bytes, ExecSpec, FileTarget, ListEntry, ReadPart};

/// A running container with its guest. Dropping it ends the connection, not the container.
#[derive(Debug)]
pub struct Sandbox {
    pub(crate) name: String,
    pub(crate) link: GuestLink,
}

/// How to write a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Replace what is there.
    pub overwrite: bool,
    /// Make missing parents.
    pub create_dirs: bool,
}

impl Sandbox {
    /// The container's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The connection, for the runtime's own operations: resolve, scan, fetch, restore.
    #[must_use]
    pub fn link(&self) -> &GuestLink {
        &self.link
    }

    /// Starts a tool process. The permit is used up, whatever happens.
    ///
    /// # Errors
    /// [`SandboxError::Permit`] when the permit is for another call, [`SandboxError::LinkLost`]; nothing was started.
    pub fn exec(
        &self,
        permit: Permit,
        digest: &CallDigest,
        call: &CallRef,
        spec: ExecSpec,
    ) -> Result<ExecHandle, SandboxError> {
        permit.consume(digest).map_err(SandboxError::Permit)?;
        self.link.exec(call, spec)
    }

    /// Reads part of the file that the permit names, beneath `roots`.
    ///
    /// # Errors
    /// [`SandboxError::Permit`], [`SandboxError::Guest`], [`SandboxError::LinkLost`].
    pub async fn read_file(
        &self,
        permit: Permit,
        digest: &CallDigest,
        roots: &[String],
        part: ReadPart,
        max_bytes: u64,
    ) -> Result<FileRead, SandboxError> {
        let permitted = permit.consume(digest).map_err(SandboxError::Permit)?;
        self.link.read_file(target(&permitted, roots)?, part, max_bytes).await
    }

    /// Writes the file that the permit names, beneath `roots`, atomically.
    ///
    /// # Errors
    /// [`SandboxError::Permit`], [`SandboxError::Guest`], [`SandboxError::LinkLost`].
    pub async fn write_file(
        &self,
        permit: Permit,
        digest: &CallDigest,
        roots: &[String],
        options: WriteOptions,
        content: &[u8],
    ) -> Result<Written, SandboxError> {
        let permitted = permit.consume(digest).map_err(SandboxError::Permit)?;
        let target = target(&permitted, roots)?;
        let WriteOptions { mode, overwrite, create_dirs } = options;
        self.link.write_file(WriteRequest { target, mode, overwrite, create_dirs, content }).await
    }

    /// Lists the directory that the permit names, beneath `roots`.
    ///
    /// # Errors
    /// [`SandboxError::Permit`], [`SandboxError::Guest`], [`SandboxError::LinkLost`].
    pub async fn list_files(
        &self,
        permit: Permit,
        digest: &CallDigest,
        roots: &[String],
        depth: u32,
        hidden: bool,
        max_entries: u32,
    ) -> Result<(Vec<ListEntry>, bool), SandboxError> {
        let permitted = permit.consume(digest).map_err(SandboxError::Permit)?;
        self.link.list_files(target(&permitted, roots)?, depth, hidden, max_entries).await
    }
}

/// The file target comes from the permit itself, so that what is opened is what was decided.
fn target(permitted: &PermittedCall, roots: &[String]) -> Result<FileTarget, SandboxError> {
    let [path] = permitted.paths() else {
        return Err(SandboxError::PermitPaths { paths: permitted.paths().len() });
    };
    Ok(FileTarget {
        path: Bytes::from(path.logical.as_bytes().to_vec()),
        roots: roots.iter().map(|root| Bytes::from(root.as_bytes().to_vec())).collect(),
        decided: Bytes::from(path.real.as_bytes().to_vec()),
    })
}
