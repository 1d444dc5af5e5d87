//! `toolcell image`: the recipes travel inside this program.

use super::context::load;
use crate::cli::{ConfigArgs, ImageArgs, ImageCommand, ImageName};
use crate::failure::Failure;
use std::path::Path;
use std::process::ExitCode;
use tokio::process::Command;

/// The recipes, as they stand in `images/`.
const RECIPES: [(&str, &str); 3] = [
    ("build", include_str!("../../../../images/build")),
    ("base/Dockerfile", include_str!("../../../../images/base/Dockerfile")),
    ("node/Dockerfile", include_str!("../../../../images/node/Dockerfile")),
];

pub(crate) async fn run(config: &ConfigArgs, args: ImageArgs) -> Result<ExitCode, Failure> {
    let engine = load(config)?.docker_host();
    let ImageCommand::Build { image } = args.command;
    let name = match image {
        ImageName::Base => "base",
        ImageName::Node => "node",
    };
    let what = format!("the image toolcell/{name} was not built");
    let failed = |error: &dyn std::error::Error| Failure::of(what.clone(), error);
    let directory = tempfile::tempdir().map_err(|error| failed(&error))?;
    write_recipes(directory.path()).map_err(|error| failed(&error))?;
    let status =
        Command::new("bash").arg(directory.path().join("build")).arg(name).env("DOCKER_HOST", engine).status().await;
    let status = status.map_err(|error| failed(&error))?;
    if status.success() {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failure::new(what, format!("its build script ended with {status}; its last lines above say why")))
    }
}

fn write_recipes(directory: &Path) -> std::io::Result<()> {
    for (name, text) in RECIPES {
        let path = directory.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}
