//! Who is there in each scenario, and what there is before they begin.

use crate::actors::Actor;
use crate::checker::Told;
use crate::store::{ActorStore, Shared};
use futures_util::future::BoxFuture;
use std::sync::{Arc, Mutex};
use toolcell_model::{ScopeKey, SnapshotId};
use toolcell_snapshot::{SnapshotEngine, SnapshotStore, Weakening};
use toolcell_testkit::snapshot::FixedClock;

/// Who meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Three holders.
    Holders,
    /// Two holders, one that goes back, one that collects.
    Collection,
    /// A fork, a reader, and a collector of the source.
    Forks,
    /// All of them, and a collector of the fork's target.
    Everything,
}

pub(crate) struct World {
    pub(crate) shared: Arc<Shared>,
    pub(crate) told: Arc<Mutex<Told>>,
    pub(crate) slots: Vec<ScopeKey>,
    rule: Option<Weakening>,
}

pub(crate) async fn open(store: Arc<dyn SnapshotStore>, rule: Option<Weakening>) -> SnapshotEngine {
    let engine = SnapshotEngine::open(store, [3; 32], Arc::new(FixedClock::far_ahead())).await.unwrap();
    engine.without(rule)
}

impl World {
    /// A slot with three snapshots of a holder that has gone, and an empty one.
    pub(crate) async fn new(rule: Option<Weakening>) -> (Self, Vec<SnapshotId>) {
        let slots = vec![ScopeKey::ephemeral().unwrap(), ScopeKey::ephemeral().unwrap()];
        let world = Self { shared: Shared::new(), told: Arc::default(), slots, rule };
        let engine = open(world.shared.memory.clone(), None).await;
        let first =
            Actor { engine: engine.clone(), slot: world.slots[0].clone(), told: world.told.clone(), number: 90 };
        first.holder(3).await;
        let snapshots = world.told.lock().unwrap().acknowledged.iter().map(|(_, snapshot, _)| *snapshot).collect();
        (world, snapshots)
    }

    async fn actor(&self, number: usize, slot: usize) -> Actor {
        let store = Arc::new(ActorStore { actor: number, shared: self.shared.clone() });
        let engine = open(store, self.rule).await;
        Actor { engine, slot: self.slots[slot].clone(), told: self.told.clone(), number: number as u64 }
    }

    pub(crate) async fn cast(&self, scenario: Scenario, snapshots: &[SnapshotId]) -> Vec<BoxFuture<'static, ()>> {
        let (source, old) = (self.slots[0].clone(), snapshots[0]);
        match scenario {
            Scenario::Holders => vec![
                Box::pin(self.actor(0, 0).await.holder(2)),
                Box::pin(self.actor(1, 0).await.holder(2)),
                Box::pin(self.actor(2, 0).await.holder(1)),
            ],
            Scenario::Collection => vec![
                Box::pin(self.actor(0, 0).await.holder(2)),
                Box::pin(self.actor(1, 0).await.rewinder()),
                Box::pin(self.actor(2, 0).await.collector(1)),
                Box::pin(self.actor(3, 0).await.collector(0)),
            ],
            Scenario::Forks => vec![
                Box::pin(self.actor(0, 1).await.fork(source, old)),
                Box::pin(self.actor(1, 0).await.reader(old)),
                Box::pin(self.actor(2, 0).await.collector(0)),
            ],
            Scenario::Everything => vec![
                Box::pin(self.actor(0, 1).await.fork(source, old)),
                Box::pin(self.actor(1, 0).await.reader(old)),
                Box::pin(self.actor(2, 0).await.collector(1)),
                Box::pin(self.actor(3, 0).await.rewinder()),
                Box::pin(self.actor(4, 0).await.holder(1)),
                Box::pin(self.actor(5, 1).await.collector(1)),
            ],
        }
    }
}
