//! What an error of Redis means.

use crate::error::StoreError;
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The store's word for it. `once`: the command must not be repeated unseen, so that no answer is a doubt.
pub(super) fn fault(error: &RedisError, object: &str, once: bool) -> StoreError {
    let object = object.to_owned();
    let source = || Box::new(error.clone());
    let code = error.code().unwrap_or_default();
    match (error.kind(), code) {
        (_, "OOM" | "MISCONF") => StoreError::NoSpace { object },
        (ErrorKind::AuthenticationFailed, _)
        | (ErrorKind::Server(ServerErrorKind::NoPerm), _)
        | (_, "NOAUTH" | "WRONGPASS" | "NOPERM") => StoreError::Denied { object, source: source() },
        (ErrorKind::Parse | ErrorKind::UnexpectedReturnType, _) => {
            StoreError::Corrupt { object, detail: "the answer is not what the program wrote".to_owned() }
        }
        // The server has looked at it and done nothing.
        (
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ReadOnly
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask,
            ),
            _,
        )
        | (_, "BUSY") => StoreError::Unavailable { object, source: source() },
        (ErrorKind::Server(_), _) => StoreError::Internal { object, source: source() },
        _ if once && !error.is_connection_refusal() => StoreError::InDoubt { object, source: source() },
        _ => StoreError::Unavailable { object, source: source() },
    }
}

pub(super) fn malformed(object: &str, error: &dyn std::error::Error) -> StoreError {
    StoreError::corrupt(object, format!("a name that no object has: {error}"))
}
