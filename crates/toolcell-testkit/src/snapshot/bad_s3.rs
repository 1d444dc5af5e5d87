//! A small S3 service in this process that can have bad manners: to see that they are noticed.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// How a service behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manners {
    /// As it should.
    Good,
    /// Takes conditions and does not look at them.
    IgnoresConditions,
    /// Takes `If-None-Match` seriously and `If-Match` not.
    IgnoresIfMatch,
    /// Looks, and writes a moment later, whatever has come in between.
    Races,
    /// Gives everything one ETag.
    SameEtag,
    /// Every request is one too many.
    SlowDown,
    /// The bucket is not there.
    NoBucket,
    /// The credentials are wrong.
    Denied,
    /// There is no room.
    Full,
    /// Never answers.
    Silent,
}

#[derive(Debug)]
struct Service {
    manners: Manners,
    objects: Mutex<BTreeMap<String, (Bytes, String)>>,
    writes: AtomicUsize,
}

/// A running service; it ends when dropped.
#[derive(Debug)]
pub struct BadS3 {
    address: SocketAddr,
    service: Arc<Service>,
    _task: AbortOnDropHandle<()>,
}

impl BadS3 {
    /// Starts one on a free port of the loopback interface.
    pub async fn start(manners: Manners) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = Arc::new(Service { manners, objects: Mutex::default(), writes: AtomicUsize::new(0) });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&service));
        let tasks = tokio_util::task::TaskTracker::new();
        let task = tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, service, _task: AbortOnDropHandle::new(task) }
    }

    /// `http://127.0.0.1:PORT`
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Objects that are there.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.service.objects.lock().unwrap().len()
    }

    /// Writes that were asked for.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.service.writes.load(Ordering::Relaxed)
    }
}

fn refusal(status: StatusCode, code: &str) -> Response {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>made to fail</Message></Error>");
    (status, [(header::CONTENT_TYPE, "application/xml")], body).into_response()
}

fn etag(data: &[u8], manners: Manners) -> String {
    let seed: &[u8] = if manners == Manners::SameEtag { b"" } else { data };
    format!("\"{}\"", &blake3::hash(seed).to_hex()[..32])
}

async fn answer(
    State(service): State<Arc<Service>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match service.manners {
        Manners::SlowDown => return refusal(StatusCode::SERVICE_UNAVAILABLE, "SlowDown"),
        Manners::NoBucket => return refusal(StatusCode::NOT_FOUND, "NoSuchBucket"),
        Manners::Denied => return refusal(StatusCode::FORBIDDEN, "SignatureDoesNotMatch"),
        Manners::Full if method == Method::PUT => {
            service.writes.fetch_add(1, Ordering::Relaxed);
            return refusal(StatusCode::INSUFFICIENT_STORAGE, "XMinioStorageFull");
        }
        Manners::Silent => std::future::pending::<()>().await,
        Manners::Good
        | Manners::IgnoresConditions
        | Manners::IgnoresIfMatch
        | Manners::Races
        | Manners::SameEtag
        | Manners::Full => {}
    }
    let key = uri.path().to_owned();
    if method == Method::HEAD && key.trim_matches('/').split('/').count() == 1 {
        return StatusCode::OK.into_response();
    }
    match method {
        Method::PUT => put(&service, key, &headers, body).await,
        Method::DELETE => {
            service.objects.lock().unwrap().remove(&key);
            StatusCode::NO_CONTENT.into_response()
        }
        Method::GET | Method::HEAD => match service.objects.lock().unwrap().get(&key) {
            Some((data, etag)) => {
                ([(header::ETAG, HeaderValue::from_str(etag).unwrap())], data.clone()).into_response()
            }
            None => refusal(StatusCode::NOT_FOUND, "NoSuchKey"),
        },
        _ => refusal(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
    }
}

async fn put(service: &Service, key: String, headers: &HeaderMap, body: Bytes) -> Response {
    service.writes.fetch_add(1, Ordering::Relaxed);
    let manners = service.manners;
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (none_match, is_match) = (text(header::IF_NONE_MATCH), text(header::IF_MATCH));
    let allowed = |objects: &BTreeMap<String, (Bytes, String)>| {
        let there = objects.get(&key).map(|(_, etag)| etag.as_str());
        match manners {
            Manners::IgnoresConditions => true,
            Manners::IgnoresIfMatch => none_match.is_none() || there.is_none(),
            _ => (none_match.is_none() || there.is_none()) && is_match.as_deref().is_none_or(|tag| there == Some(tag)),
        }
    };
    let tag = etag(&body, manners);
    if manners == Manners::Races {
        if !allowed(&service.objects.lock().unwrap()) {
            return refusal(StatusCode::PRECONDITION_FAILED, "PreconditionFailed");
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
        service.objects.lock().unwrap().insert(key, (body, tag.clone()));
    } else {
        let mut objects = service.objects.lock().unwrap();
        if !allowed(&objects) {
            return refusal(StatusCode::PRECONDITION_FAILED, "PreconditionFailed");
        }
        objects.insert(key, (body, tag.clone()));
    }
    ([(header::ETAG, HeaderValue::from_str(&tag).unwrap())], ()).into_response()
}
