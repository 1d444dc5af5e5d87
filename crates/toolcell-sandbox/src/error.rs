//! What can go wrong between the host and its containers.

use toolcell_model::Retry;
use toolcell_permission::PermitMismatch;
use toolcell_protocol::{GuestError, HandshakeError};

/// Why a sandbox could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// No Docker engine answers.
    #[error("no Docker engine answers at {host}")]
    EngineUnavailable {
        /// The address tried.
        host: String,
        /// What the connection said.
        #[source]
        source: bollard::errors::Error,
    },
    /// The engine's socket is there, but this user may not use it.
    #[error("this user may not use the Docker socket at {host}")]
    EngineForbidden {
        /// The address tried.
        host: String,
        /// What the connection said.
        #[source]
        source: bollard::errors::Error,
    },
    /// The engine's address is of a kind that is not supported.
    #[error("the Docker address {host:?} cannot be used")]
    EngineAddress {
        /// The address.
        host: String,
        /// What the client said.
        #[source]
        source: bollard::errors::Error,
    },
    /// The engine does not have the image and could not pull it.
    #[error("the image {image} is not there and could not be pulled")]
    ImageMissing {
        /// The image's name.
        image: String,
        /// What the pull said.
        detail: String,
    },
    /// The engine refused to make or start the container.
    #[error("the engine refused to {action} the container {container}")]
    Engine {
        /// What was being done.
        action: &'static str,
        /// The container's name.
        container: String,
        /// What the engine said.
        #[source]
        source: bollard::errors::Error,
    },
    /// The engine did not answer in time.
    #[error("the engine did not {action} the container {container} within {seconds} s")]
    EngineTimeout {
        /// What was being done.
        action: &'static str,
        /// The container's name.
        container: String,
        /// How long it was given.
        seconds: u64,
    },
    /// A file or directory of the host's side could not be made.
    #[error("cannot {action} {path}")]
    Host {
        /// What was being done.
        action: &'static str,
        /// Where.
        path: String,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// The guest did not come, or the container ended first.
    #[error("the guest of the container {container} did not connect: {reason}")]
    GuestAbsent {
        /// The container's name.
        container: String,
        /// What was seen, with the container's last log lines.
        reason: String,
    },
    /// The guest came and the handshake failed.
    #[error("the guest of the container {container} was refused")]
    Handshake {
        /// The container's name.
        container: String,
        /// Why.
        #[source]
        source: HandshakeError,
    },
    /// The connection to the guest ended; what was running may have run.
    #[error("the connection to the guest of the container {container} ended: {reason}")]
    LinkLost {
        /// The container's name.
        container: String,
        /// Why it ended.
        reason: String,
    },
    /// The guest broke the protocol's rules.
    #[error("the guest of the container {container} broke the protocol: {reason}")]
    Protocol {
        /// The container's name.
        container: String,
        /// Which rule.
        reason: String,
    },
    /// The guest did not answer in time.
    #[error("the guest of the container {container} did not answer within {seconds} s")]
    GuestTimeout {
        /// The container's name.
        container: String,
        /// How long it was given.
        seconds: u64,
    },
    /// The guest could not do it; a tool's failure rather than the runtime's.
    #[error("the guest could not do it")]
    Guest(#[source] GuestError),
    /// What a workspace is set up with could not be had.
    #[error("{what}: {detail}")]
    SetupFailed {
        /// What was being fetched.
        what: String,
        /// Why it could not be.
        detail: String,
    },
    /// What a workspace is set up with is larger than the workspace may be.
    #[error("{what} is larger than the agent's limits.workspace")]
    SetupTooLarge {
        /// What was being fetched.
        what: String,
    },
    /// The permit that was shown is for another call.
    #[error("the permit does not cover this call")]
    Permit(#[source] PermitMismatch),
    /// The permit is for a call of another shape.
    #[error("the permit names {paths} paths; this operation needs exactly one")]
    PermitPaths {
        /// How many it names.
        paths: usize,
    },
    /// The operating system gave no randomness.
    #[error("no randomness from the operating system")]
    Random(#[source] getrandom::Error),
}

impl SandboxError {
    /// The stable code of the public error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::EngineUnavailable { .. } => "docker_unavailable",
            Self::EngineForbidden { .. } => "docker_forbidden",
            Self::EngineAddress { .. } => "docker_address",
            Self::ImageMissing { .. } => "image_missing",
            Self::Engine { .. } | Self::EngineTimeout { .. } => "container_failed",
            Self::Host { source, .. } if is_no_space(source) => "no_space",
            Self::Host { .. } | Self::Random(_) => "host_failed",
            Self::GuestAbsent { .. } | Self::Handshake { .. } => "guest_unreachable",
            Self::LinkLost { .. } | Self::Protocol { .. } | Self::GuestTimeout { .. } => "sandbox_lost",
            Self::Guest(error) => error.code.as_str(),
            Self::SetupFailed { .. } => "setup_failed",
            Self::SetupTooLarge { .. } => "no_space",
            Self::Permit(_) | Self::PermitPaths { .. } => "permit_mismatch",
        }
    }

    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::EngineUnavailable { .. } => {
                Some("start the Docker engine, or set [docker] host or DOCKER_HOST to one that runs".to_owned())
            }
            Self::EngineForbidden { .. } => {
                Some("add this user to the `docker` group, or use a rootless engine through DOCKER_HOST".to_owned())
            }
            Self::EngineAddress { .. } => Some("use unix:///path/to/docker.sock".to_owned()),
            Self::ImageMissing { image, .. } => {
                Some(if matches!(image_short_name(image), "base" | "node") && image.starts_with("toolcell/") {
                    format!("`toolcell image build {}` makes it", image_short_name(image))
                } else if image.starts_with("toolcell") {
                    "build it, or name another image: agents.NAME.image".to_owned()
                } else {
                    format!("`docker pull {image}` shows what the registry says")
                })
            }
            Self::Host { source, .. } if is_no_space(source) => {
                Some("free space under data_dir, then call again: nothing was lost".to_owned())
            }
            Self::Engine { .. }
            | Self::EngineTimeout { .. }
            | Self::Host { .. }
            | Self::GuestAbsent { .. }
            | Self::Handshake { .. }
            | Self::LinkLost { .. }
            | Self::Protocol { .. }
            | Self::GuestTimeout { .. }
            | Self::Guest(_)
            | Self::SetupFailed { .. }
            | Self::SetupTooLarge { .. }
            | Self::Permit(_)
            | Self::PermitPaths { .. }
            | Self::Random(_) => None,
        }
    }

    /// Whether trying again may help.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            Self::EngineUnavailable { .. }
            | Self::EngineTimeout { .. }
            | Self::GuestAbsent { .. }
            | Self::SetupFailed { .. } => Retry::Later,
            Self::Host { source, .. } if is_no_space(source) => Retry::Later,
            Self::LinkLost { .. } | Self::GuestTimeout { .. } | Self::Protocol { .. } => Retry::Indeterminate,
            Self::EngineForbidden { .. }
            | Self::EngineAddress { .. }
            | Self::ImageMissing { .. }
            | Self::Engine { .. }
            | Self::Host { .. }
            | Self::Handshake { .. }
            | Self::Guest(_)
            | Self::SetupTooLarge { .. }
            | Self::Permit(_)
            | Self::PermitPaths { .. }
            | Self::Random(_) => Retry::Never,
        }
    }
}

fn is_no_space(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

fn image_short_name(image: &str) -> &str {
    let name = image.strip_prefix("toolcell/").unwrap_or(image);
    name.split(':').next().unwrap_or(name)
}
