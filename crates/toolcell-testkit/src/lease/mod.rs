//! The suite of execution guards.
