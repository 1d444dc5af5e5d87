//! Who is next, among the waiters of this process.

use crate::guard::Holder;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedMutexGuard;
use toolcell_model::ScopeKey;

/// The lines of waiters, one per slot that someone holds or waits for.
#[derive(Debug, Default)]
pub(super) struct Queues {
    lines: Mutex<HashMap<ScopeKey, Arc<Line>>>,
}

#[derive(Debug, Default)]
struct Line {
    /// First come, first served; a waiter that is dropped leaves the line.
    turn: Arc<tokio::sync::Mutex<()>>,
    holder: Mutex<Option<Holder>>,
}

/// A place in one slot's line. The line goes when its last place does.
#[derive(Debug)]
pub(super) struct Place {
    queues: Arc<Queues>,
    key: ScopeKey,
    line: Arc<Line>,
}

/// The head of the line: nobody else of this process has the slot until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    // Dropped before the place, which counts the users of the line.
    _turn: OwnedMutexGuard<()>,
    place: Place,
}

impl Queues {
    pub(super) fn place(self: &Arc<Self>, key: &ScopeKey) -> Place {
        let line = Arc::clone(lock(&self.lines).entry(key.clone()).or_default());
        Place { queues: Arc::clone(self), key: key.clone(), line }
    }

    /// Who of this process holds `key`.
    pub(super) fn holder(&self, key: &ScopeKey) -> Option<Holder> {
        // Under the lock of the map throughout: a clone of the line would count as a place.
        lock(&self.lines).get(key).and_then(|line| lock(&line.holder).clone())
    }
}

impl Place {
    pub(super) fn holder(&self) -> Option<Holder> {
        lock(&self.line.holder).clone()
    }

    /// Waits for the head of the line. Cancel safe: a dropped waiter leaves the line.
    pub(super) async fn turn(self) -> Turn {
        let turn = Arc::clone(&self.line.turn).lock_owned().await;
        Turn { _turn: turn, place: self }
    }

    /// The head of the line, if nobody is there.
    pub(super) fn try_turn(self) -> Result<Turn, Place> {
        match Arc::clone(&self.line.turn).try_lock_owned() {
            Ok(turn) => Ok(Turn { _turn: turn, place: self }),
            Err(_) => Err(self),
        }
    }
}

impl Turn {
    pub(super) fn held_by(&self, holder: Holder) {
        *lock(&self.place.line.holder) = Some(holder);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(&self.place.line.holder) = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = lock(&self.queues.lines);
        // Places are only made under this lock: two owners are the map and this place.
        if Arc::strong_count(&self.line) == 2 {
            lines.remove(&self.key);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;

    #[tokio::test]
    async fn a_line_goes_with_its_last_place() {
        let queues = Arc::new(Queues::default());
        let key = ScopeKey::ephemeral().unwrap();
        let turn = queues.place(&key).turn().await;
        let other = queues.place(&key).try_turn().unwrap_err();
        drop(turn);
        assert_eq!(queues.lines.lock().unwrap().len(), 1);
        drop(other.try_turn().unwrap());
        assert_eq!(queues.lines.lock().unwrap().len(), 0);
    }
}
