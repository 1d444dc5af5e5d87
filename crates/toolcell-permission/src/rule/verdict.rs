//! What a pattern says of something that may be known in part only.

/// Whether a pattern matches something that may be known in part only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// Whatever the unknown part is, it does not.
    No,
    /// It may. Deny and ask rules take this for a match, allow rules do not.
    Maybe,
    /// Whatever the unknown part is, it does.
    Yes,
}

impl Match {
    /// Of something that is known.
    #[must_use]
    pub const fn known(matches: bool) -> Self {
        if matches { Self::Yes } else { Self::No }
    }
}
