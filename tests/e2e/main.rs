//! The program from end to end: the real `toolcell` against a real container engine.
//!
//! Each test has a [`support::Cell`]: a data directory, a configuration and a server of its own. Its
//! [`finish`](support::Cell::finish) stops the server and asserts that no container, socket, workspace or temporary
//! file of it is left; a test that forgets it fails. Without an engine these tests are skipped, and fail where `CI` or
//! `TOOLCELL_REQUIRE_DOCKER` is set. **Read first**: [`support`], then [`story`].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed unwrap, expectation or assertion is the test's failure"
)]
#![allow(clippy::print_stderr, reason = "a skip, and what a failed test's server had logged, are for whoever reads on")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests of a whole program read the environment and the clock of the machine, as it does"
)]

mod bad_input;
mod cli;
mod commands;
mod copies;
mod durability;
mod exec;
mod faults;
mod fidelity;
mod hardening;
mod hostile;
mod http_face;
mod images;
mod permissions;
mod quiesce;
mod recovery;
mod scopes;
mod shell_programs;
mod slots;
mod snapshot_size;
mod snapshots;
mod store_failure;
mod stores;
mod story;
mod support;
mod workspace;
