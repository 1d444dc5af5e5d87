//! How far an operation is: for whoever shows it to a person.

/// What an operation is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Listing the workspace.
    Scan,
    /// Reading what has changed, and storing it beside that.
    Read,
    /// Storing the rest, and committing.
    Commit,
    /// Reading manifests: `files` counts snapshots.
    History,
    /// Putting files into the workspace.
    Restore,
    /// Reading and checking packs: `files` counts packs.
    Verify,
    /// Deleting what nothing needs: `files` counts objects.
    Collect,
    /// Writing an archive.
    Export,
    /// Reading an archive: `bytes` counts plain bytes of files.
    Import,
}

/// How far an operation is within its phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Progress {
    /// What it is doing.
    pub phase: Phase,
    /// Files (or what the phase counts) that are done.
    pub files: u64,
    /// Bytes that are done.
    pub bytes: u64,
    /// How many files there will be, if that is known.
    pub total_files: Option<u64>,
    /// How many bytes there will be, if that is known.
    pub total_bytes: Option<u64>,
}

impl Progress {
    /// The beginning of a phase whose end is not known.
    #[must_use]
    pub const fn begin(phase: Phase) -> Self {
        Self { phase, files: 0, bytes: 0, total_files: None, total_bytes: None }
    }
}

/// Takes reports of progress. Called often and in the middle of the work: it must be cheap and must not block.
pub trait ProgressSink: Send + Sync {
    /// The newest state; the one before counts no more.
    fn report(&self, progress: Progress);
}

impl<F: Fn(Progress) + Send + Sync> ProgressSink for F {
    fn report(&self, progress: Progress) {
        self(progress);
    }
}

/// Nobody looks.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl ProgressSink for NoProgress {
    fn report(&self, _: Progress) {}
}
