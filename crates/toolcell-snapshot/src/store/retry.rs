//! Doing again what a store on a network has not done.

use super::{HeadRecord, HeadVersion, ListPage, ObjectName, ObjectPrefix, SnapshotStore, StoreKind, head_name};
use crate::error::StoreError;
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use toolcell_model::ScopeKey;

/// How often an operation is tried; the last failure is then the answer, and the caller's own retries begin.
const ATTEMPTS: u32 = 4;
/// Longest pause before the second attempt; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// A store that tries again what is certainly not done, and finds out what became of a write whose answer was lost.
///
/// - [`StoreError::Unavailable`] is tried again, a few times, with growing random pauses. Nothing else is: a full store
///   or a wrong password does not get better within a second.
/// - A deletion is tried again also when in doubt: doing it twice is doing it once.
/// - A creation in doubt is read back. If the object holds these very bytes it is created; so one that was there
///   already with the same bytes may count as created.
/// - A head in doubt is read back. If it holds these very bytes it is written (they hold a random commit id). If it
///   still is the expected one the *same* exchange is sent again: whichever of the two arrives, it is one write. If it
///   is neither, the doubt is the caller's, who knows how to look for its commit among the ancestors.
#[derive(Debug, Clone)]
pub struct RetryStore {
    inner: Arc<dyn SnapshotStore>,
}

/// What to do after an attempt.
enum Next<T> {
    Done(Result<T, StoreError>),
    Again(StoreError),
}

impl RetryStore {
    /// A store that retries over another one.
    #[must_use]
    pub fn new(inner: Arc<dyn SnapshotStore>) -> Self {
        Self { inner }
    }

    async fn create_once(&self, name: &ObjectName, data: &Bytes, doubted: &mut bool) -> Next<()> {
        match self.inner.put_if_absent(name, data.clone()).await {
            // It is sure of this attempt only; an earlier one may still have been made.
            Err(error @ StoreError::Unavailable { .. }) => Next::Again(if *doubted { in_doubt(name) } else { error }),
            Err(error @ StoreError::InDoubt { .. }) => {
                *doubted = true;
                match self.inner.get(name, data.len() as u64).await {
                    Ok(found) if found == *data => Next::Done(Ok(())),
                    Ok(_) | Err(StoreError::TooLarge { .. }) => {
                        Next::Done(Err(StoreError::AlreadyExists { object: name.to_string() }))
                    }
                    Err(_) => Next::Again(error),
                }
            }
            Err(error @ StoreError::AlreadyExists { .. }) if *doubted => {
                match self.inner.get(name, data.len() as u64).await {
                    Ok(found) if found == *data => Next::Done(Ok(())),
                    Err(StoreError::Unavailable { .. }) => Next::Again(in_doubt(name)),
                    Ok(_) | Err(_) => Next::Done(Err(error)),
                }
            }
            result => Next::Done(result),
        }
    }

    async fn exchange_once(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: &Bytes,
        doubted: &mut bool,
    ) -> Next<HeadVersion> {
        match self.inner.head_cas(slot, expected, data.clone()).await {
            // It is sure of this attempt only; an earlier one may still have been made.
            Err(error @ StoreError::Unavailable { .. }) => {
                Next::Again(if *doubted { in_doubt(head_name(slot)) } else { error })
            }
            Err(error @ StoreError::InDoubt { .. }) => match self.inner.head_get(slot).await {
                Ok(Some(found)) if found.data == *data => Next::Done(Ok(found.version)),
                Ok(found) if found.as_ref().map(|found| &found.version) != expected => Next::Done(Err(error)),
                Ok(_) | Err(_) => {
                    *doubted = true;
                    Next::Again(error)
                }
            },
            Err(StoreError::PreconditionFailed { .. }) if *doubted => match self.inner.head_get(slot).await {
                Ok(Some(found)) if found.data == *data => Next::Done(Ok(found.version)),
                Ok(_) | Err(_) => Next::Done(Err(in_doubt(head_name(slot)))),
            },
            result => Next::Done(result),
        }
    }
}

fn in_doubt(object: impl ToString) -> StoreError {
    StoreError::InDoubt { object: object.to_string(), source: "the answer to an earlier attempt was lost".into() }
}

/// Waits up to twice as long as before the last attempt, by chance, so that those who failed together do not come
/// back together. `false` when the attempts are used up.
async fn pause(attempt: u32) -> bool {
    if attempt + 1 >= ATTEMPTS {
        return false;
    }
    let mut random = [0; 1];
    // Without randomness it is the longest pause.
    let share = getrandom::fill(&mut random).map_or(255, |()| u32::from(random[0]));
    tokio::time::sleep(FIRST_PAUSE * 2u32.pow(attempt) * (share + 1) / 256).await;
    true
}

macro_rules! again {
    ($call:expr, $($again:pat_param)|+) => {{
        let mut attempt = 0;
        loop {
            match $call.await {
                Err(error) if matches!(error, $($again)|+) => {
                    if !pause(attempt).await {
                        break Err(error);
                    }
                    attempt += 1;
                }
                result => break result,
            }
        }
    }};
}

#[async_trait]
impl SnapshotStore for RetryStore {
    fn kind(&self) -> StoreKind {
        self.inner.kind()
    }

    fn keeps_nothing(&self) -> bool {
        self.inner.keeps_nothing()
    }

    fn is_durable(&self) -> bool {
        self.inner.is_durable()
    }

    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError> {
        let (mut attempt, mut doubted) = (0, false);
        loop {
            match self.create_once(name, &data, &mut doubted).await {
                Next::Done(result) => return result,
                Next::Again(error) if !pause(attempt).await => return Err(error),
                Next::Again(_) => attempt += 1,
            }
        }
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        again!(self.inner.get(name, max_bytes), StoreError::Unavailable { .. })
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        again!(self.inner.get_range(name, offset, len), StoreError::Unavailable { .. })
    }

    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        again!(self.inner.list(prefix, after, limit), StoreError::Unavailable { .. })
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        again!(self.inner.delete(name), StoreError::Unavailable { .. } | StoreError::InDoubt { .. })
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        again!(self.inner.head_get(slot), StoreError::Unavailable { .. })
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        let (mut attempt, mut doubted) = (0, false);
        loop {
            match self.exchange_once(slot, expected, &data, &mut doubted).await {
                Next::Done(result) => return result,
                Next::Again(error) if !pause(attempt).await => return Err(error),
                Next::Again(_) => attempt += 1,
            }
        }
    }
}
