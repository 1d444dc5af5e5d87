//! The two messages that carry bulk data, encoded from where the data lies instead of from a copy.

use serde::Serialize;
use serde::ser::{SerializeStructVariant, Serializer};
use toolcell_protocol::Stream;
use toolcell_protocol::message::Op;

/// Bytes, as the protocol writes them.
struct Raw<'a>(&'a [u8]);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// `GuestMessage::Output`.
#[derive(Debug)]
pub(crate) struct OutputFrame<'a> {
    /// Operation.
    pub(crate) op: Op,
    /// Which stream.
    pub(crate) stream: Stream,
    /// Place of the first byte.
    pub(crate) offset: u64,
    /// The bytes.
    pub(crate) data: &'a [u8],
}

impl Serialize for OutputFrame<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct_variant("GuestMessage", 2, "Output", 4)?;
        fields.serialize_field("op", &self.op)?;
        fields.serialize_field("stream", &self.stream)?;
        fields.serialize_field("offset", &self.offset)?;
        fields.serialize_field("data", &Raw(self.data))?;
        fields.end()
    }
}

/// `GuestMessage::Data`.
#[derive(Debug)]
pub(crate) struct DataFrame<'a> {
    /// Operation.
    pub(crate) op: Op,
    /// The bytes.
    pub(crate) data: &'a [u8],
}

impl Serialize for DataFrame<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct_variant("GuestMessage", 6, "Data", 2)?;
        fields.serialize_field("op", &self.op)?;
        fields.serialize_field("data", &Raw(self.data))?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolcell_protocol::{Bytes, GuestMessage, encode_frame};

    fn frame(message: &impl Serialize) -> Vec<u8> {
        let mut frame = Vec::new();
        encode_frame(message, &mut frame).unwrap();
        frame
    }

    #[test]
    fn the_host_cannot_tell_them_from_the_protocols_own() {
        for length in [0usize, 1, 127, 128, 70_000] {
            let data = vec![0xAB; length];
            let (op, offset) = (300, 1 << 40);
            for stream in [Stream::Stdout, Stream::Stderr] {
                let message = GuestMessage::Output { op, stream, offset, data: Bytes::from(data.clone()) };
                assert_eq!(frame(&OutputFrame { op, stream, offset, data: &data }), frame(&message));
            }
            let message = GuestMessage::Data { op, data: Bytes::from(data.clone()) };
            assert_eq!(frame(&DataFrame { op, data: &data }), frame(&message));
        }
    }
}
