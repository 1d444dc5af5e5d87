//! Listing a directory for a tool.

use super::paths::{open_target, reopen};
use super::scan::{kind, read_names, time};
use super::{Answers, Stop};
use crate::errors::{Shown, failure, io_failure};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use toolcell_protocol::limits::MAX_ENTRIES_PER_MESSAGE;
use toolcell_protocol::{EntryKind, ErrorCode, FileTarget, GuestMessage, ListEntry};

/// Deepest level and most entries of one listing, whatever the host wants.
const MOST_DEPTH: u32 = 128;
const MOST_ENTRIES: u32 = 100_000;
/// Bytes of paths in one message.
const MESSAGE_BYTES: usize = 256 * 1024;

/// A directory that is being listed: what is still ahead, last name first.
struct Level {
    directory: OwnedFd,
    path: Vec<u8>,
    names: Vec<Vec<u8>>,
}

struct Batch<'a> {
    answers: Answers<'a>,
    entries: Vec<ListEntry>,
    bytes: usize,
    left: u32,
}

impl Batch<'_> {
    fn add(&mut self, entry: ListEntry) -> Result<(), Stop> {
        self.left = self.left.saturating_sub(1);
        self.bytes = self.bytes.saturating_add(entry.path.len()).saturating_add(64);
        if let EntryKind::Symlink { target } = &entry.kind {
            self.bytes = self.bytes.saturating_add(target.len());
        }
        self.entries.push(entry);
        if self.entries.len() >= MAX_ENTRIES_PER_MESSAGE || self.bytes >= MESSAGE_BYTES {
            self.bytes = 0;
            let entries = std::mem::take(&mut self.entries);
            let op = self.answers.op();
            self.answers.send(&GuestMessage::Listed { op, entries, end: false, truncated: false })?;
        }
        Ok(())
    }
}

/// Answers a `ListFiles`: in the order of names, each directory's entries right behind it. Links are shown, never
/// followed; a directory that the tool user may not read is shown and not entered.
pub(crate) fn answer(
    answers: Answers<'_>,
    target: &FileTarget,
    depth: u32,
    hidden: bool,
    max_entries: u32,
) -> Result<(), Stop> {
    let failed = |errno| match errno {
        Errno::NOTDIR => failure(ErrorCode::NotADirectory, format!("{} is not a directory", Shown(&target.path))),
        errno => io_failure(errno, "list", &target.path),
    };
    let found = open_target(target)?;
    let directory = reopen(&found, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
    let names = sorted_names(&directory, hidden).map_err(failed)?;
    let depth = usize::try_from(depth.min(MOST_DEPTH)).unwrap_or(0);
    let mut batch = Batch { answers, entries: Vec::new(), bytes: 0, left: max_entries.min(MOST_ENTRIES) };
    let mut levels = Vec::new();
    if depth > 0 {
        levels.push(Level { directory, path: Vec::new(), names });
    }
    let mut truncated = false;
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.pop() else {
            levels.pop();
            continue;
        };
        // Gone since the directory was read.
        let Ok((entry, is_directory)) = describe(level, &name) else { continue };
        if batch.left == 0 {
            truncated = true;
            break;
        }
        let path = entry.path.to_vec();
        let deeper = if is_directory { enter(level, &name, hidden) } else { None };
        batch.add(entry)?;
        if let Some((directory, names)) = deeper.filter(|_| levels.len() < depth) {
            levels.push(Level { directory, path, names });
        }
    }
    let entries = std::mem::take(&mut batch.entries);
    answers.finish(&GuestMessage::Listed { op: answers.op(), entries, end: true, truncated });
    Ok(())
}

fn sorted_names(directory: &OwnedFd, hidden: bool) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = read_names(directory.as_fd())?;
    if !hidden {
        names.retain(|name| name.first() != Some(&b'.'));
    }
    // Taken from the end.
    names.sort_unstable_by(|one, two| two.cmp(one));
    Ok(names)
}

fn describe(level: &Level, name: &[u8]) -> Result<(ListEntry, bool), Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = statx(&level.directory, name, flags, StatxFlags::BASIC_STATS)?;
    let mode = u32::from(found.stx_mode);
    let kind = kind(&level.directory, name, &found)?;
    let is_directory = kind == EntryKind::Dir;
    let mut path = level.path.clone();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    let mtime = time(&found.stx_mtime);
    Ok((ListEntry { path: path.into(), kind, mode: mode & 0o7777, mtime }, is_directory))
}

fn enter(level: &Level, name: &[u8], hidden: bool) -> Option<(OwnedFd, Vec<Vec<u8>>)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(&level.directory, name, flags, Mode::empty()).ok()?;
    let names = sorted_names(&directory, hidden).ok()?;
    Some((directory, names))
}
