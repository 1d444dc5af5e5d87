//! Archives that come in: decoded entry by entry, everything in them untrusted.

use crate::entry::{MAX_PATH_BYTES, MODE_BITS, Meta, TimeNs, Xattrs};
use crate::error::ImportError;
use tar::{EntryType, Header, PaxExtensions};
use tokio::io::{AsyncRead, AsyncReadExt};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

const BLOCK: usize = 512;
/// Largest extended header: the longest path, the longest target and all attributes fit. A larger one is refused.
const MAX_EXTENDED_BYTES: u64 = 1024 * 1024;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Largest window of a compressed archive (64 MiB): what `zstd --long=26` makes. One that wants more is refused.
const MAX_WINDOW_LOG: u32 = 26;
/// An archive may expand to this much whatever its size.
const FREE_BYTES: u64 = 256 * 1024 * 1024;
/// Beyond that, to this many times what was received. More is refused.
const MAX_RATIO: u64 = 1000;

/// A stream of plain archive bytes.
pub(in crate::engine) struct Input<'a> {
    reader: &'a mut (dyn AsyncRead + Send + Unpin),
    decoder: Option<Decoder<'static>>,
    raw: Vec<u8>,
    raw_used: usize,
    plain: Vec<u8>,
    plain_used: usize,
    received: u64,
    expanded: u64,
    /// Most bytes after decompression.
    max_bytes: u64,
}

/// What an entry is.
#[derive(Debug)]
pub(in crate::engine) enum EntryBody {
    Dir,
    /// Content of this size follows.
    File {
        size: u64,
    },
    Symlink {
        target: Vec<u8>,
    },
    Hardlink {
        to: Vec<u8>,
    },
}

/// One entry; for a file its content is still to be read.
#[derive(Debug)]
pub(in crate::engine) struct Entry {
    pub(in crate::engine) path: Vec<u8>,
    pub(in crate::engine) meta: Meta,
    pub(in crate::engine) body: EntryBody,
}

/// What extended headers say about the next entry.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    mtime: Option<TimeNs>,
    xattrs: Xattrs,
}

fn malformed(detail: impl Into<String>) -> ImportError {
    ImportError::Malformed { detail: detail.into() }
}

pub(in crate::engine) fn refused(path: &[u8], detail: impl Into<String>) -> ImportError {
    let path = path.escape_ascii().take(300).map(char::from).collect();
    ImportError::Entry { path, detail: detail.into() }
}

impl<'a> Input<'a> {
    /// Finds out whether it is compressed.
    pub(in crate::engine) async fn new(
        reader: &'a mut (dyn AsyncRead + Send + Unpin),
        max_bytes: u64,
    ) -> Result<Self, ImportError> {
        let mut input = Self {
            reader,
            decoder: None,
            raw: Vec::new(),
            raw_used: 0,
            plain: Vec::new(),
            plain_used: 0,
            received: 0,
            expanded: 0,
            max_bytes,
        };
        while input.raw.len() < ZSTD_MAGIC.len() && input.receive().await? {}
        if input.raw.starts_with(&ZSTD_MAGIC) {
            let mut decoder = Decoder::new().map_err(|error| malformed(error.to_string()))?;
            decoder
                .set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))
                .map_err(|error| malformed(error.to_string()))?;
            input.decoder = Some(decoder);
        }
        Ok(input)
    }

    /// More raw bytes; whether there were any.
    async fn receive(&mut self) -> Result<bool, ImportError> {
        if self.raw_used == self.raw.len() {
            self.raw.clear();
            self.raw_used = 0;
        }
        let before = self.raw.len();
        self.raw.resize(before + 64 * 1024, 0);
        let part = self.raw.get_mut(before..).unwrap_or_default();
        let read = self.reader.read(part).await.map_err(ImportError::Receive)?;
        self.raw.truncate(before + read);
        self.received = self.received.saturating_add(read as u64);
        Ok(read > 0)
    }

    /// More plain bytes; whether there were any.
    async fn fill(&mut self) -> Result<bool, ImportError> {
        self.plain.clear();
        self.plain_used = 0;
        while self.plain.is_empty() {
            if self.raw_used == self.raw.len() && !self.receive().await? {
                return Ok(false);
            }
            let raw = self.raw.get(self.raw_used..).unwrap_or_default();
            match &mut self.decoder {
                None => {
                    self.plain.extend_from_slice(raw);
                    self.raw_used = self.raw.len();
                }
                Some(decoder) => {
                    let mut part = vec![0; 128 * 1024];
                    let mut from = InBuffer::around(raw);
                    let mut to = OutBuffer::around(&mut part);
                    let run = decoder.run(&mut from, &mut to);
                    run.map_err(|error| malformed(format!("it cannot be decompressed: {error}")))?;
                    self.raw_used += from.pos();
                    let written = to.pos();
                    part.truncate(written);
                    self.plain = part;
                }
            }
        }
        self.expanded = self.expanded.saturating_add(self.plain.len() as u64);
        if self.expanded > self.max_bytes {
            return Err(ImportError::TooLarge { detail: format!("more than {} bytes", self.max_bytes) });
        }
        if self.expanded > FREE_BYTES.saturating_add(self.received.saturating_mul(MAX_RATIO)) {
            let detail = format!("it expands to more than {MAX_RATIO} times its size");
            return Err(ImportError::TooLarge { detail });
        }
        Ok(true)
    }

    /// Fills the buffer; false if the archive ends before its first byte.
    async fn read_or_end(&mut self, to: &mut [u8]) -> Result<bool, ImportError> {
        let mut done = 0;
        while done < to.len() {
            if self.plain_used == self.plain.len() && !self.fill().await? {
                return if done == 0 { Ok(false) } else { Err(malformed("it ends in the middle")) };
            }
            let from = self.plain.get(self.plain_used..).unwrap_or_default();
            let rest = to.get_mut(done..).unwrap_or_default();
            let count = from.len().min(rest.len());
            rest.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            self.plain_used += count;
            done += count;
        }
        Ok(true)
    }

    /// Exactly this many bytes.
    pub(in crate::engine) async fn read(&mut self, len: usize) -> Result<Vec<u8>, ImportError> {
        let mut bytes = vec![0; len];
        if len > 0 && !self.read_or_end(&mut bytes).await? {
            return Err(malformed("it ends in the middle"));
        }
        Ok(bytes)
    }

    /// What fills the last block of content.
    pub(in crate::engine) async fn skip_padding(&mut self, size: u64) -> Result<(), ImportError> {
        let over = usize::try_from(size % BLOCK as u64).unwrap_or_default();
        if over > 0 {
            self.read(BLOCK - over).await?;
        }
        Ok(())
    }

    /// The next entry, with what extended headers before it say. None at the end.
    pub(in crate::engine) async fn next(&mut self) -> Result<Option<Entry>, ImportError> {
        let mut extended = Extended::default();
        loop {
            let mut block = [0; BLOCK];
            if !self.read_or_end(&mut block).await? || block.iter().all(|byte| *byte == 0) {
                return Ok(None);
            }
            let header = Header::from_byte_slice(&block);
            check_sum(header, &block)?;
            let size = header.entry_size().map_err(|error| malformed(error.to_string()))?;
            match header.entry_type() {
                kind @ (EntryType::XHeader
                | EntryType::XGlobalHeader
                | EntryType::GNULongName
                | EntryType::GNULongLink) => {
                    if size > MAX_EXTENDED_BYTES {
                        return Err(ImportError::TooLarge { detail: format!("a header of {size} bytes") });
                    }
                    let mut text = self.read(usize::try_from(size).unwrap_or_default()).await?;
                    self.skip_padding(size).await?;
                    match kind {
                        EntryType::XHeader => extended.read(&text)?,
                        EntryType::GNULongName | EntryType::GNULongLink => {
                            while text.pop_if(|byte| *byte == 0).is_some() {}
                            let field =
                                if kind == EntryType::GNULongName { &mut extended.path } else { &mut extended.link };
                            *field = Some(text);
                        }
                        // Comments, such as a commit's id.
                        _ => {}
                    }
                }
                kind => return entry(header, kind, size, extended).map(Some),
            }
        }
    }
}

fn check_sum(header: &Header, block: &[u8; BLOCK]) -> Result<(), ImportError> {
    let sum: u32 =
        (0..).zip(block).map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum();
    match header.cksum() {
        Ok(noted) if noted == sum => Ok(()),
        Ok(_) | Err(_) => Err(malformed("a header's checksum does not match: it is no tar archive, or is damaged")),
    }
}

fn entry(header: &Header, kind: EntryType, size: u64, extended: Extended) -> Result<Entry, ImportError> {
    let path = extended.path.unwrap_or_else(|| header.path_bytes().into_owned());
    let link = extended.link.or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned)).unwrap_or_default();
    if path.len().max(link.len()) > MAX_PATH_BYTES {
        return Err(refused(&path, "a path that is too long"));
    }
    let size = extended.size.unwrap_or(size);
    let body = match kind {
        EntryType::Regular | EntryType::Continuous if path.ends_with(b"/") => EntryBody::Dir,
        EntryType::Regular | EntryType::Continuous => EntryBody::File { size },
        EntryType::Directory => EntryBody::Dir,
        EntryType::Symlink => EntryBody::Symlink { target: link },
        EntryType::Link => EntryBody::Hardlink { to: link },
        EntryType::Block | EntryType::Char | EntryType::Fifo => {
            return Err(refused(&path, "devices, FIFOs and sockets are not imported"));
        }
        _ => return Err(refused(&path, "an entry of a kind that is not imported; write plain or PAX tar")),
    };
    if !matches!(body, EntryBody::File { .. }) && size != 0 {
        return Err(refused(&path, "content where there can be none"));
    }
    let whole = || header.mtime().ok().and_then(|secs| i64::try_from(secs).ok());
    let mtime = extended.mtime.or_else(|| whole().map(|secs| TimeNs { secs, nanos: 0 }));
    let mtime = mtime.ok_or_else(|| refused(&path, "an impossible time"))?;
    let mode = header.mode().map_err(|_| refused(&path, "an impossible mode"))? & MODE_BITS;
    Ok(Entry { path, meta: Meta { mode, mtime, xattrs: extended.xattrs }, body })
}

impl Extended {
    fn read(&mut self, text: &[u8]) -> Result<(), ImportError> {
        for record in PaxExtensions::new(text) {
            let record = record.map_err(|error| malformed(error.to_string()))?;
            let value = record.value_bytes();
            let number = || std::str::from_utf8(value).ok();
            match record.key_bytes() {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"size" => {
                    let size = number().and_then(|text| text.parse().ok());
                    self.size = Some(size.ok_or_else(|| malformed("an impossible size"))?);
                }
                b"mtime" => {
                    let time = number().and_then(parse_time);
                    self.mtime = Some(time.ok_or_else(|| malformed("an impossible time"))?);
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(malformed("sparse entries are not imported; write the archive without --sparse"));
                }
                key => {
                    if let Some(name) = key.strip_prefix(b"SCHILY.xattr.").filter(|name| name.starts_with(b"user.")) {
                        self.xattrs.push((name.to_vec(), value.to_vec()));
                    }
                }
            }
        }
        Ok(())
    }
}

fn parse_time(text: &str) -> Option<TimeNs> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let secs: i64 = whole.parse().ok()?;
    let nanos: u32 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    if whole.starts_with('-') && nanos > 0 {
        return Some(TimeNs { secs: secs.checked_sub(1)?, nanos: 1_000_000_000 - nanos });
    }
    Some(TimeNs { secs, nanos })
}
