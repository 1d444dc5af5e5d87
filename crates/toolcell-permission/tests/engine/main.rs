//! The engine from outside: its decision table, its laws, a reference to compare with, recorded cases, permits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

mod cases;
mod fixture;
mod golden;
mod laws;
mod permits;
mod policies;
mod reference;
mod scripts;
mod tools;
mod validation;
