//! Bounds of the wire. A peer that goes beyond one is cut off: the stream cannot be trusted any more.

/// Most bytes of data in one message; longer data is sent in several.
pub const MAX_DATA_BYTES: usize = 1024 * 1024;

/// Most bytes of one frame's body: the data and what stands around it, such as an exec's environment. A longer frame
/// ends the connection.
pub const MAX_FRAME_BYTES: usize = MAX_DATA_BYTES + 1024 * 1024;

/// Most bytes of a frame before the peer has proven itself, so that a stranger costs next to nothing.
pub const MAX_HANDSHAKE_FRAME_BYTES: usize = 4096;

/// Most entries in one [`crate::GuestMessage::ScanEntries`] or [`crate::GuestMessage::Listed`].
pub const MAX_ENTRIES_PER_MESSAGE: usize = 1024;

/// Most bytes of one path (Linux's `PATH_MAX` bounds what a system call takes; deeper trees are walked step by step).
pub const MAX_PATH_BYTES: usize = 64 * 1024;

/// Unacknowledged output per stream that the guest keeps; beyond it the tool's writes wait.
pub const OUTPUT_WINDOW_BYTES: u64 = 4 * 1024 * 1024;
