//! Workspaces with everything in them.

use super::walk::{open_dir, open_parent};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags, mkdirat, mknodat, openat, setxattr,
    symlinkat, utimensat,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

/// How deep the fixture goes: its longest path is longer than one system call takes.
const LEVELS: usize = 160;
const LEVEL_NAME: &str = "a-level-that-has-quite-a-long-name";

/// Bytes that do not compress and are the same each time.
#[must_use]
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Makes `count` files of `bytes` bytes each, in directories of a hundred.
pub fn many_files(root: &Path, count: usize, bytes: usize) {
    for at in 0..count {
        let dir = root.join(format!("dir-{:03}", at / 100));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("file-{at:05}")), noise(at as u64, bytes)).unwrap();
    }
}

/// Gives every file beneath a directory the mtime of a minute before its own, so that no change counts as made now.
pub fn backdate(root: &Path) {
    for (path, facts) in super::describe(root).into_iter().filter(|(_, facts)| facts.kind == 'f') {
        let (dir, name) = open_parent(root, &path).unwrap();
        let time = Timespec { tv_sec: facts.mtime.secs - 60, tv_nsec: facts.mtime.nanos.into() };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(&dir, name, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

/// Fills a directory with one of everything that a workspace can hold. Two entries are special (a FIFO and a socket).
pub fn everything_tree(root: &Path) {
    let at = |name: &str| root.join(name);
    for dir in ["empty", "sticky", "read-only", "links/a", "links/b", "nested/empty/empty"] {
        std::fs::create_dir_all(at(dir)).unwrap();
    }
    let mode = |name: &str, mode: u32| {
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::write(at("plain.txt"), "text\n").unwrap();
    std::fs::write(at("nothing"), "").unwrap();
    std::fs::write(at("run.sh"), "#!/bin/sh\n").unwrap();
    std::fs::write(at("closed"), "nobody reads this").unwrap();
    std::fs::write(at("read-only/inside"), "x").unwrap();
    std::fs::write(at("same-as-plain"), "text\n").unwrap();
    std::fs::write(at("one-mebibyte"), noise(1, 1024 * 1024)).unwrap();
    std::fs::write(at("just-above"), noise(2, 1024 * 1024 + 1)).unwrap();
    std::fs::write(at("large"), noise(3, 9 * 1024 * 1024 + 17)).unwrap();
    std::fs::write(root.join(OsStr::from_bytes(b"line\nbreak")), "a").unwrap();
    std::fs::write(root.join(OsStr::from_bytes(b"not utf-8 \xff\xfe\x80")), "b").unwrap();
    std::fs::write(at(&"n".repeat(255)), "c").unwrap();
    std::fs::write(at("..."), "d").unwrap();

    std::fs::write(at("links/b/second"), "one file, three names").unwrap();
    std::fs::hard_link(at("links/b/second"), at("links/b/third")).unwrap();
    std::fs::hard_link(at("links/b/second"), at("links/a/first")).unwrap();
    for (name, target) in [("dangling", "no/such/file"), ("loop", "loop"), ("absolute", "/etc/passwd"), ("up", "../..")]
    {
        symlinkat(target, CWD, at(name)).unwrap();
    }
    sparse(&at("sparse"), &[(3 << 20, 100_000), (64 << 20, 2 << 20)], 100 << 20);
    sparse(&at("sparse-small"), &[(65_536, 5_000)], 200_000);
    sparse(&at("all-hole"), &[], 5 << 20);
    mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // By a node: the address of a socket that is bound has a bound of about a hundred bytes.
    mknodat(CWD, at("socket"), FileType::Socket, Mode::RUSR | Mode::WUSR, 0).unwrap();
    deep(root);

    for (name, attribute, value) in
        [("plain.txt", "user.note", &b"text"[..]), ("plain.txt", "user.binary", b"\0\xff"), ("empty", "user.dir", b"")]
    {
        setxattr(at(name), attribute, value, XattrFlags::empty()).unwrap();
    }
    mode("run.sh", 0o755);
    mode("sticky", 0o1777);
    mode("read-only", 0o555);
    // Only root can read what nobody may read, as the guest can.
    mode("closed", if rustix::process::geteuid().is_root() { 0 } else { 0o400 });

    for (name, secs, nanos) in [
        ("plain.txt", 1_234_567_890, 123_456_789),
        ("nothing", -5, 1),
        ("run.sh", 0, 0),
        ("dangling", 1_000_000_000, 999_999_999),
        ("large", 4_102_444_800, 500_000_001),
        ("links/a/first", 1_111_111_111, 7),
        ("links", 1_600_000_000, 42),
        ("empty", 1_500_000_000, 3),
    ] {
        let time = Timespec { tv_sec: secs, tv_nsec: nanos };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, at(name), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

fn sparse(path: &Path, data: &[(u64, usize)], size: u64) {
    let file = std::fs::File::create(path).unwrap();
    file.set_len(size).unwrap();
    for (offset, len) in data {
        file.write_all_at(&noise(*offset, *len), *offset).unwrap();
    }
}

fn deep(root: &Path) {
    let mut dir = open_dir(root, b"").unwrap();
    for _ in 0..LEVELS {
        mkdirat(&dir, LEVEL_NAME, Mode::RWXU).unwrap();
        dir = openat(&dir, LEVEL_NAME, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = openat(&dir, "bottom", flags, Mode::RUSR | Mode::WUSR).unwrap();
    std::fs::File::from(file).write_all_at(b"down here", 0).unwrap();
}
