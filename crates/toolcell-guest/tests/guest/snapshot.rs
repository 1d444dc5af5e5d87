//! Scan, fetch and restore: what a snapshot holds comes back exactly.

use super::support::{Host, Options, TOOL_UID, bytes, path_bytes};
use super::{start, start_with};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use toolcell_protocol::limits::MAX_ENTRIES_PER_MESSAGE;
use toolcell_protocol::{
    Bytes, EntryKind, EntryMeta, ErrorCode, FetchedPart, GuestError, GuestMessage, HostMessage, RestoreItem, ScanEntry,
    TimeNs,
};

fn scan(host: &mut Host, roots: &[&Path]) -> Result<Vec<ScanEntry>, GuestError> {
    let op = host.op();
    host.send(&HostMessage::Scan { op, roots: roots.iter().map(|root| path_bytes(root)).collect() });
    let mut all = Vec::new();
    loop {
        match host.receive() {
            GuestMessage::ScanEntries { entries, .. } => {
                assert!(!entries.is_empty() && entries.len() <= MAX_ENTRIES_PER_MESSAGE);
                all.extend(entries);
            }
            GuestMessage::ScanDone { op: of } if of == op => return Ok(all),
            GuestMessage::Failed { error, .. } => return Err(error),
            other => panic!("{other:?}"),
        }
    }
}

fn fetch(host: &mut Host, root: &Path, path: &[u8], offset: u64, most: u32) -> Result<FetchedPart, GuestError> {
    let op = host.op();
    let (root, path) = (path_bytes(root), bytes(path));
    match host.ask(&HostMessage::Fetch { op, root, path, offset, max_len: most, want_xattrs: offset == 0 }) {
        GuestMessage::Fetched { part, .. } => Ok(part),
        GuestMessage::Failed { error, .. } => Err(error),
        other => panic!("{other:?}"),
    }
}

/// A restore that ends as soon as it fails.
fn restore(host: &mut Host, roots: &[&Path], clear: bool, items: Vec<RestoreItem>) -> Result<(), GuestError> {
    let op = host.op();
    host.send(&HostMessage::RestoreBegin { op, roots: roots.iter().map(|root| path_bytes(root)).collect(), clear });
    for item in items {
        host.send(&HostMessage::Restore { op, item });
    }
    host.send(&HostMessage::RestoreEnd { op });
    match host.receive() {
        GuestMessage::Restored { op: of } if of == op => Ok(()),
        GuestMessage::Failed { op: of, error } if of == op => Err(error),
        other => panic!("{other:?}"),
    }
}

fn meta(mode: u32, secs: i64, nanos: u32) -> EntryMeta {
    EntryMeta { mode, mtime: TimeNs { secs, nanos }, xattrs: Vec::new() }
}

fn dir(path: &str) -> RestoreItem {
    RestoreItem::Dir { root: 0, path: bytes(path), meta: meta(0o755, 1, 1) }
}

fn file(path: &str, data: &[u8]) -> RestoreItem {
    let size = data.len() as u64;
    RestoreItem::File { root: 0, path: bytes(path), meta: meta(0o644, 1, 1), size, data: bytes(data), complete: true }
}

/// Copies a root as a snapshot would: scan, fetch, restore items.
fn items_of(host: &mut Host, root: &Path) -> Vec<RestoreItem> {
    let mut items = Vec::new();
    let mut seen: BTreeMap<u64, Bytes> = BTreeMap::new();
    for entry in scan(host, &[root]).unwrap() {
        let path = entry.path.clone();
        let mut meta = EntryMeta { mode: entry.mode, mtime: entry.mtime, xattrs: Vec::new() };
        match entry.kind {
            EntryKind::Dir => {
                meta.xattrs = fetch(host, root, &path, 0, 0).unwrap().xattrs;
                items.push(RestoreItem::Dir { root: 0, path, meta });
            }
            EntryKind::Symlink { target } => items.push(RestoreItem::Symlink { root: 0, path, target, meta }),
            EntryKind::Special => {}
            EntryKind::File { size } => {
                if let Some(to) = seen.get(&entry.inode) {
                    items.push(RestoreItem::Hardlink { root: 0, path, to: to.clone() });
                    continue;
                }
                seen.insert(entry.inode, path.clone());
                let mut part = fetch(host, root, &path, 0, 1000).unwrap();
                meta.xattrs = std::mem::take(&mut part.xattrs);
                let (mut next, mut end) = (part.next_offset, part.end);
                let first = part.data;
                items.push(RestoreItem::File { root: 0, path: path.clone(), meta, size, data: first, complete: end });
                let whole = end;
                while !end {
                    let part = fetch(host, root, &path, next, 700_000).unwrap();
                    if !part.data.is_empty() {
                        let path = path.clone();
                        items.push(RestoreItem::Extent { root: 0, path, offset: next, data: part.data });
                    }
                    (next, end) = (part.next_offset, part.end);
                }
                if !whole {
                    items.push(RestoreItem::FileEnd { root: 0, path });
                }
            }
        }
    }
    items
}

/// Everything of a tree that must come back, without inode numbers.
fn picture(root: &Path) -> BTreeMap<Vec<u8>, String> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![root.to_path_buf()];
    while let Some(path) = ahead.pop() {
        let facts = std::fs::symlink_metadata(&path).unwrap();
        let content = if facts.is_symlink() {
            format!("-> {}", std::fs::read_link(&path).unwrap().display())
        } else if facts.is_dir() {
            ahead.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            "directory".to_owned()
        } else if facts.is_file() {
            format!(
                "{:x?}",
                std::fs::read(&path)
                    .unwrap()
                    .iter()
                    .fold(0u64, |sum, byte| { sum.wrapping_mul(31).wrapping_add(u64::from(*byte)) })
            )
        } else {
            continue;
        };
        let links = if facts.is_dir() { 0 } else { facts.nlink() };
        let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
        let text = format!(
            "{content} {:o} {}.{} {} {} {}",
            facts.mode(),
            facts.mtime(),
            facts.mtime_nsec(),
            facts.uid(),
            links,
            if facts.is_dir() { 0 } else { facts.size() },
        );
        found.insert(name, text);
    }
    found
}

fn run_as_tool(directory: &Path, script: &str) {
    let id = TOOL_UID.to_string();
    let words = ["--reuid", &id, "--regid", &id, "--clear-groups", "sh", "-ec", script];
    assert!(Command::new("setpriv").args(words).current_dir(directory).status().unwrap().success(), "{script}");
}

const RICH: &str = r#"
    mkdir -p a/b empty closed "name with
newline"
    printf 'run me' > a/tool; chmod 755 a/tool
    printf 'nobody' > closed/secret; chmod 000 closed/secret
    printf x > "$(printf 'bad\377name')"
    ln -s ../nowhere a/dangling
    ln -s /etc/passwd absolute
    printf shared > a/one; ln a/one a/b/two
    head -c 3000000 /dev/urandom > random
    truncate -s 50000000 sparse
    printf begin | dd of=sparse conv=notrunc status=none
    printf middle | dd of=sparse bs=1 seek=20000000 conv=notrunc status=none
    truncate -s 9000000 allhole
    : > nothing
    chmod 1777 empty; chmod 4711 a/b/two
    touch -d '1999-12-31 23:59:59.123456789' a/tool a/b random
    touch -h -d '2001-02-03 04:05:06.7' absolute
    mkfifo pipe
    chmod 000 closed; chmod 500 a
"#;

#[test]
fn what_is_scanned_and_fetched_comes_back_exactly() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    run_as_tool(&work, RICH);
    let xattr = |path: &Path| rustix_set_xattr(path, "user.color", b"bl\0ue");
    xattr(&work.join("random"));
    for number in 0..20 {
        rustix_set_xattr(&work.join("a/b/two"), &format!("user.number-{number:020}"), b"many");
    }
    xattr(&work.join("closed"));
    let before = picture(&work);
    let items = items_of(&mut host, &work);
    let carried: usize = items
        .iter()
        .map(|item| match item {
            RestoreItem::File { data, .. } | RestoreItem::Extent { data, .. } => data.len(),
            _ => 0,
        })
        .sum();
    assert!(carried < 3_200_000, "holes are not carried: {carried} bytes");
    let copy = guest.directory.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    restore(&mut host, &[&copy], false, items.clone()).unwrap();
    let after = picture(&copy);
    for (name, text) in &before {
        assert_eq!(after.get(name), Some(text), "{}", String::from_utf8_lossy(name));
    }
    assert_eq!(after.len(), before.len());
    assert!(!copy.join("pipe").exists());
    let blocks = std::fs::metadata(copy.join("sparse")).unwrap().blocks();
    assert!(blocks * 512 < 1_000_000, "sparse stays sparse");
    assert_eq!(
        std::fs::metadata(copy.join("a/one")).unwrap().ino(),
        std::fs::metadata(copy.join("a/b/two")).unwrap().ino()
    );
    for name in ["random", "closed"] {
        assert_eq!(rustix_get_xattr(&copy.join(name), "user.color"), b"bl\0ue", "{name}");
    }
    // Once more into the same place: without clearing it is refused, with clearing it is the same again.
    assert_eq!(restore(&mut host, &[&copy], false, items.clone()).unwrap_err().code, ErrorCode::AlreadyExists);
    std::fs::create_dir(copy.join("extra")).unwrap();
    restore(&mut host, &[&copy], true, items).unwrap();
    assert_eq!(picture(&copy), after);
}

fn rustix_set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
}

fn rustix_get_xattr(path: &Path, name: &str) -> Vec<u8> {
    let mut value = vec![0; 1000];
    let read = rustix::fs::getxattr(path, name, value.as_mut_slice()).unwrap();
    value.truncate(read);
    value
}

#[test]
fn scans_are_ordered_repeatable_and_fast() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    for directory in 0..100 {
        let directory = work.join(format!("d{directory:03}"));
        std::fs::create_dir(&directory).unwrap();
        for number in 0..100 {
            std::fs::write(directory.join(format!("f{number:03}")), "x").unwrap();
        }
    }
    let first = scan(&mut host, &[&work]).unwrap();
    assert_eq!(first.len(), 1 + 100 + 10_000);
    let mut known: std::collections::BTreeSet<Vec<u8>> = std::collections::BTreeSet::new();
    for entry in &first {
        if let Some(slash) = entry.path.iter().rposition(|byte| *byte == b'/') {
            assert!(known.contains(entry.path.get(..slash).unwrap()), "parents come first");
        }
        known.insert(entry.path.to_vec());
    }
    let begun = Instant::now();
    assert_eq!(scan(&mut host, &[&work]).unwrap(), first);
    eprintln!("scan of 10 000 files: {:?}", begun.elapsed());
    let facts = std::fs::metadata(work.join("d000/f000")).unwrap();
    let entry = first.iter().find(|entry| entry.path == bytes("d000/f000")).unwrap();
    assert_eq!(
        (entry.inode, entry.device, u64::from(entry.nlink), entry.mtime.secs, entry.ctime.nanos),
        (facts.ino(), facts.dev(), facts.nlink(), facts.mtime(), u32::try_from(facts.ctime_nsec()).unwrap())
    );
    // Two roots are numbered in their order.
    let two = scan(&mut host, &[&work.join("d001"), &work.join("d002")]).unwrap();
    assert_eq!(two.iter().filter(|entry| entry.root == 1).count(), 101);
}

#[test]
fn many_fetches_at_once_are_all_answered() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    let files = 3000usize;
    for number in 0..files {
        std::fs::write(work.join(format!("f{number}")), vec![1; 4096]).unwrap();
    }
    let (mut sent, mut answered) = (0, 0);
    while answered < files {
        while sent < files && sent - answered < 500 {
            let op = host.op();
            let path = bytes(format!("f{sent}"));
            let root = path_bytes(&work);
            host.send(&HostMessage::Fetch { op, root, path, offset: 0, max_len: 1 << 20, want_xattrs: true });
            sent += 1;
        }
        match host.receive() {
            GuestMessage::Fetched { part, .. } => assert_eq!((part.data.len(), part.end), (4096, true)),
            other => panic!("{other:?}"),
        }
        answered += 1;
    }
}

#[test]
fn what_is_mounted_below_a_root_is_never_touched() {
    let setup = "mkdir -p work/a/mounted other && echo precious > other/file && touch work/a/one && \
                 mount --bind other work/a/mounted && mount --bind other/file work/a/one && \
                 mkdir work/a/plain && touch work/a/plain/x"
        .to_owned();
    let Some((guest, mut host)) = start_with(&Options { setup, ..Options::default() }) else { return };
    let work = guest.work();
    let names = |entries: &[ScanEntry]| {
        entries.iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&scan(&mut host, &[&work]).unwrap()), ["", "a", "a/plain", "a/plain/x"]);
    assert!(fetch(&mut host, &work, b"a/mounted/file", 0, 10).is_err());
    assert!(fetch(&mut host, &work, b"a/one", 0, 10).is_err());
    for items in [
        vec![dir("a"), dir("a/mounted")],
        vec![dir("a"), file("a/mounted/new", b"x")],
        vec![dir("a"), file("a/one", b"x")],
    ] {
        assert!(restore(&mut host, &[&work], true, items).is_err());
    }
    // Clearing keeps the way to the mount, and the restore takes it over.
    restore(&mut host, &[&work], true, vec![dir("a"), file("a/new", b"x")]).unwrap();
    assert_eq!(names(&scan(&mut host, &[&work]).unwrap()), ["", "a", "a/new"]);
    assert_eq!(std::fs::read_to_string(guest.directory.path().join("other/file")).unwrap(), "precious\n");
    assert_eq!(std::fs::metadata(work.join("a")).unwrap().uid(), TOOL_UID);
}

#[test]
fn a_bad_entry_fails_the_whole_restore_with_its_name() {
    let Some((guest, mut host)) = start() else { return };
    let root = guest.directory.path().join("root");
    let outside = guest.directory.path().join("outside");
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&outside).unwrap();
    let link = |path: &str, target: &str| RestoreItem::Symlink {
        root: 0,
        path: bytes(path),
        target: bytes(target),
        meta: meta(0o777, 1, 1),
    };
    let out = outside.to_str().unwrap().to_owned();
    let extent =
        |path: &str, offset, data: &str| RestoreItem::Extent { root: 0, path: bytes(path), offset, data: bytes(data) };
    let part = |path: &str, size, data: &str, complete| RestoreItem::File {
        root: 0,
        path: bytes(path),
        meta: meta(0o644, 1, 1),
        size,
        data: bytes(data),
        complete,
    };
    let bad_time = RestoreItem::Dir { root: 0, path: bytes("d"), meta: meta(0o755, 1, 1_000_000_000) };
    let mut bad_xattr = meta(0o755, 1, 1);
    bad_xattr.xattrs.push((bytes("security.capability"), bytes("x")));
    let end = |path: &str| RestoreItem::FileEnd { root: 0, path: bytes(path) };
    let hard = |path: &str, to: &str| RestoreItem::Hardlink { root: 0, path: bytes(path), to: bytes(to) };
    let remove = |path: &str| RestoreItem::Remove { root: 0, path: bytes(path) };
    for (what, items) in [
        ("dots", vec![file("../escaped", b"x")]),
        ("dots inside", vec![dir("d"), file("d/../../escaped", b"x")]),
        ("absolute", vec![file("/tmp/escaped", b"x")]),
        ("no name", vec![file("", b"x")]),
        ("removing the root", vec![remove("")]),
        ("removing with dots", vec![dir("d"), remove("d/../../outside")]),
        ("removing nothing of a root", vec![RestoreItem::Remove { root: 1, path: bytes("d") }]),
        ("NUL", vec![file("a\0b", b"x")]),
        ("through a link", vec![link("l", &out), file("l/escaped", b"x")]),
        ("directory through a link", vec![link("l", &out), dir("l/escaped")]),
        ("over a link", vec![link("l", &out), dir("l")]),
        ("hard link out", vec![hard("h", "../outside/x")]),
        ("hard link to nothing", vec![hard("h", "missing")]),
        ("missing parent", vec![file("missing/x", b"x")]),
        ("twice", vec![file("x", b"1"), file("x", b"2")]),
        ("unknown root", vec![RestoreItem::Dir { root: 1, path: bytes("d"), meta: meta(0o755, 1, 1) }]),
        ("more than its size", vec![part("x", 3, "abcd", true)]),
        ("extent beyond", vec![part("x", 10, "ab", false), extent("x", 9, "ab"), end("x")]),
        ("extent overflow", vec![part("x", 10, "ab", false), extent("x", u64::MAX, "ab"), end("x")]),
        ("extent of another", vec![part("x", 10, "ab", false), extent("y", 0, "ab"), end("x")]),
        ("extent of none", vec![extent("x", 0, "ab")]),
        ("interrupted", vec![part("x", 10, "ab", false), dir("d")]),
        ("not ended", vec![part("x", 10, "ab", false)]),
        ("time", vec![bad_time]),
        ("attribute", vec![RestoreItem::Dir { root: 0, path: bytes("d"), meta: bad_xattr }]),
    ] {
        let error = restore(&mut host, &[&root], true, items).expect_err(what);
        assert!(!error.message.is_empty());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "{what}");
        assert!(!guest.directory.path().join("escaped").exists(), "{what}");
    }
    // A link is removed and not followed, a tree with all that is in it, and what is not there is no error.
    std::fs::write(outside.join("stays"), "x").unwrap();
    let tree = vec![dir("tree"), dir("tree/deep"), file("tree/deep/x", b"1"), link("l", &out), file("other", b"2")];
    restore(&mut host, &[&root], true, tree).unwrap();
    let removals = ["l/stays", "l", "tree", "absent", "other/below"];
    restore(&mut host, &[&root], false, removals.map(remove).into()).unwrap();
    let left: Vec<_> = std::fs::read_dir(&root).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["other"]);
    assert!(outside.join("stays").exists());
    std::fs::remove_file(outside.join("stays")).unwrap();
    let error = restore(&mut host, &[&root], true, vec![dir("some"), file("some/twice", b""), dir("some/twice")]);
    assert!(error.unwrap_err().message.contains("some/twice"));
    // And after all that a good one works.
    restore(&mut host, &[&root], true, vec![dir("good"), file("good/file", b"x")]).unwrap();
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1);
}

#[test]
fn clearing_follows_no_link_and_stops_at_nothing() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    let outside = guest.directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("keep"), "keep").unwrap();
    symlink(&outside, work.join("link")).unwrap();
    let script = "
        mkdir -p closed/inner sticky; printf x > closed/inner/file; printf x > sticky/file
        chmod 1755 sticky; chmod 000 closed/inner closed
        perl -e 'for (1..300) { mkdir q(d) x 21; chdir q(d) x 21 or die } open F, q(>bottom) or die'";
    run_as_tool(&work, script);
    std::fs::create_dir(work.join("rooted")).unwrap();
    std::fs::write(work.join("rooted/file"), "x").unwrap();
    for number in 0..5000 {
        std::fs::create_dir(work.join(format!("n{number}"))).unwrap();
    }
    restore(&mut host, &[&work], true, Vec::new()).unwrap();
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0);
    assert_eq!(std::fs::read(outside.join("keep")).unwrap(), b"keep");
}

#[test]
fn roots_become_the_tool_users_and_keep_their_mode_unless_told() {
    let Some((guest, mut host)) = start() else { return };
    let root = guest.directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o555)).unwrap();
    restore(&mut host, &[&root], false, vec![file("file", b"x")]).unwrap();
    let facts = std::fs::metadata(&root).unwrap();
    assert_eq!((facts.uid(), facts.gid(), facts.mode() & 0o7777), (TOOL_UID, TOOL_UID, 0o555));
    let own = RestoreItem::Dir { root: 0, path: bytes(""), meta: meta(0o711, 12345, 678) };
    restore(&mut host, &[&root], true, vec![own, file("file", b"x")]).unwrap();
    let facts = std::fs::metadata(&root).unwrap();
    assert_eq!((facts.mode() & 0o7777, facts.mtime(), facts.mtime_nsec()), (0o711, 12345, 678));
    // A root that is a link, missing, or no directory is refused.
    symlink(&root, guest.directory.path().join("link")).unwrap();
    for (bad, code) in
        [("link", ErrorCode::NotADirectory), ("missing", ErrorCode::NotFound), ("root/file", ErrorCode::NotADirectory)]
    {
        let bad = guest.directory.path().join(bad);
        assert_eq!(restore(&mut host, &[&bad], true, Vec::new()).unwrap_err().code, code);
        assert_eq!(scan(&mut host, &[&bad]).unwrap_err().code, code);
    }
}

#[test]
fn a_host_that_leaves_in_the_middle_ends_its_restore() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    let op = host.op();
    host.send(&HostMessage::RestoreBegin { op, roots: vec![path_bytes(&work)], clear: true });
    host.send(&HostMessage::Restore { op, item: dir("half") });
    drop(host);
    let mut host = guest.host();
    host.send(&HostMessage::Restore { op, item: dir("late") });
    host.send(&HostMessage::RestoreEnd { op });
    restore(&mut host, &[&work], true, vec![dir("whole")]).unwrap();
    let names: Vec<_> = std::fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["whole"]);
}

#[test]
fn a_file_that_shrinks_while_it_is_read_ends() {
    let Some((guest, mut host)) = start() else { return };
    let work = guest.work();
    let path = work.join("file");
    std::fs::write(&path, vec![1; 100_000]).unwrap();
    let part = fetch(&mut host, &work, b"file", 0, 50_000).unwrap();
    assert_eq!((part.data.len(), part.next_offset, part.end, part.size), (50_000, 50_000, false, 100_000));
    std::fs::File::options().write(true).open(&path).unwrap().set_len(60_000).unwrap();
    let part = fetch(&mut host, &work, b"file", 50_000, 50_000).unwrap();
    assert_eq!((part.data.len(), part.next_offset, part.end, part.size), (10_000, 60_000, true, 60_000));
    std::fs::File::options().write(true).open(&path).unwrap().write_all_at(b"x", 70_000).unwrap();
    assert!(!fetch(&mut host, &work, b"file", 0, 10).unwrap().end);
    assert_eq!(fetch(&mut host, &work, b"missing", 0, 10).unwrap_err().code, ErrorCode::NotFound);
    for bad in [&b"../file"[..], b"/etc/passwd", b"a//b", b"file\0"] {
        assert_eq!(fetch(&mut host, &work, bad, 0, 10).unwrap_err().code, ErrorCode::Invalid);
    }
}
