//! The real binary as PID 1 of namespaces of its own, spoken to by a small host.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap is the test's failure")]
#![allow(clippy::disallowed_methods, reason = "these tests measure how long real processes take")]

mod confinement;
mod exec;
mod files;
mod link;
mod quiet;
mod snapshot;
#[path = "../support/mod.rs"]
mod support;
mod tree;

use std::path::Path;
use support::{Guest, Host, Options};

/// The binary under test.
fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_toolcell-guest"))
}

/// A guest and its host, or nothing where that is not possible.
fn start() -> Option<(Guest, Host)> {
    start_with(&Options::default())
}

fn start_with(options: &Options) -> Option<(Guest, Host)> {
    if !support::possible() {
        return None;
    }
    let guest = Guest::start(binary(), options);
    let host = guest.host();
    Some((guest, host))
}
