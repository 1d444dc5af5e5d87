//! The blocking side of the local store.

use super::super::{
    HeadRecord, HeadVersion, ListPage, Listed, MAX_HEAD_BYTES, ObjectName, ObjectPrefix, check_size, head_name,
    version_of,
};
use crate::error::StoreError;
use bytes::Bytes;
use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use toolcell_model::ScopeKey;

/// Directories that are known to be durable; beyond this many the set starts anew and they are synced again.
const MAX_KNOWN_DIRS: usize = 4096;

#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    scratch: Scratch,
    durable_dirs: Mutex<HashSet<PathBuf>>,
}

impl Files {
    pub(super) fn open(root: &Path) -> Result<Self, StoreError> {
        let open = || -> io::Result<Scratch> {
            let builder = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
            for part in ["objects", "heads", "locks", "tmp"] {
                builder(&root.join(part))?;
            }
            sync_dir(root)?;
            if let Some(parent) = root.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                sync_dir(parent)?;
            }
            Scratch::open(&root.join("tmp"))
        };
        let scratch = open().map_err(|error| classify(&root.display(), error))?;
        Ok(Self { root: root.to_path_buf(), scratch, durable_dirs: Mutex::default() })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn object(&self, name: &ObjectName) -> PathBuf {
        let (owner, class, leaf) = name.parts();
        self.root.join("objects").join(owner).join(class).join(leaf)
    }

    pub(super) fn put(&self, name: &ObjectName, data: &[u8]) -> Result<(), StoreError> {
        let target = self.object(name);
        let failed = |error| classify(name, error);
        let parent = target.parent().ok_or_else(|| StoreError::internal(name, "an object without a directory"))?;
        self.make_durable_dir(parent).map_err(failed)?;
        let temporary = self.scratch.write(data).map_err(failed)?;
        match renameat_with(CWD, temporary.path(), CWD, &target, RenameFlags::NOREPLACE) {
            Ok(()) => temporary.forget(),
            Err(error) => return Err(failed(error.into())),
        }
        sync_dir(parent).map_err(|error| StoreError::InDoubt { object: name.to_string(), source: error.into() })
    }

    /// Makes the directories of an object, and knows that they outlive a crash.
    fn make_durable_dir(&self, dir: &Path) -> io::Result<()> {
        let known = || self.durable_dirs.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(dir) {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        for ancestor in dir.ancestors().skip(1).take_while(|ancestor| ancestor.starts_with(&self.root)) {
            sync_dir(ancestor)?;
        }
        let mut known = known();
        if known.len() >= MAX_KNOWN_DIRS {
            known.clear();
        }
        known.insert(dir.to_path_buf());
        Ok(())
    }

    pub(super) fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        let failed = |error| classify(name, error);
        let file = open_read(&self.object(name)).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        check_size(name, bytes, max_bytes)?;
        read_exactly(file, bytes).map(Bytes::from).map_err(failed)
    }

    pub(super) fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        let failed = |error| classify(name, error);
        let file = open_read(&self.object(name)).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        if offset.checked_add(len).is_none_or(|end| end > bytes) {
            return Err(StoreError::corrupt(name, format!("it ends at {bytes}, before {offset} + {len}")));
        }
        let mut data = vec![0; usize::try_from(len).map_err(|error| StoreError::internal(name, error))?];
        file.read_exact_at(&mut data, offset).map_err(failed)?;
        Ok(Bytes::from(data))
    }

    pub(super) fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        let failed = |error| classify(prefix, error);
        let objects = self.root.join("objects");
        let may_hold = |dir: &str| dir.starts_with(prefix.as_str()) || prefix.as_str().starts_with(dir);
        let mut names = Vec::new();
        for owner in sub_names(&objects).map_err(failed)? {
            if !may_hold(&format!("{owner}/")) {
                continue;
            }
            for class in sub_names(&objects.join(&owner)).map_err(failed)? {
                if !may_hold(&format!("{owner}/{class}/")) {
                    continue;
                }
                let leaves = sub_names(&objects.join(&owner).join(&class)).map_err(failed)?;
                names.extend(leaves.into_iter().filter_map(|leaf| {
                    let name = ObjectName::parse(format!("{owner}/{class}/{leaf}")).ok()?;
                    let wanted = name.as_str().starts_with(prefix.as_str()) && after.is_none_or(|after| name > *after);
                    wanted.then_some(name)
                }));
            }
        }
        names.sort_unstable();
        let mut page = ListPage::default();
        for name in names {
            if page.objects.len() == limit {
                page.more = true;
                break;
            }
            match std::fs::symlink_metadata(self.object(&name)) {
                Ok(metadata) => page.objects.push(Listed { name, bytes: metadata.len() }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(classify(&name, error)),
            }
        }
        Ok(page)
    }

    pub(super) fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        let target = self.object(name);
        let failed = |error| classify(name, error);
        match std::fs::remove_file(&target) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
        target.parent().map_or(Ok(()), |parent| sync_dir(parent).map_err(failed))
    }

    pub(super) fn head(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        let name = head_name(slot);
        let file = match open_read(&self.root.join("heads").join(slot.as_str())) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(classify(&name, error)),
        };
        let bytes = file.metadata().map_err(|error| classify(&name, error))?.len();
        check_size(&name, bytes, MAX_HEAD_BYTES)?;
        let data = read_exactly(file, bytes).map_err(|error| classify(&name, error))?;
        Ok(Some(HeadRecord { version: version_of(&data), data: Bytes::from(data) }))
    }

    pub(super) fn replace_head(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: &[u8],
    ) -> Result<HeadVersion, StoreError> {
        let name = head_name(slot);
        let failed = |error| classify(&name, error);
        // Released when the file is closed, at the end of this function.
        let lock = private().create(true).truncate(false).open(self.root.join("locks").join(slot.as_str()));
        let lock = lock.map_err(failed)?;
        flock_waiting(&lock).map_err(failed)?;
        if self.head(slot)?.map(|record| record.version).as_ref() != expected {
            return Err(StoreError::PreconditionFailed { object: name });
        }
        let heads = self.root.join("heads");
        let temporary = self.scratch.write(data).map_err(failed)?;
        std::fs::rename(temporary.path(), heads.join(slot.as_str())).map_err(failed)?;
        temporary.forget();
        sync_dir(&heads).map_err(|error| StoreError::InDoubt { object: name.clone(), source: error.into() })?;
        Ok(version_of(data))
    }
}

/// Where this process writes what has no name yet.
#[derive(Debug)]
struct Scratch {
    dir: PathBuf,
    lock_path: PathBuf,
    /// Locked for as long as this process lives.
    _lock: File,
    next: AtomicU64,
}

impl Scratch {
    fn open(tmp: &Path) -> io::Result<Self> {
        remove_abandoned(tmp)?;
        loop {
            let mut random = [0; 16];
            getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
            let name = data_encoding::HEXLOWER.encode(&random);
            let lock_path = tmp.join(format!("{name}.lock"));
            let lock = private().create_new(true).open(&lock_path)?;
            // Another process that opens the store may take a lock file that is not locked yet for an abandoned one.
            let locked = flock(&lock, FlockOperation::NonBlockingLockExclusive);
            if locked.is_err() || lock.metadata()?.nlink() == 0 {
                continue;
            }
            let dir = tmp.join(name);
            DirBuilder::new().mode(0o700).create(&dir)?;
            return Ok(Self { dir, lock_path, _lock: lock, next: AtomicU64::new(0) });
        }
    }

    fn write(&self, data: &[u8]) -> io::Result<Temporary> {
        let path = self.dir.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        let mut file = private().create_new(true).open(&path)?;
        let temporary = Temporary(Some(path));
        file.write_all(data)?;
        file.sync_all()?;
        Ok(temporary)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed here is removed by the next process that opens the store.
        if std::fs::remove_dir_all(&self.dir).is_ok() {
            drop(std::fs::remove_file(&self.lock_path));
        }
    }
}

/// A file without a name yet; removed when dropped.
struct Temporary(Option<PathBuf>);

impl Temporary {
    fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new(""))
    }

    /// It has got its name.
    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            drop(std::fs::remove_file(path));
        }
    }
}

/// Removes what processes that no longer live have left.
fn remove_abandoned(tmp: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(tmp)? {
        let path = entry?.path();
        if path.extension() != Some(OsStr::new("lock")) {
            continue;
        }
        let lock = match private().open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => continue,
            Err(error) => return Err(error.into()),
        }
        for removed in [std::fs::remove_dir_all(path.with_extension("")), std::fs::remove_file(&path)] {
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(())
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0));
    options
}

fn open_read(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0)).open(path)
}

fn read_exactly(file: File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut data = Vec::with_capacity(usize::try_from(bytes).map_err(io::Error::other)?);
    file.take(bytes).read_to_end(&mut data)?;
    Ok(data)
}

fn flock_waiting(file: &File) -> io::Result<()> {
    loop {
        match flock(file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            other => return other.map_err(Into::into),
        }
    }
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Names in a directory; none if it is not there.
fn sub_names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    entries.filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose()).collect()
}

fn classify(object: &impl ToString, error: io::Error) -> StoreError {
    let object = object.to_string();
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => StoreError::NotFound { object },
        Some(Errno::EXIST) => StoreError::AlreadyExists { object },
        Some(Errno::NOSPC | Errno::DQUOT) => StoreError::NoSpace { object },
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::LOOP) => {
            StoreError::Denied { object, source: error.into() }
        }
        _ => StoreError::Unavailable { object, source: error.into() },
    }
}
