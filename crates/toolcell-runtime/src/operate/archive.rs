//! A slot's files as a tar archive, out and in, piece by piece.

use super::OperateError;
use crate::inner::Inner;
use bytes::Bytes;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc::{Receiver, channel};
use toolcell_model::{ScopeKey, ScopeTuple, SnapshotId, TenantId};
use toolcell_snapshot::{ArchiveFormat, ImportOptions, SlotIndex};

/// Pieces of an archive on their way to a client; the store waits for a slow one.
const PIECES: usize = 4;
/// What workspaces hold where nothing says otherwise.
const USUAL_ROOTS: [&str; 2] = ["/workspace", "/home/agent"];

impl Inner {
    /// The archive of a snapshot, the newest one if none is named, as it is made. An error ends it.
    pub(super) async fn operate_export(
        self: &Arc<Self>,
        tenant: &TenantId,
        key: &ScopeKey,
        snapshot: Option<SnapshotId>,
        format: ArchiveFormat,
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
        self.tasks.spawn(async move {
            let (parts, mut made) = channel(1);
            let exporting = inner.doing(&key, "exporting");
            let work = inner.snapshots.export(&key, snapshot, format, parts, &exporting);
            let to = pieces.clone();
            let passing = async move {
                // Where nobody takes a piece any more the receiver goes, and with it the export.
                while let Some(part) = made.recv().await {
                    if to.send(Ok(part)).await.is_err() {
                        return;
                    }
                }
            };
            let (exported, ()) = tokio::join!(work, passing);
            if let Err(source) = exported {
                let error = OperateError::Export { key: key.clone(), source };
                if pieces.send(Err(error)).await.is_err() {
                    tracing::debug!(slot = key.as_str(), "nobody takes an archive any more");
                }
            }
        });
        Ok(archive)
    }

    /// Replaces the slot's files by an archive's, as a new commit, after saving what is there. An archive that breaks off
    /// commits nothing.
    pub(super) async fn operate_import(
        &self,
        tenant: &TenantId,
        key: &ScopeKey,
        archive: Receiver<io::Result<Bytes>>,
    ) -> Result<SnapshotId, OperateError> {
        let record = self.known_slot(tenant, key).await?;
        self.keeping_store()?;
        let mut taken = self.take(tenant, key).await?;
        let importing = self.doing(key, "importing");
        let options = self.import_options(key, record.map(|record| record.tuple), taken.held.writer.snapshot()).await;
        let mut archive = Pieces { archive, piece: Bytes::new() };
        let mut index = SlotIndex::empty();
        let imported =
            self.snapshots.import(&mut taken.held.writer, &mut index, &mut archive, &options, &importing).await;
        let done = match imported {
            Ok(receipt) => {
                let newest = receipt.snapshot.ok_or_else(|| OperateError::NothingSaved { key: key.clone() });
                self.note_head(key, receipt.generation).await.and(newest)
            }
            Err(source) => Err(OperateError::Import { key: key.clone(), source }),
        };
        drop(importing);
        taken.give_back().await;
        done
    }

    /// The roots that the slot has, or will have by its agents' configuration.
    async fn import_options(
        &self,
        key: &ScopeKey,
        tuple: Option<ScopeTuple>,
        newest: Option<SnapshotId>,
    ) -> ImportOptions {
        let info = match newest {
            Some(snapshot) => self.snapshots.snapshot_info(key, snapshot).await.ok(),
            None => None,
        };
        let mut roots = info.as_ref().map(|info| info.roots.clone()).unwrap_or_default();
        let owner = tuple.as_ref().and_then(|tuple| match tuple {
            ScopeTuple::User { owner, .. } | ScopeTuple::Agent { owner, .. } => Some(owner),
            ScopeTuple::Session { .. } | ScopeTuple::Global { .. } => None,
        });
        for (name, agent) in &self.agents {
            let uses = owner.is_none_or(|owner| match owner {
                toolcell_model::Owner::Agent(owner) => owner == name,
                toolcell_model::Owner::Workspace(workspace) => agent.workspace.as_ref() == Some(workspace),
            });
            if uses {
                roots.extend(agent.spec.persist.iter().cloned());
            }
        }
        if roots.is_empty() {
            roots.extend(USUAL_ROOTS.map(str::to_owned));
        }
        roots.sort();
        roots.dedup();
        let image_digest = info.map(|info| info.image_digest).unwrap_or_default();
        ImportOptions { roots, image_digest, allow_outside_links: false }
    }
}

/// Pieces of an archive as a reader.
struct Pieces {
    archive: Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.piece.is_empty() {
            match ready!(self.archive.poll_recv(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(piece) => self.piece = piece?,
            }
        }
        let count = self.piece.len().min(into.remaining());
        into.put_slice(&self.piece.split_to(count));
        Poll::Ready(Ok(()))
    }
}
