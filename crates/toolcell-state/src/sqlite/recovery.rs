//! Calls whose process is gone, and records whose time is over.

use super::calls::one;
use super::connection::{Reader, Writer, map};
use super::rows::{parsed, stored};
use crate::error::StateError;
use crate::owner::{OwnerId, Owners};
use crate::records::CallRecord;
use crate::store::{MAX_PAGE, MAX_PAGE_BYTES};
use rusqlite::{Connection, params};
use toolcell_model::{BatchId, CallRef, CallState, UnixMillis};

/// How many records one transaction removes: callers in between wait for no more than that.
const EXPIRE_STEP: usize = 200;

pub(super) fn take_over_abandoned(writer: &Writer, owners: &Owners) -> Result<Vec<CallRecord>, StateError> {
    let doing = "taking over abandoned calls";
    writer.transaction(doing, |connection| {
        let fail = |error| map(error, doing);
        let mut taken = Vec::new();
        let mut bytes = 0_usize;
        for call in abandoned(connection, owners)? {
            if bytes >= MAX_PAGE_BYTES {
                break;
            }
            connection
                .prepare_cached("UPDATE calls SET owner = ?2 WHERE call = ?1")
                .and_then(|mut update| update.execute([call.as_str(), owners.me().as_str()]))
                .map_err(fail)?;
            if let Some((record, size)) = one(connection, &call)? {
                bytes = bytes.saturating_add(size);
                taken.push(record);
            }
        }
        Ok(taken)
    })
}

/// The oldest calls whose owners are dead, at most [`MAX_PAGE`].
fn abandoned(connection: &Connection, owners: &Owners) -> Result<Vec<CallRef>, StateError> {
    let fail = |error| map(error, "looking for abandoned calls");
    let mut select = connection
        .prepare_cached("SELECT call, owner FROM calls WHERE finished_at IS NULL AND state IN (?1, ?2) ORDER BY call")
        .map_err(fail)?;
    let mut rows = select.query([CallState::Queued.as_str(), CallState::Running.as_str()]).map_err(fail)?;
    let mut known: Vec<(OwnerId, bool)> = Vec::new();
    let mut calls = Vec::new();
    while let Some(row) = rows.next().map_err(fail)? {
        let owner = parsed(row, 1).map_err(fail)?;
        let alive = match known.iter().find(|(name, _)| *name == owner) {
            Some((_, alive)) => *alive,
            None => {
                let alive = owners.is_alive(&owner)?;
                known.push((owner, alive));
                alive
            }
        };
        if !alive {
            calls.push(parsed(row, 0).map_err(fail)?);
        }
        if calls.len() == MAX_PAGE {
            break;
        }
    }
    Ok(calls)
}

pub(super) fn expire(reader: &Reader, writer: &Writer, before: UnixMillis) -> Result<Vec<CallRef>, StateError> {
    let before = stored("the time to expire before", before.0)?;
    let mut removed = Vec::new();
    loop {
        let step = ended_calls(reader, before)?;
        if step.is_empty() {
            break;
        }
        removed.extend(remove_calls(writer, step)?);
    }
    loop {
        let step = empty_batches(reader, before)?;
        if step.is_empty() {
            return Ok(removed);
        }
        writer.transaction("removing expired batches", |connection| {
            step.iter().try_for_each(|batch| {
                delete(connection, "DELETE FROM batches WHERE batch = ?1", batch.as_str()).map(drop)
            })
        })?;
    }
}

/// Those that this removed: another process may have been faster.
fn remove_calls(writer: &Writer, calls: Vec<CallRef>) -> Result<Vec<CallRef>, StateError> {
    writer.transaction("removing expired calls", |connection| {
        let mut removed = Vec::with_capacity(calls.len());
        for call in calls {
            delete(connection, "DELETE FROM inputs WHERE call = ?1", call.as_str())?;
            delete(connection, "DELETE FROM results WHERE call = ?1", call.as_str())?;
            if delete(connection, "DELETE FROM calls WHERE call = ?1", call.as_str())? {
                removed.push(call);
            }
        }
        Ok(removed)
    })
}

fn delete(connection: &Connection, sql: &str, name: &str) -> Result<bool, StateError> {
    connection
        .prepare_cached(sql)
        .and_then(|mut delete| delete.execute([name]))
        .map(|rows| rows == 1)
        .map_err(|error| map(error, format!("removing {name}")))
}

fn ended_calls(reader: &Reader, before: i64) -> Result<Vec<CallRef>, StateError> {
    reader.with(|connection| {
        connection
            .prepare_cached("SELECT call FROM calls WHERE finished_at < ?1 ORDER BY finished_at LIMIT ?2")
            .and_then(|mut select| select.query_map(params![before, EXPIRE_STEP], |row| parsed(row, 0))?.collect())
            .map_err(|error| map(error, "looking for expired calls"))
    })
}

fn empty_batches(reader: &Reader, before: i64) -> Result<Vec<BatchId>, StateError> {
    reader.with(|connection| {
        connection
            .prepare_cached(
                "SELECT b.batch FROM batches b WHERE b.created_at < ?1 AND NOT EXISTS \
                 (SELECT 1 FROM json_each(b.calls) j JOIN calls c ON c.call = j.value) LIMIT ?2",
            )
            .and_then(|mut select| select.query_map(params![before, EXPIRE_STEP], |row| parsed(row, 0))?.collect())
            .map_err(|error| map(error, "looking for expired batches"))
    })
}
