//! Which container a slot is bound to.

use super::connection::{Reader, Writer, map};
use super::rows::{parsed, stored};
use crate::error::StateError;
use crate::records::Binding;
use rusqlite::{OptionalExtension as _, Row, named_params};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use toolcell_model::{Acquisition, FencingToken, ScopeKey, UnixMillis};

const SELECT: &str = "SELECT slot, container, token, acquisition, spec_hash, image_digest, secret_path, started_at, \
    restored FROM bindings ";

pub(super) fn put(writer: &Writer, binding: &Binding) -> Result<(), StateError> {
    let slot = &binding.slot;
    let token = stored("a fencing token", binding.token.0)?;
    let started_at = stored("the time of a binding", binding.started_at.0)?;
    let fail = |error| map(error, format!("binding slot {slot}"));
    writer.transaction("binding a slot", |connection| {
        let rows = connection
            .prepare_cached(
                "INSERT INTO bindings (slot, container, token, acquisition, spec_hash, image_digest, secret_path, \
                 started_at, restored) VALUES (:slot, :container, :token, :acquisition, :spec_hash, :image_digest, \
                 :secret_path, :started_at, :restored) ON CONFLICT (slot) DO UPDATE SET \
                 container = excluded.container, token = excluded.token, acquisition = excluded.acquisition, \
                 spec_hash = excluded.spec_hash, image_digest = excluded.image_digest, \
                 secret_path = excluded.secret_path, started_at = excluded.started_at, restored = excluded.restored \
                 WHERE excluded.token > token OR (excluded.token = token AND excluded.acquisition = acquisition)",
            )
            .and_then(|mut insert| {
                insert.execute(named_params! {
                    ":slot": slot.as_str(),
                    ":container": binding.container,
                    ":token": token,
                    ":acquisition": binding.acquisition.to_string(),
                    ":spec_hash": binding.spec_hash,
                    ":image_digest": binding.image_digest,
                    ":secret_path": binding.secret_path.as_os_str().as_bytes(),
                    ":started_at": started_at,
                    ":restored": binding.restored,
                })
            })
            .map_err(fail)?;
        if rows == 1 {
            return Ok(());
        }
        let recorded = connection
            .query_row("SELECT token FROM bindings WHERE slot = ?1", [slot.as_str()], |row| row.get(0))
            .map_err(fail)?;
        Err(StateError::Fenced { slot: slot.clone(), recorded: FencingToken(recorded) })
    })
}

pub(super) fn set_restored(writer: &Writer, slot: &ScopeKey, acquisition: Acquisition) -> Result<bool, StateError> {
    mine(writer, "UPDATE bindings SET restored = 1 WHERE slot = ?1 AND acquisition = ?2", slot, acquisition)
}

pub(super) fn remove(writer: &Writer, slot: &ScopeKey, acquisition: Acquisition) -> Result<bool, StateError> {
    mine(writer, "DELETE FROM bindings WHERE slot = ?1 AND acquisition = ?2", slot, acquisition)
}

fn mine(writer: &Writer, sql: &str, slot: &ScopeKey, acquisition: Acquisition) -> Result<bool, StateError> {
    writer.with(|connection| {
        connection
            .prepare_cached(sql)
            .and_then(|mut change| change.execute([slot.as_str(), &acquisition.to_string()]))
            .map(|rows| rows == 1)
            .map_err(|error| map(error, format!("changing the binding of slot {slot}")))
    })
}

pub(super) fn one(reader: &Reader, slot: &ScopeKey) -> Result<Option<Binding>, StateError> {
    reader.with(|connection| {
        connection
            .prepare_cached(&format!("{SELECT} WHERE slot = ?1"))
            .and_then(|mut select| select.query_row([slot.as_str()], binding).optional())
            .map_err(|error| map(error, format!("reading the binding of slot {slot}")))
    })
}

pub(super) fn all(reader: &Reader) -> Result<Vec<Binding>, StateError> {
    reader.with(|connection| {
        connection
            .prepare_cached(&format!("{SELECT} ORDER BY slot"))
            .and_then(|mut select| select.query_map([], binding)?.collect())
            .map_err(|error| map(error, "reading the bindings"))
    })
}

fn binding(row: &Row<'_>) -> rusqlite::Result<Binding> {
    let secret_path: Vec<u8> = row.get(6)?;
    Ok(Binding {
        slot: parsed(row, 0)?,
        container: row.get(1)?,
        token: FencingToken(row.get(2)?),
        acquisition: parsed(row, 3)?,
        spec_hash: row.get(4)?,
        image_digest: row.get(5)?,
        secret_path: PathBuf::from(OsString::from_vec(secret_path)),
        started_at: UnixMillis(row.get(7)?),
        restored: row.get(8)?,
    })
}
