//! The guest: one static binary that is PID 1 of every sandbox container.
//!
//! **Owns** the processes of the container (start, whole-tree stop, exit status, output), the file tools, and the scan
//! and restore of persisted roots. **Never knows** Docker, HTTP, stores, or which calls are allowed: whoever proves
//! the container's secret over the one socket decides.
//!
//! **Read first**: `engine` (the event loop), then `keeper` (one process per call that keeps the call's tree
//! together), then `files` (worker threads with the tool user's file identity). `sys` holds all unsafe code.
//!
//! **Limits**: tools of one container share a user, so they can disturb each other; they cannot reach the guest. A
//! process that cannot be killed (uninterruptible in the kernel) is given up after two seconds, and the report then
//! has neither exit code nor signal.
#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::wildcard_enum_match_arm,
    clippy::arithmetic_side_effects
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "an overflow in a test fails the test"))]

mod args;
mod clock;
mod engine;
mod errors;
mod files;
mod frames;
mod harden;
mod keeper;
mod log;
mod outbox;
mod shell;
mod sys;

use args::Args;
use engine::{Engine, EngineError, exit};
use std::process::ExitCode;
use toolcell_protocol::Secret;

/// The variable that carries the container's secret: 64 hexadecimal digits.
pub const SECRET_VARIABLE: &str = "TOOLCELL_GUEST_SECRET";

#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("the command line is wrong")]
    Args(#[from] args::ArgsError),
    #[error("{SECRET_VARIABLE} is missing or is not 64 hexadecimal digits")]
    Secret,
    #[error("this program runs as PID 1 of a container, and as nothing else")]
    NotFirst,
    #[error("the guest needs to be root in its container")]
    NotRoot,
    #[error("cannot harden the guest")]
    Harden(#[from] harden::HardenError),
    #[error("the guest cannot go on")]
    Engine(#[from] EngineError),
}

impl StartError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Args(_) | Self::Secret | Self::NotFirst | Self::NotRoot => exit::USAGE,
            Self::Harden(_) | Self::Engine(EngineError::System(..)) => exit::SYSTEM,
            Self::Engine(EngineError::Hopeless(_)) => exit::VERSION,
        }
    }
}

/// The guest's whole life. To be called first in `main`: it erases the environment.
pub fn run() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::from(exit::DONE),
        Err(error) => {
            log::write_error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn start() -> Result<(), StartError> {
    let secret = sys::environment::take_and_erase(SECRET_VARIABLE);
    if rustix::process::getpid().as_raw_nonzero().get() != 1 {
        return Err(StartError::NotFirst);
    }
    if !rustix::process::geteuid().is_root() {
        return Err(StartError::NotRoot);
    }
    let args = Args::parse(std::env::args_os().skip(1))?;
    let secret = secret.and_then(|text| args::secret(&text)).map(Secret::from_bytes).ok_or(StartError::Secret)?;
    harden::harden()?;
    sys::process::keep_memory_small();
    let shell = shell::find().map(str::to_owned);
    Engine::new(args, secret, shell)?.run()?;
    Ok(())
}
