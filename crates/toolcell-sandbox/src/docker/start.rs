//! Starting a container, and meeting its guest.

use super::create::{read_secret, socket_dir};
use super::{DockerProvider, unreachable_engine};
use crate::error::SandboxError;
use crate::link::{GuestLink, GuestListener, HandshakeIdentity, peer_pid, shake_hands};
use crate::provider::{Attached, Created};
use crate::sandbox::Sandbox;
use bollard::errors::Error as EngineError;
use bollard::models::ContainerState;
use bollard::query_parameters::{InspectContainerOptions, LogsOptionsBuilder, StartContainerOptions};
use futures_util::StreamExt;
use std::time::Duration;
use tokio::net::UnixStream;
use toolcell_protocol::Secret;

/// How long a started container's guest may take to connect.
const GUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a guest that lost its host may take to find the new one.
const REATTACH_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a container whose guest does not come is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// How much of a failed container's log an error shows.
const LOG_LINES: &str = "5";
const LOG_BYTES: usize = 2000;

impl DockerProvider {
    pub(super) async fn start_container(&self, created: Created) -> Result<Sandbox, SandboxError> {
        let Created { name, listener, secret } = created;
        {
            let _turn = self.starts.acquire().await;
            let start = self.docker().await?.start_container(&name, None::<StartContainerOptions>);
            self.step("start", &name, start).await?;
        }
        let link = self.meet(&name, &listener, &secret, GUEST_TIMEOUT).await?;
        Ok(Sandbox { name, link })
    }

    pub(super) async fn attach_container(&self, name: &str) -> Result<Attached, SandboxError> {
        let home = self.home(name);
        let Some(secret) = read_secret(&home) else { return Ok(Attached::Gone) };
        if !is_running(self.state(name).await?.as_ref()) {
            return Ok(Attached::Gone);
        }
        let listener = GuestListener::bind(&socket_dir(&home))?;
        match self.meet(name, &listener, &secret, REATTACH_TIMEOUT).await {
            Ok(link) => Ok(Attached::Running(Sandbox { name: name.to_owned(), link })),
            Err(error @ (SandboxError::EngineUnavailable { .. } | SandboxError::EngineForbidden { .. })) => Err(error),
            Err(error) => {
                tracing::warn!(container = name, %error, "its guest could not be taken up again");
                Ok(Attached::Gone)
            }
        }
    }

    /// Waits for the guest: strangers are turned away one by one until the right peer proves itself.
    async fn meet(
        &self,
        name: &str,
        listener: &GuestListener,
        secret: &Secret,
        limit: Duration,
    ) -> Result<GuestLink, SandboxError> {
        let identity = HandshakeIdentity { container: name, secret };
        let mut last = None;
        let met = tokio::time::timeout(limit, async {
            loop {
                match tokio::time::timeout(LOOK_AGAIN, listener.accept()).await {
                    Err(_) => {
                        if !is_running(self.state(name).await?.as_ref()) {
                            return Err(self.absent(name, "the container has ended").await);
                        }
                    }
                    Ok(stream) => match self.admit(stream?, &identity).await {
                        Ok(link) => return Ok(link),
                        // A guest of another version stays one; everybody else may be a stranger at the door.
                        Err(error @ SandboxError::Handshake { .. }) if is_version(&error) => return Err(error),
                        Err(error) => last = Some(error),
                    },
                }
            }
        });
        match met.await {
            Ok(met) => met,
            Err(_) => match last {
                Some(error) => Err(error),
                None => Err(self.absent(name, &format!("no connection within {} s", limit.as_secs())).await),
            },
        }
    }

    async fn admit(&self, stream: UnixStream, identity: &HandshakeIdentity<'_>) -> Result<GuestLink, SandboxError> {
        let name = identity.container;
        let Some(pid) = peer_pid(&stream) else {
            return Err(SandboxError::GuestAbsent {
                container: name.to_owned(),
                reason: "the peer's process is not visible here: a server in a container needs the host's pid \
                         namespace"
                    .to_owned(),
            });
        };
        let state = self.state(name).await?;
        let expected = state.filter(|state| state.running == Some(true)).and_then(|state| state.pid);
        if expected != Some(i64::from(pid)) {
            return Err(SandboxError::GuestAbsent {
                container: name.to_owned(),
                reason: format!("a process {pid} came that is not the container's"),
            });
        }
        shake_hands(stream, identity).await
    }

    async fn absent(&self, name: &str, reason: &str) -> SandboxError {
        let reason = format!("{reason}; {}", self.describe_end(name).await);
        SandboxError::GuestAbsent { container: name.to_owned(), reason }
    }

    /// The container's state, or `None` when there is no such container.
    async fn state(&self, name: &str) -> Result<Option<ContainerState>, SandboxError> {
        let docker = self.docker().await?;
        match docker.inspect_container(name, None::<InspectContainerOptions>).await {
            Ok(inspect) => Ok(inspect.state),
            Err(EngineError::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
            Err(source @ EngineError::DockerResponseServerError { .. }) => {
                Err(self.engine_error("inspect", name, source))
            }
            Err(source) => Err(unreachable_engine(&self.host, source)),
        }
    }

    pub(super) async fn describe_end(&self, name: &str) -> String {
        let state = match self.state(name).await {
            Ok(Some(state)) => state,
            Ok(None) => return "the container is gone".to_owned(),
            Err(error) => return error.to_string(),
        };
        let mut words = if state.oom_killed == Some(true) {
            "the container ran out of memory".to_owned()
        } else if state.running == Some(true) {
            "the container runs".to_owned()
        } else {
            format!("the container ended with exit code {}", state.exit_code.unwrap_or(-1))
        };
        let log = self.log_tail(name).await;
        if !log.is_empty() {
            words.push_str(": ");
            words.push_str(&log);
        }
        words
    }

    async fn log_tail(&self, name: &str) -> String {
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail(LOG_LINES).build();
        let Ok(docker) = self.docker().await else { return String::new() };
        let mut log = docker.logs(name, Some(options));
        let mut text = String::new();
        while let Some(Ok(line)) = log.next().await {
            text.push_str(&String::from_utf8_lossy(&line.into_bytes()));
            if text.len() > LOG_BYTES {
                break;
            }
        }
        text.chars().take(LOG_BYTES).collect::<String>().trim().replace('\n', " · ")
    }
}

fn is_running(state: Option<&ContainerState>) -> bool {
    state.is_some_and(|state| state.running == Some(true))
}

fn is_version(error: &SandboxError) -> bool {
    use toolcell_protocol::HandshakeError::Version;
    matches!(error, SandboxError::Handshake { source: Version { .. }, .. })
}
