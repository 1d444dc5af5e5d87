//! Decides on arbitrary calls of `execute`, in both dialects: no input panics, and no analysis outgrows its bound.
//!
//! The input: one byte for what the call is, then its parts, each ended by a NUL byte. `cargo fuzz run decide` in this
//! crate's parent directory; `RUSTC_BOOTSTRAP=1` makes it run with a stable toolchain.
#![no_main]
#![allow(dead_code, reason = "the tests use more of the shared modules")]

#[path = "../../tests/corpus/bounds.rs"]
mod bounds;
#[path = "../../tests/corpus/call.rs"]
mod call;

use call::{Call, Program};
use libfuzzer_sys::fuzz_target;

/// Of the first byte: there is text for standard input, words instead of text, a variable.
const STDIN: u8 = 1;
const ARGV: u8 = 2;
const ENV: u8 = 4;

fuzz_target!(|data: &[u8]| {
    let Some((what, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    if what & (STDIN | ARGV | ENV) == 0 {
        // The commonest call: all of it is the shell's, NUL bytes as well.
        return bounds::check_bounds(&Call::shell(&text));
    }
    let mut parts = text.split('\0').map(str::to_owned);
    let mut next = |flag| if what & flag == 0 { None } else { parts.next() };
    let (stdin, variable) = (next(STDIN), next(ENV));
    let program = if what & ARGV == 0 {
        Program::Shell(parts.next().unwrap_or_default())
    } else {
        Program::Argv(parts.collect())
    };
    let mut call = Call::of(program);
    call.stdin = stdin;
    call.env = variable.into_iter().collect();
    bounds::check_bounds(&call);
});
