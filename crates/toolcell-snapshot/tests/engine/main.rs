//! Snapshots of real directories, back into real directories.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failed unwrap is the test's failure"
)]

mod collection;
mod compaction;
mod fork;
mod history;
mod hostile;
mod incremental;
mod local;
mod model;
mod random;
mod round_trip;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use toolcell_model::{Acquisition, Clock, FencingToken, ScopeKey, SnapshotId, TenantId};
use toolcell_snapshot::{
    HeadWriter, MemoryStore, RestoreError, RestoreReceipt, SlotIndex, SnapshotEngine, SnapshotError, SnapshotReceipt,
    SnapshotStore, WorkspaceSource,
};
use toolcell_testkit::snapshot::{DirSink, DirSource, FaultStore, FixedClock};

/// One slot over one store, with a writer and its index.
struct Slot {
    store: Arc<FaultStore>,
    engine: SnapshotEngine,
    key: ScopeKey,
    writer: HeadWriter,
    index: SlotIndex,
    dir: TempDir,
}

impl Slot {
    async fn new() -> Self {
        Self::with(Arc::new(MemoryStore::new()), FixedClock::far_ahead()).await
    }

    async fn with(store: Arc<dyn SnapshotStore>, clock: impl Clock + 'static) -> Self {
        let store = FaultStore::new(store);
        let engine = SnapshotEngine::open(Arc::clone(&store) as Arc<dyn SnapshotStore>, [1; 32], Arc::new(clock));
        let engine = engine.await.unwrap();
        let key = ScopeKey::ephemeral().unwrap();
        let writer = stamp(&engine, &key, 1).await;
        Self { store, engine, key, writer, index: SlotIndex::empty(), dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn source(&self) -> DirSource {
        DirSource::new([self.path().to_path_buf()])
    }

    async fn try_save(&mut self, source: &dyn WorkspaceSource) -> Result<SnapshotReceipt, SnapshotError> {
        self.engine.snapshot(&mut self.writer, &mut self.index, source, &roots(), "sha256:image").await
    }

    async fn save(&mut self) -> SnapshotReceipt {
        let source = self.source();
        self.try_save(&source).await.unwrap()
    }

    async fn try_restore(&self, snapshot: SnapshotId, target: &Path) -> Result<RestoreReceipt, RestoreError> {
        let sink = DirSink::new([target.to_path_buf()]);
        let restored = self.engine.restore(&self.key, snapshot, &roots(), &sink).await;
        assert_eq!(sink.finished(), restored.is_ok());
        restored
    }

    async fn restore(&self, snapshot: SnapshotId) -> TempDir {
        let target = tempfile::tempdir().unwrap();
        self.try_restore(snapshot, target.path()).await.unwrap();
        target
    }
}

async fn stamp(engine: &SnapshotEngine, key: &ScopeKey, token: u64) -> HeadWriter {
    let acquisition = Acquisition::generate().unwrap();
    engine.stamp(&TenantId::default_tenant(), key, FencingToken(token), acquisition, None).await.unwrap()
}

fn roots() -> Vec<String> {
    vec!["/workspace".to_owned()]
}

/// What was read, without directories, whose attributes are read too.
fn files_read(source: &DirSource, root: &Path) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let path = |path: &[u8]| root.join(std::ffi::OsStr::from_bytes(path));
    let mut read: Vec<_> =
        source.take_fetches().iter().map(|fetch| path(&fetch.path)).filter(|p| p.is_file()).collect();
    read.dedup();
    read
}
