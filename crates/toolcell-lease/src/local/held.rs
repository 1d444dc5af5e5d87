//! Taking, holding and letting go of one lock file.

use super::filesystem::require_local;
use super::queue::Turn;
use super::record::{self, Content, Record};
use crate::error::{GuardOpenError, LeaseError};
use crate::guard::{Holder, Holding};
use async_trait::async_trait;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use toolcell_model::{Acquisition, Clock, FencingToken, ScopeKey};

/// How often a lock file may vanish between being opened and being locked before that is an error.
const REOPEN_TRIES: u32 = 100;

/// Which acquisition is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Want {
    /// A new one, above the floor.
    Fresh { floor: FencingToken },
    /// The recorded one, if it is this.
    Same { token: FencingToken, acquisition: Acquisition },
}

/// What became of one attempt.
#[derive(Debug)]
pub(super) enum Attempt {
    Held(Held),
    Contended { turn: Turn, holder: Option<Holder> },
}

/// The directory of the lock files.
#[derive(Debug)]
pub(super) struct Locks {
    directory: PathBuf,
    clock: Arc<dyn Clock>,
}

/// One locked file.
#[derive(Debug)]
pub(super) struct Held {
    file: File,
    path: PathBuf,
    key: ScopeKey,
    record: Record,
    // Dropped last: the next of this process finds the file unlocked.
    _turn: Turn,
}

enum Locked {
    Mine(File),
    Others(Option<Holder>),
}

impl Locks {
    pub(super) fn open(directory: PathBuf, clock: Arc<dyn Clock>) -> Result<Self, GuardOpenError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(|source| GuardOpenError::Io { doing: "making", path: directory.clone(), source })?;
        require_local(&directory)?;
        Ok(Self { directory, clock })
    }

    /// One try for the lock, and for the acquisition behind it. Blocks on the file system.
    pub(super) fn attempt(&self, key: &ScopeKey, want: Want, turn: Turn) -> Result<Attempt, LeaseError> {
        let path = self.path(key);
        let failed = |doing: &str, source: io::Error| unavailable(key, doing, &path, source);
        let file = match self.lock(key)? {
            Locked::Mine(file) => file,
            Locked::Others(holder) => {
                if let (Want::Same { token, .. }, Some(holder)) = (want, &holder)
                    && holder.token != token
                {
                    return Err(LeaseError::Superseded { key: key.clone(), token, recorded: Some(holder.token) });
                }
                return Ok(Attempt::Contended { turn, holder });
            }
        };
        let before = record::read(&file).map_err(|error| failed("reading", error))?;
        let (token, acquisition) = match want {
            Want::Fresh { floor } => {
                let token = self.token_after(key, &before, floor)?;
                let acquisition = Acquisition::generate().map_err(|error| LeaseError::Unavailable {
                    key: key.clone(),
                    doing: "drawing a random acquisition".to_owned(),
                    source: error.into(),
                })?;
                (token, acquisition)
            }
            Want::Same { token, acquisition } => match &before {
                Content::Newest(record, _) if record.token == token && record.acquisition == acquisition => {
                    (token, acquisition)
                }
                Content::Newest(record, _) => {
                    return Err(LeaseError::Superseded { key: key.clone(), token, recorded: Some(record.token) });
                }
                Content::Empty => return Err(LeaseError::Superseded { key: key.clone(), token, recorded: None }),
                Content::Damaged => return Err(LeaseError::Corrupt { key: key.clone(), path }),
            },
        };
        let record = record::write(&file, &before, token, acquisition, self.clock.now())
            .map_err(|error| write_failed(key, &path, error))?;
        if before == Content::Empty {
            File::open(&self.directory)
                .and_then(|directory| directory.sync_all())
                .map_err(|error| failed("recording the name of", error))?;
        }
        turn.held_by(holder_of(&record));
        Ok(Attempt::Held(Held { file, path, key: key.clone(), record, _turn: turn }))
    }

    /// Who holds the lock, without taking it in anyone's way. Blocks on the file system.
    pub(super) fn holder(&self, key: &ScopeKey) -> Result<Option<Holder>, LeaseError> {
        let path = self.path(key);
        let failed = |doing: &str, errno: Errno| unavailable(key, doing, &path, errno.into());
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match retry_on_intr(|| rustix::fs::open(&path, flags, Mode::empty())) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed("opening", errno)),
        };
        // Shared, so that lookers do not see each other; an acquirer outlasts it by trying again.
        match retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared)) {
            Ok(()) => Ok(None),
            Err(Errno::WOULDBLOCK) => Ok(recorded_holder(&file)),
            Err(errno) => Err(failed("looking at", errno)),
        }
    }

    fn path(&self, key: &ScopeKey) -> PathBuf {
        self.directory.join(format!("{key}.lock"))
    }

    fn lock(&self, key: &ScopeKey) -> Result<Locked, LeaseError> {
        let path = self.path(key);
        let failed = |doing: &str, source: io::Error| unavailable(key, doing, &path, source);
        for _ in 0..REOPEN_TRIES {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = retry_on_intr(|| rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR))
                .map(File::from)
                .map_err(|errno| match errno {
                    Errno::NOSPC | Errno::DQUOT => write_failed(key, &path, errno.into()),
                    errno => failed("opening", errno.into()),
                })?;
            match retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(Locked::Others(recorded_holder(&file))),
                Err(errno) => return Err(failed("locking", errno.into())),
            }
            // Its holder may have retired the slot, and the file with it, since it was opened.
            let mine = file.metadata().map_err(|error| failed("examining", error))?;
            match fs::symlink_metadata(&path) {
                Ok(there) if (there.dev(), there.ino()) == (mine.dev(), mine.ino()) => return Ok(Locked::Mine(file)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("examining", error)),
            }
        }
        Err(failed("locking", io::Error::other("the file is replaced again and again")))
    }

    fn token_after(&self, key: &ScopeKey, before: &Content, floor: FencingToken) -> Result<FencingToken, LeaseError> {
        let newest = match before {
            Content::Newest(record, _) => record.token,
            Content::Empty => FencingToken(0),
            Content::Damaged if floor == FencingToken(0) => {
                return Err(LeaseError::Corrupt { key: key.clone(), path: self.path(key) });
            }
            Content::Damaged => {
                tracing::warn!(slot = %key, %floor, "the lease record is damaged; it starts again above the floor");
                FencingToken(0)
            }
        };
        newest.next_above(floor).ok_or_else(|| LeaseError::Exhausted { key: key.clone() })
    }
}

impl Held {
    pub(super) const fn token(&self) -> FencingToken {
        self.record.token
    }

    pub(super) const fn acquisition(&self) -> Acquisition {
        self.record.acquisition
    }

    /// Explicitly, because a child process between fork and exec may have the same open file for a moment.
    fn unlock(&self) -> Result<(), LeaseError> {
        retry_on_intr(|| rustix::fs::flock(&self.file, FlockOperation::Unlock))
            .map_err(|errno| unavailable(&self.key, "unlocking", &self.path, errno.into()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = self.unlock() {
            tracing::error!(slot = %self.key, %error, "a lock may stay until this process ends");
        }
    }
}

#[async_trait]
impl Holding for Held {
    async fn release(&mut self) -> Result<(), LeaseError> {
        self.unlock()
    }

    async fn retire(&mut self) -> Result<(), LeaseError> {
        // While still locked: whoever waits for this file finds that it has lost its name.
        fs::remove_file(&self.path).map_err(|error| unavailable(&self.key, "removing", &self.path, error))?;
        self.unlock()
    }
}

fn holder_of(record: &Record) -> Holder {
    Holder { pid: record.pid, token: record.token, since: record.since }
}

/// What the file of someone else's lock says; nothing where it says nothing yet.
fn recorded_holder(file: &File) -> Option<Holder> {
    match record::read(file) {
        Ok(Content::Newest(record, _)) => Some(holder_of(&record)),
        Ok(Content::Empty | Content::Damaged) | Err(_) => None,
    }
}

fn unavailable(key: &ScopeKey, doing: &str, path: &std::path::Path, source: io::Error) -> LeaseError {
    LeaseError::Unavailable { key: key.clone(), doing: format!("{doing} {}", path.display()), source: source.into() }
}

fn write_failed(key: &ScopeKey, path: &std::path::Path, source: io::Error) -> LeaseError {
    if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        LeaseError::NoSpace { path: path.to_owned(), source }
    } else {
        unavailable(key, "writing", path, source)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;
    use std::path::Path;

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let (key, path) = (ScopeKey::ephemeral().unwrap(), Path::new("/data/locks/x.lock"));
        for full in [Errno::NOSPC, Errno::DQUOT] {
            let error = write_failed(&key, path, full.into());
            assert!(matches!(&error, LeaseError::NoSpace { path: named, .. } if named == path), "{error:?}");
        }
        let error = write_failed(&key, path, Errno::IO.into());
        assert!(matches!(&error, LeaseError::Unavailable { doing, .. } if doing == "writing /data/locks/x.lock"));
    }
}
