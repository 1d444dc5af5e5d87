//! Dispositions and masks of signals.

use super::check;
use rustix::event::PollFd;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;
use std::mem::MaybeUninit;

/// Highest signal number of Linux.
const LAST_SIGNAL: libc::c_int = 64;

/// Does nothing; it is there so that a signal interrupts `ppoll`.
extern "C" fn wake(_signal: libc::c_int) {}

fn full_set() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the whole set.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set, `sigaddset` sets bits of it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Puts every signal back to its default, whatever this process inherited or its runtime installed.
pub(crate) fn reset_dispositions() {
    // The kernel's own structure, which is nowhere longer than this: all zero means "default, nothing else".
    let default = [0u64; 4];
    const SET_BYTES: usize = 8;
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: the kernel reads the structure, which lives until the call returns; the default disposition runs no
        // code of ours. The raw call, because the C library keeps two signals to itself, and an engine may have left
        // them ignored. Signals that cannot be changed give an error that does not matter.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null_mut::<u64>(), SET_BYTES)
        };
    }
}

/// Blocks every signal for this thread and the threads and processes that it makes.
pub(crate) fn block_all() -> Result<(), Errno> {
    let set = full_set();
    // SAFETY: the set is initialised and only read.
    check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) }).map(|_| ())
}

/// A descriptor that becomes readable when one of `signals` is pending. They must be blocked.
pub(crate) fn descriptor(signals: &[libc::c_int]) -> Result<OwnedFd, Errno> {
    let set = set_of(signals);
    // SAFETY: the set is initialised and only read.
    let fd = check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })?;
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The next pending signal of a [`descriptor`], if any.
pub(crate) fn next(descriptor: &OwnedFd) -> Option<libc::c_int> {
    let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::read(descriptor, &mut buffer).ok()?;
    if read != buffer.len() {
        return None;
    }
    // The number is the first field of the structure.
    buffer.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes)).and_then(|number| i32::try_from(number).ok())
}

/// Lets `SIGCHLD` interrupt [`poll_or_child`].
pub(crate) fn wake_on_child() -> Result<(), Errno> {
    let action = libc::sigaction {
        sa_sigaction: wake as extern "C" fn(libc::c_int) as libc::sighandler_t,
        sa_mask: set_of(&[]),
        sa_flags: 0,
        sa_restorer: None,
    };
    // SAFETY: the handler touches nothing, so it is safe at any point of the program.
    check(unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut()) }).map(|_| ())
}

/// Waits until a descriptor is ready, a child has changed or the time is over. `SIGCHLD` must be blocked outside of
/// this call, so that none is missed.
pub(crate) fn poll_or_child(descriptors: &mut [PollFd<'_>], timeout_us: Option<u64>) {
    let mut set = full_set();
    let timeout = timeout_us.map(|us| libc::timespec {
        tv_sec: i64::try_from(us.div_euclid(1_000_000)).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(us.rem_euclid(1_000_000).saturating_mul(1000)).unwrap_or(0),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let count = libc::nfds_t::try_from(descriptors.len()).unwrap_or(0);
    // SAFETY: `PollFd` has the layout of `struct pollfd` (rustix promises it), and the slice, the set and the timeout
    // live until the call returns. An error (an interruption) is answered by looking again.
    unsafe {
        libc::sigdelset(&raw mut set, libc::SIGCHLD);
        libc::ppoll(descriptors.as_mut_ptr().cast(), count, timeout, &raw const set);
    }
}
