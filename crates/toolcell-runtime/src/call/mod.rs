//! One call: validated, decided, placed in its slot, decided again, claimed, run, recorded.

mod environment;
mod execute;
mod files;

pub(crate) use environment::BASE as BASE_ENVIRONMENT;

use crate::agent::Agent;
use crate::error::CallError;
use crate::inner::{Inner, lock};
use crate::slot::{Residency, Slot};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tokio_util::sync::CancellationToken;
use toolcell_model::{
    CallContext, CallFault, CallOutcome, CallRef, CallState, Durable, Ran, SlotReport, TimingMs, ToolName,
};
use toolcell_permission::shell::settings::{Dialect, ShellSettings};
use toolcell_permission::{
    Authorization, Basis, CallDigest, Clearance, ContainerPath, Context, Decision, DescribedCall, Effect, Permit,
    authorize,
};
use toolcell_protocol::{Resolution, Stream};
use toolcell_sandbox::Shell;
use toolcell_state::{CallUpdate, FinishedCall};
use toolcell_tools::{ParsedCall, ToolInput};

/// A running tool's output, as it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveOutput {
    /// Which call.
    pub call: CallRef,
    /// To which stream.
    pub stream: Stream,
    /// What it wrote.
    pub data: Vec<u8>,
}

/// Who waits for a call, and how it is stopped.
#[derive(Debug, Clone)]
pub(crate) struct Attention {
    pub(crate) cancel: CancellationToken,
    pub(crate) live: Option<Sender<LiveOutput>>,
}

/// A call that may go on to its slot.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) parsed: ParsedCall,
    clearance: Clearance,
    /// Of the first decision, and so of the second: what changes meanwhile applies to later calls.
    permissions: Arc<Context>,
    started: Instant,
    decide: Duration,
}

/// What the first decision made of a call.
#[derive(Debug)]
pub(crate) enum Prepared {
    Ready(Box<Ready>),
    Ended(Box<FinishedCall>),
    Asking(Decision),
}

/// Where a call rests.
#[derive(Debug, Clone)]
pub(crate) enum Rest {
    Ended(Box<FinishedCall>),
    Asking(Decision),
}

impl Ready {
    /// Whether it may run beside others in its slot.
    pub(crate) fn is_shared(&self) -> bool {
        self.parsed.concurrency_safe()
    }
}

/// Whether a save has something to do after it. What a command says of itself does not count, what its operator says
/// does.
fn changes_files(call: &ParsedCall) -> bool {
    match call.effect() {
        Effect::Read => false,
        Effect::Write => true,
        Effect::Execute => !call.read_only(),
    }
}

/// With the shell that really runs shell text in the container: bash until it was known. Text that means something else
/// there is decided anew.
fn in_shell(permissions: Arc<Context>, shell: Option<Shell>) -> Arc<Context> {
    let dialect = match shell {
        Some(Shell::Bash) | None => Dialect::Bash,
        Some(Shell::Sh) => Dialect::Sh,
    };
    if permissions.shell().dialect == dialect {
        return permissions;
    }
    let shell = ShellSettings { dialect, ..permissions.shell().clone() };
    Arc::new(Arc::unwrap_or_clone(permissions).with_shell(shell))
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

fn decision_json(decision: &Decision) -> Option<serde_json::Value> {
    serde_json::to_value(decision).ok()
}

impl Inner {
    /// Validation and the first decision: without slot or container.
    pub(crate) async fn prepare(
        &self,
        agent: &Agent,
        context: &CallContext,
        tool: &ToolName,
        input: &serde_json::Value,
        operator: bool,
    ) -> Prepared {
        let started = self.clock.monotonic();
        let ended = |state, error, decision: Option<&Decision>| {
            let total = self.clock.monotonic().saturating_duration_since(started);
            Prepared::Ended(Box::new(FinishedCall {
                state,
                output: None,
                error: Some(error),
                fault: None,
                decision: decision.and_then(decision_json),
                slot: None,
                timing: TimingMs { total: millis(total), ..TimingMs::default() },
                finished_at: self.clock.now(),
            }))
        };
        let parsed = match agent.catalogue.parse(tool, input) {
            Ok(parsed) => parsed,
            Err(fault) => return ended(CallState::Invalid, fault, None),
        };
        if let Some(fault) = parsed.outside_roots(&agent.file_roots) {
            return ended(CallState::Failed, fault, None);
        }
        let permissions = match self.permissions(agent, context).await {
            Ok(permissions) => self.as_of_now(permissions),
            Err(error) => return Prepared::Ended(Box::new(self.failed_end(&CallError::Session(error)))),
        };
        let described = parsed.described();
        let authorization = authorize(&DescribedCall::new(&described, context, permissions.shell()), &permissions);
        drop(described);
        let authorization = if operator { authorization.confirmed_by_operator() } else { authorization };
        match authorization {
            Authorization::Denied(decision) => ended(CallState::Denied, denial(&decision), Some(&decision)),
            Authorization::Ask(asked) => Prepared::Asking(asked.into_decision()),
            Authorization::Allowed(clearance) => {
                let decide = self.clock.monotonic().saturating_duration_since(started);
                Prepared::Ready(Box::new(Ready { parsed, clearance, permissions, started, decide }))
            }
        }
    }

    /// Runs a prepared call in its slot, and saves as `durability` says.
    pub(crate) async fn run(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        agent: &Agent,
        context: &CallContext,
        call: &CallRef,
        ready: Ready,
        attention: &Attention,
    ) -> Rest {
        let started = ready.started;
        let mut progress = Progress {
            timing: TimingMs { decide: millis(ready.decide), ..TimingMs::default() },
            decision: decision_json(ready.clearance.decision()),
            slot: None,
            ran: Ran::No,
        };
        let outcome = match self.run_in_slot(slot, agent, context, call, ready, attention, &mut progress).await {
            Ok(Outcome::Ended(outcome)) => outcome,
            Ok(Outcome::Asking(decision)) => return Rest::Asking(decision),
            Err(CallError::CancelledBeforeStart) => CallOutcome {
                state: CallState::Cancelled,
                output: None,
                error: Some(CallFault {
                    code: "cancelled".to_owned(),
                    message: "the call was cancelled before it started".to_owned(),
                }),
                fault: None,
            },
            Err(error) => {
                let fault = error.fault(progress.ran);
                tracing::warn!(
                    call = call.as_str(),
                    slot = slot.key.as_str(),
                    code = fault.code,
                    detail = fault.detail,
                    "a call failed"
                );
                CallOutcome { state: CallState::Error, output: None, error: None, fault: Some(fault) }
            }
        };
        progress.timing.total = millis(self.clock.monotonic().saturating_duration_since(started));
        let CallOutcome { state, output, error, fault } = outcome;
        let Progress { timing, decision, slot, .. } = progress;
        let finished_at = self.clock.now();
        Rest::Ended(Box::new(FinishedCall { state, output, error, fault, decision, slot, timing, finished_at }))
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one call, used in this one place")]
    async fn run_in_slot(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        agent: &Agent,
        context: &CallContext,
        call: &CallRef,
        ready: Ready,
        attention: &Attention,
        progress: &mut Progress,
    ) -> Result<Outcome, CallError> {
        let waiting = self.clock.monotonic();
        let mut shared = ready.is_shared();
        let writes = changes_files(&ready.parsed);
        // Not cancelled halfway: a container in the making is finished, and is there for the next call.
        let (place, residency) = loop {
            let place = tokio::select! {
                entered = slot.enter(shared) => entered?,
                () = attention.cancel.cancelled() => return Err(CallError::CancelledBeforeStart),
            };
            match self.acquire(slot, &place, &agent.spec, &agent.setup, agent.idle_timeout).await? {
                Some(residency) if writes && residency.save_failed.load(Ordering::Acquire) => {
                    // The window of unsaved changes is bounded: first what is there, then more. Not in its place: while
                    // it waits for the store, calls that only read go on.
                    drop(place);
                    tokio::select! {
                        saved = self.save_in_time(&residency) => saved?,
                        () = attention.cancel.cancelled() => return Err(CallError::CancelledBeforeStart),
                    }
                }
                Some(residency) => break (place, residency),
                None => shared = false,
            }
        };
        progress.timing.acquire = millis(self.clock.monotonic().saturating_duration_since(waiting));
        residency.touch(self.clock.monotonic());
        let restored_from = residency.take_restored_from();
        let permissions = in_shell(Arc::clone(&ready.permissions), residency.shell);
        let placed = Placed { slot, agent, residency: &residency, permissions: &permissions, call, attention };
        let ran = self.run_placed(&placed, context, ready, progress).await;
        residency.touch(self.clock.monotonic());
        drop(place);
        let (outcome, change) = match ran {
            Ok(Finish::Ended { outcome, change }) => (outcome, change),
            Ok(Finish::Asking(decision)) => {
                residency.set_restored_from(restored_from);
                return Ok(Outcome::Asking(decision));
            }
            Err(error) => {
                progress.slot = Some(self.slot_report(slot, &residency, restored_from, residency.changes()));
                return Err(error);
            }
        };
        // What only reads waits for no store; what it says is saved is what is.
        let saved = if writes { self.save_as_configured(slot, &residency, change).await } else { Ok(()) };
        progress.slot = Some(self.slot_report(slot, &residency, restored_from, change));
        let mut outcome = outcome;
        if let Err(error) = saved {
            // The tool has run and its output is real; that it is saved is what cannot be said.
            outcome.fault = Some(error.fault(Ran::Yes));
            outcome.state = CallState::Error;
        }
        Ok(Outcome::Ended(outcome))
    }

    async fn run_placed(
        self: &Arc<Self>,
        placed: &Placed<'_>,
        context: &CallContext,
        ready: Ready,
        progress: &mut Progress,
    ) -> Result<Finish, CallError> {
        let Ready { parsed, clearance, .. } = ready;
        let Placed { residency, permissions, .. } = placed;
        let changes_files = changes_files(&parsed);
        let described = parsed.described();
        let described = DescribedCall::new(&described, context, permissions.shell());
        let real = self.real_paths(residency, &described).await?;
        let real = match real {
            Ok(real) => real,
            Err(fault) => return Ok(Finish::failed(fault, residency)),
        };
        let resolved = described.resolved(real).map_err(|error| CallError::Internal(error.to_string()))?;
        let digest = resolved.digest();
        let permit = match clearance.authorize(&resolved, permissions) {
            Authorization::Allowed(permit) => permit,
            Authorization::Ask(asked) => return Ok(Finish::Asking(asked.into_decision())),
            Authorization::Denied(decision) => {
                progress.decision = decision_json(&decision);
                let outcome =
                    CallOutcome { state: CallState::Denied, output: None, error: Some(denial(&decision)), fault: None };
                return Ok(Finish::Ended { outcome, change: residency.changes() });
            }
        };
        progress.decision = decision_json(permit.decision());
        if permit.basis() == Basis::Operator
            && let Some(decision) = progress.decision.as_mut().and_then(serde_json::Value::as_object_mut)
        {
            decision.insert("answered_by".to_owned(), permit.basis().as_str().into());
        }
        if placed.attention.cancel.is_cancelled() {
            return Err(CallError::CancelledBeforeStart);
        }
        let claimed = self.state.claim_started(placed.call, residency.token, self.clock.now()).await;
        if !claimed.map_err(CallError::State)? {
            return Err(CallError::AlreadyStarted);
        }
        let began = self.clock.monotonic();
        progress.ran = Ran::Unknown;
        let change = changes_files.then(|| residency.begin_change());
        if changes_files {
            self.save_lazily(placed.slot, placed.residency);
        }
        let outcome = self.run_tool(placed, permit, &digest, parsed.into_input()).await;
        progress.timing.run = millis(self.clock.monotonic().saturating_duration_since(began));
        let change = change.map_or_else(|| residency.changes(), |change| change.end());
        if changes_files {
            self.save_lazily(placed.slot, placed.residency);
        }
        match outcome {
            Ok(outcome) => Ok(Finish::Ended { outcome, change }),
            Err(CallError::Sandbox(source)) if residency.sandbox.link().is_closed() => {
                let words = self.provider.last_words(residency.sandbox.name()).await;
                Err(CallError::SandboxEnded { words, source })
            }
            Err(error) => Err(error),
        }
    }

    async fn run_tool(
        &self,
        placed: &Placed<'_>,
        permit: Permit,
        digest: &CallDigest,
        input: ToolInput,
    ) -> Result<CallOutcome, CallError> {
        match input {
            ToolInput::Execute(input) => self.execute(placed, permit, digest, input).await,
            ToolInput::ReadFile(input) => self.read_file(placed, permit, digest, &input).await,
            ToolInput::WriteFile(input) => self.write_file(placed, permit, digest, &input).await,
            ToolInput::ListFiles(input) => self.list_files(placed, permit, digest, &input).await,
            ToolInput::Custom(input) => self.execute(placed, permit, digest, input.into_execute()).await,
        }
    }

    /// At this moment, if any of its rules ends at some moment.
    pub(crate) fn as_of_now(&self, permissions: Arc<Context>) -> Arc<Context> {
        if permissions.rules().iter().any(|rule| rule.expires().is_some()) {
            Arc::new(Arc::unwrap_or_clone(permissions).at(self.clock.now()))
        } else {
            permissions
        }
    }

    /// Where a call's paths lead, as the guest says. One that leads nowhere is a file tool's failure; a command may find
    /// out by itself.
    async fn real_paths(
        &self,
        residency: &Residency,
        call: &DescribedCall<'_>,
    ) -> Result<Result<Vec<ContainerPath>, CallFault>, CallError> {
        let logical = call.paths();
        let is_command = call.analysis().is_some();
        if logical.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let paths = logical.iter().map(|path| path.as_bytes().to_vec()).collect();
        let resolutions = residency.sandbox.link().resolve(paths).await.map_err(CallError::Sandbox)?;
        let mut real = Vec::with_capacity(logical.len());
        for (path, resolution) in logical.iter().zip(resolutions) {
            let refused =
                |code: &str, why: &str| CallFault { code: code.to_owned(), message: format!("`{path}`: {why}") };
            match resolution {
                Resolution::Real(bytes) => match ContainerPath::from_bytes(&bytes) {
                    Ok(path) => real.push(path),
                    Err(error) => return Ok(Err(refused("invalid", &error.to_string()))),
                },
                Resolution::Unresolvable { .. } if is_command => real.push(path.clone()),
                Resolution::Unresolvable { error } => {
                    return Ok(Err(CallFault { code: error.code.as_str().to_owned(), message: error.message }));
                }
            }
        }
        Ok(Ok(real))
    }

    async fn save_as_configured(&self, slot: &Slot, residency: &Residency, change: u64) -> Result<(), CallError> {
        use crate::config::Durability;
        if slot.is_ephemeral() || self.snapshots.keeps_nothing() {
            return Ok(());
        }
        match self.config.snapshots.durability {
            Durability::Call => self.save(residency, change).await,
            Durability::Lazy | Durability::Stop => Ok(()),
        }
    }

    fn slot_report(
        &self,
        slot: &Slot,
        residency: &Residency,
        restored_from: Option<toolcell_model::SnapshotId>,
        change: u64,
    ) -> SlotReport {
        let saved = residency.saved();
        let contains = saved.changes >= change && !slot.is_ephemeral();
        let durable = if slot.is_ephemeral() {
            Durable::No
        } else if self.snapshots.keeps_nothing() {
            Durable::NoStore
        } else if contains && self.snapshots.store().is_durable() {
            Durable::Yes
        } else {
            Durable::No
        };
        SlotReport {
            key: slot.key.clone(),
            scope: slot.scope(),
            ephemeral: slot.is_ephemeral(),
            generation: saved.generation,
            restored_from,
            snapshot: saved.snapshot.filter(|_| contains),
            durable,
        }
    }

    /// Records where a call rests.
    pub(crate) async fn record(&self, call: &CallRef, rest: &Rest) -> Result<bool, toolcell_state::StateError> {
        match rest {
            Rest::Ended(end) => self.state.finish(call, (**end).clone()).await,
            Rest::Asking(decision) => {
                let update = CallUpdate::Ask { decision: decision_json(decision) };
                self.state.set_state(call, &[CallState::Queued], update).await
            }
        }
    }

    /// Stops a call that waits or runs here. `false` when it is not here (any more).
    pub(crate) fn cancel(&self, call: &CallRef) -> bool {
        lock(&self.running).get(call).is_some_and(|running| {
            running.cancel.cancel();
            true
        })
    }
}

/// What is known of a call while it runs.
struct Progress {
    timing: TimingMs,
    decision: Option<serde_json::Value>,
    slot: Option<SlotReport>,
    ran: Ran,
}

/// A call in its place.
pub(crate) struct Placed<'a> {
    slot: &'a Arc<Slot>,
    pub(crate) agent: &'a Agent,
    pub(crate) residency: &'a Arc<Residency>,
    /// What it is decided by.
    pub(crate) permissions: &'a Context,
    pub(crate) call: &'a CallRef,
    pub(crate) attention: &'a Attention,
}

enum Outcome {
    Ended(CallOutcome),
    Asking(Decision),
}

/// What a call in its place came to; `change` is what a save must have to contain it.
enum Finish {
    Ended { outcome: CallOutcome, change: u64 },
    Asking(Decision),
}

impl Finish {
    fn failed(fault: CallFault, residency: &Residency) -> Self {
        Self::Ended { outcome: failed(fault), change: residency.changes() }
    }
}

pub(crate) fn failed(error: CallFault) -> CallOutcome {
    CallOutcome { state: CallState::Failed, output: None, error: Some(error), fault: None }
}

fn denial(decision: &Decision) -> CallFault {
    CallFault { code: "denied".to_owned(), message: decision.message.clone() }
}
