//! The bytes of objects. Everything read back is checked before it is used: sizes first, then authenticity, then shape.

pub(crate) mod envelope;
pub(crate) mod head;
pub(crate) mod keys;
pub(crate) mod manifest;
pub(crate) mod pack;
pub(crate) mod pin;
pub(crate) mod tree;

#[cfg(test)]
mod properties;
