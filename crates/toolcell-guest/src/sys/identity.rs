//! Capabilities, the bounding set, and the file identity of single threads.

use super::check;
use rustix::io::Errno;

/// `CAP_CHOWN`, `CAP_DAC_OVERRIDE`, `CAP_KILL`, `CAP_SETGID`, `CAP_SETUID`: all that the guest ever uses.
pub(crate) const KEPT_CAPABILITIES: u64 = (1 << 0) | (1 << 1) | (1 << 5) | (1 << 6) | (1 << 7);

/// Whether `capability` is in the bounding set; `None` beyond the last one that the kernel knows.
fn in_bounding_set(capability: u8) -> Option<bool> {
    // SAFETY: reads one bit of the calling thread; no memory is passed.
    let value = unsafe { libc::prctl(libc::PR_CAPBSET_READ, libc::c_ulong::from(capability), 0, 0, 0) };
    check(value).ok().map(|value| value != 0)
}

/// Takes every capability but [`KEPT_CAPABILITIES`] out of the bounding set.
pub(crate) fn narrow_bounding_set() -> Result<(), Errno> {
    for capability in 0..64u8 {
        let Some(present) = in_bounding_set(capability) else { break };
        if present && KEPT_CAPABILITIES & (1u64 << u32::from(capability)) == 0 {
            // SAFETY: drops one bit of the calling thread; no memory is passed.
            let value = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) };
            check(value)?;
        }
    }
    Ok(())
}

/// From now on this thread's file operations are done as `uid` and `gid`.
///
/// With any uid but 0 the kernel also takes the file capabilities out of the thread's effective set, and gives them
/// back with uid 0. Returns whether the change took place.
pub(crate) fn set_file_identity(uid: u32, gid: u32) -> bool {
    // SAFETY: both only change the calling thread's credentials. They return the previous id and no error, so the
    // second call with an impossible id reads back what is in force.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
        u32::try_from(libc::setfsgid(u32::MAX)) == Ok(gid) && u32::try_from(libc::setfsuid(u32::MAX)) == Ok(uid)
    }
}
