//! Whether a runtime could work here, looked at without starting one.

use crate::config::{Config, SnapshotStoreKind};
use crate::error::chain;
use crate::start;
use crate::workspace::{Mechanism, Workspaces};
use std::time::Duration;
use toolcell_model::InstanceId;
use toolcell_sandbox::docker::DockerConfig;
use toolcell_sandbox::{DockerProvider, SandboxProvider};

/// Less free space than this is a finding.
const LITTLE_SPACE_BYTES: u64 = 256 << 20;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What: `engine`, `data_dir`, `workspace_limit`, `snapshots` or `guest`.
    pub check: &'static str,
    /// It is as it must be.
    pub ok: bool,
    /// What was found.
    pub detail: String,
    /// What a person can do about it, or may want to know.
    pub hint: Option<String>,
}

impl Finding {
    fn good(check: &'static str, detail: impl Into<String>, hint: Option<&str>) -> Self {
        Self { check, ok: true, detail: detail.into(), hint: hint.map(str::to_owned) }
    }

    fn bad(check: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { check, ok: false, detail: detail.into(), hint: Some(hint.into()) }
    }
}

/// Looks at the container engine, the data directory, the workspace limit, the snapshot store and the guest. Makes the
/// data directory if it is not there; starts no container.
pub async fn examine(config: &Config) -> Vec<Finding> {
    let data_dir = data_dir(config);
    let usable = data_dir.ok;
    let mut findings = vec![data_dir];
    if usable {
        findings.extend(engine_and_guest(config).await);
        findings.push(workspace_limit(config).await);
        findings.push(snapshots(config).await);
    }
    findings
}

fn data_dir(config: &Config) -> Finding {
    const CHECK: &str = "data_dir";
    let path = &config.data_dir;
    let shown = path.display();
    if let Err(error) = start::make_private(path) {
        return Finding::bad(CHECK, chain(&error), "choose another data_dir, or make this one writable");
    }
    match rustix::fs::statvfs(path) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let detail = format!("{shown} has {} MiB free", free >> 20);
            if free < LITTLE_SPACE_BYTES {
                return Finding::bad(CHECK, detail, "free some space, or choose a data_dir on another disk");
            }
            Finding::good(CHECK, detail, Some("it must be on a disk of this machine, never on a network"))
        }
        Err(error) => Finding::bad(CHECK, format!("{shown}: {error}"), "choose another data_dir"),
    }
}

async fn engine_and_guest(config: &Config) -> Vec<Finding> {
    let provider = DockerProvider::new(DockerConfig {
        host: config.docker_host(),
        instance: InstanceId::generate(),
        data_dir: config.data_dir.clone(),
        pull_timeout: Duration::from_secs(1),
        orphan_ttl: Duration::from_secs(1),
    });
    let provider = match provider {
        Ok(provider) => provider,
        Err(error) => {
            let hint = error.hint().unwrap_or_else(|| "look at docker.host and at the space under data_dir".to_owned());
            return vec![Finding::bad("guest", chain(&error), hint)];
        }
    };
    let guest = Finding::good("guest", "unpacked under data_dir, whole", None);
    let engine = match provider.engine().await {
        Ok(engine) => {
            let detail = format!("{} answers: {}, API {}", config.docker_host(), engine.version, engine.api_version);
            Finding::good("engine", detail, None)
        }
        Err(error) => {
            let hint = error.hint().unwrap_or_else(|| "look at the engine's log".to_owned());
            Finding::bad("engine", chain(&error), hint)
        }
    };
    vec![guest, engine]
}

async fn workspace_limit(config: &Config) -> Finding {
    const CHECK: &str = "workspace_limit";
    let workspaces = Workspaces::new(&config.data_dir, config.workspaces.limit);
    match workspaces.mechanism().await {
        Mechanism::Image(_) => Finding::good(
            CHECK,
            "loop image: a workspace ends where its disk does",
            Some("a slot for whose image the disk of data_dir has no room is watched instead"),
        ),
        Mechanism::Watched { reason } if workspaces.is_image_required() => Finding::bad(
            CHECK,
            format!("workspaces.limit = \"image\" cannot be had: {reason}"),
            "run the server as root with e2fsprogs installed, or set workspaces.limit = \"auto\"",
        ),
        Mechanism::Watched { reason } => Finding::good(
            CHECK,
            format!("watched: a call that writes too much is stopped; {reason}"),
            Some("as root, with mkfs.ext4 (e2fsprogs) and loop devices, the limit is hard"),
        ),
    }
}

async fn snapshots(config: &Config) -> Finding {
    const CHECK: &str = "snapshots";
    let kind = format!("{:?}", config.snapshots.store).to_lowercase();
    let keeps_nothing = config.snapshots.store == SnapshotStoreKind::None;
    match start::stores::open(config).await {
        Ok(_) if keeps_nothing => {
            Finding::good(CHECK, "none: nothing outlives its container", Some("snapshots.store chooses a store"))
        }
        Ok(store) if store.is_durable() => Finding::good(CHECK, format!("{kind} opens; it is durable"), None),
        Ok(_) => Finding::good(
            CHECK,
            format!("{kind} opens; it is not durable, and every result says so"),
            Some("the store's own settings decide whether it survives a crash"),
        ),
        Err(error) => Finding::bad(CHECK, chain(&error), "look at the [snapshots] section"),
    }
}
