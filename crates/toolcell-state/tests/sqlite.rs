//! State in SQLite: the suite of all stores, and what only files can do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

use async_trait::async_trait;
use std::sync::Arc;
use tempfile::TempDir;
use toolcell_state::{SqliteStore, StateStore};
use toolcell_testkit::state::StateHarness;
use toolcell_testkit::state_store_conformance;

struct Sqlite(TempDir);

#[async_trait]
impl StateHarness for Sqlite {
    async fn open(&self) -> Arc<dyn StateStore> {
        Arc::new(SqliteStore::open(self.0.path()).unwrap())
    }
}

state_store_conformance!(sqlite, Sqlite(tempfile::tempdir().unwrap()));
