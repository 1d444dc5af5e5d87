//! The one connection to the host: dial, prove, read, write.

use crate::clock::now_us;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use std::path::PathBuf;
use toolcell_protocol::{FrameDecoder, Handshake, HandshakeError, Hello, Secret, encode_frame};

/// First and longest pause between two attempts to reach the host.
const FIRST_PAUSE_US: u64 = 5_000;
const LONGEST_PAUSE_US: u64 = 200_000;
/// Pause after a host that could not prove itself.
const DISTRUST_PAUSE_US: u64 = 1_000_000;
/// For the whole handshake.
const GREETING_US: u64 = 5_000_000;
/// Bytes that wait for the socket before nothing more is encoded.
pub(crate) const ENOUGH_OUT_BYTES: usize = 1024 * 1024;

/// Where the connection stands.
#[derive(Debug)]
enum State {
    /// No connection; the next attempt at this time.
    Away { dial_at: u64, pause: u64 },
    /// Connected; the host has not proven itself yet.
    Greeting { socket: OwnedFd, decoder: FrameDecoder, hello: Hello, until: u64 },
    /// Working.
    Up { socket: OwnedFd, decoder: FrameDecoder },
}

/// What an event on the socket came to.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Nothing to act on.
    Nothing,
    /// The host has proven itself: say `Ready`.
    Up,
    /// The connection is gone.
    Lost,
    /// This host and this guest will never work together.
    Hopeless(HandshakeError),
    /// The peer is not our host.
    Distrusted(HandshakeError),
}

/// The connection.
#[derive(Debug)]
pub(crate) struct Link {
    path: PathBuf,
    secret: Secret,
    state: State,
    /// Counts sockets, so that whoever watches one sees that it is another.
    serial: u64,
    out: Vec<u8>,
    out_at: usize,
}

impl Link {
    /// Not connected; dials at once.
    pub(crate) fn new(path: PathBuf, secret: Secret) -> Self {
        let state = State::Away { dial_at: 0, pause: FIRST_PAUSE_US };
        Self { path, secret, state, serial: 0, out: Vec::new(), out_at: 0 }
    }

    /// The socket, if there is one.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Away { .. } => None,
            State::Greeting { socket, .. } | State::Up { socket, .. } => Some(socket.as_fd()),
        }
    }

    /// Which socket it is.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Messages may be exchanged.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// When [`Self::tick`] has something to do.
    pub(crate) fn wake_at(&self) -> Option<u64> {
        match &self.state {
            State::Away { dial_at, .. } => Some(*dial_at),
            State::Greeting { until, .. } => Some(*until),
            State::Up { .. } => None,
        }
    }

    /// Dials, or gives up a handshake that takes too long.
    pub(crate) fn tick(&mut self, now: u64) {
        match &self.state {
            State::Away { dial_at, pause } if now >= *dial_at => {
                let pause = *pause;
                match self.dial() {
                    Ok(greeting) => {
                        self.state = greeting;
                        self.serial = self.serial.saturating_add(1);
                    }
                    Err(_) => {
                        let longer = pause.saturating_mul(2).min(LONGEST_PAUSE_US);
                        self.state = State::Away { dial_at: now.saturating_add(pause), pause: longer };
                    }
                }
            }
            State::Greeting { until, .. } if now >= *until => self.close(LONGEST_PAUSE_US),
            State::Away { .. } | State::Greeting { .. } | State::Up { .. } => {}
        }
    }

    fn dial(&mut self) -> Result<State, Errno> {
        let address = SocketAddrUnix::new(&self.path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &address)?;
        let mut nonce = [0; 32];
        let mut filled = 0;
        while let Some(rest) = nonce.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            filled = filled.saturating_add(rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?);
        }
        let hello = Hello::new(env!("CARGO_PKG_VERSION"), nonce);
        self.out.clear();
        self.out_at = 0;
        encode_frame(&hello, &mut self.out).map_err(|_| Errno::INVAL)?;
        Ok(State::Greeting { socket, decoder: FrameDecoder::new(), hello, until: now_us().saturating_add(GREETING_US) })
    }

    /// The connection is gone: closes, and dials again soon if it had worked before.
    pub(crate) fn lose(&mut self) {
        self.close(if self.is_up() { FIRST_PAUSE_US } else { LONGEST_PAUSE_US });
    }

    /// Closes; the next attempt after `pause`.
    pub(crate) fn close(&mut self, pause: u64) {
        self.state = State::Away { dial_at: now_us().saturating_add(pause), pause: FIRST_PAUSE_US };
        self.out = Vec::new();
        self.out_at = 0;
    }

    /// Reads once into the decoder. What comes of it: during the handshake its progress, later [`Self::next`]'s
    /// bodies.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Progress {
        let received = match self.socket() {
            None => return Progress::Nothing,
            Some(socket) => recv(socket, &mut *buffer, RecvFlags::DONTWAIT),
        };
        let bytes = match received {
            Ok((0, _)) => return Progress::Lost,
            Ok((read, _)) => buffer.get(..read).unwrap_or_default(),
            Err(Errno::AGAIN | Errno::INTR) => return Progress::Nothing,
            Err(_) => return Progress::Lost,
        };
        match &mut self.state {
            State::Away { .. } => Progress::Nothing,
            State::Up { decoder, .. } => {
                decoder.feed(bytes);
                Progress::Nothing
            }
            State::Greeting { decoder, .. } => {
                decoder.feed(bytes);
                self.greet()
            }
        }
    }

    /// Goes on with the handshake as far as what was read allows.
    fn greet(&mut self) -> Progress {
        let State::Greeting { decoder, hello, .. } = &mut self.state else { return Progress::Nothing };
        let verdict = match decoder.next_body() {
            Ok(None) => return Progress::Nothing,
            Ok(Some(body)) => Handshake::complete(hello, body, &self.secret, &mut self.out),
            Err(error) => Err(HandshakeError::Frame(error)),
        };
        match verdict {
            Ok(_) => {
                let away = State::Away { dial_at: 0, pause: FIRST_PAUSE_US };
                if let State::Greeting { socket, mut decoder, .. } = std::mem::replace(&mut self.state, away) {
                    decoder.trust();
                    self.state = State::Up { socket, decoder };
                }
                Progress::Up
            }
            Err(error) => match error {
                HandshakeError::Version { .. } | HandshakeError::Refused { .. } => Progress::Hopeless(error),
                HandshakeError::Frame(_) | HandshakeError::Magic | HandshakeError::Proof { .. } => {
                    self.close(DISTRUST_PAUSE_US);
                    Progress::Distrusted(error)
                }
            },
        }
    }

    /// The next whole message of the host.
    pub(crate) fn next<M: serde::de::DeserializeOwned>(&mut self) -> Result<Option<M>, toolcell_protocol::FrameError> {
        match &mut self.state {
            State::Up { decoder, .. } => decoder.next_message(),
            State::Away { .. } | State::Greeting { .. } => Ok(None),
        }
    }

    /// Where frames are appended.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Bytes that wait for the socket.
    pub(crate) fn waiting(&self) -> usize {
        self.out.len().saturating_sub(self.out_at)
    }

    /// Writes what the socket takes; false when the connection is broken.
    pub(crate) fn flush(&mut self) -> bool {
        loop {
            let rest = self.out.get(self.out_at..).unwrap_or_default();
            if rest.is_empty() {
                self.out.clear();
                self.out_at = 0;
                if self.out.capacity() > ENOUGH_OUT_BYTES.saturating_mul(2) {
                    self.out.shrink_to(ENOUGH_OUT_BYTES);
                }
                return true;
            }
            let Some(socket) = self.socket() else { return true };
            match send(socket, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    self.out_at = self.out_at.saturating_add(sent);
                    // A socket that is never quite empty must not make the buffer grow.
                    if self.out_at > ENOUGH_OUT_BYTES {
                        self.out.drain(..self.out_at.min(self.out.len()));
                        self.out_at = 0;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
    }
}
