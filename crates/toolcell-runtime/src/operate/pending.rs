//! Temporary.
use super::{ArchiveForm, OperateError};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc::{Receiver, Sender};
use toolcell_model::*;
use toolcell_snapshot::*;
#[async_trait]
pub(super) trait Pending {
    async fn export(
        &self,
        _: &ScopeKey,
        _: SnapshotId,
        _: ArchiveForm,
        _: &Sender<Result<Bytes, OperateError>>,
        _: &dyn ProgressSink,
    ) -> Result<(), OperateError> {
        Ok(())
    }
    async fn import(
        &self,
        _: &mut HeadWriter,
        _: &mut SlotIndex,
        _: ArchiveForm,
        _: Receiver<std::io::Result<Bytes>>,
        _: &dyn ProgressSink,
    ) -> Result<SnapshotReceipt, OperateError> {
        Err(OperateError::KeepsNothing)
    }
}
impl Pending for SnapshotEngine {}
