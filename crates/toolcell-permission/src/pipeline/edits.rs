//! Which edits ACCEPT_EDITS allows: stage 6.

use super::saw::Saw;
use super::{Finding, Leads, Part, Subject, nothing, says};
use crate::describe::{Content, Effect, glob_directory};
use crate::mode::{Behavior, Mode, Stage};
use crate::path::ContainerPath;
use crate::shell::facts::{PathUse, Target};
use crate::shell::script::{Access, Need};

/// Why a command is no plain edit inside the working directories.
#[derive(Debug, Clone, Copy)]
enum NoEdit<'a> {
    Tainted(&'a str),
    /// It neither reads only nor is a plain file command.
    Other,
    /// It names a path that is not known.
    PathUnknown,
    Outside(&'a PathUse),
}

impl<'a> Subject<'a> {
    pub(super) fn accept_edits(&self) -> Finding<'a> {
        let stage = Stage::AcceptEdits;
        if self.context.mode() != Mode::AcceptEdits {
            return nothing(stage, Saw::Mode(self.context.mode()));
        }
        if self.only_reads() {
            return says(stage, Behavior::Allow, Saw::OnlyReads("the call only reads"));
        }
        match self.content {
            Content::Command(_) => match self.not_a_script_of_edits() {
                Some(why) => nothing(stage, why),
                None => says(stage, Behavior::Allow, Saw::EditsInside),
            },
            Content::Code { .. } => nothing(stage, Saw::Words("the call is not an edit of named files")),
            Content::Nothing | Content::Paths | Content::Fields(_) => self.edit_of_a_tool(),
        }
    }

    fn edit_of_a_tool(&self) -> Finding<'a> {
        let stage = Stage::AcceptEdits;
        match self.tool.effect() {
            Effect::Read | Effect::Execute => nothing(stage, Saw::Words("the call is not an edit of named files")),
            Effect::Write if self.call.paths().is_empty() => nothing(stage, Saw::Words("the call names no file")),
            Effect::Write => {
                let places = self.places().flat_map(|(path, leads)| [Some(path), leads.real()]).flatten();
                let mut outside = places.filter(|path| !self.in_working_directory(path));
                outside.next().map_or_else(
                    || says(stage, Behavior::Allow, Saw::EditsInside),
                    |path| nothing(stage, Saw::Outside(path)),
                )
            }
        }
    }

    fn not_a_script_of_edits(&self) -> Option<Saw<'a>> {
        if let Some(reason) = self.opaque() {
            return Some(Saw::Opaque(reason));
        }
        if !self.call.names_every_path() {
            return Some(Saw::Words("the command names more paths than are looked up"));
        }
        let mut paths = 0_usize;
        for part in self.parts() {
            match self.no_edit(part) {
                Some(_) => return Some(Saw::Words("a command is not an edit inside the working directories")),
                None => paths = paths.saturating_add(self.edited(part).count()),
            }
        }
        (paths == 0).then_some(Saw::Words("the command names no file"))
    }

    /// The files that a plain file command touches, and those that redirections open.
    fn edited(&self, part: Part<'a>) -> impl Iterator<Item = &'a PathUse> {
        let own = if part.facts.read_only { &[] } else { part.facts.paths.as_slice() };
        own.iter().chain(part.redirects)
    }

    fn no_edit(&self, part: Part<'a>) -> Option<NoEdit<'a>> {
        if let Some(reason) = &part.command.tainted {
            return Some(NoEdit::Tainted(reason));
        }
        match part.command.need {
            Need::Explicit | Need::Privileged => return Some(NoEdit::Other),
            Need::Allow if !part.facts.read_only && !part.facts.edits => return Some(NoEdit::Other),
            Need::Allow if !part.facts.read_only && !part.facts.paths_known => return Some(NoEdit::PathUnknown),
            Need::Allow | Need::Nothing => {}
        }
        self.edited(part).find(|use_| !self.stays_inside(use_)).map(NoEdit::Outside)
    }

    /// A glob stays inside if only the names in one directory that is inside are open. What they link to is not
    /// known, which does not matter where the links themselves go, and for reading, which is allowed anywhere.
    fn stays_inside(&self, use_: &PathUse) -> bool {
        let removes = use_.access == Access::Remove;
        let inside = |path: &ContainerPath| {
            // To remove a directory changes the one that it is in.
            let is_one = removes && self.context.working_directories().contains(path);
            self.in_working_directory(path) && !is_one
        };
        match &use_.target {
            Target::Known(candidates) => {
                !candidates.is_empty() && candidates.iter().all(|path| self.both(path, inside))
            }
            Target::Glob(patterns) => {
                let only_names = |pattern: &str| {
                    let rest = glob_directory(pattern).and_then(|directory| {
                        let end = if directory.as_bytes() == b"/" { 0 } else { directory.as_bytes().len() };
                        pattern.get(end.saturating_add(1)..).map(|rest| (directory, rest.contains('/')))
                    });
                    rest.is_some_and(|(directory, deeper)| {
                        !deeper && self.both(&directory, |path| self.in_working_directory(path))
                    })
                };
                use_.access != Access::Write && !patterns.is_empty() && patterns.iter().all(|p| only_names(p))
            }
            Target::Unknown(_) => false,
        }
    }

    fn in_working_directory(&self, path: &ContainerPath) -> bool {
        self.context.working_directories().iter().any(|directory| path.is_within(directory))
    }

    pub(super) fn edit_notes(&self) -> Vec<String> {
        let note = |part: Part<'a>| {
            let why = match self.no_edit(part) {
                None if part.facts.read_only => "only reads".to_owned(),
                None => "edits inside the working directories".to_owned(),
                Some(NoEdit::Tainted(reason)) => reason.to_owned(),
                Some(NoEdit::Other) => "neither reading nor a plain file command".to_owned(),
                Some(NoEdit::PathUnknown) => "names a path that is not known".to_owned(),
                Some(NoEdit::Outside(use_)) => match self.leads_elsewhere(use_) {
                    Some((path, real)) => format!("`{path}` leads to `{real}`, outside the working directories"),
                    None => format!("{} is not surely inside the working directories", use_.target.shown()),
                },
            };
            format!("`{}`: {why}", part.shown())
        };
        if self.context.mode() == Mode::AcceptEdits { self.parts().map(note).collect() } else { Vec::new() }
    }

    fn leads_elsewhere(&self, use_: &'a PathUse) -> Option<(&'a ContainerPath, &'a ContainerPath)> {
        let Target::Known(candidates) = &use_.target else { return None };
        candidates.iter().find_map(|path| match self.leads(path) {
            Leads::To(real) if real != path && !self.in_working_directory(real) => Some((path, real)),
            Leads::To(_) | Leads::NotAsked | Leads::LeftOut => None,
        })
    }
}
