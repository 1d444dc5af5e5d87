//! Which slots there are, and how far their heads got.

use super::connection::{Reader, Writer, map};
use super::rows::{json, parsed, stored, to_json};
use crate::error::StateError;
use crate::records::{Cursor, Page, SlotRecord};
use crate::store::MAX_PAGE;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension as _, Row, params};
use toolcell_model::{Generation, ScopeKey, ScopeTuple, UnixMillis};

pub(super) fn touch(writer: &Writer, key: &ScopeKey, tuple: &ScopeTuple, now: UnixMillis) -> Result<(), StateError> {
    let tuple = to_json("a scope", tuple)?;
    let now = stored("the time of a use", now.0)?;
    writer.with(|connection| {
        connection
            .prepare_cached(
                "INSERT INTO slots (slot, tuple, created_at, last_used_at) VALUES (?1, ?2, ?3, ?3) \
                 ON CONFLICT (slot) DO UPDATE SET last_used_at = max(last_used_at, excluded.last_used_at)",
            )
            .and_then(|mut insert| insert.execute(params![key.as_str(), tuple, now]))
            .map(drop)
            .map_err(|error| map(error, format!("noting the use of slot {key}")))
    })
}

pub(super) fn remove(writer: &Writer, key: &ScopeKey) -> Result<bool, StateError> {
    writer.with(|connection| {
        connection
            .prepare_cached("DELETE FROM slots WHERE slot = ?1")
            .and_then(|mut delete| delete.execute([key.as_str()]))
            .map(|rows| rows == 1)
            .map_err(|error| map(error, format!("removing slot {key}")))
    })
}

pub(super) fn list(reader: &Reader, cursor: Option<&Cursor>, limit: usize) -> Result<Page<SlotRecord>, StateError> {
    let limit = limit.clamp(1, MAX_PAGE);
    let after = cursor.map(|cursor| ScopeKey::parse(cursor.as_str())).transpose().map_err(|_| StateError::BadCursor)?;
    let after = after.as_ref().map_or("", ScopeKey::as_str);
    let mut items: Vec<SlotRecord> = reader.with(|connection| {
        connection
            .prepare_cached(
                "SELECT s.slot, s.tuple, s.created_at, s.last_used_at, g.generation FROM slots s \
                 LEFT JOIN generations g ON g.slot = s.slot WHERE s.slot > ?1 ORDER BY s.slot LIMIT ?2",
            )
            .and_then(|mut select| select.query_map(params![after, limit.saturating_add(1)], slot)?.collect())
            .map_err(|error| map(error, "listing slots"))
    })?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|last| Cursor::from_text(last.key.as_str()));
    Ok(Page { items, next })
}

pub(super) fn one(reader: &Reader, key: &ScopeKey) -> Result<Option<SlotRecord>, StateError> {
    reader.with(|connection| {
        connection
            .prepare_cached(
                "SELECT s.slot, s.tuple, s.created_at, s.last_used_at, g.generation FROM slots s \
                 LEFT JOIN generations g ON g.slot = s.slot WHERE s.slot = ?1",
            )
            .and_then(|mut select| select.query_row([key.as_str()], slot).optional())
            .map_err(|error| map(error, format!("reading slot {key}")))
    })
}

fn slot(row: &Row<'_>) -> rusqlite::Result<SlotRecord> {
    let no_tuple = || rusqlite::Error::FromSqlConversionFailure(1, Type::Text, "no scope".into());
    Ok(SlotRecord {
        key: parsed(row, 0)?,
        tuple: json(row, 1)?.ok_or_else(no_tuple)?,
        created_at: UnixMillis(row.get(2)?),
        last_used_at: UnixMillis(row.get(3)?),
        highest_generation: row.get::<_, Option<u64>>(4)?.map(Generation),
    })
}

pub(super) fn note_generation(writer: &Writer, key: &ScopeKey, generation: Generation) -> Result<(), StateError> {
    let generation = stored("a generation", generation.0)?;
    writer.with(|connection| {
        connection
            .prepare_cached(
                "INSERT INTO generations (slot, generation) VALUES (?1, ?2) \
                 ON CONFLICT (slot) DO UPDATE SET generation = max(generation, excluded.generation)",
            )
            .and_then(|mut insert| insert.execute(params![key.as_str(), generation]))
            .map(drop)
            .map_err(|error| map(error, format!("noting the generation of slot {key}")))
    })
}

pub(super) fn highest_generation(reader: &Reader, key: &ScopeKey) -> Result<Option<Generation>, StateError> {
    reader.with(|connection| {
        connection
            .prepare_cached("SELECT generation FROM generations WHERE slot = ?1")
            .and_then(|mut select| select.query_row([key.as_str()], |row| row.get(0)).optional())
            .map(|found| found.map(Generation))
            .map_err(|error| map(error, format!("reading the generation of slot {key}")))
    })
}
