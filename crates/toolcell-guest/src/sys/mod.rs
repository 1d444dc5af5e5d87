//! The only unsafe code of the guest: what no safe crate offers.
//!
//! Everything here is a thin, safe wrapper: it checks what the kernel says and hands out owned values.
#![allow(unsafe_code, reason = "system calls without a safe wrapper; every block says why it is sound")]

pub(crate) mod environment;
pub(crate) mod identity;
pub(crate) mod launch;
pub(crate) mod process;
pub(crate) mod seccomp;
pub(crate) mod signals;

use rustix::io::Errno;

/// The calling thread's `errno`, as the failing C wrapper left it.
fn last_errno() -> Errno {
    // SAFETY: the pointer that glibc hands out is valid for the calling thread's whole life.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// Turns a C return value into a result.
fn check(value: libc::c_int) -> Result<libc::c_int, Errno> {
    if value < 0 { Err(last_errno()) } else { Ok(value) }
}
