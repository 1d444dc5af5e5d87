//! The composer of Toolcell: validate → decide → slot → run → snapshot → record.
//!
//! **Owns** the configuration ([`config`]), the life of a call and of a slot, recovery after a crash, and shutdown.
//! **Never knows** wire formats. **Read first**: [`Runtime`], then `call`, then `slot::acquire`.
//!
//! No tool runs but through `call`, which has a permit to show; no slot becomes resident but through
//! `slot::acquire`, which has stamped the head; no residency ends but through `slot::stop`, which has saved it.

mod activity;
mod agent;
mod batch;
mod bounded_store;
mod call;
pub mod config;
mod doctor;
mod error;
mod explain;
mod inner;
mod operate;
mod output;
mod recover;
mod session;
mod slot;
mod start;
mod workspace;

pub use activity::Activity;
pub use batch::{Batch, BatchRequest};
pub use call::LiveOutput;
pub use config::Config;
pub use doctor::{Finding, examine};
pub use error::{StartError, SubmitError, chain};
pub use explain::{ExplainError, Explanation, Hypothesis, RecordedCases};
pub use operate::{HeadView, HolderView, OperateError, Residence, SlotFault, SlotIdentity, SlotView};
pub use output::{MAX_OUTPUT_PAGE_BYTES, MAX_STREAM_BYTES, OutputPage};
pub use session::{SessionChange, SessionError, SessionPermissions, SessionRules};
pub use start::{Role, Runtime};
pub use toolcell_permission::cases::{CaseAnswer, CaseError};
pub use toolcell_permission::path::misleads;
pub use toolcell_permission::{Behavior, Decision, Mode};
pub use toolcell_protocol::Stream;
pub use toolcell_sandbox::{Engine, SandboxError};
pub use toolcell_snapshot::{
    ArchiveFormat, GcReceipt, Phase, Problem as SnapshotProblem, Progress, SnapshotInfo, VerifyReport,
};
pub use toolcell_state::{BatchRecord, CallFilter, CallRecord, Cursor, Page, SessionKey, StateError};
