//! Who are you, which protocol, and do you hold this container's secret.
//!
//! ```text
//! guest → host   Hello   { protocol range, guest version, nonce, container boot id }
//! host  → guest  Welcome { chosen protocol, host version, nonce, proof }  or  Refused { reason }
//! guest → host   Proof   { proof }
//! ```
//! Each proof is keyed BLAKE3 (used as a MAC) over a role, both nonces and the chosen version under the container's
//! 256-bit secret, so neither side can replay the other's. The layout of these frames never changes, whatever the
//! protocol version, so that two builds that cannot work together can still name each other.

use crate::frame::{FrameError, decode_body, encode_frame};
use serde::{Deserialize, Serialize};

/// Length of a container's secret.
pub const SECRET_BYTES: usize = 32;
const NONCE_BYTES: usize = 32;
const MAGIC: [u8; 8] = *b"toolcell";

/// The oldest protocol that this build speaks.
pub const PROTOCOL_MIN: u16 = 1;
/// The newest protocol that this build speaks. 2: `Quiesce` and `Resume`.
pub const PROTOCOL_MAX: u16 = 2;

/// A container's secret. Its `Debug` shows nothing.
#[derive(Clone)]
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// From its bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes, for the one file and the one variable that carry it.
    #[must_use]
    pub const fn expose(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The guest's first frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    magic: [u8; 8],
    /// Oldest protocol the guest speaks.
    pub protocol_min: u16,
    /// Newest protocol the guest speaks.
    pub protocol_max: u16,
    /// The guest's build, for messages.
    pub guest_version: String,
    nonce: [u8; NONCE_BYTES],
}

/// The host's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Go on.
    Welcome(Welcome),
    /// The host will not work with this guest.
    Refused {
        /// Why, in one line.
        reason: String,
    },
}

/// What the host says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The protocol both will speak.
    pub protocol: u16,
    /// The host's build, for messages.
    pub host_version: String,
    nonce: [u8; NONCE_BYTES],
    proof: [u8; 32],
}

/// The guest's last frame of the handshake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    proof: [u8; 32],
}

/// Why a handshake failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// What came is no handshake frame.
    #[error("not a handshake")]
    Frame(#[source] FrameError),
    /// The first bytes are not Toolcell's.
    #[error("the peer does not speak this protocol at all")]
    Magic,
    /// No common protocol.
    #[error(
        "guest {guest_version} speaks protocol {guest_min} to {guest_max}, host {host_version} speaks {host_min} to \
         {host_max}: they cannot work together"
    )]
    Version {
        /// The guest's build.
        guest_version: String,
        /// Oldest protocol of the guest.
        guest_min: u16,
        /// Newest protocol of the guest.
        guest_max: u16,
        /// The host's build.
        host_version: String,
        /// Oldest protocol of the host.
        host_min: u16,
        /// Newest protocol of the host.
        host_max: u16,
    },
    /// The peer does not hold the secret.
    #[error("the {peer} could not prove that it holds the container's secret")]
    Proof {
        /// `guest` or `host`.
        peer: &'static str,
    },
    /// The host said no.
    #[error("the host refused: {reason}")]
    Refused {
        /// The host's reason.
        reason: String,
    },
}

impl Hello {
    /// The guest's opening.
    #[must_use]
    pub fn new(guest_version: &str, nonce: [u8; NONCE_BYTES]) -> Self {
        Self {
            magic: MAGIC,
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            guest_version: guest_version.to_owned(),
            nonce,
        }
    }
}

/// The host's side, after its `Welcome` was sent.
#[derive(Debug)]
pub struct Handshake {
    expected: [u8; 32],
    /// The protocol both will speak.
    pub protocol: u16,
    /// The guest's build.
    pub guest_version: String,
}

impl Handshake {
    /// Host: reads a [`Hello`] body and appends the frame to answer with to `out`, also when the answer is no.
    ///
    /// # Errors
    /// [`HandshakeError::Frame`], [`HandshakeError::Magic`] (nothing to answer) or [`HandshakeError::Version`].
    pub fn answer(
        hello: &[u8],
        secret: &Secret,
        host_version: &str,
        nonce: [u8; NONCE_BYTES],
        out: &mut Vec<u8>,
    ) -> Result<Self, HandshakeError> {
        let hello: Hello = decode_body(hello).map_err(HandshakeError::Frame)?;
        if hello.magic != MAGIC {
            return Err(HandshakeError::Magic);
        }
        let protocol = hello.protocol_max.min(PROTOCOL_MAX);
        if protocol < hello.protocol_min.max(PROTOCOL_MIN) {
            let error = HandshakeError::Version {
                guest_version: hello.guest_version.chars().take(80).collect(),
                guest_min: hello.protocol_min,
                guest_max: hello.protocol_max,
                host_version: host_version.to_owned(),
                host_min: PROTOCOL_MIN,
                host_max: PROTOCOL_MAX,
            };
            encode_frame(&Verdict::Refused { reason: error.to_string() }, out).map_err(HandshakeError::Frame)?;
            return Err(error);
        }
        let welcome = Welcome {
            protocol,
            host_version: host_version.to_owned(),
            nonce,
            proof: prove(secret, "host", protocol, &hello.nonce, &nonce),
        };
        encode_frame(&Verdict::Welcome(welcome), out).map_err(HandshakeError::Frame)?;
        Ok(Self {
            expected: prove(secret, "guest", protocol, &hello.nonce, &nonce),
            protocol,
            guest_version: hello.guest_version,
        })
    }

    /// Host: checks the guest's [`Proof`] body.
    ///
    /// # Errors
    /// [`HandshakeError::Frame`] or [`HandshakeError::Proof`].
    pub fn verify(&self, proof: &[u8]) -> Result<(), HandshakeError> {
        let proof: Proof = decode_body(proof).map_err(HandshakeError::Frame)?;
        if constant_time_eq::constant_time_eq_32(&proof.proof, &self.expected) {
            Ok(())
        } else {
            Err(HandshakeError::Proof { peer: "guest" })
        }
    }

    /// Guest: reads the host's [`Verdict`] body for the `hello` it sent and appends its [`Proof`] frame to `out`.
    ///
    /// # Errors
    /// [`HandshakeError::Refused`], [`HandshakeError::Version`], [`HandshakeError::Proof`] or
    /// [`HandshakeError::Frame`].
    pub fn complete(
        hello: &Hello,
        verdict: &[u8],
        secret: &Secret,
        out: &mut Vec<u8>,
    ) -> Result<Welcome, HandshakeError> {
        let welcome = match decode_body(verdict).map_err(HandshakeError::Frame)? {
            Verdict::Welcome(welcome) => welcome,
            Verdict::Refused { reason } => return Err(HandshakeError::Refused { reason }),
        };
        if !(hello.protocol_min..=hello.protocol_max).contains(&welcome.protocol) {
            return Err(HandshakeError::Version {
                guest_version: hello.guest_version.clone(),
                guest_min: hello.protocol_min,
                guest_max: hello.protocol_max,
                host_version: welcome.host_version,
                host_min: welcome.protocol,
                host_max: welcome.protocol,
            });
        }
        let expected = prove(secret, "host", welcome.protocol, &hello.nonce, &welcome.nonce);
        if !constant_time_eq::constant_time_eq_32(&welcome.proof, &expected) {
            return Err(HandshakeError::Proof { peer: "host" });
        }
        let proof = Proof { proof: prove(secret, "guest", welcome.protocol, &hello.nonce, &welcome.nonce) };
        encode_frame(&proof, out).map_err(HandshakeError::Frame)?;
        Ok(welcome)
    }
}

fn prove(secret: &Secret, role: &str, protocol: u16, guest: &[u8; 32], host: &[u8; 32]) -> [u8; 32] {
    let mut mac = blake3::Hasher::new_keyed(&secret.0);
    mac.update(b"toolcell handshake 1\0");
    mac.update(role.as_bytes());
    mac.update(&protocol.to_le_bytes());
    mac.update(guest);
    mac.update(host);
    *mac.finalize().as_bytes()
}
