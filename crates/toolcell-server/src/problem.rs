//! Errors as `application/problem+json`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::num::NonZeroU32;
use toolcell_model::RuntimeFault;
use toolcell_runtime::{ExplainError, OperateError, SessionError, StateError, SubmitError, chain};

/// A problem document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Names the kind of problem.
    pub r#type: String,
    /// One line of what failed.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Stable, for programs.
    pub code: String,
    /// What, where, and what to do about it.
    pub detail: String,
    /// What to do about it, where that is not part of the detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Box<str>>,
    /// When a retry may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<NonZeroU32>,
}

impl Problem {
    /// A problem of this status and code.
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        Self::with_title(status, code, title, detail.into(), None)
    }

    fn with_title(status: StatusCode, code: &str, title: String, detail: String, retry_after_ms: Option<u64>) -> Self {
        let r#type = format!("urn:toolcell:problem:{code}");
        Self {
            r#type,
            title,
            status: status.as_u16(),
            code: code.to_owned(),
            detail,
            hint: None,
            retry_after_ms: retry_after(retry_after_ms),
        }
    }

    /// Nothing of that name, or not for this caller.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// The request is not of the documented form.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", detail)
    }
}

/// At once is no time to wait for.
fn retry_after(millis: Option<u64>) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(millis?).unwrap_or(u32::MAX))
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        let detail = chain(&error);
        let (status, code, retry) = match error {
            SubmitError::UnknownAgent { .. } => (StatusCode::NOT_FOUND, "unknown_agent", None),
            SubmitError::IdentityRequired { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "identity_required", None),
            SubmitError::Empty | SubmitError::TooManyCalls { .. } => (StatusCode::BAD_REQUEST, "invalid_request", None),
            SubmitError::CallIdConflict { .. } => (StatusCode::CONFLICT, "call_id_conflict", None),
            SubmitError::Busy { .. } => (StatusCode::TOO_MANY_REQUESTS, "busy", Some(1000)),
            SubmitError::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "shutting_down", Some(1000)),
            SubmitError::State(error) => return error.into(),
        };
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        Self::with_title(status, code, title, detail, retry)
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        let detail = chain(&error);
        match error {
            SessionError::UnknownAgent { .. } => Self::new(StatusCode::NOT_FOUND, "unknown_agent", detail),
            SessionError::Invalid { .. } => Self::invalid(detail),
            SessionError::Forbidden { .. } => Self::new(StatusCode::FORBIDDEN, "forbidden", detail),
            SessionError::Contended => {
                let title = "Conflict".to_owned();
                Self::with_title(StatusCode::CONFLICT, "busy", title, detail, Some(1000))
            }
            SessionError::Unreadable { .. } => {
                tracing::error!(detail, "the permissions of a session");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "session_permissions_unreadable", detail)
            }
            SessionError::State(error) => error.into(),
        }
    }
}

impl From<ExplainError> for Problem {
    fn from(error: ExplainError) -> Self {
        let detail = chain(&error);
        match error {
            ExplainError::UnknownAgent { .. } => Self::new(StatusCode::NOT_FOUND, "unknown_agent", detail),
            ExplainError::RealPath { .. } => Self::invalid(detail),
            ExplainError::Session(error) => error.into(),
            ExplainError::Internal(_) => {
                tracing::error!(detail, "a call cannot be explained");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
            }
        }
    }
}

impl From<OperateError> for Problem {
    fn from(error: OperateError) -> Self {
        let detail = chain(&error);
        let code = error.code();
        let status = match code {
            "invalid_request" | "archive_broken_off" => StatusCode::BAD_REQUEST,
            "not_found" | "unknown_agent" => StatusCode::NOT_FOUND,
            "identity_required" | "archive_malformed" | "too_large" => StatusCode::UNPROCESSABLE_ENTITY,
            "slot_busy" | "target_not_empty" | "head_missing" | "lease_lost" | "no_store" => StatusCode::CONFLICT,
            "snapshot_corrupt" | "internal" => StatusCode::INTERNAL_SERVER_ERROR,
            "no_space" => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        if status.is_server_error() {
            tracing::error!(code, detail, "an operation on a slot failed");
        }
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        let problem = Self::with_title(status, code, title, detail, error.retry_after_ms());
        Self { hint: error.hint().map(String::into_boxed_str), ..problem }
    }
}

impl From<StateError> for Problem {
    fn from(error: StateError) -> Self {
        let detail = chain(&error);
        match error {
            StateError::BadCursor => Self::invalid("next: the cursor is not one of this listing"),
            StateError::NoSpace { .. } => Self::new(StatusCode::INSUFFICIENT_STORAGE, "no_space", detail),
            _ => {
                tracing::error!(detail, "the state store failed");
                let title = "Service Unavailable".to_owned();
                Self::with_title(StatusCode::SERVICE_UNAVAILABLE, "state_unavailable", title, detail, Some(1000))
            }
        }
    }
}

/// The runtime's failure of one call, inside a result.
impl From<&RuntimeFault> for Problem {
    fn from(fault: &RuntimeFault) -> Self {
        let status = match fault.code.as_str() {
            "slot_busy" => StatusCode::TOO_MANY_REQUESTS,
            "image_missing" => StatusCode::UNPROCESSABLE_ENTITY,
            "no_space" => StatusCode::INSUFFICIENT_STORAGE,
            "lease_lost" => StatusCode::CONFLICT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::with_title(status, &fault.code, fault.title.clone(), fault.detail.clone(), fault.retry_after_ms)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(millis) = self.retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(millis.get().div_ceil(1000)));
        }
        response
    }
}
