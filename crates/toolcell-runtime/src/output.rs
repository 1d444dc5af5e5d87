//! What tools wrote: the part that a result shows is held, everything beyond is spooled to a file.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use toolcell_model::CallRef;
use toolcell_protocol::Stream;
use toolcell_tools::output::{INLINE_BYTES, StreamCapture};

/// Most bytes of one stream that are kept; a tool that writes more is stopped and its result says so.
pub const MAX_STREAM_BYTES: u64 = 64 * 1024 * 1024;
/// Most bytes of one answer to a request for output.
pub const MAX_OUTPUT_PAGE_BYTES: u64 = 8 * 1024 * 1024;

/// Half of what a result shows: of a long stream, its head and its tail.
const HALF: usize = INLINE_BYTES / 2;

/// Where spooled output is.
#[derive(Debug, Clone)]
pub(crate) struct OutputStore {
    directory: PathBuf,
}

/// Part of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPage {
    /// The bytes from the wanted offset on.
    pub bytes: Vec<u8>,
    /// How long the whole stream is.
    pub total: u64,
}

impl OutputStore {
    pub(crate) fn open(data_dir: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let directory = data_dir.join("outputs");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        Ok(Self { directory })
    }

    fn path(&self, call: &CallRef, stream: Stream) -> PathBuf {
        let name = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        self.directory.join(format!("{call}.{name}"))
    }

    pub(crate) fn capture(&self, call: &CallRef, stream: Stream) -> Capture {
        Capture { path: self.path(call, stream), held: Vec::new(), tail: Vec::new(), file: Spool::NotNeeded, total: 0 }
    }

    /// Part of a spooled stream; `None` when it was not spooled.
    pub(crate) fn page(
        &self,
        call: &CallRef,
        stream: Stream,
        offset: u64,
        limit: u64,
    ) -> std::io::Result<Option<OutputPage>> {
        let mut file = match File::open(self.path(call, stream)) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let total = file.metadata()?.len();
        file.seek(SeekFrom::Start(offset.min(total)))?;
        let mut bytes = Vec::new();
        file.take(limit.min(MAX_OUTPUT_PAGE_BYTES)).read_to_end(&mut bytes)?;
        Ok(Some(OutputPage { bytes, total }))
    }

    /// Forgets a call's output.
    pub(crate) fn remove(&self, call: &CallRef) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            match std::fs::remove_file(self.path(call, stream)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::warn!(call = call.as_str(), %error, "its output stays behind");
                }
                Ok(()) | Err(_) => {}
            }
        }
    }
}

#[derive(Debug)]
enum Spool {
    /// Everything is held.
    NotNeeded,
    Open(File),
    /// The disk is full, say: what a result shows is still there, the rest is lost, and the result says `truncated`.
    Failed,
}

/// One stream of one call.
#[derive(Debug)]
pub(crate) struct Capture {
    path: PathBuf,
    /// All bytes, up to what a result shows; then the head.
    held: Vec<u8>,
    /// The last bytes of a long stream, at least [`HALF`] and less than twice that.
    tail: Vec<u8>,
    file: Spool,
    total: u64,
}

impl Capture {
    pub(crate) fn add(&mut self, data: &[u8]) {
        self.total = self.total.saturating_add(data.len() as u64);
        if matches!(self.file, Spool::NotNeeded) {
            self.held.extend_from_slice(data);
            if self.held.len() > INLINE_BYTES {
                self.begin_spool();
            }
        } else {
            self.spool(data);
            self.tail.extend_from_slice(data);
        }
        if self.tail.len() > 2 * HALF {
            self.tail.drain(..self.tail.len() - HALF);
        }
    }

    fn begin_spool(&mut self) {
        let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&self.path);
        self.file = match opened {
            Ok(file) => Spool::Open(file),
            Err(error) => failed(&self.path, &error),
        };
        let held = std::mem::take(&mut self.held);
        self.spool(&held);
        self.tail = held.get(HALF..).unwrap_or_default().to_vec();
        self.held = held;
        self.held.truncate(HALF);
    }

    fn spool(&mut self, data: &[u8]) {
        if let Spool::Open(file) = &mut self.file
            && let Err(error) = file.write_all(data)
        {
            self.file = failed(&self.path, &error);
        }
    }

    /// What a result shows.
    pub(crate) fn shown(&self) -> StreamCapture<'_> {
        let skip = self.tail.len().saturating_sub(HALF);
        StreamCapture { head: &self.held, tail: self.tail.get(skip..).unwrap_or_default(), total: self.total }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Spool {
    tracing::error!(path = %path.display(), %error, "output cannot be kept; results show its head and tail");
    // Half a stream must not look like a whole one.
    let _ = std::fs::remove_file(path);
    Spool::Failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_cap_one_below_and_one_above() {
        let directory = tempfile::tempdir().unwrap();
        let store = OutputStore::open(directory.path()).unwrap();
        for (size, spooled) in [(INLINE_BYTES - 1, false), (INLINE_BYTES, false), (INLINE_BYTES + 1, true)] {
            for step in [1000, 70_000, INLINE_BYTES * 2] {
                let call = CallRef::generate();
                let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
                let mut capture = store.capture(&call, Stream::Stdout);
                bytes.chunks(step).for_each(|part| capture.add(part));
                let shown = capture.shown();
                assert_eq!(shown.total, size as u64);
                let page = store.page(&call, Stream::Stdout, 0, u64::MAX).unwrap();
                assert_eq!(page.is_some(), spooled, "{size}");
                if let Some(page) = page {
                    assert_eq!(page.bytes, bytes);
                    assert_eq!((shown.head, shown.tail), (&bytes[..HALF], &bytes[size - HALF..]), "{size} by {step}");
                } else {
                    assert_eq!((shown.head, shown.tail), (&bytes[..], &[][..]));
                }
                store.remove(&call);
                assert!(store.page(&call, Stream::Stdout, 0, 1).unwrap().is_none());
            }
        }
    }

    #[test]
    fn a_stream_that_cannot_be_spooled_still_shows_head_and_tail() {
        let directory = tempfile::tempdir().unwrap();
        let store = OutputStore::open(directory.path()).unwrap();
        std::fs::remove_dir_all(directory.path()).unwrap();
        let call = CallRef::generate();
        let mut capture = store.capture(&call, Stream::Stderr);
        capture.add(&vec![b'a'; INLINE_BYTES]);
        capture.add(&vec![b'b'; INLINE_BYTES]);
        let shown = capture.shown();
        assert_eq!((shown.head[0], shown.tail[HALF - 1], shown.total), (b'a', b'b', 2 * INLINE_BYTES as u64));
    }
}
