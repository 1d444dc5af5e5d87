//! Shell analysis: what a script runs, as far as its text tells.

pub mod ast;
pub mod facts;
pub mod script;
pub mod settings;
