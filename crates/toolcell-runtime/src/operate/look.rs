//! What there is: slots with where they are and how far they are saved.

use super::{OperateError, SlotIdentity};
use crate::error::CallError;
use crate::inner::{Inner, lock};
use std::collections::HashMap;
use toolcell_model::{FencingToken, Generation, ScopeKey, ScopeTuple, SnapshotId, TenantId, UnixMillis};
use toolcell_snapshot::{Head, StoreError};
use toolcell_state::{Binding, Cursor, Page, SlotRecord};

/// Where a slot's workspace is, besides the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residence {
    /// In a container of this process.
    Resident,
    /// Held by another process.
    Held,
    /// On this host without a holder: what a crash or a failed stop left, saved by the next call or operation.
    Left,
    /// Nowhere but in the store.
    Stored,
}

impl Residence {
    /// As listings write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Held => "held",
            Self::Left => "left",
            Self::Stored => "stored",
        }
    }
}

/// Who holds a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderView {
    /// Its process, on its own host.
    pub pid: u32,
    /// Its token.
    pub token: FencingToken,
    /// Since when.
    pub since: UnixMillis,
}

/// What a slot's head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadView {
    /// The newest snapshot.
    pub snapshot: Option<SnapshotId>,
    /// Grows with each write.
    pub generation: Generation,
    /// The last holder's token.
    pub token: FencingToken,
    /// When it was written.
    pub written_at: UnixMillis,
}

/// One slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotView {
    /// Its key.
    pub key: ScopeKey,
    /// What the key stands for; unknown for a slot that only the snapshot store knows.
    pub tuple: Option<ScopeTuple>,
    /// When it was first used here.
    pub created_at: Option<UnixMillis>,
    /// When it was last taken up here.
    pub last_used_at: Option<UnixMillis>,
    /// Where its workspace is.
    pub residence: Residence,
    /// Its container, if it is here.
    pub container: Option<String>,
    /// Who holds it.
    pub holder: Option<HolderView>,
    /// Whether changes are not saved; only known of a resident one.
    pub unsaved: Option<bool>,
    /// The newest token that is known of it.
    pub token: Option<FencingToken>,
    /// Bytes of its files in the newest snapshot.
    pub bytes: Option<u64>,
    /// Its head.
    pub head: Option<HeadView>,
    /// Why the head could not be read.
    pub head_error: Option<String>,
}

impl Inner {
    /// A page of the tenant's slots. A store that does not answer leaves heads out, and says so in each.
    pub(crate) async fn list_slots(
        &self,
        tenant: &TenantId,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<SlotView>, OperateError> {
        let page = self.state.slots(cursor, limit).await.map_err(OperateError::State)?;
        let bindings = self.state.bindings().await.map_err(OperateError::State)?;
        let bindings: HashMap<ScopeKey, Binding> =
            bindings.into_iter().map(|binding| (binding.slot.clone(), binding)).collect();
        let mut items = Vec::with_capacity(page.items.len());
        let mut failed: Option<String> = None;
        for record in page.items.into_iter().filter(|record| record.tuple.tenant() == tenant) {
            let head = match &failed {
                Some(error) => Err(error.clone()),
                None => self.snapshots.head(&record.key).await.map_err(|error| {
                    let error = crate::error::chain(&error);
                    failed = Some(error.clone());
                    error
                }),
            };
            let binding = bindings.get(&record.key).cloned();
            items.push(self.slot_view(record.key.clone(), Some(record), binding, head).await?);
        }
        Ok(Page { items, next: page.next })
    }

    /// One slot of the tenant's: known here, or only from the store.
    pub(crate) async fn show_slot(&self, tenant: &TenantId, key: &ScopeKey) -> Result<SlotView, OperateError> {
        let record = self.known_slot(tenant, key).await?;
        let binding = self.state.binding(key).await.map_err(OperateError::State)?;
        let head = self.snapshots.head(key).await.map_err(|error| crate::error::chain(&error));
        self.slot_view(key.clone(), record, binding, head).await
    }

    /// The slot of this identity, if it is known.
    pub(crate) async fn find_slot(&self, named: &SlotIdentity) -> Result<Option<SlotView>, OperateError> {
        let key = self.tuple_of(named)?.key();
        match self.show_slot(&named.tenant, &key).await {
            Ok(view) => Ok(Some(view)),
            Err(OperateError::NoSlot { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether there is such a slot for this tenant: `Some` with what is recorded of it, `None` where only the store
    /// knows it. A slot of which nothing says whose it is belongs to the only tenant that there is without keys of
    /// others: the default one.
    pub(super) async fn known_slot(
        &self,
        tenant: &TenantId,
        key: &ScopeKey,
    ) -> Result<Option<SlotRecord>, OperateError> {
        let missing = || OperateError::NoSlot { key: key.clone() };
        match self.state.slot(key).await.map_err(OperateError::State)? {
            Some(record) if record.tuple.tenant() == tenant => Ok(Some(record)),
            Some(_) => Err(missing()),
            None if *tenant != TenantId::default_tenant() => Err(missing()),
            None => match self.snapshots.head(key).await {
                Ok(Some(head)) if !head.deleted => Ok(None),
                Ok(_) => Err(missing()),
                Err(error) => Err(OperateError::Store(error)),
            },
        }
    }

    /// Bytes of the files of a head's snapshot, if they can be told.
    async fn bytes_of(&self, key: &ScopeKey, head: Option<&Head>) -> Option<u64> {
        let snapshot = head?.snapshot?;
        self.snapshots.snapshot_info(key, snapshot).await.ok().map(|info| info.bytes)
    }

    async fn slot_view(
        &self,
        key: ScopeKey,
        record: Option<SlotRecord>,
        binding: Option<Binding>,
        head: Result<Option<Head>, String>,
    ) -> Result<SlotView, OperateError> {
        let (head, head_error) = match head {
            Ok(head) => (head, None),
            Err(error) => (None, Some(error)),
        };
        let fault = |error| OperateError::slot(&key, CallError::Lease(error));
        let holder = self.guard.holder(&key).await.map_err(fault)?;
        let resident = self.resident(&key);
        let residence = match (&resident, &holder, &binding) {
            (Some(_), _, _) => Residence::Resident,
            (None, Some(_), _) => Residence::Held,
            (None, None, Some(_)) => Residence::Left,
            (None, None, None) => Residence::Stored,
        };
        let tokens = [head.as_ref().map(|head| head.token), holder.as_ref().map(|holder| holder.token)];
        let tuple = record.as_ref().map(|record| record.tuple.clone());
        Ok(SlotView {
            tuple,
            created_at: record.as_ref().map(|record| record.created_at),
            last_used_at: record.as_ref().map(|record| record.last_used_at),
            residence,
            container: binding.map(|binding| binding.container),
            unsaved: resident,
            token: tokens.into_iter().flatten().max(),
            bytes: self.bytes_of(&key, head.as_ref()).await,
            holder: holder.map(|holder| HolderView { pid: holder.pid, token: holder.token, since: holder.since }),
            head: head.filter(|head| !head.deleted).map(head_view),
            head_error,
            key,
        })
    }

    /// Whether the slot's container of this process has unsaved changes; `None` without one.
    fn resident(&self, key: &ScopeKey) -> Option<bool> {
        let slot = lock(&self.slots).get(key).cloned()?;
        match slot.residency.try_lock() {
            Ok(residency) => residency.as_ref().map(|residency| residency.is_dirty()),
            // It begins or ends at this moment.
            Err(_) => Some(true),
        }
    }

    /// The slot's head, where the caller needs it to be there.
    pub(super) async fn live_head(&self, key: &ScopeKey) -> Result<Option<Head>, StoreError> {
        Ok(self.snapshots.head(key).await?.filter(|head| !head.deleted))
    }
}

fn head_view(head: Head) -> HeadView {
    HeadView { snapshot: head.snapshot, generation: head.generation, token: head.token, written_at: head.written_at }
}
