//! Objects in parts of one size, for stores whose values have to be small.

use crate::error::StoreError;
use std::ops::Range;

/// Size of every part but the last. Small enough that a server, and the other requests on a connection, never wait
/// long for one; large enough that a request per part costs little.
pub(super) const PART_BYTES: u64 = 1024 * 1024;

/// How many parts an object has; an empty one has none.
pub(super) const fn count(bytes: u64) -> u64 {
    bytes.div_ceil(PART_BYTES)
}

/// The size that a part must have.
pub(super) fn size(bytes: u64, part: u64) -> u64 {
    bytes.saturating_sub(part.saturating_mul(PART_BYTES)).min(PART_BYTES)
}

/// A part's bytes in the object.
pub(super) fn of(data: &[u8], part: u64) -> &[u8] {
    let start = usize::try_from(part.saturating_mul(PART_BYTES)).unwrap_or(usize::MAX).min(data.len());
    let end = usize::try_from(part.saturating_add(1).saturating_mul(PART_BYTES)).unwrap_or(usize::MAX).min(data.len());
    data.get(start..end).unwrap_or_default()
}

/// One part of a range: which, and which of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) part: u64,
    pub(super) bytes: Range<u64>,
}

/// The parts that a range needs.
///
/// # Errors
/// [`StoreError::Corrupt`] if the object ends before.
pub(super) fn pieces(object: &str, bytes: u64, offset: u64, len: u64) -> Result<Vec<Piece>, StoreError> {
    let end = offset.checked_add(len).filter(|end| *end <= bytes);
    let Some(end) = end else {
        return Err(StoreError::corrupt(object, format!("it ends at {bytes}, before {offset} + {len}")));
    };
    if len == 0 {
        return Ok(Vec::new());
    }
    let piece = |part: u64| {
        let start = part * PART_BYTES;
        Piece { part, bytes: offset.max(start) - start..end.min(start + PART_BYTES) - start }
    };
    Ok((offset / PART_BYTES..count(end)).map(piece).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;

    #[test]
    fn parts_cover_an_object_once() {
        for bytes in [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES + 7] {
            let data: Vec<u8> = (0..bytes).map(|at| (at / 3) as u8).collect();
            let parts: Vec<u8> = (0..count(bytes)).flat_map(|part| of(&data, part).to_vec()).collect();
            assert_eq!(parts, data);
            assert!((0..count(bytes)).all(|part| of(&data, part).len() as u64 == size(bytes, part)));
        }
    }

    #[test]
    fn a_range_needs_only_its_parts() {
        let all = 2 * PART_BYTES + 5;
        let piece = |part, bytes| Piece { part, bytes };
        assert_eq!(pieces("a", all, 0, 0).unwrap(), []);
        assert_eq!(pieces("a", all, all, 0).unwrap(), []);
        assert_eq!(pieces("a", all, 1, 1).unwrap(), [piece(0, 1..2)]);
        assert_eq!(
            pieces("a", all, PART_BYTES - 1, 2).unwrap(),
            [piece(0, PART_BYTES - 1..PART_BYTES), piece(1, 0..1)]
        );
        assert_eq!(pieces("a", all, 0, all).unwrap().len(), 3);
        assert_eq!(pieces("a", all, PART_BYTES, PART_BYTES).unwrap(), [piece(1, 0..PART_BYTES)]);
        assert!(pieces("a", all, 0, all + 1).is_err());
        assert!(pieces("a", all, u64::MAX, 1).is_err());
    }
}
