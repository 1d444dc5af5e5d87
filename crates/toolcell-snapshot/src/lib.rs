//! Snapshots of a slot's workspace: content-addressed, incremental, fenced.
//!
//! **Owns** the format (chunks, packs, trees, manifest, head), the [`SnapshotStore`] trait and the stores `memory`,
//! `local`, `s3`, `redis`, `sql` and `none`, the head protocol (stamp, commit, in doubt, tombstone), incremental snapshot and verified
//! restore. **Never knows** Docker, leases or HTTP, and never opens a path of the workspace: what is in it comes through
//! [`WorkspaceSource`] and goes through [`WorkspaceSink`].
//!
//! **Read first**: [`SnapshotEngine`], then [`SnapshotStore`], then [`Head`].
//!
//! Objects are written in the order packs, manifest, head; a crash anywhere leaves the old head and garbage that
//! carries the writer's token in its name.
//!
//! **Limitations**: one snapshot has at most [`MAX_ENTRIES`] entries, paths of at most [`MAX_PATH_BYTES`] bytes and
//! [`MAX_DEPTH`] levels; owners, set-user-id and set-group-id bits, FIFOs, sockets and devices are not kept. A file is
//! taken as unchanged if its size, mtime, ctime and inode are; one that was read within [`RACY_MILLIS`] of its last
//! change is read again, so that a change in the same clock tick is not missed.

mod engine;
mod entry;
mod error;
mod format;
mod history;
mod index;
mod progress;
mod receipt;
mod rules;
mod scan;
mod store;

pub use engine::{
    ArchiveFormat, DEFAULT_MAX_WORKSPACE_BYTES, HeadWriter, ImportOptions, PIN_SKEW, PIN_TTL, RACY_MILLIS,
    SnapshotEngine,
};
pub use entry::{
    EntryKind, FetchRequest, Fetched, MAX_DEPTH, MAX_ENTRIES, MAX_ITEM_BYTES, MAX_NAME_BYTES, MAX_PATH_BYTES,
    MAX_TARGET_BYTES, MAX_XATTR_BYTES, MAX_XATTRS, MODE_BITS, Meta, RestoreItem, ScanEntry, TimeNs, WorkspaceSink,
    WorkspaceSource, Xattrs,
};
pub use error::{
    Cause, CommitError, ErrorKind, ForkError, GcError, ImportError, OpenError, RecommitError, RestoreError,
    SnapshotError, SourceError, StampError, StoreError,
};
pub use format::head::Head;
pub use history::{GcReceipt, MAX_HISTORY, MAX_PROBLEMS, Problem, Retention, SnapshotInfo, VerifyReport};
pub use index::SlotIndex;
pub use progress::{NoProgress, Phase, Progress, ProgressSink};
pub use receipt::{RestoreReceipt, SnapshotReceipt};
#[doc(hidden)]
pub use rules::Weakening;
pub use store::{
    HeadRecord, HeadVersion, ListPage, Listed, LocalStore, MAX_HEAD_BYTES, MAX_OBJECT_BYTES, MemoryStore, NoneStore,
    ObjectName, ObjectPrefix, PostgresError, PostgresStore, ProbeError, RedisConfig, RedisError, RedisStore,
    RetryStore, S3Config, S3Credentials, S3Store, SnapshotStore, SqliteObjects, StoreKind,
};
pub use toolcell_model::Retry;
