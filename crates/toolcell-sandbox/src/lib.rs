//! Sandbox containers.
//!
//! **Owns** the life of a container ([`SandboxProvider`], [`docker`]), its hardened defaults ([`spec`]), the embedded
//! guest ([`guest_binary`]) and the host's end of the guest's socket ([`link`]). **Never knows** HTTP or stores.
//! **Read first**: [`provider`], then [`docker`].
//!
//! Everything that runs a tool takes a `Permit` by value: forgetting the check does not compile.

pub mod docker;
pub mod error;
pub mod guest_binary;
pub mod link;
pub mod provider;
pub mod sandbox;
pub mod spec;

pub use docker::DockerProvider;
pub use error::SandboxError;
pub use link::{ExecEvent, ExecHandle, FileRead, GuestLink, Quiet, Restore, Scan, Shell, Written};
pub use provider::{Attached, CreateRequest, Created, Engine, Found, GitRequest, Image, SandboxProvider};
pub use sandbox::{Sandbox, WriteOptions};
pub use spec::{HostMount, Limits, PersistedRoot, SandboxSpec, ToolUser};
