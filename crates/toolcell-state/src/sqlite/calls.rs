//! Batches and calls: recording, starting, ending, finding.

use super::connection::{Reader, Writer, map};
use super::rows::{ABSENT, SELECT_CALL, call_record, context, json, stored, to_json, to_json_or_null};
use crate::error::StateError;
use crate::owner::OwnerId;
use crate::records::{
    BatchRecord, CallFilter, CallRecord, CallUpdate, Cursor, FinishedCall, NewBatch, NewCall, Page, Recorded,
};
use crate::store::{MAX_PAGE, MAX_PAGE_BYTES};
use rusqlite::types::Value as Column;
use rusqlite::{Connection, OptionalExtension as _, named_params, params, params_from_iter};
use std::collections::HashSet;
use toolcell_model::{BatchId, CallRef, CallState, FencingToken, UnixMillis};

pub(super) fn record_batch(writer: &Writer, owner: &OwnerId, batch: &NewBatch) -> Result<Vec<Recorded>, StateError> {
    let mut ids = HashSet::with_capacity(batch.calls.len());
    if let Some(twice) = batch.calls.iter().find(|call| !ids.insert(&call.id)) {
        return Err(StateError::CallIdConflict { id: twice.id.clone() });
    }
    // Before the writer's lock is taken: inputs may be large.
    let inputs = batch.calls.iter().map(|call| to_json("an input", &call.input)).collect::<Result<Vec<_>, _>>()?;
    let now = stored("the time of a batch", batch.now.0)?;
    writer.transaction("recording a batch", |connection| {
        let mut recorded = Vec::with_capacity(batch.calls.len());
        let mut refs = Vec::with_capacity(batch.calls.len());
        for (call, input) in batch.calls.iter().zip(&inputs) {
            let existing = if insert(connection, owner, batch, call, now)? {
                connection
                    .prepare_cached("INSERT INTO inputs (call, input) VALUES (?1, ?2)")
                    .and_then(|mut insert| insert.execute([call.call_ref.as_str(), input]))
                    .map_err(|error| map(error, "recording an input"))?;
                None
            } else {
                Some(existing(connection, batch, call)?)
            };
            refs.push(existing.as_ref().map_or_else(|| call.call_ref.clone(), |record| record.call_ref.clone()));
            recorded.push(existing.map_or(Recorded::Fresh, |record| Recorded::Existing(Box::new(record))));
        }
        connection
            .prepare_cached(
                "INSERT INTO batches (batch, tenant, agent, session, user, created_at, calls) \
                 VALUES (:batch, :tenant, :agent, :session, :user, :now, :calls)",
            )
            .and_then(|mut insert| {
                insert.execute(named_params! {
                    ":batch": batch.batch.as_str(),
                    ":tenant": batch.context.tenant.as_str(),
                    ":agent": batch.context.agent.as_str(),
                    ":session": batch.context.session.as_ref().map_or(ABSENT, |id| id.as_str()),
                    ":user": batch.context.user.as_ref().map_or(ABSENT, |id| id.as_str()),
                    ":now": now,
                    ":calls": to_json_column(&refs)?,
                })
            })
            .map_err(|error| map(error, format!("recording batch {}", batch.batch)))?;
        Ok(recorded)
    })
}

fn to_json_column(refs: &[CallRef]) -> rusqlite::Result<String> {
    serde_json::to_string(refs).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Whether the call is new.
fn insert(
    connection: &Connection,
    owner: &OwnerId,
    batch: &NewBatch,
    call: &NewCall,
    now: i64,
) -> Result<bool, StateError> {
    connection
        .prepare_cached(
            "INSERT INTO calls (call, batch, tenant, agent, session, user, id, tool, input_digest, state, owner, \
             created_at) VALUES (:call, :batch, :tenant, :agent, :session, :user, :id, :tool, :input_digest, :state, \
             :owner, :now) ON CONFLICT (id, tenant, agent, session, user) DO NOTHING",
        )
        .and_then(|mut insert| {
            insert.execute(named_params! {
                ":call": call.call_ref.as_str(),
                ":batch": batch.batch.as_str(),
                ":tenant": batch.context.tenant.as_str(),
                ":agent": batch.context.agent.as_str(),
                ":session": batch.context.session.as_ref().map_or(ABSENT, |id| id.as_str()),
                ":user": batch.context.user.as_ref().map_or(ABSENT, |id| id.as_str()),
                ":id": call.id.as_str(),
                ":tool": call.tool.as_str(),
                ":input_digest": call.input_digest,
                ":state": CallState::Queued.as_str(),
                ":owner": owner.as_str(),
                ":now": now,
            })
        })
        .map(|rows| rows == 1)
        .map_err(|error| map(error, format!("recording call {}", call.call_ref)))
}

/// The call that has the id of `call`, if it is the same call.
fn existing(connection: &Connection, batch: &NewBatch, call: &NewCall) -> Result<CallRecord, StateError> {
    let sql =
        format!("{SELECT_CALL} WHERE c.id = ?1 AND c.tenant = ?2 AND c.agent = ?3 AND c.session = ?4 AND c.user = ?5");
    let (record, _) = connection
        .prepare_cached(&sql)
        .and_then(|mut select| {
            select.query_row(
                params![
                    call.id.as_str(),
                    batch.context.tenant.as_str(),
                    batch.context.agent.as_str(),
                    batch.context.session.as_ref().map_or(ABSENT, |id| id.as_str()),
                    batch.context.user.as_ref().map_or(ABSENT, |id| id.as_str()),
                ],
                call_record,
            )
        })
        .map_err(|error| map(error, format!("reading the call with id {:?}", call.id)))?;
    if record.tool == call.tool && record.input_digest == call.input_digest {
        Ok(record)
    } else {
        Err(StateError::CallIdConflict { id: call.id.clone() })
    }
}

pub(super) fn claim_started(
    writer: &Writer,
    owner: &OwnerId,
    call: &CallRef,
    token: FencingToken,
    now: UnixMillis,
) -> Result<bool, StateError> {
    let token = stored("a fencing token", token.0)?;
    let now = stored("the time of a start", now.0)?;
    writer.with(|connection| {
        connection
            .prepare_cached(
                "UPDATE calls SET state = ?2, owner = ?3, token = ?4, started_at = ?5 WHERE call = ?1 AND state = ?6",
            )
            .and_then(|mut update| {
                let (running, queued) = (CallState::Running.as_str(), CallState::Queued.as_str());
                update.execute(params![call.as_str(), running, owner.as_str(), token, now, queued])
            })
            .map(|rows| rows == 1)
            .map_err(|error| map(error, format!("starting call {call}")))
    })
}

pub(super) fn set_state(
    writer: &Writer,
    owner: &OwnerId,
    call: &CallRef,
    from: &[CallState],
    update: &CallUpdate,
) -> Result<bool, StateError> {
    let (to, decision) = match update {
        CallUpdate::Ask { decision } => (CallState::Asking, to_json_or_null("a decision", decision.as_ref())?),
        CallUpdate::Requeue => (CallState::Queued, None),
    };
    // A state that is not in `from` is not matched by the empty text either.
    let [asking, queued, running] = [CallState::Asking, CallState::Queued, CallState::Running]
        .map(|state| if from.contains(&state) { state.as_str() } else { "" });
    let doing = || format!("setting the state of call {call}");
    writer.transaction("setting the state of a call", |connection| {
        let rows = connection
            .prepare_cached(
                "UPDATE calls SET state = ?2, owner = ?3, token = NULL, started_at = NULL \
                 WHERE call = ?1 AND finished_at IS NULL AND state IN (?4, ?5, ?6)",
            )
            .and_then(|mut update| {
                update.execute([call.as_str(), to.as_str(), owner.as_str(), asking, queued, running])
            })
            .map_err(|error| map(error, doing()))?;
        if rows == 1 && decision.is_some() {
            connection
                .prepare_cached(
                    "INSERT INTO results (call, decision) VALUES (?1, ?2) \
                     ON CONFLICT (call) DO UPDATE SET decision = excluded.decision",
                )
                .and_then(|mut insert| insert.execute(params![call.as_str(), decision]))
                .map_err(|error| map(error, doing()))?;
        }
        Ok(rows == 1)
    })
}

pub(super) fn finish(writer: &Writer, call: &CallRef, end: &FinishedCall) -> Result<bool, StateError> {
    if !end.state.is_final() {
        return Err(StateError::NotFinal { call: call.clone(), state: end.state });
    }
    let finished_at = stored("the time of an end", end.finished_at.0)?;
    let decision = to_json_or_null("a decision", end.decision.as_ref())?;
    let error = to_json_or_null("an error", end.error.as_ref())?;
    let fault = to_json_or_null("a fault", end.fault.as_ref())?;
    let slot = to_json_or_null("a slot", end.slot.as_ref())?;
    let timing = to_json("a timing", &end.timing)?;
    let output = to_json_or_null("an output", end.output.as_ref())?;
    let doing = || format!("ending call {call}");
    writer.transaction("ending a call", |connection| {
        let rows = connection
            .prepare_cached("UPDATE calls SET state = ?2, finished_at = ?3 WHERE call = ?1 AND finished_at IS NULL")
            .and_then(|mut update| update.execute(params![call.as_str(), end.state.as_str(), finished_at]))
            .map_err(|error| map(error, doing()))?;
        if rows == 1 {
            connection
                .prepare_cached(
                    "INSERT INTO results (call, decision, error, fault, slot, timing, output) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (call) DO UPDATE SET \
                     decision = coalesce(excluded.decision, decision), error = excluded.error, \
                     fault = excluded.fault, slot = excluded.slot, timing = excluded.timing, output = excluded.output",
                )
                .and_then(|mut insert| {
                    insert.execute(params![call.as_str(), decision, error, fault, slot, timing, output])
                })
                .map_err(|error| map(error, doing()))?;
        }
        Ok(rows == 1)
    })
}

pub(super) fn call(reader: &Reader, call: &CallRef) -> Result<Option<CallRecord>, StateError> {
    reader.with(|connection| one(connection, call).map(|found| found.map(|(record, _)| record)))
}

/// One call, and how many bytes its input and output have.
pub(super) fn one(connection: &Connection, call: &CallRef) -> Result<Option<(CallRecord, usize)>, StateError> {
    connection
        .prepare_cached(&format!("{SELECT_CALL} WHERE c.call = ?1"))
        .and_then(|mut select| select.query_row([call.as_str()], call_record).optional())
        .map_err(|error| map(error, format!("reading call {call}")))
}

pub(super) fn list(
    reader: &Reader,
    filter: &CallFilter,
    cursor: Option<&Cursor>,
    limit: usize,
) -> Result<Page<CallRecord>, StateError> {
    let limit = limit.clamp(1, MAX_PAGE);
    let before = cursor.map(|cursor| CallRef::parse(cursor.as_str())).transpose().map_err(|_| StateError::BadCursor)?;
    // Names are made of their time, so that they sort by it. The equal signs below are on columns whose index starts
    // with the id: without an id the newest calls are walked through by name until the page is full.
    let mut sql = format!("{SELECT_CALL} WHERE c.tenant = ?");
    let mut values = vec![filter.tenant.as_str().to_owned()];
    let mut and = |condition: &str, value: Option<&str>| {
        if let Some(value) = value {
            sql.push_str(" AND ");
            sql.push_str(condition);
            values.push(value.to_owned());
        }
    };
    and("c.agent = ?", filter.agent.as_ref().map(|agent| agent.as_str()));
    and("c.session = ?", filter.session.as_ref().map(|session| session.as_str()));
    and("c.user = ?", filter.user.as_ref().map(|user| user.as_str()));
    and("c.id = ?", filter.id.as_ref().map(|id| id.as_str()));
    // The states that can change have an index: it leads straight to them.
    let condition = match filter.state {
        Some(state) if state.is_final() => "c.state = ? AND c.finished_at IS NOT NULL",
        Some(_) | None => "c.state = ? AND c.finished_at IS NULL",
    };
    and(condition, filter.state.map(CallState::as_str));
    and("c.call < ?", before.as_ref().map(CallRef::as_str));
    sql.push_str(" ORDER BY c.call DESC LIMIT ?");
    let more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let values = values.into_iter().map(Column::from).chain([Column::from(more)]);
    let fail = |error| map(error, "listing calls");
    reader.with(|connection| {
        let mut select = connection.prepare_cached(&sql).map_err(fail)?;
        let mut rows = select.query(params_from_iter(values)).map_err(fail)?;
        let (mut items, mut bytes, mut next) = (Vec::new(), 0_usize, None);
        while let Some(row) = rows.next().map_err(fail)? {
            if items.len() == limit || bytes >= MAX_PAGE_BYTES {
                next = items.last().map(|last: &CallRecord| Cursor::from_text(last.call_ref.as_str()));
                break;
            }
            let (record, size) = call_record(row).map_err(fail)?;
            bytes = bytes.saturating_add(size);
            items.push(record);
        }
        Ok(Page { items, next })
    })
}

pub(super) fn batch(reader: &Reader, batch: &BatchId) -> Result<Option<BatchRecord>, StateError> {
    let fail = |error| map(error, format!("reading batch {batch}"));
    reader.with(|connection| {
        let found = connection
            .prepare_cached("SELECT tenant, agent, session, user, created_at, calls FROM batches WHERE batch = ?1")
            .and_then(|mut select| {
                select
                    .query_row([batch.as_str()], |row| {
                        let refs: Vec<CallRef> = json(row, 5)?.unwrap_or_default();
                        Ok((context(row, 0)?, UnixMillis(row.get(4)?), refs))
                    })
                    .optional()
            })
            .map_err(fail)?;
        let Some((context, created_at, refs)) = found else { return Ok(None) };
        let mut calls = Vec::with_capacity(refs.len());
        for call in &refs {
            calls.extend(one(connection, call)?.map(|(record, _)| record));
        }
        Ok(Some(BatchRecord { batch: batch.clone(), context, created_at, calls }))
    })
}
