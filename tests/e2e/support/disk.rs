//! A file system that is soon full.

use super::wait::skip_or_fail;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system of its own for a test's data directory.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    pub(super) fn mount(path: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir(path).unwrap();
        let options = format!("size={size},mode=0700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "toolcell-test"]).arg(path).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { path: path.to_owned() }),
            Ok(output) => {
                skip_or_fail(&format!("cannot mount a tmpfs: {}", String::from_utf8_lossy(&output.stderr).trim()));
                None
            }
            Err(error) => {
                skip_or_fail(&format!("cannot mount a tmpfs: {error}"));
                None
            }
        }
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }

    /// Leaves this many bytes free.
    pub(crate) fn fill_up_to(&self, free: u64) {
        let stat = rustix::fs::statvfs(&self.path).unwrap();
        let fill = (stat.f_bavail * stat.f_frsize).checked_sub(free).expect("more is free");
        let mut file = std::fs::File::create(self.filler()).unwrap();
        match std::io::copy(&mut std::io::Read::take(std::io::repeat(1), fill), &mut file) {
            Ok(_) => {}
            // The last blocks go to others meanwhile, and to the file's own index.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}"),
        }
    }

    pub(crate) fn free_again(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a test that failed may still have something open there.
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).status();
    }
}
