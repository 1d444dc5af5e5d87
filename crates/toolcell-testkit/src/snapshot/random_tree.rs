//! Small random workspaces and random changes to them: the same for the same seed, so that a failure can be repeated.

use super::fixture::noise;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, mknodat, setxattr, utimensat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Names are few, so that things come to stand where other things stood.
const NAMES: [&[u8]; 10] = [b"a", b"b", b"c", b"d", b"...", b"line\nbreak", b"\xff\xfe\x80", b" ", b"-rf", b"long"];
const LONG_NAME_BYTES: usize = 255;
/// Entries are not made deeper than this.
const MOST_LEVELS: usize = 6;

/// A directory that changes at random.
#[derive(Debug)]
pub struct RandomTree {
    root: PathBuf,
    seed: u64,
    step: u64,
}

impl RandomTree {
    /// Over a directory that is there; the same seed makes the same tree of an empty one.
    #[must_use]
    pub fn new(root: &Path, seed: u64) -> Self {
        Self { root: root.to_path_buf(), seed, step: 0 }
    }

    /// Makes this many random changes; a change for which nothing suitable is there is none.
    pub fn change(&mut self, changes: usize) {
        for _ in 0..changes {
            self.one_change();
        }
    }

    fn random(&mut self, below: usize) -> usize {
        self.step += 1;
        let bytes = noise(self.seed ^ (self.step << 24), 8);
        let number = u64::from_le_bytes(bytes.try_into().unwrap());
        usize::try_from(number % below.max(1) as u64).unwrap()
    }

    fn pick(&mut self, wanted: impl Fn(&Path, &std::fs::Metadata) -> bool) -> Option<PathBuf> {
        let mut all = Vec::new();
        list(&self.root, &mut all);
        all.retain(|path| wanted(path, &path.symlink_metadata().unwrap()));
        if all.is_empty() {
            return None;
        }
        let at = self.random(all.len());
        Some(all.swap_remove(at))
    }

    fn directory(&mut self) -> PathBuf {
        let (root, depth) = (self.root.clone(), self.root.components().count() + MOST_LEVELS);
        let nested = self.pick(|path, stat| stat.is_dir() && path.components().count() < depth);
        if self.random(3) == 0 { root } else { nested.unwrap_or(root) }
    }

    fn file(&mut self) -> Option<PathBuf> {
        self.pick(|_, stat| stat.is_file())
    }

    /// A place for something new; what stood there is gone.
    fn place(&mut self) -> PathBuf {
        let directory = self.directory();
        let name = NAMES[self.random(NAMES.len())];
        let long = "n".repeat(LONG_NAME_BYTES);
        let name = if name == b"long" { long.as_bytes() } else { name };
        let path = directory.join(OsStr::from_bytes(name));
        remove(&path);
        path
    }

    fn content(&mut self) -> Vec<u8> {
        let sizes = [0, 1, 13, 4096, 4097, 70_000, 1_048_576, 1_300_000];
        // Large ones are rare, or nothing else would be done.
        let most = if self.random(8) == 0 { sizes.len() } else { 5 };
        let size = sizes[self.random(most)];
        // Few seeds, so that files have the same content.
        let seed = self.random(5) as u64;
        noise(seed, size)
    }

    fn one_change(&mut self) {
        match self.random(16) {
            0..=2 => {
                let (path, content) = (self.place(), self.content());
                std::fs::write(path, content).unwrap();
            }
            3 | 4 => std::fs::create_dir(self.place()).unwrap(),
            5 => {
                let targets = ["a", "no/such", "..", "/etc/passwd", "../../../..", "b"];
                let target = targets[self.random(targets.len())];
                std::os::unix::fs::symlink(target, self.place()).unwrap();
            }
            6 | 7 => {
                // The place may have been where the file, or a directory above it, stood.
                if let Some(file) = self.file() {
                    let place = self.place();
                    drop(std::fs::hard_link(file, place));
                }
            }
            8 => {
                if let Some(from) = self.pick(|_, _| true) {
                    let to = self.place();
                    // Not into itself.
                    drop(std::fs::rename(from, to));
                }
            }
            9 => {
                if let Some(path) = self.pick(|_, _| true) {
                    remove(&path);
                }
            }
            10 => self.edit(),
            11 => {
                if let Some(path) = self.pick(|_, stat| !stat.is_symlink()) {
                    let modes = [0o000, 0o400, 0o555, 0o644, 0o700, 0o755, 0o777, 0o1777];
                    let mode = modes[self.random(modes.len())];
                    // Only root can look into what nobody may look into, as the guest can.
                    let readable = if rustix::process::geteuid().is_root() { 0 } else { 0o700 };
                    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode | readable)).unwrap();
                }
            }
            12 => {
                if let Some(path) = self.pick(|_, _| true) {
                    let (secs, nanos) =
                        [(-5, 1), (0, 0), (1_234_567_890, 999_999_999), (7_258_118_400, 5)][self.random(4)];
                    let time = Timespec { tv_sec: secs, tv_nsec: nanos };
                    let times = Timestamps { last_access: time, last_modification: time };
                    utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
                }
            }
            13 => {
                if let Some(path) = self.pick(|_, stat| (stat.is_file() || stat.is_dir()) && stat.mode() & 0o200 != 0) {
                    let value = noise(self.random(4) as u64, 9);
                    let name = ["user.a", "user.b"][self.random(2)];
                    setxattr(&path, name, &value, XattrFlags::empty()).unwrap();
                }
            }
            14 => {
                let path = self.place();
                mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            }
            _ => {
                if let Some(file) = self.file() {
                    // The same size, other bytes: only times tell.
                    let size = usize::try_from(file.metadata().unwrap().len()).unwrap();
                    let content = noise(self.step, size);
                    drop(std::fs::write(file, content));
                }
            }
        }
    }

    /// Cuts, stretches or overwrites a part of a file.
    fn edit(&mut self) {
        let Some(path) = self.file() else { return };
        let Ok(file) = std::fs::OpenOptions::new().write(true).open(path) else { return };
        let size = file.metadata().unwrap().len();
        match self.random(3) {
            0 => file.set_len(size / 2).unwrap(),
            // A hole at the end.
            1 => file.set_len((size + 200_000).min(3_000_000)).unwrap(),
            _ => file.write_all_at(&noise(self.step, 100), size / 3).unwrap(),
        }
    }
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Err(_) => {}
        Ok(stat) if stat.is_dir() => std::fs::remove_dir_all(path).unwrap(),
        Ok(_) => std::fs::remove_file(path).unwrap(),
    }
}

/// Everything beneath a directory, in the order of the names.
fn list(directory: &Path, all: &mut Vec<PathBuf>) {
    let mut names: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for path in names {
        let is_dir = path.symlink_metadata().unwrap().is_dir();
        all.push(path.clone());
        if is_dir {
            list(&path, all);
        }
    }
}
