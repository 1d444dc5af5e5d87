//! The scheduler: who goes on next, and what happens to it. Everything follows from one number.

use crate::checker::Checker;
use crate::store::Fate;
use crate::world::{Scenario, World, open};
use std::collections::BTreeSet;
use tokio::task::JoinSet;
use toolcell_snapshot::Weakening;

/// A run that takes more steps is cut off, and counts as far as it came.
const MAX_STEPS: usize = 3000;

pub(crate) enum Outcome {
    Holds,
    Broken { seed: u64, violation: String, schedule: String },
}

/// A small generator of numbers that look random (SplitMix64, Steele et al. 2014).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

pub(crate) fn explore(scenario: Scenario, rule: Option<Weakening>, runs: u64) -> Outcome {
    for seed in 0..runs {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(2).build().unwrap();
        let mut schedule = Vec::new();
        let result = runtime.block_on(run(scenario, rule, seed, &mut schedule));
        if let Err(violation) = result {
            return Outcome::Broken { seed, violation, schedule: schedule.join("\n") };
        }
    }
    Outcome::Holds
}

async fn run(scenario: Scenario, rule: Option<Weakening>, seed: u64, log: &mut Vec<String>) -> Result<(), String> {
    let (world, snapshots) = World::new(rule).await;
    let mut checker =
        Checker::new(open(world.shared.memory.clone(), None).await, world.shared.memory.clone(), world.told.clone());
    checker.check(&world.slots).await?;
    let mut dice = Dice(seed);
    // Some runs change the actor at every step, some seldom; some lose much, some nothing.
    let changes = [2, 4, 10, 25][usize::try_from(dice.roll(4)).unwrap_or_default()];
    let faults = [0, 0, 12, 40][usize::try_from(dice.roll(4)).unwrap_or_default()];

    let mut tasks = JoinSet::new();
    let mut alive = BTreeSet::new();
    for (number, actor) in world.cast(scenario, &snapshots).await.into_iter().enumerate() {
        alive.insert(number);
        let shared = world.shared.clone();
        tasks.spawn(async move {
            actor.await;
            shared.ended(number);
        });
    }
    let mut frozen: Vec<(usize, u64)> = Vec::new();
    let mut current = 0;
    for _ in 0..MAX_STEPS {
        settle(&world, &mut alive).await;
        checker.check(&world.slots).await?;
        let late = world.shared.board.lock().unwrap().late.len() as u64;
        if late > 0 && (alive.is_empty() || dice.roll(15) == 0) {
            let at = usize::try_from(dice.roll(late)).unwrap_or_default();
            let (actor, write) = world.shared.board.lock().unwrap().late.swap_remove(at);
            log.push(format!(
                "  late write of {actor} arrives: {}",
                format!("{write:?}").chars().take(90).collect::<String>()
            ));
            world.shared.deliver(write).await;
            continue;
        }
        if alive.is_empty() {
            return Ok(());
        }
        frozen.retain_mut(|(_, steps)| {
            *steps = steps.saturating_sub(1);
            *steps > 0
        });
        let ready: Vec<usize> =
            alive.iter().copied().filter(|at| frozen.iter().all(|(actor, _)| actor != at)).collect();
        let ready = if ready.is_empty() { alive.iter().copied().collect() } else { ready };
        if !ready.contains(&current) || dice.roll(changes) == 0 {
            current = ready[usize::try_from(dice.roll(ready.len() as u64)).unwrap_or_default()];
        }
        if dice.roll(60) == 0 {
            // A pause: long, while others go on.
            frozen.push((current, 10 + dice.roll(120)));
            continue;
        }
        let waiting = world
            .shared
            .board
            .lock()
            .unwrap()
            .waiting
            .get_mut(&current)
            .and_then(|ops| (!ops.is_empty()).then(|| ops.remove(0)));
        let Some(waiting) = waiting else { return Err(format!("actor {current} waits for nothing")) };
        if faults > 0 && dice.roll(faults * 4) == 0 {
            // It dies here, with or without this last operation.
            log.push(format!("{current} dies at {}", waiting.what));
            if dice.roll(2) == 0 {
                waiting.go(Fate::ResponseLost);
                settle(&world, &mut alive).await;
                checker.check(&world.slots).await?;
            }
            alive.remove(&current);
            world.shared.board.lock().unwrap().waiting.remove(&current);
            continue;
        }
        let fate = match if faults > 0 { dice.roll(faults) } else { 99 } {
            0 => Fate::Fails,
            1 if waiting.is_write => Fate::ResponseLost,
            2 if waiting.is_write => Fate::Late,
            _ => Fate::Done,
        };
        log.push(format!(
            "{current} {} {}",
            waiting.what,
            if fate == Fate::Done { String::new() } else { format!("{fate:?}") }
        ));
        waiting.go(fate);
    }
    Ok(())
}

/// Waits until every actor that lives waits for the scheduler, or has ended.
async fn settle(world: &World, alive: &mut BTreeSet<usize>) {
    loop {
        {
            let board = world.shared.board.lock().unwrap();
            alive.retain(|actor| !board.ended.contains(actor));
            if alive.iter().all(|actor| board.waiting.get(actor).is_some_and(|ops| !ops.is_empty())) {
                return;
            }
        }
        world.shared.changed.notified().await;
    }
}
