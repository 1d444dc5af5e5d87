//! A slot's directory on this host: where its persisted roots are, how large they may get, and what of it counts after
//! a crash.
//!
//! `slots/KEY/` holds the mark `boot` and either the roots themselves (`root-…`) or `disk.img`, mounted at `disk/`, with
//! the roots in it. The mark and the image lie beside the mount, so that they can be judged without mounting anything.

pub(crate) mod content;
pub(crate) mod disk;
mod project;
mod seed;
pub(crate) mod setup;
pub(crate) mod watch;

use crate::config::WorkspaceLimit;
use disk::{Disks, is_mounted};
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tokio::sync::OnceCell;
use toolcell_model::ScopeKey;
use toolcell_sandbox::{PersistedRoot, SandboxError, SandboxSpec};

/// Changes with every boot of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The boot in which the roots were completed, or [`SYNCED`].
const BOOT_MARK: &str = "boot";
/// The roots are complete and on the disk.
const SYNCED: &[u8] = b"synced\n";
const IMAGE: &str = "disk.img";
const MOUNT: &str = "disk";
/// The host keeps this much for itself: an image whose blocks cannot be written loses what tools wrote.
const HOST_RESERVE_BYTES: u64 = 64 << 20;

/// A workspace could not get what the operator wants in it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    #[error("{path:?} is no path beneath a persisted root")]
    Path { path: String },
    #[error("more than {} entries", content::MOST_ENTRIES)]
    TooMany,
    #[error("{path} is larger than what it may be: the agent's limits.workspace, and 256 MiB for a projection")]
    TooLarge { path: PathBuf },
    #[error("cannot read {path}")]
    Host {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{key}")]
    File {
        key: String,
        #[source]
        source: Box<SetupError>,
    },
    #[error(transparent)]
    Sandbox(SandboxError),
}

impl SetupError {
    /// The stable code of the public error.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::TooMany | Self::TooLarge { .. } => "no_space",
            Self::Path { .. } | Self::Host { .. } => "setup_failed",
            Self::File { source, .. } => source.code(),
            Self::Sandbox(error) => error.code(),
        }
    }
}

/// How the size of workspaces is limited.
#[derive(Debug, Clone)]
pub(crate) enum Mechanism {
    /// By a disk image per slot, wherever the host's disk has room for all of it.
    Image(Disks),
    /// By looking at what the roots hold while calls write.
    Watched {
        /// Why not by an image.
        reason: String,
    },
}

/// The size limit of one workspace, as it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SizeLimit {
    /// The file system in which it is ends there.
    Disk(PathBuf),
    /// Calls that write are stopped once it is over this many bytes.
    Watched(u64),
}

/// A workspace's directories.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) roots: Vec<PersistedRoot>,
    pub(crate) limit: SizeLimit,
}

/// All workspaces of a data directory.
#[derive(Debug)]
pub(crate) struct Workspaces {
    data_dir: PathBuf,
    wanted: WorkspaceLimit,
    mechanism: OnceCell<Mechanism>,
}

impl Workspaces {
    pub(crate) fn new(data_dir: &Path, wanted: WorkspaceLimit) -> Self {
        Self { data_dir: data_dir.to_owned(), wanted, mechanism: OnceCell::new() }
    }

    pub(crate) fn is_image_required(&self) -> bool {
        self.wanted == WorkspaceLimit::Image
    }

    /// What limits sizes here; found out once.
    pub(crate) async fn mechanism(&self) -> &Mechanism {
        let find = || async {
            if self.wanted == WorkspaceLimit::Watched {
                return Mechanism::Watched { reason: "workspaces.limit says so".to_owned() };
            }
            match Disks::probe(&self.data_dir).await {
                Ok(disks) => Mechanism::Image(disks),
                Err(reason) => Mechanism::Watched { reason },
            }
        };
        self.mechanism.get_or_init(find).await
    }

    /// Says once, when a server starts, which limit is in force.
    pub(crate) async fn announce(&self) {
        match self.mechanism().await {
            Mechanism::Image(_) => tracing::info!("workspace sizes are limited by loop images"),
            Mechanism::Watched { reason } => {
                tracing::info!(reason, "workspace sizes are watched: a call that writes too much is stopped");
            }
        }
    }

    pub(crate) fn directory(&self, slot: &ScopeKey) -> PathBuf {
        self.data_dir.join("slots").join(slot.as_str())
    }

    /// The directories for a container's roots. With `keep` those that are there, whatever their limit was; without it
    /// what an earlier holder left goes, and the limit is the spec's.
    pub(crate) async fn make(&self, slot: &ScopeKey, spec: &SandboxSpec, keep: bool) -> std::io::Result<Made> {
        let directory = self.directory(slot);
        create_private(&directory)?;
        let bytes = spec.limits.workspace_bytes;
        if !keep {
            self.make_disk(&directory, bytes).await?;
        }
        let mount = directory.join(MOUNT);
        let (top, limit) = if is_mounted(&mount) {
            (mount.clone(), SizeLimit::Disk(mount))
        } else if directory.join(IMAGE).exists() {
            return Err(Error::other("the disk image of this workspace is not mounted"));
        } else {
            (directory, SizeLimit::Watched(bytes))
        };
        let make = |path: &String| {
            let host = top.join(root_dir_name(path));
            create_private(&host)?;
            Ok(PersistedRoot { host, path: path.clone() })
        };
        let roots = spec.persist.iter().map(make).collect::<std::io::Result<_>>()?;
        Ok(Made { roots, limit })
    }

    /// A new, empty disk where that is the mechanism and there is room. Directories that the guest empties stay.
    async fn make_disk(&self, directory: &Path, bytes: u64) -> std::io::Result<()> {
        self.drop_disk(directory).await?;
        let Mechanism::Image(disks) = self.mechanism().await else {
            return self.refuse_if_required("this host does not let it mount disk images");
        };
        let image = directory.join(IMAGE);
        if let Err(why) = self.has_room(bytes) {
            tracing::warn!(path = %image.display(), why, "a workspace's size is watched instead of limited by an image");
            return self.refuse_if_required(&why);
        }
        remove_roots(directory)?;
        let mount = directory.join(MOUNT);
        let made = async {
            disks.create(&image, bytes).await?;
            create_private(&mount)?;
            disks.mount(&image, &mount).await
        };
        let made = made.await;
        if made.is_err() {
            // What is told is why it could not be made.
            let _ = std::fs::remove_file(&image);
        }
        made
    }

    fn refuse_if_required(&self, why: &str) -> std::io::Result<()> {
        match self.wanted {
            WorkspaceLimit::Image => {
                let detail = format!("workspaces.limit = \"image\" cannot be had: {why}");
                Err(Error::new(ErrorKind::StorageFull, detail))
            }
            WorkspaceLimit::Auto | WorkspaceLimit::Watched => Ok(()),
        }
    }

    /// Whether the disk has room for one more image of this size when all the others get full. One that cannot be
    /// written to loses what was written, without an error that a tool would see.
    fn has_room(&self, bytes: u64) -> Result<(), String> {
        let disk = rustix::fs::statvfs(&self.data_dir).map_err(|error| error.to_string())?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let images = std::fs::read_dir(self.data_dir.join("slots")).into_iter().flatten().flatten();
        let promised = images.filter_map(|slot| std::fs::metadata(slot.path().join(IMAGE)).ok());
        let promised = promised.fold(0u64, |sum, image| {
            sum.saturating_add(image.len().saturating_sub(image.blocks().saturating_mul(512)))
        });
        let needed = bytes.saturating_add(promised).saturating_add(HOST_RESERVE_BYTES);
        if free >= needed {
            return Ok(());
        }
        Err(format!(
            "the disk of data_dir has {} MiB free, and {} MiB are needed for this workspace's limit beside the others",
            free >> 20,
            needed >> 20
        ))
    }

    /// Whether the directory is as a process of this boot left it, or a stop that could not save it. What a machine's
    /// crash left may be half of what was restored: the head counts then. A disk that a reboot unmounted is mounted.
    pub(crate) async fn is_newest(&self, slot: &ScopeKey) -> bool {
        let directory = self.directory(slot);
        let mark = std::fs::read(directory.join(BOOT_MARK));
        if !matches!((mark, std::fs::read(BOOT_ID)), (Ok(mark), Ok(boot)) if mark == boot || mark == SYNCED) {
            return false;
        }
        let (image, mount) = (directory.join(IMAGE), directory.join(MOUNT));
        if !image.exists() || is_mounted(&mount) {
            return true;
        }
        let mounted = match self.mechanism().await {
            Mechanism::Image(disks) => {
                let mounted = async {
                    create_private(&mount)?;
                    disks.mount(&image, &mount).await
                };
                mounted.await.map_err(|error| error.to_string())
            }
            Mechanism::Watched { reason } => Err(reason.clone()),
        };
        if let Err(error) = &mounted {
            tracing::error!(slot = slot.as_str(), error, "the disk of an unsaved workspace cannot be mounted");
        }
        mounted.is_ok()
    }

    /// The workspace is complete. Without the mark it is merely restored again after a crash.
    pub(crate) fn mark_complete(&self, slot: &ScopeKey) {
        let path = self.directory(slot).join(BOOT_MARK);
        if let Err(error) = std::fs::read(BOOT_ID).and_then(|boot| std::fs::write(&path, boot)) {
            tracing::warn!(slot = slot.as_str(), %error, "after a crash this workspace will come from its last snapshot");
        }
    }

    /// A stop could not save this workspace: makes its files durable as they are, so that a reboot does not lose them.
    pub(crate) fn keep_across_boots(&self, slot: &ScopeKey) {
        let directory = self.directory(slot);
        let sync = |path: &Path| std::fs::File::open(path).and_then(|opened| Ok(rustix::fs::syncfs(&opened)?));
        let kept = (|| {
            if is_mounted(&directory.join(MOUNT)) {
                // First what is in the image, then the image.
                sync(&directory.join(MOUNT))?;
                std::fs::File::open(directory.join(IMAGE))?.sync_all()?;
            }
            sync(&directory)?;
            let mut mark = std::fs::File::create(directory.join(BOOT_MARK))?;
            mark.write_all(SYNCED)?;
            mark.sync_all()
        })();
        if let Err(error) = kept {
            tracing::error!(slot = slot.as_str(), %error, "an unsaved workspace may not survive a reboot");
        }
    }

    /// What a crash of the machine left is not trusted, and not thrown away: a person may want to look. Answers with
    /// where it is, `None` if nothing was there.
    pub(crate) async fn set_aside(&self, slot: &ScopeKey, now: u64) -> std::io::Result<Option<PathBuf>> {
        let directory = self.directory(slot);
        if roots_in(&directory).is_empty() && !directory.join(IMAGE).exists() {
            return Ok(None);
        }
        self.unmount(&directory).await?;
        let unsaved = self.data_dir.join("unsaved");
        create_private(&unsaved)?;
        let aside = unsaved.join(format!("{slot}-{now}"));
        std::fs::rename(&directory, &aside)?;
        Ok(Some(aside))
    }

    /// Removes a workspace with its disk. One that is not there is no error.
    pub(crate) async fn remove(&self, slot: &ScopeKey) -> std::io::Result<()> {
        let directory = self.directory(slot);
        self.drop_disk(&directory).await?;
        let removed = tokio::task::spawn_blocking(move || remove_directory(&directory));
        match removed.await.map_err(Error::other)? {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn drop_disk(&self, directory: &Path) -> std::io::Result<()> {
        self.unmount(directory).await?;
        match std::fs::remove_file(directory.join(IMAGE)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn unmount(&self, directory: &Path) -> std::io::Result<()> {
        let mount = directory.join(MOUNT);
        if !is_mounted(&mount) {
            return Ok(());
        }
        match self.mechanism().await {
            Mechanism::Image(disks) => disks.unmount(&mount).await,
            Mechanism::Watched { reason } => {
                Err(Error::other(format!("the disk of a workspace is mounted and cannot be unmounted: {reason}")))
            }
        }
    }

    /// The persisted roots that a slot's directory holds, by their names in the container. An image that is not mounted
    /// holds none.
    pub(crate) fn roots(&self, slot: &ScopeKey) -> Vec<String> {
        let directory = self.directory(slot);
        let mount = directory.join(MOUNT);
        roots_in(if is_mounted(&mount) { &mount } else { &directory })
    }
}

impl SizeLimit {
    /// The file system has no room for anything any more.
    pub(crate) fn is_full(&self) -> bool {
        /// Less than this is no room: one small file with its directory may need as much.
        const LEAST_FREE_BYTES: u64 = 64 * 1024;
        match self {
            Self::Disk(mount) => rustix::fs::statvfs(mount)
                .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < LEAST_FREE_BYTES || disk.f_favail == 0),
            Self::Watched(_) => false,
        }
    }
}

fn roots_in(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let path = |name: std::ffi::OsString| {
        let hex = name.to_str()?.strip_prefix("root-")?.to_owned();
        String::from_utf8(data_encoding::HEXLOWER.decode(hex.as_bytes()).ok()?).ok()
    };
    let mut roots: Vec<String> = names.filter_map(|entry| path(entry.file_name())).collect();
    roots.sort();
    roots
}

/// Named by its path in the container, so that another order or choice of roots never mixes them up.
fn root_dir_name(path: &str) -> String {
    format!("root-{}", data_encoding::HEXLOWER.encode(path.as_bytes()))
}

/// Roots that lie in the directory itself: what was there before a disk takes their place.
fn remove_roots(directory: &Path) -> std::io::Result<()> {
    for root in roots_in(directory) {
        std::fs::remove_dir_all(directory.join(root_dir_name(&root)))?;
    }
    Ok(())
}

/// Root directories that the guest has emptied belong to the tool user: they can be removed, but not looked into.
fn remove_directory(directory: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            for entry in std::fs::read_dir(directory)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    std::fs::remove_dir(entry.path())?;
                } else {
                    std::fs::remove_file(entry.path())?;
                }
            }
            std::fs::remove_dir(directory)
        }
        other => other,
    }
}

pub(crate) fn create_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}
