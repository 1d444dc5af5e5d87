//! `toolcell version`

use crate::failure::Failure;
use std::process::ExitCode;

#[allow(clippy::unnecessary_wraps, reason = "the form of every command")]
pub(crate) fn run() -> Result<ExitCode, Failure> {
    println!("toolcell {}", env!("CARGO_PKG_VERSION"));
    Ok(ExitCode::SUCCESS)
}
