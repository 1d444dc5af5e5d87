//! Taking a slot alone, so that its head can be written by somebody who is no call.

use super::{OperateError, SlotFault};
use crate::error::CallError;
use crate::inner::Inner;
use crate::slot::acquire::{Held, give_back};
use crate::slot::{Place, Slot};
use std::sync::Arc;
use std::time::Duration;
use toolcell_lease::LeaseError;
use toolcell_model::{Generation, ScopeKey, TenantId};

/// A slot with nobody in it, whose lease and head are this operation's. [`Taken::give_back`] ends it.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) slot: Arc<Slot>,
    pub(super) held: Held,
    /// Nobody enters before the lease is given back.
    _place: Place,
}

impl Taken {
    pub(super) async fn give_back(self) {
        let Self { slot, held, _place } = self;
        give_back(held.lease, &slot).await;
    }
}

impl OperateError {
    /// A failure of the slot; one that says that somebody is in it is [`OperateError::Busy`].
    pub(crate) fn slot(key: &ScopeKey, error: CallError) -> Self {
        match error {
            CallError::SlotBusy { .. } | CallError::Lease(LeaseError::Busy { .. }) => Self::Busy { key: key.clone() },
            error => Self::Slot { key: key.clone(), source: SlotFault(Box::new(error)) },
        }
    }
}

impl Inner {
    /// A place alone in the slot, when its calls have ended; they are waited for as a call waits for another process.
    pub(super) async fn enter_alone(&self, slot: &Slot) -> Result<Place, OperateError> {
        let wait = Duration::from_millis(self.config.lease.wait_ms);
        match tokio::time::timeout(wait, slot.enter(false)).await {
            Ok(entered) => entered.map_err(|error| OperateError::slot(&slot.key, error)),
            Err(_) => Err(OperateError::Busy { key: slot.key.clone() }),
        }
    }

    /// Saves what the slot's workspace on this host has and the head has not, and takes the workspace apart. Afterwards
    /// everything of the slot is in the store.
    pub(super) async fn put_away(&self, slot: &Slot, place: &Place) -> Result<(), OperateError> {
        let failed = |error| OperateError::slot(&slot.key, error);
        if slot.residency.lock().await.is_none()
            && let Some(binding) = self.state.binding(&slot.key).await.map_err(OperateError::State)?
        {
            self.take_up_bound(slot, place, &binding).await.map_err(failed)?;
        }
        self.stop_slot(slot, place).await.map_err(failed)
    }

    /// Takes the slot with everything of it in the store.
    pub(super) async fn take(&self, tenant: &TenantId, key: &ScopeKey) -> Result<Taken, OperateError> {
        let slot = self.slot_of_key(key, tenant);
        let place = self.enter_alone(&slot).await?;
        self.put_away(&slot, &place).await?;
        self.hold_alone(slot, place).await
    }

    /// The lease and the head of a slot that this is alone in.
    pub(super) async fn hold_alone(&self, slot: Arc<Slot>, place: Place) -> Result<Taken, OperateError> {
        let held = self.hold(&slot).await.map_err(|error| OperateError::slot(&slot.key, error))?;
        Ok(Taken { slot, held, _place: place })
    }

    /// What was acknowledged may never be taken for lost.
    pub(super) async fn note_head(&self, key: &ScopeKey, generation: Generation) -> Result<(), OperateError> {
        self.state.note_generation(key, generation).await.map_err(OperateError::State)
    }
}
