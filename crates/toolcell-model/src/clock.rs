//! Time as the rest of the code sees it, so that tests can own it.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// From a system time; times before 1970 count as 1970.
    #[must_use]
    pub fn from_system(time: SystemTime) -> Self {
        let millis = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Self(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    /// How long `earlier` is ago; zero when it lies ahead.
    #[must_use]
    pub fn since(self, earlier: UnixMillis) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Wall time for records and a monotonic time for durations.
pub trait Clock: std::fmt::Debug + Send + Sync {
    /// Wall time.
    fn now(&self) -> UnixMillis;
    /// Monotonic time; only differences mean something.
    fn monotonic(&self) -> Instant;
}

/// The machine's own clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixMillis {
        UnixMillis::from_system(SystemTime::now())
    }

    #[allow(clippy::disallowed_methods, reason = "this is the one place")]
    fn monotonic(&self) -> Instant {
        Instant::now()
    }
}
