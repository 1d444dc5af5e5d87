//! Real directories as the target of restores: what the guest does, for tests, and stricter about the order of items.

use super::walk::{open_dir, open_parent};
use async_trait::async_trait;
use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, XattrFlags, fchmod, fsetxattr, ftruncate, futimens, linkat, mkdirat,
    openat, symlinkat, utimensat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;
use toolcell_snapshot::{MAX_ITEM_BYTES, Meta, RestoreItem, SourceError, TimeNs, WorkspaceSink};

#[derive(Debug, Default)]
struct State {
    dirs: Vec<(u16, Vec<u8>, Meta)>,
    begun: Option<(u16, Vec<u8>, Meta, std::fs::File)>,
    items: usize,
    finished: bool,
}

/// Empty real directories, one per root.
#[derive(Debug)]
pub struct DirSink {
    roots: Vec<PathBuf>,
    state: Mutex<State>,
}

impl DirSink {
    /// A sink over directories that are there and empty.
    #[must_use]
    pub fn new(roots: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { roots: roots.into_iter().collect(), state: Mutex::default() }
    }

    /// Whether the engine said that everything was put.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.state.lock().unwrap().finished
    }

    /// How many items were put.
    #[must_use]
    pub fn items(&self) -> usize {
        self.state.lock().unwrap().items
    }

    fn apply(&self, state: &mut State, item: RestoreItem) -> Result<(), Errno> {
        let continues = matches!(item, RestoreItem::Extent { .. } | RestoreItem::FileEnd { .. });
        if let Some((root, path, ..)) = &state.begun {
            assert!(continues, "an item before a file's end");
            assert_eq!(item.location(), (*root, path.as_slice()), "an extent of another file");
        } else {
            assert!(!continues, "an extent of no file");
        }
        let root_dir = |root: u16| &self.roots[usize::from(root)];
        match item {
            RestoreItem::Dir { root, path, meta } => {
                if !path.is_empty() {
                    let (dir, name) = open_parent(root_dir(root), &path)?;
                    mkdirat(&dir, name, Mode::RWXU)?;
                }
                state.dirs.push((root, path, meta));
            }
            RestoreItem::File { root, path, meta, size, data, complete } => {
                assert!(data.len() <= MAX_ITEM_BYTES, "an item of {} bytes", data.len());
                let (dir, name) = open_parent(root_dir(root), &path)?;
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = std::fs::File::from(openat(&dir, name, flags, Mode::RUSR | Mode::WUSR)?);
                file.write_all_at(&data, 0).map_err(|_| Errno::IO)?;
                ftruncate(&file, size)?;
                if complete {
                    seal(&file, &meta)?;
                } else {
                    state.begun = Some((root, path, meta, file));
                }
            }
            RestoreItem::Extent { offset, data, .. } => {
                assert!(data.len() <= MAX_ITEM_BYTES, "an item of {} bytes", data.len());
                let (.., file) = state.begun.as_ref().expect("checked above");
                file.write_all_at(&data, offset).map_err(|_| Errno::IO)?;
            }
            RestoreItem::FileEnd { .. } => {
                let (_, _, meta, file) = state.begun.take().expect("checked above");
                seal(&file, &meta)?;
            }
            RestoreItem::Symlink { root, path, target, meta } => {
                let (dir, name) = open_parent(root_dir(root), &path)?;
                symlinkat(OsStr::from_bytes(&target), &dir, name)?;
                utimensat(&dir, name, &timestamps(meta.mtime), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            RestoreItem::Hardlink { root, path, to } => {
                let (from_dir, from) = open_parent(root_dir(root), &to)?;
                let (dir, name) = open_parent(root_dir(root), &path)?;
                linkat(&from_dir, from, &dir, name, AtFlags::empty())?;
            }
        }
        Ok(())
    }

    fn set_dirs(&self, dirs: Vec<(u16, Vec<u8>, Meta)>) -> Result<(), Errno> {
        // Parents come first, so that the reverse is deepest first.
        for (root, path, meta) in dirs.into_iter().rev() {
            let dir: OwnedFd = open_dir(&self.roots[usize::from(root)], &path)?;
            seal(dir, &meta)?;
        }
        Ok(())
    }
}

fn timestamps(mtime: TimeNs) -> Timestamps {
    let time = Timespec { tv_sec: mtime.secs, tv_nsec: mtime.nanos.into() };
    Timestamps { last_access: time, last_modification: time }
}

fn seal(file: impl std::os::fd::AsFd, meta: &Meta) -> Result<(), Errno> {
    for (name, value) in &meta.xattrs {
        fsetxattr(&file, OsStr::from_bytes(name), value, XattrFlags::empty())?;
    }
    fchmod(&file, Mode::from_raw_mode(meta.mode))?;
    futimens(&file, &timestamps(meta.mtime))
}

fn failed(error: Errno) -> SourceError {
    SourceError::Internal { detail: error.to_string() }
}

#[async_trait]
impl WorkspaceSink for DirSink {
    async fn put(&self, item: RestoreItem) -> Result<(), SourceError> {
        let mut state = self.state.lock().unwrap();
        assert!(!state.finished, "an item after the end");
        state.items += 1;
        self.apply(&mut state, item).map_err(failed)
    }

    async fn finish(&self) -> Result<(), SourceError> {
        let mut state = self.state.lock().unwrap();
        assert!(state.begun.is_none() && !state.finished, "finished in the middle, or twice");
        state.finished = true;
        self.set_dirs(std::mem::take(&mut state.dirs)).map_err(failed)
    }
}
