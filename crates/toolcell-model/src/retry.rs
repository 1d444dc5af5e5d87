//! Whether trying again may help: what the errors of every backend answer.

/// Whether trying again may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same request fails again.
    Never,
    /// The cause may pass.
    Later,
    /// It may have happened; look before trying again.
    Indeterminate,
}
