//! How a slot gets its resident container.
//!
//! Cold: lease, **stamp**, container, binding (durable before the first restored byte), restore exactly the snapshot
//! that the stamped head names. After a crash of this process or of the container alone, the workspace's directory is
//! newer than any snapshot; where the same acquisition still holds the head, it is taken up as it is and saved at
//! once, before a call runs.

use super::residency::Parts;
use super::{Place, Residency, Slot};
use crate::error::CallError;
use crate::inner::Inner;
use crate::slot::bridge::{GuestSink, GuestSource};
use crate::workspace::SizeLimit;
use crate::workspace::setup::Setup;
use std::sync::Arc;
use std::time::Duration;
use toolcell_lease::{Lease, LeaseError};
use toolcell_model::{FencingToken, ScopeKey, SnapshotId};
use toolcell_sandbox::{Attached, CreateRequest, Image, Sandbox, SandboxSpec};
use toolcell_snapshot::{HeadWriter, RestoreError, SlotIndex, StampError};
use toolcell_state::Binding;

/// How often a stamp that found a higher token is tried with a higher floor.
const STAMP_ATTEMPTS: usize = 3;

/// The right to a slot, proven at its head.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) lease: Lease,
    pub(crate) writer: HeadWriter,
    /// The workspace's directory is this acquisition's, complete, and newer than the head.
    workspace_is_ours: bool,
    /// The container that was bound to it, if it may still run.
    pub(crate) container: Option<Binding>,
}

/// What to make resident.
struct Plan<'a> {
    spec: &'a SandboxSpec,
    setup: &'a Setup,
    image: Image,
    idle_timeout: Duration,
}

impl Inner {
    /// The slot's residency for this spec, made if need be. `None`: another spec is resident, and only a caller that
    /// is alone in the slot may replace it.
    pub(crate) async fn acquire(
        &self,
        slot: &Slot,
        place_in_slot: &Place,
        spec: &SandboxSpec,
        setup: &Setup,
        idle_timeout: Duration,
    ) -> Result<Option<Arc<Residency>>, CallError> {
        let mut place = slot.residency.lock().await;
        if let Some(residency) = &*place {
            if residency.is_usable() && residency.spec_hash == spec.hash(&residency.image.id) {
                return Ok(Some(Arc::clone(residency)));
            }
            if residency.is_usable() && !place_in_slot.is_alone() {
                return Ok(None);
            }
            if residency.is_usable() {
                // Another spec on the same workspace: saved and stopped, then the other one starts.
                self.stop_residency(slot, residency).await?;
            } else {
                self.abandon_residency(slot, residency).await?;
            }
            *place = None;
        }
        let fetching = self.doing(&slot.key, "fetching the image");
        let image = self.provider.image(&spec.image).await.map_err(CallError::Sandbox)?;
        drop(fetching);
        let _starting = self.doing(&slot.key, "starting a container");
        let plan = Plan { spec, setup, image, idle_timeout };
        let residency = Arc::new(self.begin_residency(slot, &plan).await?);
        if let Err(error) = self.project(&residency, setup).await {
            if let Err(second) = self.stop_residency(slot, &residency).await {
                tracing::warn!(slot = slot.key.as_str(), error = crate::error::chain(&second), "not stopped");
            }
            return Err(CallError::Setup(error));
        }
        *place = Some(Arc::clone(&residency));
        Ok(Some(residency))
    }

    async fn begin_residency(&self, slot: &Slot, plan: &Plan<'_>) -> Result<Residency, CallError> {
        let held = self.hold(slot).await?;
        let spec_hash = plan.spec.hash(&plan.image.id);
        if let Some(binding) = &held.container {
            if held.workspace_is_ours
                && binding.spec_hash == spec_hash
                && let Attached::Running(sandbox) =
                    self.provider.attach(&binding.container).await.map_err(CallError::Sandbox)?
            {
                let made = self.workspaces.make(&slot.key, plan.spec, true).await.map_err(CallError::Workspace)?;
                return self.take_up(slot, plan, held, sandbox, made.limit).await;
            }
            self.provider.remove(&binding.container).await.map_err(CallError::Sandbox)?;
            if binding.restored && !held.workspace_is_ours {
                self.set_aside(&slot.key).await.map_err(CallError::Workspace)?;
            }
        }
        match self.make_container(slot, plan, &spec_hash, &held).await {
            Ok((sandbox, limit)) => self.fill(slot, plan, held, sandbox, limit).await,
            Err(error) => {
                if !held.workspace_is_ours {
                    self.forget_binding(&slot.key, &held.lease).await;
                }
                give_back(held.lease, slot).await;
                Err(error)
            }
        }
    }

    /// Lease and stamp; or, after a restart, the lease and the head that this instance left behind.
    pub(crate) async fn hold(&self, slot: &Slot) -> Result<Held, CallError> {
        if slot.is_ephemeral() {
            // The lock file goes with each lease; the scratch head remembers the token.
            let floor = self.scratch.head(&slot.key).await.map_err(CallError::Head)?;
            let floor = floor.map_or(FencingToken(0), |head| head.token);
            let lease = self.guard.acquire(&slot.key, floor, Duration::ZERO).await.map_err(CallError::Lease)?;
            let writer = self.scratch.stamp(&slot.tenant, &slot.key, lease.token(), lease.acquisition(), None);
            let writer = writer.await.map_err(CallError::Stamp)?;
            return Ok(Held { lease, writer, workspace_is_ours: false, container: None });
        }
        if let Some(held) = self.resume(slot).await? {
            return Ok(held);
        }
        let head = self.snapshots.head(&slot.key).await.map_err(CallError::Head)?;
        // Higher than every holder that is remembered anywhere.
        let bound = self.state.binding(&slot.key).await.map_err(CallError::State)?;
        let mut floor = head.map_or(FencingToken(0), |head| head.token);
        floor = bound.map_or(floor, |binding| floor.max(binding.token));
        let known = self.state.highest_generation(&slot.key).await.map_err(CallError::State)?;
        let wait = Duration::from_millis(self.config.lease.wait_ms);
        let mut attempt = 1;
        loop {
            let lease = self.guard.acquire(&slot.key, floor, wait).await.map_err(CallError::Lease)?;
            let stamp = self.snapshots.stamp(&slot.tenant, &slot.key, lease.token(), lease.acquisition(), known).await;
            match stamp {
                Ok(writer) => return Ok(Held { lease, writer, workspace_is_ours: false, container: None }),
                Err(StampError::Fenced { recorded }) if attempt < STAMP_ATTEMPTS => {
                    floor = recorded;
                    give_back(lease, slot).await;
                    attempt += 1;
                }
                // It may arrive yet: a later acquisition stamps above it.
                Err(StampError::InDoubt(_)) if attempt < STAMP_ATTEMPTS => {
                    floor = floor.max(lease.token());
                    give_back(lease, slot).await;
                    attempt += 1;
                }
                Err(error) => {
                    give_back(lease, slot).await;
                    return Err(CallError::Stamp(error));
                }
            }
        }
    }

    /// What this instance held before a restart, if nobody has acquired since.
    async fn resume(&self, slot: &Slot) -> Result<Option<Held>, CallError> {
        let Some(binding) = self.state.binding(&slot.key).await.map_err(CallError::State)? else { return Ok(None) };
        let resumed = self.guard.resume(&slot.key, binding.token, binding.acquisition).await;
        let lease = match resumed {
            Ok(lease) => lease,
            Err(LeaseError::Superseded { .. } | LeaseError::Busy { .. }) => return Ok(None),
            Err(error) => return Err(CallError::Lease(error)),
        };
        let writer = self.snapshots.resume(&slot.tenant, &slot.key, binding.token, binding.acquisition).await;
        match writer {
            Ok(_) if self.is_deleted(slot).await? => {
                // A deletion that got no further than its head: what is here goes, too.
                self.provider.remove(&binding.container).await.map_err(CallError::Sandbox)?;
                self.forget_binding(&slot.key, &lease).await;
                self.remove_workspace(slot).await;
                give_back(lease, slot).await;
                Ok(None)
            }
            Ok(writer) => {
                let workspace_is_ours = binding.restored && self.workspaces.is_newest(&slot.key).await;
                Ok(Some(Held { lease, writer, workspace_is_ours, container: Some(binding) }))
            }
            Err(StampError::Fenced { .. }) => {
                // Somebody else has stamped: what is here is old.
                self.provider.remove(&binding.container).await.map_err(CallError::Sandbox)?;
                self.forget_binding(&slot.key, &lease).await;
                give_back(lease, slot).await;
                Ok(None)
            }
            Err(StampError::HeadMissing { .. }) if self.snapshots.keeps_nothing() => {
                self.provider.remove(&binding.container).await.map_err(CallError::Sandbox)?;
                self.forget_binding(&slot.key, &lease).await;
                give_back(lease, slot).await;
                Ok(None)
            }
            Err(error) => {
                give_back(lease, slot).await;
                Err(CallError::Stamp(error))
            }
        }
    }

    async fn is_deleted(&self, slot: &Slot) -> Result<bool, CallError> {
        let head = self.snapshots.head(&slot.key).await.map_err(CallError::Head)?;
        Ok(head.is_some_and(|head| head.deleted))
    }

    async fn make_container(
        &self,
        slot: &Slot,
        plan: &Plan<'_>,
        spec_hash: &str,
        held: &Held,
    ) -> Result<(Sandbox, SizeLimit), CallError> {
        let Plan { spec, image, .. } = plan;
        let made = self.workspaces.make(&slot.key, spec, held.workspace_is_ours).await.map_err(CallError::Workspace)?;
        let request = CreateRequest { slot: &slot.key, token: held.lease.token(), spec, image, roots: &made.roots };
        let created = match self.provider.create(request).await {
            Ok(created) => created,
            Err(error) => {
                self.drop_unused_workspace(slot, held).await;
                return Err(CallError::Sandbox(error));
            }
        };
        let name = created.name.clone();
        if !slot.is_ephemeral() {
            let binding = Binding {
                slot: slot.key.clone(),
                container: name.clone(),
                token: held.lease.token(),
                acquisition: held.lease.acquisition(),
                spec_hash: spec_hash.to_owned(),
                image_digest: image.id.clone(),
                secret_path: self.provider.secret_path(&name),
                started_at: self.clock.now(),
                restored: held.workspace_is_ours,
            };
            if let Err(error) = self.state.put_binding(binding).await {
                self.remove_quietly(&name).await;
                self.drop_unused_workspace(slot, held).await;
                return Err(CallError::State(error));
            }
        }
        match self.provider.start(created).await {
            Ok(sandbox) => Ok((sandbox, made.limit)),
            Err(error) => {
                self.drop_unused_workspace(slot, held).await;
                Err(CallError::Sandbox(error))
            }
        }
    }

    /// A workspace that was made for a container that did not come: nothing of anybody is in it.
    async fn drop_unused_workspace(&self, slot: &Slot, held: &Held) {
        if !held.workspace_is_ours {
            self.remove_workspace(slot).await;
        }
    }

    /// Fills a new container's workspace: from the snapshot of the head, or with what one begins with.
    async fn fill(
        &self,
        slot: &Slot,
        plan: &Plan<'_>,
        held: Held,
        sandbox: Sandbox,
        limit: SizeLimit,
    ) -> Result<Residency, CallError> {
        if held.workspace_is_ours {
            return self.take_up(slot, plan, held, sandbox, limit).await;
        }
        let filled = self.restore(slot, plan, &held.writer, &sandbox).await;
        let filled = match filled {
            Ok(filled) if slot.is_ephemeral() => Ok(filled),
            Ok(filled) => {
                self.workspaces.mark_complete(&slot.key);
                let marked = self.state.set_binding_restored(&slot.key, held.lease.acquisition()).await;
                marked.map(|_| filled).map_err(CallError::State)
            }
            Err(error) => Err(error),
        };
        match filled {
            Ok((index, restored_from, begun)) => {
                let residency = self.residency(plan, held, sandbox, limit, index, restored_from);
                if begun {
                    // Saved like what a call writes, so that it begins only once.
                    residency.begin_change().end();
                }
                Ok(residency)
            }
            Err(error) => {
                self.remove_quietly(sandbox.name()).await;
                self.forget_binding(&slot.key, &held.lease).await;
                // What is there is half of what the head holds.
                self.remove_workspace(slot).await;
                give_back(held.lease, slot).await;
                Err(error)
            }
        }
    }

    async fn restore(
        &self,
        slot: &Slot,
        plan: &Plan<'_>,
        writer: &HeadWriter,
        sandbox: &Sandbox,
    ) -> Result<(SlotIndex, Option<SnapshotId>, bool), CallError> {
        let (link, spec) = (sandbox.link(), plan.spec);
        let Some(snapshot) = writer.snapshot() else {
            let content = self.beginning(plan.setup, spec, &plan.image).await.map_err(CallError::Setup)?;
            let restore = link.restore(&spec.persist, true).map_err(CallError::Sandbox)?;
            content.send(&restore).await.map_err(CallError::Setup)?;
            restore.finish().await.map_err(CallError::Sandbox)?;
            return Ok((SlotIndex::empty(), None, !content.is_empty()));
        };
        let sink = GuestSink::begin(link, &spec.persist).map_err(CallError::Sandbox)?;
        let restoring = self.doing(&slot.key, "restoring the workspace");
        let receipt = self.snapshots.restore_with(&slot.key, snapshot, &spec.persist, &sink, &restoring).await;
        let receipt = match receipt {
            Ok(receipt) => receipt,
            Err(source) => return Err(self.restore_failed(slot, source).await),
        };
        tracing::info!(
            slot = slot.key.as_str(),
            snapshot = %snapshot,
            files = receipt.files,
            bytes = receipt.bytes,
            duration_us = receipt.duration.as_micros(),
            "restored"
        );
        let source = GuestSource::new(link, &spec.persist, false);
        let index = self.snapshots.index_after_restore(&slot.key, snapshot, &spec.persist, &source).await;
        let index = index.map_err(|source| CallError::Restore { slot: slot.key.clone(), offer: None, source })?;
        Ok((index, Some(snapshot), false))
    }

    /// Where the snapshot itself is damaged, names one that is not; nothing older is ever used unasked.
    async fn restore_failed(&self, slot: &Slot, source: RestoreError) -> CallError {
        let offer = self.offer_older(&slot.key, source.kind()).await;
        CallError::Restore { slot: slot.key.clone(), offer, source }
    }

    /// Goes on with a workspace that is newer than the head, and saves it before a call runs.
    async fn take_up(
        &self,
        slot: &Slot,
        plan: &Plan<'_>,
        held: Held,
        sandbox: Sandbox,
        limit: SizeLimit,
    ) -> Result<Residency, CallError> {
        self.discard_live_calls(&sandbox);
        let residency = self.residency(plan, held, sandbox, limit, SlotIndex::empty(), None);
        // What ran when this process died may have changed anything.
        let change = residency.begin_change().end();
        match self.save(&residency, change).await {
            Ok(()) => {
                self.workspaces.mark_complete(&slot.key);
                residency.set_restored_from(residency.saved().snapshot);
                tracing::info!(slot = slot.key.as_str(), "a workspace that was left unsaved is taken up and saved");
                Ok(residency)
            }
            Err(error) if error.is_about_content() => {
                tracing::error!(
                    slot = slot.key.as_str(),
                    error = crate::error::chain(&error),
                    "a workspace holds what cannot be saved; it goes on unsaved"
                );
                Ok(residency)
            }
            Err(error) => {
                tracing::warn!(
                    slot = slot.key.as_str(),
                    error = crate::error::chain(&error),
                    "a workspace that a crash left behind could not be saved yet; it stays"
                );
                if let Some(lease) = residency.take_lease() {
                    give_back(lease, slot).await;
                }
                Err(error)
            }
        }
    }

    fn residency(
        &self,
        plan: &Plan<'_>,
        held: Held,
        sandbox: Sandbox,
        limit: SizeLimit,
        index: SlotIndex,
        restored_from: Option<SnapshotId>,
    ) -> Residency {
        let Held { lease, writer, .. } = held;
        let residency = Residency::new(Parts {
            sandbox,
            spec_hash: plan.spec.hash(&plan.image.id),
            image: plan.image.clone(),
            roots: plan.spec.persist.clone(),
            limit,
            lease,
            writer,
            index,
            restored_from,
            idle_timeout: plan.idle_timeout,
            now: self.clock.monotonic(),
        });
        tracing::debug!(container = residency.sandbox.name(), shell = ?residency.shell, "resident");
        residency
    }

    /// What an earlier process was running: its calls have been reported as of unknown outcome, so they end.
    fn discard_live_calls(&self, sandbox: &Sandbox) {
        for live in sandbox.link().live_calls() {
            tracing::warn!(call = live.call, "ending what an earlier process left running");
            if let Err(error) = sandbox.link().discard(live.op) {
                tracing::warn!(call = live.call, %error, "it could not be ended");
            }
        }
    }

    /// What a crash of the machine left is kept for a person who wants to look.
    async fn set_aside(&self, slot: &ScopeKey) -> std::io::Result<()> {
        if let Some(aside) = self.workspaces.set_aside(slot, self.clock.now().0).await? {
            tracing::error!(
                slot = slot.as_str(),
                path = %aside.display(),
                "the machine went down while this workspace was in use: the slot goes on from its last snapshot, and what \
                 was there is kept aside"
            );
        }
        Ok(())
    }

    pub(crate) async fn forget_binding(&self, slot: &ScopeKey, lease: &Lease) {
        if let Err(error) = self.state.remove_binding(slot, lease.acquisition()).await {
            tracing::warn!(slot = slot.as_str(), %error, "a binding stays behind; the next start removes it");
        }
    }

    pub(crate) async fn remove_quietly(&self, container: &str) {
        if let Err(error) = self.provider.remove(container).await {
            tracing::warn!(container, %error, "a container stays behind; the next start removes it");
        }
    }
}

/// Ephemeral slots leave no lock behind.
pub(crate) async fn give_back(lease: Lease, slot: &Slot) {
    let given = if slot.is_ephemeral() { lease.retire().await } else { lease.release().await };
    if let Err(error) = given {
        tracing::warn!(slot = slot.key.as_str(), %error, "a lease was not given back in order");
    }
}
