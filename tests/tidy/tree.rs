//! The repository as files.

use std::path::{Path, PathBuf};

/// Directories that hold nothing of ours.
const NOT_OURS: [&str; 2] = ["target", ".git"];

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a directory of the repository").to_owned()
}

/// A file of the repository as text.
pub(crate) fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Files with this extension beneath a directory, as sorted paths relative to the root.
pub(crate) fn files(beneath: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(&root().join(beneath), extension, &mut found);
    found.sort();
    assert!(!found.is_empty(), "no .{extension} file beneath {beneath:?}: the walk is broken");
    found
}

/// All Rust files of the repository.
pub(crate) fn rust_files() -> Vec<String> {
    files("", "rs")
}

/// The directories beneath `crates/`, by name.
pub(crate) fn crates() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("crates")).expect("crates/ is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("crates/ can be listed").file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn walk(directory: &Path, extension: &str, found: &mut Vec<String>) {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for entry in entries {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            if !NOT_OURS.iter().any(|name| entry.file_name() == *name) {
                walk(&path, extension, found);
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            let relative = path.strip_prefix(root()).unwrap();
            found.push(relative.to_str().expect("names of the repository are UTF-8").to_owned());
        }
    }
}
