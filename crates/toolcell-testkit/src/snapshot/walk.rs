//! Real directories, entry by entry, without following links and however deep they are.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, SeekFrom, Stat, fgetxattr, flistxattr, open, openat, statat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use toolcell_snapshot::{TimeNs, Xattrs};

/// Opens a directory beneath a root, step by step, so that its path may be longer than one system call takes.
pub(super) fn open_dir(root: &Path, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = open(root, flags, Mode::empty())?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        dir = openat(&dir, OsStr::from_bytes(name), flags, Mode::empty())?;
    }
    Ok(dir)
}

/// Opens the directory that holds an entry, and gives the entry's name in it.
pub(super) fn open_parent<'a>(root: &Path, path: &'a [u8]) -> Result<(OwnedFd, &'a OsStr), Errno> {
    let cut = path.iter().rposition(|byte| *byte == b'/');
    let (dir, name) = cut.map_or((&[][..], path), |cut| (&path[..cut], &path[cut + 1..]));
    Ok((open_dir(root, dir)?, OsStr::from_bytes(name)))
}

pub(super) fn names(dir: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

pub(super) fn lstat(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Stat, Errno> {
    statat(dir, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)
}

#[allow(clippy::unnecessary_cast, clippy::cast_possible_truncation, reason = "the types differ by architecture")]
pub(super) fn times(stat: &Stat) -> (TimeNs, TimeNs) {
    let mtime = TimeNs { secs: stat.st_mtime as i64, nanos: stat.st_mtime_nsec as u32 };
    (mtime, TimeNs { secs: stat.st_ctime as i64, nanos: stat.st_ctime_nsec as u32 })
}

/// The extended attributes in the `user.` namespace.
pub(super) fn xattrs(file: impl AsFd) -> Result<Xattrs, Errno> {
    let mut list = vec![0u8; 64 * 1024];
    let len = match flistxattr(&file, &mut list[..]) {
        Err(Errno::NOTSUP) => 0,
        len => len?,
    };
    let names = list[..len].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
    let mut xattrs = Vec::new();
    for name in names {
        let mut value = vec![0u8; 64 * 1024];
        let len = fgetxattr(&file, OsStr::from_bytes(name), &mut value[..])?;
        xattrs.push((name.to_vec(), value[..len].to_vec()));
    }
    xattrs.sort();
    Ok(xattrs)
}

/// Where the data of a file is, as far as the file system knows holes.
pub(super) fn data_ranges(file: BorrowedFd<'_>, size: u64) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < size
        && let Ok(start) = rustix::fs::seek(file, SeekFrom::Data(at))
    {
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap();
        ranges.push((start, end.min(size)));
        at = end;
    }
    ranges
}

/// Everything about an entry that a snapshot keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// `d`, `f` or `l`.
    pub kind: char,
    /// Permission bits.
    pub mode: u32,
    /// Last change of the content.
    pub mtime: TimeNs,
    /// Size of a file.
    pub size: u64,
    /// A file's bytes, hashed, or a link's target.
    pub content: Vec<u8>,
    /// Where a file has data.
    pub data: Vec<(u64, u64)>,
    /// The first of the file's names.
    pub first_name: Vec<u8>,
    /// Extended attributes.
    pub xattrs: Xattrs,
}

/// Everything beneath a directory, itself included, that a snapshot keeps: FIFOs, sockets and devices are left out.
#[must_use]
pub fn describe(root: &Path) -> BTreeMap<Vec<u8>, Facts> {
    let mut described: BTreeMap<Vec<u8>, Facts> = BTreeMap::new();
    let mut inodes: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut pending = vec![Vec::new()];
    while let Some(path) = pending.pop() {
        let dir = open_dir(root, &path).unwrap();
        described.insert(path.clone(), facts(&rustix::fs::fstat(&dir).unwrap(), Some(&dir)));
        for name in names(dir.as_fd()).unwrap() {
            let stat = lstat(dir.as_fd(), &name).unwrap();
            let below = if path.is_empty() { name.clone() } else { [&path[..], &name].join(&b'/') };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => pending.push(below),
                FileType::RegularFile => {
                    let file = openat(&dir, OsStr::from_bytes(&name), OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty());
                    let first = inodes.entry(stat.st_ino).or_insert_with(|| below.clone());
                    *first = first.clone().min(below.clone());
                    described.insert(below, facts(&stat, Some(&file.unwrap())));
                }
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(&dir, OsStr::from_bytes(&name), Vec::new()).unwrap();
                    let content = target.to_bytes().to_vec();
                    described.insert(below, Facts { content, ..facts(&stat, None) });
                }
                _ => {}
            }
        }
    }
    name_links(root, &mut described, &inodes);
    described
}

fn name_links(root: &Path, described: &mut BTreeMap<Vec<u8>, Facts>, inodes: &BTreeMap<u64, Vec<u8>>) {
    for (path, facts) in described.iter_mut().filter(|(_, facts)| facts.kind == 'f') {
        let (dir, name) = open_parent(root, path).unwrap();
        let inode = lstat(dir.as_fd(), name.as_bytes()).unwrap().st_ino;
        facts.first_name.clone_from(&inodes[&inode]);
    }
}

fn facts(stat: &Stat, file: Option<&OwnedFd>) -> Facts {
    let file_type = FileType::from_raw_mode(stat.st_mode);
    let is_file = file_type == FileType::RegularFile;
    let size = if is_file { stat.st_size.unsigned_abs() } else { 0 };
    let mut facts = Facts {
        kind: match file_type {
            FileType::Directory => 'd',
            FileType::RegularFile => 'f',
            _ => 'l',
        },
        mode: stat.st_mode & 0o7777,
        mtime: times(stat).0,
        size,
        content: Vec::new(),
        data: Vec::new(),
        first_name: Vec::new(),
        xattrs: Vec::new(),
    };
    if let Some(file) = file {
        facts.xattrs = xattrs(file).unwrap();
        if is_file {
            facts.data = data_ranges(file.as_fd(), size);
            let mut hasher = blake3::Hasher::new();
            let reader = std::fs::File::from(file.try_clone().unwrap());
            rustix::fs::seek(&reader, SeekFrom::Start(0)).unwrap();
            hasher.update_reader(reader).unwrap();
            facts.content = hasher.finalize().as_bytes().to_vec();
        }
    }
    facts
}
