//! The suites of execution guards, and a guard in memory whose leases expire and can be cut off.

mod expiring;
mod fake;
mod suite;

pub use expiring::*;
pub use fake::{FakeGuard, FakeLeaseStore};
pub use suite::*;

use async_trait::async_trait;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use toolcell_lease::ExecutionGuard;

/// A backend under test.
#[async_trait]
pub trait GuardHarness: Send + Sync {
    /// A guard of its own over the one backend, as another process, or the same one after a restart, would have it.
    async fn guard(&self) -> Arc<dyn ExecutionGuard>;
}

/// A backend whose leases expire. They should do so within a second: the tests wait for it.
#[async_trait]
pub trait ExpiringGuardHarness: GuardHarness {
    /// A guard of its own, and the only way from it to the backend.
    async fn breakable(&self) -> (Arc<dyn ExecutionGuard>, Arc<dyn Link>);
}

/// The way from a guard to its backend.
#[async_trait]
pub trait Link: Send + Sync {
    /// Nothing comes through any more, in either direction.
    async fn cut(&self);
    /// Everything does again.
    async fn heal(&self);
}

#[async_trait]
impl Link for FakeGuard {
    async fn cut(&self) {
        self.cut();
    }

    async fn heal(&self) {
        self.heal();
    }
}

/// No test of a suite takes longer, except one that hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs one test of the suite.
pub fn run<H, F: Future<Output = ()>>(harness: H, test: impl FnOnce(Arc<H>) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(TEST_TIMEOUT, test(Arc::new(harness))).await });
    ended.expect("the test hangs");
}

/// Makes a module `$name` with one test for each behaviour that any [`ExecutionGuard`] must have. `$make` is an
/// expression for a fresh [`GuardHarness`].
#[macro_export]
macro_rules! guard_conformance {
    ($name:ident, $make:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "whatever the expression needs")]
            use super::*;
            $crate::guard_conformance!(@tests $make;
                one_holder_at_a_time_under_contention,
                one_holder_at_a_time_while_slots_are_retired,
                tokens_strictly_increase_across_holders_and_restarts,
                a_token_lies_above_the_floor,
                a_used_up_floor_is_an_error_and_the_slot_stays_free,
                a_held_slot_is_busy_and_says_who_holds_it,
                waiting_ends_with_the_time_given,
                a_waiter_gets_what_is_released,
                waiters_are_served_in_order,
                forgotten_waiters_do_not_block,
                a_cancelled_acquisition_leaves_the_slot_free,
                a_dropped_lease_is_free_again,
                slots_are_independent,
                resuming_keeps_token_and_acquisition,
                resuming_fails_once_someone_has_acquired,
                resuming_what_was_never_given_fails,
                a_failed_resume_leaves_the_holder_alone,
                the_holder_is_listed_until_it_releases,
                listing_makes_no_acquirer_fail,
                a_held_lease_is_not_lost,
                a_retired_slot_is_free_and_listed_no_more,
            );
        }
    };
    (@tests $make:expr; $($test:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                $crate::lease::run($make, |harness| $crate::lease::$test(harness));
            }
        )*
    };
}

/// Makes a module `$name` with one test for each behaviour that an [`ExecutionGuard`] must have besides, if its leases
/// expire. `$make` is an expression for a fresh [`ExpiringGuardHarness`].
#[macro_export]
macro_rules! expiring_guard_conformance {
    ($name:ident, $make:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "whatever the expression needs")]
            use super::*;
            $crate::guard_conformance!(@tests $make;
                a_lease_without_a_holder_expires,
                a_cut_off_holder_is_told_before_anyone_else_gets_the_slot,
                a_cut_off_holder_is_told_in_time,
                a_short_interruption_is_survived,
                a_stale_holder_leaves_the_new_one_alone,
                an_unreachable_backend_gives_nothing,
            );
        }
    };
}
