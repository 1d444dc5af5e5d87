//! How often the kernel has killed a process of this container for lack of memory.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};

/// cgroup v2, and v1. Inside the container both show the container's own group.
const FILES: [&std::ffi::CStr; 2] = [c"/sys/fs/cgroup/memory.events", c"/sys/fs/cgroup/memory/memory.oom_control"];

/// The counter. The file stays open, so that a look costs one system call.
#[derive(Debug)]
pub(crate) struct OomCounter(Option<OwnedFd>);

impl OomCounter {
    /// Finds the counter; without one, no call is ever reported as killed for lack of memory.
    pub(crate) fn open() -> Self {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Self(FILES.iter().find_map(|file| open(*file, flags, Mode::empty()).ok()))
    }

    /// Kills so far.
    pub(crate) fn read(&self) -> u64 {
        let Some(file) = &self.0 else { return 0 };
        let mut text = [0u8; 1024];
        let read = rustix::io::pread(file, &mut text, 0).unwrap_or(0);
        parse(text.get(..read).unwrap_or_default()).unwrap_or(0)
    }
}

/// The number behind `oom_kill`, which both versions of the file have on a line of its own.
fn parse(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_understood() {
        assert_eq!(parse(b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(parse(b"low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n"), Some(1));
        assert_eq!(parse(b"low 0\n"), None);
        assert_eq!(parse(b"\xff"), None);
    }
}
