//! Length-prefixed frames: four bytes little-endian, then that many bytes of one message.

use crate::limits::{MAX_FRAME_BYTES, MAX_HANDSHAKE_FRAME_BYTES};
use serde::Serialize;
use serde::de::DeserializeOwned;

const LENGTH_BYTES: usize = 4;

/// Why a stream of frames ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The peer announced a frame beyond the bound, before any of it was read.
    #[error("a frame of {bytes} bytes was announced; at most {limit} are accepted")]
    TooLong {
        /// The announced length.
        bytes: usize,
        /// The bound in force.
        limit: usize,
    },
    /// The body is not a message of this protocol version.
    #[error("a frame of {bytes} bytes is not a message of this protocol: {reason}")]
    Malformed {
        /// The body's length.
        bytes: usize,
        /// What the decoder said.
        reason: String,
    },
    /// The message does not fit into a frame: a bug of the sender.
    #[error("a message of {bytes} bytes does not fit into a frame of {MAX_FRAME_BYTES}")]
    Unsendable {
        /// The encoded length.
        bytes: usize,
    },
}

/// Appends one message as a frame to `out`.
///
/// # Errors
/// [`FrameError::Unsendable`] when the message exceeds the bound; `out` is then as before.
pub fn encode_frame<M: Serialize>(message: &M, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    let encoded = postcard::to_extend(message, Appender(out));
    let body = match encoded {
        Ok(Appender(out)) => out.len().saturating_sub(start).saturating_sub(LENGTH_BYTES),
        Err(_) => usize::MAX,
    };
    let length = u32::try_from(body).ok().filter(|_| body <= MAX_FRAME_BYTES);
    match (length, out.get_mut(start..).and_then(|frame| frame.first_chunk_mut::<LENGTH_BYTES>())) {
        (Some(length), Some(prefix)) => {
            *prefix = length.to_le_bytes();
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(FrameError::Unsendable { bytes: body })
        }
    }
}

/// Lets postcard write behind what a buffer already holds.
struct Appender<'a>(&'a mut Vec<u8>);

impl Extend<u8> for Appender<'_> {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
        self.0.extend(bytes);
    }
}

/// Cuts a byte stream into frames. Holds at most one frame beyond what was fed.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    /// Start of what has not been handed out yet.
    at: usize,
    limit: usize,
}

impl Default for FrameDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameDecoder {
    /// A decoder for a peer that has not proven itself: small frames only.
    #[must_use]
    pub fn new() -> Self {
        Self { buffer: Vec::new(), at: 0, limit: MAX_HANDSHAKE_FRAME_BYTES }
    }

    /// From now on the peer is known: accept frames of full size.
    pub fn trust(&mut self) {
        self.limit = MAX_FRAME_BYTES;
    }

    /// Adds bytes as they were read from the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
        } else if self.at > MAX_FRAME_BYTES {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame's body, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] as soon as the length is known.
    pub fn next_body(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        let Some((prefix, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let bytes = u32::from_le_bytes(*prefix) as usize;
        if bytes > self.limit {
            return Err(FrameError::TooLong { bytes, limit: self.limit });
        }
        if rest.len() < bytes {
            return Ok(None);
        }
        let start = self.at.saturating_add(LENGTH_BYTES);
        let end = start.saturating_add(bytes);
        self.at = end;
        Ok(self.buffer.get(start..end))
    }

    /// The next whole message, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] or [`FrameError::Malformed`]; the stream must be closed after either.
    pub fn next_message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, FrameError> {
        self.next_body()?.map(decode_body).transpose()
    }
}

/// Decodes one frame's body, all of it.
///
/// # Errors
/// [`FrameError::Malformed`].
pub fn decode_body<M: DeserializeOwned>(body: &[u8]) -> Result<M, FrameError> {
    let malformed = |reason: String| FrameError::Malformed { bytes: body.len(), reason };
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(malformed(format!("{} bytes too many", rest.len()))),
        Err(error) => Err(malformed(error.to_string())),
    }
}
