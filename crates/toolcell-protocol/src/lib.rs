//! The language that the host and the guest speak over one byte stream.
//!
//! **Owns** frames ([`frame`]), the handshake ([`handshake`]), the messages ([`message`]) and every bound on what one
//! side may send the other ([`limits`]). **Never knows** anything else: no I/O, no other crate of the project.
//! **Read first**: [`handshake`], then [`message`].
//!
//! Both sides parse what they get as hostile. Message enums are append-only: a variant's position is its wire number.
#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::wildcard_enum_match_arm,
    clippy::arithmetic_side_effects
)]

pub mod frame;
pub mod handshake;
pub mod limits;
pub mod message;

pub use frame::{FrameDecoder, FrameError, encode_frame};
pub use handshake::{Handshake, HandshakeError, Hello, Proof, SECRET_BYTES, Secret, Verdict, Welcome};
pub use message::*;
