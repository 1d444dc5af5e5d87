//! How a residency ends: saved, stopped, released, in this order. What cannot be saved stays.

use super::acquire::give_back;
use super::bridge::GuestSink;
use super::{Place, Residency, Slot};
use crate::error::CallError;
use crate::inner::Inner;
use std::sync::Arc;
use std::time::Duration;

/// How often idle slots are looked for.
const IDLE_LOOK: Duration = Duration::from_millis(500);

impl Inner {
    /// Saves, then removes the binding, the container and the directory that the head now holds, and releases. If it
    /// cannot be saved, everything stays as it is.
    pub(crate) async fn stop_residency(&self, slot: &Slot, residency: &Residency) -> Result<(), CallError> {
        if !slot.is_ephemeral() {
            self.save(residency, residency.changes()).await?;
            self.collect_at_stop(residency).await;
        }
        self.take_apart(slot, residency).await
    }

    /// Removes the binding, the container and the directory, and releases. The head has what is worth keeping of it.
    pub(crate) async fn take_apart(&self, slot: &Slot, residency: &Residency) -> Result<(), CallError> {
        if !slot.is_ephemeral() {
            self.unbind(slot, residency).await?;
        }
        // From here on the workspace is taken apart, and must never be saved or run in again.
        residency.mark_lost();
        if !rustix::process::geteuid().is_root() {
            // The files belong to the tool user; the guest may remove them where this process may not.
            let emptied = GuestSink::begin(residency.sandbox.link(), &residency.roots).map_err(CallError::Sandbox)?;
            emptied.finish_empty().await.map_err(CallError::Sandbox)?;
        }
        self.provider.remove(residency.sandbox.name()).await.map_err(CallError::Sandbox)?;
        self.remove_workspace(slot).await;
        self.release(slot, residency).await;
        Ok(())
    }

    /// Ends a residency whose container or lease is gone. Where the lease is still held, the workspace's directory
    /// stays for the next container: it is newer than the head.
    pub(crate) async fn abandon_residency(&self, slot: &Slot, residency: &Residency) -> Result<(), CallError> {
        self.provider.remove(residency.sandbox.name()).await.map_err(CallError::Sandbox)?;
        if slot.is_ephemeral() {
            self.remove_workspace(slot).await;
        } else if residency.is_lost() {
            self.unbind(slot, residency).await?;
            self.remove_workspace(slot).await;
        }
        self.release(slot, residency).await;
        Ok(())
    }

    /// Before a workspace's directory may go: a binding that outlives it would pass an empty one off as the newest.
    pub(crate) async fn unbind(&self, slot: &Slot, residency: &Residency) -> Result<(), CallError> {
        self.state.remove_binding(&slot.key, residency.acquisition).await.map(|_| ()).map_err(CallError::State)
    }

    pub(crate) async fn remove_workspace(&self, slot: &Slot) {
        if let Err(error) = self.workspaces.remove(&slot.key).await {
            tracing::warn!(slot = slot.key.as_str(), %error, "a workspace's directory stays behind");
        }
    }

    async fn release(&self, slot: &Slot, residency: &Residency) {
        if let Some(lease) = residency.take_lease() {
            give_back(lease, slot).await;
        }
    }

    /// Ends a slot's residency, if it has one. The caller has a place alone in the slot.
    pub(crate) async fn stop_slot(&self, slot: &Slot, _alone: &Place) -> Result<(), CallError> {
        let mut residency = slot.residency.lock().await;
        if let Some(there) = &*residency {
            if there.is_usable() {
                self.stop_residency(slot, there).await?;
            } else {
                self.abandon_residency(slot, there).await?;
            }
            *residency = None;
        }
        Ok(())
    }

    /// Stops slots that have done nothing for their agent's idle time. Runs until the runtime stops.
    pub(crate) async fn stop_idle_slots(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(IDLE_LOOK) => {}
                () = self.stopping.cancelled() => return,
            }
            // Side by side: one whose store does not answer holds up no other.
            let looked = self.known_slots().into_iter().map(|slot| {
                let inner = &self;
                async move { inner.stop_if_idle(&slot).await }
            });
            futures_util::future::join_all(looked).await;
            self.forget_empty_slots();
        }
    }

    async fn stop_if_idle(&self, slot: &Slot) {
        let Ok(Some(residency)) = slot.residency.try_lock().map(|residency| residency.clone()) else { return };
        let is_idle =
            || self.clock.monotonic().saturating_duration_since(residency.last_active()) >= residency.idle_timeout;
        if !is_idle() {
            return;
        }
        if let Err(error) = self.stop_idle(slot, &residency, is_idle).await {
            tracing::error!(
                slot = slot.key.as_str(),
                error = crate::error::chain(&error),
                "an idle slot could not be stopped; its workspace stays in its container"
            );
            // Not again before another idle time has passed.
            residency.touch(self.clock.monotonic());
        }
    }

    /// Saves before it takes the place: a store that is slow or gone keeps no call out.
    async fn stop_idle(&self, slot: &Slot, residency: &Residency, is_idle: impl Fn() -> bool) -> Result<(), CallError> {
        if !slot.is_ephemeral() && residency.is_usable() {
            self.save(residency, residency.changes()).await?;
        }
        let Some(place) = slot.enter_if_quiet().filter(|_| is_idle()) else { return Ok(()) };
        tracing::info!(slot = slot.key.as_str(), "idle: saving and stopping");
        self.stop_slot(slot, &place).await
    }
}
