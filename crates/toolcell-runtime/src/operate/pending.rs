//! Temporary.
use super::{ArchiveForm, OperateError};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc::{Receiver, Sender};
use toolcell_model::*;
use toolcell_snapshot::*;
#[async_trait]
pub(super) trait Pending {
    async fn gc(
        &self,
        _: &mut HeadWriter,
        _: &mut SlotIndex,
        _: &Retention,
        _: &dyn ProgressSink,
    ) -> Result<GcReceipt, GcError> {
        Ok(GcReceipt::default())
    }
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
    async fn fork(
        &self,
        _: &ScopeKey,
        _: SnapshotId,
        _: &mut HeadWriter,
        _: &mut SlotIndex,
    ) -> Result<SnapshotReceipt, ForkError> {
        Err(ForkError::Target { slot: String::new() })
    }
}
impl Pending for SnapshotEngine {}
