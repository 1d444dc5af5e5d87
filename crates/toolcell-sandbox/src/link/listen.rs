//! Waiting for a container's guest: a socket of its own, a peer check, and a secret proven both ways.

use super::{GuestLink, Shell};
use crate::error::SandboxError;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use toolcell_protocol::{FrameDecoder, GuestMessage, Handshake, HandshakeError, LiveCall, Op, Secret};

/// How long one peer has for the whole handshake; a stranger cannot hold the door longer.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);
/// The socket's name in the directory that the container sees.
pub(crate) const SOCKET_NAME: &str = "guest.sock";

/// What the guest said of itself when it was ready.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) calls: Vec<LiveCall>,
    pub(crate) next_op: Op,
    pub(crate) shell: Option<Shell>,
    /// The version that both sides speak.
    pub(crate) protocol: u16,
}

/// The container that is expected at the socket.
#[derive(Debug)]
pub(crate) struct HandshakeIdentity<'a> {
    pub(crate) container: &'a str,
    pub(crate) secret: &'a Secret,
}

/// Listens for one container's guest.
#[derive(Debug)]
pub(crate) struct GuestListener {
    listener: UnixListener,
    directory: PathBuf,
}

impl GuestListener {
    /// Listens in `directory`, which one container sees read-only and nothing else uses. A socket that an earlier
    /// host left there is replaced.
    pub(crate) fn bind(directory: &Path) -> Result<Self, SandboxError> {
        let failed = |source: std::io::Error| SandboxError::Host {
            action: "listen in",
            path: directory.display().to_string(),
            source,
        };
        let handle = std::fs::File::open(directory).map_err(failed)?;
        // A socket's path has at most 107 bytes; through the open directory it is short wherever data_dir is.
        let short = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET_NAME}", handle.as_raw_fd()));
        match std::fs::remove_file(directory.join(SOCKET_NAME)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&short).map_err(failed)?;
        Ok(Self { listener, directory: directory.to_owned() })
    }

    /// Waits for the next peer. Cancel safe.
    pub(crate) async fn accept(&self) -> Result<UnixStream, SandboxError> {
        let (stream, _) = self.listener.accept().await.map_err(|source| SandboxError::Host {
            action: "accept a guest in",
            path: self.directory.display().to_string(),
            source,
        })?;
        Ok(stream)
    }
}

impl Drop for GuestListener {
    fn drop(&mut self) {
        // The directory goes with the container; a socket that is already gone is what was wanted.
        let _ = std::fs::remove_file(self.directory.join(SOCKET_NAME));
    }
}

/// The process at the other end, as the kernel says. `None` for a process that this namespace cannot see.
pub(crate) fn peer_pid(stream: &UnixStream) -> Option<i32> {
    stream.peer_cred().ok().and_then(|cred| cred.pid()).filter(|pid| *pid > 0)
}

/// Proves both sides to each other and reads the guest's `Ready`.
pub(crate) async fn shake_hands(
    stream: UnixStream,
    identity: &HandshakeIdentity<'_>,
) -> Result<GuestLink, SandboxError> {
    let container = identity.container;
    let done = tokio::time::timeout(HANDSHAKE_TIMEOUT, shake_hands_unbounded(stream, identity)).await;
    done.unwrap_or_else(|_| {
        Err(SandboxError::GuestTimeout { container: container.to_owned(), seconds: HANDSHAKE_TIMEOUT.as_secs() })
    })
}

async fn shake_hands_unbounded(
    stream: UnixStream,
    identity: &HandshakeIdentity<'_>,
) -> Result<GuestLink, SandboxError> {
    let refused = |source: HandshakeError| SandboxError::Handshake { container: identity.container.to_owned(), source };
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(SandboxError::Random)?;
    let mut decoder = FrameDecoder::new();
    let hello = next_body(&stream, &mut decoder, identity).await?;
    let mut answer = Vec::new();
    let side =
        Handshake::answer(&hello, identity.secret, env!("CARGO_PKG_VERSION"), nonce, &mut answer).map_err(refused);
    if !answer.is_empty() {
        write_all(&stream, &answer, identity).await?;
    }
    let side = side?;
    let proof = next_body(&stream, &mut decoder, identity).await?;
    side.verify(&proof).map_err(refused)?;
    decoder.trust();
    let ready = next_body(&stream, &mut decoder, identity).await?;
    match toolcell_protocol::frame::decode_body(&ready) {
        Ok(GuestMessage::Ready { calls, next_op, shell }) => {
            let shell = Shell::of(shell.as_deref()).map_err(|reason| protocol(identity, reason))?;
            let ready = Ready { calls, next_op, shell, protocol: side.protocol };
            Ok(GuestLink::new(identity.container.to_owned(), stream, decoder, ready))
        }
        Ok(_) => Err(protocol(identity, "the first message was not Ready".to_owned())),
        Err(error) => Err(protocol(identity, error.to_string())),
    }
}

fn protocol(identity: &HandshakeIdentity<'_>, reason: String) -> SandboxError {
    SandboxError::Protocol { container: identity.container.to_owned(), reason }
}

async fn next_body(
    stream: &UnixStream,
    decoder: &mut FrameDecoder,
    identity: &HandshakeIdentity<'_>,
) -> Result<Vec<u8>, SandboxError> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(body) = decoder.next_body().map_err(|error| protocol(identity, error.to_string()))? {
            return Ok(body.to_vec());
        }
        stream.readable().await.map_err(|error| lost(identity, &error))?;
        match stream.try_read(&mut buffer) {
            Ok(0) => return Err(protocol(identity, "the peer went away during the handshake".to_owned())),
            Ok(read) => decoder.feed(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(lost(identity, &error)),
        }
    }
}

async fn write_all(
    stream: &UnixStream,
    mut bytes: &[u8],
    identity: &HandshakeIdentity<'_>,
) -> Result<(), SandboxError> {
    while !bytes.is_empty() {
        stream.writable().await.map_err(|error| lost(identity, &error))?;
        match stream.try_write(bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(lost(identity, &error)),
        }
    }
    Ok(())
}

fn lost(identity: &HandshakeIdentity<'_>, error: &std::io::Error) -> SandboxError {
    SandboxError::LinkLost { container: identity.container.to_owned(), reason: error.to_string() }
}
