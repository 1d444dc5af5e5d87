//! A container's creation, hardened by default.

use super::{DockerProvider, LABEL_INSTANCE, LABEL_SLOT, LABEL_TOKEN, create_private_dir, host_error};
use crate::error::SandboxError;
use crate::guest_binary::GUEST_PATH;
use crate::link::GuestListener;
use crate::provider::{CreateRequest, Created, SandboxProvider};
use crate::spec::{GUEST_CAPABILITIES, SandboxSpec};
use bollard::errors::Error as EngineError;
use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountBindOptions, MountBindOptionsPropagationEnum,
    MountType, ResourcesUlimits,
};
use bollard::query_parameters::CreateContainerOptionsBuilder;
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolcell_protocol::{SECRET_BYTES, Secret};

/// Where the socket's directory is mounted.
const SOCKET_MOUNT: &str = "/.toolcell/run";
/// The variable that carries the secret; the guest erases it before anything else runs.
const SECRET_VARIABLE: &str = "TOOLCELL_GUEST_SECRET";
/// A guest that has not heard from its host for this long starts nothing new until it does.
const FENCE_TTL: Duration = Duration::from_secs(15);
const SECRET_FILE: &str = "secret";
const SOCKET_DIR: &str = "socket";

impl DockerProvider {
    pub(super) async fn create_container(&self, request: CreateRequest<'_>) -> Result<Created, SandboxError> {
        let name = self.container_name(request.slot);
        let _turn = self.starts.acquire().await;
        // The caller holds the slot: a container of this name is a leftover of ours.
        self.remove_home(&name)?;
        let home = self.home(&name);
        create_private_dir(&home)?;
        match self.create_in(&home, &name, &request).await {
            Ok(created) => Ok(created),
            Err(error) => {
                if let Err(second) = self.remove(&name).await {
                    tracing::warn!(container = name, error = %second, "what a failed create left stays behind");
                }
                Err(error)
            }
        }
    }

    async fn create_in(&self, home: &Path, name: &str, request: &CreateRequest<'_>) -> Result<Created, SandboxError> {
        let secret = new_secret()?;
        write_secret(home, &secret)?;
        let socket_dir = socket_dir(home);
        create_private_dir(&socket_dir)?;
        // The container's root has no right to search other users' directories of this host; this one it needs.
        std::fs::set_permissions(&socket_dir, std::fs::Permissions::from_mode(0o755))
            .map_err(host_error("open up", &socket_dir))?;
        let listener = GuestListener::bind(&socket_dir)?;
        let body = self.body(&socket_dir, &secret, request);
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        let docker = self.docker().await?;
        let create = || docker.create_container(Some(options.clone()), body.clone());
        let first = tokio::time::timeout(super::STEP_TIMEOUT, create()).await;
        if let Ok(Err(EngineError::DockerResponseServerError { status_code: 409, .. })) = first {
            self.remove_container("remove a leftover named", name).await?;
            self.step("create", name, create()).await?;
        } else {
            self.step("create", name, async { first.unwrap_or(Err(EngineError::RequestTimeoutError)) }).await?;
        }
        Ok(Created { name: name.to_owned(), listener, secret })
    }

    fn body(&self, socket_dir: &Path, secret: &Secret, request: &CreateRequest<'_>) -> ContainerCreateBody {
        let spec = request.spec;
        let mut command = vec!["--socket".to_owned(), format!("{SOCKET_MOUNT}/{}", crate::link::SOCKET_NAME)];
        command.extend(["--uid".to_owned(), spec.user.uid.to_string(), "--gid".to_owned(), spec.user.gid.to_string()]);
        command.extend(["--orphan-ttl-ms".to_owned(), self.orphan_ttl.as_millis().to_string()]);
        command.extend(["--fence-ttl-ms".to_owned(), FENCE_TTL.as_millis().to_string()]);
        let secret_text = data_encoding::HEXLOWER.encode(secret.expose());
        ContainerCreateBody {
            image: Some(request.image.id.clone()),
            entrypoint: Some(vec![GUEST_PATH.to_owned()]),
            cmd: Some(command),
            env: Some(vec![format!("{SECRET_VARIABLE}={secret_text}")]),
            user: Some("0:0".to_owned()),
            working_dir: Some("/".to_owned()),
            hostname: Some("sandbox".to_owned()),
            network_disabled: Some(true),
            healthcheck: Some(bollard::models::HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..Default::default()
            }),
            labels: Some(HashMap::from([
                (LABEL_INSTANCE.to_owned(), self.instance.to_string()),
                (LABEL_SLOT.to_owned(), request.slot.to_string()),
                (LABEL_TOKEN.to_owned(), request.token.to_string()),
            ])),
            host_config: Some(host_config(spec, self.mounts(socket_dir, request))),
            ..Default::default()
        }
    }

    fn mounts(&self, socket_dir: &Path, request: &CreateRequest<'_>) -> Vec<Mount> {
        let mut mounts = vec![bind(&self.guest, GUEST_PATH, true), bind(socket_dir, SOCKET_MOUNT, true)];
        mounts.extend(request.roots.iter().map(|root| bind(&root.host, &root.path, false)));
        mounts.extend(request.spec.mounts.iter().map(|mount| bind(&mount.host, &mount.path, mount.read_only)));
        mounts
    }
}

fn host_config(spec: &SandboxSpec, mounts: Vec<Mount>) -> HostConfig {
    let limits = &spec.limits;
    let tmp = format!("rw,exec,nosuid,nodev,mode=1777,size={}", limits.tmp_bytes);
    let memory = signed(limits.memory_bytes);
    HostConfig {
        network_mode: Some("none".to_owned()),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(GUEST_CAPABILITIES.iter().map(|&name| name.to_owned()).collect()),
        // Docker's default seccomp profile stays in force; the guest adds its own filter on top of it.
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        readonly_rootfs: Some(spec.read_only_root),
        tmpfs: Some(HashMap::from([("/tmp".to_owned(), tmp)])),
        memory: Some(memory),
        // Memory and swap together: the same figure means no swap.
        memory_swap: Some(memory),
        nano_cpus: Some(signed(limits.cpu_millis.saturating_mul(1_000_000))),
        pids_limit: Some(i64::from(limits.pids)),
        ulimits: Some(vec![ulimit("nofile", i64::from(limits.open_files)), ulimit("core", 0)]),
        ipc_mode: Some("private".to_owned()),
        // Shared memory ends with the processes that use it, so that a call leaves none behind.
        sysctls: Some(HashMap::from([("kernel.shm_rmid_forced".to_owned(), "1".to_owned())])),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(HashMap::from([
                ("max-size".to_owned(), "64k".to_owned()),
                ("max-file".to_owned(), "1".to_owned()),
            ])),
        }),
        mounts: Some(mounts),
        ..Default::default()
    }
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn ulimit(name: &str, value: i64) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(value), hard: Some(value) }
}

pub(super) fn bind(host: &Path, path: &str, read_only: bool) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(host.display().to_string()),
        target: Some(path.to_owned()),
        read_only: Some(read_only),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn new_secret() -> Result<Secret, SandboxError> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(SandboxError::Random)?;
    Ok(Secret::from_bytes(bytes))
}

fn write_secret(home: &Path, secret: &Secret) -> Result<(), SandboxError> {
    let path = secret_path(home);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(host_error("write", &path))?;
    file.write_all(secret.expose()).map_err(host_error("write", &path))
}

/// The secret of a container that an earlier process made; `None` when it is not there whole.
pub(super) fn read_secret(home: &Path) -> Option<Secret> {
    let bytes = std::fs::read(secret_path(home)).ok()?;
    Some(Secret::from_bytes(bytes.try_into().ok()?))
}

pub(super) fn secret_path(home: &Path) -> PathBuf {
    home.join(SECRET_FILE)
}

pub(super) fn socket_dir(home: &Path) -> PathBuf {
    home.join(SOCKET_DIR)
}
