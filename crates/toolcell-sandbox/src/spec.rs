//! What a container is made of, and its hardened defaults.

use serde::Serialize;
use std::path::PathBuf;

/// The capabilities that the guest needs, and the only ones that a container has.
pub const GUEST_CAPABILITIES: [&str; 5] = ["SETUID", "SETGID", "KILL", "CHOWN", "DAC_OVERRIDE"];

/// Bounds of one container. Every one is always set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limits {
    /// Bytes of memory, without swap.
    pub memory_bytes: u64,
    /// Processors, in thousandths.
    pub cpu_millis: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Bytes of the tmpfs on /tmp; they count as memory.
    pub tmp_bytes: u64,
    /// Bytes of the persisted roots together. Whoever makes their directories sees to it.
    pub workspace_bytes: u64,
    /// Open files per process.
    pub open_files: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 2 * 1024 * 1024 * 1024,
            cpu_millis: 2000,
            pids: 512,
            tmp_bytes: 512 * 1024 * 1024,
            workspace_bytes: 4 * 1024 * 1024 * 1024,
            open_files: 4096,
        }
    }
}

/// Who tools run as. Never root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ToolUser {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Default for ToolUser {
    fn default() -> Self {
        Self { uid: 1000, gid: 1000 }
    }
}

/// A persisted root: a host directory at a container path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistedRoot {
    /// On the host; belongs to one slot.
    pub host: PathBuf,
    /// In the container.
    pub path: String,
}

/// A host directory that the operator mounts into the container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostMount {
    /// On the host.
    pub host: PathBuf,
    /// In the container.
    pub path: String,
    /// Tools cannot write to it.
    pub read_only: bool,
}

/// A container's spec. Two calls with the same spec can share a container.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SandboxSpec {
    /// Image name as configured.
    pub image: String,
    /// Bounds.
    pub limits: Limits,
    /// Who tools run as.
    pub user: ToolUser,
    /// Paths of the persisted roots.
    pub persist: Vec<String>,
    /// Operator-declared mounts.
    pub mounts: Vec<HostMount>,
    /// The root file system cannot be written.
    pub read_only_root: bool,
}

impl SandboxSpec {
    /// A name for the spec with the image's content: equal exactly when a container can be shared.
    #[must_use]
    pub fn hash(&self, image_id: &str) -> String {
        // Serialising plain fields into memory cannot fail; the fallback is a hash that equals no other.
        let fields = serde_json::to_vec(self).unwrap_or_default();
        let mut hasher = blake3::Hasher::new();
        hasher.update(env!("CARGO_PKG_VERSION").as_bytes());
        hasher.update(&(image_id.len() as u64).to_le_bytes());
        hasher.update(image_id.as_bytes());
        hasher.update(&fields);
        hasher.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> SandboxSpec {
        SandboxSpec {
            image: "toolcell/base".to_owned(),
            limits: Limits::default(),
            user: ToolUser::default(),
            persist: vec!["/workspace".to_owned()],
            mounts: Vec::new(),
            read_only_root: true,
        }
    }

    #[test]
    fn every_part_of_the_spec_counts() {
        let base = spec().hash("sha256:1");
        assert_eq!(base, spec().hash("sha256:1"));
        assert_ne!(base, spec().hash("sha256:2"));
        let mut changed = [spec(), spec(), spec(), spec()];
        changed[0].limits.pids = 1;
        changed[1].read_only_root = false;
        changed[2].persist.push("/home/agent".to_owned());
        changed[3].mounts.push(HostMount { host: "/srv".into(), path: "/srv".to_owned(), read_only: true });
        for other in changed {
            assert_ne!(base, other.hash("sha256:1"), "{other:?}");
        }
    }
}
