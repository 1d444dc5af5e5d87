//! Which file systems a lock must not be trusted on.

use crate::error::GuardOpenError;
use std::path::Path;

/// Refuses a directory whose file locks may not exclude other hosts.
pub(super) fn require_local(path: &Path) -> Result<(), GuardOpenError> {
    let stat = rustix::fs::statfs(path).map_err(|errno| GuardOpenError::Io {
        doing: "asking for the file system of",
        path: path.to_owned(),
        source: errno.into(),
    })?;
    // The magic is 32 bits wide, in a field whose width and sign depend on the machine.
    let magic = stat.f_type as u32;
    network_kind(magic).map_or(Ok(()), |kind| Err(GuardOpenError::NetworkFileSystem { path: path.to_owned(), kind }))
}

/// The name of a file system that several hosts may share, by the magic number of statfs(2).
///
/// FUSE is among them: behind it may be sshfs or a shared folder of a virtual machine, and whether the other side
/// honours flock cannot be asked.
fn network_kind(magic: u32) -> Option<&'static str> {
    match magic {
        0x0000_6969 => Some("NFS"),
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
        0x0102_1997 => Some("9p"),
        0x6573_5546 => Some("FUSE"),
        0x00c3_6400 => Some("Ceph"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x7375_7245 => Some("Coda"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x0116_1970 => Some("GFS2"),
        0x7461_636f => Some("OCFS2"),
        0x4750_4653 => Some("GPFS"),
        0x1983_0326 => Some("BeeGFS"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_file_systems_are_named_and_local_ones_are_not() {
        for (magic, kind) in [(0x6969, "NFS"), (0xff53_4d42, "SMB"), (0x0102_1997, "9p"), (0x6573_5546, "FUSE")] {
            assert_eq!(network_kind(magic), Some(kind));
        }
        // ext4, XFS, btrfs, tmpfs, overlayfs, ZFS
        for magic in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1] {
            assert_eq!(network_kind(magic), None, "{magic:x}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error_with_its_name() {
        let error = require_local(Path::new("/nowhere/at/all")).map_err(|error| error.to_string());
        assert_eq!(error, Err("asking for the file system of /nowhere/at/all failed".to_owned()));
    }
}
