//! `toolcell config`

use super::context::load;
use crate::cli::{ConfigArgs, ConfigCommand, ConfigCommandArgs};
use crate::failure::Failure;
use std::process::ExitCode;
use toolcell_runtime::Runtime;

pub(crate) fn run(config: &ConfigArgs, args: &ConfigCommandArgs) -> Result<ExitCode, Failure> {
    match args.command {
        ConfigCommand::Check => {
            let config = load(config)?;
            Runtime::check(&config)?;
            let agents: Vec<String> = config.agents().keys().map(ToString::to_string).collect();
            println!("valid: data_dir {}, agents {}", config.data_dir.display(), agents.join(", "));
            Ok(ExitCode::SUCCESS)
        }
    }
}
