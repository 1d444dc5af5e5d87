//! What the runtime asks of whatever runs containers.

use crate::error::SandboxError;
use crate::sandbox::Sandbox;
use crate::spec::{PersistedRoot, SandboxSpec};
use async_trait::async_trait;
use std::path::{Path, PathBuf};
use toolcell_model::{FencingToken, InstanceId, ScopeKey};

/// The engine that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// Its version.
    pub version: String,
    /// The API version that both speak.
    pub api_version: String,
}

/// An image that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Content id, such as `sha256:…`.
    pub id: String,
    /// The environment that the image declares.
    pub env: Vec<(String, String)>,
}

/// What to make a container for.
#[derive(Debug)]
pub struct CreateRequest<'a> {
    /// The slot whose workspace it gets.
    pub slot: &'a ScopeKey,
    /// The holder's token, for people who look at labels; nothing decides by it.
    pub token: FencingToken,
    /// What it is made of.
    pub spec: &'a SandboxSpec,
    /// The image as it was found.
    pub image: &'a Image,
    /// The slot's directories.
    pub roots: &'a [PersistedRoot],
}

/// The files of one commit that the operator wants in a workspace.
#[derive(Debug)]
pub struct GitRequest<'a> {
    /// An image with git.
    pub image: &'a Image,
    /// Its name, for errors.
    pub image_name: &'a str,
    /// `https://…`, `file:///…` or an absolute path on this host.
    pub url: &'a str,
    /// A branch, tag or commit; the repository's own choice without it.
    pub reference: Option<&'a str>,
    /// Shown to the server as a password.
    pub token: Option<&'a str>,
    /// A directory of the host for this one request; the caller removes it.
    pub directory: &'a Path,
    /// What git may write, in bytes.
    pub most_bytes: u64,
}

/// A container that was made and not started: the caller makes its binding durable in between.
#[derive(Debug)]
pub struct Created {
    /// Its name.
    pub name: String,
    pub(crate) listener: crate::link::GuestListener,
    pub(crate) secret: toolcell_protocol::Secret,
}

/// A running container whose guest was found again.
#[derive(Debug)]
pub enum Attached {
    /// It runs, and its guest has connected.
    Running(Sandbox),
    /// It does not exist, does not run, or its guest does not come.
    Gone,
}

/// A container of this instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// The slot it was made for.
    pub slot: ScopeKey,
    /// It runs.
    pub running: bool,
}

/// Makes, finds and removes sandbox containers of one instance. Never falls back to anything weaker: what it cannot
/// do is an error.
#[async_trait]
pub trait SandboxProvider: std::fmt::Debug + Send + Sync {
    /// Whose containers these are.
    fn instance(&self) -> &InstanceId;

    /// Checks that the engine is there. Cancel safe.
    ///
    /// # Errors
    /// [`SandboxError::EngineUnavailable`], [`SandboxError::EngineForbidden`].
    async fn engine(&self) -> Result<Engine, SandboxError>;

    /// Finds an image, pulling it from its registry if it is not there. Cancel safe.
    ///
    /// # Errors
    /// [`SandboxError::ImageMissing`], [`SandboxError::EngineUnavailable`].
    async fn image(&self, name: &str) -> Result<Image, SandboxError>;

    /// Makes a container, not started. A leftover of this slot and instance is removed first: the caller holds the
    /// slot's lease. Not cancel safe: a caller that goes away may leave a container, which reconciling removes.
    ///
    /// # Errors
    /// [`SandboxError::Engine`], [`SandboxError::EngineTimeout`], [`SandboxError::Host`].
    async fn create(&self, request: CreateRequest<'_>) -> Result<Created, SandboxError>;

    /// Where the secret of a container of this name is kept on the host.
    fn secret_path(&self, name: &str) -> PathBuf;

    /// Starts it and waits for its guest. On failure the container is removed. Not cancel safe, as [`Self::create`].
    ///
    /// # Errors
    /// [`SandboxError::Engine`], [`SandboxError::GuestAbsent`], [`SandboxError::Handshake`].
    async fn start(&self, created: Created) -> Result<Sandbox, SandboxError>;

    /// Takes up a container that an earlier process of this instance started: its guest reconnects by itself.
    ///
    /// # Errors
    /// [`SandboxError::EngineUnavailable`], [`SandboxError::Host`].
    async fn attach(&self, name: &str) -> Result<Attached, SandboxError>;

    /// All containers of this instance, running or not. Cancel safe.
    ///
    /// # Errors
    /// [`SandboxError::EngineUnavailable`].
    async fn found(&self) -> Result<Vec<Found>, SandboxError>;

    /// Removes a container of this instance with what belongs to it on the host. Idempotent.
    ///
    /// # Errors
    /// [`SandboxError::Engine`], [`SandboxError::EngineTimeout`], [`SandboxError::EngineUnavailable`].
    async fn remove(&self, name: &str) -> Result<(), SandboxError>;

    /// Archives (tar, hostile) of what an image ships at these directories, as files in `into`; `None` for a directory
    /// that it does not have. Nothing of the image runs. Not cancel safe, as [`Self::create`].
    ///
    /// # Errors
    /// [`SandboxError::SetupTooLarge`], [`SandboxError::Engine`], [`SandboxError::Host`].
    async fn image_archives(
        &self,
        image: &Image,
        paths: &[String],
        into: &Path,
        most_bytes: u64,
    ) -> Result<Vec<Option<PathBuf>>, SandboxError>;

    /// Fetches one commit in a throwaway container, without submodules, filters and hooks, and answers with the
    /// directory on this host that has its files (hostile) and a `.git` of no use. Only for what the operator
    /// configured. Not cancel safe, as [`Self::create`].
    ///
    /// # Errors
    /// [`SandboxError::SetupFailed`], [`SandboxError::SetupTooLarge`], [`SandboxError::Engine`].
    async fn git(&self, request: GitRequest<'_>) -> Result<PathBuf, SandboxError>;

    /// Removes containers of [`Self::image_archives`] and [`Self::git`] that a crash left long ago.
    ///
    /// # Errors
    /// [`SandboxError::EngineUnavailable`], [`SandboxError::Engine`].
    async fn remove_old_setups(&self) -> Result<(), SandboxError>;

    /// Why a container is gone, in words, for the result of a call that lost it.
    async fn last_words(&self, name: &str) -> String;
}
