//! The rules that the model check breaks one at a time, to show that it would notice.

/// A rule of the protocol that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weakening {
    /// A stamp is allowed with an equal token too.
    StampWithEqualToken,
    /// A commit that is refused is tried again with the generation that is there now.
    CommitRetried,
    /// The head is written before the manifest.
    HeadBeforeManifest,
    /// A collection takes packs whatever token they carry, as one that goes by their age does.
    CollectByAge,
    /// A collection does not look whether the head is still its own before it deletes packs.
    CollectWithoutLook,
    /// A collection does not write the head before it begins.
    CollectWithoutFence,
    /// Who reads reads the manifest first, and pins then.
    PinAfterManifest,
    /// A collection lists pins once, before it deletes manifests.
    PinsListedEarly,
}

/// Which rule does not hold: none, but in builds for the model check.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rules {
    #[cfg(feature = "weakened")]
    pub(crate) broken: Option<Weakening>,
}

impl Rules {
    /// Whether this rule does not hold.
    #[cfg(feature = "weakened")]
    pub(crate) fn lacks(self, rule: Weakening) -> bool {
        self.broken == Some(rule)
    }

    /// Every rule holds.
    #[cfg(not(feature = "weakened"))]
    #[allow(clippy::unused_self, reason = "as in the other build")]
    pub(crate) const fn lacks(self, _: Weakening) -> bool {
        false
    }
}
