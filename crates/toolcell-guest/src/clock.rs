//! The guest's two clocks, in microseconds.

use rustix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000).saturating_add(nanoseconds.div_euclid(1000))
}

/// For deadlines of calls: stands still while the machine sleeps.
pub(crate) fn now_us() -> u64 {
    read(ClockId::Monotonic)
}

/// For how long the host has been away: runs on while the machine sleeps, as leases do.
pub(crate) fn boot_us() -> u64 {
    read(ClockId::Boottime)
}
