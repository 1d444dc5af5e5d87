//! Processes: fork, wait, end.

use super::{check, last_errno};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Copies this process. In the copy `discard` frees what it shall not hold, then every descriptor but the standard
/// ones and `kept` is closed, and `child` runs. Returns the copy's number.
///
/// The copy may allocate (glibc makes its allocator usable there), but must not wait for a lock that another thread
/// of this process may hold; `child` must neither use nor drop an owner of any other descriptor.
pub(crate) fn fork(kept: OwnedFd, discard: impl FnOnce(), child: impl FnOnce(OwnedFd)) -> Result<i32, Errno> {
    // SAFETY: the copy has only this thread. What it must not do is in the documentation; it never returns into the
    // code of this process, so no owner of a closed descriptor is dropped there.
    unsafe {
        match check(libc::fork())? {
            0 => {
                discard();
                close_all_but(&kept);
                child(kept);
                libc::_exit(0)
            }
            pid => Ok(pid),
        }
    }
}

/// Closes every descriptor but the standard ones and `kept`.
///
/// # Safety
/// No owner of one of the closed descriptors may be used or dropped afterwards.
unsafe fn close_all_but(kept: &OwnedFd) {
    let kept = kept.as_raw_fd();
    for (first, last) in [(3, kept.saturating_sub(1)), (kept.saturating_add(1), libc::c_int::MAX)] {
        if first > last {
            continue;
        }
        // SAFETY: closes numbers that nobody uses any more (the caller's promise).
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
            continue;
        }
        // A kernel without the call: one by one, as far as the limit lets them exist.
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(65_536);
        for number in first..=last.min(libc::c_int::try_from(most).unwrap_or(last)) {
            // SAFETY: as above.
            unsafe { libc::close(number) };
        }
    }
}

/// Makes the allocator give large buffers back to the kernel when they are freed, and share its heap between threads,
/// so that a guest that has moved much data is small again afterwards.
pub(crate) fn keep_memory_small() {
    const LARGE_BYTES: libc::c_int = 128 * 1024;
    // SAFETY: only changes how the allocator behaves; to be called before other threads exist, as the manual asks. A
    // refusal changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_ARENA_MAX, 2);
    }
}

/// A child that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    /// Its number.
    pub(crate) pid: i32,
    /// Exit code, if it exited.
    pub(crate) exit_code: Option<i32>,
    /// Signal, if one ended it.
    pub(crate) signal: Option<i32>,
    /// CPU time in user mode, of it and the children it waited for.
    pub(crate) user_us: u64,
    /// CPU time in the kernel.
    pub(crate) system_us: u64,
    /// Largest resident set.
    pub(crate) max_rss_kib: u64,
}

/// What waiting found.
pub(crate) enum Wait {
    /// A child has ended and is gone now.
    Ended(Ended),
    /// There are children, and none has ended.
    Running,
    /// There is no child.
    NoChild,
}

fn microseconds(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000).saturating_add(u64::try_from(time.tv_usec).unwrap_or(0))
}

/// Takes one ended child, if there is one; never waits.
pub(crate) fn reap_one() -> Wait {
    let mut status = 0;
    // SAFETY: `rusage` is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to locals that live until the call returns.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG | libc::__WALL, &raw mut usage) };
        match pid {
            0 => return Wait::Running,
            pid if pid > 0 => {
                return Wait::Ended(Ended {
                    pid,
                    exit_code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
                    signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
                    user_us: microseconds(usage.ru_utime),
                    system_us: microseconds(usage.ru_stime),
                    max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
                });
            }
            _ if last_errno() == Errno::INTR => {}
            _ => return Wait::NoChild,
        }
    }
}

/// Sends a signal to one process. Numbers below 2 are refused: they would mean groups, everybody, or PID 1.
pub(crate) fn signal(pid: i32, signal: i32) {
    if pid > 1 {
        // SAFETY: has no preconditions; a process that is gone is no error here.
        unsafe { libc::kill(pid, signal) };
    }
}
