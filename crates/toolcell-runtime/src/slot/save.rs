//! Snapshots of a resident workspace. Those of one slot never overlap; calls that need one coalesce.

use super::{Residency, Slot};
use crate::config::Durability;
use crate::error::CallError;
use crate::inner::Inner;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use toolcell_snapshot::{ErrorKind, SnapshotReceipt};

/// After a failed save the next one waits this long, then twice as long, and so on.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Inner {
    /// Saves everything up to `change`; does nothing if it is saved already. Not cancel safe in the sense that a
    /// commit may happen after the caller has gone; what is committed is whole in any case.
    pub(crate) async fn save(&self, residency: &Residency, change: u64) -> Result<(), CallError> {
        if residency.saved().changes >= change {
            return Ok(());
        }
        let mut saver = residency.saver.lock().await;
        let mut saved = residency.saved();
        if saved.changes >= change {
            return Ok(());
        }
        if residency.is_lost() {
            // Another holder's, or being taken apart: what is there now must not become the newest snapshot.
            return Err(CallError::LeaseLost);
        }
        let slot = saver.writer.slot().clone();
        let saving = self.doing(&slot, "saving the workspace");
        let until = residency.changes();
        let saver = &mut *saver;
        let source = residency.source(self.config.snapshots.quiesce);
        let taken = self.snapshots.snapshot_with(
            &mut saver.writer,
            &mut saver.index,
            &source,
            &residency.roots,
            &residency.image.id,
            &saving,
        );
        let receipt = match taken.await {
            Ok(receipt) => receipt,
            Err(error) => {
                if error.kind() == ErrorKind::Fenced {
                    residency.mark_lost();
                }
                let error = CallError::Snapshot(error);
                residency.save_failed.store(!error.is_about_content(), Ordering::Release);
                return Err(error);
            }
        };
        report(saver.writer.slot().as_str(), &receipt);
        if !receipt.unchanged && !self.snapshots.keeps_nothing() {
            let noted = self.state.note_generation(saver.writer.slot(), receipt.generation).await;
            noted.map_err(CallError::State)?;
            residency.note_commit();
        }
        residency.save_failed.store(false, Ordering::Release);
        saved.snapshot = receipt.snapshot;
        saved.generation = receipt.generation;
        saved.changes = until;
        residency.set_saved(saved);
        Ok(())
    }

    /// Saves what is there, for a call that may not add to it before; it does not wait longer than for a held slot. What
    /// was begun by then counts if it counts.
    pub(crate) async fn save_in_time(&self, residency: &Residency) -> Result<(), CallError> {
        let limit = Duration::from_millis(self.config.lease.wait_ms);
        let saved = tokio::time::timeout(limit, self.save(residency, residency.changes())).await;
        saved.unwrap_or(Err(CallError::SaveOverdue { waited: limit }))
    }

    /// With `lazy`, makes sure that a task saves within the lag; it goes on for as long as there is something to save.
    pub(crate) fn save_lazily(self: &Arc<Self>, slot: &Arc<Slot>, residency: &Arc<Residency>) {
        let lazy = self.config.snapshots.durability == Durability::Lazy;
        if !lazy || slot.is_ephemeral() || self.snapshots.keeps_nothing() {
            return;
        }
        if residency.saving_scheduled.swap(true, Ordering::AcqRel) {
            return;
        }
        let (inner, slot, residency) = (Arc::clone(self), Arc::clone(slot), Arc::clone(residency));
        self.tasks.spawn(async move { inner.save_until_clean(&slot, &residency).await });
    }

    async fn save_until_clean(&self, slot: &Slot, residency: &Residency) {
        let lag = Duration::from_millis(self.config.snapshots.max_lag_ms);
        let mut wait = lag;
        loop {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // Stopping saves by itself.
                () = self.stopping.cancelled() => return,
            }
            if !residency.is_usable() {
                return;
            }
            let began = self.clock.monotonic();
            let saved = self.save(residency, residency.changes_so_far()).await;
            // What changed during the save waits since then, not since its end.
            let took = self.clock.monotonic().saturating_duration_since(began);
            wait =
                if saved.is_ok() { lag.saturating_sub(took) } else { (wait * 2).max(FIRST_PAUSE).min(LONGEST_PAUSE) };
            if let Err(error) = saved {
                tracing::error!(
                    slot = slot.key.as_str(),
                    error = crate::error::chain(&error),
                    "a workspace could not be saved; it stays in its container"
                );
            }
            if !residency.is_dirty() {
                residency.saving_scheduled.store(false, Ordering::Release);
                // A change between the look and the store has seen `true` and scheduled nothing.
                if !residency.is_dirty() || residency.saving_scheduled.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        }
    }
}

fn report(slot: &str, receipt: &SnapshotReceipt) {
    tracing::debug!(
        slot,
        unchanged = receipt.unchanged,
        files = receipt.files,
        changed = receipt.changed_files,
        new_bytes = receipt.new_bytes,
        specials = receipt.specials_skipped,
        duration_us = receipt.duration.as_micros(),
        "saved"
    );
    for path in &receipt.unstable_paths {
        tracing::warn!(slot, path, "a file changed while it was saved, three times; it is saved as read");
    }
}
