//! Whether a call only reads: stages 3 and 7.

use super::saw::Saw;
use super::{Finding, Part, Subject, nothing, says};
use crate::describe::Content;
use crate::mode::{Behavior, Mode, ReadOnlyPolicy, Stage};
use crate::shell::facts::{PathUse, Target};
use crate::shell::script::{Access, Need};

/// Why a command is more than reading.
#[derive(Debug, Clone, Copy)]
pub(super) enum NotReading<'a> {
    Tainted(&'a str),
    Opens,
    Privileged,
    Program,
}

impl<'a> Part<'a> {
    /// `None` if it only reads.
    pub(super) fn not_reading(&self) -> Option<NotReading<'a>> {
        if let Some(reason) = &self.command.tainted {
            return Some(NotReading::Tainted(reason));
        }
        if self.redirects.iter().any(|use_| !use_.reads_what_is_known()) {
            return Some(NotReading::Opens);
        }
        match self.command.need {
            Need::Explicit => Some(NotReading::Privileged),
            Need::Allow => (!self.facts.read_only).then_some(NotReading::Program),
            Need::Nothing | Need::Privileged => None,
        }
    }

    /// A rule, a list or a mode has to answer for it.
    pub(super) fn counts(&self) -> bool {
        match self.command.need {
            Need::Allow | Need::Explicit => true,
            Need::Nothing | Need::Privileged => false,
        }
    }
}

impl PathUse {
    /// It is like an operand of a command that only reads: of which file is known.
    pub(super) fn reads_what_is_known(&self) -> bool {
        self.reads() && matches!(self.target, Target::Known(_))
    }

    pub(super) fn reads(&self) -> bool {
        match self.access {
            Access::Read => true,
            Access::Write | Access::Remove => false,
        }
    }
}

impl<'a> Subject<'a> {
    /// A command does if each of its commands does; a script without any is not known to do nothing. Code is kept
    /// for what runs after it, so it never does.
    pub(super) fn only_reads(&self) -> bool {
        match self.content {
            Content::Command(_) => {
                self.opaque().is_none()
                    && self.parts().next().is_some()
                    && self.parts().all(|part| part.not_reading().is_none())
            }
            Content::Code { .. } => false,
            Content::Nothing | Content::Paths | Content::Fields(_) => self.tool.read_only(),
        }
    }

    pub(super) fn explore(&self) -> Finding<'a> {
        let stage = Stage::Explore;
        if self.context.mode() != Mode::Explore {
            nothing(stage, Saw::Mode(self.context.mode()))
        } else if self.only_reads() {
            nothing(stage, Saw::Words("the call only reads"))
        } else {
            says(stage, Behavior::Deny, Saw::MoreThanReading)
        }
    }

    pub(super) fn read_only(&self) -> Finding<'a> {
        let stage = Stage::ReadOnly;
        if !self.only_reads() {
            return nothing(stage, Saw::Words("the call is not read-only"));
        }
        let policy = self.context.read_only();
        let covered = match policy {
            ReadOnlyPolicy::None => false,
            ReadOnlyPolicy::Shell => matches!(self.content, Content::Command(_)),
            ReadOnlyPolicy::All => true,
        };
        if covered || self.context.mode() == Mode::Explore {
            says(stage, Behavior::Allow, Saw::OnlyReads("the call is read-only"))
        } else {
            nothing(stage, Saw::NotCoveredBy(policy))
        }
    }

    pub(super) fn reading_notes(&self) -> Vec<String> {
        let note = |part: Part<'a>| {
            let why = match part.not_reading() {
                None => "only reads".to_owned(),
                Some(NotReading::Tainted(reason)) => format!("not read-only: {reason}"),
                Some(NotReading::Opens) => "not read-only: a redirection writes a file".to_owned(),
                Some(NotReading::Privileged) => "not read-only: it gets more rights".to_owned(),
                Some(NotReading::Program) => {
                    "not read-only: the program with these options is not on the list of what only reads".to_owned()
                }
            };
            format!("`{}`: {why}", part.shown())
        };
        self.parts().map(note).collect()
    }
}
