//! The file tools, native in the guest.

use super::{Placed, failed};
use crate::error::CallError;
use crate::inner::Inner;
use crate::workspace::watch;
use toolcell_model::{CallFault, CallOutcome};
use toolcell_permission::{CallDigest, ContainerPath, Permit};
use toolcell_protocol::{EntryKind, ListEntry, ReadPart};
use toolcell_sandbox::{SandboxError, WriteOptions};
use toolcell_tools::output::{self, FileContent, INLINE_BYTES, ListedEntry, ListedKind, WrittenFile};
use toolcell_tools::{ListFilesInput, ReadFileInput, ReadFilePart, WriteFileInput, list_files};

impl Inner {
    pub(super) async fn read_file(
        &self,
        placed: &Placed<'_>,
        permit: Permit,
        digest: &CallDigest,
        input: &ReadFileInput,
    ) -> Result<CallOutcome, CallError> {
        let part = match input.part {
            ReadFilePart::Lines { first, limit } => {
                ReadPart::Lines { first, count: ReadFilePart::lines_to_fetch(limit) }
            }
            ReadFilePart::Base64 => ReadPart::Bytes { offset: 0 },
        };
        let sandbox = &placed.residency.sandbox;
        // A little more than is shown, so that the output sees where it has to cut.
        let max = INLINE_BYTES as u64 + 16;
        let read = sandbox.read_file(permit, digest, &placed.agent.file_root_texts, part, max).await;
        match tool_failure(read)? {
            Ok(read) => {
                let content = FileContent { bytes: &read.data, more: read.facts.truncated, size: read.facts.size };
                Ok(output::read_file(input, &content))
            }
            Err(fault) => Ok(failed(fault)),
        }
    }

    pub(super) async fn write_file(
        &self,
        placed: &Placed<'_>,
        permit: Permit,
        digest: &CallDigest,
        input: &WriteFileInput,
    ) -> Result<CallOutcome, CallError> {
        let options = WriteOptions { mode: input.mode, overwrite: input.overwrite, create_dirs: input.create_dirs };
        let sandbox = &placed.residency.sandbox;
        if !watch::fits(placed.residency, input.content.len() as u64).await.map_err(CallError::Sandbox)? {
            return Ok(failed(watch::no_space()));
        }
        let roots = &placed.agent.file_root_texts;
        let written = sandbox.write_file(permit, digest, roots, options, &input.content).await;
        Ok(match tool_failure(written)? {
            Ok(written) => output::write_file(
                input,
                &WrittenFile { size: input.content.len() as u64, sha256: written.sha256, created: written.created },
            ),
            Err(fault) => failed(fault),
        })
    }

    pub(super) async fn list_files(
        &self,
        placed: &Placed<'_>,
        permit: Permit,
        digest: &CallDigest,
        input: &ListFilesInput,
    ) -> Result<CallOutcome, CallError> {
        let sandbox = &placed.residency.sandbox;
        let roots = &placed.agent.file_root_texts;
        let listed =
            sandbox.list_files(permit, digest, roots, input.depth, input.hidden, list_files::MAX_ENTRIES).await;
        Ok(match tool_failure(listed)? {
            Ok((entries, more)) => {
                let entries = entries.into_iter().map(listed_entry).collect();
                let is_denied = |path: &ContainerPath| placed.permissions.denies_path(list_files::NAME, path);
                output::list_files(input, entries, more, &is_denied)
            }
            Err(fault) => failed(fault),
        })
    }
}

/// What the guest could not do is the tool's failure; everything else is the runtime's.
fn tool_failure<T>(done: Result<T, SandboxError>) -> Result<Result<T, CallFault>, CallError> {
    match done {
        Ok(value) => Ok(Ok(value)),
        Err(SandboxError::Guest(error)) => {
            Ok(Err(CallFault { code: error.code.as_str().to_owned(), message: error.message }))
        }
        Err(error) => Err(CallError::Sandbox(error)),
    }
}

fn listed_entry(entry: ListEntry) -> ListedEntry {
    ListedEntry {
        path: entry.path.into_vec(),
        kind: match entry.kind {
            EntryKind::Dir => ListedKind::Directory,
            EntryKind::File { size } => ListedKind::File { size },
            EntryKind::Symlink { .. } => ListedKind::Symlink,
            EntryKind::Special => ListedKind::Special,
        },
        mode: entry.mode,
        mtime_ms: entry.mtime.secs.saturating_mul(1000).saturating_add(i64::from(entry.mtime.nanos / 1_000_000)),
    }
}
