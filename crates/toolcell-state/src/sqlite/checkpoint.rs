//! Moves the log into the database, so that no caller has to.

use super::connection::{connect, log_path};
use crate::error::StateError;
use rusqlite::Connection;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// So many looks make a second: the longest that a commit stays in the log alone.
const LOOKS_PER_CHECKPOINT: u32 = 4;
/// A log of this size is moved at the next look.
const LOG_BYTES: u64 = 8 * 1024 * 1024;
/// A log of this size is moved with writers held back, because without a gap between writers it never starts over.
const LOG_BYTES_TOO_MANY: u64 = 128 * 1024 * 1024;

/// The thread. Ends when dropped.
#[derive(Debug)]
pub(super) struct Checkpointer {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    wanted: Mutex<bool>,
    changed: Condvar,
}

impl Checkpointer {
    /// `writes` grows with every write.
    pub(super) fn start(path: &Path, writes: Arc<AtomicU64>) -> Result<Self, StateError> {
        let connection = connect(path)?;
        let stop = Arc::new(Stop::default());
        let (log, stop_there) = (log_path(path), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("state checkpoint".to_owned())
            .spawn(move || run(&connection, &log, &writes, &stop_there))
            .map_err(|error| StateError::Unavailable {
                doing: "starting the checkpoint thread".to_owned(),
                source: error.into(),
            })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        *self.stop.wanted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpoint thread of the state store panicked");
        }
    }
}

impl Stop {
    /// Whether to stop, asked for within `pause`.
    fn within(&self, pause: Duration) -> bool {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let (wanted, _) =
            self.changed.wait_timeout_while(wanted, pause, |wanted| !*wanted).unwrap_or_else(PoisonError::into_inner);
        *wanted
    }
}

fn run(connection: &Connection, log: &PathBuf, writes: &AtomicU64, stop: &Stop) {
    let mut seen = 0;
    let mut looks = 0;
    while !stop.within(LOOK_EVERY) {
        let now = writes.load(Ordering::Relaxed);
        if now == seen {
            continue;
        }
        looks += 1;
        let bytes = fs::metadata(log).map_or(0, |file| file.len());
        if looks < LOOKS_PER_CHECKPOINT && bytes < LOG_BYTES {
            continue;
        }
        let mode = if bytes < LOG_BYTES_TOO_MANY { "PASSIVE" } else { "TRUNCATE" };
        match connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())) {
            Ok(()) => (seen, looks) = (now, 0),
            // Nothing is lost: the log holds it, and the next look tries again.
            Err(error) => tracing::warn!(%error, "the state store's log could not be moved into its database"),
        }
    }
}
