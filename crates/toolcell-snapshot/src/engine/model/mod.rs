//! Model checking of the head protocol: the real code of stamp, commit, settling and deletion, run by several holders at
//! once over a store whose every operation is a point where anybody else may go first, and where the operation may fail,
//! succeed with its answer lost, arrive much later, or be the last thing that its holder ever did.
//!
//! What is checked, at every change of the head and at the end: generations grow by one; a head of another acquisition
//! has a higher token; what the head names restores; and whatever was acknowledged before is in it, unless the slot was
//! deleted since. [`Rules`] weakens the protocol one rule at a time, and for each the checker has to find a violation.

mod actors;
mod check;
mod schedule;
mod store;
mod workspace;

use super::SnapshotEngine;
use crate::format::keys::StoreKeys;
use crate::store::SnapshotStore;
use schedule::{Plan, World};
use std::sync::Arc;
use toolcell_model::SystemClock;

/// Rules of the protocol that a test may break.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rules {
    /// A stamp is allowed over an equal token.
    pub(super) stamps_over_its_equal: bool,
    /// A commit that is refused reads the head again and tries once more.
    pub(super) rereads_when_refused: bool,
    /// The head is replaced before the manifest is there.
    pub(super) head_before_manifest: bool,
}

fn engine(store: Arc<dyn SnapshotStore>, broken: Rules) -> SnapshotEngine {
    SnapshotEngine {
        store,
        keys: StoreKeys::new([7; 32]),
        clock: Arc::new(SystemClock),
        max_workspace_bytes: super::DEFAULT_MAX_WORKSPACE_BYTES,
        broken,
        rules: crate::rules::Rules::default(),
    }
}

/// Who takes part.
#[derive(Debug, Clone, Copy)]
struct Cast {
    holders: usize,
    /// Acquisitions of each.
    rounds: usize,
    /// Snapshots in each acquisition.
    snapshots: usize,
    /// Somebody deletes the slot.
    deletes: bool,
}

const THREE: Cast = Cast { holders: 3, rounds: 2, snapshots: 2, deletes: false };
const WITH_DELETION: Cast = Cast { holders: 2, deletes: true, ..THREE };
/// Few enough steps to try every order.
const SMALL: Cast = Cast { holders: 2, rounds: 1, snapshots: 1, deletes: false };

/// Runs one schedule to its end. The error is what was violated, with everything that happened.
fn run(plan: Plan, cast: Cast, rules: Rules) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let world = World::new(plan, rules);
        actors::start(&world, cast);
        world.run().await;
        let found = world.violation();
        found.map_or_else(|| Ok(()), |violation| Err(format!("{violation}\n{}", world.story())))
    })
}

/// Runs schedules until one is violated; answers with what was found.
fn first_violation(seeds: std::ops::Range<u64>, cast: Cast, rules: Rules) -> Option<String> {
    for seed in seeds {
        if let Err(found) = run(Plan::random(seed), cast, rules) {
            return Some(format!("seed {seed}: {found}"));
        }
    }
    None
}

/// How many schedules: TOOLCELL_MODEL_SEEDS, or what fits into a test run.
#[allow(clippy::disallowed_methods, reason = "a longer run is asked for by a variable")]
fn seeds() -> u64 {
    std::env::var("TOOLCELL_MODEL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

/// A weakened rule is found within so many schedules.
const SEEDS_TO_FIND: u64 = 20_000;

#[test]
fn three_holders_lose_nothing_and_exclude_each_other() {
    if let Some(found) = first_violation(0..seeds(), THREE, Rules::default()) {
        panic!("{found}");
    }
}

#[test]
fn a_deletion_among_holders_loses_nothing_else() {
    if let Some(found) = first_violation(0..seeds(), WITH_DELETION, Rules::default()) {
        panic!("{found}");
    }
}

/// Tries orders depth first, at most so many. Answers with how many there were, and whether that was all.
fn every_order(faults: u32, most: u64) -> (u64, bool) {
    let (mut schedules, mut path) = (0, Vec::new());
    loop {
        let plan = Plan::exhaustive(path, faults);
        let made = plan.made();
        if let Err(found) = run(plan, SMALL, Rules::default()) {
            panic!("schedule {schedules}: {found}");
        }
        schedules += 1;
        match schedule::next_path(&made) {
            None => return (schedules, true),
            Some(_) if schedules >= most => return (schedules, false),
            Some(next) => path = next,
        }
    }
}

#[test]
fn every_order_of_two_holders() {
    let (schedules, complete) = every_order(0, 100_000);
    assert!(complete && schedules > 500, "{schedules}");
}

#[test]
fn orders_of_two_holders_with_a_fault_at_any_write() {
    every_order(1, seeds() * 4);
}

#[test]
fn a_stamp_over_an_equal_token_is_found_out() {
    let rules = Rules { stamps_over_its_equal: true, ..Rules::default() };
    let found = first_violation(0..SEEDS_TO_FIND, THREE, rules).expect("a violation");
    assert!(found.contains("token"), "{found}");
}

#[test]
fn a_commit_that_reads_again_and_retries_is_found_out() {
    let rules = Rules { rereads_when_refused: true, ..Rules::default() };
    first_violation(0..SEEDS_TO_FIND, THREE, rules).expect("a violation");
}

#[test]
fn a_head_before_its_manifest_is_found_out() {
    let rules = Rules { head_before_manifest: true, ..Rules::default() };
    let found = first_violation(0..SEEDS_TO_FIND, THREE, rules).expect("a violation");
    assert!(found.contains("restore"), "{found}");
}
