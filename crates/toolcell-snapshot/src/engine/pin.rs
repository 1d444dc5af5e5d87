//! Pins: whoever reads a snapshot that is not held pins it first, and only then reads its manifest.
//!
//! A collection deletes manifests, then lists pins, then deletes packs. So whoever finds the manifest after writing a
//! pin knows that no collection can have listed pins without it before deleting that manifest. A reader's pin ends by
//! itself, so that one that dies keeps nothing for ever. Clocks of different hosts may differ by [`PIN_SKEW`].

use super::SnapshotEngine;
use crate::error::StoreError;
use crate::format::pin::{Pin, PinPurpose};
use crate::store::{MAX_OBJECT_BYTES, ObjectName};
use std::time::{Duration, Instant};
use toolcell_model::{ScopeKey, SnapshotId, UnixMillis};

/// How long a reader's pin holds; it is renewed in time while the reader lives.
pub const PIN_TTL: Duration = Duration::from_secs(3600);
/// How long after its end, by the collector's own clock, a pin still counts: how much clocks of hosts may differ.
pub const PIN_SKEW: Duration = Duration::from_secs(600);
/// A pin is renewed when this much of its time has passed, again and again until it works.
const RENEW_AFTER: Duration = Duration::from_secs(900);
/// A pin that has less than this left holds nothing that begins now.
const PIN_RESERVE: Duration = Duration::from_secs(1800);
/// Pins of one slot that are looked at; with more nothing is collected.
pub(super) const MAX_PINS: usize = 10_000;

/// A snapshot that is pinned for reading.
#[derive(Debug)]
pub(super) struct ReadPin {
    slot: ScopeKey,
    snapshot: SnapshotId,
    purpose: PinPurpose,
    owner: String,
    names: Vec<ObjectName>,
    /// When the newest one was sent, by both clocks.
    sent: (Instant, UnixMillis),
}

impl SnapshotEngine {
    pub(super) async fn pin(
        &self,
        slot: &ScopeKey,
        snapshot: SnapshotId,
        purpose: PinPurpose,
        owner: &str,
    ) -> Result<ReadPin, StoreError> {
        let sent = (self.clock.monotonic(), self.clock.now());
        let owner = owner.to_owned();
        let mut pin = ReadPin { slot: slot.clone(), snapshot, purpose, owner, names: Vec::new(), sent };
        self.renew(&mut pin).await?;
        Ok(pin)
    }

    /// The old pin stays until the end: a listing that is under way sees at least one of them.
    async fn renew(&self, pin: &mut ReadPin) -> Result<(), StoreError> {
        let sent = (self.clock.monotonic(), self.clock.now());
        let ttl = u64::try_from(PIN_TTL.as_millis()).unwrap_or(u64::MAX);
        let object = Pin {
            purpose: pin.purpose,
            owner: pin.owner.clone(),
            snapshot: pin.snapshot,
            packs: Vec::new(),
            created_at: sent.1,
            expires_at: Some(UnixMillis(sent.1.0.saturating_add(ttl))),
        };
        let name = ObjectName::pin(&pin.slot, false, self.random(&pin.slot)?);
        // Noted before it is sent, so that one in doubt is removed too.
        pin.names.push(name.clone());
        self.store.put_if_absent(&name, object.encode(&name, &self.keys)?).await?;
        pin.sent = sent;
        Ok(())
    }

    /// Whether a pin certainly holds for a good while yet, by either clock.
    pub(super) fn holds(&self, pin: &ReadPin) -> bool {
        let passed = self.clock.monotonic().saturating_duration_since(pin.sent.0);
        passed.max(self.clock.now().since(pin.sent.1)) < PIN_TTL.saturating_sub(PIN_RESERVE)
    }

    /// Removes a pin. One that cannot be removed ends by itself.
    pub(super) async fn unpin(&self, pin: ReadPin) {
        for name in &pin.names {
            drop(self.store.delete(name).await);
        }
    }

    /// Works while a snapshot is pinned, and renews the pin for as long as that takes.
    ///
    /// # Errors
    /// The store's, if the pin could not be renewed in time.
    pub(super) async fn while_pinned<T>(
        &self,
        mut pin: ReadPin,
        work: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.unpin(pin).await;
                    return Ok(done);
                }
                () = tokio::time::sleep(RENEW_AFTER) => {
                    if let Err(error) = self.renew(&mut pin).await
                        && !self.holds(&pin)
                    {
                        self.unpin(pin).await;
                        return Err(error);
                    }
                }
            }
        }
    }

    pub(super) fn random(&self, slot: &ScopeKey) -> Result<[u8; 16], StoreError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| StoreError::internal(slot, error.to_string()))?;
        Ok(random)
    }

    /// Every pin of a slot. One that is gone since it was listed is left out.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for a pin that is not one: it may need anything.
    pub(super) async fn pins(&self, slot: &ScopeKey) -> Result<Vec<(ObjectName, Pin)>, StoreError> {
        let mut pins = Vec::new();
        for listed in self.list_class(slot, "pins", MAX_PINS).await? {
            match self.store.get(&listed.name, MAX_OBJECT_BYTES).await {
                Err(StoreError::NotFound { .. }) => {}
                read => {
                    let pin = Pin::decode(&listed.name, &self.keys, &read?)?;
                    pins.push((listed.name, pin));
                }
            }
        }
        Ok(pins)
    }

    /// Whether a pin's time is certainly over.
    pub(super) fn is_over(&self, pin: &Pin) -> bool {
        pin.expires_at.is_some_and(|expires| self.clock.now().since(expires) > PIN_SKEW)
    }
}
