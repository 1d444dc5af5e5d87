//! What PID 1 and a keeper say to each other, over a socket pair that nobody else holds.

use serde::{Deserialize, Serialize};
use toolcell_protocol::{ExecSpec, GuestError};

/// Why a tree is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// Its deadline has passed.
    TimedOut,
    /// The host asked.
    Cancelled,
    /// It wrote more than it may.
    OutputLimited,
}

/// PID 1 to keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToKeeper {
    /// Run this. Standard input, output and error come along as descriptors.
    Run {
        /// What to run.
        spec: ExecSpec,
        /// The image's shell.
        shell: Option<String>,
    },
    /// End the whole tree: TERM, one second, KILL.
    Stop(Cause),
    /// The main process has ended and its output is quiet: end what it left behind.
    EndRest,
}

/// Keeper to PID 1.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromKeeper {
    /// The program could not be started. The keeper is free again.
    Failed(GuestError),
    /// The main process has ended and others of its tree still live. What is known so far.
    MainEnded(Done),
    /// The tree is gone. The keeper is free again.
    Done(Done),
}

/// How a tree ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    /// Exit code of the main process.
    pub(crate) exit_code: Option<i32>,
    /// Signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Why the main process was stopped, if it was.
    pub(crate) cause: Option<Cause>,
    /// Processes that outlived the main one and were ended.
    pub(crate) left_behind: u32,
    /// From the start to the main process's end.
    pub(crate) wall_us: u64,
    /// CPU time of the tree in user mode.
    pub(crate) user_us: u64,
    /// CPU time of the tree in the kernel.
    pub(crate) system_us: u64,
    /// Largest resident set of one process.
    pub(crate) max_rss_kib: u64,
}
