//! A slot's first start, and the host directories that each start brings up to date. Everything here comes from the
//! operator's configuration; no call reaches it.

use super::content::{Body, Content, Kind, Node, Scratch};
use super::{SetupError, create_private, project, seed};
use crate::inner::Inner;
use crate::slot::Residency;
use std::path::PathBuf;
use toolcell_permission::ContainerPath;
use toolcell_protocol::TimeNs;
use toolcell_sandbox::{GitRequest, Image, SandboxSpec};

/// What fills the workspaces of one agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setup {
    /// Whether an empty workspace gets anything; one that is only taken apart does not.
    pub(crate) begins: bool,
    pub(crate) files: Vec<SetupFile>,
    pub(crate) projections: Vec<Projection>,
    /// The image with git.
    pub(crate) image: Option<String>,
}

/// A file or directory that a workspace begins with.
#[derive(Debug, Clone)]
pub(crate) struct SetupFile {
    /// As the configuration names it.
    pub(crate) key: String,
    pub(crate) path: ContainerPath,
    pub(crate) from: Origin,
}

/// Where it comes from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    Text(String),
    Local(PathBuf),
    Git { url: String, reference: Option<String>, token: Option<crate::config::Token> },
}

/// A host directory that each start brings up to date.
#[derive(Debug, Clone)]
pub(crate) struct Projection {
    pub(crate) host: PathBuf,
    pub(crate) path: ContainerPath,
}

/// The root in which a path lies, and the path beneath it.
pub(crate) fn beneath(roots: &[String], path: &ContainerPath) -> Option<(u16, Vec<u8>)> {
    (0u16..).zip(roots).find_map(|(number, root)| {
        let rest = path.as_bytes().strip_prefix(root.as_bytes())?.strip_prefix(b"/")?;
        (!rest.is_empty()).then(|| (number, rest.to_vec()))
    })
}

impl Inner {
    /// What a workspace without a snapshot begins with: what the image ships, and the agent's files over it.
    pub(crate) async fn beginning(
        &self,
        setup: &Setup,
        spec: &SandboxSpec,
        image: &Image,
    ) -> Result<Content, SetupError> {
        let mut content = Content::default();
        if !setup.begins {
            return Ok(content);
        }
        let most = spec.limits.workspace_bytes;
        let (provider, data_dir) = (&*self.provider, &self.config.data_dir);
        seed::add(&mut content, provider, data_dir, image, &spec.persist, most).await?;
        for file in &setup.files {
            let added = self.add_file(&mut content, file, setup, spec, image).await;
            added.map_err(|source| SetupError::File { key: file.key.clone(), source: Box::new(source) })?;
        }
        if content.bytes() > most {
            return Err(SetupError::TooLarge { path: PathBuf::from("what the workspace begins with") });
        }
        Ok(content)
    }

    async fn add_file(
        &self,
        content: &mut Content,
        file: &SetupFile,
        setup: &Setup,
        spec: &SandboxSpec,
        image: &Image,
    ) -> Result<(), SetupError> {
        let most = spec.limits.workspace_bytes;
        let Some((root, path)) = beneath(&spec.persist, &file.path) else {
            return Err(SetupError::Path { path: file.path.to_string() });
        };
        match &file.from {
            Origin::Text(text) => {
                let kind = Kind::File { body: Body::Bytes(text.as_bytes().into()), size: text.len() as u64 };
                let secs = i64::try_from(self.clock.now().0 / 1000).unwrap_or(0);
                content.insert(root, path, Node { kind, mode: 0o644, mtime: TimeNs { secs, nanos: 0 } })
            }
            Origin::Local(host) => content.add_host(root, &path, host, None, most),
            Origin::Git { url, reference, token } => {
                let (image_name, image) = match &setup.image {
                    Some(name) => (name, self.provider.image(name).await.map_err(SetupError::Sandbox)?),
                    None => (&spec.image, image.clone()),
                };
                let scratch = self.setup_directory()?;
                let request = GitRequest {
                    image: &image,
                    image_name,
                    url,
                    reference: reference.as_deref(),
                    token: token.as_ref().map(crate::config::Token::expose),
                    directory: &scratch.0,
                    most_bytes: most,
                };
                let files = self.provider.git(request).await.map_err(SetupError::Sandbox)?;
                content.add_host(root, &path, &files, Some(".git"), most)?;
                content.holds.push(scratch);
                Ok(())
            }
        }
    }

    /// A directory for one set-up. The next start of a server removes what a crash leaves of it.
    fn setup_directory(&self) -> Result<Scratch, SetupError> {
        let all = self.config.data_dir.join("setup");
        let mut random = [0; 8];
        let named = getrandom::fill(&mut random).map_err(std::io::Error::other);
        let directory = all.join(data_encoding::HEXLOWER.encode(&random));
        let made = named.and_then(|()| create_private(&directory));
        made.map_err(|source| SetupError::Host { path: directory.clone(), source })?;
        Ok(Scratch(directory))
    }

    /// What crashes left of set-ups. Called by a server before its first slot.
    pub(crate) async fn remove_old_setups(&self) {
        if let Err(error) = std::fs::remove_dir_all(self.config.data_dir.join("setup"))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "what a set-up left stays behind");
        }
        if let Err(error) = self.provider.remove_old_setups().await {
            tracing::warn!(error = crate::error::chain(&error), "old containers of set-ups cannot be looked for");
        }
    }

    /// Brings projections up to date; what they change is saved like a call's change.
    pub(crate) async fn project(&self, residency: &Residency, setup: &Setup) -> Result<(), SetupError> {
        if setup.projections.is_empty() {
            return Ok(());
        }
        let link = residency.sandbox.link();
        let written = project::sync(link, &residency.roots, &setup.projections).await?;
        if written > 0 {
            residency.begin_change().end();
            tracing::debug!(container = residency.sandbox.name(), written, "projections are brought up to date");
        }
        Ok(())
    }
}
