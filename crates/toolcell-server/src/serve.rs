//! The two listeners: TCP for callers, a socket in the data directory for its owner.

use crate::auth::{AdminKeyError, Gate, admin_key};
use crate::connections::accept;
use crate::routes::router;
use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::serve::ListenerExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use toolcell_runtime::Runtime;
use toolcell_runtime::config::AuthMode;

/// Why the server does not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// The admin key.
    #[error("the server has no key to check")]
    AdminKey(#[source] AdminKeyError),
    /// The listener does not say where it listens.
    #[error("the listener has no address")]
    Address(#[source] std::io::Error),
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    tcp: TcpListener,
    socket: UnixListener,
    socket_path: PathBuf,
    gate: Gate,
}

/// The socket of the server that holds this data directory.
#[must_use]
pub fn socket_path(data_dir: &Path) -> PathBuf {
    data_dir.join("server.sock")
}

impl Server {
    /// Listens; requests wait until [`Self::run`].
    ///
    /// # Errors
    /// [`ServeError::Listen`], [`ServeError::AdminKey`].
    pub async fn bind(runtime: Runtime) -> Result<Self, ServeError> {
        let config = runtime.config();
        let hosts: Arc<[String]> = config.server.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        let gate = match config.auth.mode {
            AuthMode::None => {
                tracing::warn!("auth.mode is \"none\": everyone on this machine may call");
                Gate::Everyone { hosts }
            }
            AuthMode::Keys => {
                let key = admin_key(&config.data_dir).map_err(ServeError::AdminKey)?;
                Gate::Keys { admin: blake3::hash(key.as_bytes()), hosts }
            }
        };
        let address = config.server.listen;
        let listen_error = |address: String| move |source| ServeError::Listen { address, source };
        let tcp = TcpListener::bind(address).await.map_err(listen_error(address.to_string()))?;
        let socket_path = socket_path(&config.data_dir);
        let socket = bind_socket(&socket_path).map_err(listen_error(socket_path.display().to_string()))?;
        Ok(Self { runtime, tcp, socket, socket_path, gate })
    }

    /// Where it listens; the port is the real one where the configuration says 0.
    ///
    /// # Errors
    /// [`ServeError::Address`].
    pub fn local_addr(&self) -> Result<SocketAddr, ServeError> {
        self.tcp.local_addr().map_err(ServeError::Address)
    }

    /// Serves until `stop`; then open requests are finished.
    pub async fn run(self, stop: CancellationToken) {
        let Self { runtime, tcp, socket, socket_path, gate } = self;
        let for_callers = router(runtime.clone(), gate);
        let for_owner = router(runtime, Gate::Socket);
        let tcp = tcp.tap_io(|stream| {
            // Answers are small and must not wait for each other.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "no TCP_NODELAY");
            }
        });
        tokio::join!(accept(tcp, for_callers, &stop), accept(socket, for_owner, &stop));
        if let Err(error) = std::fs::remove_file(&socket_path) {
            tracing::warn!(%error, path = %socket_path.display(), "the socket stays behind");
        }
    }
}

/// The routes of the data directory's socket without a socket: for a program that is its own server.
#[derive(Debug, Clone)]
pub struct InProcess(Router);

impl InProcess {
    /// Over this runtime, for its owner.
    #[must_use]
    pub fn new(runtime: Runtime) -> Self {
        Self(router(runtime, Gate::Socket))
    }

    /// Answers a request as the socket would.
    pub async fn request(&self, request: Request<Body>) -> Response<Body> {
        let answered = TowerToHyperService::new(self.0.clone()).call(request).await;
        answered.unwrap_or_else(|never| match never {})
    }
}

/// The data directory is held by this process, so a socket that is there is a dead one's.
fn bind_socket(path: &Path) -> std::io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let socket = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(socket)
}
