//! Conformance suites and strict fakes: one behaviour, one named test, every backend.
//!
//! **Owns** the suites, each behind the feature of its crate. **Never knows** anything that ships: only tests depend
//! on it. **Read first**: the `mod.rs` of a suite, then the suite.
//!
//! A suite is a macro that makes one test per behaviour, named after the backend, such as
//! `local::tokens_strictly_increase`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "here a panic is a failed test, which is what this crate is for"
)]

#[cfg(feature = "lease")]
pub mod lease;
#[cfg(feature = "snapshot")]
pub mod snapshot;
#[cfg(feature = "state")]
pub mod state;
