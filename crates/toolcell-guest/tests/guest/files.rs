//! File tools: only what was decided, all of it or nothing, as the tool user.

use super::support::{Guest, Host, Options, TOOL_UID, bytes, path_bytes};
use super::{start, start_with};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use toolcell_protocol::{
    Bytes, EntryKind, ErrorCode, FileFacts, FileTarget, GuestError, GuestMessage, HostMessage, ListEntry, ReadPart,
    Resolution,
};

fn target(guest: &Guest, path: &Path) -> FileTarget {
    FileTarget { path: path_bytes(path), roots: vec![path_bytes(&guest.work())], decided: path_bytes(path) }
}

fn read(
    host: &mut Host,
    target: FileTarget,
    part: ReadPart,
    max_bytes: u64,
) -> Result<(Vec<u8>, FileFacts), GuestError> {
    let op = host.op();
    host.send(&HostMessage::ReadFile { op, target, part, max_bytes });
    let mut content = Vec::new();
    loop {
        match host.receive() {
            GuestMessage::Data { op: of, data } if of == op => content.extend_from_slice(&data),
            GuestMessage::FileRead { op: of, file } if of == op => return Ok((content, file)),
            GuestMessage::Failed { op: of, error } if of == op => return Err(error),
            other => panic!("{other:?}"),
        }
    }
}

const ALL: ReadPart = ReadPart::Bytes { offset: 0 };

#[derive(Clone, Copy)]
struct Wish {
    mode: Option<u32>,
    overwrite: bool,
    create_dirs: bool,
}

const PLAIN: Wish = Wish { mode: None, overwrite: true, create_dirs: false };

/// Size, created, digest.
fn write(host: &mut Host, target: FileTarget, wish: Wish, content: &[u8]) -> Result<(u64, bool, [u8; 32]), GuestError> {
    let op = host.op();
    let Wish { mode, overwrite, create_dirs } = wish;
    let size = content.len() as u64;
    host.send(&HostMessage::WriteFile { op, target, mode, overwrite, create_dirs, size });
    let mut parts = content.chunks(1024 * 1024).peekable();
    if parts.peek().is_none() {
        host.send(&HostMessage::WriteData { op, data: Bytes::new(), end: true });
    }
    while let Some(part) = parts.next() {
        host.send(&HostMessage::WriteData { op, data: bytes(part), end: parts.peek().is_none() });
    }
    match host.receive() {
        GuestMessage::FileWritten { op: of, size, created, sha256 } if of == op => Ok((size, created, sha256)),
        GuestMessage::Failed { op: of, error } if of == op => Err(error),
        other => panic!("{other:?}"),
    }
}

fn list(host: &mut Host, target: FileTarget, depth: u32, hidden: bool, most: u32) -> (Vec<ListEntry>, bool) {
    let op = host.op();
    host.send(&HostMessage::ListFiles { op, target, depth, hidden, max_entries: most });
    let mut all = Vec::new();
    loop {
        match host.receive() {
            GuestMessage::Listed { entries, end, truncated, .. } => {
                all.extend(entries);
                if end {
                    return (all, truncated);
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

fn names(entries: &[ListEntry]) -> Vec<String> {
    entries.iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect()
}

/// Files of the tool user, as a tool would make them.
fn put(path: &Path, content: &[u8]) {
    std::fs::write(path, content).unwrap();
    std::os::unix::fs::chown(path, Some(TOOL_UID), Some(TOOL_UID)).unwrap();
}

fn litter(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with(".toolcell")).collect()
}

#[test]
fn reading_gives_parts_lines_and_facts() {
    let Some((guest, mut host)) = start() else { return };
    let path = guest.work().join("file");
    put(&path, b"one\ntwo\xff\nthree");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let mut get = |part, most| read(&mut host, target(&guest, &path), part, most).unwrap();
    let (content, facts) = get(ALL, 100);
    assert_eq!(content, b"one\ntwo\xff\nthree");
    assert_eq!((facts.size, facts.mode, facts.truncated), (14, 0o640, false));
    assert_eq!(facts.mtime.secs, std::fs::metadata(&path).unwrap().mtime());
    assert_eq!(get(ReadPart::Bytes { offset: 4 }, 100).0, b"two\xff\nthree");
    assert_eq!(get(ReadPart::Bytes { offset: 99 }, 100).0, b"");
    for (most, length, truncated) in [(13, 13, true), (14, 14, false), (15, 14, false), (0, 0, true)] {
        let (content, facts) = get(ALL, most);
        assert_eq!((content.len(), facts.truncated), (length, truncated), "at most {most}");
    }
    assert_eq!(get(ReadPart::Lines { first: 2, count: 1 }, 100).0, b"two\xff\n");
    assert_eq!(get(ReadPart::Lines { first: 3, count: u64::MAX }, 100).0, b"three");
    let (content, facts) = get(ReadPart::Lines { first: 1, count: 2 }, 5);
    assert_eq!((content.as_slice(), facts.truncated), (&b"one\nt"[..], true));
    let big = guest.work().join("big");
    put(&big, &vec![b'x'; 5_000_000]);
    assert_eq!(read(&mut host, target(&guest, &big), ALL, u64::MAX).unwrap().0.len(), 5_000_000);
}

#[test]
fn what_is_no_file_or_not_allowed_says_so() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    std::fs::create_dir(work.join("directory")).unwrap();
    rustix_fifo(&work.join("fifo"));
    put(&work.join("secret"), b"x");
    std::os::unix::fs::chown(work.join("secret"), Some(0), Some(0)).unwrap();
    std::fs::set_permissions(work.join("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut code = |name: &str| read(&mut host, target(&guest, &work.join(name)), ALL, 10).unwrap_err().code;
    assert_eq!(code("missing"), ErrorCode::NotFound);
    assert_eq!(code("directory"), ErrorCode::IsDirectory);
    assert_eq!(code("fifo"), ErrorCode::NotRegular);
    assert_eq!(code("secret"), ErrorCode::PermissionDenied);
    assert_eq!(code("secret/below"), ErrorCode::NotADirectory);
    let error = write(&mut host, target(&guest, &work.join("fifo")), PLAIN, b"x").unwrap_err();
    assert_eq!(error.code, ErrorCode::NotRegular);
    let error = write(&mut host, target(&guest, &work.join("directory")), PLAIN, b"x").unwrap_err();
    assert_eq!(error.code, ErrorCode::IsDirectory);
    let error = write(&mut host, target(&guest, &work.join("secret")), PLAIN, b"x").unwrap_err();
    assert_eq!(error.code, ErrorCode::PermissionDenied);
    let error = write(&mut host, target(&guest, &work.join("a/b")), PLAIN, b"x").unwrap_err();
    assert_eq!(error.code, ErrorCode::NotFound);
    let device = FileTarget { path: bytes("/dev/null"), roots: vec![bytes("/dev")], decided: bytes("/dev/null") };
    assert_eq!(read(&mut host, device, ALL, 10).unwrap_err().code, ErrorCode::NotRegular);
    for path in ["relative", "/a\0b", ""] {
        let bad = FileTarget { path: bytes(path), roots: vec![bytes("/")], decided: bytes(path) };
        assert_eq!(read(&mut host, bad, ALL, 10).unwrap_err().code, ErrorCode::Invalid);
    }
}

fn rustix_fifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn links_out_of_the_roots_lead_nowhere() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    symlink("/etc/passwd", work.join("direct")).unwrap();
    symlink("/etc", work.join("directory")).unwrap();
    symlink("/proc/self/root/etc/passwd", work.join("magic")).unwrap();
    symlink("nowhere", work.join("dangling")).unwrap();
    for name in ["direct", "directory/passwd"] {
        // Decided by a host that knows where it leads, and by one that does not.
        let mut known = target(&guest, &work.join(name));
        known.decided = bytes("/etc/passwd");
        assert_eq!(read(&mut host, known.clone(), ALL, 10).unwrap_err().code, ErrorCode::OutsideRoots);
        let unknown = target(&guest, &work.join(name));
        assert_eq!(read(&mut host, unknown.clone(), ALL, 10).unwrap_err().code, ErrorCode::ChangedSinceDecision);
        assert_eq!(write(&mut host, known, PLAIN, b"x").unwrap_err().code, ErrorCode::OutsideRoots);
        assert_eq!(write(&mut host, unknown, PLAIN, b"x").unwrap_err().code, ErrorCode::ChangedSinceDecision);
    }
    let magic = target(&guest, &work.join("magic"));
    assert!(read(&mut host, magic, ALL, 10).is_err());
    let dots = FileTarget {
        path: path_bytes(&work.join("../../etc/passwd")),
        roots: vec![path_bytes(&work)],
        decided: path_bytes(&work.join("../../etc/passwd")),
    };
    assert!(read(&mut host, dots, ALL, 10).is_err());
    // Writing through a dangling link goes where it was decided.
    let mut through = target(&guest, &work.join("dangling"));
    through.decided = path_bytes(&work.join("nowhere"));
    write(&mut host, through, PLAIN, b"there").unwrap();
    assert_eq!(std::fs::read(work.join("nowhere")).unwrap(), b"there");
    assert!(std::fs::symlink_metadata(work.join("dangling")).unwrap().is_symlink());
}

#[test]
fn a_link_that_is_swapped_at_any_time_never_gives_the_wrong_file() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    put(&work.join("public"), b"public");
    put(&work.join("private"), b"private");
    let link = work.join("link");
    symlink("public", &link).unwrap();
    let stop = AtomicBool::new(false);
    let (mut right, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let aside = work.join("aside");
            for to in ["private", "public"].iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                symlink(to, &aside).unwrap();
                std::fs::rename(&aside, &link).unwrap();
            }
        });
        for round in 0..2000 {
            let mut wanted = target(&guest, &link);
            wanted.decided = path_bytes(&work.join("public"));
            let result = if round % 4 == 0 {
                write(&mut host, wanted, PLAIN, b"public").map(|_| b"public".to_vec())
            } else {
                read(&mut host, wanted, ALL, 100).map(|(content, _)| content)
            };
            match result {
                Ok(content) => {
                    assert_eq!(content, b"public");
                    right += 1;
                }
                Err(error) => {
                    assert_eq!(error.code, ErrorCode::ChangedSinceDecision, "{error}");
                    refused += 1;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(right > 0 && refused > 0, "{right} right, {refused} refused: the race was not met");
    assert_eq!(std::fs::read(work.join("private")).unwrap(), b"private");
    assert_eq!(litter(&work), Vec::<String>::new());
}

#[test]
fn writing_is_atomic_and_keeps_mode_and_owner() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    let path = work.join("new");
    let (size, created, digest) = write(&mut host, target(&guest, &path), PLAIN, b"hello").unwrap();
    assert_eq!((size, created), (5, true));
    assert_eq!(digest.get(..4).unwrap(), [0x2c, 0xf2, 0x4d, 0xba]);
    let facts = std::fs::metadata(&path).unwrap();
    assert_eq!((facts.uid(), facts.gid(), facts.mode() & 0o7777), (TOOL_UID, TOOL_UID, 0o644));
    // An existing file keeps its mode; a wanted one is set.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    let before = facts.ino();
    assert!(!write(&mut host, target(&guest, &path), PLAIN, b"second").unwrap().1);
    let facts = std::fs::metadata(&path).unwrap();
    assert_eq!(facts.mode() & 0o7777, 0o750);
    assert_ne!(facts.ino(), before, "replaced, not rewritten");
    write(&mut host, target(&guest, &path), Wish { mode: Some(0o600), ..PLAIN }, b"third").unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    // Somebody else's file that the tool user may write stays theirs, without any right to run as them.
    let foreign = work.join("foreign");
    put(&foreign, b"old");
    std::os::unix::fs::chown(&foreign, Some(4321), Some(1234)).unwrap();
    std::fs::set_permissions(&foreign, std::fs::Permissions::from_mode(0o6777)).unwrap();
    write(&mut host, target(&guest, &foreign), PLAIN, b"new").unwrap();
    let facts = std::fs::metadata(&foreign).unwrap();
    assert_eq!((facts.uid(), facts.gid(), facts.mode() & 0o7777), (4321, 1234, 0o777));
    assert_eq!(std::fs::read(&foreign).unwrap(), b"new");
    // Empty, and larger than one message.
    write(&mut host, target(&guest, &work.join("empty")), PLAIN, b"").unwrap();
    assert_eq!(std::fs::read(work.join("empty")).unwrap(), b"");
    let large: Vec<u8> = (0..20_000_000u32).map(|number| u8::try_from(number % 251).unwrap()).collect();
    write(&mut host, target(&guest, &work.join("large")), PLAIN, &large).unwrap();
    assert!(std::fs::read(work.join("large")).unwrap() == large);
    assert_eq!(litter(&work), Vec::<String>::new());
}

#[test]
fn parents_are_made_as_the_tool_user_and_nothing_is_replaced_unasked() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    let deep = work.join("a/b/c/file");
    write(&mut host, target(&guest, &deep), Wish { create_dirs: true, ..PLAIN }, b"x").unwrap();
    for directory in ["a", "a/b", "a/b/c"] {
        let facts = std::fs::metadata(work.join(directory)).unwrap();
        assert_eq!((facts.uid(), facts.mode() & 0o7777), (TOOL_UID, 0o755), "{directory}");
    }
    let keep = Wish { overwrite: false, ..PLAIN };
    write(&mut host, target(&guest, &work.join("once")), keep, b"first").unwrap();
    let error = write(&mut host, target(&guest, &work.join("once")), keep, b"second").unwrap_err();
    assert_eq!(error.code, ErrorCode::AlreadyExists);
    assert_eq!(std::fs::read(work.join("once")).unwrap(), b"first");
    // One that comes into being while the content is on its way.
    let path = work.join("race");
    let op = host.op();
    let wanted = target(&guest, &path);
    let begin =
        HostMessage::WriteFile { op, target: wanted, mode: None, overwrite: false, create_dirs: false, size: 4 };
    host.send(&begin);
    host.send(&HostMessage::WriteData { op, data: bytes("ab"), end: false });
    let other = target(&guest, &work.join("other"));
    write(&mut host, other, PLAIN, b"in between").unwrap();
    put(&path, b"winner");
    match host.ask(&HostMessage::WriteData { op, data: bytes("cd"), end: true }) {
        GuestMessage::Failed { error, .. } => assert_eq!(error.code, ErrorCode::AlreadyExists),
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"winner");
    assert_eq!(litter(&work), Vec::<String>::new());
}

#[test]
fn a_write_that_is_not_completed_leaves_nothing() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    let path = work.join("file");
    put(&path, b"old");
    for (size, data, end) in [(3, "abcd", false), (5, "abcd", true)] {
        let op = host.op();
        let wanted = target(&guest, &path);
        host.send(&HostMessage::WriteFile {
            op,
            target: wanted,
            mode: None,
            overwrite: true,
            create_dirs: false,
            size,
        });
        match host.ask(&HostMessage::WriteData { op, data: bytes(data), end }) {
            GuestMessage::Failed { error, .. } => assert_eq!(error.code, ErrorCode::Invalid),
            other => panic!("{other:?}"),
        }
    }
    let op = host.op();
    let wanted = target(&guest, &path);
    host.send(&HostMessage::WriteFile {
        op,
        target: wanted,
        mode: None,
        overwrite: true,
        create_dirs: false,
        size: 10,
    });
    host.send(&HostMessage::WriteData { op, data: bytes("half"), end: false });
    let ping = host.op();
    host.ask(&HostMessage::Ping { op: ping });
    drop(host);
    let mut host = guest.host();
    // What comes later for the lost write is not taken for it.
    host.send(&HostMessage::WriteData { op, data: bytes("other!"), end: true });
    write(&mut host, target(&guest, &work.join("after")), PLAIN, b"x").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(litter(&work), Vec::<String>::new());
}

#[test]
fn writes_that_nobody_completes_do_not_block_others() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    for number in 0..70 {
        let op = host.op();
        let wanted = target(&guest, &work.join(format!("never-{number}")));
        host.send(&HostMessage::WriteFile {
            op,
            target: wanted,
            mode: None,
            overwrite: true,
            create_dirs: false,
            size: 10,
        });
    }
    write(&mut host, target(&guest, &work.join("real")), PLAIN, b"x").unwrap();
    let (entries, _) = list(&mut host, target(&guest, &work), 1, true, 100);
    assert_eq!(names(&entries), ["real"]);
}

#[test]
fn a_full_disk_is_no_space_and_leaves_nothing() {
    let setup = "mkdir work/small && mount -t tmpfs -o size=1m,mode=777 none work/small".to_owned();
    let Some((guest, mut host)) = start_with(&Options { setup, ..Options::default() }) else { return };
    let small = guest.work().join("small");
    let content = vec![1; 3_000_000];
    let error = write(&mut host, target(&guest, &small.join("file")), PLAIN, &content).unwrap_err();
    assert_eq!(error.code, ErrorCode::NoSpace, "{error}");
    // The rest of the content does not disturb, and the space is free again.
    write(&mut host, target(&guest, &small.join("fits")), PLAIN, &vec![1; 500_000]).unwrap();
    let (entries, _) = list(&mut host, target(&guest, &small), 1, true, 100);
    assert_eq!(names(&entries), ["fits"]);
}

#[test]
fn a_file_system_without_unnamed_files_works_too() {
    // An overlay of the kernels that matter has them; 9p, vfat and ramfs do not.
    let setup = "mkdir work/ram && mount -t ramfs none work/ram && chmod 777 work/ram".to_owned();
    let Some((guest, mut host)) = start_with(&Options { setup, ..Options::default() }) else { return };
    let ram = guest.work().join("ram");
    let keep = Wish { overwrite: false, ..PLAIN };
    assert!(write(&mut host, target(&guest, &ram.join("file")), keep, b"one").unwrap().1);
    assert_eq!(
        write(&mut host, target(&guest, &ram.join("file")), keep, b"two").unwrap_err().code,
        ErrorCode::AlreadyExists
    );
    assert!(!write(&mut host, target(&guest, &ram.join("file")), PLAIN, b"three").unwrap().1);
    assert_eq!(read(&mut host, target(&guest, &ram.join("file")), ALL, 10).unwrap().0, b"three");
    let (entries, _) = list(&mut host, target(&guest, &ram), 1, true, 100);
    assert_eq!(names(&entries), ["file"]);
}

#[test]
fn listings_are_ordered_bounded_and_follow_no_link() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    for directory in ["b", "b/inner", "b/inner/deep", "closed"] {
        std::fs::create_dir(work.join(directory)).unwrap();
    }
    for file in ["a", "b/file", "b/inner/x", "b/inner/deep/y", ".hidden", "closed/secret"] {
        put(&work.join(file), b"123");
    }
    symlink("/etc", work.join("link")).unwrap();
    rustix_fifo(&work.join("fifo"));
    std::fs::set_permissions(work.join("closed"), std::fs::Permissions::from_mode(0o700)).unwrap();
    let all = list(&mut host, target(&guest, &work), 3, true, 100);
    assert_eq!(
        names(&all.0),
        [".hidden", "a", "b", "b/file", "b/inner", "b/inner/deep", "b/inner/x", "closed", "fifo", "link"]
    );
    assert!(!all.1);
    let kind = |name: &str| all.0.iter().find(|entry| *entry.path == *name.as_bytes()).unwrap().kind.clone();
    assert_eq!(kind("a"), EntryKind::File { size: 3 });
    assert_eq!(kind("b"), EntryKind::Dir);
    assert_eq!(kind("link"), EntryKind::Symlink { target: bytes("/etc") });
    assert_eq!(kind("fifo"), EntryKind::Special);
    assert_eq!(names(&list(&mut host, target(&guest, &work), 1, false, 100).0), ["a", "b", "closed", "fifo", "link"]);
    assert!(list(&mut host, target(&guest, &work), 0, true, 100).0.is_empty());
    for (most, count, truncated) in [(9, 9, true), (10, 10, false), (11, 10, false)] {
        let (entries, cut) = list(&mut host, target(&guest, &work), 3, true, most);
        assert_eq!((entries.len(), cut), (count, truncated), "at most {most}");
    }
    let op = host.op();
    let wanted = target(&guest, &work.join("a"));
    let message = HostMessage::ListFiles { op, target: wanted, depth: 1, hidden: true, max_entries: 10 };
    match host.ask(&message) {
        GuestMessage::Failed { error, .. } => assert_eq!(error.code, ErrorCode::NotADirectory),
        other => panic!("{other:?}"),
    }
    let many = work.join("many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..3000 {
        put(&many.join(format!("{number:05}")), b"");
    }
    let (entries, _) = list(&mut host, target(&guest, &many), 1, true, 5000);
    assert_eq!(entries.len(), 3000);
    assert!(entries.is_sorted_by(|one, two| one.path < two.path));
}

#[test]
fn resolving_says_where_paths_lead() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    symlink("/etc", work.join("link")).unwrap();
    symlink("loop", work.join("loop")).unwrap();
    let op = host.op();
    let paths = ["link/passwd", "new", "missing/parent/file", "loop"].map(|name| path_bytes(&work.join(name)));
    let GuestMessage::Resolved { paths, .. } = host.ask(&HostMessage::Resolve { op, paths: paths.to_vec() }) else {
        panic!("not resolved")
    };
    assert_eq!(paths.first(), Some(&Resolution::Real(bytes("/etc/passwd"))));
    assert_eq!(paths.get(1), Some(&Resolution::Real(path_bytes(&work.join("new")))));
    assert_eq!(paths.get(2), Some(&Resolution::Real(path_bytes(&work.join("missing/parent/file")))));
    let looped =
        matches!(paths.get(3), Some(Resolution::Unresolvable { error }) if error.code == ErrorCode::TooManyLinks);
    assert!(looped, "{paths:?}");
    for (count, refused) in [(256, false), (257, true)] {
        let op = host.op();
        let answer = host.ask(&HostMessage::Resolve { op, paths: vec![bytes("/"); count] });
        assert_eq!(matches!(answer, GuestMessage::Failed { .. }), refused, "{count} paths");
    }
}

#[test]
fn files_do_not_wait_for_each_other_or_for_calls() {
    let Some((guest, mut host)) = start() else { return };
    let path = guest.work().join("file");
    put(&path, &vec![1; 8_000_000]);
    // A large answer that nobody reads yet: the call behind it still ends.
    let op = host.op();
    host.send(&HostMessage::ReadFile { op, target: target(&guest, &path), part: ALL, max_bytes: u64::MAX });
    let call = host.exec(super::support::argv(&["echo", "x"]));
    let (mut data, mut ended_at, mut read_ended) = (0, None, false);
    while ended_at.is_none() || !read_ended {
        match host.receive() {
            GuestMessage::Data { data: part, .. } => data += part.len(),
            GuestMessage::FileRead { .. } => read_ended = true,
            GuestMessage::Output { .. } => {}
            GuestMessage::Exited { op, .. } => {
                assert_eq!(op, call);
                ended_at = Some(data);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(data, 8_000_000);
}
