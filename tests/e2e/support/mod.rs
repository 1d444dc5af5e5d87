//! What the tests stand on.

mod cell;
mod client;
mod disk;
mod docker;
mod figures;
mod http;
mod leftovers;
mod program;
mod server;
mod wait;

pub(crate) use cell::Cell;
pub(crate) use client::{code, expect_state, stdout};
pub(crate) use figures::{Told, figure, middle, timed};
pub(crate) use leftovers::unmount_all;
pub(crate) use program::{Ended, command, program};
pub(crate) use wait::wait_for;
