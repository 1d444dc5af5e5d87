//! Packs: many blobs in one immutable object.
//!
//! ```text
//! blob blob blob … | entry entry entry … | magic 4, version 2, reserved 2, entries 4, proof 32
//! entry: id 32, kind 1, codec 1, offset 4, stored length 4, plain length 4     (integers little-endian)
//! ```
//!
//! The proof covers the pack's name and the entries; each blob is checked against its id.

use super::keys::{BlobId, BlobKind, StoreKeys, TenantKeys};
use super::manifest::PackRef;
use crate::error::StoreError;
use crate::store::ObjectName;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A pack is closed when it has this many bytes.
pub(crate) const PACK_BYTES: usize = 16 * 1024 * 1024;
/// Largest blob before compression. One that claims more is corrupt.
pub(crate) const MAX_BLOB_BYTES: usize = 8 * 1024 * 1024;

const MAGIC: [u8; 4] = *b"TCPK";
const VERSION: u16 = 1;
const ENTRY_BYTES: usize = 46;
const TRAILER_BYTES: usize = 44;
/// Below this, compressing is not tried.
const MIN_COMPRESSED_BYTES: usize = 64;
/// Fast; a slot is saved every few seconds.
const ZSTD_LEVEL: i32 = 1;

/// How a blob is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Codec {
    Raw,
    Zstd,
}

/// Where a blob is in its pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) kind: BlobKind,
    pub(crate) codec: Codec,
    pub(crate) offset: u32,
    pub(crate) stored_bytes: u32,
    pub(crate) plain_bytes: u32,
}

/// A blob as it is stored.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) id: BlobId,
    pub(crate) kind: BlobKind,
    pub(crate) codec: Codec,
    pub(crate) plain_bytes: u32,
    pub(crate) stored: Bytes,
}

/// Compresses blobs; one per thread and batch.
pub(crate) struct Sealer(zstd::bulk::Compressor<'static>);

impl Sealer {
    pub(crate) fn new() -> std::io::Result<Self> {
        zstd::bulk::Compressor::new(ZSTD_LEVEL).map(Self)
    }

    pub(crate) fn seal(&mut self, id: BlobId, kind: BlobKind, plain: Vec<u8>) -> std::io::Result<Sealed> {
        let plain_bytes = u32::try_from(plain.len()).map_err(std::io::Error::other)?;
        let compressed = if plain.len() >= MIN_COMPRESSED_BYTES { Some(self.0.compress(&plain)?) } else { None };
        let (codec, stored) = match compressed {
            Some(compressed) if compressed.len() < plain.len() - plain.len() / 16 => (Codec::Zstd, compressed),
            Some(_) | None => (Codec::Raw, plain),
        };
        Ok(Sealed { id, kind, codec, plain_bytes, stored: Bytes::from(stored) })
    }
}

/// Gives a blob's plain bytes back, or says what is wrong with it.
pub(crate) fn open(keys: &TenantKeys, id: BlobId, place: &Place, stored: &[u8]) -> Result<Vec<u8>, String> {
    let plain_bytes = place.plain_bytes as usize;
    if plain_bytes > MAX_BLOB_BYTES {
        return Err(format!("blob {id:?} claims {plain_bytes} bytes"));
    }
    let plain = match place.codec {
        Codec::Raw => stored.to_vec(),
        Codec::Zstd => zstd::bulk::decompress(stored, plain_bytes)
            .map_err(|error| format!("blob {id:?} cannot be decompressed: {error}"))?,
    };
    if plain.len() != plain_bytes || keys.id(place.kind, &plain) != id {
        return Err(format!("blob {id:?} is not what was written"));
    }
    Ok(plain)
}

/// A pack while it is filled.
#[derive(Debug)]
pub(crate) struct PackBuilder {
    name: ObjectName,
    blobs: Vec<u8>,
    entries: Vec<u8>,
}

impl PackBuilder {
    pub(crate) fn new(name: ObjectName) -> Self {
        Self { name, blobs: Vec::new(), entries: Vec::new() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.blobs.len() + self.entries.len() >= PACK_BYTES
    }

    pub(crate) fn push(&mut self, blob: &Sealed) -> Result<Place, StoreError> {
        let too_large = |error: std::num::TryFromIntError| StoreError::internal(&self.name, error);
        let offset = u32::try_from(self.blobs.len()).map_err(too_large)?;
        let stored_bytes = u32::try_from(blob.stored.len()).map_err(too_large)?;
        let place = Place { kind: blob.kind, codec: blob.codec, offset, stored_bytes, plain_bytes: blob.plain_bytes };
        self.blobs.extend_from_slice(&blob.stored);
        self.entries.extend_from_slice(&encode_entry(blob.id, &place));
        Ok(place)
    }

    pub(crate) fn finish(self, keys: &StoreKeys) -> Result<(PackRef, Bytes), StoreError> {
        let Self { name, blobs: mut bytes, entries } = self;
        let blob_bytes = bytes.len();
        let count = u32::try_from(entries.len() / ENTRY_BYTES).map_err(|error| StoreError::internal(&name, error))?;
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&[0, 0]);
        head.extend_from_slice(&count.to_le_bytes());
        let proof = keys.authenticate(&[name.as_str().as_bytes(), &entries, &head]);
        bytes.extend_from_slice(&entries);
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(proof.as_bytes());
        let footer = u32::try_from(bytes.len() - blob_bytes).map_err(|error| StoreError::internal(&name, error))?;
        Ok((PackRef { name, bytes: bytes.len() as u64, footer_bytes: footer }, Bytes::from(bytes)))
    }
}

/// Reads the list at a pack's end.
pub(crate) fn decode_footer(
    keys: &StoreKeys,
    pack: &PackRef,
    footer: &[u8],
) -> Result<Vec<(BlobId, Place)>, StoreError> {
    let corrupt = |detail: &str| StoreError::corrupt(&pack.name, detail);
    let entries_len = footer.len().checked_sub(TRAILER_BYTES).ok_or_else(|| corrupt("its footer is too short"))?;
    let (entries, trailer) = footer.split_at(entries_len);
    let (head, proof) = trailer.split_at(TRAILER_BYTES - 32);
    if blake3::Hash::from_slice(proof).ok() != Some(keys.authenticate(&[pack.name.as_str().as_bytes(), entries, head]))
    {
        return Err(corrupt("its footer's proof of authenticity does not match"));
    }
    let [m0, m1, m2, m3, v0, v1, 0, 0, count @ ..] = head else {
        return Err(corrupt("its footer has another form"));
    };
    if [*m0, *m1, *m2, *m3] != MAGIC || u16::from_le_bytes([*v0, *v1]) != VERSION {
        return Err(corrupt("its footer has another form or version"));
    }
    let (list, rest) = entries.as_chunks::<ENTRY_BYTES>();
    let counted = <[u8; 4]>::try_from(count).map(u32::from_le_bytes).is_ok_and(|count| count as usize == list.len());
    if !rest.is_empty() || !counted {
        return Err(corrupt("its footer's length does not match"));
    }
    let blob_bytes = pack.bytes.saturating_sub(u64::from(pack.footer_bytes));
    list.iter()
        .map(|entry| {
            let (id, place) = decode_entry(entry).ok_or_else(|| corrupt("its footer has an unknown code"))?;
            if u64::from(place.offset) + u64::from(place.stored_bytes) > blob_bytes {
                return Err(corrupt("a blob lies outside of it"));
            }
            Ok((id, place))
        })
        .collect()
}

fn encode_entry(id: BlobId, place: &Place) -> [u8; ENTRY_BYTES] {
    let kind = match place.kind {
        BlobKind::Chunk => 1,
        BlobKind::Tree => 2,
        BlobKind::Extents => 3,
    };
    let codec = match place.codec {
        Codec::Raw => 0,
        Codec::Zstd => 1,
    };
    let mut entry = [0; ENTRY_BYTES];
    entry[..32].copy_from_slice(&id.0);
    entry[32] = kind;
    entry[33] = codec;
    entry[34..38].copy_from_slice(&place.offset.to_le_bytes());
    entry[38..42].copy_from_slice(&place.stored_bytes.to_le_bytes());
    entry[42..46].copy_from_slice(&place.plain_bytes.to_le_bytes());
    entry
}

fn decode_entry(entry: &[u8; ENTRY_BYTES]) -> Option<(BlobId, Place)> {
    let number = |at: usize| entry.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    let kind = match entry[32] {
        1 => BlobKind::Chunk,
        2 => BlobKind::Tree,
        3 => BlobKind::Extents,
        _ => return None,
    };
    let codec = match entry[33] {
        0 => Codec::Raw,
        1 => Codec::Zstd,
        _ => return None,
    };
    let place = Place { kind, codec, offset: number(34)?, stored_bytes: number(38)?, plain_bytes: number(42)? };
    Some((BlobId(entry[..32].try_into().ok()?), place))
}
