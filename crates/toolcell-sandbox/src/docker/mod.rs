//! The Docker provider.
//!
//! A container's name is made of the instance and the slot's key, and its host directory `run/<name>/` holds the
//! socket's directory (mounted read-only, and nothing else in it) and the secret (0600, never mounted). Labels are
//! for finding, never for deciding.

mod create;
mod image;
mod setup;
mod start;

use crate::error::SandboxError;
use crate::guest_binary;
use crate::provider::{Attached, CreateRequest, Created, Engine, Found, GitRequest, Image, SandboxProvider};
use crate::sandbox::Sandbox;
use async_trait::async_trait;
use bollard::Docker;
use bollard::errors::Error as EngineError;
use bollard::query_parameters::{InspectContainerOptions, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::{OnceCell, Semaphore};
use toolcell_model::{InstanceId, ScopeKey};

/// Label with the instance whose container it is.
pub const LABEL_INSTANCE: &str = "toolcell.instance";
/// Label with the slot's key.
pub const LABEL_SLOT: &str = "toolcell.slot";
/// Label with the holder's token when it was made.
pub const LABEL_TOKEN: &str = "toolcell.token";

/// How long the engine has for one step of a container's life.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a container that somebody else removes is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Containers that are made or started at once; more would only wait inside the engine.
const PARALLEL_STARTS: usize = 4;

/// Containers of one instance on one Docker engine.
#[derive(Debug)]
pub struct DockerProvider {
    docker: OnceCell<Docker>,
    host: String,
    instance: InstanceId,
    /// `data_dir/run`: one directory per container.
    run_dir: PathBuf,
    guest: PathBuf,
    starts: Semaphore,
    pull_timeout: Duration,
    orphan_ttl: Duration,
}

/// How to reach the engine, and where this instance's files are.
#[derive(Debug, Clone)]
pub struct DockerConfig {
    /// `unix:///…`; other addresses are refused.
    pub host: String,
    /// Whose containers these are.
    pub instance: InstanceId,
    /// The instance's data directory.
    pub data_dir: PathBuf,
    /// How long a pull may take.
    pub pull_timeout: Duration,
    /// How long a guest goes on without a host before it ends itself.
    pub orphan_ttl: Duration,
}

impl DockerProvider {
    /// Unpacks the guest. The engine is first spoken to when it is needed.
    ///
    /// # Errors
    /// [`SandboxError::EngineAddress`], [`SandboxError::Host`].
    pub fn new(config: DockerConfig) -> Result<Self, SandboxError> {
        let DockerConfig { host, instance, data_dir, pull_timeout, orphan_ttl } = config;
        Self::check_host(&host)?;
        let run_dir = data_dir.join("run");
        create_private_dir(&run_dir)?;
        let guest = guest_binary::unpack(&data_dir.join("guest"))?;
        let starts = Semaphore::new(PARALLEL_STARTS);
        let docker = OnceCell::new();
        Ok(Self { docker, host, instance, run_dir, guest, starts, pull_timeout, orphan_ttl })
    }

    /// Whether the engine's address is of a kind that can be used: the guest's socket is a file that container and host
    /// share, and a remote engine has no such file.
    ///
    /// # Errors
    /// [`SandboxError::EngineAddress`].
    pub fn check_host(host: &str) -> Result<(), SandboxError> {
        if host.starts_with("unix://") {
            return Ok(());
        }
        let source = EngineError::UnsupportedURISchemeError { uri: host.to_owned() };
        Err(SandboxError::EngineAddress { host: host.to_owned(), source })
    }

    /// The connection, made and its API version agreed on at first use. An engine that was not there is tried again.
    async fn docker(&self) -> Result<&Docker, SandboxError> {
        let connect = async {
            let timeout_s = STEP_TIMEOUT.as_secs();
            let docker = Docker::connect_with_unix(&self.host, timeout_s, bollard::API_DEFAULT_VERSION);
            let docker = docker.map_err(|source| unreachable_engine(&self.host, source))?;
            docker.negotiate_version().await.map_err(|source| unreachable_engine(&self.host, source))
        };
        self.docker.get_or_try_init(|| connect).await
    }

    fn container_name(&self, slot: &ScopeKey) -> String {
        // Two data directories on one engine may serve the same slot key; their containers must not meet.
        let instance = self.instance.as_str();
        format!("toolcell-{}-{slot}", &instance[instance.len() - 12..])
    }

    fn home(&self, name: &str) -> PathBuf {
        self.run_dir.join(name)
    }

    fn engine_error(&self, action: &'static str, container: &str, source: EngineError) -> SandboxError {
        if is_connection_error(&source) {
            unreachable_engine(&self.host, source)
        } else {
            SandboxError::Engine { action, container: container.to_owned(), source }
        }
    }

    /// Bounds one step of the engine.
    async fn step<T>(
        &self,
        action: &'static str,
        container: &str,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, SandboxError> {
        match tokio::time::timeout(STEP_TIMEOUT, work).await {
            Ok(done) => done.map_err(|source| self.engine_error(action, container, source)),
            Err(_) => Err(SandboxError::EngineTimeout {
                action,
                container: container.to_owned(),
                seconds: STEP_TIMEOUT.as_secs(),
            }),
        }
    }

    /// Returns once the engine has no container of this name.
    async fn remove_container(&self, action: &'static str, name: &str) -> Result<(), SandboxError> {
        let docker = self.docker().await?;
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        let removed = self.step(action, name, async {
            match docker.remove_container(name, Some(options)).await {
                Err(EngineError::DockerResponseServerError { status_code: 404, .. }) => Ok(()),
                // Somebody else is removing it: until that is done its name is taken.
                Err(EngineError::DockerResponseServerError { status_code: 409, .. }) => until_gone(docker, name).await,
                other => other,
            }
        });
        removed.await
    }

    fn remove_home(&self, name: &str) -> Result<(), SandboxError> {
        match std::fs::remove_dir_all(self.home(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(host_error("remove", &self.home(name))(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

#[async_trait]
impl SandboxProvider for DockerProvider {
    fn instance(&self) -> &InstanceId {
        &self.instance
    }

    async fn engine(&self) -> Result<Engine, SandboxError> {
        let version = self.docker().await?.version().await.map_err(|source| unreachable_engine(&self.host, source))?;
        Ok(Engine {
            version: version.version.unwrap_or_default(),
            api_version: version.api_version.unwrap_or_default(),
        })
    }

    async fn image(&self, name: &str) -> Result<Image, SandboxError> {
        self.find_or_pull(name).await
    }

    async fn create(&self, request: CreateRequest<'_>) -> Result<Created, SandboxError> {
        self.create_container(request).await
    }

    fn secret_path(&self, name: &str) -> PathBuf {
        create::secret_path(&self.home(name))
    }

    async fn start(&self, created: Created) -> Result<Sandbox, SandboxError> {
        let name = created.name.clone();
        match self.start_container(created).await {
            Ok(sandbox) => Ok(sandbox),
            Err(error) => {
                if let Err(second) = self.remove(&name).await {
                    tracing::warn!(container = name, error = %second, "a container that did not start stays behind");
                }
                Err(error)
            }
        }
    }

    async fn attach(&self, name: &str) -> Result<Attached, SandboxError> {
        self.attach_container(name).await
    }

    async fn found(&self) -> Result<Vec<Found>, SandboxError> {
        let label = format!("{LABEL_INSTANCE}={}", self.instance);
        let filters = HashMap::from([("label".to_owned(), vec![label])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let list = self.docker().await?.list_containers(Some(options));
        let list = self.step("list", "of this instance", list).await?;
        Ok(list.into_iter().filter_map(found).collect())
    }

    async fn remove(&self, name: &str) -> Result<(), SandboxError> {
        self.remove_container("remove", name).await?;
        self.remove_home(name)
    }

    async fn image_archives(
        &self,
        image: &Image,
        paths: &[String],
        into: &Path,
        most_bytes: u64,
    ) -> Result<Vec<Option<PathBuf>>, SandboxError> {
        self.archives_of(image, paths, into, most_bytes).await
    }

    async fn git(&self, request: GitRequest<'_>) -> Result<PathBuf, SandboxError> {
        self.git_files(&request).await
    }

    async fn remove_old_setups(&self) -> Result<(), SandboxError> {
        self.remove_old_throwaways().await
    }

    async fn last_words(&self, name: &str) -> String {
        self.describe_end(name).await
    }
}

async fn until_gone(docker: &Docker, name: &str) -> Result<(), EngineError> {
    loop {
        match docker.inspect_container(name, None::<InspectContainerOptions>).await {
            Ok(_) => tokio::time::sleep(LOOK_AGAIN).await,
            Err(EngineError::DockerResponseServerError { status_code: 404, .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn found(summary: bollard::models::ContainerSummary) -> Option<Found> {
    let name = summary.names?.first()?.trim_start_matches('/').to_owned();
    let slot = ScopeKey::parse(summary.labels?.remove(LABEL_SLOT)?).ok()?;
    let running = summary.state.is_some_and(|state| state.to_string() == "running");
    Some(Found { name, slot, running })
}

fn is_connection_error(error: &EngineError) -> bool {
    match error {
        EngineError::DockerResponseServerError { .. } => false,
        EngineError::HyperResponseError { .. }
        | EngineError::HyperLegacyError { .. }
        | EngineError::IOError { .. }
        | EngineError::SocketNotFoundError(_)
        | EngineError::RequestTimeoutError => true,
        _ => false,
    }
}

fn unreachable_engine(host: &str, source: EngineError) -> SandboxError {
    let mut cause: Option<&dyn std::error::Error> = Some(&source);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::PermissionDenied) {
            return SandboxError::EngineForbidden { host: host.to_owned(), source };
        }
        cause = error.source();
    }
    SandboxError::EngineUnavailable { host: host.to_owned(), source }
}

fn host_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> SandboxError + use<> {
    let path = path.display().to_string();
    move |source| SandboxError::Host { action, path, source }
}

fn create_private_dir(path: &Path) -> Result<(), SandboxError> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(host_error("create", path))
}
