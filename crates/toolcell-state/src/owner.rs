//! Which process a call belongs to, and whether that process still lives.
//!
//! Each opening of the store is an owner with a random name and a file `owners/<name>.lock`, which it keeps locked
//! with flock(2) until it is closed or its process ends, however that happens. A call is abandoned when nobody holds
//! its owner's lock. The lock is the only proof: a process id could be another process's by now.

use crate::error::StateError;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolcell_model::IdError;

const PREFIX: &str = "o_";
const SUFFIX: &str = ".lock";

/// Opening takes milliseconds; ten seconds of others doing it one after another is an error.
const OPENING_TRIES: u32 = 1000;
const OPENING_PAUSE: Duration = Duration::from_millis(10);

/// The name of one opening of the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(String);

impl OwnerId {
    /// A fresh random name.
    pub(crate) fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(format!("{PREFIX}{}", data_encoding::HEXLOWER.encode(&bytes))))
    }

    /// Accepts exactly what opening a store makes, so that the name is safe as a file name.
    ///
    /// # Errors
    /// [`IdError::Malformed`].
    pub fn parse(text: impl Into<String>) -> Result<Self, IdError> {
        let text = text.into();
        let hex = text.strip_prefix(PREFIX).and_then(|hex| data_encoding::HEXLOWER.decode(hex.as_bytes()).ok());
        if hex.is_some_and(|bytes| bytes.len() == 16) {
            Ok(Self(text))
        } else {
            Err(IdError::Malformed {
                kind: "owner",
                text: text.chars().take(80).collect(),
                expected: "`o_` and 32 lower-case hex digits",
            })
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for OwnerId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::parse(text)
    }
}

/// The directory of owners, and this process's place in it.
#[derive(Debug)]
pub(crate) struct Owners {
    directory: PathBuf,
    me: OwnerId,
    // Locked as long as it is open.
    _lock: File,
}

/// Keeps other processes from opening the store at the same time, until dropped.
#[derive(Debug)]
pub(crate) struct Opening {
    directory: PathBuf,
    _lock: File,
}

#[derive(Debug, PartialEq, Eq)]
enum Lock {
    Missing,
    Free,
    Held,
}

impl Opening {
    /// Waits up to [`OPENING_TRIES`] times [`OPENING_PAUSE`] for others that are opening the store in `data_dir`.
    pub(crate) fn begin(data_dir: &Path) -> Result<Self, StateError> {
        let directory = data_dir.join("owners");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|error| failed("making", &directory, error))?;
        let lock = File::open(&directory).map_err(|error| failed("opening", &directory, error))?;
        for _ in 0..OPENING_TRIES {
            match retry_on_intr(|| rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)) {
                Ok(()) => return Ok(Self { directory, _lock: lock }),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(OPENING_PAUSE),
                Err(errno) => return Err(failed("locking", &directory, errno.into())),
            }
        }
        Err(StateError::Locked {
            doing: format!("locking {}", directory.display()),
            source: "another process has been opening the store all the time".into(),
        })
    }

    /// Registers a new owner and clears away the files of dead ones.
    pub(crate) fn register(&self) -> Result<Owners, StateError> {
        let me = OwnerId::generate().map_err(|error| StateError::Unavailable {
            doing: "drawing a random owner".to_owned(),
            source: error.into(),
        })?;
        self.sweep()?;
        let path = lock_path(&self.directory, &me);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = retry_on_intr(|| rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR))
            .map(File::from)
            .map_err(|errno| failed("making", &path, errno.into()))?;
        retry_on_intr(|| rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive))
            .map_err(|errno| failed("locking", &path, errno.into()))?;
        Ok(Owners { directory: self.directory.clone(), me, _lock: lock })
    }

    fn sweep(&self) -> Result<(), StateError> {
        let reading = |error| failed("reading", &self.directory, error);
        for entry in fs::read_dir(&self.directory).map_err(reading)? {
            let path = entry.map_err(reading)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let owner = name.and_then(|name| name.strip_suffix(SUFFIX)).map(OwnerId::parse);
            if matches!(owner, Some(Ok(_))) && probe(&path)? == Lock::Free {
                fs::remove_file(&path).map_err(|error| failed("removing", &path, error))?;
            }
        }
        Ok(())
    }
}

impl Owners {
    pub(crate) const fn me(&self) -> &OwnerId {
        &self.me
    }

    /// Whether the owner's process still has its store open.
    pub(crate) fn is_alive(&self, owner: &OwnerId) -> Result<bool, StateError> {
        Ok(*owner == self.me || probe(&lock_path(&self.directory, owner))? == Lock::Held)
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        let path = lock_path(&self.directory, &self.me);
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "an owner's file stays until the next start");
        }
    }
}

fn lock_path(directory: &Path, owner: &OwnerId) -> PathBuf {
    directory.join(format!("{owner}{SUFFIX}"))
}

/// Takes the lock, shared, for a moment: its owner locked it before anyone could know of it, and keeps it for life.
fn probe(path: &Path) -> Result<Lock, StateError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty())) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(Lock::Missing),
        Err(errno) => return Err(failed("opening", path, errno.into())),
    };
    match retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared)) {
        Ok(()) => Ok(Lock::Free),
        Err(Errno::WOULDBLOCK) => Ok(Lock::Held),
        Err(errno) => Err(failed("looking at", path, errno.into())),
    }
}

pub(crate) fn failed(doing: &str, path: &Path, source: io::Error) -> StateError {
    let doing = format!("{doing} {}", path.display());
    let kind = source.kind();
    let source = source.into();
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StateError::NoSpace { doing, source },
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => StateError::ReadOnly { doing, source },
        _ => StateError::Unavailable { doing, source },
    }
}
