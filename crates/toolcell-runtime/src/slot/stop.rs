//! How a residency ends: saved, stopped, released, in this order. What cannot be saved stays.

use super::acquire::give_back;
use super::{Place, Residency, Slot};
use crate::error::CallError;
use crate::inner::Inner;
use std::sync::Arc;
use std::time::Duration;

/// How often idle slots are looked for.
const IDLE_LOOK: Duration = Duration::from_millis(500);

impl Inner {
    /// Saves, removes the container, removes the directory that the head now holds, releases. On an error everything
    /// stays as it is.
    pub(crate) async fn stop_residency(&self, slot: &Slot, residency: &Residency) -> Result<(), CallError> {
        if !slot.is_ephemeral() {
            self.save(residency, residency.changes()).await?;
        }
        self.provider.remove(residency.sandbox.name()).await.map_err(CallError::Sandbox)?;
        self.end_residency(slot, residency, true).await;
        Ok(())
    }

    /// Ends a residency whose container or lease is gone. Where the lease is still held, the workspace's directory
    /// stays for the next container: it is newer than the head.
    pub(crate) async fn abandon_residency(&self, slot: &Slot, residency: &Residency) -> Result<(), CallError> {
        self.provider.remove(residency.sandbox.name()).await.map_err(CallError::Sandbox)?;
        self.end_residency(slot, residency, residency.is_lost() || slot.is_ephemeral()).await;
        Ok(())
    }

    async fn end_residency(&self, slot: &Slot, residency: &Residency, remove_workspace: bool) {
        let Some(lease) = residency.take_lease() else { return };
        if remove_workspace {
            if !slot.is_ephemeral() {
                self.forget_binding(&slot.key, &lease).await;
            }
            let directory = self.workspace_dir(&slot.key);
            let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(directory)).await;
            match removed {
                Ok(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::warn!(slot = slot.key.as_str(), %error, "a workspace's directory stays behind");
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(slot = slot.key.as_str(), %error, "a directory was not removed"),
            }
        }
        give_back(lease, slot).await;
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
            for slot in self.known_slots() {
                self.stop_if_idle(&slot).await;
            }
            self.forget_empty_slots();
        }
    }

    async fn stop_if_idle(&self, slot: &Slot) {
        let is_idle = match slot.residency.try_lock().as_deref() {
            Ok(Some(residency)) => {
                self.clock.monotonic().saturating_duration_since(residency.last_active()) >= residency.idle_timeout
            }
            Ok(None) | Err(_) => false,
        };
        if !is_idle {
            return;
        }
        let Some(place) = slot.enter_if_quiet() else { return };
        tracing::info!(slot = slot.key.as_str(), "idle: saving and stopping");
        if let Err(error) = self.stop_slot(slot, &place).await {
            tracing::error!(
                slot = slot.key.as_str(),
                error = crate::error::chain(&error),
                "an idle slot could not be stopped; its workspace stays in its container"
            );
            if let Ok(Some(residency)) = slot.residency.try_lock().as_deref() {
                // Not again before another idle time has passed.
                residency.touch(self.clock.monotonic());
            }
        }
    }
}
