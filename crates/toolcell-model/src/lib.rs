//! What every Toolcell crate agrees on.
//!
//! **Owns** identifiers, [`ScopeKey`], [`FencingToken`], the shapes of tool calls and their results, and the
//! [`Clock`]. **Never knows** I/O or async. **Read first**: [`scope`], then [`call`].
//!
//! Identifiers are parsed once, at the edge; a value of one of these types is valid by construction.

pub mod call;
pub mod clock;
pub mod ids;
pub mod retry;
pub mod scope;
pub mod token;

pub use call::{
    CallContext, CallFault, CallOutcome, CallState, Durable, Ran, RuntimeFault, SlotReport, TimingMs, ToolCall,
};
pub use clock::{Clock, SystemClock, UnixMillis};
pub use ids::{
    AgentName, BatchId, CallId, CallRef, IdError, InstanceId, SessionId, TenantId, ToolName, UserId, WorkspaceName,
};
pub use retry::Retry;
pub use scope::{Identity, IsolationScope, Owner, ScopeKey, ScopeTuple, SlotChoice};
pub use token::{Acquisition, CommitId, FencingToken, Generation, SnapshotId};
