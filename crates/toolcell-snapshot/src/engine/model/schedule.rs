//! Who goes next, and what becomes of it.

use super::check::Checker;
use super::{Rules, engine};
use crate::engine::SnapshotEngine;
use crate::store::{MemoryStore, SnapshotStore};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};
use tokio::task::{AbortHandle, JoinSet};

/// What becomes of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    /// It fails before it is done.
    Fails,
    /// It is done, and its answer is lost.
    Lost,
    /// It is on its way for a while; its sender does not know.
    Late,
    /// It is not done, and its sender ends.
    Crash,
    /// It is done, and its sender ends.
    LastAct,
}

const FAULTS: [Fate; 5] = [Fate::Fails, Fate::Lost, Fate::Late, Fate::Crash, Fate::LastAct];
/// Of so many operations about one is at fault.
const ONE_FAULT_IN: u64 = 20;
const MOST_FAULTS: u32 = 4;
/// Of so many choices about one goes to somebody else than the last one.
const ONE_CHANGE_IN: u64 = 4;

/// A choice that was made, and how many there were.
pub(super) type Made = Arc<Mutex<Vec<(usize, usize)>>>;

/// Where choices come from.
#[derive(Debug)]
pub(super) enum Plan {
    Random {
        state: u64,
        faults: u32,
        last: usize,
    },
    /// Follows a path, then always the first choice; notes what it did.
    Path {
        path: Vec<usize>,
        made: Made,
        faults: u32,
    },
}

impl Plan {
    pub(super) fn random(seed: u64) -> Self {
        Self::Random { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, faults: 0, last: 0 }
    }

    pub(super) fn exhaustive(path: Vec<usize>, faults: u32) -> Self {
        Self::Path { path, made: Made::default(), faults }
    }

    pub(super) fn made(&self) -> Made {
        match self {
            Self::Random { .. } => Made::default(),
            Self::Path { made, .. } => Arc::clone(made),
        }
    }

    fn roll(state: &mut u64) -> u64 {
        // xorshift64*
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33
    }

    fn choose(path: &[usize], made: &Made, of: usize) -> usize {
        let mut made = made.lock().unwrap();
        let choice = path.get(made.len()).copied().unwrap_or(0);
        made.push((choice, of));
        choice
    }

    /// One of `ready`, which are in order.
    fn next(&mut self, ready: &[usize]) -> usize {
        match self {
            Self::Random { state, last, .. } => {
                let stay = ready.iter().position(|actor| actor == last);
                let at = match stay {
                    Some(at) if Self::roll(state) % ONE_CHANGE_IN != 0 => at,
                    Some(_) | None => usize::try_from(Self::roll(state)).unwrap() % ready.len(),
                };
                *last = ready[at];
                at
            }
            Self::Path { path, made, .. } => {
                if ready.len() == 1 {
                    0
                } else {
                    Self::choose(path, made, ready.len())
                }
            }
        }
    }

    fn fate(&mut self, writes: bool) -> Fate {
        let possible: &[Fate] = if writes { &FAULTS } else { &FAULTS[..1] };
        match self {
            Self::Random { state, faults, .. } => {
                if *faults >= MOST_FAULTS || Self::roll(state) % ONE_FAULT_IN != 0 {
                    return Fate::Done;
                }
                *faults += 1;
                possible[usize::try_from(Self::roll(state)).unwrap() % possible.len()]
            }
            // Faults of reads are left to the random schedules: they only shorten what is here.
            Self::Path { faults: 0, .. } => Fate::Done,
            Self::Path { .. } if !writes => Fate::Done,
            Self::Path { path, made, faults } => match Self::choose(path, made, possible.len() + 1) {
                0 => Fate::Done,
                fault => {
                    *faults -= 1;
                    possible[fault - 1]
                }
            },
        }
    }
}

/// The path after the one that was taken, in depth-first order.
pub(super) fn next_path(made: &Made) -> Option<Vec<usize>> {
    let mut made = made.lock().unwrap().clone();
    loop {
        let (choice, of) = made.pop()?;
        if choice + 1 < of {
            let mut path: Vec<usize> = made.into_iter().map(|(choice, _)| choice).collect();
            path.push(choice + 1);
            return Some(path);
        }
    }
}

type Delivery = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Waiting {
    actor: usize,
    what: String,
    writes: bool,
    go: oneshot::Sender<Fate>,
}

struct Actor {
    name: String,
    task: AbortHandle,
    ended: bool,
}

struct State {
    plan: Plan,
    waiting: Vec<Waiting>,
    late: Vec<(String, Delivery)>,
    actors: Vec<Actor>,
    story: Vec<String>,
    violation: Option<String>,
}

/// Everything of one run.
pub(super) struct World {
    state: Mutex<State>,
    changed: Notify,
    tasks: Mutex<JoinSet<()>>,
    pub(super) inner: Arc<MemoryStore>,
    pub(super) rules: Rules,
    pub(super) checker: Checker,
}

/// Numbers of deliveries among the choices.
const DELIVERIES: usize = 1000;

impl World {
    pub(super) fn new(plan: Plan, rules: Rules) -> Arc<Self> {
        let inner = Arc::new(MemoryStore::new());
        let plain: Arc<dyn SnapshotStore> = Arc::clone(&inner) as Arc<dyn SnapshotStore>;
        Arc::new(Self {
            state: Mutex::new(State {
                plan,
                waiting: Vec::new(),
                late: Vec::new(),
                actors: Vec::new(),
                story: Vec::new(),
                violation: None,
            }),
            changed: Notify::new(),
            tasks: Mutex::default(),
            inner,
            rules,
            checker: Checker::new(engine(plain, Rules::default())),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// An engine whose every operation waits for its turn.
    pub(super) fn engine(self: &Arc<Self>, actor: usize) -> SnapshotEngine {
        engine(Arc::new(super::store::ModelStore { actor, world: Arc::clone(self) }), self.rules)
    }

    /// Adds an actor; it begins when the world runs.
    pub(super) fn add<F>(self: &Arc<Self>, name: &str, act: impl FnOnce(usize) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let number = self.state().actors.len();
        let (world, acting) = (Arc::clone(self), act(number));
        let task = self.tasks.lock().unwrap().spawn(async move {
            acting.await;
            world.state().actors[number].ended = true;
            world.changed.notify_one();
        });
        self.state().actors.push(Actor { name: name.to_owned(), task, ended: false });
    }

    /// An actor's operation waits for its turn.
    pub(super) async fn turn(&self, actor: usize, what: String, writes: bool) -> Fate {
        let (go, turn) = oneshot::channel();
        self.state().waiting.push(Waiting { actor, what, writes, go });
        self.changed.notify_one();
        match turn.await {
            Ok(fate @ (Fate::Done | Fate::Fails | Fate::Lost | Fate::Late | Fate::LastAct)) => fate,
            Ok(Fate::Crash) | Err(_) => std::future::pending().await,
        }
    }

    /// Something arrives later.
    pub(super) fn later(&self, what: String, delivery: Delivery) {
        self.state().late.push((what, delivery));
    }

    /// The actor ends here.
    pub(super) async fn crash(&self, actor: usize) {
        {
            let mut state = self.state();
            state.actors[actor].ended = true;
            state.actors[actor].task.abort();
        }
        self.changed.notify_one();
        std::future::pending().await
    }

    pub(super) fn tell(&self, line: String) {
        self.state().story.push(line);
    }

    pub(super) fn violate(&self, what: String) {
        self.state().violation.get_or_insert(what);
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.state().violation.clone()
    }

    pub(super) fn story(&self) -> String {
        self.state().story.join("\n")
    }

    /// Everybody waits for a turn or has ended.
    fn is_quiet(&self) -> bool {
        let state = self.state();
        let waits = |number: usize| state.waiting.iter().any(|waiting| waiting.actor == number);
        state.actors.iter().enumerate().all(|(number, actor)| actor.ended || waits(number))
    }

    /// Until everybody has ended or something is violated.
    pub(super) async fn run(&self) {
        loop {
            while !self.is_quiet() {
                self.changed.notified().await;
            }
            if self.violation().is_some() {
                break;
            }
            let delivery = {
                let mut state = self.state();
                let ended: Vec<bool> = state.actors.iter().map(|actor| actor.ended).collect();
                state.waiting.retain(|waiting| !ended[waiting.actor]);
                let mut ready: Vec<usize> = state.waiting.iter().map(|waiting| waiting.actor).collect();
                ready.sort_unstable();
                ready.dedup();
                ready.extend((0..state.late.len()).map(|late| DELIVERIES + late));
                if ready.is_empty() {
                    break;
                }
                let chosen = ready[state.plan.next(&ready)];
                if chosen >= DELIVERIES {
                    let (what, delivery) = state.late.remove(chosen - DELIVERIES);
                    state.story.push(format!("arrives late: {what}"));
                    Some(delivery)
                } else {
                    let at = state.waiting.iter().position(|waiting| waiting.actor == chosen).unwrap();
                    let waiting = state.waiting.remove(at);
                    let fate = state.plan.fate(waiting.writes);
                    let line = format!("{}: {} {fate:?}", state.actors[chosen].name, waiting.what);
                    state.story.push(line);
                    if fate == Fate::Crash {
                        state.actors[chosen].ended = true;
                        state.actors[chosen].task.abort();
                    }
                    // One that was dropped meanwhile does not want it.
                    let _ = waiting.go.send(fate);
                    None
                }
            };
            if let Some(delivery) = delivery {
                delivery.await;
            }
        }
        self.tasks.lock().unwrap().abort_all();
    }
}
