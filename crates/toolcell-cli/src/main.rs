//! The `toolcell` program.
//!
//! **Owns** arguments, exit codes and what a person sees on a terminal. **Never knows** how anything is done.
//! **Read first**: [`cli`], then one file per subcommand in `commands/`.
//!
//! This is the one crate that prints.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks through its output")]

mod cli;
mod client;
mod commands;
mod failure;
mod logging;
mod progress;
mod table;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Standard output for help, standard error for mistakes; where neither can be written, nobody reads it.
            let _ = usage.print();
            // Not clap's own 2: a command that `run` has run may exit with that.
            return if usage.use_stderr() { ExitCode::from(failure::EXIT_FAILED) } else { ExitCode::SUCCESS };
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("toolcell: the async runtime does not start\n  {error}");
            return ExitCode::from(failure::EXIT_FAILED);
        }
    };
    let done = runtime.block_on(async {
        match cli.command {
            Command::Serve(args) => commands::serve::run(&cli.config, args).await,
            Command::Run(args) => commands::run::run(&cli.config, args).await,
            Command::Call(args) => commands::call::run(&cli.config, args).await,
            Command::Explain(args) => commands::explain::run(&cli.config, args).await,
            Command::Rules(args) => commands::rules::run(&cli.config, &args),
            Command::Slots(args) => commands::slots::run(&cli.config, args).await,
            Command::Snapshots(args) => commands::snapshots::run(&cli.config, args).await,
            Command::Image(args) => commands::image::run(&cli.config, args).await,
            Command::Config(args) => commands::config::run(&cli.config, &args),
            Command::Doctor(args) => commands::doctor::run(&cli.config, &args).await,
            Command::Version => commands::version::run(),
        }
    });
    done.unwrap_or_else(|failure| {
        failure.print();
        failure.exit_code()
    })
}
