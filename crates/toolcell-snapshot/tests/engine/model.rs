//! Any sequence of changes and snapshots: each snapshot comes back as the workspace was.

use super::Slot;
use proptest::prelude::*;
use std::path::Path;
use toolcell_snapshot::SlotIndex;
use toolcell_testkit::snapshot::{describe, noise};

/// Few names, so that changes meet.
const NAMES: [&str; 6] = ["a", "b", "d/a", "d/b", "d/e/a", "e"];

#[derive(Debug, Clone)]
enum Change {
    Write(usize, u64, usize),
    Append(usize, u64),
    Remove(usize),
    RemoveDir,
    Rename(usize, usize),
    Link(usize, usize),
    Symlink(usize, usize),
    Mode(usize, u32),
    Save,
    LoseIndex,
}

fn change() -> impl Strategy<Value = Change> {
    let name = || 0..NAMES.len();
    let size = prop_oneof![Just(0), 1..5000usize, Just(1 << 20), Just((1 << 20) + 1), Just(3 << 20)];
    prop_oneof![
        4 => (name(), 0..5u64, size).prop_map(|(name, seed, len)| Change::Write(name, seed, len)),
        2 => (name(), 0..5u64).prop_map(|(name, seed)| Change::Append(name, seed)),
        2 => name().prop_map(Change::Remove),
        1 => Just(Change::RemoveDir),
        2 => (name(), name()).prop_map(|(from, to)| Change::Rename(from, to)),
        2 => (name(), name()).prop_map(|(from, to)| Change::Link(from, to)),
        1 => (name(), name()).prop_map(|(from, to)| Change::Symlink(from, to)),
        1 => (name(), 0..8u32).prop_map(|(name, bits)| Change::Mode(name, 0o600 | bits)),
        4 => Just(Change::Save),
        1 => Just(Change::LoseIndex),
    ]
}

/// Does what can be done: what cannot, as a write where a directory is, does nothing.
fn apply(root: &Path, change: &Change) {
    use std::os::unix::fs::PermissionsExt;
    let path = |name: &usize| root.join(NAMES[*name]);
    let parent = |name: &usize| drop(std::fs::create_dir_all(path(name).parent().unwrap()));
    match change {
        Change::Write(name, seed, len) => {
            parent(name);
            drop(std::fs::write(path(name), noise(*seed, *len)));
        }
        Change::Append(name, seed) => {
            if let Ok(mut old) = std::fs::read(path(name)) {
                old.extend(noise(*seed, 100));
                drop(std::fs::write(path(name), old));
            }
        }
        Change::Remove(name) => drop(std::fs::remove_file(path(name))),
        Change::RemoveDir => drop(std::fs::remove_dir_all(root.join("d"))),
        Change::Rename(from, to) => {
            parent(to);
            drop(std::fs::rename(path(from), path(to)));
        }
        Change::Link(from, to) => {
            parent(to);
            drop(std::fs::hard_link(path(from), path(to)));
        }
        Change::Symlink(target, name) => {
            parent(name);
            drop(std::os::unix::fs::symlink(NAMES[*target], path(name)));
        }
        Change::Mode(name, mode) => {
            if path(name).is_file() {
                drop(std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(*mode)));
            }
        }
        Change::Save | Change::LoseIndex => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn every_snapshot_is_the_workspace_as_it_was(changes in prop::collection::vec(change(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            // The real clock: what has just changed is read again.
            let store = std::sync::Arc::new(toolcell_snapshot::MemoryStore::new());
            let mut slot = Slot::with(store, toolcell_model::SystemClock).await;
            let mut taken = Vec::new();
            for change in changes.iter().chain([&Change::Save]) {
                apply(slot.path(), change);
                match change {
                    Change::Save => taken.push((slot.save().await.snapshot.unwrap(), describe(slot.path()))),
                    Change::LoseIndex => slot.index = SlotIndex::empty(),
                    _ => {}
                }
            }
            for (snapshot, tree) in taken {
                let restored = slot.restore(snapshot).await;
                assert_eq!(describe(restored.path()), tree);
            }
        });
    }
}
