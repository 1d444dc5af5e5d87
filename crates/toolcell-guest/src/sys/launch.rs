//! Starting a tool process: a child that shares this process's memory until it executes the program.

use super::{check, last_errno};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ptr::{from_mut, null, null_mut};

/// Enough for the child, which calls a dozen system calls and no deep code.
const CHILD_STACK_BYTES: usize = 64 * 1024;

/// Raised for tools, so that the out-of-memory killer takes them and never the guest.
const TOOL_OOM_SCORE: &[u8] = b"500";

/// Everything the child needs, prepared while allocating is still allowed.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// What to execute: the first that exists and may be executed.
    pub(crate) candidates: &'a [CString],
    /// The program's words.
    pub(crate) argv: &'a [CString],
    /// `NAME=value` each.
    pub(crate) env: &'a [CString],
    /// Working directory.
    pub(crate) cwd: &'a CStr,
    /// Standard input, output, error.
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    /// Becomes descriptor 3: a script that is too long for an argument.
    pub(crate) script: Option<BorrowedFd<'a>>,
    /// Tool user; never 0.
    pub(crate) uid: u32,
    /// Tool group; never 0.
    pub(crate) gid: u32,
}

/// Which step of a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Making the process.
    Process,
    /// Session, descriptors, identity: never the caller's fault.
    Prepare,
    /// The working directory.
    Cwd,
    /// The program.
    Execute,
    /// The program is there, but what its first line or header names is not.
    Interpreter,
}

/// Why a start failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchError {
    /// Where.
    pub(crate) step: Step,
    /// What the kernel said.
    pub(crate) errno: Errno,
}

/// The stack for the short time between clone and exec; kept, so that its pages are warm.
pub(crate) struct ChildStack(Box<[MaybeUninit<u8>]>);

impl ChildStack {
    /// A fresh one.
    pub(crate) fn new() -> Self {
        Self(Box::new_uninit_slice(CHILD_STACK_BYTES))
    }
}

/// What the child gets: raw pointers into the parent's memory, which stays as it is while the parent is suspended.
struct Child {
    candidates: *const *const libc::c_char,
    argv: *const *const libc::c_char,
    env: *const *const libc::c_char,
    cwd: *const libc::c_char,
    stdio: [libc::c_int; 3],
    script: libc::c_int,
    uid: u32,
    gid: u32,
    failure: Option<(Step, i32)>,
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([null()]).collect()
}

/// Starts a program as the tool user, in a session of its own, with nothing but descriptors 0 to 2 (and 3 for a
/// script), no capabilities, no signal blocked or ignored. Returns its process number.
pub(crate) fn launch(stack: &mut ChildStack, launch: &Launch<'_>) -> Result<i32, LaunchError> {
    let prepare = |errno| LaunchError { step: Step::Prepare, errno };
    if launch.uid == 0 || launch.gid == 0 || launch.uid == u32::MAX || launch.gid == u32::MAX {
        return Err(prepare(Errno::PERM));
    }
    let (candidates, argv, env) = (pointers(launch.candidates), pointers(launch.argv), pointers(launch.env));
    let mut child = Child {
        candidates: candidates.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        cwd: launch.cwd.as_ptr(),
        stdio: launch.stdio.map(|fd| fd.as_raw_fd()),
        script: launch.script.map_or(-1, |fd| fd.as_raw_fd()),
        uid: launch.uid,
        gid: launch.gid,
        failure: None,
    };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: CLONE_VFORK suspends this thread until the child has executed a program or ended, and this process has
    // no other thread (it is a keeper), so nobody else touches the memory that the child uses: `child`, the strings
    // behind it and the stack, all of which live until the call returns. The stack pointer is the end of the
    // allocation, aligned by masking. The child only makes system calls; every signal is blocked, so no handler runs
    // in it, and it leaves through `execve` or `_exit`.
    let pid = unsafe {
        let top = stack.0.as_mut_ptr_range().end;
        let top = top.map_addr(|address| address & !63);
        libc::clone(run_child, top.cast(), flags, from_mut(&mut child).cast())
    };
    let pid = check(pid).map_err(|errno| LaunchError { step: Step::Process, errno })?;
    // SAFETY: the child has written it, if at all, before this thread went on; the compiler must not assume `None`.
    let failure = unsafe { (&raw const child.failure).read_volatile() };
    match failure {
        None => Ok(pid),
        Some((step, errno)) => {
            let mut status = 0;
            // SAFETY: reaps the child that has just ended; the pointer is to a local.
            unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
            Err(LaunchError { step, errno: Errno::from_raw_os_error(errno) })
        }
    }
}

/// The child's whole life before the program.
extern "C" fn run_child(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `launch` passed a pointer to its `Child`, which outlives this process's use of that memory.
    let child = unsafe { &mut *argument.cast::<Child>() };
    // SAFETY: only this process runs with this memory now, and the pointers are those that `launch` made.
    let failure = unsafe { start(child) };
    // SAFETY: as above; volatile because the reader is another process's code.
    unsafe {
        (&raw mut child.failure).write_volatile(Some(failure));
        libc::_exit(127)
    }
}

/// Returns only when a step failed.
///
/// # Safety
/// To be called only in the child of [`launch`], with its `Child`.
unsafe fn start(child: &Child) -> (Step, i32) {
    // SAFETY: plain system calls on numbers, and on strings and arrays that `launch` keeps alive. The C wrappers that
    // would involve other threads (`setuid` and its kin) are avoided: the raw calls change just this process.
    unsafe {
        let fail = |step| (step, last_errno().raw_os_error());
        if libc::setsid() < 0 {
            return fail(Step::Prepare);
        }
        let score = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if score >= 0 {
            // Where the engine gave us a higher score already, lowering it is refused, and nothing is lost.
            libc::write(score, TOOL_OOM_SCORE.as_ptr().cast(), TOOL_OOM_SCORE.len());
            libc::close(score);
        }
        for (target, source) in (0..).zip(child.stdio) {
            if libc::dup2(source, target) < 0 {
                return fail(Step::Prepare);
            }
        }
        let mut first_closed: libc::c_uint = 3;
        if child.script >= 0 {
            let moved = if child.script == 3 { libc::fcntl(3, libc::F_SETFD, 0) } else { libc::dup2(child.script, 3) };
            if moved < 0 {
                return fail(Step::Prepare);
            }
            first_closed = 4;
        }
        // Every descriptor of the guest is close-on-exec; this is the second lock, and a kernel without the call has
        // the first one.
        libc::syscall(libc::SYS_close_range, first_closed, libc::c_uint::MAX, 0);
        if libc::syscall(libc::SYS_setgroups, 0, null::<libc::gid_t>()) < 0
            || libc::syscall(libc::SYS_setresgid, child.gid, child.gid, child.gid) < 0
            || libc::syscall(libc::SYS_setresuid, child.uid, child.uid, child.uid) < 0
        {
            return fail(Step::Prepare);
        }
        if libc::chdir(child.cwd) < 0 {
            return fail(Step::Cwd);
        }
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        if libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), null_mut()) < 0 {
            return fail(Step::Prepare);
        }
        execute(child)
    }
}

/// Tries the candidates. Like a shell: a missing one is skipped, a forbidden one is remembered.
///
/// # Safety
/// As [`start`].
unsafe fn execute(child: &Child) -> (Step, i32) {
    let mut result = (Step::Execute, libc::ENOENT);
    let mut candidate = child.candidates;
    // SAFETY: the array ends with a null pointer, and all its strings live in the suspended parent.
    unsafe {
        while !(*candidate).is_null() {
            libc::execve(*candidate, child.argv, child.env);
            let errno = last_errno().raw_os_error();
            match errno {
                libc::ENOENT if libc::faccessat(libc::AT_FDCWD, *candidate, libc::F_OK, 0) == 0 => {
                    return (Step::Interpreter, errno);
                }
                libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP => {}
                libc::EACCES => result = (Step::Execute, errno),
                _ => return (Step::Execute, errno),
            }
            candidate = candidate.add(1);
        }
    }
    result
}
