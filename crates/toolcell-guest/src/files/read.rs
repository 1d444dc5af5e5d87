//! Reading a file for a tool.

use super::paths::{mode_bits, open_target, reopen};
use super::{Answers, Stop};
use crate::errors::{Shown, failure, io_failure};
use crate::frames::DataFrame;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::io::{Errno, pread, retry_on_intr};
use toolcell_protocol::{ErrorCode, FileFacts, FileTarget, GuestError, GuestMessage, ReadPart, TimeNs};

/// Bytes of one `Data`.
const CHUNK_BYTES: usize = 256 * 1024;

/// Refuses everything but a regular file.
pub(crate) fn must_be_file(stat: &Stat, path: &[u8]) -> Result<(), GuestError> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind == FileType::RegularFile {
        Ok(())
    } else if kind == FileType::Directory {
        Err(failure(ErrorCode::IsDirectory, format!("{} is a directory", Shown(path))))
    } else {
        Err(failure(ErrorCode::NotRegular, format!("{} is not a regular file", Shown(path))))
    }
}

/// Modification time of a file.
pub(crate) fn modified(stat: &Stat) -> TimeNs {
    TimeNs { secs: stat.st_mtime, nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0) }
}

/// Size of a file.
pub(crate) fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Sends what was wanted, never more than `left` bytes.
struct Sender<'a> {
    answers: Answers<'a>,
    left: u64,
    truncated: bool,
}

impl Sender<'_> {
    /// False when no more may be sent.
    fn send(&mut self, bytes: &[u8]) -> Result<bool, Stop> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let part = bytes.get(..most).unwrap_or(bytes);
        if !part.is_empty() {
            self.answers.send(&DataFrame { op: self.answers.op(), data: part })?;
            self.left = self.left.saturating_sub(u64::try_from(part.len()).unwrap_or(u64::MAX));
        }
        self.truncated |= part.len() < bytes.len();
        Ok(!self.truncated)
    }
}

/// Answers a `ReadFile`.
pub(crate) fn answer(answers: Answers<'_>, target: &FileTarget, part: ReadPart, max_bytes: u64) -> Result<(), Stop> {
    let failed = |errno| io_failure(errno, "read", &target.path);
    let found = open_target(target)?;
    let stat = fstat(&found).map_err(failed)?;
    must_be_file(&stat, &target.path)?;
    let file = reopen(&found, OFlags::RDONLY).map_err(failed)?;
    let mut sender = Sender { answers, left: max_bytes, truncated: false };
    match part {
        ReadPart::Bytes { offset } => send_bytes(&file, offset, &mut sender, &failed)?,
        ReadPart::Lines { first, count } => send_lines(&file, size_of(&stat), (first, count), &mut sender, &failed)?,
    }
    let file =
        FileFacts { size: size_of(&stat), truncated: sender.truncated, mode: mode_bits(&stat), mtime: modified(&stat) };
    answers.finish(&GuestMessage::FileRead { op: answers.op(), file });
    Ok(())
}

fn read_at(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    retry_on_intr(|| pread(file, &mut *buffer, offset))
}

fn send_bytes(
    file: &OwnedFd,
    mut offset: u64,
    sender: &mut Sender<'_>,
    failed: &impl Fn(Errno) -> GuestError,
) -> Result<(), Stop> {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let read = read_at(file, &mut buffer, offset).map_err(failed)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        if bytes.is_empty() || !sender.send(bytes)? {
            return Ok(());
        }
        offset = offset.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
    }
}

/// Lines as `\n` ends them. Looks at no more than the file's size when it was opened, so that a file that grows as
/// fast as it is read ends too.
fn send_lines(
    file: &OwnedFd,
    size: u64,
    (first, count): (u64, u64),
    sender: &mut Sender<'_>,
    failed: &impl Fn(Errno) -> GuestError,
) -> Result<(), Stop> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut picker = LinePicker::new(first, count);
    let mut offset = 0u64;
    while offset < size && !picker.is_done() {
        let most = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        let space = buffer.get_mut(..most).unwrap_or_default();
        let read = read_at(file, space, offset).map_err(failed)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        if !sender.send(picker.pick(bytes))? {
            break;
        }
        offset = offset.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
    }
    Ok(())
}

/// Finds the wanted lines in a stream of chunks.
struct LinePicker {
    /// Line breaks before the first wanted line.
    skip: u64,
    /// Line breaks until the end of the last wanted line.
    want: u64,
}

impl LinePicker {
    fn new(first: u64, count: u64) -> Self {
        Self { skip: first.saturating_sub(1), want: count }
    }

    fn is_done(&self) -> bool {
        self.want == 0
    }

    /// The wanted part of the next chunk.
    fn pick<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let start = Self::pass(&mut self.skip, chunk);
        let rest = chunk.get(start..).unwrap_or_default();
        if self.skip > 0 {
            return &[];
        }
        let end = Self::pass(&mut self.want, rest);
        rest.get(..end).unwrap_or(rest)
    }

    /// Counts `breaks` down; returns where the chunk goes on behind the last one that counted.
    fn pass(breaks: &mut u64, chunk: &[u8]) -> usize {
        let mut at = 0usize;
        while *breaks > 0 {
            let rest = chunk.get(at..).unwrap_or_default();
            let Some(found) = rest.iter().position(|byte| *byte == b'\n') else { return chunk.len() };
            at = at.saturating_add(found).saturating_add(1);
            *breaks = breaks.saturating_sub(1);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(text: &str, first: u64, count: u64, chunk: usize) -> String {
        let mut picker = LinePicker::new(first, count);
        let mut picked = Vec::new();
        for chunk in text.as_bytes().chunks(chunk) {
            if picker.is_done() {
                break;
            }
            picked.extend_from_slice(picker.pick(chunk));
        }
        String::from_utf8(picked).unwrap()
    }

    #[test]
    fn lines_are_the_same_however_the_chunks_fall() {
        let text = "one\ntwo\n\nfour\nlast without break";
        for chunk in [1, 2, 3, 5, 100] {
            assert_eq!(pick(text, 1, 1, chunk), "one\n");
            assert_eq!(pick(text, 0, 1, chunk), "one\n");
            assert_eq!(pick(text, 2, 2, chunk), "two\n\n");
            assert_eq!(pick(text, 4, u64::MAX, chunk), "four\nlast without break");
            assert_eq!(pick(text, 5, 1, chunk), "last without break");
            assert_eq!(pick(text, 6, 1, chunk), "");
            assert_eq!(pick(text, 1, 0, chunk), "");
        }
    }
}
