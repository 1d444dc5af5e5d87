//! The suite of snapshot stores, a store that fails on purpose, and workspaces in real directories.

mod bad_s3;
mod clock;
mod dir_sink;
mod dir_source;
mod fault;
mod fixture;
mod head_suite;
mod proxy;
mod random_tree;
mod services;
mod store_suite;
mod trouble;
mod walk;

pub use bad_s3::{BadS3, Manners};
pub use clock::FixedClock;
pub use dir_sink::DirSink;
pub use dir_source::DirSource;
pub use fault::{Fault, FaultStore, Operation};
pub use fixture::{backdate, everything_tree, many_files, noise};
pub use head_suite::*;
pub use proxy::{FaultProxy, NetworkFault};
pub use random_tree::RandomTree;
pub use services::service;
pub use store_suite::*;
pub use trouble::{Trouble, TroubledStore};
pub use walk::{Facts, describe};

use async_trait::async_trait;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use toolcell_snapshot::SnapshotStore;

/// A store under test.
#[async_trait]
pub trait StoreHarness: Send + Sync {
    /// A handle of its own over the one store, as another process, or the same one after a restart, would have it.
    async fn store(&self) -> Arc<dyn SnapshotStore>;

    /// Whether answers get lost on the way. A refused exchange of a head, or a refused creation of the same bytes, may
    /// then be in doubt; never may one that was refused count as made.
    fn loses_answers(&self) -> bool {
        false
    }

    /// Largest object that it takes.
    fn max_object_bytes(&self) -> u64 {
        toolcell_snapshot::MAX_OBJECT_BYTES
    }

    /// Largest head that it takes.
    fn max_head_bytes(&self) -> u64 {
        toolcell_snapshot::MAX_HEAD_BYTES
    }
}

/// No test of a suite takes longer, except one that hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs one test of the suite. Without a harness there is no such server here, and that was said.
pub fn run<F: Future<Output = ()>>(
    harness: Option<impl StoreHarness + 'static>,
    test: impl FnOnce(Arc<dyn StoreHarness>) -> F,
) {
    let Some(harness) = harness else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let harness = Arc::new(harness);
    let ended = runtime.block_on(async { tokio::time::timeout(TEST_TIMEOUT, test(harness)).await });
    ended.expect("the test hangs");
}

/// Makes a module `$name` with one test for each behaviour that any [`SnapshotStore`] must have. `$make` is an
/// expression for an `Option` of a fresh [`StoreHarness`].
#[macro_export]
macro_rules! snapshot_store_conformance {
    ($name:ident, $make:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "whatever the expression needs")]
            use super::*;
            $crate::snapshot_store_conformance!(@tests $make;
                bytes_come_back_empty_small_and_large,
                ranges_are_exact,
                an_object_is_created_once,
                concurrent_creations_have_one_winner,
                sizes_are_checked_before_reading,
                deleting_is_idempotent,
                listing_is_in_order_by_prefix_and_page,
                names_at_their_bounds,
                errors_have_the_same_kinds_everywhere,
                a_head_is_replaced_only_by_who_knows_it,
                heads_of_slots_are_independent_and_no_objects,
                concurrent_commits_have_exactly_one_winner,
                a_reader_during_commits_sees_old_or_new,
                everything_survives_another_handle,
                a_stale_holder_cannot_commit,
                a_stamp_needs_a_higher_token,
                a_lost_head_is_never_seeded_over,
                the_same_acquisition_resumes,
                a_lost_response_of_a_stamp_is_found_out,
                a_lost_response_of_a_commit_is_found_out,
                a_commit_that_is_repeated_on_the_way_counts_once,
                a_commit_in_doubt_counts_if_someone_built_on_it,
                a_commit_that_arrives_late_is_adopted,
                a_commit_whose_doubt_cannot_be_resolved_says_so,
                a_deleted_slot_fences_and_starts_empty,
                a_crash_before_the_head_leaves_only_garbage,
                damaged_objects_are_corrupt_by_name,
                another_secret_is_refused,
            );
        }
    };
    (@tests $make:expr; $($test:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                $crate::snapshot::run($make, $crate::snapshot::$test);
            }
        )*
    };
}
