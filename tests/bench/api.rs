//! The same things by the engine's API alone.

use bollard::Docker;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, RemoveContainerOptionsBuilder, StartContainerOptions,
};
use futures_util::StreamExt;
use tokio::runtime::Runtime;

pub(crate) struct Engine {
    docker: Docker,
    runtime: Runtime,
}

impl Engine {
    pub(crate) fn connect() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let docker = runtime.block_on(async {
            let docker = Docker::connect_with_unix_defaults().expect("an engine");
            docker.negotiate_version().await.expect("an engine")
        });
        Self { docker, runtime }
    }

    /// Create, start, read to the end, inspect.
    pub(crate) fn exec_true(&self, container: &str) {
        self.runtime.block_on(async {
            let options = CreateExecOptions {
                cmd: Some(vec!["/bin/true"]),
                attach_stdout: Some(true),
                attach_stderr: Some(true),
                ..Default::default()
            };
            let exec = self.docker.create_exec(container, options).await.expect("create exec");
            if let StartExecResults::Attached { mut output, .. } =
                self.docker.start_exec(&exec.id, None).await.expect("start exec")
            {
                while output.next().await.is_some() {}
            }
            let inspected = self.docker.inspect_exec(&exec.id).await.expect("inspect exec");
            assert_eq!(inspected.exit_code, Some(0));
        });
    }

    /// A container with the configuration of another one.
    pub(crate) fn create_and_start_like(&self, like: &str, name: &str) {
        self.runtime.block_on(async {
            let inspect = self.docker.inspect_container(like, None::<InspectContainerOptions>).await.expect("inspect");
            let config = inspect.config.expect("its configuration");
            let body = ContainerCreateBody {
                image: config.image,
                entrypoint: config.entrypoint,
                cmd: config.cmd,
                env: config.env,
                user: config.user,
                hostname: config.hostname,
                host_config: inspect.host_config,
                network_disabled: Some(true),
                ..Default::default()
            };
            let options = CreateContainerOptionsBuilder::new().name(name).build();
            self.docker.create_container(Some(options), body).await.expect("create");
            self.docker.start_container(name, None::<StartContainerOptions>).await.expect("start");
        });
    }

    pub(crate) fn remove(&self, name: &str) {
        let options = RemoveContainerOptionsBuilder::new().force(true).build();
        self.runtime.block_on(self.docker.remove_container(name, Some(options))).expect("remove");
    }
}
