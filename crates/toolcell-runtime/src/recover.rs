//! What an earlier process of this data directory left behind.
//!
//! Calls of dead processes end as interrupted. Containers, workspaces and sockets that nobody is bound to are removed,
//! each under its slot's lease, so that nothing of a living process is touched. Workspaces that are newer than their
//! head are saved by the server in the background, before or by their next call.

use crate::error::{CallError, StartError};
use crate::inner::Inner;
use crate::slot::{Place, Slot};
use crate::workspace::setup::Setup;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use toolcell_lease::LeaseError;
use toolcell_model::{CallState, FencingToken, Ran, RuntimeFault, ScopeKey, ScopeTuple, TimingMs};
use toolcell_sandbox::{Found, Limits, SandboxError, SandboxSpec, ToolUser};
use toolcell_state::{Binding, FinishedCall, MAX_PAGE, StateError};

impl Inner {
    /// Ends the calls of dead processes.
    pub(crate) async fn end_interrupted_calls(&self) -> Result<(), StartError> {
        loop {
            let abandoned = self.state.take_over_abandoned().await.map_err(StartError::State)?;
            for record in &abandoned {
                let ran = if record.state == CallState::Running { Ran::Unknown } else { Ran::No };
                let end = FinishedCall {
                    state: CallState::Error,
                    output: None,
                    error: None,
                    fault: Some(interrupted(ran)),
                    decision: record.decision.clone(),
                    slot: record.slot.clone(),
                    timing: TimingMs::default(),
                    finished_at: self.clock.now(),
                };
                self.state.finish(&record.call_ref, end).await.map_err(StartError::State)?;
                tracing::warn!(call = record.call_ref.as_str(), ?ran, "interrupted by the end of its process");
            }
            if abandoned.len() < MAX_PAGE {
                return Ok(());
            }
        }
    }

    /// Removes containers and directories of this instance that no binding names. An engine that does not answer is
    /// no reason not to start: calls will say so.
    pub(crate) async fn remove_leftovers(&self) -> Result<(), StartError> {
        let bindings = self.state.bindings().await.map_err(StartError::State)?;
        let bound: HashMap<&ScopeKey, &Binding> = bindings.iter().map(|binding| (&binding.slot, binding)).collect();
        let found = match self.provider.found().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error = crate::error::chain(&error), "leftover containers cannot be looked for");
                return Ok(());
            }
        };
        let is_bound = |found: &&Found| bound.get(&found.slot).is_some_and(|binding| binding.container == found.name);
        for leftover in found.iter().filter(|found| !is_bound(found)) {
            self.under_lease(&leftover.slot, async {
                tracing::info!(container = leftover.name, "removing a container that nobody is bound to");
                self.provider.remove(&leftover.name).await
            })
            .await;
        }
        let names: HashSet<&str> = found.iter().map(|found| found.name.as_str()).collect();
        for name in directories(&self.config.data_dir.join("run")) {
            let Some(slot) = name.rsplit('-').next().and_then(|key| ScopeKey::parse(key).ok()) else { continue };
            if !names.contains(name.as_str()) && !bound.contains_key(&slot) {
                self.under_lease(&slot, self.provider.remove(&name)).await;
            }
        }
        for name in directories(&self.config.data_dir.join("slots")) {
            let Ok(slot) = ScopeKey::parse(name) else { continue };
            if !bound.contains_key(&slot) {
                self.under_lease(&slot, async {
                    self.workspaces.remove(&slot).await.map_err(|source| SandboxError::Host {
                        action: "remove",
                        path: self.workspaces.directory(&slot).display().to_string(),
                        source,
                    })
                })
                .await;
            }
        }
        Ok(())
    }

    /// Does something while nobody else can hold the slot; skips it when somebody does.
    async fn under_lease(&self, slot: &ScopeKey, work: impl Future<Output = Result<(), SandboxError>>) {
        let lease = match self.guard.acquire(slot, FencingToken(0), Duration::ZERO).await {
            Ok(lease) => lease,
            Err(LeaseError::Busy { .. }) => return,
            Err(error) => {
                tracing::warn!(slot = slot.as_str(), %error, "a leftover is kept: its slot cannot be leased");
                return;
            }
        };
        if let Err(error) = work.await {
            tracing::warn!(slot = slot.as_str(), error = crate::error::chain(&error), "a leftover stays");
        }
        if let Err(error) = lease.release().await {
            tracing::warn!(slot = slot.as_str(), %error, "a lease was not given back in order");
        }
    }

    /// Saves what a crash left unsaved, slot by slot.
    pub(crate) async fn save_what_crashes_left(self: Arc<Self>) {
        let (bindings, tuples) = match self.bound_slots().await {
            Ok(bound) => bound,
            Err(error) => {
                tracing::error!(%error, "bindings cannot be read: workspaces are saved at their next call");
                return;
            }
        };
        for binding in bindings {
            if self.stopping.is_cancelled() {
                return;
            }
            let Some(tuple) = tuples.get(&binding.slot) else { continue };
            if let Err(error) = self.recover_slot(&binding, tuple.clone()).await {
                tracing::warn!(
                    slot = binding.slot.as_str(),
                    error = crate::error::chain(&error),
                    "a workspace that a crash left behind is not saved yet; its next call tries again"
                );
            }
        }
    }

    async fn bound_slots(&self) -> Result<(Vec<Binding>, HashMap<ScopeKey, ScopeTuple>), StateError> {
        let bindings = self.state.bindings().await?;
        let mut tuples = HashMap::new();
        let mut cursor = None;
        while !bindings.is_empty() {
            let page = self.state.slots(cursor.as_ref(), MAX_PAGE).await?;
            tuples.extend(page.items.into_iter().map(|slot| (slot.key, slot.tuple)));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        Ok((bindings, tuples))
    }

    async fn recover_slot(&self, binding: &Binding, tuple: ScopeTuple) -> Result<(), CallError> {
        let slot = self.slot(&tuple);
        let place = slot.enter(false).await?;
        self.take_up_bound(&slot, &place, binding).await
    }

    /// Makes a slot resident from what its binding says, and so saves what a crash or a failed stop left there. The
    /// caller is alone in the slot.
    pub(crate) async fn take_up_bound(&self, slot: &Slot, place: &Place, binding: &Binding) -> Result<(), CallError> {
        if slot.residency.lock().await.is_some() {
            return Ok(());
        }
        let (spec, setup, idle_timeout) = self.spec_of(binding).await;
        self.acquire(slot, place, &spec, &setup, idle_timeout).await?;
        Ok(())
    }

    /// The agent's spec that the binding was made from; where the configuration has changed, a plain one with the
    /// same image and roots.
    async fn spec_of(&self, binding: &Binding) -> (SandboxSpec, Setup, Duration) {
        for agent in self.agents.values() {
            if let Ok(image) = self.provider.image(&agent.spec.image).await
                && agent.spec.hash(&image.id) == binding.spec_hash
            {
                return (agent.spec.clone(), agent.setup.clone(), agent.idle_timeout);
            }
        }
        // Mounts the disk of one that counts, so that its roots can be seen.
        self.workspaces.is_newest(&binding.slot).await;
        let spec = SandboxSpec {
            image: binding.image_digest.clone(),
            limits: Limits::default(),
            user: ToolUser::default(),
            persist: self.workspaces.roots(&binding.slot),
            mounts: Vec::new(),
            read_only_root: true,
        };
        (spec, Setup::default(), Duration::ZERO)
    }
}

fn interrupted(ran: Ran) -> RuntimeFault {
    RuntimeFault {
        code: "interrupted".to_owned(),
        title: "the server ended before the call did".to_owned(),
        detail: match ran {
            Ran::No => "it had not started; call again with another id".to_owned(),
            Ran::Yes | Ran::Unknown => {
                "it may have run in part; look at its effects before calling again with another id".to_owned()
            }
        },
        ran,
        retry_after_ms: None,
    }
}

fn directories(path: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
