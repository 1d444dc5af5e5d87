//! Reading parts of files for a snapshot, whatever their modes say.

use super::Answers;
use super::beneath::open_beneath;
use super::paths::{open_root, reopen};
use super::read::{modified, size_of};
use crate::errors::{Shown, failure, io_failure};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, SeekFrom, Stat, fgetxattr, flistxattr, fstat, seek};
use rustix::io::{Errno, pread, retry_on_intr};
use std::ffi::CString;
use toolcell_protocol::limits::MAX_DATA_BYTES;
use toolcell_protocol::{Bytes, ErrorCode, FetchedPart, GuestError, GuestMessage, TimeNs};

/// Bytes of all extended attributes of a file: with the data they fit into a frame.
const MOST_XATTR_BYTES: usize = 192 * 1024;
/// The kernel's limits for the list of names and for one value.
const XATTR_LIST_BYTES: usize = 64 * 1024;
/// Enough for the names that most files have: none.
const FEW_XATTR_BYTES: usize = 256;

/// Answers a `Fetch`. A directory has no data; its attributes can be had.
pub(crate) fn answer(
    answers: Answers<'_>,
    root: &[u8],
    path: &[u8],
    offset: u64,
    max_len: u32,
    want_xattrs: bool,
) -> Result<(), GuestError> {
    let whole = [root, b"/", path].concat();
    let failed = |errno| io_failure(errno, "read", &whole);
    let top = open_root(root)?;
    let found = open_beneath(rustix::fd::AsFd::as_fd(&top), path, OFlags::PATH).map_err(failed)?;
    let stat = fstat(&found).map_err(failed)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind != FileType::RegularFile && kind != FileType::Directory {
        let message = format!("{} is neither a file nor a directory", Shown(&whole));
        return Err(failure(ErrorCode::NotRegular, message));
    }
    let file = reopen(&found, OFlags::RDONLY).map_err(failed)?;
    let xattrs = if want_xattrs { read_xattrs(&file).map_err(failed)? } else { Vec::new() };
    let (data, next) = if kind == FileType::RegularFile {
        let most = usize::try_from(max_len).unwrap_or(usize::MAX).min(MAX_DATA_BYTES);
        read_part(&file, &stat, offset, most).map_err(failed)?
    } else {
        (Vec::new(), None)
    };
    // As it was when its bytes were read: the host compares it with the scan.
    let after = fstat(&file).map_err(failed)?;
    let size = size_of(&after);
    let part = FetchedPart {
        data: Bytes::from(data),
        next_offset: next.unwrap_or(size),
        end: next.is_none_or(|next| next >= size),
        size,
        mtime: modified(&after),
        ctime: TimeNs { secs: after.st_ctime, nanos: u32::try_from(after.st_ctime_nsec).unwrap_or(0) },
        inode: after.st_ino,
        xattrs,
    };
    answers.finish(&GuestMessage::Fetched { op: answers.op(), part });
    Ok(())
}

/// The next place at or behind `offset` that holds data or, with `hole`, none. `None` is the end.
fn next_place(file: &OwnedFd, offset: u64, hole: bool) -> Result<Option<u64>, Errno> {
    let from = if hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
    match seek(file, from) {
        Ok(place) => Ok(Some(place)),
        Err(Errno::NXIO) => Ok(None),
        // A file system that knows nothing of holes: all is data.
        Err(Errno::INVAL) => Ok(if hole { None } else { Some(offset) }),
        Err(errno) => Err(errno),
    }
}

/// Data at `offset`, and where to read next: `None` when the file ends there.
fn read_part(file: &OwnedFd, stat: &Stat, offset: u64, most: usize) -> Result<(Vec<u8>, Option<u64>), Errno> {
    let size = size_of(stat);
    if offset >= size {
        return Ok((Vec::new(), None));
    }
    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
    let may_have_holes = blocks.saturating_mul(512) < size;
    let mut wanted = u64::try_from(most).unwrap_or(u64::MAX).min(size.saturating_sub(offset));
    if may_have_holes {
        match next_place(file, offset, false)? {
            None => return Ok((Vec::new(), None)),
            Some(start) if start > offset => return Ok((Vec::new(), Some(start))),
            Some(_) => {}
        }
        if let Some(end) = next_place(file, offset, true)? {
            wanted = wanted.min(end.saturating_sub(offset));
        }
    }
    let mut data = vec![0; usize::try_from(wanted).unwrap_or(0)];
    let mut filled = 0usize;
    while let Some(rest) = data.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let at = offset.saturating_add(u64::try_from(filled).unwrap_or(u64::MAX));
        match retry_on_intr(|| pread(file, &mut *rest, at))? {
            // It has become shorter.
            0 => {
                data.truncate(filled);
                return Ok((data, None));
            }
            read => filled = filled.saturating_add(read),
        }
    }
    let next = offset.saturating_add(wanted);
    if may_have_holes && next < size {
        return Ok((data, next_place(file, next, false)?));
    }
    Ok((data, Some(next)))
}

/// The `user.*` attributes, in the order of their names.
fn read_xattrs(file: &OwnedFd) -> Result<Vec<(Bytes, Bytes)>, Errno> {
    let mut list = vec![0u8; FEW_XATTR_BYTES];
    let mut read = flistxattr(file, list.as_mut_slice());
    if read == Err(Errno::RANGE) {
        list = vec![0u8; XATTR_LIST_BYTES];
        read = flistxattr(file, list.as_mut_slice());
    }
    let read = match read {
        Ok(read) => read,
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno),
    };
    let mut found = Vec::new();
    let mut bytes = 0usize;
    for name in list.get(..read).unwrap_or_default().split(|byte| *byte == 0) {
        if !name.starts_with(b"user.") {
            continue;
        }
        let name_text = CString::new(name).map_err(|_| Errno::INVAL)?;
        let mut value = vec![0u8; XATTR_LIST_BYTES];
        match fgetxattr(file, name_text.as_c_str(), value.as_mut_slice()) {
            Ok(read) => value.truncate(read),
            // Removed meanwhile.
            Err(Errno::NODATA) => continue,
            Err(errno) => return Err(errno),
        }
        bytes = bytes.saturating_add(name.len()).saturating_add(value.len()).saturating_add(16);
        if bytes > MOST_XATTR_BYTES {
            return Err(Errno::TOOBIG);
        }
        found.push((Bytes::from(name.to_vec()), Bytes::from(value)));
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// Reads a whole file in parts, as a host does.
    fn read_all(file: &std::fs::File, most: usize) -> (Vec<u8>, u64) {
        let file = OwnedFd::from(file.try_clone().unwrap());
        let stat = fstat(&file).unwrap();
        let (mut content, mut carried, mut offset) = (Vec::new(), 0, 0);
        loop {
            let (data, next) = read_part(&file, &stat, offset, most).unwrap();
            carried += data.len() as u64;
            content.extend_from_slice(&data);
            offset = next.unwrap_or(size_of(&stat));
            content.resize(usize::try_from(offset).unwrap(), 0);
            if next.is_none_or(|next| next >= size_of(&stat)) {
                return (content, carried);
            }
        }
    }

    #[test]
    fn parts_make_the_whole_and_holes_are_not_carried() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10 * 1024 * 1024).unwrap();
        file.write_all_at(b"start", 0).unwrap();
        file.write_all_at(&[7; 10_000], 5 * 1024 * 1024).unwrap();
        for most in [4096, 1024 * 1024] {
            let (content, carried) = read_all(&file, most);
            assert_eq!(content.len(), 10 * 1024 * 1024);
            assert_eq!(content.get(..5).unwrap(), b"start");
            assert_eq!(content.iter().filter(|byte| **byte == 7).count(), 10_000);
            assert!(carried < 100_000, "{carried} bytes");
        }
    }

    #[test]
    fn dense_and_empty_files() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(read_all(&file, 10), (Vec::new(), 0));
        file.write_all_at(b"0123456789", 0).unwrap();
        for most in [1, 3, 10, 11] {
            assert_eq!(read_all(&file, most), (b"0123456789".to_vec(), 10));
        }
    }
}
