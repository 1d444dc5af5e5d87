//! Images: found, or pulled in a phase of its own with its own bound.

use super::{DockerProvider, unreachable_engine};
use crate::error::SandboxError;
use crate::provider::Image;
use bollard::Docker;
use bollard::errors::Error as EngineError;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;

/// Images of this name space are built on this machine; a registry's image of that name is somebody else's.
const LOCAL_NAMESPACE: &str = "toolcell";

impl DockerProvider {
    pub(super) async fn find_or_pull(&self, name: &str) -> Result<Image, SandboxError> {
        if let Some(image) = self.find(name).await? {
            return Ok(image);
        }
        if is_local(name) {
            return Err(SandboxError::ImageMissing {
                image: name.to_owned(),
                detail: "images of this name are built here, never pulled".to_owned(),
            });
        }
        tracing::info!(image = name, "pulling");
        match tokio::time::timeout(self.pull_timeout, self.pull(self.docker().await?, name)).await {
            Ok(Ok(())) => {}
            Ok(Err(source)) => return Err(missing(name, source.to_string())),
            Err(_) => {
                return Err(missing(name, format!("not done within {} s", self.pull_timeout.as_secs())));
            }
        }
        self.find(name).await?.ok_or_else(|| missing(name, "the pull ended without an image".to_owned()))
    }

    async fn find(&self, name: &str) -> Result<Option<Image>, SandboxError> {
        let docker = self.docker().await?;
        match docker.inspect_image(name).await {
            Ok(inspect) => {
                let env = inspect.config.and_then(|config| config.env).unwrap_or_default();
                let env = env.iter().filter_map(|pair| pair.split_once('='));
                Ok(Some(Image {
                    id: inspect.id.unwrap_or_else(|| name.to_owned()),
                    env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
                }))
            }
            Err(EngineError::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
            Err(EngineError::DockerResponseServerError { message, .. }) => Err(missing(name, message)),
            Err(source) => Err(unreachable_engine(&self.host, source)),
        }
    }

    async fn pull(&self, docker: &Docker, name: &str) -> Result<(), EngineError> {
        let tagged = if has_tag(name) { name.to_owned() } else { format!("{name}:latest") };
        let options = CreateImageOptionsBuilder::new().from_image(&tagged).build();
        let mut progress = docker.create_image(Some(options), None, None);
        while let Some(step) = progress.next().await {
            step?;
        }
        Ok(())
    }
}

fn missing(image: &str, detail: String) -> SandboxError {
    SandboxError::ImageMissing { image: image.to_owned(), detail }
}

fn is_local(name: &str) -> bool {
    name.split('/').next().is_some_and(|first| first == LOCAL_NAMESPACE || first.starts_with("toolcell-"))
        && name.contains('/')
}

fn has_tag(name: &str) -> bool {
    name.contains('@') || name.rsplit('/').next().is_some_and(|last| last.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_names_are_never_pulled() {
        assert!(is_local("toolcell/base"));
        assert!(is_local("toolcell-test/busybox:latest"));
        assert!(!is_local("registry.example:5000/toolcell/base"));
        assert!(!is_local("toolcellish/base"));
        assert!(!is_local("toolcell"));
    }

    #[test]
    fn a_port_is_not_a_tag() {
        assert!(has_tag("debian:12"));
        assert!(has_tag("debian@sha256:00"));
        assert!(!has_tag("registry.example:5000/debian"));
    }
}
