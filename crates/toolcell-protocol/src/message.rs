//! What host and guest say after the handshake. Append-only: a variant's or field's place is its wire form.
//!
//! An *operation* has a number that the host chooses, larger than every earlier one of that container
//! ([`GuestMessage::Ready`] says where to go on after a reconnect). Every operation but an exec ends with exactly one
//! of its answer's last message or [`GuestMessage::Failed`].

use serde::{Deserialize, Serialize};

/// Number of an operation.
pub type Op = u64;

/// Raw bytes: paths, output, file content. Linux promises nothing about their encoding.
pub type Bytes = serde_bytes::ByteBuf;

/// One of a tool's two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Host to guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostMessage {
    /// Are you there? Answered by [`GuestMessage::Pong`].
    Ping {
        /// Operation.
        op: Op,
    },
    /// Run a tool process. Answered by `Output`… and [`GuestMessage::Exited`], or [`GuestMessage::Failed`].
    Exec {
        /// Operation.
        op: Op,
        /// The call's reference, so that a restarted host finds it again.
        call: String,
        /// What to run.
        spec: ExecSpec,
    },
    /// More standard input for an exec whose spec says [`Stdin::Stream`].
    StdinData {
        /// Operation.
        op: Op,
        /// The bytes.
        data: Bytes,
        /// No more will come.
        end: bool,
    },
    /// Stop an exec's whole tree: TERM, one second, KILL.
    Cancel {
        /// Operation.
        op: Op,
    },
    /// Output below `offset` is safe at the host; the guest may drop it.
    OutputAck {
        /// Operation.
        op: Op,
        /// Which stream.
        stream: Stream,
        /// First byte that is not acknowledged.
        offset: u64,
    },
    /// Send a live or ended exec's output again from these offsets, and its end if it has ended.
    Attach {
        /// Operation.
        op: Op,
        /// First byte of standard output wanted.
        stdout: u64,
        /// First byte of standard error wanted.
        stderr: u64,
    },
    /// The exec's result is recorded; the guest forgets it.
    Forget {
        /// Operation.
        op: Op,
    },
    /// Real paths of these logical ones. Answered by [`GuestMessage::Resolved`].
    Resolve {
        /// Operation.
        op: Op,
        /// Absolute paths.
        paths: Vec<Bytes>,
    },
    /// Read a file. Answered by `Data`… and [`GuestMessage::FileRead`].
    ReadFile {
        /// Operation.
        op: Op,
        /// Which file, and what was decided of it.
        target: FileTarget,
        /// Which part.
        part: ReadPart,
        /// Send at most this many bytes; the answer says whether more was there.
        max_bytes: u64,
    },
    /// Write a file atomically; its content follows as `WriteData`. Answered by [`GuestMessage::FileWritten`].
    WriteFile {
        /// Operation.
        op: Op,
        /// Which file, and what was decided of it.
        target: FileTarget,
        /// Permission bits for a new file, or to set on an existing one.
        mode: Option<u32>,
        /// Replace what is there.
        overwrite: bool,
        /// Make missing parents.
        create_dirs: bool,
        /// How many bytes will follow.
        size: u64,
    },
    /// Content of a `WriteFile`, in order.
    WriteData {
        /// Operation.
        op: Op,
        /// The bytes.
        data: Bytes,
        /// No more will come.
        end: bool,
    },
    /// List a directory. Answered by `Listed`… the last of which says so.
    ListFiles {
        /// Operation.
        op: Op,
        /// Which directory, and what was decided of it.
        target: FileTarget,
        /// Levels below it; 1 lists its own entries.
        depth: u32,
        /// Also names that begin with a dot.
        hidden: bool,
        /// Send at most this many entries; the answer says whether more were there.
        max_entries: u32,
    },
    /// Walk persisted roots. Answered by `ScanEntries`… and [`GuestMessage::ScanDone`].
    Scan {
        /// Operation.
        op: Op,
        /// Absolute container paths.
        roots: Vec<Bytes>,
    },
    /// Read part of a file for a snapshot, overriding modes. Answered by [`GuestMessage::Fetched`].
    Fetch {
        /// Operation.
        op: Op,
        /// The persisted root.
        root: Bytes,
        /// Path below it.
        path: Bytes,
        /// First byte wanted.
        offset: u64,
        /// At most [`crate::limits::MAX_DATA_BYTES`].
        max_len: u32,
        /// Also the extended attributes (`user.*`).
        want_xattrs: bool,
    },
    /// Begin to fill empty persisted roots; makes them belong to the tool user. `clear` removes what is there first.
    RestoreBegin {
        /// Operation of the whole restore.
        op: Op,
        /// Absolute container paths.
        roots: Vec<Bytes>,
        /// Remove what the roots hold.
        clear: bool,
    },
    /// One entry, parents before children.
    Restore {
        /// Operation of the whole restore.
        op: Op,
        /// The entry.
        item: RestoreItem,
    },
    /// The last entry was sent. Answered by [`GuestMessage::Restored`].
    RestoreEnd {
        /// Operation of the whole restore.
        op: Op,
    },
    /// End everything and exit.
    Shutdown,
    /// Stop every tool process, so that a snapshot sees one moment. Answered by [`GuestMessage::Quiesced`] once all of
    /// them stand still. They go on after [`HostMessage::Resume`], when the host is lost, or after `max_ms`. An exec
    /// that comes meanwhile begins afterwards. Since protocol 2.
    Quiesce {
        /// Operation.
        op: Op,
        /// They stand still for at most this long.
        max_ms: u64,
    },
    /// Let the tool processes go on. Answered by [`GuestMessage::Resumed`]. Since protocol 2.
    Resume {
        /// Operation.
        op: Op,
    },
}

/// Guest to host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestMessage {
    /// First message after the handshake.
    Ready {
        /// Execs that the guest still holds.
        calls: Vec<LiveCall>,
        /// Choose operations from here on.
        next_op: Op,
        /// Shell for [`Program::Shell`], as found in the image; `None` when there is none.
        shell: Option<String>,
    },
    /// Answer to [`HostMessage::Ping`].
    Pong {
        /// Operation.
        op: Op,
    },
    /// Bytes that a tool wrote.
    Output {
        /// Operation.
        op: Op,
        /// Which stream.
        stream: Stream,
        /// Place of the first byte in the stream.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// The tool's main process has ended, its tree is gone and all its output was sent.
    Exited {
        /// Operation.
        op: Op,
        /// From the kernel.
        exit: ExitReport,
    },
    /// The operation could not be done.
    Failed {
        /// Operation.
        op: Op,
        /// Why.
        error: GuestError,
    },
    /// Answer to [`HostMessage::Resolve`], in its order.
    Resolved {
        /// Operation.
        op: Op,
        /// One for each path.
        paths: Vec<Resolution>,
    },
    /// Bytes of a [`HostMessage::ReadFile`], in order.
    Data {
        /// Operation.
        op: Op,
        /// The bytes.
        data: Bytes,
    },
    /// End of a [`HostMessage::ReadFile`].
    FileRead {
        /// Operation.
        op: Op,
        /// The file as it was read.
        file: FileFacts,
    },
    /// End of a [`HostMessage::WriteFile`].
    FileWritten {
        /// Operation.
        op: Op,
        /// Bytes written.
        size: u64,
        /// Nothing was there before.
        created: bool,
        /// SHA-256 of what was written.
        sha256: [u8; 32],
    },
    /// Part of a listing.
    Listed {
        /// Operation.
        op: Op,
        /// Entries, parents before children.
        entries: Vec<ListEntry>,
        /// This is the last message of the listing.
        end: bool,
        /// More entries were there than were asked for.
        truncated: bool,
    },
    /// Part of a scan.
    ScanEntries {
        /// Operation.
        op: Op,
        /// Entries, parents before children.
        entries: Vec<ScanEntry>,
    },
    /// End of a scan.
    ScanDone {
        /// Operation.
        op: Op,
    },
    /// Answer to [`HostMessage::Fetch`].
    Fetched {
        /// Operation.
        op: Op,
        /// The bytes and the file as it was when they were read.
        part: FetchedPart,
    },
    /// End of a restore.
    Restored {
        /// Operation.
        op: Op,
    },
    /// Answer to [`HostMessage::Quiesce`]: every tool process stands still.
    Quiesced {
        /// Operation.
        op: Op,
        /// How many.
        processes: u32,
    },
    /// Answer to [`HostMessage::Resume`].
    Resumed {
        /// Operation.
        op: Op,
        /// They stood still until now; otherwise their time was over, and what was read is of several moments.
        in_time: bool,
    },
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecSpec {
    /// Program.
    pub program: Program,
    /// Working directory, absolute.
    pub cwd: Bytes,
    /// The whole environment, `NAME` and value; nothing is inherited.
    pub env: Vec<(Bytes, Bytes)>,
    /// Standard input.
    pub stdin: Stdin,
    /// From the start of the process; then TERM, one second, KILL.
    pub timeout_ms: u64,
    /// Per stream; a tool that writes more is stopped and the report says so.
    pub max_output_bytes: u64,
}

/// The program of an exec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// Words; the first is looked up in the environment's `PATH` unless it has a slash.
    Argv(Vec<Bytes>),
    /// Text for the image's shell, given to it as an argument or, beyond the kernel's limit, as a file.
    Shell(Bytes),
}

/// Standard input of an exec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdin {
    /// Closed: reading gives end of file.
    Closed,
    /// Follows as [`HostMessage::StdinData`].
    Stream,
}

/// How an exec ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExitReport {
    /// Exit code of the main process.
    pub exit_code: Option<i32>,
    /// Signal that ended the main process.
    pub signal: Option<i32>,
    /// It was stopped at its deadline.
    pub timed_out: bool,
    /// It was stopped because the host asked.
    pub cancelled: bool,
    /// It was stopped because it wrote more than `max_output_bytes`.
    pub output_limited: bool,
    /// The memory cgroup counted an out-of-memory kill while it ran.
    pub oom_killed: bool,
    /// Processes that it had left behind and that were ended with it.
    pub left_behind: u32,
    /// Bytes written to standard output.
    pub stdout_bytes: u64,
    /// Bytes written to standard error.
    pub stderr_bytes: u64,
    /// Wall time in microseconds.
    pub wall_us: u64,
    /// CPU time in user mode, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_us: u64,
    /// Largest resident set of one process, in KiB.
    pub max_rss_kib: u64,
}

/// An exec that the guest holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCall {
    /// Its operation.
    pub op: Op,
    /// The call's reference.
    pub call: String,
    /// It has ended; [`HostMessage::Attach`] gets its report.
    pub ended: bool,
}

/// A file tool's target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTarget {
    /// Absolute, normalised.
    pub path: Bytes,
    /// The target must resolve beneath one of these.
    pub roots: Vec<Bytes>,
    /// Where the path led when it was decided; if it leads elsewhere now, `changed_since_decision`.
    pub decided: Bytes,
}

/// Which part of a file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadPart {
    /// From this byte on.
    Bytes {
        /// First byte.
        offset: u64,
    },
    /// Whole lines.
    Lines {
        /// First line; 1 is the file's first.
        first: u64,
        /// How many; `u64::MAX` for the rest.
        count: u64,
    },
}

/// A file as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Size of the whole file.
    pub size: u64,
    /// More of the wanted part was there than `max_bytes`.
    pub truncated: bool,
    /// Permission bits.
    pub mode: u32,
    /// Modification time.
    pub mtime: TimeNs,
}

/// A time in seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct TimeNs {
    /// Seconds.
    pub secs: i64,
    /// Nanoseconds, below 1 000 000 000.
    pub nanos: u32,
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resolution {
    /// To this real path; what does not exist yet keeps its name.
    Real(Bytes),
    /// It cannot be resolved (a loop, a forbidden parent, `..` behind something that does not exist).
    Unresolvable {
        /// Why.
        error: GuestError,
    },
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A directory.
    Dir,
    /// A regular file.
    File {
        /// Its size.
        size: u64,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points, as stored.
        target: Bytes,
    },
    /// A FIFO, socket or device.
    Special,
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListEntry {
    /// Relative to the listed directory.
    pub path: Bytes,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Modification time.
    pub mtime: TimeNs,
}

/// One entry of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanEntry {
    /// Place of its root in the scan's list.
    pub root: u16,
    /// Relative to the root; empty for the root itself.
    pub path: Bytes,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits, `07777`.
    pub mode: u32,
    /// Modification time.
    pub mtime: TimeNs,
    /// Change time.
    pub ctime: TimeNs,
    /// Inode number.
    pub inode: u64,
    /// Device number.
    pub device: u64,
    /// Hard links.
    pub nlink: u32,
}

/// Part of a file for a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchedPart {
    /// Bytes from the wanted offset on.
    pub data: Bytes,
    /// Where to read next; what lies between the data's end and here is a hole.
    pub next_offset: u64,
    /// The file ends at `next_offset`.
    pub end: bool,
    /// Size when read.
    pub size: u64,
    /// Modification time when read.
    pub mtime: TimeNs,
    /// Change time when read.
    pub ctime: TimeNs,
    /// Inode when read.
    pub inode: u64,
    /// Extended attributes, if they were wanted.
    pub xattrs: Vec<(Bytes, Bytes)>,
}

/// What every restored entry has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EntryMeta {
    /// Permission bits.
    pub mode: u32,
    /// Modification time.
    pub mtime: TimeNs,
    /// Extended attributes (`user.*`).
    pub xattrs: Vec<(Bytes, Bytes)>,
}

/// One step of a restore. `root` is a place in [`HostMessage::RestoreBegin`]'s list, `path` relative to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestoreItem {
    /// A directory; an empty path sets the root's own mode and time. Mode and time are set at the end.
    Dir {
        /// Root.
        root: u16,
        /// Path.
        path: Bytes,
        /// Mode, time, attributes.
        meta: EntryMeta,
    },
    /// A file, whole if `complete`; otherwise `Extent`s and a `FileEnd` follow before any other item.
    File {
        /// Root.
        root: u16,
        /// Path.
        path: Bytes,
        /// Mode, time, attributes.
        meta: EntryMeta,
        /// Final size; what no extent covers is a hole.
        size: u64,
        /// Bytes at offset 0.
        data: Bytes,
        /// Nothing follows.
        complete: bool,
    },
    /// Bytes of the file that was begun.
    Extent {
        /// Root.
        root: u16,
        /// Path.
        path: Bytes,
        /// Where.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// The file that was begun is complete.
    FileEnd {
        /// Root.
        root: u16,
        /// Path.
        path: Bytes,
    },
    /// A symbolic link.
    Symlink {
        /// Root.
        root: u16,
        /// Path.
        path: Bytes,
        /// Where it points.
        target: Bytes,
        /// Time and attributes.
        meta: EntryMeta,
    },
    /// Another name of a file that was restored before, in the same root.
    Hardlink {
        /// Root.
        root: u16,
        /// Path.
        path: Bytes,
        /// The earlier path.
        to: Bytes,
    },
    /// Nothing is there any more: an entry with everything beneath it goes. One that is not there is no error.
    Remove {
        /// The root it lies in.
        root: u16,
        /// Relative to the root.
        path: Bytes,
    },
}

/// Why an operation failed: a stable code and a message that a model can act on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestError {
    /// Stable.
    pub code: ErrorCode,
    /// One line, without the code.
    pub message: String,
}

/// The kinds of failure that a guest reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorCode {
    /// No such file, directory or program.
    NotFound,
    /// A file was needed.
    IsDirectory,
    /// A directory was needed.
    NotADirectory,
    /// Something is there and may not be replaced.
    AlreadyExists,
    /// The tool user may not.
    PermissionDenied,
    /// The path leads out of the file roots.
    OutsideRoots,
    /// Beyond a bound.
    TooLarge,
    /// The disk, quota or inode table is full.
    NoSpace,
    /// The path leads elsewhere than when it was decided.
    ChangedSinceDecision,
    /// Too many symbolic links.
    TooManyLinks,
    /// Not a regular file: a FIFO, socket or device.
    NotRegular,
    /// The message breaks a rule of the protocol or of the operation.
    Invalid,
    /// The image has no shell.
    NoShell,
    /// Too many processes.
    TooManyProcesses,
    /// Any other failure of the operating system.
    Io,
}

impl ErrorCode {
    /// The wire name in results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::IsDirectory => "is_directory",
            Self::NotADirectory => "not_a_directory",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::OutsideRoots => "outside_roots",
            Self::TooLarge => "too_large",
            Self::NoSpace => "no_space",
            Self::ChangedSinceDecision => "changed_since_decision",
            Self::TooManyLinks => "too_many_links",
            Self::NotRegular => "not_regular",
            Self::Invalid => "invalid",
            Self::NoShell => "no_shell",
            Self::TooManyProcesses => "too_many_processes",
            Self::Io => "io_error",
        }
    }
}

impl std::fmt::Display for GuestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for GuestError {}
