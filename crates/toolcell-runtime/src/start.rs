//! Starting and ending a runtime.

mod encryption;
pub(crate) mod stores;

use crate::agent;
use crate::batch::{Batch, BatchRequest};
use crate::bounded_store::BoundedStore;
use crate::config::{Config, Durability, IdSecret, LeaseUrl, StateUrl};
use crate::error::{StartError, SubmitError};
use crate::explain::{ExplainError, Explanation, Hypothesis};
use crate::inner::{Inner, lock};
use crate::output::{OutputPage, OutputStore};
use crate::session::{SessionChange, SessionError, SessionPermissions};
use crate::workspace::Workspaces;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolcell_lease::LocalGuard;
use toolcell_model::{BatchId, CallRef, Clock, SystemClock, UnixMillis};
use toolcell_protocol::Stream;
use toolcell_sandbox::docker::DockerConfig;
use toolcell_sandbox::{DockerProvider, Engine, SandboxError};
use toolcell_snapshot::{NoneStore, SnapshotEngine, SnapshotStore};
use toolcell_state::{
    BatchRecord, CallFilter, CallRecord, Cursor, Page, SessionKey, SqliteStore, StateError, StateStore,
};

/// A guest without its host goes on for this long; its files stay in any case.
const ORPHAN_TTL: Duration = Duration::from_secs(15 * 60);
/// How often old records are looked for.
const EXPIRE_LOOK: Duration = Duration::from_secs(60);

/// What kind of process this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The one server of its data directory.
    Server,
    /// A command that does its own work beside others.
    Embedded,
}

/// A running Toolcell. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub(crate) inner: Arc<Inner>,
    _held: Option<Arc<File>>,
}

impl Runtime {
    /// Opens the data directory and everything in it, ends what earlier processes left unfinished, and starts the
    /// background work.
    ///
    /// # Errors
    /// [`StartError`]. That no engine answers is not one: calls will say so, and succeed once it does.
    pub async fn open(mut config: Config, role: Role) -> Result<Self, StartError> {
        if role == Role::Embedded {
            // It saves before it ends in any case; so its result can say that it is saved.
            config.snapshots.durability = Durability::Call;
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        make_private(&config.data_dir)?;
        let held = match role {
            Role::Server => Some(Arc::new(hold_directory(&config.data_dir)?)),
            Role::Embedded => None,
        };
        let agents = agent::build(&config)?;
        let state: Arc<dyn StateStore> = match config.state.url {
            StateUrl::Sqlite => Arc::new(SqliteStore::open(&config.data_dir).map_err(StartError::State)?),
        };
        let guard = match config.lease.url {
            LeaseUrl::Local => LocalGuard::open(&config.data_dir, Arc::clone(&clock)).map_err(StartError::Guard)?,
        };
        let secret = id_secret(&config)?;
        let open_engine = async |store: Arc<dyn SnapshotStore>| {
            let limit = Duration::from_millis(config.snapshots.timeout_ms);
            let store = Arc::new(BoundedStore::new(store, limit));
            let engine = SnapshotEngine::open(store, *secret.expose(), Arc::clone(&clock)).await;
            engine.map_err(StartError::Snapshots)
        };
        let snapshots = open_engine(stores::open(&config).await?).await?;
        let scratch = open_engine(Arc::new(NoneStore::new())).await?;
        let provider = DockerProvider::new(DockerConfig {
            host: config.docker_host(),
            instance: state.instance_id().clone(),
            data_dir: config.data_dir.clone(),
            pull_timeout: Duration::from_millis(config.docker.pull_timeout_ms.0),
            orphan_ttl: ORPHAN_TTL,
        })
        .map_err(StartError::Sandbox)?;
        let data_dir_error =
            |source| StartError::DataDir { action: "make a directory in", path: config.data_dir.clone(), source };
        let outputs = OutputStore::open(&config.data_dir).map_err(data_dir_error)?;
        let workspaces = Workspaces::new(&config.data_dir, config.workspaces.limit);
        let inner = Arc::new(Inner {
            config,
            agents,
            clock,
            state,
            guard: Arc::new(guard),
            snapshots,
            scratch,
            provider: Arc::new(provider),
            outputs,
            activities: std::sync::Mutex::default(),
            workspaces,
            slots: std::sync::Mutex::default(),
            running: std::sync::Mutex::default(),
            open_batches: std::sync::atomic::AtomicUsize::new(0),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            stopping: CancellationToken::new(),
        });
        inner.end_interrupted_calls().await?;
        if role == Role::Server {
            inner.remove_old_setups().await;
            inner.workspaces.announce().await;
            inner.remove_leftovers().await?;
            inner.tasks.spawn(Arc::clone(&inner).save_what_crashes_left());
            inner.tasks.spawn(Arc::clone(&inner).stop_idle_slots());
            inner.tasks.spawn(Arc::clone(&inner).expire_records());
        }
        Ok(Self { inner, _held: held })
    }

    /// Whether a runtime would start with this configuration, as far as that can be told without opening anything.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn check(config: &Config) -> Result<(), StartError> {
        agent::build(config)?;
        DockerProvider::check_host(&config.docker_host()).map_err(StartError::Sandbox)
    }

    /// The configuration it runs with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// Records a batch and starts it.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing was recorded then.
    pub async fn submit(&self, request: BatchRequest) -> Result<Batch, SubmitError> {
        self.inner.submit(request).await
    }

    /// One call as far as it got.
    ///
    /// # Errors
    /// The state store's.
    pub async fn call(&self, call: &CallRef) -> Result<Option<CallRecord>, StateError> {
        self.inner.state.call(call).await
    }

    /// Recorded calls, newest first.
    ///
    /// # Errors
    /// The state store's; [`StateError::BadCursor`].
    pub async fn calls(
        &self,
        filter: &CallFilter,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<CallRecord>, StateError> {
        self.inner.state.calls(filter, cursor, limit).await
    }

    /// One batch with its calls.
    ///
    /// # Errors
    /// The state store's.
    pub async fn batch(&self, batch: &BatchId) -> Result<Option<BatchRecord>, StateError> {
        self.inner.state.batch(batch).await
    }

    /// What a session of an agent may do.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn session_permissions(&self, session: &SessionKey) -> Result<SessionPermissions, SessionError> {
        self.inner.session_permissions(session).await
    }

    /// Changes what a session may do; calls that are under way keep what they were decided by. Without `admin` it can
    /// only become tighter: a stricter mode, more rules that ask or deny.
    ///
    /// # Errors
    /// [`SessionError`]; nothing has changed then.
    pub async fn set_session_permissions(
        &self,
        session: &SessionKey,
        change: SessionChange,
        admin: bool,
    ) -> Result<SessionPermissions, SessionError> {
        self.inner.set_session_permissions(session, change, admin).await
    }

    /// What would become of a call, with what every stage of the decision sees. Nothing runs and nothing is recorded.
    ///
    /// # Errors
    /// [`ExplainError`].
    pub async fn explain(&self, hypothesis: &Hypothesis) -> Result<Explanation, ExplainError> {
        self.inner.explain(hypothesis).await
    }

    /// Stops a call that waits or runs in this process: its whole process tree. `false` when it is not here.
    #[must_use]
    pub fn cancel(&self, call: &CallRef) -> bool {
        self.inner.cancel(call)
    }

    /// Part of a spooled output stream; `None` when the result itself has all of it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn output(
        &self,
        call: &CallRef,
        stream: Stream,
        offset: u64,
        limit: u64,
    ) -> std::io::Result<Option<OutputPage>> {
        self.inner.outputs.page(call, stream, offset, limit)
    }

    /// Asks the container engine whether it is there.
    ///
    /// # Errors
    /// [`SandboxError::EngineUnavailable`], [`SandboxError::EngineForbidden`].
    pub async fn engine(&self) -> Result<Engine, SandboxError> {
        self.inner.provider.engine().await
    }

    /// Takes no more batches; lets running calls end within the grace time, then cancels them; saves and stops every
    /// slot. Answers with how many could not be saved: they are logged and stay on this host.
    pub async fn shutdown(&self) -> usize {
        let inner = &self.inner;
        inner.closing.cancel();
        let grace = Duration::from_millis(inner.config.server.grace_ms);
        let ended = async {
            while inner.open_batches.load(std::sync::atomic::Ordering::Relaxed) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(grace, ended).await.is_err() {
            let running: Vec<CallRef> = lock(&inner.running).keys().cloned().collect();
            for call in &running {
                tracing::warn!(call = call.as_str(), "cancelled: the grace time is over");
                inner.cancel(call);
            }
        }
        inner.stopping.cancel();
        inner.tasks.close();
        inner.tasks.wait().await;
        let stops = inner.known_slots().into_iter().map(|slot| async move {
            let Ok(place) = slot.enter(false).await else { return 1 };
            let Err(error) = inner.stop_slot(&slot, &place).await else { return 0 };
            inner.workspaces.keep_across_boots(&slot.key);
            tracing::error!(
                slot = slot.key.as_str(),
                error = crate::error::chain(&error),
                "not saved; the workspace stays on this host for the next start"
            );
            1
        });
        futures_util::future::join_all(stops).await.into_iter().sum()
    }
}

impl Inner {
    async fn expire_records(self: Arc<Self>) {
        loop {
            let keep = self.config.limits.records_ms;
            let before = UnixMillis(self.clock.now().0.saturating_sub(keep));
            match self.state.expire(before).await {
                Ok(expired) => expired.iter().for_each(|call| self.outputs.remove(call)),
                Err(error) => tracing::warn!(%error, "old records could not be removed"),
            }
            tokio::select! {
                () = tokio::time::sleep(EXPIRE_LOOK) => {}
                () = self.stopping.cancelled() => return,
            }
        }
    }
}

pub(crate) fn make_private(directory: &Path) -> Result<(), StartError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|source| StartError::DataDir { action: "make", path: directory.to_owned(), source })
}

/// One server per data directory, for as long as the file is open.
fn hold_directory(data_dir: &Path) -> Result<File, StartError> {
    let path = data_dir.join("server.lock");
    let failed = |source| StartError::DataDir { action: "lock", path: path.clone(), source };
    let mut options = File::options();
    let file = options.create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(failed)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(StartError::DataDirHeld { path: data_dir.to_owned() }),
        Err(error) => Err(failed(error.into())),
    }
}

/// The configured secret, or the one that the first start has made.
fn id_secret(config: &Config) -> Result<IdSecret, StartError> {
    if let Some(secret) = &config.snapshots.id_secret {
        return Ok(secret.clone());
    }
    let path = config.data_dir.join("id_secret");
    let failed = |action| {
        let path = path.clone();
        move |source| StartError::DataDir { action, path, source }
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => IdSecret::try_from(text.trim().to_owned())
            .map_err(|error| failed("use")(std::io::Error::new(std::io::ErrorKind::InvalidData, error))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes).map_err(StartError::Random)?;
            let text = data_encoding::HEXLOWER.encode(&bytes);
            publish_secret(&path, &text).map_err(failed("write"))?;
            // Another process may have been first: what stands there is the secret.
            let text = std::fs::read_to_string(&path).map_err(failed("read"))?;
            IdSecret::try_from(text.trim().to_owned())
                .map_err(|error| failed("use")(std::io::Error::new(std::io::ErrorKind::InvalidData, error)))
        }
        Err(error) => Err(failed("read")(error)),
    }
}

/// Whole or not at all, and only if nothing is there.
fn publish_secret(path: &Path, text: &str) -> std::io::Result<()> {
    let temporary = path.with_file_name(format!(".id_secret-{}", std::process::id()));
    let written = File::options().write(true).create_new(true).mode(0o600).open(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        match std::fs::hard_link(&temporary, path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    });
    let removed = std::fs::remove_file(&temporary);
    written.and(removed)
}
