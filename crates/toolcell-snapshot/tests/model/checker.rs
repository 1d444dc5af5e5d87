//! What must be true after every step.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use toolcell_model::{Acquisition, FencingToken, Generation, ScopeKey, SnapshotId};
use toolcell_snapshot::{Head, MemoryStore, ObjectPrefix, SnapshotEngine, SnapshotStore};

/// What actors have been told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Snapshots that count, as their writers know.
    pub(crate) acknowledged: Vec<(ScopeKey, SnapshotId, Generation)>,
    /// Things that no actor may see.
    pub(crate) broken: Vec<String>,
}

/// Remembers what was, and compares it with what is.
#[derive(Debug)]
pub(crate) struct Checker {
    engine: SnapshotEngine,
    memory: Arc<MemoryStore>,
    told: Arc<Mutex<Told>>,
    heads: BTreeMap<ScopeKey, Head>,
    /// Who committed under a token.
    tokens: HashMap<(ScopeKey, FencingToken), Acquisition>,
    /// Of every manifest that ever was there.
    parents: HashMap<SnapshotId, Option<SnapshotId>>,
    seen: HashSet<String>,
}

impl Checker {
    pub(crate) fn new(engine: SnapshotEngine, memory: Arc<MemoryStore>, told: Arc<Mutex<Told>>) -> Self {
        Self {
            engine,
            memory,
            told,
            heads: BTreeMap::new(),
            tokens: HashMap::new(),
            parents: HashMap::new(),
            seen: HashSet::new(),
        }
    }

    pub(crate) async fn check(&mut self, slots: &[ScopeKey]) -> Result<(), String> {
        if let Some(broken) = self.told.lock().unwrap().broken.first() {
            return Err(broken.clone());
        }
        let listed = self.memory.list(&ObjectPrefix::all(), None, 100_000).await.unwrap().objects;
        let there: HashSet<&str> = listed.iter().map(|object| object.name.as_str()).collect();
        for slot in slots {
            self.note_manifests(slot, &there).await;
            if let Some(head) = self.engine.head(slot).await.map_err(|error| error.to_string())? {
                self.check_head(slot, &head, &there).await?;
                self.heads.insert(slot.clone(), head);
            } else if self.heads.contains_key(slot) {
                return Err("a head has disappeared".to_owned());
            }
        }
        Ok(())
    }

    async fn note_manifests(&mut self, slot: &ScopeKey, there: &HashSet<&str>) {
        let prefix = format!("{slot}/manifests/");
        for name in there.iter().filter(|name| name.starts_with(&prefix)) {
            if self.seen.insert((*name).to_owned()) {
                let hex = name.trim_start_matches(&prefix);
                let byte = |at: usize| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap();
                let id = SnapshotId::from_bytes(std::array::from_fn(byte));
                let info = self.engine.snapshot_info(slot, id).await.unwrap();
                self.parents.insert(id, info.parent);
            }
        }
    }

    async fn check_head(&mut self, slot: &ScopeKey, head: &Head, there: &HashSet<&str>) -> Result<(), String> {
        if let Some(old) = self.heads.get(slot).filter(|old| old.commit != head.commit) {
            if head.generation <= old.generation || head.token < old.token {
                return Err(format!("the head went from generation {} back to {}", old.generation, head.generation));
            }
        }
        let holder = *self.tokens.entry((slot.clone(), head.token)).or_insert(head.acquisition);
        if holder != head.acquisition {
            return Err(format!("two holders wrote the head under token {}", head.token));
        }
        let Some(snapshot) = head.snapshot else { return self.check_acknowledged(slot, head, &HashSet::new()) };
        let packs =
            self.engine.packs_of(slot, snapshot).await.map_err(|error| format!("a head's manifest: {error}"))?;
        if let Some(missing) = packs.iter().find(|pack| !there.contains(pack.as_str())) {
            return Err(format!("a head needs {missing}, which is gone"));
        }
        let mut ancestry = HashSet::new();
        let mut next = Some(snapshot);
        while let Some(snapshot) = next {
            ancestry.insert(snapshot);
            next = self.parents.get(&snapshot).copied().flatten();
        }
        self.check_acknowledged(slot, head, &ancestry)
    }

    fn check_acknowledged(&self, slot: &ScopeKey, head: &Head, ancestry: &HashSet<SnapshotId>) -> Result<(), String> {
        for (of, snapshot, generation) in &self.told.lock().unwrap().acknowledged {
            if of == slot && *generation <= head.generation && !ancestry.contains(snapshot) {
                return Err(format!("snapshot {snapshot} was acknowledged and is lost (generation {generation})"));
            }
            if of == slot && *generation > head.generation {
                return Err(format!("generation {generation} was acknowledged, and the head is {}", head.generation));
            }
        }
        Ok(())
    }
}
