//! Tests of the reader.

mod dump;
mod everyday;
mod hostile;
mod laws;
mod shapes;
