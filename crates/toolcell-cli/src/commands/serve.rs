//! `toolcell serve`

use super::context::load;
use crate::cli::{ConfigArgs, ServeArgs};
use crate::failure::Failure;
use crate::logging;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use toolcell_runtime::config::AuthMode;
use toolcell_runtime::{Role, Runtime, chain};
use toolcell_server::{ServeError, Server};

pub(crate) async fn run(config: &ConfigArgs, args: ServeArgs) -> Result<ExitCode, Failure> {
    logging::init("info", args.log_json);
    raise_open_files();
    let config = load(config)?;
    let serve_failed = |error: &dyn std::error::Error| Failure::of("the server does not run", error);
    let signal_failed = |error: std::io::Error| serve_failed(&error);
    let mut terminate = signal(SignalKind::terminate()).map_err(signal_failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(signal_failed)?;
    let runtime = Runtime::open(config, Role::Server).await?;
    let bound = async {
        let server = Server::bind(runtime.clone()).await?;
        let address = server.local_addr()?;
        Ok::<_, ServeError>((server, address))
    };
    let (server, address) = match bound.await {
        Ok(bound) => bound,
        Err(error) => {
            // What the runtime has begun meanwhile ends in order.
            runtime.shutdown().await;
            return Err(serve_failed(&error));
        }
    };
    match runtime.engine().await {
        Ok(engine) => tracing::info!(%address, docker = engine.version, "listening"),
        Err(error) => {
            tracing::warn!(%address, error = chain(&error), "listening, but calls fail until the engine answers");
        }
    }
    if runtime.config().auth.mode == AuthMode::Keys {
        let path = toolcell_server::auth::admin_key_path(&runtime.config().data_dir);
        tracing::info!(path = %path.display(), "the admin key");
    }
    let stop = CancellationToken::new();
    let stopping = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: calls have the grace time, then every workspace is saved");
        stop.cancel();
        runtime.shutdown().await
    };
    let ((), unsaved) = tokio::join!(server.run(stop.clone()), stopping);
    if unsaved > 0 {
        let why = format!("{unsaved} could not be saved; the log says which and why");
        return Err(Failure::new("workspaces stay on this host for the next start", why));
    }
    Ok(ExitCode::SUCCESS)
}

/// Every call and connection takes descriptors; the usual soft limit of 1024 is for programs that use `select`.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}
