//! Batches: recorded whole or not at all, then run by a task of their own. Whoever asked only waits; a client that
//! goes away changes nothing.

use crate::agent::Agent;
use crate::call::{Attention, LiveOutput, Prepared, Ready, Rest};
use crate::error::SubmitError;
use crate::inner::{Inner, lock};
use crate::slot::Slot;
use futures_util::future::join_all;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolcell_model::{BatchId, CallContext, CallRef, CallState, Identity, SlotChoice, ToolCall};
use toolcell_state::{CallRecord, NewBatch, NewCall, Recorded, StateError, canonical_json_digest};

/// Batches that are open at once; one more is refused with `busy`.
pub(crate) const MAX_OPEN_BATCHES: usize = 4096;
/// How often a call that another request started is looked at while waiting for it.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How often a result that could not be recorded is tried again.
const RECORD_AGAIN: Duration = Duration::from_secs(1);

/// A request's calls.
#[derive(Debug)]
pub struct BatchRequest {
    /// Who all of them are for.
    pub context: CallContext,
    /// The calls, in order.
    pub calls: Vec<ToolCall>,
    /// The person who typed them, as their own, counts as having answered every ASK. A deny still denies.
    pub operator: bool,
    /// Where running tools' output goes as it comes; bounded, and a tool waits for a slow listener.
    pub live: Option<Sender<LiveOutput>>,
}

/// A recorded batch.
#[derive(Debug)]
pub struct Batch {
    /// Its name.
    pub id: BatchId,
    /// Its calls' names, in the order of the request.
    pub calls: Vec<CallRef>,
    inner: Arc<Inner>,
    done: oneshot::Receiver<Vec<CallRecord>>,
}

/// One call of a batch on its way.
struct Member {
    record: CallRecord,
    /// It was recorded before: nothing runs.
    existing: bool,
}

impl Inner {
    /// Records a batch and starts it.
    pub(crate) async fn submit(self: &Arc<Self>, request: BatchRequest) -> Result<Batch, SubmitError> {
        let arrived = self.clock.now();
        if self.closing.is_cancelled() {
            return Err(SubmitError::ShuttingDown);
        }
        let open = Open::begin(self)?;
        let BatchRequest { context, calls, operator, live } = request;
        let limit = self.config.limits.batch_calls;
        if calls.is_empty() {
            return Err(SubmitError::Empty);
        }
        if calls.len() > limit {
            return Err(SubmitError::TooManyCalls { calls: calls.len(), limit });
        }
        let agent = self.agent(&context)?;
        let choice = SlotChoice::resolve(agent.scope, &context, agent.workspace.as_ref());
        if let (SlotChoice::Ephemeral { wanted }, true) = (&choice, agent.require_identity) {
            return Err(identity_required(&context, *wanted));
        }
        let mut ids = HashSet::new();
        if let Some(twice) = calls.iter().find(|call| !ids.insert(&call.id)) {
            return Err(SubmitError::CallIdConflict { id: twice.id.clone() });
        }
        let batch = BatchId::generate();
        let new: Vec<NewCall> = calls.into_iter().map(new_call).collect();
        let recorded = self.state.record_batch(NewBatch {
            batch: batch.clone(),
            context: context.clone(),
            calls: new.clone(),
            now: arrived,
        });
        let recorded = recorded.await.map_err(|error| match error {
            StateError::CallIdConflict { id } => SubmitError::CallIdConflict { id },
            other => SubmitError::State(other),
        })?;
        let members: Vec<Member> = new
            .into_iter()
            .zip(recorded)
            .map(|(call, recorded)| match recorded {
                Recorded::Existing(record) => Member { record: *record, existing: true },
                Recorded::Fresh => {
                    Member { record: self.fresh_record(call, &batch, &context, arrived), existing: false }
                }
            })
            .collect();
        let refs: Vec<CallRef> = members.iter().map(|member| member.record.call_ref.clone()).collect();
        for member in members.iter().filter(|member| !member.existing) {
            lock(&self.running).insert(member.record.call_ref.clone(), Running { cancel: CancellationToken::new() });
        }
        let (send, done) = oneshot::channel();
        let inner = Arc::clone(self);
        self.tasks.spawn(async move {
            let records = inner.run_batch(&agent, context, choice, members, operator, live).await;
            drop(open);
            // Nobody may be waiting any more.
            let _ = send.send(records);
        });
        Ok(Batch { id: batch, calls: refs, inner: Arc::clone(self), done })
    }

    fn agent(&self, context: &CallContext) -> Result<Arc<Agent>, SubmitError> {
        self.agents.get(&context.agent).cloned().ok_or_else(|| SubmitError::UnknownAgent {
            agent: context.agent.to_string(),
            known: self.agents.keys().map(|name| name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    fn fresh_record(
        &self,
        call: NewCall,
        batch: &BatchId,
        context: &Identity,
        arrived: toolcell_model::UnixMillis,
    ) -> CallRecord {
        CallRecord {
            call_ref: call.call_ref,
            batch: batch.clone(),
            context: context.clone(),
            id: call.id,
            tool: call.tool,
            input: call.input,
            input_digest: call.input_digest,
            state: CallState::Queued,
            owner: self.state.owner().clone(),
            token: None,
            decision: None,
            output: None,
            error: None,
            fault: None,
            slot: None,
            timing: None,
            created_at: arrived,
            started_at: None,
            finished_at: None,
        }
    }

    async fn run_batch(
        self: &Arc<Self>,
        agent: &Arc<Agent>,
        context: CallContext,
        choice: SlotChoice,
        mut members: Vec<Member>,
        operator: bool,
        live: Option<Sender<LiveOutput>>,
    ) -> Vec<CallRecord> {
        // Decisions come first, in the order of the calls; most need no slot at all.
        let mut ready: Vec<(usize, Ready)> = Vec::new();
        for (place, member) in members.iter_mut().enumerate().filter(|(_, member)| !member.existing) {
            let record = &mut member.record;
            match self.prepare(agent, &context, &record.tool, &record.input, operator).await {
                Prepared::Ready(call) => ready.push((place, *call)),
                Prepared::Ended(end) => self.rest(record, Rest::Ended(end)).await,
                Prepared::Asking(decision) => self.rest(record, Rest::Asking(decision)).await,
            }
        }
        if !ready.is_empty() {
            self.run_ready(agent, &context, choice, &mut members, ready, live).await;
        }
        for member in members.iter_mut().filter(|member| member.existing && !member.record.state.is_final()) {
            self.await_existing(&mut member.record).await;
        }
        members.into_iter().map(|member| member.record).collect()
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one batch, used in this one place")]
    async fn run_ready(
        self: &Arc<Self>,
        agent: &Arc<Agent>,
        context: &CallContext,
        choice: SlotChoice,
        members: &mut [Member],
        ready: Vec<(usize, Ready)>,
        live: Option<Sender<LiveOutput>>,
    ) {
        let slot = match self.slot_of(&context.tenant, choice).await {
            Ok(slot) => slot,
            Err(error) => {
                for (place, _) in ready {
                    if let Some(member) = members.get_mut(place) {
                        let end = self.failed_end(&error);
                        self.rest(&mut member.record, Rest::Ended(Box::new(end))).await;
                    }
                }
                return;
            }
        };
        let attention = |call: &CallRef| Attention {
            cancel: lock(&self.running).get(call).map(|running| running.cancel.clone()).unwrap_or_default(),
            live: live.clone(),
        };
        let mut rest = ready.into_iter().peekable();
        while let Some(first) = rest.next() {
            // Neighbours that only read run side by side.
            let mut group = vec![first];
            while group.iter().all(|(_, call)| call.is_shared()) {
                match rest.next_if(|(_, call)| call.is_shared()) {
                    Some(next) => group.push(next),
                    None => break,
                }
            }
            let runs = group.into_iter().map(|(place, call)| {
                let call_ref = members.get(place).map(|member| member.record.call_ref.clone());
                let (slot, attention) = (&slot, &attention);
                async move {
                    let call_ref = call_ref?;
                    let attention = attention(&call_ref);
                    Some((place, self.run(slot, agent, context, &call_ref, call, &attention).await))
                }
            });
            let done: Vec<_> = join_all(runs).await;
            for (place, end) in done.into_iter().flatten() {
                if let Some(member) = members.get_mut(place) {
                    self.rest(&mut member.record, end).await;
                }
            }
        }
        if slot.is_ephemeral() {
            self.end_ephemeral(&slot).await;
        }
    }

    async fn slot_of(
        &self,
        tenant: &toolcell_model::TenantId,
        choice: SlotChoice,
    ) -> Result<Arc<Slot>, crate::error::CallError> {
        use crate::error::CallError;
        match choice {
            SlotChoice::Persisted(tuple) => {
                let slot = self.slot(&tuple);
                if slot.note_first_use() {
                    let touched = self.state.touch_slot(&slot.key, &tuple, self.clock.now()).await;
                    touched.map_err(CallError::State)?;
                }
                Ok(slot)
            }
            SlotChoice::Ephemeral { wanted } => {
                Slot::ephemeral(tenant.clone(), wanted).map(Arc::new).map_err(CallError::Random)
            }
        }
    }

    async fn end_ephemeral(&self, slot: &Slot) {
        let Ok(place) = slot.enter(false).await else { return };
        if let Err(error) = self.stop_slot(slot, &place).await {
            tracing::error!(
                slot = slot.key.as_str(),
                error = crate::error::chain(&error),
                "an ephemeral slot stays behind; the next start removes it"
            );
        }
    }

    pub(crate) fn failed_end(&self, error: &crate::error::CallError) -> toolcell_state::FinishedCall {
        toolcell_state::FinishedCall {
            state: CallState::Error,
            output: None,
            error: None,
            fault: Some(error.fault(toolcell_model::Ran::No)),
            decision: None,
            slot: None,
            timing: toolcell_model::TimingMs::default(),
            finished_at: self.clock.now(),
        }
    }

    /// Records where a call rests, and keeps the copy in step.
    async fn rest(self: &Arc<Self>, record: &mut CallRecord, rest: Rest) {
        let recorded = self.record(&record.call_ref, &rest).await;
        lock(&self.running).remove(&record.call_ref);
        match recorded {
            Ok(true) => apply(record, rest),
            // Somebody else has ended it: theirs is what counts.
            Ok(false) => self.reread(record).await,
            Err(error) => {
                tracing::error!(call = record.call_ref.as_str(), %error, "a result could not be recorded");
                // Told to whoever waits, and recorded as soon as that is possible. Where this process ends before,
                // the call is reported as interrupted.
                let (inner, call) = (Arc::clone(self), record.call_ref.clone());
                self.tasks.spawn({
                    let rest = rest.clone();
                    async move { inner.record_later(&call, &rest).await }
                });
                apply(record, rest);
            }
        }
    }

    /// Tries again until the store takes it or the runtime stops: a full disk, say, does not stay full.
    async fn record_later(&self, call: &CallRef, rest: &Rest) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(RECORD_AGAIN) => {}
                () = self.stopping.cancelled() => {}
            }
            match self.record(call, rest).await {
                Ok(_) => return tracing::info!(call = call.as_str(), "its result is recorded now"),
                Err(error) if self.stopping.is_cancelled() => {
                    tracing::error!(call = call.as_str(), %error, "its result is lost");
                    return;
                }
                Err(_) => {}
            }
        }
    }

    async fn reread(&self, record: &mut CallRecord) {
        match self.state.call(&record.call_ref).await {
            Ok(Some(there)) => *record = there,
            Ok(None) => {}
            Err(error) => tracing::warn!(call = record.call_ref.as_str(), %error, "a call could not be read again"),
        }
    }

    /// Waits for a call that another request is running here.
    async fn await_existing(&self, record: &mut CallRecord) {
        while lock(&self.running).contains_key(&record.call_ref) && !self.stopping.is_cancelled() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.reread(record).await;
    }
}

fn apply(record: &mut CallRecord, rest: Rest) {
    match rest {
        Rest::Ended(end) => {
            let end = *end;
            record.state = end.state;
            record.output = end.output;
            record.error = end.error;
            record.fault = end.fault;
            record.decision = end.decision.or(record.decision.take());
            record.slot = end.slot;
            record.timing = Some(end.timing);
            record.finished_at = Some(end.finished_at);
        }
        Rest::Asking(decision) => {
            record.state = CallState::Asking;
            record.decision = serde_json::to_value(decision).ok();
        }
    }
}

fn new_call(call: ToolCall) -> NewCall {
    let input_digest = canonical_json_digest(&call.input);
    NewCall { id: call.id, call_ref: CallRef::generate(), tool: call.tool, input: call.input, input_digest }
}

fn identity_required(context: &CallContext, scope: toolcell_model::IsolationScope) -> SubmitError {
    use toolcell_model::IsolationScope;
    let field = match scope {
        IsolationScope::User => "user",
        IsolationScope::Session | IsolationScope::Agent | IsolationScope::Global => "session",
    };
    SubmitError::IdentityRequired { agent: context.agent.to_string(), scope: scope.to_string(), field }
}

/// A call that this process may run.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) cancel: CancellationToken,
}

/// Counts open batches.
struct Open(Arc<Inner>);

impl Open {
    fn begin(inner: &Arc<Inner>) -> Result<Self, SubmitError> {
        let before = inner.open_batches.fetch_add(1, Ordering::Relaxed);
        let open = Self(Arc::clone(inner));
        if before >= MAX_OPEN_BATCHES {
            return Err(SubmitError::Busy { open: before, limit: MAX_OPEN_BATCHES });
        }
        Ok(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open_batches.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Batch {
    /// The calls' records: when all have ended or ask, or as they are when the limit is over. Cancel safe.
    ///
    /// # Errors
    /// The state store's, when the limit is over and the records cannot be read.
    pub async fn wait(mut self, limit: Duration) -> Result<Vec<CallRecord>, StateError> {
        match tokio::time::timeout(limit, &mut self.done).await {
            Ok(Ok(records)) => Ok(records),
            // The limit is over, or the batch's task died with its runtime: what is recorded is what is known.
            Ok(Err(_)) | Err(_) => {
                let mut records = Vec::with_capacity(self.calls.len());
                for call in &self.calls {
                    records.extend(self.inner.state.call(call).await?);
                }
                Ok(records)
            }
        }
    }
}
