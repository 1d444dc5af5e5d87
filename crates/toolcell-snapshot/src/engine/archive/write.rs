//! A restore whose target is an archive.

use super::ArchiveFormat;
use crate::entry::{MAX_ITEM_BYTES, Meta, RestoreItem, TimeNs, WorkspaceSink};
use crate::error::SourceError;
use async_trait::async_trait;
use bytes::Bytes;
use tar::{EntryType, Header};
use tokio::sync::Mutex;
use tokio::sync::mpsc::Sender;
use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

const BLOCK: usize = 512;
const NAME_BYTES: usize = 100;
/// Fast; the archive is made while somebody waits for it.
const ZSTD_LEVEL: i32 = 1;

/// Writes what is restored to an archive.
pub(super) struct TarSink {
    roots: Vec<Vec<u8>>,
    state: Mutex<State>,
}

struct State {
    out: Sender<Bytes>,
    buffer: Vec<u8>,
    encoder: Option<Encoder<'static>>,
    /// Size of the file that is being written, and how much of it is.
    file: (u64, u64),
    left: u64,
}

impl TarSink {
    pub(super) fn new(
        roots: &[String],
        format: ArchiveFormat,
        out: Sender<Bytes>,
        max_bytes: u64,
    ) -> Result<Self, SourceError> {
        let encoder = match format {
            ArchiveFormat::Tar => None,
            ArchiveFormat::TarZstd => Some(Encoder::new(ZSTD_LEVEL).map_err(internal)?),
        };
        let roots = roots.iter().map(|root| root.trim_start_matches('/').as_bytes().to_vec()).collect();
        let state = State { out, buffer: Vec::new(), encoder, file: (0, 0), left: max_bytes };
        Ok(Self { roots, state: Mutex::new(state) })
    }

    fn path(&self, root: u16, path: &[u8]) -> Vec<u8> {
        let mut name = self.roots.get(usize::from(root)).cloned().unwrap_or_default();
        if !path.is_empty() {
            name.push(b'/');
            name.extend_from_slice(path);
        }
        name
    }
}

fn internal(error: std::io::Error) -> SourceError {
    SourceError::Internal { detail: error.to_string() }
}

#[async_trait]
impl WorkspaceSink for TarSink {
    async fn put(&self, item: RestoreItem) -> Result<(), SourceError> {
        let mut state = self.state.lock().await;
        match item {
            RestoreItem::Dir { root, path, meta } => {
                let mut name = self.path(root, &path);
                name.push(b'/');
                state.header(EntryType::Directory, &name, None, &meta, 0).await
            }
            RestoreItem::Symlink { root, path, target, meta } => {
                let meta = Meta { mode: 0o777, ..meta };
                state.header(EntryType::Symlink, &self.path(root, &path), Some(&target), &meta, 0).await
            }
            RestoreItem::Hardlink { root, path, to } => {
                let to = self.path(root, &to);
                state.header(EntryType::Link, &self.path(root, &path), Some(&to), &Meta::default(), 0).await
            }
            RestoreItem::File { root, path, meta, size, data, complete } => {
                state.left = state.left.checked_sub(size).ok_or_else(|| SourceError::TooLarge {
                    detail: "the files, holes counted, have more bytes than a workspace may have".to_owned(),
                })?;
                state.header(EntryType::Regular, &self.path(root, &path), None, &meta, size).await?;
                state.file = (size, 0);
                state.content(0, &data).await?;
                if complete { state.end_file().await } else { Ok(()) }
            }
            RestoreItem::Extent { offset, data, .. } => state.content(offset, &data).await,
            RestoreItem::FileEnd { .. } => state.end_file().await,
        }
    }

    async fn finish(&self) -> Result<(), SourceError> {
        let mut state = self.state.lock().await;
        state.write(&[0; 2 * BLOCK]).await?;
        state.flush(true).await
    }
}

impl State {
    async fn header(
        &mut self,
        kind: EntryType,
        name: &[u8],
        link: Option<&[u8]>,
        meta: &Meta,
        size: u64,
    ) -> Result<(), SourceError> {
        let mut records = Vec::new();
        record(&mut records, b"path", name);
        if let Some(link) = link {
            record(&mut records, b"linkpath", link);
        }
        if kind != EntryType::Link {
            record(&mut records, b"mtime", time(meta.mtime).as_bytes());
        }
        for (name, value) in &meta.xattrs {
            record(&mut records, &[b"SCHILY.xattr.", &name[..]].concat(), value);
        }
        let extended =
            plain(EntryType::XHeader, b"pax", None, &Meta { mode: 0o644, ..Meta::default() }, records.len() as u64);
        self.write(extended.as_bytes()).await?;
        self.write(&records).await?;
        self.pad(records.len() as u64).await?;
        self.write(plain(kind, name, link, meta, size).as_bytes()).await
    }

    async fn content(&mut self, offset: u64, data: &[u8]) -> Result<(), SourceError> {
        self.zeros(offset.saturating_sub(self.file.1)).await?;
        self.write(data).await?;
        self.file.1 = offset.saturating_add(data.len() as u64);
        Ok(())
    }

    async fn end_file(&mut self) -> Result<(), SourceError> {
        let (size, written) = self.file;
        self.zeros(size.saturating_sub(written)).await?;
        self.pad(size).await
    }

    async fn pad(&mut self, size: u64) -> Result<(), SourceError> {
        let over = usize::try_from(size % BLOCK as u64).unwrap_or_default();
        if over == 0 { Ok(()) } else { self.zeros((BLOCK - over) as u64).await }
    }

    async fn zeros(&mut self, mut count: u64) -> Result<(), SourceError> {
        let zeros = [0; 16 * BLOCK];
        while count > 0 {
            let part = zeros.get(..usize::try_from(count).unwrap_or(zeros.len())).unwrap_or(&zeros);
            self.write(part).await?;
            count = count.saturating_sub(part.len() as u64);
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), SourceError> {
        match &mut self.encoder {
            None => self.buffer.extend_from_slice(bytes),
            Some(encoder) => {
                let mut input = InBuffer::around(bytes);
                let mut part = vec![0; 64 * 1024];
                while input.pos() < bytes.len() {
                    let mut output = OutBuffer::around(&mut part);
                    encoder.run(&mut input, &mut output).map_err(internal)?;
                    self.buffer.extend_from_slice(output.as_slice());
                }
            }
        }
        if self.buffer.len() >= MAX_ITEM_BYTES { self.flush(false).await } else { Ok(()) }
    }

    async fn flush(&mut self, is_end: bool) -> Result<(), SourceError> {
        if let Some(encoder) = self.encoder.as_mut().filter(|_| is_end) {
            let mut part = vec![0; 64 * 1024];
            loop {
                let mut output = OutBuffer::around(&mut part);
                let left = encoder.finish(&mut output, true).map_err(internal)?;
                self.buffer.extend_from_slice(output.as_slice());
                if left == 0 {
                    break;
                }
            }
        }
        let part = Bytes::from(std::mem::take(&mut self.buffer));
        let gone = |_| SourceError::Unavailable { detail: "nobody takes the archive any more".to_owned() };
        if part.is_empty() { Ok(()) } else { self.out.send(part).await.map_err(gone) }
    }
}

/// A header without what only PAX can say.
fn plain(kind: EntryType, name: &[u8], link: Option<&[u8]>, meta: &Meta, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(meta.mode);
    header.set_mtime(u64::try_from(meta.mtime.secs).unwrap_or_default());
    // The tool user of every image.
    header.set_uid(1000);
    header.set_gid(1000);
    let bytes = header.as_mut_bytes();
    for (field, text) in [(0, name), (157, link.unwrap_or_default())] {
        if let Some(field) = bytes.get_mut(field..field + NAME_BYTES) {
            field.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        }
    }
    header.set_cksum();
    header
}

/// `length key=value` and a line feed, where the length counts itself.
fn record(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while rest + len.to_string().len() != len {
        len = rest + len.to_string().len();
    }
    records.extend_from_slice(format!("{len} ").as_bytes());
    records.extend_from_slice(key);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

fn time(time: TimeNs) -> String {
    match time {
        TimeNs { secs, nanos } if secs < 0 && nanos > 0 => {
            let sign = if secs == -1 { "-" } else { "" };
            format!("{sign}{}.{:09}", secs + 1, 1_000_000_000 - nanos)
        }
        TimeNs { secs, nanos } => format!("{secs}.{nanos:09}"),
    }
}
