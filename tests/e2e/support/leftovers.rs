//! What a program that has ended must not leave behind.

use super::docker::Docker;
use std::path::Path;

/// Everything of an ended instance that should not be there, in words.
pub(crate) fn leftovers(docker: &Docker, data_dir: &Path) -> Vec<String> {
    let mut found: Vec<String> =
        docker.containers_with(data_dir).into_iter().map(|name| format!("container {name}")).collect();
    // Sockets and secrets of containers; workspaces, whose content the head holds; files without a name yet; locks
    // that say that a process lives.
    for part in ["run", "slots", "snapshots/tmp", "owners"] {
        found.extend(entries(&data_dir.join(part)).map(|name| format!("{part}/{name}")));
    }
    walk(data_dir, &mut found);
    found
}

fn entries(directory: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Sockets, and files whose name says that they are not finished.
fn walk(directory: &Path, found: &mut Vec<String>) {
    use std::os::unix::fs::FileTypeExt;
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_socket() || name.starts_with('.') || name.ends_with(".tmp") {
            found.push(entry.path().display().to_string());
        } else if kind.is_dir() {
            walk(&entry.path(), found);
        }
    }
}
