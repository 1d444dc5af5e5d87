//! Random trees through several snapshots with random changes between them: each comes back as it was.

use super::Slot;
use std::collections::BTreeSet;
use std::sync::Arc;
use toolcell_model::SystemClock;
use toolcell_snapshot::MemoryStore;
use toolcell_testkit::snapshot::{RandomTree, describe};

/// Trees that are tried; `TOOLCELL_TEST_SEEDS` says otherwise.
const SEEDS: u64 = 25;
const SNAPSHOTS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn random_trees_come_back_after_random_changes() {
    #[allow(clippy::disallowed_methods, reason = "how long a test runs is said from outside")]
    let seeds = std::env::var("TOOLCELL_TEST_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let mut kinds = BTreeSet::new();
    for seed in 0..seeds {
        // The real clock: that changes within one tick are noticed is part of what is tried.
        let mut slot = Slot::with(Arc::new(MemoryStore::new()), SystemClock).await;
        let mut tree = RandomTree::new(slot.path(), seed);
        let mut taken = Vec::new();
        tree.change(30);
        for step in 0..SNAPSHOTS {
            let receipt = slot.save().await;
            let there = describe(slot.path());
            assert_eq!(receipt.files_unstable, 0, "seed {seed}, step {step}");
            kinds.extend(there.values().map(|facts| facts.kind));
            taken.push((receipt.snapshot.unwrap(), there));
            tree.change(4);
        }
        for (step, (snapshot, there)) in taken.iter().enumerate() {
            let restored = slot.restore(*snapshot).await;
            assert_eq!(&describe(restored.path()), there, "seed {seed}, step {step}: TOOLCELL_TEST_SEEDS={}", seed + 1);
        }
    }
    assert_eq!(kinds, BTreeSet::from(['d', 'f', 'l']), "the trees had nothing in them");
}
