//! A snapshot of one moment, taken beside a tool that never rests.

use crate::support::{Cell, wait_for};
use std::time::Duration;

const CONFIG: &str = "[agents.coder.permissions]\nmode = \"bypass\"\n[snapshots]\nquiesce = true\nmax_lag_ms = 100\n";

/// Writes the number of the round into one file after the other.
const ROUNDS: &str = r#"
import itertools, os
files = [os.open(f"{at:03}", os.O_CREAT | os.O_WRONLY, 0o644) for at in range(400)]
for number in itertools.count():
    for file in files:
        os.pwrite(file, b"%08d" % number, 0)
    if number == 0:
        open("begun", "w").close()
"#;

#[test]
fn with_quiesce_files_that_belong_together_are_of_one_moment() {
    let Some(mut cell) = Cell::start(CONFIG) else { return };
    cell.call("alice", "write_file", &serde_json::json!({ "path": "/workspace/rounds.py", "content": ROUNDS }));
    cell.start_shell("alice", "python3 rounds.py");
    cell.wait_for_file("begun");
    let snapshots = cell.data_dir().join("snapshots");
    let manifests = || count(&snapshots, "manifests");
    let before = manifests();
    wait_for("five more snapshots", Duration::from_secs(30), || {
        let more = manifests() - before;
        if more >= 5 { Ok(()) } else { Err(format!("{more}")) }
    });
    // The host dies: what is left is the store, and the secret that opens it.
    cell.lose_all_but_the_store();
    cell.serve();
    let values = cell.output_of("alice", "cat ??? | fold -w 8");
    let values: Vec<u64> = values.lines().map(|value| value.parse().unwrap()).collect();
    assert_eq!(values.len(), 400);
    assert!(values.is_sorted_by(|one, next| one >= next), "{values:?}");
    assert!(values[0] - values[399] <= 1, "{values:?}");
    cell.finish();
}

/// Files somewhere below that lie in a directory of this name.
fn count(directory: &std::path::Path, name: &str) -> usize {
    let mut found = 0;
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found += count(&path, name);
        } else if directory.file_name().is_some_and(|here| here == name) {
            found += 1;
        }
    }
    found
}
