//! A store whose writer knew the keys and meant harm: what no workspace can hold is refused before any of it is put.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

use super::SnapshotEngine;
use crate::entry::{Meta, RestoreItem, TimeNs, WorkspaceSink};
use crate::error::{ErrorKind, RestoreError, SourceError};
use crate::format::keys::{BlobId, BlobKind, TenantKeys};
use crate::format::manifest::{Counts, Manifest, PackRef, RootRecord};
use crate::format::pack::{PackBuilder, Sealer};
use crate::format::tree::{Content, Extent, TreeBody, TreeEntry, encode_dir};
use crate::store::{MemoryStore, ObjectName};
use async_trait::async_trait;
use std::sync::{Arc, Mutex};
use toolcell_model::{FencingToken, Generation, ScopeKey, SnapshotId, SystemClock, TenantId, UnixMillis};

/// Remembers what it is given.
#[derive(Default)]
struct Recorder {
    items: Mutex<Vec<RestoreItem>>,
    finished: Mutex<bool>,
}

#[async_trait]
impl WorkspaceSink for Recorder {
    async fn put(&self, item: RestoreItem) -> Result<(), SourceError> {
        self.items.lock().unwrap().push(item);
        Ok(())
    }

    async fn finish(&self) -> Result<(), SourceError> {
        *self.finished.lock().unwrap() = true;
        Ok(())
    }
}

fn meta() -> Meta {
    Meta { mode: 0o755, mtime: TimeNs::default(), xattrs: Vec::new() }
}

fn entry(name: &[u8], body: TreeBody) -> TreeEntry {
    TreeEntry { name: name.to_vec(), meta: meta(), body }
}

fn file(name: &[u8]) -> TreeEntry {
    sized(name, 0, Vec::new())
}

fn sized(name: &[u8], size: u64, extents: Vec<Extent>) -> TreeEntry {
    entry(name, TreeBody::File { size, content: Content::Inline(extents) })
}

fn link(name: &[u8], to: &[u8]) -> TreeEntry {
    entry(name, TreeBody::Hardlink { to: to.to_vec() })
}

/// A pack that is being filled with whatever one likes.
struct Planter {
    keys: TenantKeys,
    pack: PackBuilder,
    sealer: Sealer,
}

impl Planter {
    fn blob(&mut self, kind: BlobKind, plain: Vec<u8>) -> BlobId {
        let id = self.keys.id(kind, &plain);
        let sealed = self.sealer.seal(id, kind, plain).unwrap();
        self.pack.push(&sealed).unwrap();
        id
    }

    fn dir(&mut self, entries: Vec<TreeEntry>) -> BlobId {
        let encoded = encode_dir(&self.keys, entries).unwrap();
        for (_, plain) in encoded.blobs {
            self.blob(BlobKind::Tree, plain);
        }
        encoded.tree
    }
}

/// Restores what `plant` makes into a recorder.
async fn restored(
    plant: impl FnOnce(&mut Planter) -> BlobId,
    change: impl FnOnce(&mut Manifest),
) -> (Result<(), RestoreError>, Recorder) {
    let store = Arc::new(MemoryStore::new());
    let engine = SnapshotEngine::open(store, [7; 32], Arc::new(SystemClock)).await.unwrap();
    let (slot, tenant) = (ScopeKey::ephemeral().unwrap(), TenantId::default_tenant());
    let snapshot = SnapshotId::generate().unwrap();
    let token = FencingToken(1);
    let pack = PackBuilder::new(ObjectName::pack(&slot, token, [1; 16]));
    let mut planter = Planter { keys: engine.keys.tenant(&tenant), pack, sealer: Sealer::new().unwrap() };
    let tree = plant(&mut planter);
    let (reference, data): (PackRef, _) = planter.pack.finish(&engine.keys).unwrap();
    engine.store.put_if_absent(&reference.name, data).await.unwrap();
    let root =
        RootRecord { path: "/workspace".to_owned(), meta: meta(), tree, counts: Counts::default(), packs: vec![0] };
    let mut manifest = Manifest {
        snapshot,
        slot: slot.clone(),
        tenant,
        parent: None,
        token,
        generation: Generation(1),
        created_at: UnixMillis(0),
        image_digest: String::new(),
        roots: vec![root],
        packs: vec![reference],
        files_unstable: 0,
        new_bytes: 0,
    };
    change(&mut manifest);
    let encoded = manifest.encode(&engine.keys).unwrap();
    engine.store.put_if_absent(&Manifest::name(&slot, snapshot), encoded).await.unwrap();
    let sink = Recorder::default();
    let result = engine.restore(&slot, snapshot, &["/workspace".to_owned()], &sink).await;
    (result.map(|_| ()), sink)
}

#[tokio::test]
async fn what_is_planted_well_is_restored() {
    let plant = |p: &mut Planter| {
        let chunk = p.blob(BlobKind::Chunk, b"text".to_vec());
        let below = p.dir(vec![sized(b"f", 4, vec![Extent { offset: 0, bytes: 4, chunk }])]);
        p.dir(vec![entry(b"d", TreeBody::Dir { tree: below }), link(b"l", b"d/f")])
    };
    let (result, sink) = restored(plant, |_| {}).await;
    result.unwrap();
    assert!(*sink.finished.lock().unwrap());
    assert_eq!(sink.items.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn trees_that_no_workspace_has_are_refused_before_anything_is_put() {
    type Plant = fn(&mut Planter) -> BlobId;
    let cases: [(&str, Plant); 20] = [
        ("dot dot", |p| p.dir(vec![file(b"..")])),
        ("dot", |p| p.dir(vec![file(b".")])),
        ("a path as a name", |p| p.dir(vec![file(b"../escaped")])),
        ("an absolute name", |p| p.dir(vec![file(b"/etc/passwd")])),
        ("no name", |p| p.dir(vec![file(b"")])),
        ("NUL", |p| p.dir(vec![file(b"a\0b")])),
        ("a name of 256 bytes", |p| p.dir(vec![file(&[b'n'; 256])])),
        ("twice", |p| p.dir(vec![file(b"a"), file(b"a")])),
        ("a link and a directory of one name", |p| {
            let below = p.dir(vec![file(b"escaped")]);
            let link = entry(b"l", TreeBody::Symlink { target: b"/tmp".to_vec() });
            p.dir(vec![link, entry(b"l", TreeBody::Dir { tree: below })])
        }),
        ("out of order", |p| p.dir(vec![file(b"b"), file(b"a")])),
        ("a hard link out", |p| p.dir(vec![link(b"h", b"../../etc/passwd")])),
        ("an absolute hard link", |p| p.dir(vec![link(b"h", b"/etc/passwd")])),
        ("a hard link to nothing", |p| p.dir(vec![link(b"h", b"missing")])),
        ("a hard link to itself", |p| p.dir(vec![link(b"h", b"h")])),
        ("a hard link through a symbolic link", |p| {
            let symlink = entry(b"s", TreeBody::Symlink { target: b"/etc".to_vec() });
            p.dir(vec![link(b"h", b"s/passwd"), symlink])
        }),
        ("a link to nothing at all", |p| p.dir(vec![entry(b"s", TreeBody::Symlink { target: Vec::new() })])),
        ("data beyond the size", |p| {
            let chunk = p.blob(BlobKind::Chunk, b"text".to_vec());
            p.dir(vec![sized(b"f", 3, vec![Extent { offset: 0, bytes: 4, chunk }])])
        }),
        ("an offset that overflows", |p| {
            let chunk = p.blob(BlobKind::Chunk, b"text".to_vec());
            p.dir(vec![sized(b"f", u64::MAX, vec![Extent { offset: u64::MAX - 1, bytes: 4, chunk }])])
        }),
        ("a file's content as a directory", |p| {
            let below = p.blob(BlobKind::Chunk, b"text".to_vec());
            p.dir(vec![entry(b"d", TreeBody::Dir { tree: below })])
        }),
        ("too deep", |p| {
            let mut below = p.dir(Vec::new());
            for _ in 0..=crate::entry::MAX_DEPTH {
                below = p.dir(vec![entry(b"d", TreeBody::Dir { tree: below })]);
            }
            below
        }),
    ];
    for (what, plant) in cases {
        let (result, sink) = restored(plant, |_| {}).await;
        let error = result.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error:?}");
        assert!(sink.items.lock().unwrap().is_empty() && !*sink.finished.lock().unwrap(), "{what}");
    }
}

#[tokio::test]
async fn a_tree_that_names_itself_many_times_is_bounded() {
    // Sixteen directories of sixteen directories, and so on: few blobs, and more entries than there can be.
    let plant = |p: &mut Planter| {
        let mut below = p.dir(Vec::new());
        for _ in 0..8 {
            let many = (0..16u8).map(|at| entry(&[b'a' + at], TreeBody::Dir { tree: below })).collect();
            below = p.dir(many);
        }
        below
    };
    let (result, sink) = restored(plant, |_| {}).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(sink.items.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_chunk_of_another_length_ends_the_restore_unfinished() {
    let plant = |p: &mut Planter| {
        let chunk = p.blob(BlobKind::Chunk, b"text".to_vec());
        p.dir(vec![sized(b"f", 9, vec![Extent { offset: 0, bytes: 9, chunk }])])
    };
    let (result, sink) = restored(plant, |_| {}).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(!*sink.finished.lock().unwrap());
}

#[tokio::test]
async fn a_manifest_decides_nothing_about_places() {
    // A root that was not asked for is not restored, wherever it says it belongs.
    let elsewhere = |manifest: &mut Manifest| {
        for path in ["/etc", "/workspace/../etc", "workspace", ""] {
            let root = manifest.roots[0].clone();
            manifest.roots.push(RootRecord { path: path.to_owned(), ..root });
        }
    };
    let (result, sink) = restored(|p| p.dir(vec![file(b"f")]), elsewhere).await;
    result.unwrap();
    assert!(sink.items.lock().unwrap().iter().all(|item| item.location().0 == 0));
    assert_eq!(sink.items.lock().unwrap().len(), 2);
    for (what, change) in [
        ("a pack that is not listed", (|m| m.roots[0].packs = vec![1]) as fn(&mut Manifest)),
        ("another slot's", |m| m.packs.clear()),
        ("a directory that is nowhere", |m| m.roots[0].tree = BlobId([9; 32])),
        ("an impossible mode", |m| m.roots[0].meta.mode = 0o4755),
    ] {
        let (result, sink) = restored(|p| p.dir(vec![file(b"f")]), change).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Corrupt, "{what}");
        assert!(sink.items.lock().unwrap().is_empty(), "{what}");
    }
}
