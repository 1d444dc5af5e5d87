//! From what the guest reported to the outcome of a call.

pub use crate::execute::{ExecuteEnd, StreamCapture, output as execute};
pub use crate::list_files::{ListedEntry, ListedKind, output as list_files};
pub use crate::read_file::{FileContent, output as read_file};
pub use crate::write_file::{WrittenFile, output as write_file};

use serde_json::Value;
use toolcell_model::{CallFault, CallOutcome, CallState};

/// Most bytes of one stream, of a file's content or of a listing's entries that a result holds itself; of more it
/// holds a part and says so.
pub const INLINE_BYTES: usize = 1024 * 1024;

pub(crate) fn succeeded(output: Value) -> CallOutcome {
    CallOutcome { state: CallState::Succeeded, output: Some(output), error: None, fault: None }
}

pub(crate) fn failed(error: CallFault) -> CallOutcome {
    CallOutcome { state: CallState::Failed, output: None, error: Some(error), fault: None }
}
