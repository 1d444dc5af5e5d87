//! What a program that has ended must not leave behind.

use super::docker::Docker;
use std::path::{Path, PathBuf};

/// Everything of an ended instance that should not be there, in words.
pub(crate) fn leftovers(docker: &Docker, data_dir: &Path) -> Vec<String> {
    let mut found: Vec<String> =
        docker.containers_with(data_dir).into_iter().map(|name| format!("container {name}")).collect();
    // Sockets and secrets of containers; workspaces, whose content the head holds; files without a name yet; locks
    // that say that a process lives.
    for part in ["run", "slots", "snapshots/tmp", "owners"] {
        found.extend(entries(&data_dir.join(part)).map(|name| format!("{part}/{name}")));
    }
    found.extend(mounts(&data_dir.join("slots")).map(|mount| format!("mount {}", mount.display())));
    found.extend(loop_devices(data_dir));
    walk(data_dir, &mut found);
    found
}

/// What is mounted beneath a directory, the newest first.
fn mounts(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let paths: Vec<PathBuf> = table.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from).collect();
    paths.into_iter().rev().filter(|path| path.starts_with(directory)).collect::<Vec<_>>().into_iter()
}

/// Unmounts all that is mounted beneath a directory.
pub(crate) fn unmount_all(directory: &Path) {
    for mount in mounts(directory) {
        // Lazily: a test that failed may still have something open there.
        let _ = std::process::Command::new("umount").arg("--lazy").arg(mount).status();
    }
}

/// Loop devices whose file lies beneath this directory, also where the file is gone.
fn loop_devices(directory: &Path) -> Vec<String> {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let file = |device: std::fs::DirEntry| std::fs::read_to_string(device.path().join("loop/backing_file")).ok();
    let beneath = |file: &String| Path::new(file.trim()).starts_with(directory);
    devices.filter_map(file).filter(beneath).map(|file| format!("loop device of {}", file.trim())).collect()
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
