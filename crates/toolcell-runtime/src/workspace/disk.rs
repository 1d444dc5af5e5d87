//! Disk images with a file system in them: the hard limit of a workspace's size.
//!
//! An image is sparse, mounted `nodev,nosuid` through a loop device that goes with its mount, and has no journal: after
//! a crash of the machine the snapshot counts, not the image. Every program is run by its absolute path, without a
//! shell.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;

/// Where the programs of a Linux system are.
const PROGRAM_DIRECTORIES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Beyond it a program counts as hanging, and what it should do has failed.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a mount that is busy is tried again before it is taken away lazily, and how long each time waits.
const UNMOUNT_ATTEMPTS: usize = 20;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(50);
/// Size of the image with which the host is asked whether it may mount.
const PROBE_BYTES: u64 = 8 << 20;
/// An image of less has no room for a file system.
pub(crate) const LEAST_BYTES: u64 = 8 << 20;
/// Bytes of a file system per inode: small files are what workspaces are made of.
const BYTES_PER_INODE: &str = "8192";

/// The programs that make, mount and unmount an image.
#[derive(Debug, Clone)]
pub(crate) struct Disks {
    make: PathBuf,
    mount: PathBuf,
    unmount: PathBuf,
    /// Empty images by size, of which others are copies.
    templates: PathBuf,
    /// Where the next start of a server removes what a crash leaves.
    unfinished: PathBuf,
}

impl Disks {
    /// Asks the host whether it lets this process mount an image, by mounting one. The error says in words why not.
    pub(crate) async fn probe(data_dir: &Path) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root may mount a disk image".to_owned());
        }
        let program = |name: &str, package: &str| {
            let found = PROGRAM_DIRECTORIES.iter().map(|directory| Path::new(directory).join(name));
            let found = found.into_iter().find(|path| path.is_file());
            found.ok_or_else(|| format!("{name} is not there; the package {package} has it"))
        };
        let disks = Self {
            make: program("mkfs.ext4", "e2fsprogs")?,
            mount: program("mount", "mount")?,
            unmount: program("umount", "mount")?,
            templates: data_dir.join("disks"),
            unfinished: data_dir.join("setup"),
        };
        if !Path::new("/dev/loop-control").exists() {
            return Err("this host has no loop devices: /dev/loop-control is not there".to_owned());
        }
        let tried = disks.try_one(data_dir).await;
        tried.map(|()| disks).map_err(|error| format!("a disk image cannot be mounted: {error}"))
    }

    async fn try_one(&self, data_dir: &Path) -> std::io::Result<()> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(Error::other)?;
        let place = data_dir.join("setup").join(format!("probe-{}", data_encoding::HEXLOWER.encode(&random)));
        std::fs::create_dir_all(place.join("disk"))?;
        let image = place.join("disk.img");
        let tried = async {
            self.create(&image, PROBE_BYTES).await?;
            self.mount(&image, &place.join("disk")).await?;
            self.unmount(&place.join("disk")).await
        };
        let tried = tried.await;
        std::fs::remove_dir_all(&place)?;
        tried
    }

    /// Makes an image with an empty file system: a copy of one that was made before, since making one takes longer than
    /// all else.
    pub(crate) async fn create(&self, image: &Path, bytes: u64) -> std::io::Result<()> {
        let template = self.templates.join(format!("empty-{bytes}.img"));
        if !template.exists() {
            self.make_template(&template, bytes).await?;
        }
        let image = image.to_owned();
        let copied = tokio::task::spawn_blocking(move || copy_sparse(&template, &image));
        copied.await.map_err(Error::other)?
    }

    async fn make_template(&self, template: &Path, bytes: u64) -> std::io::Result<()> {
        super::create_private(&self.templates)?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(Error::other)?;
        super::create_private(&self.unfinished)?;
        let unfinished = self.unfinished.join(data_encoding::HEXLOWER.encode(&random));
        let made = async {
            private_file(&unfinished)?.set_len(bytes)?;
            let mut command = Command::new(&self.make);
            command.args(["-q", "-F", "-O", "^has_journal,^resize_inode", "-m", "0", "-i", BYTES_PER_INODE]);
            command.args(["-E", "lazy_itable_init=1,nodiscard,root_owner=0:0"]).arg(&unfinished);
            run(command).await?;
            std::fs::rename(&unfinished, template)
        };
        let made = made.await;
        if made.is_err() {
            // It is the error of the making that is told.
            let _ = std::fs::remove_file(&unfinished);
        }
        made
    }

    /// Mounts an image. Its loop device goes with the mount.
    pub(crate) async fn mount(&self, image: &Path, at: &Path) -> std::io::Result<()> {
        let mut command = Command::new(&self.mount);
        let options = "loop,nodev,nosuid,noatime,noinit_itable,errors=remount-ro";
        command.args(["-t", "ext4", "-o", options]).arg(image).arg(at);
        run(command).await
    }

    /// Unmounts what is mounted there; lazily if somebody does not let go of it.
    pub(crate) async fn unmount(&self, at: &Path) -> std::io::Result<()> {
        let command = || {
            let mut command = Command::new(&self.unmount);
            command.arg(at);
            command
        };
        for _ in 0..UNMOUNT_ATTEMPTS {
            match run(command()).await {
                Ok(()) => return Ok(()),
                Err(_) if !is_mounted(at) => return Ok(()),
                Err(_) => tokio::time::sleep(UNMOUNT_PAUSE).await,
            }
        }
        tracing::warn!(path = %at.display(), "somebody holds a workspace's disk: it is unmounted when they let go");
        let mut lazily = command();
        lazily.arg("--lazy");
        run(lazily).await
    }
}

/// Whether something is mounted at this directory.
pub(crate) fn is_mounted(at: &Path) -> bool {
    let device = |path: &Path| std::fs::symlink_metadata(path).map(|found| found.dev());
    match (device(at), at.parent().map(device)) {
        (Ok(here), Some(Ok(above))) => here != above,
        _ => false,
    }
}

async fn run(mut command: Command) -> std::io::Result<()> {
    command.env_clear().stdin(std::process::Stdio::null()).kill_on_drop(true);
    // Plain words, whatever the server's language is: an error is shown as it is.
    command.env("LC_ALL", "C").env("PATH", PROGRAM_DIRECTORIES.join(":"));
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let ended = match tokio::time::timeout(PROGRAM_TIMEOUT, command.output()).await {
        Ok(ended) => ended?,
        Err(_) => return Err(Error::new(ErrorKind::TimedOut, format!("{program} did not end"))),
    };
    if ended.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&ended.stderr);
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let kind = if words.contains("No space left") { ErrorKind::StorageFull } else { ErrorKind::Other };
    Err(Error::new(kind, format!("{program} ended with {}: {words}", ended.status)))
}

fn private_file(path: &Path) -> std::io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Copies what is not a hole; the rest stays one.
fn copy_sparse(from: &Path, to: &Path) -> std::io::Result<()> {
    use rustix::fs::{SeekFrom, copy_file_range, seek};
    let (from, copy) = (File::open(from)?, private_file(to)?);
    let length = from.metadata()?.len();
    copy.set_len(length)?;
    let mut at = 0;
    while at < length {
        let begin = match seek(&from, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            // Nothing but a hole follows.
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(&from, SeekFrom::Hole(begin))?;
        let (mut read, mut write) = (begin, begin);
        while read < end {
            let most = usize::try_from(end - read).unwrap_or(usize::MAX);
            if copy_file_range(&from, Some(&mut read), &copy, Some(&mut write), most)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_sparse_copy_has_the_same_bytes_and_the_same_holes() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("a"), directory.path().join("b"));
        let mut file = File::create(&from).unwrap();
        file.write_all(b"begin").unwrap();
        file.write_all_at(b"middle", 5 << 20).unwrap();
        file.set_len(64 << 20).unwrap();
        copy_sparse(&from, &to).unwrap();
        assert!(std::fs::read(&from).unwrap() == std::fs::read(&to).unwrap());
        assert!(std::fs::metadata(&to).unwrap().blocks() * 512 < 1 << 20);
        assert!(copy_sparse(&from, &to).is_err(), "what is there is never written over");
    }

    #[test]
    fn a_directory_is_no_mount() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("disk")).unwrap();
        assert!(!is_mounted(&directory.path().join("disk")));
        assert!(!is_mounted(&directory.path().join("absent")));
        assert!(is_mounted(Path::new("/proc")));
    }

    #[tokio::test]
    async fn a_program_that_fails_says_why() {
        let error = run(Command::new("/bin/false")).await.unwrap_err();
        assert!(error.to_string().contains("/bin/false"), "{error}");
    }
}
