//! What an error of Redis means.

use crate::error::StoreError;
use redis::{ErrorKind, RedisError};

/// What a request does to what others see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing: it reads, or writes what nobody refers to.
    Hidden,
    /// It publishes or removes something.
    Visible,
}

/// Commands that the server has refused have done nothing; of one whose answer has not come nothing is known.
pub(super) fn failure(object: &str, effect: Effect, error: RedisError) -> StoreError {
    let object = object.to_owned();
    let text = error.to_string();
    // A script's failure carries the code of the command in it, in older servers only in its text.
    let says = |code: &str| error.code() == Some(code) || text.contains(&format!("-{code} "));
    if says("OOM") || text.contains("OOM command not allowed") || text.contains("No space left on device") {
        return StoreError::NoSpace { object };
    }
    if ["NOAUTH", "WRONGPASS", "NOPERM"].into_iter().any(says) {
        return StoreError::Denied { object, source: error.into() };
    }
    if says("WRONGTYPE") {
        return StoreError::corrupt(object, "a key of it has another type");
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => StoreError::Denied { object, source: error.into() },
        ErrorKind::UnexpectedReturnType => StoreError::corrupt(object, "the server's answer has another type"),
        ErrorKind::Io | ErrorKind::Parse => match effect {
            Effect::Hidden => StoreError::Unavailable { object, source: error.into() },
            Effect::Visible => StoreError::InDoubt { object, source: error.into() },
        },
        // LOADING, READONLY, CLUSTERDOWN, MASTERDOWN, TRYAGAIN, MISCONF, NOREPLICAS, BUSY …: it refuses for now.
        _ if error.code().is_some_and(|code| code != "ERR") => StoreError::Unavailable { object, source: error.into() },
        _ => StoreError::internal(object, error),
    }
}
