//! The shape of the repository: what a reviewer would have to look for each time, checked by a machine.
//!
//! Needs no Docker. **Read first**: [`edges`], then [`config`].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed unwrap, expectation or assertion is the test's failure"
)]

mod config;
mod docs;
mod edges;
mod examples;
mod keys;
mod sources;
mod tree;
