//! What sessions may do.

use super::connection::{Reader, Writer, map, transaction};
use super::rows::ABSENT;
use crate::error::StateError;
use crate::records::{SessionKey, SessionPermissions};
use crate::store::MAX_SESSION_TEXT_BYTES;
use rusqlite::{Connection, OptionalExtension as _, params};
use toolcell_model::UserId;

pub(super) fn read(reader: &Reader, key: &SessionKey) -> Result<Option<SessionPermissions>, StateError> {
    reader.with(|connection| select(connection, key))
}

pub(super) fn put(
    writer: &Writer,
    key: &SessionKey,
    was: Option<&SessionPermissions>,
    now: &SessionPermissions,
) -> Result<bool, StateError> {
    if now.mode.as_ref().is_some_and(|mode| mode.len() > MAX_SESSION_TEXT_BYTES) {
        return Err(StateError::OutOfRange { what: "the mode of a session" });
    }
    if now.rules.len() > MAX_SESSION_TEXT_BYTES {
        return Err(StateError::OutOfRange { what: "the list of a session's rules" });
    }
    let doing = "writing a session's permissions";
    writer.with(|connection| {
        transaction(connection, doing, |connection| {
            if select(connection, key)?.as_ref() != was {
                return Ok(false);
            }
            connection
                .prepare_cached(
                    "INSERT INTO session_permissions (tenant, agent, session, user, mode, rules) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (session, tenant, agent, user) \
                     DO UPDATE SET mode = excluded.mode, rules = excluded.rules",
                )
                .and_then(|mut insert| {
                    let SessionKey { tenant, agent, session, .. } = key;
                    let (tenant, agent, session) = (tenant.as_str(), agent.as_str(), session.as_str());
                    insert.execute(params![tenant, agent, session, user(key), now.mode, now.rules])
                })
                .map(|_| true)
                .map_err(|error| map(error, doing))
        })
    })
}

fn select(connection: &Connection, key: &SessionKey) -> Result<Option<SessionPermissions>, StateError> {
    let SessionKey { tenant, agent, session, .. } = key;
    connection
        .prepare_cached(
            "SELECT mode, rules FROM session_permissions \
             WHERE session = ?1 AND tenant = ?2 AND agent = ?3 AND user = ?4",
        )
        .and_then(|mut select| {
            let found = select
                .query_row(params![session.as_str(), tenant.as_str(), agent.as_str(), user(key)], |row| {
                    Ok(SessionPermissions { mode: row.get(0)?, rules: row.get(1)? })
                });
            found.optional()
        })
        .map_err(|error| map(error, "reading a session's permissions"))
}

fn user(key: &SessionKey) -> &str {
    key.user.as_ref().map_or(ABSENT, UserId::as_str)
}
