//! What is being done for a slot at this moment, for a person who waits.

use crate::inner::{Inner, lock};
use std::time::{Duration, Instant};
use toolcell_model::ScopeKey;
use toolcell_snapshot::{Progress, ProgressSink};

/// What is being done for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// In words, such as `restoring the workspace`.
    pub phase: &'static str,
    /// For how long.
    pub since: Duration,
    /// How far it is, where that is known.
    pub progress: Option<Progress>,
}

/// Something that is under way.
#[derive(Debug)]
pub(crate) struct Begun {
    id: u64,
    phase: &'static str,
    at: Instant,
    progress: Option<Progress>,
}

/// Ends what is under way when it is dropped.
#[derive(Debug)]
pub(crate) struct Doing<'a> {
    inner: &'a Inner,
    key: ScopeKey,
    id: u64,
}

impl Inner {
    /// Says what is being done for a slot until the answer is dropped. Of several the last one is shown.
    pub(crate) fn doing(&self, key: &ScopeKey, phase: &'static str) -> Doing<'_> {
        let at = self.clock.monotonic();
        let mut activities = lock(&self.activities);
        let begun = activities.entry(key.clone()).or_default();
        let id = begun.last().map_or(0, |last| last.id.wrapping_add(1));
        begun.push(Begun { id, phase, at, progress: None });
        Doing { inner: self, key: key.clone(), id }
    }

    pub(crate) fn activity(&self, key: &ScopeKey) -> Option<Activity> {
        let activities = lock(&self.activities);
        let last = activities.get(key)?.last()?;
        let since = self.clock.monotonic().saturating_duration_since(last.at);
        Some(Activity { phase: last.phase, since, progress: last.progress })
    }
}

impl ProgressSink for Doing<'_> {
    fn report(&self, progress: Progress) {
        let mut activities = lock(&self.inner.activities);
        let begun = activities.get_mut(&self.key).and_then(|begun| begun.iter_mut().find(|one| one.id == self.id));
        if let Some(begun) = begun {
            begun.progress = Some(progress);
        }
    }
}

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        let mut activities = lock(&self.inner.activities);
        if let Some(begun) = activities.get_mut(&self.key) {
            begun.retain(|one| one.id != self.id);
            if begun.is_empty() {
                activities.remove(&self.key);
            }
        }
    }
}
