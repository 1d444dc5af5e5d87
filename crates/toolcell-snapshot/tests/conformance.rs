//! Every store has every behaviour of the suite.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failed unwrap is the test's failure"
)]

use async_trait::async_trait;
use std::sync::Arc;
use tempfile::TempDir;
use toolcell_snapshot::{LocalStore, MemoryStore, SnapshotStore};
use toolcell_testkit::snapshot::StoreHarness;

struct Memory(Arc<MemoryStore>);

#[async_trait]
impl StoreHarness for Memory {
    async fn store(&self) -> Arc<dyn SnapshotStore> {
        Arc::clone(&self.0) as Arc<dyn SnapshotStore>
    }
}

struct Local(TempDir);

#[async_trait]
impl StoreHarness for Local {
    async fn store(&self) -> Arc<dyn SnapshotStore> {
        Arc::new(LocalStore::open(self.0.path().join("snapshots")).await.unwrap())
    }
}

toolcell_testkit::snapshot_store_conformance!(memory, Memory(Arc::new(MemoryStore::new())));
toolcell_testkit::snapshot_store_conformance!(local, Local(tempfile::tempdir().unwrap()));
