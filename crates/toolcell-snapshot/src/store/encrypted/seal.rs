//! The sealed form of an object.
//!
//! ```text
//! header   "TCSE", version (1 byte), key id (8), nonce (19), size of the plain bytes (u64, little endian)
//! segments each at most 64 KiB of plain bytes, enciphered, and a tag of 16 bytes; an empty object has one empty segment
//! ```
//!
//! XChaCha20-Poly1305 in the STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizár: "Online Authenticated-Encryption
//! and its Nonce-Reuse Misuse-Resistance", 2015): a segment's nonce is the object's 19 random bytes, the segment's number
//! (u32, big endian) and 1 if it is the last one. What each tag covers besides the segment is the header and what the
//! object is called. So a segment opens only at its own place in its own object of its own size.

use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::{Key, Tag, XChaCha20Poly1305, XNonce};

const MAGIC: [u8; 4] = *b"TCSE";
const VERSION: u8 = 1;
const KEY_ID_BYTES: usize = 8;
const NONCE_BYTES: usize = 19;
pub(super) const HEADER_BYTES: usize = MAGIC.len() + 1 + KEY_ID_BYTES + NONCE_BYTES + 8;
/// Plain bytes of a segment: what is read too much around a range is at most two of them.
const SEGMENT_BYTES: usize = 64 * 1024;
const TAG_BYTES: usize = 16;
const SEALED_SEGMENT_BYTES: u64 = (SEGMENT_BYTES + TAG_BYTES) as u64;

const CIPHER_CONTEXT: &str = "toolcell.dev 2026 sealed object key v1";
const KEY_ID_CONTEXT: &str = "toolcell.dev 2026 sealed object key id v1";

/// What is said of bytes that do not begin like a sealed object.
pub(super) const NOT_SEALED: &str = "it is not encrypted, as everything in this store must be";
const DAMAGED: &str = "it does not open: it is damaged, or stands in another's place";

/// Whether bytes begin like a sealed object.
pub(crate) fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// What an object is called, as its tags cover it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Label<'a> {
    Object(&'a str),
    Head(&'a str),
}

impl Label<'_> {
    /// The header has one length and the kind is one byte, so that no two labels give the same bytes.
    fn associated(self, header: &[u8; HEADER_BYTES]) -> Vec<u8> {
        let (kind, name) = match self {
            Self::Object(name) => (1, name),
            Self::Head(name) => (2, name),
        };
        [header, &[kind][..], name.as_bytes()].concat()
    }
}

/// A key, ready to be used.
#[derive(Clone)]
pub(super) struct SealKey {
    id: [u8; KEY_ID_BYTES],
    cipher: XChaCha20Poly1305,
}

impl SealKey {
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = blake3::derive_key(KEY_ID_CONTEXT, secret);
        let key = blake3::derive_key(CIPHER_CONTEXT, secret);
        Self { id: [a, b, c, d, e, f, g, h], cipher: XChaCha20Poly1305::new(Key::from_slice(&key)) }
    }

    pub(super) fn made(&self, header: &Header) -> bool {
        self.id == header.key_id
    }

    /// The whole sealed object, and its header.
    pub(super) fn seal(&self, label: Label<'_>, plain: &[u8]) -> Result<(Vec<u8>, Header), String> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
        let header = Header { key_id: self.id, nonce, plain_bytes: plain.len() as u64 };
        let bytes = header.encode();
        let associated = label.associated(&bytes);
        let mut sealed = Vec::with_capacity(usize::try_from(sealed_len(header.plain_bytes)).unwrap_or_default());
        sealed.extend_from_slice(&bytes);
        for number in 0..header.segments() {
            let start = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(SEGMENT_BYTES);
            let segment = plain.get(start..plain.len().min(start.saturating_add(SEGMENT_BYTES))).unwrap_or_default();
            let at = sealed.len();
            sealed.extend_from_slice(segment);
            let body = sealed.get_mut(at..).unwrap_or_default();
            let tag = self.cipher.encrypt_in_place_detached(&header.nonce_of(number), &associated, body);
            sealed.extend_from_slice(&tag.map_err(|_| "it is too large to be enciphered".to_owned())?);
        }
        Ok((sealed, header))
    }

    /// The plain bytes of whole segments, the first of which has this number.
    pub(super) fn open(
        &self,
        header: &Header,
        label: Label<'_>,
        first: u64,
        sealed: &[u8],
    ) -> Result<Vec<u8>, &'static str> {
        let associated = label.associated(&header.encode());
        let mut plain = Vec::with_capacity(sealed.len());
        for (number, segment) in (first..).zip(sealed.chunks(SEGMENT_BYTES + TAG_BYTES)) {
            let body = segment.len().checked_sub(TAG_BYTES).ok_or(DAMAGED)?;
            let (body, tag) = segment.split_at(body);
            let at = plain.len();
            plain.extend_from_slice(body);
            let opened = self.cipher.decrypt_in_place_detached(
                &header.nonce_of(number),
                &associated,
                plain.get_mut(at..).unwrap_or_default(),
                Tag::from_slice(tag),
            );
            opened.map_err(|_| DAMAGED)?;
        }
        Ok(plain)
    }
}

/// What a sealed object begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    key_id: [u8; KEY_ID_BYTES],
    nonce: [u8; NONCE_BYTES],
    pub(super) plain_bytes: u64,
}

/// Where the segments around a range are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Number of the first one.
    pub(super) first: u64,
    /// Where it begins in the sealed object.
    pub(super) sealed_offset: u64,
    /// How much of the sealed object they are.
    pub(super) sealed_bytes: u64,
    /// Where the range begins in the plain bytes of the segments.
    pub(super) skip: u64,
}

impl Header {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let parts = [&MAGIC[..], &[VERSION], &self.key_id, &self.nonce, &self.plain_bytes.to_le_bytes()];
        for (place, byte) in bytes.iter_mut().zip(parts.concat()) {
            *place = byte;
        }
        bytes
    }

    /// Reads a header. What it says is to be believed once a segment has opened.
    pub(super) fn parse(bytes: &[u8], max_plain_bytes: u64) -> Result<Self, &'static str> {
        if !is_sealed(bytes) {
            return Err(NOT_SEALED);
        }
        let parse = || {
            let (version, bytes) = bytes.get(MAGIC.len()..)?.split_first()?;
            let (key_id, bytes) = bytes.split_first_chunk()?;
            let (nonce, bytes) = bytes.split_first_chunk()?;
            let (plain_bytes, _) = bytes.split_first_chunk()?;
            Some((*version, Self { key_id: *key_id, nonce: *nonce, plain_bytes: u64::from_le_bytes(*plain_bytes) }))
        };
        match parse() {
            None => Err("it is too short for an encrypted object"),
            Some((VERSION, header)) if header.plain_bytes <= max_plain_bytes => Ok(header),
            Some((VERSION, _)) => Err("it claims to be larger than anything can be"),
            Some(_) => Err("its encryption is of a version that this program does not read"),
        }
    }

    fn segments(&self) -> u64 {
        self.plain_bytes.div_ceil(SEGMENT_BYTES as u64).max(1)
    }

    fn nonce_of(&self, number: u64) -> XNonce {
        let mut nonce = XNonce::default();
        let is_last = u8::from(number.saturating_add(1) == self.segments());
        // Sizes are bounded far below 2^32 segments.
        let number = u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes();
        for (place, byte) in nonce.iter_mut().zip([&self.nonce[..], &number, &[is_last]].concat()) {
            *place = byte;
        }
        nonce
    }

    /// The segments that hold a range of the plain bytes, at least one; none if the object ends before.
    pub(super) fn span(&self, offset: u64, len: u64) -> Option<Span> {
        let end = offset.checked_add(len).filter(|end| *end <= self.plain_bytes)?;
        let segment = SEGMENT_BYTES as u64;
        let first = (offset / segment).min(self.segments() - 1);
        let last = (end.saturating_sub(1) / segment).clamp(first, self.segments() - 1);
        let sealed_offset = HEADER_BYTES as u64 + first * SEALED_SEGMENT_BYTES;
        let sealed_end =
            sealed_len(self.plain_bytes).min(HEADER_BYTES as u64 + (last + 1).saturating_mul(SEALED_SEGMENT_BYTES));
        let sealed_bytes = sealed_end.saturating_sub(sealed_offset);
        Some(Span { first, sealed_offset, sealed_bytes, skip: offset.saturating_sub(first * segment) })
    }
}

/// Size of the sealed form.
pub(super) const fn sealed_len(plain: u64) -> u64 {
    let segments = plain.div_ceil(SEGMENT_BYTES as u64);
    let segments = if segments == 0 { 1 } else { segments };
    plain.saturating_add(HEADER_BYTES as u64).saturating_add(segments.saturating_mul(TAG_BYTES as u64))
}

/// Size of the plain bytes of a sealed form; of what cannot be one, the largest that would fit in.
pub(super) const fn plain_len(sealed: u64) -> u64 {
    let body = sealed.saturating_sub(HEADER_BYTES as u64);
    body.saturating_sub(body.div_ceil(SEALED_SEGMENT_BYTES).saturating_mul(TAG_BYTES as u64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;

    const SEGMENT: u64 = SEGMENT_BYTES as u64;

    #[test]
    fn sizes_are_known_without_reading() {
        let key = SealKey::new(&[1; 32]);
        for plain in [0, 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT, 2 * SEGMENT + 5] {
            let bytes = vec![7; usize::try_from(plain).unwrap()];
            let (sealed, header) = key.seal(Label::Object("a"), &bytes).unwrap();
            assert_eq!((sealed.len() as u64, plain_len(sealed.len() as u64)), (sealed_len(plain), plain));
            assert_eq!(Header::parse(&sealed, plain).unwrap(), header);
            assert!(Header::parse(&sealed, plain.wrapping_sub(1).min(plain)).is_err() || plain == 0);
            assert!(key.open(&header, Label::Object("a"), 0, &sealed[HEADER_BYTES..]).unwrap() == bytes);
        }
    }

    #[test]
    fn a_span_is_the_segments_around_a_range() {
        let header = Header { key_id: [0; 8], nonce: [0; 19], plain_bytes: 3 * SEGMENT + 10 };
        let all = sealed_len(header.plain_bytes) - HEADER_BYTES as u64;
        let span = |offset, len| header.span(offset, len).map(|span| (span.first, span.sealed_bytes, span.skip));
        assert_eq!(span(0, 1), Some((0, SEALED_SEGMENT_BYTES, 0)));
        assert_eq!(span(SEGMENT - 1, 1), Some((0, SEALED_SEGMENT_BYTES, SEGMENT - 1)));
        assert_eq!(span(SEGMENT - 1, 2), Some((0, 2 * SEALED_SEGMENT_BYTES, SEGMENT - 1)));
        assert_eq!(span(SEGMENT, SEGMENT), Some((1, SEALED_SEGMENT_BYTES, 0)));
        assert_eq!(span(3 * SEGMENT + 9, 1), Some((3, 26, 9)));
        assert_eq!(span(3 * SEGMENT + 10, 0), Some((3, 26, 10)));
        assert_eq!(span(0, header.plain_bytes), Some((0, all, 0)));
        assert_eq!(span(0, header.plain_bytes + 1), None);
        assert_eq!(span(u64::MAX, 1), None);
    }
}
