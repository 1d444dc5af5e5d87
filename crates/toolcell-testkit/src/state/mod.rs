//! The suite of state stores.
