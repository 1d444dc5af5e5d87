//! What must be true whatever happens.

use super::schedule::World;
use super::workspace::Files;
use crate::engine::SnapshotEngine;
use crate::format::head::Head;
use std::collections::BTreeSet;
use std::sync::Mutex;
use toolcell_model::{Generation, ScopeKey};

/// The one root of all workspaces here.
pub(super) const ROOT: &str = "/w";

/// Looks at the store beside everybody, without taking a turn.
pub(super) struct Checker {
    engine: SnapshotEngine,
    pub(super) slot: ScopeKey,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    head: Option<Head>,
    /// Files whose snapshot was acknowledged, since the slot was last deleted, and the generation that has them.
    acknowledged: Vec<(String, Generation)>,
    highest: Option<Generation>,
}

impl Checker {
    pub(super) fn new(engine: SnapshotEngine) -> Self {
        Self { engine, slot: ScopeKey::ephemeral().unwrap(), known: Mutex::default() }
    }

    /// The highest generation that anybody was told of.
    pub(super) fn highest(&self) -> Option<Generation> {
        self.known.lock().unwrap().highest
    }

    /// Somebody was told that the files are saved.
    pub(super) fn acknowledge(&self, files: &BTreeSet<String>, generation: Generation) {
        let mut known = self.known.lock().unwrap();
        known.acknowledged.extend(files.iter().map(|file| (file.clone(), generation)));
        known.highest = known.highest.max(Some(generation));
    }

    pub(super) async fn describe(&self, slot: &ScopeKey) -> String {
        match self.engine.head(slot).await {
            Ok(Some(head)) => format!(
                "generation {} token {} {} {}",
                head.generation,
                head.token,
                if head.deleted { "deleted" } else { "alive" },
                head.snapshot.map_or_else(|| "empty".to_owned(), |snapshot| snapshot.to_string())
            ),
            other => format!("{other:?}"),
        }
    }

    async fn check(&self) -> Result<(), String> {
        let Some(head) = self.engine.head(&self.slot).await.map_err(|error| format!("the head: {error}"))? else {
            return Ok(());
        };
        let acknowledged = {
            let mut known = self.known.lock().unwrap();
            if let Some(before) = known.head.as_ref().filter(|before| before.commit != head.commit) {
                if Some(head.generation) != before.generation.next() {
                    return Err(format!("generation {} after {}", head.generation, before.generation));
                }
                if head.acquisition != before.acquisition && head.token <= before.token {
                    return Err(format!("another holder has token {} after {}", head.token, before.token));
                }
                if head.acquisition == before.acquisition && head.token != before.token {
                    return Err(format!("one holder has tokens {} and {}", before.token, head.token));
                }
            }
            if head.deleted {
                known.acknowledged.retain(|(_, generation)| *generation > head.generation);
            }
            known.head = Some(head.clone());
            known.acknowledged.clone()
        };
        let files = Files::default();
        if let Some(snapshot) = head.snapshot {
            let restored = self.engine.restore(&self.slot, snapshot, &[ROOT.to_owned()], &files).await;
            restored.map_err(|error| format!("what the head names does not restore: {error:?}"))?;
        }
        let there = files.names();
        match acknowledged.iter().find(|(file, at)| *at <= head.generation && !there.contains(file)) {
            Some((file, at)) => {
                Err(format!("{file} was acknowledged at generation {at} and is not in generation {}", head.generation))
            }
            None => Ok(()),
        }
    }
}

impl World {
    /// Looks, and remembers the first violation.
    pub(super) async fn check(&self) {
        if let Err(violation) = self.checker.check().await {
            self.violate(violation);
        }
    }
}
