//! The HTTP face: JSON in and out, problem documents for errors, keys for who may.
//!
//! **Owns** the wire form of calls ([`wire`]), routes, authentication ([`auth`]) and the two listeners ([`serve`]).
//! **Never knows** Docker or stores. **Read first**: [`serve`], then [`auth`], then the routes.

pub mod auth;
mod connections;
mod problem;
mod routes;
pub mod serve;
pub mod wire;

pub use axum::body::Body;
pub use problem::Problem;
pub use serve::{InProcess, ServeError, Server};
