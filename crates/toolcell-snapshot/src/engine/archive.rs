//! Snapshots as plain tar archives: roots as top-level directories, names and times exact through PAX headers.

mod input;
mod write;

use super::SnapshotEngine;
use crate::error::{RestoreError, StoreError};
use crate::format::pin::PinPurpose;
use crate::progress::{Phase, Progress, ProgressSink};
use crate::receipt::RestoreReceipt;
use bytes::Bytes;
use tokio::sync::mpsc::Sender;
use toolcell_model::{ScopeKey, SnapshotId};
use write::TarSink;

pub(super) use input::{Entry, EntryBody, Input};

/// How an archive is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArchiveFormat {
    /// Plain tar.
    #[default]
    Tar,
    /// Compressed with zstd.
    TarZstd,
}

impl SnapshotEngine {
    /// Writes a snapshot as a tar archive, straight from the store: `/workspace` as `workspace/…`, and so on. The
    /// snapshot is pinned for as long as it takes. Every byte is checked before it is sent; an archive is whole if and
    /// only if this returns without an error. Holes of sparse files are written as zeros.
    ///
    /// Waits for whoever takes the parts, each of at most about a MiB. May be dropped.
    ///
    /// # Errors
    /// [`RestoreError`]; [`SourceError::Unavailable`](crate::SourceError::Unavailable) in it if nobody takes the parts
    /// any more, [`SourceError::TooLarge`](crate::SourceError::TooLarge) if the files have more bytes than a workspace
    /// may have.
    pub async fn export(
        &self,
        slot: &ScopeKey,
        snapshot: SnapshotId,
        format: ArchiveFormat,
        out: Sender<Bytes>,
        progress: &dyn ProgressSink,
    ) -> Result<RestoreReceipt, RestoreError> {
        let failed = |source: StoreError| RestoreError::Store { snapshot, source };
        let pin = self.pin(slot, snapshot, PinPurpose::Reader, "export").await.map_err(failed)?;
        let work = async {
            let manifest = self.manifest_to_restore(slot, snapshot).await?;
            let roots: Vec<String> = manifest.roots.iter().map(|root| root.path.clone()).collect();
            let sink = TarSink::new(&roots, format, out, self.max_workspace_bytes).map_err(RestoreError::Finish)?;
            let as_export = |now: Progress| progress.report(Progress { phase: Phase::Export, ..now });
            self.restore_with(slot, snapshot, &roots, &sink, &as_export).await
        };
        self.while_pinned(pin, work).await.map_err(failed)?
    }
}
