//! The guest travels inside this program and is unpacked by content hash.

use crate::error::SandboxError;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

static GUEST: &[u8] = include_bytes!(env!("TOOLCELL_GUEST_BINARY"));

/// Where the guest stands in every container.
pub const GUEST_PATH: &str = "/.toolcell/bin/toolcell-guest";

/// Unpacks the guest under `directory` unless this very build is there already, whole. Published by rename, so a
/// crash in between leaves no half guest behind.
///
/// # Errors
/// [`SandboxError::Host`].
pub fn unpack(directory: &Path) -> Result<PathBuf, SandboxError> {
    let hash = blake3::hash(GUEST).to_hex();
    let path = directory.join(format!("toolcell-guest-{}", &hash[..16]));
    if std::fs::read(&path).is_ok_and(|there| blake3::hash(&there).to_hex() == hash) {
        return Ok(path);
    }
    let failed = |action: &'static str, path: &Path| {
        let path = path.display().to_string();
        move |source| SandboxError::Host { action, path, source }
    };
    std::fs::create_dir_all(directory).map_err(failed("create", directory))?;
    let temporary = directory.join(format!(".guest-{}", uuid_like()?));
    let written = write_executable(&temporary).and_then(|()| std::fs::rename(&temporary, &path));
    if let Err(source) = written {
        // The error of the write is the one to report; the leftover may be what filled the disk.
        let _ = std::fs::remove_file(&temporary);
        return Err(failed("unpack the guest to", &path)(source));
    }
    Ok(path)
}

fn write_executable(path: &Path) -> std::io::Result<()> {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(path)?;
    file.write_all(GUEST)?;
    // The mode above passed the umask; containers need it readable whatever that is.
    file.set_permissions(std::fs::Permissions::from_mode(0o755))?;
    file.sync_all()
}

fn uuid_like() -> Result<String, SandboxError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(SandboxError::Random)?;
    Ok(data_encoding::HEXLOWER.encode(&random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_guest_is_replaced_and_no_temporary_stays() {
        let directory = std::env::temp_dir().join(format!("toolcell-guest-{}", std::process::id()));
        let path = unpack(&directory).unwrap();
        std::fs::write(&path, b"half").unwrap();
        assert_eq!(unpack(&directory).unwrap(), path);
        assert_eq!(std::fs::read(&path).unwrap(), GUEST);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
