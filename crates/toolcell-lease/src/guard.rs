//! The trait behind leases, and the lease itself.

use crate::error::LeaseError;
use async_trait::async_trait;
use std::fmt;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use toolcell_model::{Acquisition, FencingToken, ScopeKey, UnixMillis};

/// Who holds a slot, for listings and messages; never for deciding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The holder's process on its own host.
    pub pid: u32,
    /// The token it holds.
    pub token: FencingToken,
    /// When it acquired or resumed.
    pub since: UnixMillis,
}

/// Gives out the exclusive right to a slot, to one holder at a time.
#[async_trait]
pub trait ExecutionGuard: Send + Sync + fmt::Debug {
    /// A fresh acquisition of `key`, with a token above `floor` and above every earlier token of this slot.
    ///
    /// Waits up to `wait` for the present holder, in the order of arrival among the waiters of this process; with
    /// [`Duration::ZERO`] it answers at once.
    ///
    /// `floor` is the token that the slot's head records. The head is the authority on tokens: with a floor, a guard
    /// whose own records are gone still gives out a higher one.
    ///
    /// # Errors
    /// [`LeaseError::Busy`] after `wait`; otherwise what the backend could not do. Nothing is held after an error.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue and whatever it had acquired; a token may be skipped.
    async fn acquire(&self, key: &ScopeKey, floor: FencingToken, wait: Duration) -> Result<Lease, LeaseError>;

    /// Takes a lease up again after a restart of its holder, with the same token and acquisition. Succeeds only if
    /// nobody has acquired the slot since and nobody holds it; never waits.
    ///
    /// After a release a guard may refuse; a lease to be resumed is dropped, not released.
    ///
    /// # Errors
    /// [`LeaseError::Superseded`] if someone has acquired since, or if nothing proves that nobody has.
    /// [`LeaseError::Busy`] while the same acquisition is still held by another process.
    ///
    /// # Cancel safety
    /// Dropping the future gives up whatever it had taken.
    async fn resume(&self, key: &ScopeKey, token: FencingToken, acquisition: Acquisition) -> Result<Lease, LeaseError>;

    /// Who holds `key` right now. Changes nothing and never makes an acquirer fail.
    ///
    /// # Errors
    /// What the backend could not do.
    async fn holder(&self, key: &ScopeKey) -> Result<Option<Holder>, LeaseError>;

    /// How long a lease outlives a holder that stops renewing it; `None` where the right ends with the holder itself
    /// and needs no renewal.
    fn expires(&self) -> Option<Duration>;
}

/// What a backend keeps for one held lease. Dropping it must free the slot as far as that is possible without
/// waiting, as the end of the process would.
#[async_trait]
pub trait Holding: Send + Sync + fmt::Debug {
    /// Gives the slot up. Called at most once. Only the holder's own acquisition is released: if another has taken
    /// over, this does nothing and succeeds.
    async fn release(&mut self) -> Result<(), LeaseError>;

    /// Gives the slot up and forgets its tokens, for a key that will never be used again. Called at most once.
    async fn retire(&mut self) -> Result<(), LeaseError>;
}

/// The exclusive right to one slot, until released, dropped or lost.
///
/// Dropping it without [`Lease::release`] frees the slot as the death of the process would: a lease without expiry
/// is free at once, one with expiry when it ends.
#[must_use = "a dropped lease is a freed slot"]
pub struct Lease {
    key: ScopeKey,
    token: FencingToken,
    acquisition: Acquisition,
    lost: CancellationToken,
    holding: Box<dyn Holding>,
}

impl Lease {
    /// For backends: a lease that has just been acquired or resumed. `lost` is cancelled by the backend when the
    /// right has ended or can no longer be proven.
    pub fn new(
        key: ScopeKey,
        token: FencingToken,
        acquisition: Acquisition,
        lost: CancellationToken,
        holding: Box<dyn Holding>,
    ) -> Self {
        Self { key, token, acquisition, lost, holding }
    }

    /// The slot.
    #[must_use]
    pub const fn key(&self) -> &ScopeKey {
        &self.key
    }

    /// The fencing token.
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// The name of this one acquisition.
    #[must_use]
    pub const fn acquisition(&self) -> Acquisition {
        self.acquisition
    }

    /// Cancelled once the slot is no longer held, or can no longer be proven to be. Clone it to watch from elsewhere.
    /// It is not cancelled by [`Lease::release`] or by dropping the lease.
    #[must_use]
    pub const fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Gives the slot up.
    ///
    /// # Errors
    /// The backend could not be told; the slot is then free when the lease expires.
    pub async fn release(mut self) -> Result<(), LeaseError> {
        self.holding.release().await
    }

    /// Gives the slot up and forgets its tokens. Only for slots whose key is never used again, such as ephemeral
    /// ones: a later acquisition of the key would start from its floor.
    ///
    /// # Errors
    /// The backend could not be told.
    pub async fn retire(mut self) -> Result<(), LeaseError> {
        self.holding.retire().await
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", &self.key)
            .field("token", &self.token)
            .field("acquisition", &self.acquisition)
            .field("lost", &self.lost.is_cancelled())
            .finish_non_exhaustive()
    }
}
