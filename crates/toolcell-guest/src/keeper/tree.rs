//! Which processes descend from this one, and how to end them all.

use crate::sys::process;
use rustix::fs::{Mode, OFlags, RawDir};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;

/// Most scans in one round of stopping. A fork bomb is frozen in three or four: a process that has been sent a signal
/// cannot finish a fork before it has taken it.
const MOST_FREEZE_SCANS: usize = 64;

/// A process of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    ended: bool,
    stopped: bool,
}

/// `pid (any bytes) state parent …`
fn parse_stat(stat: &[u8]) -> Option<Process> {
    let open = stat.iter().position(|byte| *byte == b' ')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse().ok();
    let mut fields = stat.get(close..)?.split(|byte| *byte == b' ').skip(1);
    let state = fields.next()?;
    Some(Process {
        pid: number(stat.get(..open)?)?,
        parent: number(fields.next()?)?,
        ended: matches!(state, b"Z" | b"X" | b"x"),
        stopped: matches!(state, b"T" | b"t"),
    })
}

/// Every process that `/proc` shows.
fn all_processes() -> Vec<Process> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(proc) = rustix::fs::open(c"/proc", flags, Mode::empty()) else { return Vec::new() };
    let mut found = Vec::new();
    let mut names = [MaybeUninit::uninit(); 4096];
    let mut stat = [0u8; 512];
    let mut directory = RawDir::new(&proc, &mut names);
    while let Some(Ok(entry)) = directory.next() {
        let name = entry.file_name().to_bytes();
        if !name.first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        let mut path = name.to_vec();
        path.extend_from_slice(b"/stat");
        // A process that is gone by now is no concern of ours.
        let Ok(file) = rustix::fs::openat(&proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
            continue;
        };
        let Ok(read) = rustix::io::read(&file, &mut stat) else { continue };
        found.extend(stat.get(..read).and_then(parse_stat));
    }
    found
}

/// The living ones among `processes` that descend from `ancestor`, but not from or through `excluded`.
fn select_descendants(processes: &[Process], ancestor: i32, excluded: &[i32]) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
    for process in processes.iter().filter(|process| !excluded.contains(&process.pid)) {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut next = vec![ancestor];
    while let Some(parent) = next.pop() {
        // Removing it as it is visited bounds the walk even if the list is inconsistent.
        for process in children.remove(&parent).unwrap_or_default() {
            if !process.ended {
                found.push(process.pid);
            }
            next.push(process.pid);
        }
    }
    found
}

/// The living processes that descend from `ancestor`, but not from or through `excluded`.
pub(crate) fn descendants(ancestor: i32, excluded: &[i32]) -> Vec<i32> {
    select_descendants(&all_processes(), ancestor, excluded)
}

/// Processes that were stopped, and will be let go again.
#[derive(Debug, Default)]
pub(crate) struct Frozen {
    /// By number; false: it stood still before, and is left so.
    seen: BTreeMap<i32, bool>,
}

impl Frozen {
    /// Stops every descendant but the keepers, whose children are tools. True if nobody new was found and everybody
    /// stands still.
    pub(crate) fn round(&mut self, ancestor: i32, keepers: &[i32]) -> bool {
        let processes = all_processes();
        let tools: BTreeSet<i32> = select_descendants(&processes, ancestor, &[]).into_iter().collect();
        let mut still = true;
        for process in
            processes.iter().filter(|process| tools.contains(&process.pid) && !keepers.contains(&process.pid))
        {
            if let std::collections::btree_map::Entry::Vacant(vacant) = self.seen.entry(process.pid) {
                vacant.insert(!process.stopped);
                if !process.stopped {
                    process::signal(process.pid, libc::SIGSTOP);
                    still = false;
                }
            } else if !process.stopped {
                // It had not taken the signal yet, or somebody has let it go on.
                process::signal(process.pid, libc::SIGSTOP);
                still = false;
            }
        }
        still
    }

    /// How many were stopped.
    pub(crate) fn count(&self) -> usize {
        self.seen.values().filter(|stopped| **stopped).count()
    }

    /// Lets go of whoever was stopped here.
    pub(crate) fn thaw(&mut self) {
        // Children before parents: a shell that waits must not find a child that still stands.
        for (pid, stopped) in std::mem::take(&mut self.seen).into_iter().rev() {
            if stopped {
                process::signal(pid, libc::SIGCONT);
            }
        }
    }
}

/// Asks every descendant to end. Returns whom.
pub(crate) fn terminate(ancestor: i32) -> Vec<i32> {
    let found = descendants(ancestor, &[]);
    for pid in &found {
        process::signal(*pid, libc::SIGTERM);
        // A stopped process would not see it.
        process::signal(*pid, libc::SIGCONT);
    }
    found
}

/// Freezes the tree until no scan finds anybody new, then kills all of it. Returns whom.
pub(crate) fn kill(ancestor: i32) -> Vec<i32> {
    let mut frozen = std::collections::BTreeSet::new();
    for _ in 0..MOST_FREEZE_SCANS {
        let mut grew = false;
        for pid in descendants(ancestor, &[]) {
            if frozen.insert(pid) {
                process::signal(pid, libc::SIGSTOP);
                grew = true;
            }
        }
        if !grew {
            break;
        }
    }
    for pid in &frozen {
        process::signal(*pid, libc::SIGKILL);
    }
    frozen.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_cannot_forge_its_parent() {
        let process = parse_stat(b"42 (a) R 1 (b)) S 7 42 42 0 -1").unwrap();
        assert_eq!(process, Process { pid: 42, parent: 7, ended: false, stopped: false });
        assert!(parse_stat(b"43 (x) Z 7 43").unwrap().ended);
        for broken in [&b""[..], b"42", b"42 (x", b"42 (x) S", b"(x) S 1", b"42 (x) S y"] {
            assert_eq!(parse_stat(broken), None);
        }
    }

    #[test]
    fn descendants_are_found_through_the_dead_and_loops_end() {
        let process = |pid, parent, ended| Process { pid, parent, ended, stopped: false };
        let list = [
            process(10, 1, false),
            process(11, 10, true),
            process(12, 11, false),
            process(13, 12, false),
            process(20, 1, false),
            process(30, 31, false),
            process(31, 30, false),
        ];
        let mut found = select_descendants(&list, 10, &[]);
        found.sort_unstable();
        assert_eq!(found, [12, 13]);
        let mut looped = select_descendants(&list, 30, &[]);
        looped.sort_unstable();
        assert_eq!(looped, [30, 31]);
        assert_eq!(select_descendants(&list, 1, &[10]), [20]);
    }
}
