//! Whether a service keeps its word: services that take a condition and ignore it, or check it and then write without
//! excluding others, are common, and with them two holders could both commit.

use super::fault::{Doing, fault};
use super::{Condition, S3Store};
use crate::error::StoreError;
use bytes::Bytes;
use futures_util::future::join_all;

/// Writers that race, and how often, for each kind of write. A service that does not exclude them lets several win nearly
/// every time; one that does may take a second for each round, and whoever starts a server waits for it.
const RACERS: usize = 5;
const ROUNDS: usize = 2;

/// A bucket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Nobody answers, or the answer makes no sense.
    #[error("the S3 endpoint does not answer ([snapshots.s3] endpoint)")]
    Unreachable(#[source] StoreError),
    /// The bucket is not there.
    #[error("the bucket `{bucket}` is not there: make it, or name another one ([snapshots.s3] bucket)")]
    NoBucket {
        /// Its name.
        bucket: String,
    },
    /// The service refuses the credentials, or they may not do this.
    #[error(
        "the S3 service refuses these credentials; they need to get, put, delete and list objects ([snapshots.s3] access_key, secret_key, or the AWS environment)"
    )]
    Denied(#[source] StoreError),
    /// The service does not honour conditions.
    #[error(
        "this S3 service cannot keep two holders apart: {found}. Use one that honours If-Match and If-None-Match ([snapshots.s3] endpoint)"
    )]
    NotConditional {
        /// What it did.
        found: String,
    },
    /// Something else failed.
    #[error("while trying the bucket out")]
    Failed(#[source] StoreError),
}

impl S3Store {
    /// Creates, replaces and removes a few objects of its own.
    pub(super) async fn probe(&self) -> Result<(), ProbeError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| ProbeError::Failed(StoreError::internal("a probe", error.to_string())))?;
        let keys: Vec<String> = ["create", "replace", "missing", "race-create", "race-replace"]
            .iter()
            .map(|what| format!("{}probe/{}-{what}", self.prefix, data_encoding::HEXLOWER.encode(&random)))
            .collect();
        let probed = self.probe_with(&keys).await;
        let made = keys
            .iter()
            .flat_map(|key| std::iter::once(key.clone()).chain((0..ROUNDS).map(move |round| format!("{key}-{round}"))));
        // What stays is a few bytes; what was found out counts.
        drop(join_all(made.map(|key| self.client.delete_object().bucket(&self.bucket).key(key).send())).await);
        probed
    }

    async fn probe_with(&self, keys: &[String]) -> Result<(), ProbeError> {
        // Asked for by itself: some services make a bucket when something is put into it.
        let bucket = self.client.head_bucket().bucket(&self.bucket).send().await;
        bucket.map_err(|error| self.word(fault(&error, &self.bucket, Doing::Reading)))?;
        let [create, replace, missing, race_create, race_replace] = keys else {
            return Ok(());
        };
        let first = self.put(create, "first", Condition::Absent).await.map_err(|error| self.word(error))?;
        if first.is_none() {
            return Err(not_conditional("it gives no ETag for what it stores"));
        }
        self.refuses(create, "second", Condition::Absent, "it created an object twice").await?;
        let old = self.put(replace, "one", Condition::Absent).await.map_err(|error| self.word(error))?;
        let old = old.unwrap_or_default();
        let new = self.put(replace, "two", Condition::Is(&old)).await.map_err(|error| match error {
            StoreError::PreconditionFailed { .. } => not_conditional("it refuses the ETag that it gave"),
            error => self.word(error),
        })?;
        if new.as_ref() == Some(&old) {
            return Err(not_conditional("it gives another content the same ETag"));
        }
        self.refuses(replace, "three", Condition::Is(&old), "it replaced an object that had changed").await?;
        self.refuses(missing, "one", Condition::Is(&old), "it replaced an object that was not there").await?;
        for round in 0..ROUNDS {
            let key = format!("{race_create}-{round}");
            self.race(&key, Condition::Absent, "create").await?;
            let key = format!("{race_replace}-{round}");
            let version = self.put(&key, "start", Condition::Absent).await.map_err(|error| self.word(error))?;
            self.race(&key, Condition::Is(&version.unwrap_or_default()), "replace").await?;
        }
        Ok(())
    }

    async fn put(&self, key: &str, text: &str, condition: Condition<'_>) -> Result<Option<String>, StoreError> {
        self.write(key, key, Bytes::copy_from_slice(text.as_bytes()), condition).await
    }

    async fn refuses(&self, key: &str, text: &str, condition: Condition<'_>, lie: &str) -> Result<(), ProbeError> {
        match self.put(key, text, condition).await {
            Ok(_) => Err(not_conditional(lie)),
            Err(StoreError::PreconditionFailed { .. } | StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.word(error)),
        }
    }

    /// Of several writers with one condition, one may succeed; it must be the one whose content is there.
    async fn race(&self, key: &str, condition: Condition<'_>, what: &str) -> Result<(), ProbeError> {
        let texts: Vec<String> = (0..RACERS).map(|racer| format!("racer {racer}")).collect();
        let writes = join_all(texts.iter().map(|text| self.put(key, text, condition))).await;
        let (mut won, mut told_to_wait) = (Vec::new(), None);
        for (text, written) in texts.iter().zip(writes) {
            match written {
                Ok(_) => won.push(text),
                Err(StoreError::PreconditionFailed { .. } | StoreError::NotFound { .. }) => {}
                // Told to come again, as some services do to those that race: it did not win.
                Err(error @ StoreError::Unavailable { .. }) => told_to_wait = Some(error),
                Err(error) => return Err(self.word(error)),
            }
        }
        // All of them were: that says nothing about conditions.
        if let Some(error) = told_to_wait.filter(|_| won.is_empty()) {
            return Err(self.word(error));
        }
        let (there, _) = self.read(key, key, None, 1024).await.map_err(|error| self.word(error))?;
        match won.as_slice() {
            [winner] if there == winner.as_bytes() => Ok(()),
            [_] => Err(not_conditional(&format!(
                "of {RACERS} that raced to {what}, one was told that it had won, and another's bytes are there"
            ))),
            won => Err(not_conditional(&format!(
                "of {RACERS} that raced to {what} an object, {} were told that they had won",
                won.len()
            ))),
        }
    }

    fn word(&self, error: StoreError) -> ProbeError {
        match error {
            StoreError::Unavailable { source, .. } if source.to_string().contains("NoSuchBucket") => {
                ProbeError::NoBucket { bucket: self.bucket.clone() }
            }
            error @ (StoreError::Unavailable { .. } | StoreError::InDoubt { .. }) => ProbeError::Unreachable(error),
            StoreError::NotFound { .. } => ProbeError::NoBucket { bucket: self.bucket.clone() },
            error @ StoreError::Denied { .. } => ProbeError::Denied(error),
            error => ProbeError::Failed(error),
        }
    }
}

fn not_conditional(found: &str) -> ProbeError {
    ProbeError::NotConditional { found: found.to_owned() }
}
