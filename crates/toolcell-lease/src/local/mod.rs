//! The guard of one host: an operating system lock per slot, under the data directory.
//!
//! Every slot has a file `locks/<key>.lock` that its holder keeps locked with flock(2). That lock belongs to the open
//! file, so it excludes other processes and other guards of this process alike, and it ends with its holder however
//! that ends. The file's content is the newest token (`record.rs`), on disk before `acquire` returns.
//!
//! **Waiting.** Waiters of one guard stand in one line per slot, first come, first served; only the first of them
//! tries for the file lock. Between processes there is no order: the file lock is tried again after 5 ms, rising to
//! 50 ms, because a thread that blocks in flock(2) could not be called back when its waiter gives up.
//!
//! **Damaged records.** The head of the slot is the authority on tokens. A record that cannot be read is replaced if
//! the caller brings a floor; without a floor nothing proves that a new token would be higher than the last one, and
//! the slot is refused with [`LeaseError::Corrupt`]. An empty file is a slot that was never held.
//!
//! **Limits.** Lock files must not be removed while a process runs: a holder does not notice. Network file systems
//! and FUSE are refused when the guard is made.

mod filesystem;
mod held;
mod queue;
mod record;

use crate::error::{GuardOpenError, LeaseError};
use crate::guard::{ExecutionGuard, Holder, Lease};
use async_trait::async_trait;
use held::{Attempt, Held, Locks, Want};
use queue::{Queues, Turn};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use toolcell_model::{Acquisition, Clock, FencingToken, ScopeKey};

/// The longest wait that [`LocalGuard`] honours; a longer one counts as this.
pub const MAX_WAIT: Duration = Duration::from_hours(24);

/// A listing looks at a lock by taking it, shared, for some microseconds. Nobody is turned away before trying this
/// often, [`PROBE_PAUSE`] apart.
const PROBE_TRIES: u32 = 4;
const PROBE_PAUSE: Duration = Duration::from_millis(1);
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Locks of the operating system, for the processes of one host that share a data directory.
#[derive(Debug, Clone)]
pub struct LocalGuard {
    locks: Arc<Locks>,
    queues: Arc<Queues>,
}

impl LocalGuard {
    /// The guard of `data_dir`, whose locks are kept in `data_dir/locks` (made, mode 0700, if it is not there).
    ///
    /// Blocks on the file system.
    ///
    /// # Errors
    /// [`GuardOpenError::NetworkFileSystem`], or what the file system refused.
    pub fn open(data_dir: &Path, clock: Arc<dyn Clock>) -> Result<Self, GuardOpenError> {
        let locks = Locks::open(data_dir.join("locks"), clock)?;
        Ok(Self { locks: Arc::new(locks), queues: Arc::new(Queues::default()) })
    }

    /// Tries for the file lock until `deadline`, at the head of the line.
    async fn take(&self, key: &ScopeKey, want: Want, mut turn: Turn, deadline: Instant) -> Result<Lease, LeaseError> {
        let mut pause = FIRST_PAUSE;
        let mut tries = 0_u32;
        loop {
            let (locks, key_there) = (Arc::clone(&self.locks), key.clone());
            // The turn goes along: if this future is dropped, the line waits until the file is let go of again.
            let attempt = tokio::task::spawn_blocking(move || locks.attempt(&key_there, want, turn)).await;
            let attempt = attempt.map_err(|error| LeaseError::Unavailable {
                key: key.clone(),
                doing: "running the lock attempt".to_owned(),
                source: error.into(),
            })??;
            let holder = match attempt {
                Attempt::Held(held) => return Ok(lease(key, held)),
                Attempt::Contended { turn: back, holder } => {
                    turn = back;
                    holder
                }
            };
            tries = tries.saturating_add(1);
            let left = deadline.saturating_duration_since(Instant::now());
            if tries < PROBE_TRIES {
                sleep(PROBE_PAUSE).await;
            } else if left.is_zero() {
                return Err(LeaseError::Busy { key: key.clone(), holder });
            } else {
                sleep(pause.min(left)).await;
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            }
        }
    }
}

fn lease(key: &ScopeKey, held: Held) -> Lease {
    let (token, acquisition) = (held.token(), held.acquisition());
    // The lock ends with this process only, so there is nobody who would cancel this.
    Lease::new(key.clone(), token, acquisition, CancellationToken::new(), Box::new(held))
}

#[async_trait]
impl ExecutionGuard for LocalGuard {
    async fn acquire(&self, key: &ScopeKey, floor: FencingToken, wait: Duration) -> Result<Lease, LeaseError> {
        let start = Instant::now();
        let deadline = start.checked_add(wait.min(MAX_WAIT)).unwrap_or(start);
        let place = self.queues.place(key);
        let turn = match timeout_at(deadline, place.turn()).await {
            Ok(turn) => turn,
            Err(_) => return Err(LeaseError::Busy { key: key.clone(), holder: self.queues.holder(key) }),
        };
        self.take(key, Want::Fresh { floor }, turn, deadline).await
    }

    async fn resume(&self, key: &ScopeKey, token: FencingToken, acquisition: Acquisition) -> Result<Lease, LeaseError> {
        let turn = match self.queues.place(key).try_turn() {
            Ok(turn) => turn,
            Err(place) => {
                return Err(match place.holder() {
                    Some(holder) if holder.token != token => {
                        LeaseError::Superseded { key: key.clone(), token, recorded: Some(holder.token) }
                    }
                    holder => LeaseError::Busy { key: key.clone(), holder },
                });
            }
        };
        self.take(key, Want::Same { token, acquisition }, turn, Instant::now()).await
    }

    async fn holder(&self, key: &ScopeKey) -> Result<Option<Holder>, LeaseError> {
        if let Some(holder) = self.queues.holder(key) {
            return Ok(Some(holder));
        }
        let (locks, key_there) = (Arc::clone(&self.locks), key.clone());
        let looked = tokio::task::spawn_blocking(move || locks.holder(&key_there)).await;
        looked.map_err(|error| LeaseError::Unavailable {
            key: key.clone(),
            doing: "looking at the lock".to_owned(),
            source: error.into(),
        })?
    }

    fn expires(&self) -> Option<Duration> {
        None
    }
}
