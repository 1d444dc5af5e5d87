//! Decoders meet any bytes, also behind a valid proof: they refuse, or give what makes sense; they never panic.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap is the test's failure")]

use super::envelope::{self, ObjectKind, Proof};
use super::head::Head;
use super::keys::{BlobId, BlobKind, StoreKeys};
use super::manifest::{Manifest, PackRef};
use super::pack::{self, Codec, MAX_BLOB_BYTES, PackBuilder, Place, Sealer};
use super::tree::{
    Content, Extent, TreeBlob, TreeBody, TreeEntry, check_extents, decode_extents, decode_tree, encode_dir,
    encode_extents,
};
use crate::entry::{Meta, TimeNs};
use crate::error::ErrorKind;
use crate::store::ObjectName;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use toolcell_model::{FencingToken, ScopeKey, SnapshotId, TenantId};

fn store_keys() -> StoreKeys {
    StoreKeys::new([3; 32])
}

fn slot() -> ScopeKey {
    ScopeKey::ephemeral().unwrap()
}

/// Bytes with a valid proof: what only a defect, or a thief of the secret, could write.
fn proven(kind: ObjectKind, name: &str, payload: &[u8]) -> Vec<u8> {
    let keys = store_keys();
    let mut bytes = envelope::encode(kind, name, Proof::Keyed(&keys), &()).unwrap();
    bytes.truncate(8);
    bytes.extend_from_slice(payload);
    let proof = keys.authenticate(&[name.as_bytes(), &bytes]);
    bytes.extend_from_slice(proof.as_bytes());
    bytes
}

fn meta() -> impl Strategy<Value = Meta> {
    let xattrs = btree_map("[a-z]{1,8}", vec(any::<u8>(), 0..20), 0..3);
    (0..=0o1777u32, any::<i64>(), 0..1_000_000_000u32, xattrs).prop_map(|(mode, secs, nanos, xattrs)| Meta {
        mode: mode & 0o1777,
        mtime: TimeNs { secs, nanos },
        xattrs: xattrs.into_iter().map(|(name, value)| (format!("user.{name}").into_bytes(), value)).collect(),
    })
}

fn body() -> impl Strategy<Value = TreeBody> {
    let id = || any::<[u8; 32]>().prop_map(BlobId);
    prop_oneof![
        id().prop_map(|tree| TreeBody::Dir { tree }),
        (id(), 1..1000u32, 0..1000u64).prop_map(|(chunk, bytes, offset)| TreeBody::File {
            size: offset + u64::from(bytes),
            content: Content::Inline(vec![Extent { offset, bytes, chunk }]),
        }),
        vec(id(), 1..4).prop_map(|lists| TreeBody::File { size: 1 << 40, content: Content::Lists(lists) }),
        "[a-z/.]{1,20}".prop_map(|target| TreeBody::Symlink { target: target.into_bytes() }),
        "[a-z]{1,5}(/[a-z]{1,5}){0,3}".prop_map(|to| TreeBody::Hardlink { to: to.into_bytes() }),
    ]
}

fn entries(max: usize) -> impl Strategy<Value = Vec<TreeEntry>> {
    let name = vec(any::<u8>().prop_filter("no name has these", |b| *b != 0 && *b != b'/'), 3..12);
    btree_map(name, (meta(), body()), 0..max)
        .prop_map(|map| map.into_iter().map(|(name, (meta, body))| TreeEntry { name, meta, body }).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn bytes_without_proof_are_corrupt(bytes in vec(any::<u8>(), 0..300)) {
        let (slot, keys, snapshot) = (slot(), store_keys(), SnapshotId::from_bytes([1; 16]));
        prop_assert_eq!(Head::decode(&slot, &keys, &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        prop_assert_eq!(Manifest::decode(&slot, snapshot, &keys, &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        let name = ObjectName::pack(&slot, FencingToken(1), [0; 16]);
        let pack = PackRef { name, bytes: 1000, footer_bytes: 300 };
        prop_assert_eq!(pack::decode_footer(&keys, &pack, &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn proven_nonsense_is_corrupt_or_makes_sense(payload in vec(any::<u8>(), 0..400)) {
        let (slot, keys, snapshot) = (slot(), store_keys(), SnapshotId::from_bytes([1; 16]));
        let head = proven(ObjectKind::Head, &format!("{slot}/head"), &payload);
        if let Err(error) = Head::decode(&slot, &keys, &head) {
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        let name = Manifest::name(&slot, snapshot);
        let manifest = proven(ObjectKind::Manifest, name.as_str(), &payload);
        prop_assert_eq!(Manifest::decode(&slot, snapshot, &keys, &manifest).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_proven_footer_of_nonsense_stays_within_its_pack(entries in vec(any::<u8>(), 0..500), count in any::<u32>()) {
        let keys = store_keys();
        let name = ObjectName::pack(&slot(), FencingToken(1), [0; 16]);
        let count = if count.is_multiple_of(2) { u32::try_from(entries.len() / 46).unwrap() } else { count };
        let mut head = b"TCPK\x01\0\0\0".to_vec();
        head.extend_from_slice(&count.to_le_bytes());
        let proof = keys.authenticate(&[name.as_str().as_bytes(), &entries, &head]);
        let footer = [&entries[..], &head, proof.as_bytes()].concat();
        let pack = PackRef { name, bytes: 70_000, footer_bytes: u32::try_from(footer.len()).unwrap() };
        match pack::decode_footer(&keys, &pack, &footer) {
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt),
            Ok(blobs) => for (_, place) in blobs {
                prop_assert!(u64::from(place.offset) + u64::from(place.stored_bytes) <= 70_000);
            },
        }
    }

    #[test]
    fn any_bytes_are_a_blob_only_by_their_id(
        stored in vec(any::<u8>(), 0..200),
        plain_bytes in prop_oneof![0..300u32, any::<u32>()],
        zstd in any::<bool>(),
    ) {
        let keys = store_keys().tenant(&TenantId::default_tenant());
        let codec = if zstd { Codec::Zstd } else { Codec::Raw };
        let stored_bytes = u32::try_from(stored.len()).unwrap();
        let place = Place { kind: BlobKind::Chunk, codec, offset: 0, stored_bytes, plain_bytes };
        prop_assert!(pack::open(&keys, BlobId([0; 32]), &place, &stored).is_err());
    }

    #[test]
    fn blobs_come_back_whole_and_never_as_another_kind(plain in vec(0..4u8, 0..3000)) {
        let keys = store_keys().tenant(&TenantId::default_tenant());
        let id = keys.id(BlobKind::Chunk, &plain);
        let sealed = Sealer::new().unwrap().seal(id, BlobKind::Chunk, plain.clone()).unwrap();
        let mut builder = PackBuilder::new(ObjectName::pack(&slot(), FencingToken(1), [0; 16]));
        let place = builder.push(&sealed).unwrap();
        let (pack, bytes) = builder.finish(&store_keys()).unwrap();
        let footer = &bytes[bytes.len() - pack.footer_bytes as usize..];
        prop_assert_eq!(pack::decode_footer(&store_keys(), &pack, footer).unwrap(), [(id, place)]);
        let stored = &bytes[..place.stored_bytes as usize];
        prop_assert_eq!(pack::open(&keys, id, &place, stored).unwrap(), plain);
        for kind in [BlobKind::Tree, BlobKind::Extents] {
            let other = Place { kind, ..place };
            prop_assert!(pack::open(&keys, id, &other, stored).is_err());
        }
        let other = store_keys().tenant(&TenantId::parse("other").unwrap());
        prop_assert!(pack::open(&other, id, &place, stored).is_err(), "another tenant's id");
    }

    #[test]
    fn any_bytes_are_a_tree_that_makes_sense_or_none(bytes in vec(any::<u8>(), 0..400)) {
        let versioned = [&[1][..], &bytes].concat();
        for bytes in [&bytes, &versioned] {
            if let Ok(TreeBlob::Entries(entries)) = decode_tree(bytes) {
                prop_assert!(entries.iter().all(|entry| crate::entry::valid_name(&entry.name)));
            }
            if let Ok(extents) = decode_extents(bytes) {
                prop_assert!(extents.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn changed_trees_are_refused_or_make_sense(entries in entries(6), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let keys = store_keys().tenant(&TenantId::default_tenant());
        let encoded = encode_dir(&keys, entries).unwrap();
        let (_, mut bytes) = encoded.blobs.into_iter().next().unwrap();
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(TreeBlob::Entries(entries)) = decode_tree(&bytes) {
            prop_assert!(entries.windows(2).all(|pair| pair[0].name < pair[1].name));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn directories_of_any_size_come_back(entries in entries(900)) {
        let keys = store_keys().tenant(&TenantId::default_tenant());
        let encoded = encode_dir(&keys, entries.clone()).unwrap();
        let mut back = Vec::new();
        let mut wanted = if encoded.parts.is_empty() { vec![encoded.tree] } else { encoded.parts.clone() };
        wanted.reverse();
        while let Some(id) = wanted.pop() {
            let (_, bytes) = encoded.blobs.iter().find(|(known, _)| *known == id).unwrap();
            prop_assert_eq!(keys.id(BlobKind::Tree, bytes), id);
            match decode_tree(bytes).unwrap() {
                TreeBlob::Entries(entries) => back.extend(entries),
                TreeBlob::Parts(_) => prop_assert!(false, "a part in a part"),
            }
        }
        prop_assert_eq!(back, entries);
        if !encoded.parts.is_empty() {
            let (_, top) = encoded.blobs.iter().find(|(id, _)| *id == encoded.tree).unwrap();
            prop_assert_eq!(decode_tree(top).unwrap(), TreeBlob::Parts(encoded.parts));
        }
    }
}

#[test]
fn trees_that_no_workspace_can_have_are_refused() {
    type Change = fn(&mut TreeEntry);
    let keys = store_keys().tenant(&TenantId::default_tenant());
    let good =
        TreeEntry { name: b"a".to_vec(), meta: Meta::default(), body: TreeBody::Symlink { target: b"b".to_vec() } };
    let with = |change: Change| {
        let mut entry = good.clone();
        change(&mut entry);
        vec![entry]
    };
    let refused = |entries: Vec<TreeEntry>| {
        let encoded = encode_dir(&keys, entries).unwrap();
        decode_tree(&encoded.blobs.first().unwrap().1).is_err()
    };
    assert!(!refused(vec![good.clone()]));
    assert!(refused(vec![good.clone(), good.clone()]), "a name twice");
    let bad: [(&str, Change); 13] = [
        ("no name", |e| e.name.clear()),
        ("dot", |e| e.name = b".".to_vec()),
        ("dot dot", |e| e.name = b"..".to_vec()),
        ("slash", |e| e.name = b"a/b".to_vec()),
        ("nul", |e| e.name = b"a\0".to_vec()),
        ("long name", |e| e.name = vec![b'a'; 256]),
        ("set-user-id", |e| e.meta.mode = 0o4755),
        ("nanoseconds", |e| e.meta.mtime.nanos = 1_000_000_000),
        ("attribute", |e| e.meta.xattrs = vec![(b"security.capability".to_vec(), vec![])]),
        ("empty target", |e| e.body = TreeBody::Symlink { target: vec![] }),
        ("link that escapes", |e| e.body = TreeBody::Hardlink { to: b"../../etc/passwd".to_vec() }),
        ("absolute link", |e| e.body = TreeBody::Hardlink { to: b"/etc/passwd".to_vec() }),
        ("chunk past the end", |e| {
            let extent = Extent { offset: 1, bytes: 10, chunk: BlobId([0; 32]) };
            e.body = TreeBody::File { size: 10, content: Content::Inline(vec![extent]) };
        }),
    ];
    for (why, change) in bad {
        assert!(refused(with(change)), "{why}");
    }
}

#[test]
fn extents_are_in_order_and_within_the_file() {
    let keys = store_keys().tenant(&TenantId::default_tenant());
    let extent = |offset: u64, bytes: u32| Extent { offset, bytes, chunk: BlobId([0; 32]) };
    assert!(check_extents(&[extent(0, 5), extent(5, 5), extent(20, 1)], 21).is_ok());
    for bad in [
        vec![extent(0, 5), extent(4, 5)],
        vec![extent(5, 5), extent(0, 5)],
        vec![extent(20, 2)],
        vec![extent(0, 0)],
        vec![extent(u64::MAX, 2)],
    ] {
        assert!(check_extents(&bad, 21).is_err(), "{bad:?}");
    }
    let most = u32::try_from(MAX_BLOB_BYTES).unwrap();
    assert!(check_extents(&[extent(0, most)], 1 << 40).is_ok());
    assert!(check_extents(&[extent(0, most + 1)], 1 << 40).is_err());
    let many: Vec<Extent> = (0..10_000).map(|at| extent(at * 10, 10)).collect();
    let lists = encode_extents(&keys, &many).unwrap();
    assert_eq!(lists.len(), 3);
    let back: Vec<Extent> = lists.iter().flat_map(|(_, bytes)| decode_extents(bytes).unwrap()).collect();
    assert_eq!(back, many);
}
