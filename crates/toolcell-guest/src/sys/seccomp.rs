//! A small filter on top of the engine's: `io_uring` and `userfaultfd` do not exist here.

use super::check;
use rustix::io::Errno;

const ARCH_X86_64: u32 = 0xC000_003E;
const ARCH_I386: u32 = 0x4000_0003;
const ARCH_AARCH64: u32 = 0xC000_00B7;
const ARCH_ARM: u32 = 0x4000_0028;
/// Set in the number of a system call that comes through the x32 table.
const X32_BIT: u32 = 0x4000_0000;

const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
const ALLOW: u32 = 0x7FFF_0000;
const NUMBER_OFFSET: u32 = 0;
const ARCH_OFFSET: u32 = 4;

/// `io_uring_setup`, `_enter` and `_register` have these numbers on every architecture.
const IO_URING_FIRST: u32 = 425;
const IO_URING_END: u32 = 428;

const fn step(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

const fn branch(code: u16, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt: yes, jf: no, k }
}

/// The filter. Jumps count instructions from the next one on; the tests run it.
fn program() -> [libc::sock_filter; 19] {
    #[allow(clippy::cast_sign_loss, reason = "ENOSYS is a small positive number")]
    let refuse = 0x0005_0000 | libc::ENOSYS as u32;
    [
        step(LOAD_WORD, ARCH_OFFSET),
        branch(JUMP_EQUAL, ARCH_X86_64, 4, 0),
        branch(JUMP_EQUAL, ARCH_AARCH64, 6, 0),
        branch(JUMP_EQUAL, ARCH_I386, 7, 0),
        branch(JUMP_EQUAL, ARCH_ARM, 8, 0),
        // A foreign architecture has no business in this container.
        step(RETURN, refuse),
        // userfaultfd on x86_64, and on x32 through it
        step(LOAD_WORD, NUMBER_OFFSET),
        step(AND, !X32_BIT),
        branch(JUMP_EQUAL, 323, 9, 6),
        // userfaultfd on aarch64
        step(LOAD_WORD, NUMBER_OFFSET),
        branch(JUMP_EQUAL, 282, 7, 4),
        // userfaultfd on i386
        step(LOAD_WORD, NUMBER_OFFSET),
        branch(JUMP_EQUAL, 374, 5, 2),
        // userfaultfd on arm
        step(LOAD_WORD, NUMBER_OFFSET),
        branch(JUMP_EQUAL, 388, 3, 0),
        // io_uring everywhere
        branch(JUMP_AT_LEAST, IO_URING_END, 1, 0),
        branch(JUMP_AT_LEAST, IO_URING_FIRST, 1, 0),
        step(RETURN, ALLOW),
        step(RETURN, refuse),
    ]
}

/// Installs the filter for this thread and all that come from it. Needs `no_new_privs`.
pub(crate) fn install() -> Result<(), Errno> {
    let mut program = program();
    let length = libc::c_ushort::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let description = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: the description and the program it points to live until the call returns; the kernel copies both.
    let value =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, std::ptr::from_ref(&description)) };
    check(value).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel would.
    fn verdict(arch: u32, number: u32) -> u32 {
        let program = program();
        let (mut at, mut accumulator) = (0usize, 0u32);
        loop {
            let instruction = program.get(at).copied().unwrap();
            at = at.checked_add(1).unwrap();
            let mut jump = |taken: bool| {
                at = at.checked_add(usize::from(if taken { instruction.jt } else { instruction.jf })).unwrap();
            };
            match instruction.code {
                LOAD_WORD => accumulator = if instruction.k == ARCH_OFFSET { arch } else { number },
                AND => accumulator &= instruction.k,
                JUMP_EQUAL => jump(accumulator == instruction.k),
                JUMP_AT_LEAST => jump(accumulator >= instruction.k),
                RETURN => return instruction.k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    #[test]
    fn refuses_exactly_io_uring_and_userfaultfd() {
        let refused = 0x0005_0000 | u32::try_from(libc::ENOSYS).unwrap();
        for (arch, userfaultfd) in [(ARCH_X86_64, 323), (ARCH_AARCH64, 282), (ARCH_I386, 374), (ARCH_ARM, 388)] {
            for number in 0..600 {
                let expected = if number == userfaultfd || (425..428).contains(&number) { refused } else { ALLOW };
                assert_eq!(verdict(arch, number), expected, "call {number} on {arch:#x}");
            }
        }
        for number in [323, 425, 426, 427] {
            assert_eq!(verdict(ARCH_X86_64, number | X32_BIT), refused, "x32 call {number}");
        }
        assert_eq!(verdict(ARCH_X86_64, 1 | X32_BIT), ALLOW);
        assert_eq!(verdict(0xC000_00F3, 1), refused, "an architecture that cannot be here");
    }
}
