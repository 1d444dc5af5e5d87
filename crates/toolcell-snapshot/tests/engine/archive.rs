//! Archives: what goes out comes in again, and what should not come in does not.

use super::history::{pins, save_text, text};
use super::{Slot, roots};
use bytes::Bytes;
use std::path::Path;
use toolcell_model::SnapshotId;
use toolcell_snapshot::{
    ArchiveFormat, ErrorKind, ImportError, ImportOptions, NoProgress, RestoreError, SnapshotReceipt, SourceError,
};
use toolcell_testkit::snapshot::{describe, everything_tree, noise};

async fn export(slot: &Slot, snapshot: SnapshotId, format: ArchiveFormat) -> Vec<u8> {
    let (out, mut parts) = tokio::sync::mpsc::channel::<Bytes>(2);
    let take = async {
        let mut bytes = Vec::new();
        while let Some(part) = parts.recv().await {
            assert!(part.len() <= 3 << 20, "a part of {} bytes", part.len());
            bytes.extend_from_slice(&part);
        }
        bytes
    };
    let (exported, bytes) = tokio::join!(slot.engine.export(&slot.key, snapshot, format, out, &NoProgress), take);
    exported.unwrap();
    assert_eq!(pins(slot).await, 0);
    bytes
}

fn options() -> ImportOptions {
    ImportOptions { roots: roots(), image_digest: "sha256:image".to_owned(), allow_outside_links: false }
}

async fn import(slot: &mut Slot, archive: &[u8], options: &ImportOptions) -> Result<SnapshotReceipt, ImportError> {
    let mut reader = archive;
    slot.engine.import(&mut slot.writer, &mut slot.index, &mut reader, options, &NoProgress).await
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_out_and_comes_in_equal() {
    let mut slot = Slot::new().await;
    everything_tree(slot.path());
    let snapshot = slot.save().await.snapshot.unwrap();
    let before = describe(slot.restore(snapshot).await.path());
    for format in [ArchiveFormat::Tar, ArchiveFormat::TarZstd] {
        let archive = export(&slot, snapshot, format).await;
        let mut other = Slot::new().await;
        let strict = import(&mut other, &archive, &options()).await.unwrap_err();
        assert!(matches!(strict, ImportError::Entry { .. }) && strict.to_string().contains("out of its root"));
        let options = ImportOptions { allow_outside_links: true, ..options() };
        let receipt = import(&mut other, &archive, &options).await.unwrap();
        let after = describe(other.restore(receipt.snapshot.unwrap()).await.path());
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
        for (path, facts) in &before {
            let (mut facts, mut got) = (facts.clone(), after[path].clone());
            // Where holes begin and end is a matter of 64 KiB.
            (facts.data, got.data) = Default::default();
            assert_eq!(facts, got, "{}", path.escape_ascii());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tar_reads_what_is_exported_and_what_tar_writes_is_imported() {
    let mut slot = Slot::new().await;
    for at in 0..30 {
        std::fs::create_dir_all(slot.path().join(format!("d{}", at % 3))).unwrap();
        std::fs::write(slot.path().join(format!("d{}/f{at}", at % 3)), noise(at, 4000 * at as usize)).unwrap();
    }
    std::fs::hard_link(slot.path().join("d0/f3"), slot.path().join("d1/link")).unwrap();
    std::os::unix::fs::symlink("../d0/f3", slot.path().join("d1/symlink")).unwrap();
    let snapshot = slot.save().await.snapshot.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("a.tar");
    std::fs::write(&archive, export(&slot, snapshot, ArchiveFormat::Tar).await).unwrap();
    run_tar(&["-xpf", "a.tar"], dir.path());
    assert_eq!(contents(&dir.path().join("workspace")), contents(slot.path()));

    for kind in ["--format=pax", "--format=gnu", "--format=ustar"] {
        run_tar(&["-cf", "b.tar", kind, "workspace"], dir.path());
        let mut other = Slot::new().await;
        let receipt = import(&mut other, &std::fs::read(dir.path().join("b.tar")).unwrap(), &options()).await.unwrap();
        assert_eq!(contents(other.restore(receipt.snapshot.unwrap()).await.path()), contents(slot.path()), "{kind}");
    }
}

fn contents(root: &Path) -> Vec<(Vec<u8>, char, i64)> {
    let facts = describe(root);
    facts.into_iter().filter(|(path, _)| !path.is_empty()).map(|(path, f)| (path, f.kind, f.mtime.secs)).collect()
}

fn run_tar(args: &[&str], dir: &Path) {
    assert!(std::process::Command::new("tar").args(args).current_dir(dir).status().unwrap().success());
}

/// An archive of entries as they are given, however odd.
fn tar_of(entries: &[(&str, tar::EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, kind, link, data) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(*kind);
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(5);
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(data);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.extend_from_slice(&[0; 1024]);
    archive
}

#[tokio::test(flavor = "multi_thread")]
async fn what_should_not_come_in_is_refused_by_name_and_changes_nothing() {
    use tar::EntryType as T;
    let mut slot = Slot::new().await;
    let before = save_text(&mut slot, "before").await;
    let file = ("workspace/f", T::Regular, "", &b"text"[..]);
    type Odd<'a> = (&'a str, T, &'a str, &'a [u8]);
    let odd: [Odd<'_>; 17] = [
        ("/workspace/a", T::Regular, "", b""),
        ("/etc/passwd", T::Regular, "", b"x"),
        ("workspace/../../etc/passwd", T::Regular, "", b"x"),
        ("../x", T::Regular, "", b"x"),
        ("etc/passwd", T::Regular, "", b"x"),
        ("workspace", T::Regular, "", b"x"),
        ("workspace", T::Symlink, "/etc", b""),
        ("workspace/a", T::Symlink, "/etc/passwd", b""),
        ("workspace/a", T::Symlink, "../x", b""),
        ("workspace/a", T::Link, "/etc/passwd", b""),
        ("workspace/a", T::Link, "workspace/../../etc/passwd", b""),
        ("workspace/a", T::Link, "workspace/none", b""),
        ("workspace/a", T::Char, "", b""),
        ("workspace/a", T::Block, "", b""),
        ("workspace/a", T::Fifo, "", b""),
        ("workspace/f", T::Regular, "", b"again"),
        ("workspace/f/below", T::Regular, "", b"beneath a file"),
    ];
    for entry in odd {
        let error = import(&mut slot, &tar_of(&[file, entry]), &options()).await.unwrap_err();
        assert!(matches!(error, ImportError::Entry { .. }), "{entry:?}: {error:?}");
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert_eq!(slot.writer.snapshot(), Some(before));
    }
    // Through a link that the archive itself brings.
    let through = tar_of(&[("workspace/l", T::Symlink, "d", b""), ("workspace/l/x", T::Regular, "", b"x")]);
    assert!(matches!(import(&mut slot, &through, &options()).await, Err(ImportError::Entry { .. })));
    for empty in [&[][..], &[0; 1024], &tar_of(&[])] {
        assert!(matches!(import(&mut slot, empty, &options()).await, Err(ImportError::Malformed { .. })));
    }
    let whole = tar_of(&[file]);
    for cut in [1, 511, 513, 600, 1023] {
        assert!(
            matches!(import(&mut slot, &whole[..cut], &options()).await, Err(ImportError::Malformed { .. })),
            "{cut}"
        );
    }
    for at in (0..512).step_by(3) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        assert!(import(&mut slot, &flipped, &options()).await.is_err(), "byte {at}");
    }
    assert_eq!(slot.engine.head(&slot.key).await.unwrap().unwrap().snapshot, Some(before));
    import(&mut slot, &whole, &options()).await.unwrap();
    let head = slot.writer.snapshot().unwrap();
    assert_eq!(std::fs::read_to_string(slot.restore(head).await.path().join("f")).unwrap(), "text");
}

#[tokio::test(flavor = "multi_thread")]
async fn archives_are_bounded() {
    use tar::EntryType as T;
    let mut slot = Slot::new().await;
    slot.engine = slot.engine.with_max_workspace_bytes(100_000);
    let at = |len: usize| tar_of(&[("workspace/f", T::Regular, "", &vec![7; len])]);
    import(&mut slot, &at(99_999), &options()).await.unwrap();
    import(&mut slot, &at(100_000), &options()).await.unwrap();
    assert_eq!(import(&mut slot, &at(100_001), &options()).await.unwrap_err().kind(), ErrorKind::TooLarge);
    // A small archive that becomes a large one.
    slot.engine = slot.engine.with_max_workspace_bytes(1 << 40);
    let bomb = zstd::bulk::compress(&at(300 << 20), 1).unwrap();
    assert!(bomb.len() < 40_000);
    let error = import(&mut slot, &bomb, &options()).await.unwrap_err();
    assert!(matches!(error, ImportError::TooLarge { .. }), "{error}");
    assert!(import(&mut slot, &bomb[..bomb.len() / 200], &options()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn roots_that_an_archive_lacks_are_carried_over() {
    let mut slot = Slot::new().await;
    save_text(&mut slot, "kept").await;
    let options = ImportOptions { roots: vec!["/workspace".to_owned(), "/home/agent".to_owned()], ..options() };
    let archive = tar_of(&[
        ("home/", tar::EntryType::Directory, "", b""),
        ("home/agent/h", tar::EntryType::Regular, "", b"home"),
    ]);
    let receipt = import(&mut slot, &archive, &options).await.unwrap();
    assert_eq!(receipt.files, 2);
    assert_eq!(text(&slot, receipt.snapshot.unwrap()).await, "kept");
    let info = slot.engine.snapshot_info(&slot.key, receipt.snapshot.unwrap()).await.unwrap();
    assert_eq!(info.roots, ["/home/agent", "/workspace"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_nobody_takes_ends() {
    let mut slot = Slot::new().await;
    let snapshot = save_text(&mut slot, "text").await;
    let (out, parts) = tokio::sync::mpsc::channel(1);
    drop(parts);
    let ended = slot.engine.export(&slot.key, snapshot, ArchiveFormat::Tar, out, &NoProgress).await.unwrap_err();
    assert!(matches!(ended, RestoreError::Finish(SourceError::Unavailable { .. })), "{ended:?}");
    assert_eq!(pins(&slot).await, 0);
}
