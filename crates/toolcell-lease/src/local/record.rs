//! What a lock file remembers: the newest token of its slot.
//!
//! The lock belongs to the file itself, so the content cannot be replaced by a rename. It is two places of
//! [`PLACE_BYTES`] instead, written in turn: a write that is torn by a crash damages only the place of a record that
//! nobody has been given yet, and the other one still holds the record before it.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use toolcell_model::{Acquisition, FencingToken, UnixMillis};

/// One record with its padding. A disk sector, so that a power cut rarely tears it.
const PLACE_BYTES: usize = 512;
const FILE_BYTES: usize = 1024;
const VERSION: u8 = 1;
const CHECK_BYTES: usize = 16;

/// The newest acquisition of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u8,
    /// Grows with each write, so that the newer of two places is known also when a resume repeats the token.
    sequence: u64,
    pub(super) token: FencingToken,
    pub(super) acquisition: Acquisition,
    pub(super) pid: u32,
    pub(super) since: UnixMillis,
}

/// What a lock file was found to hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing was ever written.
    Empty,
    /// The newest intact record, and the place it stands in.
    Newest(Record, Place),
    /// Something that is no record.
    Damaged,
}

/// One of the two places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    First,
    Second,
}

impl Place {
    const fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    const fn offset(self) -> u64 {
        match self {
            Self::First => 0,
            Self::Second => PLACE_BYTES as u64,
        }
    }
}

/// Reads the newest intact record.
pub(super) fn read(file: &File) -> io::Result<Content> {
    let mut bytes = Vec::with_capacity(FILE_BYTES);
    let mut chunk = [0_u8; FILE_BYTES];
    while bytes.len() < FILE_BYTES {
        let wanted = chunk.get_mut(bytes.len()..).unwrap_or_default();
        match file.read_at(wanted, bytes.len() as u64) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(wanted.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    // A file system may show zeros where a write never arrived.
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(Content::Empty);
    }
    let mut places = bytes.chunks(PLACE_BYTES);
    let first = places.next().and_then(decode).map(|record| (record, Place::First));
    let second = places.next().and_then(decode).map(|record| (record, Place::Second));
    let newest = first.into_iter().chain(second).max_by_key(|(record, _)| record.sequence);
    Ok(newest.map_or(Content::Damaged, |(record, place)| Content::Newest(record, place)))
}

/// Writes the record that follows `before`, and returns once it is on disk.
pub(super) fn write(
    file: &File,
    before: &Content,
    token: FencingToken,
    acquisition: Acquisition,
    since: UnixMillis,
) -> io::Result<Record> {
    let (sequence, place) = match before {
        Content::Newest(record, place) => (record.sequence.saturating_add(1), place.other()),
        Content::Empty | Content::Damaged => (1, Place::First),
    };
    let record = Record { version: VERSION, sequence, token, acquisition, pid: std::process::id(), since };
    file.write_all_at(&encode(&record)?, place.offset())?;
    file.sync_data()?;
    Ok(record)
}

fn encode(record: &Record) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    let check = check_of(&line);
    line.push(b' ');
    line.extend_from_slice(check.as_bytes());
    if line.len() >= PLACE_BYTES {
        return Err(io::Error::other("a lease record outgrew its place"));
    }
    line.resize(PLACE_BYTES.saturating_sub(1), b' ');
    line.push(b'\n');
    Ok(line)
}

fn decode(place: &[u8]) -> Option<Record> {
    let text = std::str::from_utf8(place).ok()?.trim_end();
    let (json, check) = text.rsplit_once(' ')?;
    if check != check_of(json.as_bytes()) {
        return None;
    }
    serde_json::from_str(json).ok().filter(|record: &Record| record.version == VERSION)
}

fn check_of(json: &[u8]) -> String {
    let hash = blake3::hash(json);
    data_encoding::HEXLOWER.encode(hash.as_bytes().get(..CHECK_BYTES).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is the test's failure")]
    use super::*;

    fn next(file: &File, token: u64) -> Record {
        let before = read(file).unwrap();
        write(file, &before, FencingToken(token), Acquisition::generate().unwrap(), UnixMillis(u64::MAX)).unwrap()
    }

    #[test]
    fn the_newest_record_is_read_back() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(read(&file).unwrap(), Content::Empty);
        for token in [1, 2, u64::MAX, 7, 7] {
            let written = next(&file, token);
            assert!(matches!(read(&file).unwrap(), Content::Newest(record, _) if record == written));
        }
        assert_eq!(file.metadata().unwrap().len(), FILE_BYTES as u64);
    }

    #[test]
    fn a_torn_write_leaves_the_record_before_it() {
        let file = tempfile::tempfile().unwrap();
        for token in 1..5 {
            let kept = next(&file, token);
            let Content::Newest(_, place) = read(&file).unwrap() else { panic!("no record") };
            file.write_all_at(b"{\"version\":1,\"torn", place.other().offset()).unwrap();
            assert!(matches!(read(&file).unwrap(), Content::Newest(record, _) if record == kept));
        }
    }

    #[test]
    fn damage_is_told_from_emptiness() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[0; 700], 0).unwrap();
        assert_eq!(read(&file).unwrap(), Content::Empty);
        next(&file, 3);
        file.write_all_at(b"9", 20).unwrap();
        assert_eq!(read(&file).unwrap(), Content::Damaged);
        file.write_all_at(&[0xff; FILE_BYTES], 0).unwrap();
        assert_eq!(read(&file).unwrap(), Content::Damaged);
    }
}
