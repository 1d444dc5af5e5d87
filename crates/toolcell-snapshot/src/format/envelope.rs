//! What stands around a head, a manifest and the canary: magic, kind, version, payload, proof of authenticity.
//!
//! The proof covers the object's name, so that an object of one slot cannot stand for one of another.

use super::keys::StoreKeys;
use crate::error::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;

const MAGIC: [u8; 4] = *b"TCSN";
const PROOF_BYTES: usize = 32;
const HEADER_BYTES: usize = 8;

/// Which object it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Canary,
    Head,
    Manifest,
    Pin,
    ForkNote,
}

impl ObjectKind {
    const fn code(self) -> u8 {
        match self {
            Self::Canary => 1,
            Self::Head => 2,
            Self::Manifest => 3,
            Self::Pin => 4,
            Self::ForkNote => 5,
        }
    }

    /// The version that is written; each kind grows on its own.
    const fn version(self) -> u16 {
        match self {
            Self::Manifest => 2,
            Self::Canary | Self::Head | Self::Pin | Self::ForkNote => 1,
        }
    }

    /// What one of an earlier version lacks at its end, encoded: fields that came later, as if they said nothing.
    const fn lacks_since(self, version: u16) -> Option<&'static [u8]> {
        match (self, version) {
            // `new_bytes`: 0.
            (Self::Manifest, 1) => Some(&[0]),
            (Self::Manifest | Self::Canary | Self::Head | Self::Pin | Self::ForkNote, _) => None,
        }
    }
}

/// Who can have written it: the canary has to be readable with a wrong secret.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Proof<'a> {
    Keyed(&'a StoreKeys),
    Unkeyed,
}

impl Proof<'_> {
    fn of(self, name: &str, body: &[u8]) -> blake3::Hash {
        match self {
            Self::Keyed(keys) => keys.authenticate(&[name.as_bytes(), body]),
            Self::Unkeyed => blake3::hash(body),
        }
    }
}

pub(crate) fn encode<T: Serialize>(
    kind: ObjectKind,
    name: &str,
    proof: Proof<'_>,
    value: &T,
) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(256);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[kind.code(), 0]);
    bytes.extend_from_slice(&kind.version().to_le_bytes());
    let mut bytes = postcard::to_extend(value, bytes).map_err(|error| StoreError::internal(name, error))?;
    let hash = proof.of(name, &bytes);
    bytes.extend_from_slice(hash.as_bytes());
    Ok(bytes)
}

pub(crate) fn decode<T: DeserializeOwned>(
    kind: ObjectKind,
    name: &str,
    proof: Proof<'_>,
    bytes: &[u8],
) -> Result<T, StoreError> {
    let corrupt = |detail: &str| StoreError::corrupt(name, detail);
    let body_len = bytes.len().checked_sub(PROOF_BYTES).ok_or_else(|| corrupt("it is too short"))?;
    let (body, hash) = bytes.split_at(body_len);
    let (header, payload) = body.split_at_checked(HEADER_BYTES).ok_or_else(|| corrupt("it is too short"))?;
    let [m0, m1, m2, m3, code, reserved, v0, v1] = *header else {
        return Err(corrupt("it is too short"));
    };
    if [m0, m1, m2, m3] != MAGIC || code != kind.code() {
        return Err(corrupt("it is another kind of object"));
    }
    let version = u16::from_le_bytes([v0, v1]);
    let earlier = kind.lacks_since(version);
    if (version != kind.version() && earlier.is_none()) || reserved != 0 {
        return Err(corrupt(&format!("its format version is {version}; this program reads {}", kind.version())));
    }
    // blake3::Hash compares in constant time.
    if blake3::Hash::from_slice(hash).ok() != Some(proof.of(name, body)) {
        return Err(corrupt("its proof of authenticity does not match"));
    }
    let payload = match earlier {
        Some(rest) => Cow::Owned([payload, rest].concat()),
        None => Cow::Borrowed(payload),
    };
    match postcard::take_from_bytes(&payload) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(corrupt("bytes follow its content")),
        Err(_) => Err(corrupt("its content cannot be decoded")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn what_an_earlier_version_wrote_is_read() {
        let keys = StoreKeys::new([7; 32]);
        let write = |version: u16, value: &[u8]| {
            let mut bytes = [&MAGIC[..], &[ObjectKind::Manifest.code(), 0], &version.to_le_bytes(), value].concat();
            let proof = Proof::Keyed(&keys).of("a", &bytes);
            bytes.extend_from_slice(proof.as_bytes());
            bytes
        };
        let read = |bytes: &[u8]| decode::<(u8, u64)>(ObjectKind::Manifest, "a", Proof::Keyed(&keys), bytes);
        assert_eq!(read(&write(2, &[5, 9])).unwrap(), (5, 9));
        assert_eq!(read(&write(1, &[5])).unwrap(), (5, 0));
        assert_eq!(read(&write(1, &[5, 9])).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(read(&write(3, &[5, 9])).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn any_changed_byte_or_other_name_is_noticed() {
        let keys = StoreKeys::new([7; 32]);
        let value = (3u64, "text".to_owned());
        let bytes = encode(ObjectKind::Head, "a", Proof::Keyed(&keys), &value).unwrap();
        let read = |name: &str, keys: &StoreKeys, bytes: &[u8]| {
            decode::<(u64, String)>(ObjectKind::Head, name, Proof::Keyed(keys), bytes)
        };
        assert_eq!(read("a", &keys, &bytes).unwrap(), value);
        assert_eq!(read("b", &keys, &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(read("a", &StoreKeys::new([8; 32]), &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert_eq!(read("a", &keys, &flipped).unwrap_err().kind(), ErrorKind::Corrupt, "byte {at}");
            assert_eq!(read("a", &keys, &bytes[..at]).unwrap_err().kind(), ErrorKind::Corrupt, "cut at {at}");
        }
    }
}
