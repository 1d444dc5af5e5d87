//! Who takes part.

use super::Cast;
use super::check::ROOT;
use super::schedule::World;
use super::workspace::Files;
use crate::engine::HeadWriter;
use crate::error::{CommitError, SnapshotError};
use crate::index::SlotIndex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use toolcell_model::{Acquisition, FencingToken, TenantId};

/// A lease service that excludes nobody and forgets everything: what the protocol has to stand.
#[derive(Debug, Default)]
struct Leases(AtomicU64);

impl Leases {
    /// A token above the floor. Every third time all that was given out before is forgotten.
    fn acquire(&self, floor: FencingToken) -> FencingToken {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        FencingToken(floor.0 + 1 + if count.is_multiple_of(3) { 0 } else { count % 2 })
    }
}

pub(super) fn start(world: &Arc<World>, cast: Cast) {
    let leases = Arc::new(Leases::default());
    for holder in 0..cast.holders {
        let (world_too, leases) = (Arc::clone(world), Arc::clone(&leases));
        world.add(&format!("holder {holder}"), move |number| hold(world_too, leases, number, cast));
    }
    if cast.deletes {
        let (world_too, leases) = (Arc::clone(world), Arc::clone(&leases));
        world.add("deleter", move |number| delete(world_too, leases, number, cast));
    }
}

async fn acquire(world: &Arc<World>, leases: &Leases, actor: usize) -> Option<HeadWriter> {
    let (engine, slot) = (world.engine(actor), &world.checker.slot);
    let highest = world.checker.highest();
    let head = engine.head(slot).await.ok()?;
    let token = leases.acquire(head.map_or(FencingToken(0), |head| head.token));
    let acquisition = Acquisition::generate().unwrap();
    let stamped = engine.stamp(&TenantId::default_tenant(), slot, token, acquisition, highest).await;
    let heard = stamped.as_ref().err().map(ToString::to_string).unwrap_or_else(|| "has the slot".to_owned());
    world.tell(format!("    {actor} with token {token}: {heard}"));
    stamped.ok()
}

async fn hold(world: Arc<World>, leases: Arc<Leases>, actor: usize, cast: Cast) {
    let (engine, slot) = (world.engine(actor), world.checker.slot.clone());
    let roots = [ROOT.to_owned()];
    for round in 0..cast.rounds {
        let Some(mut writer) = acquire(&world, &leases, actor).await else { continue };
        let files = Files::default();
        if let Some(snapshot) = writer.snapshot()
            && engine.restore(&slot, snapshot, &roots, &files).await.is_err()
        {
            continue;
        }
        let mut index = SlotIndex::empty();
        for number in 0..cast.snapshots {
            files.add(&format!("{actor}-{round}-{number}"));
            let taken = engine.snapshot(&mut writer, &mut index, &files, &roots, "image").await;
            match taken {
                Ok(receipt) => {
                    world.tell(format!("    {actor} was told that generation {} is saved", receipt.generation));
                    world.checker.acknowledge(&files.names(), receipt.generation);
                    world.check().await;
                }
                Err(SnapshotError::Commit(CommitError::Fenced { .. } | CommitError::Deleted)) => break,
                Err(error) => world.tell(format!("    {actor}: {error}")),
            }
        }
    }
}

async fn delete(world: Arc<World>, leases: Arc<Leases>, actor: usize, cast: Cast) {
    let engine = world.engine(actor);
    for _ in 0..cast.rounds {
        if let Some(mut writer) = acquire(&world, &leases, actor).await {
            let deleted = engine.tombstone(&mut writer).await;
            world.tell(format!("    {actor}: {deleted:?}"));
        }
    }
}
