//! A clock that stands still.

use std::time::Instant;
use toolcell_model::{Clock, SystemClock, UnixMillis};

/// Wall time that does not move, and real monotonic time.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock(pub UnixMillis);

impl FixedClock {
    /// Far ahead of every file's times: nothing counts as changed just now.
    #[must_use]
    pub fn far_ahead() -> Self {
        Self(UnixMillis(u64::MAX))
    }

    /// Behind every file's times: everything counts as changed just now.
    #[must_use]
    pub fn behind() -> Self {
        Self(UnixMillis(0))
    }
}

impl Clock for FixedClock {
    fn now(&self) -> UnixMillis {
        self.0
    }

    fn monotonic(&self) -> Instant {
        SystemClock.monotonic()
    }
}
