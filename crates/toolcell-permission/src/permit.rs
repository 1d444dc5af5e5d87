//! The right to run one call, once.
//!
//! A [`Permit`] is made in this module only: by an ALLOW of the engine, or by an operator's answer to an ASK of it,
//! and only by the second decision, the one that knows the real paths. It cannot be copied, stored, sent or made up:
//!
//! ```compile_fail,E0599
//! fn copy(permit: toolcell_permission::Permit) {
//!     let _second = permit.clone();
//! }
//! ```
//! ```compile_fail,E0382
//! fn twice(permit: toolcell_permission::Permit, digest: &toolcell_permission::CallDigest) {
//!     let _first = permit.consume(digest);
//!     let _second = permit.consume(digest);
//! }
//! ```
//! ```compile_fail,E0277
//! fn from_wire(json: &str) -> toolcell_permission::Permit {
//!     serde_json::from_str(json).unwrap()
//! }
//! ```
//! ```compile_fail,E0277
//! fn to_wire(permit: &toolcell_permission::Permit) -> String {
//!     serde_json::to_string(permit).unwrap()
//! }
//! ```
//! ```compile_fail,E0451
//! fn forge(permitted: toolcell_permission::PermittedCall) -> toolcell_permission::Permit {
//!     toolcell_permission::Permit { call: permitted }
//! }
//! ```
//! ```compile_fail,E0599
//! fn default() -> toolcell_permission::Permit {
//!     toolcell_permission::Permit::default()
//! }
//! ```
//!
//! Nor can an ASK be confirmed that the engine did not make, or be confirmed twice:
//!
//! ```compile_fail,E0451
//! use toolcell_permission::{Asked, Clearance, Decision};
//! fn made_up(decision: Decision, granted: Clearance) -> Asked<Clearance> {
//!     Asked { decision, granted }
//! }
//! ```
//! ```compile_fail,E0382
//! use toolcell_permission::{Asked, Permit};
//! fn twice(asked: Asked<Permit>) -> (Permit, Permit) {
//!     (asked.confirm_by_operator(), asked.confirm_by_operator())
//! }
//! ```

use crate::context::Context;
use crate::decision::{Decision, stricter};
use crate::describe::{DescribedCall, ResolvedCall};
use crate::digest::CallDigest;
use crate::mode::Behavior;
use crate::path::ContainerPath;
use crate::pipeline::{decide, decide_resolved};
use crate::validate::validate;

/// What became of a call: `T` is what it may go on with.
#[derive(Debug)]
#[must_use = "a call that is not allowed must not go on"]
pub enum Authorization<T> {
    /// It may go on.
    Allowed(T),
    /// A person decides.
    Ask(Asked<T>),
    /// It ends here.
    Denied(Decision),
}

impl<T> Authorization<T> {
    /// The same, with an ASK answered by the operator who typed the call. A DENY stays one.
    pub fn confirmed_by_operator(self) -> Self {
        match self {
            Self::Ask(asked) => Self::Allowed(asked.confirm_by_operator()),
            Self::Allowed(granted) => Self::Allowed(granted),
            Self::Denied(decision) => Self::Denied(decision),
        }
    }
}

/// An ASK that the engine made of one exact call.
#[derive(Debug)]
pub struct Asked<T> {
    decision: Decision,
    /// What a yes gives.
    granted: T,
}

impl<T> Asked<T> {
    /// Why it asks.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The decision alone; the call does not go on.
    #[must_use]
    pub fn into_decision(self) -> Decision {
        self.decision
    }

    /// The person at the terminal typed exactly this call, as their own, and has thereby answered. Only for calls
    /// that a person types: an agent's are answered by somebody else.
    #[must_use]
    pub fn confirm_by_operator(self) -> T {
        self.granted
    }
}

/// Who said yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// The engine allowed it.
    Engine,
    /// The engine asked, and the operator who typed the call counts as having answered.
    Operator,
}

impl Basis {
    /// The name for the audit log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Operator => "operator",
        }
    }
}

/// The first decision's yes: the call may acquire its slot and have its paths resolved. Nothing runs with it.
#[derive(Debug)]
pub struct Clearance {
    decision: Decision,
    digest: CallDigest,
    basis: Basis,
}

/// A command that may not run in any case is refused here, approved or not: a person is never asked about it.
fn validated(call: &DescribedCall<'_>, context: &Context, decision: Decision) -> Decision {
    match decision.behavior {
        Behavior::Deny => decision,
        Behavior::Allow | Behavior::Ask => match validate(call, context) {
            Ok(()) => decision,
            Err(refusal) => refusal.into(),
        },
    }
}

/// The first decision, on logical paths, after which a command's shape is [validated](crate::validate).
pub fn authorize(call: &DescribedCall<'_>, context: &Context) -> Authorization<Clearance> {
    let decision = validated(call, context, decide(call, context));
    let clearance = |basis, decision| Clearance { decision, digest: call.digest(), basis };
    match decision.behavior {
        Behavior::Allow => Authorization::Allowed(clearance(Basis::Engine, decision)),
        Behavior::Ask => Authorization::Ask(Asked { granted: clearance(Basis::Operator, decision.clone()), decision }),
        Behavior::Deny => Authorization::Denied(decision),
    }
}

impl Clearance {
    /// The first decision.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The second decision, on real paths: the call is decided and validated again in full, and the stricter counts. An
    /// answer to the first one's ASK counts if the paths lead nowhere else than they say; otherwise the call asks
    /// again.
    pub fn authorize(self, call: &ResolvedCall<'_>, context: &Context) -> Authorization<Permit> {
        let digest = call.digest();
        let decision = validated(call.described(), context, stricter(self.decision, decide_resolved(call, context)));
        let permit =
            |basis, decision| Permit { call: PermittedCall { digest, decision, basis, paths: decided_paths(call) } };
        match decision.behavior {
            Behavior::Allow => Authorization::Allowed(permit(Basis::Engine, decision)),
            Behavior::Ask if self.basis == Basis::Operator && self.digest == digest => {
                Authorization::Allowed(permit(Basis::Operator, decision))
            }
            Behavior::Ask => Authorization::Ask(Asked { granted: permit(Basis::Operator, decision.clone()), decision }),
            Behavior::Deny => Authorization::Denied(decision),
        }
    }
}

fn decided_paths(call: &ResolvedCall<'_>) -> Vec<DecidedPath> {
    call.paths().map(|(l, r)| DecidedPath { logical: l.clone(), real: r.clone() }).collect()
}

/// The unforgeable proof that one exact call was allowed. See the [module's documentation](self).
#[derive(Debug)]
#[must_use = "a permit that is not consumed ran nothing"]
pub struct Permit {
    call: PermittedCall,
}

impl Permit {
    /// The decision it rests on: an ALLOW, or the ASK that was answered.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.call.decision
    }

    /// Who said yes.
    #[must_use]
    pub fn basis(&self) -> Basis {
        self.call.basis
    }

    /// Whether it is for this call.
    #[must_use]
    pub fn covers(&self, digest: &CallDigest) -> bool {
        self.call.digest == *digest
    }

    /// Uses it up for the call with this digest.
    ///
    /// # Errors
    /// [`PermitMismatch`] when it is for another one; it is gone then, too.
    pub fn consume(self, digest: &CallDigest) -> Result<PermittedCall, PermitMismatch> {
        if self.covers(digest) {
            Ok(self.call)
        } else {
            Err(PermitMismatch { permitted: self.call.digest, presented: *digest })
        }
    }
}

/// A permit was presented for another call than it was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the permit is for the call {permitted}, not for {presented}")]
pub struct PermitMismatch {
    /// What the permit is for.
    pub permitted: CallDigest,
    /// What it was presented for.
    pub presented: CallDigest,
}

/// A path as it was decided on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedPath {
    /// As the call names it.
    pub logical: ContainerPath,
    /// Where it led when it was decided. If it leads elsewhere when it is opened, the call has to fail.
    pub real: ContainerPath,
}

/// What a consumed permit was for.
#[derive(Debug)]
pub struct PermittedCall {
    digest: CallDigest,
    decision: Decision,
    basis: Basis,
    paths: Vec<DecidedPath>,
}

impl PermittedCall {
    /// The call.
    #[must_use]
    pub fn digest(&self) -> &CallDigest {
        &self.digest
    }

    /// The decision it rests on: an ALLOW, or the ASK that was answered.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Who said yes.
    #[must_use]
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// The call's paths as they were decided on, in their order.
    #[must_use]
    pub fn paths(&self) -> &[DecidedPath] {
        &self.paths
    }
}
