//! The head protocol, collection, forks and readers, in every order that a scheduler can think of.
//!
//! What runs is the real engine. Each operation of the store is a point at which the scheduler may let somebody else
//! go on, lose a response, deliver a write late, or let its actor die. After every step the checker looks at the store.
//! Broken rules must be noticed: each has a test of its own. `TOOLCELL_MODEL_RUNS` makes it look longer.
//!
//! **Read first**: [`world`], then [`store`], then [`run`].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a failed unwrap is the test's failure"
)]

mod actors;
mod checker;
mod run;
mod store;
mod world;

use run::{Outcome, explore};
use toolcell_snapshot::Weakening;
use world::Scenario;

/// Runs per scenario, unless the environment says otherwise.
const RUNS: u64 = 250;
/// A broken rule has to be noticed within this many.
const RUNS_TO_NOTICE: u64 = 6000;

fn runs() -> u64 {
    std::env::var("TOOLCELL_MODEL_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS)
}

fn holds(scenario: Scenario) {
    if let Outcome::Broken { seed, violation, schedule } = explore(scenario, None, runs()) {
        panic!("{scenario:?}, seed {seed}: {violation}\n{schedule}");
    }
}

fn is_noticed(scenario: Scenario, rule: Weakening) {
    match explore(scenario, Some(rule), RUNS_TO_NOTICE) {
        Outcome::Broken { seed, violation, schedule } => {
            eprintln!("{rule:?} in {scenario:?}, seed {seed}: {violation}\n{schedule}");
        }
        Outcome::Holds => panic!("{scenario:?}: {rule:?} was not noticed in {RUNS_TO_NOTICE} runs"),
    }
}

#[test]
fn holders_never_lose_an_acknowledged_commit() {
    holds(Scenario::Holders);
}

#[test]
fn collections_never_take_what_a_head_needs() {
    holds(Scenario::Collection);
}

#[test]
fn forks_and_readers_keep_what_they_need() {
    holds(Scenario::Forks);
}

#[test]
fn everything_at_once() {
    holds(Scenario::Everything);
}

#[test]
fn a_stamp_with_an_equal_token_is_noticed() {
    is_noticed(Scenario::Holders, Weakening::StampWithEqualToken);
}

#[test]
fn a_commit_that_is_retried_is_noticed() {
    is_noticed(Scenario::Holders, Weakening::CommitRetried);
}

#[test]
fn a_head_before_its_manifest_is_noticed() {
    is_noticed(Scenario::Holders, Weakening::HeadBeforeManifest);
}

#[test]
fn a_collection_by_age_is_noticed() {
    is_noticed(Scenario::Collection, Weakening::CollectByAge);
}

#[test]
fn a_pin_after_the_manifest_is_noticed() {
    is_noticed(Scenario::Forks, Weakening::PinAfterManifest);
}

#[test]
fn pins_that_are_listed_early_are_noticed() {
    is_noticed(Scenario::Forks, Weakening::PinsListedEarly);
}
