//! Keys derived from the `id_secret`, and the ids that they make.
//!
//! An id is the keyed BLAKE3 hash of the plain bytes. The key depends on the tenant and on what the bytes are, so that
//! equal content of two tenants has different names, and a file's content can never stand for a directory.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use toolcell_model::TenantId;

const OBJECT_CONTEXT: &str = "toolcell.dev 2026 snapshot object authenticity v1";
const CANARY_CONTEXT: &str = "toolcell.dev 2026 snapshot canary v1";
const CHUNK_CONTEXT: &str = "toolcell.dev 2026 snapshot chunk id v1";
const TREE_CONTEXT: &str = "toolcell.dev 2026 snapshot tree id v1";
const EXTENTS_CONTEXT: &str = "toolcell.dev 2026 snapshot extent list id v1";
const CUT_CONTEXT: &str = "toolcell.dev 2026 snapshot cut points v1";

/// Name of a blob by its content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct BlobId(pub(crate) [u8; 32]);

impl Hash for BlobId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        state.write_u64(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
    }
}

/// Something by blob.
pub(crate) type BlobMap<V> = HashMap<BlobId, V, BuildHasherDefault<BlobHasher>>;

/// The hasher of a [`BlobMap`]. An id is the hash under a secret key already: nobody who makes content can choose where
/// it falls, and hashing it again would cost a tenth of a snapshot in which nothing has changed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BlobHasher(u64);

impl Hasher for BlobHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

/// What a blob is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum BlobKind {
    /// Bytes of files.
    Chunk,
    /// A directory, or a part of one.
    Tree,
    /// A part of a large file's list of chunks.
    Extents,
}

/// Keys of the store: for objects that are not content-addressed.
#[derive(Clone)]
pub(crate) struct StoreKeys {
    secret: [u8; 32],
    object: [u8; 32],
}

impl fmt::Debug for StoreKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreKeys(…)")
    }
}

impl StoreKeys {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self { secret, object: blake3::derive_key(OBJECT_CONTEXT, &secret) }
    }

    /// What the canary holds: tells secrets apart and tells nothing about them.
    pub(crate) fn canary(&self) -> [u8; 32] {
        blake3::derive_key(CANARY_CONTEXT, &self.secret)
    }

    /// Proof that whoever wrote the parts knows the secret. The parts are told apart by their lengths.
    pub(crate) fn authenticate(&self, parts: &[&[u8]]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.object);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.finalize()
    }

    pub(crate) fn tenant(&self, tenant: &TenantId) -> TenantKeys {
        let mut material = self.secret.to_vec();
        material.extend_from_slice(tenant.as_str().as_bytes());
        let cut = blake3::derive_key(CUT_CONTEXT, &material);
        TenantKeys {
            chunk: blake3::derive_key(CHUNK_CONTEXT, &material),
            tree: blake3::derive_key(TREE_CONTEXT, &material),
            extents: blake3::derive_key(EXTENTS_CONTEXT, &material),
            cut_seed: u64::from_le_bytes([cut[0], cut[1], cut[2], cut[3], cut[4], cut[5], cut[6], cut[7]]),
        }
    }
}

/// Keys of one tenant: for content.
#[derive(Clone)]
pub(crate) struct TenantKeys {
    chunk: [u8; 32],
    tree: [u8; 32],
    extents: [u8; 32],
    /// Where large files are cut; secret, so that sizes of chunks tell nothing about content.
    pub(crate) cut_seed: u64,
}

impl fmt::Debug for TenantKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TenantKeys(…)")
    }
}

impl TenantKeys {
    pub(crate) fn id(&self, kind: BlobKind, plain: &[u8]) -> BlobId {
        let key = match kind {
            BlobKind::Chunk => &self.chunk,
            BlobKind::Tree => &self.tree,
            BlobKind::Extents => &self.extents,
        };
        BlobId(*blake3::keyed_hash(key, plain).as_bytes())
    }

    /// Whether a directory's parts are cut after this name: a property of the name alone, so that an entry that comes
    /// or goes disturbs one part.
    pub(crate) fn cuts_after(&self, name: &[u8], one_in: u16) -> bool {
        let hash = blake3::keyed_hash(&self.tree, name);
        let [low, high, ..] = *hash.as_bytes();
        u16::from_le_bytes([low, high]).checked_rem(one_in) == Some(0)
    }
}
