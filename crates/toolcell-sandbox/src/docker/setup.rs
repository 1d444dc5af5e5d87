//! Throwaway containers: what an image ships, and what a git repository holds.
//!
//! Neither has a guest, a slot or a permit, and no call reaches them: they take only what the operator configured. What
//! comes out of them is bytes for somebody else to judge.

use super::create::{bind, signed};
use super::{DockerProvider, create_private_dir, host_error, unreachable_engine};
use crate::error::SandboxError;
use crate::provider::{GitRequest, Image};
use bollard::errors::Error as EngineError;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, DownloadFromContainerOptionsBuilder, ListContainersOptionsBuilder,
    StartContainerOptions, WaitContainerOptions,
};
use futures_util::StreamExt;
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Label with the instance that made a throwaway container.
const LABEL_SETUP: &str = "toolcell.setup";
/// A throwaway container older than this belongs to nobody any more.
const OLDEST: Duration = Duration::from_secs(3600);
/// How long git has for one step.
const GIT_TIMEOUT: Duration = Duration::from_secs(600);
/// How often the size of what git writes is looked at.
const GIT_LOOK: Duration = Duration::from_millis(250);
/// Entries that git may write; beyond it the clone counts as too large.
const MOST_ENTRIES: usize = 500_000;
const MEMORY_BYTES: u64 = 1 << 30;
const PIDS: i64 = 256;
const CLONE: &str = "/.toolcell/clone";
const GIT_CONFIG: &str = "/.toolcell/gitconfig";
const LOCAL_REPOSITORY: &str = "/.toolcell/repository";
/// A repository that is mounted belongs to whoever it belongs to on the host.
const GIT_CONFIG_TEXT: &str = "[safe]\n\tdirectory = *\n[advice]\n\tdetachedHead = false\n";
/// The tool user, for a server that is root: git never runs as root.
const TOOL_ID: u32 = 1000;

impl DockerProvider {
    /// Archives of what an image ships at these directories, `None` for one that it does not have.
    pub(super) async fn archives_of(
        &self,
        image: &Image,
        paths: &[String],
        into: &Path,
        most_bytes: u64,
    ) -> Result<Vec<Option<PathBuf>>, SandboxError> {
        let body = ContainerCreateBody {
            image: Some(image.id.clone()),
            // Never started; an image without a command of its own cannot be made into a container without one.
            entrypoint: Some(vec!["/.toolcell/never".to_owned()]),
            network_disabled: Some(true),
            labels: Some(HashMap::from([(LABEL_SETUP.to_owned(), self.instance.to_string())])),
            ..Default::default()
        };
        let name = self.create_throwaway(body).await?;
        let mut archives = Vec::new();
        let mut left = most_bytes;
        let mut failed = None;
        for (number, path) in paths.iter().enumerate() {
            let file = into.join(format!("{number}.tar"));
            match self.download(&name, path, &file, &mut left).await {
                Ok(there) => archives.push(there.then_some(file)),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        self.remove_container("remove", &name).await?;
        failed.map_or(Ok(archives), Err)
    }

    async fn download(&self, name: &str, path: &str, file: &Path, left: &mut u64) -> Result<bool, SandboxError> {
        // With the dot it is the content of the directory, also where the path is a link.
        let options = DownloadFromContainerOptionsBuilder::new().path(&format!("{path}/.")).build();
        let docker = self.docker().await?;
        let mut parts = Box::pin(docker.download_from_container(name, Some(options)));
        let mut options = std::fs::File::options();
        let open = options.write(true).create_new(true).mode(0o600).open(file);
        let mut out = open.map_err(host_error("write", file))?;
        while let Some(part) = parts.next().await {
            match part {
                Ok(part) => {
                    *left = left.checked_sub(part.len() as u64).ok_or_else(|| SandboxError::SetupTooLarge {
                        what: format!("what the image ships at {path}"),
                    })?;
                    out.write_all(&part).map_err(host_error("write", file))?;
                }
                Err(EngineError::DockerResponseServerError { status_code: 404, .. }) => return Ok(false),
                Err(source) => return Err(self.engine_error("read from", name, source)),
            }
        }
        Ok(true)
    }

    /// The files of one commit, in `repository` beneath the request's directory.
    pub(super) async fn git_files(&self, request: &GitRequest<'_>) -> Result<PathBuf, SandboxError> {
        let directory = request.directory;
        create_private_dir(directory)?;
        let config = directory.join("gitconfig");
        std::fs::write(&config, GIT_CONFIG_TEXT).map_err(host_error("write", &config))?;
        std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o644))
            .map_err(host_error("open up", &config))?;
        let clone = directory.join("clone");
        create_private_dir(&clone)?;
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&clone, Some(TOOL_ID), Some(TOOL_ID)).map_err(host_error("give away", &clone))?;
        }
        let repository = format!("{CLONE}/repository");
        let local = local_path(request.url);
        let url = if local.is_some() { format!("file://{LOCAL_REPOSITORY}") } else { request.url.to_owned() };
        let fetch = ["-C", &repository, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--"];
        let reference = request.reference.unwrap_or("HEAD");
        let steps: [Vec<&str>; 3] = [
            vec!["init", "--quiet", "--template=", &repository],
            [&fetch[..], &[&url, reference]].concat(),
            vec!["-C", &repository, "-c", "core.hooksPath=/dev/null", "checkout", "--quiet", "--detach", "FETCH_HEAD"],
        ];
        for step in steps {
            self.git(request, &clone, &config, local.as_deref(), &step).await?;
        }
        Ok(clone.join("repository"))
    }

    async fn git(
        &self,
        request: &GitRequest<'_>,
        clone: &Path,
        config: &Path,
        local: Option<&Path>,
        words: &[&str],
    ) -> Result<(), SandboxError> {
        let mut mounts = vec![bind(clone, CLONE, false), bind(config, GIT_CONFIG, true)];
        mounts.extend(local.map(|path| bind(path, LOCAL_REPOSITORY, true)));
        let user = if rustix::process::geteuid().is_root() {
            format!("{TOOL_ID}:{TOOL_ID}")
        } else {
            format!("{}:{}", rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
        };
        let body = ContainerCreateBody {
            image: Some(request.image.id.clone()),
            entrypoint: Some(vec!["git".to_owned()]),
            cmd: Some(words.iter().map(|word| (*word).to_owned()).collect()),
            env: Some(environment(request.token)),
            user: Some(user),
            working_dir: Some("/".to_owned()),
            network_disabled: Some(local.is_some()),
            labels: Some(HashMap::from([(LABEL_SETUP.to_owned(), self.instance.to_string())])),
            host_config: Some(HostConfig {
                network_mode: Some(if local.is_some() { "none" } else { "bridge" }.to_owned()),
                cap_drop: Some(vec!["ALL".to_owned()]),
                security_opt: Some(vec!["no-new-privileges".to_owned()]),
                readonly_rootfs: Some(true),
                tmpfs: Some(HashMap::from([("/tmp".to_owned(), "rw,nosuid,nodev,size=64m".to_owned())])),
                memory: Some(signed(MEMORY_BYTES)),
                memory_swap: Some(signed(MEMORY_BYTES)),
                pids_limit: Some(PIDS),
                mounts: Some(mounts),
                ..Default::default()
            }),
            ..Default::default()
        };
        let name = self.create_throwaway(body).await?;
        let ended = self.run_git(request, &name, clone).await;
        self.remove_container("remove", &name).await?;
        ended
    }

    async fn run_git(&self, request: &GitRequest<'_>, name: &str, clone: &Path) -> Result<(), SandboxError> {
        let failed = |detail: String| SandboxError::SetupFailed { what: format!("git {}", request.url), detail };
        let docker = self.docker().await?;
        let started = docker.start_container(name, None::<StartContainerOptions>);
        match tokio::time::timeout(super::STEP_TIMEOUT, started).await {
            Ok(Ok(())) => {}
            Ok(Err(EngineError::DockerResponseServerError { message, .. })) if message.contains("executable file") => {
                let image = request.image_name;
                return Err(failed(format!(
                    "the image {image} has no git; agents.NAME.setup_image names one that has"
                )));
            }
            Ok(Err(source)) => return Err(self.engine_error("start", name, source)),
            Err(_) => return Err(failed("its container did not start in time".to_owned())),
        }
        let mut wait = Box::pin(docker.wait_container(name, None::<WaitContainerOptions>));
        let deadline = tokio::time::sleep(GIT_TIMEOUT);
        tokio::pin!(deadline);
        let code = loop {
            tokio::select! {
                ended = wait.next() => break match ended {
                    Some(Ok(ended)) => ended.status_code,
                    Some(Err(EngineError::DockerContainerWaitError { code, .. })) => code,
                    Some(Err(source)) => return Err(unreachable_engine(&self.host, source)),
                    None => return Err(failed("nobody knows how it ended".to_owned())),
                },
                () = tokio::time::sleep(GIT_LOOK) => {
                    if is_larger(clone, request.most_bytes) {
                        return Err(SandboxError::SetupTooLarge { what: format!("git {}", request.url) });
                    }
                }
                () = &mut deadline => return Err(failed(format!("not done within {} s", GIT_TIMEOUT.as_secs()))),
            }
        };
        if is_larger(clone, request.most_bytes) {
            return Err(SandboxError::SetupTooLarge { what: format!("git {}", request.url) });
        }
        if code == 0 { Ok(()) } else { Err(failed(self.describe_end(name).await)) }
    }

    async fn create_throwaway(&self, body: ContainerCreateBody) -> Result<String, SandboxError> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(SandboxError::Random)?;
        let instance = self.instance.as_str();
        let suffix = instance.get(instance.len().saturating_sub(12)..).unwrap_or(instance);
        let name = format!("toolcell-{suffix}-setup-{}", data_encoding::HEXLOWER.encode(&random));
        let options = CreateContainerOptionsBuilder::new().name(&name).build();
        let docker = self.docker().await?;
        let _turn = self.starts.acquire().await;
        self.step("create", &name, docker.create_container(Some(options), body)).await?;
        Ok(name)
    }

    /// Removes throwaway containers that a crash left.
    pub(super) async fn remove_old_throwaways(&self) -> Result<(), SandboxError> {
        let label = format!("{LABEL_SETUP}={}", self.instance);
        let filters = HashMap::from([("label".to_owned(), vec![label])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let list = self.docker().await?.list_containers(Some(options));
        let now = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for container in self.step("list", "of set-ups", list).await? {
            let made = container.created.and_then(|at| u64::try_from(at).ok()).unwrap_or(now);
            if let (true, Some(id)) = (now.saturating_sub(made) > OLDEST.as_secs(), container.id) {
                self.remove_container("remove an old", &id).await?;
            }
        }
        Ok(())
    }
}

/// The path of a repository on this host; `None` for one elsewhere.
fn local_path(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("file://").unwrap_or(url);
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// No configuration but ours, nobody to ask, and a token that is in no file and on no command line.
fn environment(token: Option<&str>) -> Vec<String> {
    let config = format!("GIT_CONFIG_GLOBAL={GIT_CONFIG}");
    let fixed = [
        "HOME=/tmp",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "GIT_CONFIG_NOSYSTEM=1",
        "GIT_ATTR_NOSYSTEM=1",
        "GIT_TERMINAL_PROMPT=0",
        "GIT_ALLOW_PROTOCOL=https:file",
        "GIT_LFS_SKIP_SMUDGE=1",
        &config,
    ];
    let mut environment: Vec<String> = fixed.iter().map(|&word| word.to_owned()).collect();
    if let Some(token) = token {
        let basic = data_encoding::BASE64.encode(format!("x-access-token:{token}").as_bytes());
        environment.push("GIT_CONFIG_COUNT=1".to_owned());
        environment.push("GIT_CONFIG_KEY_0=http.extraHeader".to_owned());
        environment.push(format!("GIT_CONFIG_VALUE_0=Authorization: Basic {basic}"));
    }
    environment
}

/// Whether a directory holds more than this, or more entries than are counted. Links are not followed.
fn is_larger(directory: &Path, most_bytes: u64) -> bool {
    let mut ahead = vec![directory.to_owned()];
    let (mut bytes, mut entries) = (0u64, 0usize);
    while let Some(directory) = ahead.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            entries += 1;
            let Ok(found) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(found.len());
            if bytes > most_bytes || entries > MOST_ENTRIES {
                return true;
            }
            if found.is_dir() {
                ahead.push(entry.path());
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_host_are_local() {
        assert_eq!(local_path("/srv/repo.git"), Some(PathBuf::from("/srv/repo.git")));
        assert_eq!(local_path("file:///srv/repo.git"), Some(PathBuf::from("/srv/repo.git")));
        assert_eq!(local_path("https://host/repo.git"), None);
        assert_eq!(local_path("file://host"), None);
    }

    #[test]
    fn a_token_is_nowhere_but_in_one_variable() {
        let basic = data_encoding::BASE64.encode(b"x-access-token:secret");
        let with = environment(Some("secret"));
        assert_eq!(with.iter().filter(|word| word.contains("secret") || word.contains(&basic)).count(), 1);
        assert!(environment(None).iter().all(|word| !word.contains("Authorization")));
    }

    #[test]
    fn size_and_number_of_what_git_writes_are_bounded() {
        let directory = std::env::temp_dir().join(format!("toolcell-git-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("deep")).unwrap();
        std::fs::write(directory.join("deep/file"), vec![0; 100_000]).unwrap();
        assert!(is_larger(&directory, 99_999));
        assert!(!is_larger(&directory, 10_000_000));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
