//! From columns to values and back.

use crate::error::StateError;
use crate::records::CallRecord;
use rusqlite::Row;
use rusqlite::types::Type;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use toolcell_model::{CallContext, CallState, FencingToken, UnixMillis};

/// The columns that [`call_record`] reads, in its order; ends in the tables it reads them from.
pub(super) const SELECT_CALL: &str = "SELECT c.call, c.batch, c.tenant, c.agent, c.session, c.user, c.id, c.tool, \
    c.input_digest, c.state, c.owner, c.token, c.created_at, c.started_at, c.finished_at, i.input, r.decision, \
    r.output, r.error, r.fault, r.slot, r.timing \
    FROM calls c JOIN inputs i ON i.call = c.call LEFT JOIN results r ON r.call = c.call ";

/// A call, and how many bytes its input and output have.
pub(super) fn call_record(row: &Row<'_>) -> rusqlite::Result<(CallRecord, usize)> {
    let state: String = row.get(9)?;
    let bytes =
        |column| -> rusqlite::Result<usize> { Ok(row.get_ref(column)?.as_bytes_or_null()?.map_or(0, <[u8]>::len)) };
    let record = CallRecord {
        call_ref: parsed(row, 0)?,
        batch: parsed(row, 1)?,
        context: context(row, 2)?,
        id: parsed(row, 6)?,
        tool: parsed(row, 7)?,
        input_digest: row.get(8)?,
        state: CallState::parse(&state).ok_or_else(|| invalid(9, "no state of a call"))?,
        owner: parsed(row, 10)?,
        token: row.get::<_, Option<u64>>(11)?.map(FencingToken),
        created_at: UnixMillis(row.get(12)?),
        started_at: row.get::<_, Option<u64>>(13)?.map(UnixMillis),
        finished_at: row.get::<_, Option<u64>>(14)?.map(UnixMillis),
        input: json(row, 15)?.ok_or_else(|| invalid(15, "no input"))?,
        decision: json(row, 16)?,
        output: json(row, 17)?,
        error: json(row, 18)?,
        fault: json(row, 19)?,
        slot: json(row, 20)?,
        timing: json(row, 21)?,
    };
    Ok((record, bytes(15)?.saturating_add(bytes(17)?)))
}

/// Tenant, agent, session and user, in four columns from `first`.
pub(super) fn context(row: &Row<'_>, first: usize) -> rusqlite::Result<CallContext> {
    Ok(CallContext {
        tenant: parsed(row, first)?,
        agent: parsed(row, first.saturating_add(1))?,
        session: parsed_or_absent(row, first.saturating_add(2))?,
        user: parsed_or_absent(row, first.saturating_add(3))?,
    })
}

/// How an absent session or user is stored. No present one is empty.
pub(super) const ABSENT: &str = "";

/// A text column, parsed.
pub(super) fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: TryFrom<String, Error: Error + Send + Sync + 'static>,
{
    let text: String = row.get(column)?;
    T::try_from(text).map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

fn parsed_or_absent<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>>
where
    T: TryFrom<String, Error: Error + Send + Sync + 'static>,
{
    if row.get_ref(column)?.as_str()? == ABSENT { Ok(None) } else { parsed(row, column).map(Some) }
}

/// A column of JSON text.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let Some(text) = row.get_ref(column)?.as_str_or_null()? else { return Ok(None) };
    serde_json::from_str(text)
        .map(Some)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

/// JSON text for a column.
pub(super) fn to_json<T: Serialize>(what: &str, value: &T) -> Result<String, StateError> {
    serde_json::to_string(value)
        .map_err(|error| StateError::Internal { doing: format!("writing {what} as JSON"), source: error.into() })
}

/// JSON text for a column that may be empty.
pub(super) fn to_json_or_null<T: Serialize>(what: &str, value: Option<&T>) -> Result<Option<String>, StateError> {
    value.map(|value| to_json(what, value)).transpose()
}

/// A number for a column; SQLite's integers have a sign.
pub(super) fn stored(what: &'static str, number: u64) -> Result<i64, StateError> {
    i64::try_from(number).map_err(|_| StateError::OutOfRange { what })
}

fn invalid(column: usize, what: &'static str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
}
