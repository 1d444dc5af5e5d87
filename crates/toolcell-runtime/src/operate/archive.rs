//! A slot's files as a tar archive, out and in, piece by piece.

use super::OperateError;
use super::pending::Pending;
use crate::inner::Inner;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use toolcell_model::{ScopeKey, SnapshotId, TenantId};
use toolcell_snapshot::SlotIndex;

/// Pieces of an archive on their way to a client; the store waits for a slow one.
const PIECES: usize = 8;

/// How an archive is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveForm {
    /// Plain tar.
    Tar,
    /// The same, compressed with zstd.
    TarZstd,
}

impl Inner {
    /// The archive of a snapshot, the newest one if none is named, as it is made. An error ends it.
    pub(super) async fn operate_export(
        self: &Arc<Self>,
        tenant: &TenantId,
        key: &ScopeKey,
        snapshot: Option<SnapshotId>,
        form: ArchiveForm,
    ) -> Result<Receiver<Result<Bytes, OperateError>>, OperateError> {
        self.known_slot(tenant, key).await?;
        self.keeping_store()?;
        self.refuse_missing(key, snapshot).await?;
        let snapshot = match snapshot {
            Some(snapshot) => snapshot,
            None => self.newest(key).await?,
        };
        let (pieces, archive) = channel(PIECES);
        let (inner, key) = (Arc::clone(self), key.clone());
        self.tasks.spawn(async move { inner.export_into(&key, snapshot, form, pieces).await });
        Ok(archive)
    }

    async fn export_into(
        &self,
        key: &ScopeKey,
        snapshot: SnapshotId,
        form: ArchiveForm,
        pieces: Sender<Result<Bytes, OperateError>>,
    ) {
        let exporting = self.doing(key, "exporting");
        let exported = self.snapshots.export(key, snapshot, form, &pieces, &exporting).await;
        if let Err(error) = exported
            && pieces.send(Err(error)).await.is_err()
        {
            tracing::debug!(slot = key.as_str(), "nobody takes an archive any more");
        }
    }

    /// Replaces the slot's files by an archive's, as a new commit, after saving what is there. An archive that breaks off
    /// commits nothing.
    pub(super) async fn operate_import(
        &self,
        tenant: &TenantId,
        key: &ScopeKey,
        form: ArchiveForm,
        archive: Receiver<std::io::Result<Bytes>>,
    ) -> Result<SnapshotId, OperateError> {
        self.known_slot(tenant, key).await?;
        self.keeping_store()?;
        let mut taken = self.take(tenant, key).await?;
        let importing = self.doing(key, "importing");
        let mut index = SlotIndex::empty();
        let imported = self.snapshots.import(&mut taken.held.writer, &mut index, form, archive, &importing).await;
        let done = match imported {
            Ok(receipt) => {
                let newest = receipt.snapshot.ok_or_else(|| OperateError::NothingSaved { key: key.clone() });
                self.note_head(key, receipt.generation).await.and(newest)
            }
            Err(error) => Err(error),
        };
        drop(importing);
        taken.give_back().await;
        done
    }
}
