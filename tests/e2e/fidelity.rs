//! Whatever a workspace holds goes through the guest of a real container into the store, and comes back equal.

use crate::support::{Cell, Told, expect_state};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use toolcell_testkit::snapshot::{Facts, RandomTree, describe, everything_tree, many_files};

const CALL: &str = "[snapshots]\ndurability = \"call\"\n[agents.coder.permissions]\nmode = \"bypass\"\n";

/// Has the workspace saved, and answers with where it is on this host.
fn save(cell: &Cell) -> PathBuf {
    let result = cell.shell("alice", "true");
    expect_state(&result, "succeeded");
    assert_eq!(result["slot"]["durable"], true, "{result:#}");
    cell.workspace(result["slot"]["key"].as_str().unwrap())
}

fn begin() -> Option<(Cell, PathBuf)> {
    let mut cell = Cell::new(CALL)?;
    cell.serve_telling();
    let workspace = save(&cell);
    Some((cell, workspace))
}

/// What a new host makes of the store.
fn back(cell: &mut Cell) -> BTreeMap<Vec<u8>, Facts> {
    cell.lose_all_but_the_store();
    cell.serve_telling();
    describe(&save(cell))
}

#[track_caller]
fn expect_same(before: &BTreeMap<Vec<u8>, Facts>, after: &BTreeMap<Vec<u8>, Facts>, context: &str) {
    let shown = |path: &[u8]| String::from_utf8_lossy(path).chars().take(200).collect::<String>();
    let of = |path: &Vec<u8>| (before.get(path), after.get(path));
    let paths = before.keys().chain(after.keys());
    let differs: Vec<_> = paths.filter(|path| before.get(*path) != after.get(*path)).take(3).collect();
    let differs: Vec<_> = differs.into_iter().map(|path| (shown(path), of(path))).collect();
    assert!(differs.is_empty(), "{context}: {differs:#?}");
}

#[test]
fn everything_comes_back_and_what_was_deleted_does_not() {
    let Some((mut cell, workspace)) = begin() else { return };
    if !rustix::process::geteuid().is_root() {
        // Only root can look at the tool user's closed files from outside.
        return cell.finish();
    }
    everything_tree(&workspace);
    std::fs::write(workspace.join("set-id"), "#!/bin/sh\n").unwrap();
    cell.output_of("alice", "true");
    rustix::fs::chmod(workspace.join("set-id"), rustix::fs::Mode::from_raw_mode(0o6755)).unwrap();
    let mut before = describe(&workspace);
    save(&cell);
    let told = Told::last(&cell.log(), "DEBUG saved slot=");
    assert_eq!(told.number("specials"), 2, "a FIFO and a socket: {told:?}");
    // What lends an identity is not kept.
    before.get_mut(&b"set-id"[..]).unwrap().mode = 0o755;
    expect_same(&before, &back(&mut cell), "everything");

    for gone in ["nested", "links/a", "large", "sparse"] {
        let path = workspace.join(gone);
        if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
    }
    save(&cell);
    let before = describe(&workspace);
    assert!(!before.contains_key(&b"large"[..]) && before.contains_key(&b"links/b/third"[..]));
    expect_same(&before, &back(&mut cell), "after deleting");
    cell.finish();
}

/// Random trees through several snapshots, each compared with what the store alone gives back.
fn random_trees(seeds: std::ops::Range<u64>, steps: usize) {
    let Some((mut cell, workspace)) = begin() else { return };
    if !rustix::process::geteuid().is_root() {
        return cell.finish();
    }
    for seed in seeds {
        // Each seed by itself, so that it can be repeated by itself.
        for entry in std::fs::read_dir(&workspace).unwrap() {
            let path = entry.unwrap().path();
            let is_dir = path.symlink_metadata().unwrap().is_dir();
            if is_dir { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
        }
        let mut tree = RandomTree::new(&workspace, seed);
        tree.change(40);
        for step in 0..steps {
            save(&cell);
            tree.change(6);
            save(&cell);
            let before = describe(&workspace);
            expect_same(&before, &back(&mut cell), &format!("seed {seed}, step {step}"));
            tree.change(6);
        }
    }
    cell.finish();
}

#[test]
fn random_trees_come_back_through_a_real_container() {
    random_trees(0..1, 4);
}

#[test]
#[ignore = "many trees: scripts/soak runs it"]
fn soak_random_trees_through_a_real_container() {
    random_trees(100..130, 4);
}

#[test]
#[ignore = "makes 100 000 files: scripts/soak runs it"]
fn soak_100_000_entries_and_a_sparse_gibibyte_come_back() {
    let Some((mut cell, workspace)) = begin() else { return };
    many_files(&workspace, 100_000, 100);
    let sparse = std::fs::File::create(workspace.join("sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    for offset in [4096, 500 << 20, (1 << 30) - 8192] {
        sparse.write_all_at(b"data", offset).unwrap();
    }
    save(&cell);
    let told = Told::last(&cell.log(), "DEBUG saved slot=");
    assert_eq!(told.number("files"), 100_001);
    assert!(told.number("new_bytes") < 64 << 20, "holes are not kept: {told:?}");
    let before = describe(&workspace);
    expect_same(&before, &back(&mut cell), "100 000 entries");
    cell.finish();
}
