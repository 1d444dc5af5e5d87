//! The guard in memory passes what every guard must.
#![cfg(feature = "lease")]

use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use toolcell_lease::ExecutionGuard;
use toolcell_testkit::lease::{ExpiringGuardHarness, FakeLeaseStore, GuardHarness, Link};
use toolcell_testkit::{expiring_guard_conformance, guard_conformance};

const TTL: Duration = Duration::from_millis(800);

#[derive(Default)]
struct Fake(FakeLeaseStore);

#[async_trait]
impl GuardHarness for Fake {
    async fn guard(&self) -> Arc<dyn ExecutionGuard> {
        Arc::new(self.0.guard(TTL))
    }
}

#[async_trait]
impl ExpiringGuardHarness for Fake {
    async fn breakable(&self) -> (Arc<dyn ExecutionGuard>, Arc<dyn Link>) {
        let guard = Arc::new(self.0.guard(TTL));
        (guard.clone(), guard)
    }
}

guard_conformance!(fake, Fake::default());
expiring_guard_conformance!(fake_expiring, Fake::default());
