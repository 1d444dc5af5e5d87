//! Objects in a relational database: one row each, written by one statement, so that nobody sees half of one.

mod postgres;
mod sqlite;

pub use postgres::{PostgresError, PostgresStore};
pub use sqlite::SqliteObjects;
