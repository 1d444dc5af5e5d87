//! What a service's answer means.

use crate::error::StoreError;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use std::error::Error;

/// What was asked for: it decides what no answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Reading,
    Creating,
    Replacing,
    /// May be repeated as often as one likes.
    Deleting,
}

impl Doing {
    const fn writes_once(self) -> bool {
        matches!(self, Self::Creating | Self::Replacing)
    }
}

/// The store's word for it.
pub(super) fn fault<E>(error: &SdkError<E, HttpResponse>, object: &str, doing: Doing) -> StoreError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let object = object.to_owned();
    let reason = DisplayErrorContext(error).to_string();
    let source = || reason.clone().into();
    let undecided = |object: String| {
        if doing.writes_once() {
            StoreError::InDoubt { object, source: reason.clone().into() }
        } else {
            StoreError::Unavailable { object, source: reason.clone().into() }
        }
    };
    let response = match error {
        SdkError::ConstructionFailure(_) => {
            return StoreError::Denied { object, source: reason.into() };
        }
        SdkError::ServiceError(answer) => answer.raw(),
        SdkError::DispatchFailure(failure) => {
            // Before a connection there was nothing to send.
            let never_sent = failure.is_user() || failure.as_connector_error().is_some_and(|error| was_refused(error));
            return if never_sent { StoreError::Unavailable { object, source: source() } } else { undecided(object) };
        }
        SdkError::ResponseError(_) | SdkError::TimeoutError(_) => return undecided(object),
        // The library may add kinds; of none of them is it known that nothing was written.
        _ => return undecided(object),
    };
    let code = match error {
        SdkError::ServiceError(answer) => answer.err().code().unwrap_or_default(),
        _ => "",
    };
    match (response.status().as_u16(), code) {
        (_, "NoSuchBucket") => StoreError::Unavailable { object, source: source() },
        (404, _) => StoreError::NotFound { object },
        (412, _) => StoreError::PreconditionFailed { object },
        // Another conditional write is under way; this one was not taken.
        (409, _) | (503 | 429, _) | (_, "SlowDown") => StoreError::Unavailable { object, source: source() },
        (416, _) => StoreError::Corrupt { object, detail: "it ends before the range that was asked for".to_owned() },
        (507, _) | (_, "QuotaExceeded" | "InsufficientStorage" | "XMinioStorageFull") => StoreError::NoSpace { object },
        (400, "InvalidAccessKeyId" | "AuthorizationHeaderMalformed" | "ExpiredToken" | "InvalidToken")
        | (401 | 403 | 501 | 301, _) => StoreError::Denied { object, source: source() },
        (500.., _) => undecided(object),
        _ => StoreError::Internal { object, source: source() },
    }
}

/// Whether nothing was at the other end to be written to.
fn was_refused(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(here) = next {
        let refused = here.downcast_ref::<std::io::Error>().is_some_and(|error| {
            matches!(
                error.kind(),
                std::io::ErrorKind::ConnectionRefused
                    | std::io::ErrorKind::HostUnreachable
                    | std::io::ErrorKind::NetworkUnreachable
            )
        });
        if refused || here.to_string().contains("dns error") {
            return true;
        }
        next = here.source();
    }
    false
}
