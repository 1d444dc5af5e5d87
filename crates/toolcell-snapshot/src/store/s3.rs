//! Objects in a bucket of any S3-compatible service that honours conditional writes.
//!
//! ```text
//! prefix + objects/{owner}/{class}/{leaf}   written with If-None-Match: *
//! prefix + heads/{slot}                     replaced with If-Match: the ETag that was read, or If-None-Match: *
//! ```
//!
//! The library repeats nothing by itself: a request that was repeated after its first copy had been taken would be
//! refused by its own condition, and nobody would know why. Repeating is left to
//! [`RetryingStore`](super::RetryingStore), which knows what may be repeated.

mod fault;
mod probe;

use super::{
    HeadRecord, HeadVersion, ListPage, Listed, MAX_HEAD_BYTES, MAX_OBJECT_BYTES, ObjectName, ObjectPrefix,
    SnapshotStore, StoreKind, check_size, head_name,
};
use crate::error::StoreError;
use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Builder, Credentials, Region, RequestChecksumCalculation, ResponseChecksumValidation,
};
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use bytes::{Bytes, BytesMut};
use fault::{Doing, fault};
use std::time::Duration;
use toolcell_model::ScopeKey;

pub use probe::ProbeError;

/// For a connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For a request of a few bytes to be answered; longer counts as no answer.
const SMALL_TIMEOUT: Duration = Duration::from_secs(20);
/// For a request with an object of up to [`MAX_OBJECT_BYTES`].
const LARGE_TIMEOUT: Duration = Duration::from_secs(180);
/// Most names that the service gives at a time.
const PAGE: i32 = 1000;

/// Where the bucket is, and who asks.
#[derive(Debug, Clone, Default)]
pub struct S3Config {
    /// `http://…` or `https://…`; without it AWS's own, by region.
    pub endpoint: Option<String>,
    /// The bucket; it must be there.
    pub bucket: String,
    /// Put before every key; empty or ending in `/`.
    pub prefix: String,
    /// The region; without it what the AWS environment says, else `us-east-1`.
    pub region: Option<String>,
    /// `endpoint/bucket/key` instead of `bucket.endpoint/key`.
    pub path_style: bool,
    /// Access key and secret key; without them the AWS environment (variables, profile, instance or container role).
    pub credentials: Option<S3Credentials>,
}

/// An access key and its secret. Its `Debug` shows nothing.
#[derive(Clone)]
pub struct S3Credentials {
    /// The access key.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
}

impl std::fmt::Debug for S3Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("S3Credentials(…)")
    }
}

/// A bucket, or a part of one.
#[derive(Debug, Clone)]
pub struct S3Store {
    client: Client,
    bucket: String,
    prefix: String,
}

impl S3Store {
    /// Opens the bucket and finds out whether the service honours conditional writes: without them two holders could
    /// both commit.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub async fn open(config: &S3Config) -> Result<Self, ProbeError> {
        let store = Self::connect(config).await;
        store.probe().await?;
        Ok(store)
    }

    /// The same without looking: nothing is sent yet.
    async fn connect(config: &S3Config) -> Self {
        let http =
            aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
        let version = BehaviorVersion::v2026_01_12();
        let mut builder = match &config.credentials {
            Some(S3Credentials { access_key, secret_key }) => {
                let credentials = Credentials::new(access_key, secret_key, None, None, "configuration");
                Builder::new().behavior_version(version).credentials_provider(credentials)
            }
            None => {
                let environment = aws_config::defaults(version).http_client(http.clone()).load().await;
                aws_sdk_s3::config::Builder::from(&environment)
            }
        };
        if let Some(region) = &config.region {
            builder = builder.region(Region::new(region.clone()));
        } else if config.credentials.is_some() || config.endpoint.is_some() {
            builder = builder.region(Region::new("us-east-1"));
        }
        if let Some(endpoint) = &config.endpoint {
            builder = builder.endpoint_url(endpoint);
        }
        let builder = builder
            .http_client(http)
            .force_path_style(config.path_style)
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts(SMALL_TIMEOUT))
            // Every byte that counts is verified by the engine; many compatible services refuse the newer checksums.
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
        Self {
            client: Client::from_conf(builder.build()),
            bucket: config.bucket.clone(),
            prefix: config.prefix.clone(),
        }
    }

    fn object_key(&self, name: &str) -> String {
        format!("{}objects/{name}", self.prefix)
    }

    fn head_key(&self, slot: &ScopeKey) -> String {
        format!("{}heads/{slot}", self.prefix)
    }

    /// Reads at most `max_bytes`, or exactly a range; with the version.
    async fn read(
        &self,
        key: &str,
        object: &str,
        range: Option<(u64, u64)>,
        max_bytes: u64,
    ) -> Result<(Bytes, Option<String>), StoreError> {
        let range_text = range.map(|(from, until)| format!("bytes={from}-{until}"));
        let large = range.map_or(max_bytes, |(from, until)| until - from) > 1024 * 1024;
        let timeout = timeouts(if large { LARGE_TIMEOUT } else { SMALL_TIMEOUT });
        let request = self.client.get_object().bucket(&self.bucket).key(key).set_range(range_text);
        let request = request.customize().config_override(Builder::default().timeout_config(timeout));
        let answer = request.send().await.map_err(|error| fault(&error, object, Doing::Reading))?;
        // Announced before it is read. A service that announces nothing is cut off at the bound below.
        if let Some(bytes) = answer.content_length().and_then(|bytes| u64::try_from(bytes).ok()) {
            check_size(&object, bytes, max_bytes)?;
        }
        let version = answer.e_tag().map(str::to_owned);
        let mut body = answer.body;
        let mut data = BytesMut::new();
        let read = async {
            while let Some(part) = body.try_next().await.map_err(|error| unavailable(object, error))? {
                check_size(&object, (data.len() + part.len()) as u64, max_bytes)?;
                data.extend_from_slice(&part);
            }
            Ok(())
        };
        // The library's time limits end with the answer's first bytes.
        match tokio::time::timeout(if large { LARGE_TIMEOUT } else { SMALL_TIMEOUT }, read).await {
            Ok(read) => read?,
            Err(late) => return Err(unavailable(object, late)),
        }
        Ok((data.freeze(), version))
    }

    async fn write(
        &self,
        key: &str,
        object: &str,
        data: Bytes,
        condition: Condition<'_>,
    ) -> Result<Option<String>, StoreError> {
        let large = data.len() > 1024 * 1024;
        let timeout = timeouts(if large { LARGE_TIMEOUT } else { SMALL_TIMEOUT });
        let request = self.client.put_object().bucket(&self.bucket).key(key).body(ByteStream::from(data));
        let (request, doing) = match condition {
            Condition::Absent => (request.if_none_match("*"), Doing::Creating),
            Condition::Is(version) => (request.if_match(version), Doing::Replacing),
        };
        let request = request.customize().config_override(Builder::default().timeout_config(timeout));
        let answer = request.send().await.map_err(|error| fault(&error, object, doing))?;
        Ok(answer.e_tag().map(str::to_owned))
    }
}

/// What a write asks of what is there.
#[derive(Debug, Clone, Copy)]
enum Condition<'a> {
    Absent,
    Is(&'a str),
}

fn timeouts(answer: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(answer)
        .operation_timeout(answer)
        .build()
}

fn unavailable(object: &str, source: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unavailable { object: object.to_owned(), source: Box::new(source) }
}

#[async_trait]
impl SnapshotStore for S3Store {
    fn kind(&self) -> StoreKind {
        StoreKind::S3
    }

    async fn put_if_absent(&self, name: &ObjectName, data: Bytes) -> Result<(), StoreError> {
        check_size(name, data.len() as u64, MAX_OBJECT_BYTES)?;
        match self.write(&self.object_key(name.as_str()), name.as_str(), data, Condition::Absent).await {
            Err(StoreError::PreconditionFailed { object }) => Err(StoreError::AlreadyExists { object }),
            written => written.map(|_| ()),
        }
    }

    async fn get(&self, name: &ObjectName, max_bytes: u64) -> Result<Bytes, StoreError> {
        let read = self.read(&self.object_key(name.as_str()), name.as_str(), None, max_bytes).await;
        read.map(|(data, _)| data)
    }

    async fn get_range(&self, name: &ObjectName, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        check_size(name, len, MAX_OBJECT_BYTES)?;
        let short = || StoreError::corrupt(name, format!("it ends before {offset} + {len}"));
        let key = self.object_key(name.as_str());
        let Some(last) = len.checked_sub(1) else {
            let head = self.client.head_object().bucket(&self.bucket).key(&key).send().await;
            let head = head.map_err(|error| fault(&error, name.as_str(), Doing::Reading))?;
            let bytes = head.content_length().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default();
            return if offset <= bytes { Ok(Bytes::new()) } else { Err(short()) };
        };
        let last = offset.checked_add(last).ok_or_else(short)?;
        match self.read(&key, name.as_str(), Some((offset, last)), len).await {
            Ok((data, _)) if data.len() as u64 == len => Ok(data),
            // Shorter: the object ends. Longer: the service does not know ranges, and its answer was the whole object.
            Ok(_) | Err(StoreError::TooLarge { .. }) => Err(short()),
            Err(error) => Err(error),
        }
    }

    async fn list(
        &self,
        prefix: &ObjectPrefix,
        after: Option<&ObjectName>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        let limit = limit.max(1);
        let top = format!("{}objects/", self.prefix);
        let mut page = ListPage::default();
        let mut after = after.map(|name| self.object_key(name.as_str()));
        loop {
            let request = self.client.list_objects_v2().bucket(&self.bucket).prefix(format!("{top}{prefix}"));
            let wanted = i32::try_from(limit - page.objects.len()).unwrap_or(PAGE).saturating_add(1).min(PAGE);
            let request = request.set_start_after(after.clone()).max_keys(wanted);
            let answer = request.send().await.map_err(|error| fault(&error, prefix.as_str(), Doing::Reading))?;
            let truncated = answer.is_truncated().unwrap_or(false);
            let contents = answer.contents.unwrap_or_default();
            if contents.is_empty() {
                return Ok(page);
            }
            for object in contents {
                let key = object.key.unwrap_or_default();
                if after.as_ref().is_some_and(|after| *after >= key) {
                    return Err(StoreError::corrupt(prefix, "the service does not list in byte order"));
                }
                // Somebody else's files are none of ours.
                if let Some(name) = key.strip_prefix(&top).and_then(|name| ObjectName::parse(name).ok()) {
                    if page.objects.len() == limit {
                        page.more = true;
                        return Ok(page);
                    }
                    let bytes = object.size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default();
                    page.objects.push(Listed { name, bytes });
                }
                after = Some(key);
            }
            if !truncated {
                return Ok(page);
            }
        }
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), StoreError> {
        let request = self.client.delete_object().bucket(&self.bucket).key(self.object_key(name.as_str()));
        match request.send().await.map_err(|error| fault(&error, name.as_str(), Doing::Deleting)) {
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn head_get(&self, slot: &ScopeKey) -> Result<Option<HeadRecord>, StoreError> {
        match self.read(&self.head_key(slot), &head_name(slot), None, MAX_HEAD_BYTES).await {
            Ok((data, Some(version))) => Ok(Some(HeadRecord { data, version: HeadVersion(version) })),
            Ok((_, None)) => Err(StoreError::corrupt(head_name(slot), "the service gives no ETag")),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn head_cas(
        &self,
        slot: &ScopeKey,
        expected: Option<&HeadVersion>,
        data: Bytes,
    ) -> Result<HeadVersion, StoreError> {
        let object = head_name(slot);
        check_size(&object, data.len() as u64, MAX_HEAD_BYTES)?;
        let condition = expected.map_or(Condition::Absent, |version| Condition::Is(&version.0));
        match self.write(&self.head_key(slot), &object, data, condition).await {
            Ok(Some(version)) => Ok(HeadVersion(version)),
            // Written, and its version is not known: reading finds out.
            Ok(None) => Err(StoreError::InDoubt { object, source: "the service gave no ETag".into() }),
            // A condition on what is not there fails, whatever the service calls it.
            Err(StoreError::NotFound { object }) => Err(StoreError::PreconditionFailed { object }),
            Err(error) => Err(error),
        }
    }
}
