//! The suite of state stores.

mod bindings;
mod calls;
mod listing;
mod recovery;
mod sample;
mod sessions;

pub use bindings::*;
pub use calls::*;
pub use listing::*;
pub use recovery::*;
pub use sample::Sample;
pub use sessions::*;

use async_trait::async_trait;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use toolcell_state::StateStore;

/// A backend under test.
#[async_trait]
pub trait StateHarness: Send + Sync {
    /// An opening of its own of the one store, as another process, or the same one after a restart, would have it.
    async fn open(&self) -> Arc<dyn StateStore>;
}

/// No test of a suite takes longer, except one that hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs one test of the suite.
pub fn run<F: Future<Output = ()>>(
    harness: impl StateHarness + 'static,
    test: impl FnOnce(Arc<dyn StateHarness>) -> F,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let harness = Arc::new(harness);
    let ended = runtime.block_on(async { tokio::time::timeout(TEST_TIMEOUT, test(harness)).await });
    ended.expect("the test hangs");
}

/// Makes a module `$name` with one test for each behaviour that any [`StateStore`] must have. `$make` is an expression
/// for a fresh [`StateHarness`].
#[macro_export]
macro_rules! state_store_conformance {
    ($name:ident, $make:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "whatever the expression needs")]
            use super::*;
            $crate::state_store_conformance!(@tests $make;
                a_fresh_call_is_queued,
                the_same_call_again_is_the_recorded_one,
                another_tool_or_input_is_a_conflict_and_nothing_is_recorded,
                an_id_twice_in_one_batch_is_a_conflict,
                an_absent_session_or_user_is_no_present_one,
                of_many_recorders_of_one_id_exactly_one_is_first,
                of_conflicting_recorders_of_one_id_exactly_one_is_first,
                a_batch_keeps_its_order_and_knows_earlier_calls,
                a_call_is_started_once,
                only_a_queued_call_is_started,
                an_asking_call_keeps_its_decision,
                a_change_needs_the_state_it_starts_from,
                a_final_state_never_changes,
                an_end_must_be_a_final_state,
                everything_comes_back_as_it_was_given,
                what_is_not_recorded_is_not_there,
                too_large_numbers_are_refused,
                calls_are_listed_newest_first_and_filtered,
                pages_are_not_disturbed_by_new_calls,
                a_page_is_bounded,
                a_page_is_bounded_in_bytes,
                a_foreign_cursor_is_refused,
                slots_are_listed_page_by_page,
                calls_of_living_owners_are_left_alone,
                calls_of_dead_owners_are_taken_over_once,
                many_abandoned_calls_come_in_portions,
                only_what_ended_long_ago_expires,
                an_expired_id_may_be_used_again,
                the_instance_stays_and_every_opening_is_another_owner,
                a_binding_is_replaced_by_newer_holders_only,
                a_binding_is_changed_by_its_own_acquisition_only,
                the_highest_generation_stays,
                a_sessions_permissions_come_back_as_they_were_put,
                sessions_do_not_see_each_others_permissions,
                of_two_changes_of_a_session_none_undoes_the_other,
                a_sessions_permissions_are_bounded,
            );
        }
    };
    (@tests $make:expr; $($test:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                $crate::state::run($make, $crate::state::$test);
            }
        )*
    };
}
