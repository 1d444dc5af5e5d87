//! What workers do, sorted by lane.

use toolcell_protocol::message::Op;
use toolcell_protocol::{Bytes, FileTarget, ReadPart, RestoreItem};

/// An operation, or a part of one.
#[derive(Debug)]
pub(crate) struct Work {
    /// Its operation.
    pub(crate) op: Op,
    /// What to do.
    pub(crate) task: Task,
}

/// By lane.
#[derive(Debug)]
pub(crate) enum Task {
    /// Looking, as the tool user.
    Look(Look),
    /// Reading for snapshots, as root.
    Bulk(Bulk),
    /// Changing files, in order.
    Write(Write),
}

/// Looking, as the tool user.
#[derive(Debug)]
pub(crate) enum Look {
    Resolve { paths: Vec<Bytes> },
    Read { target: FileTarget, part: ReadPart, max_bytes: u64 },
    List { target: FileTarget, depth: u32, hidden: bool, max_entries: u32 },
}

/// Reading for snapshots, as root.
#[derive(Debug)]
pub(crate) enum Bulk {
    Scan { roots: Vec<Bytes> },
    Fetch { root: Bytes, path: Bytes, offset: u64, max_len: u32, want_xattrs: bool },
}

/// Changing files, in order.
#[derive(Debug)]
pub(crate) enum Write {
    File { target: FileTarget, wish: Wish },
    Data { data: Bytes, end: bool },
    RestoreBegin { roots: Vec<Bytes>, clear: bool },
    RestoreItem(RestoreItem),
    RestoreEnd,
}

/// What a write wants, beside its target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    /// Permission bits.
    pub(crate) mode: Option<u32>,
    /// Replace what is there.
    pub(crate) overwrite: bool,
    /// Make missing parents.
    pub(crate) create_dirs: bool,
    /// How many bytes will come.
    pub(crate) size: u64,
}

impl Work {
    /// Bytes of content that it keeps in memory while it waits.
    pub(crate) fn weight(&self) -> usize {
        match &self.task {
            Task::Write(Write::Data { data, .. }) => data.len(),
            Task::Write(Write::RestoreItem(RestoreItem::File { data, .. } | RestoreItem::Extent { data, .. })) => {
                data.len()
            }
            Task::Write(
                Write::RestoreItem(
                    RestoreItem::Dir { .. }
                    | RestoreItem::FileEnd { .. }
                    | RestoreItem::Symlink { .. }
                    | RestoreItem::Hardlink { .. }
                    | RestoreItem::Remove { .. },
                )
                | Write::File { .. }
                | Write::RestoreBegin { .. }
                | Write::RestoreEnd,
            )
            | Task::Look(_)
            | Task::Bulk(_) => 0,
        }
    }
}
