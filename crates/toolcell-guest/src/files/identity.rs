//! As whom a worker touches files.

use crate::sys::identity::set_file_identity;
use rustix::io::Errno;

/// The tool user, and the way to be root for a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    uid: u32,
    gid: u32,
}

impl Identity {
    /// For this tool user.
    pub(crate) fn new((uid, gid): (u32, u32)) -> Self {
        Self { uid, gid }
    }

    /// The tool user's number.
    pub(crate) fn uid(self) -> u32 {
        self.uid
    }

    /// The tool user's group.
    pub(crate) fn gid(self) -> u32 {
        self.gid
    }

    /// From now on this thread has exactly the tool user's rights on files.
    pub(crate) fn become_tool(self) -> bool {
        set_file_identity(self.uid, self.gid)
    }

    /// Does something as root, which overrides modes, and is the tool user again afterwards.
    pub(crate) fn as_root<T, E: From<Errno>>(self, action: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if !set_file_identity(0, 0) {
            self.become_tool();
            return Err(Errno::PERM.into());
        }
        let result = action();
        if self.become_tool() { result } else { Err(Errno::PERM.into()) }
    }

    /// In the middle of [`Self::as_root`]: one thing as the tool user.
    pub(crate) fn as_tool_again<T>(self, action: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        if !self.become_tool() {
            return Err(Errno::PERM);
        }
        let result = action();
        if set_file_identity(0, 0) { result } else { Err(Errno::PERM) }
    }
}
