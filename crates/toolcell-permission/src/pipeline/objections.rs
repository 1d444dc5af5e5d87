//! What the tool, policies and dangerous paths and commands say: stage 4.

use super::saw::{Danger, Saw};
use super::{Answer, Finding, Part, Subject, says};
use crate::describe::{Content, ToolVerdict, glob_directory};
use crate::mode::{Behavior, Stage};
use crate::path::ContainerPath;
use crate::policy::PolicyCall;
use crate::shell::facts::{PathUse, Target, redirect_danger, removes_dangerous};
use std::borrow::Cow;

impl<'a> Subject<'a> {
    /// A DENY outranks danger, which outranks whatever else the tool and the policies think.
    pub(super) fn tool_check(&self) -> Finding<'a> {
        let stage = Stage::ToolCheck;
        let (verdict, policy) = self.opinion();
        let answer = match verdict {
            ToolVerdict::Deny { .. } => Answer::Says(Behavior::Deny),
            ToolVerdict::Ask { .. } => Answer::Says(Behavior::Ask),
            ToolVerdict::AdviseAsk { .. } => Answer::Advice,
            ToolVerdict::Allow => Answer::Says(Behavior::Allow),
            ToolVerdict::Passthrough => Answer::Nothing,
        };
        if answer != Answer::Says(Behavior::Deny)
            && let Some(danger) = self.dangers().next()
        {
            return says(stage, Behavior::Ask, Saw::Danger(danger));
        }
        let saw = match answer {
            Answer::Nothing => Saw::Words("the tool has no opinion, nothing is dangerous"),
            Answer::Advice | Answer::Says(_) => Saw::Opinion { verdict, policy },
        };
        Finding { stage, answer, rule: None, saw }
    }

    /// The strictest opinion of the tool and the policies; of equals the tool's, then the first policy's.
    fn opinion(&self) -> (ToolVerdict, Option<&'a str>) {
        let call = PolicyCall {
            tool: self.tool.name(),
            input: self.tool.input(),
            call_id: self.call.id(),
            environment: self.context.environment(),
        };
        let mut strictest = (self.tool.verdict(), None);
        for (name, verdict) in self.context.policies().check(&call) {
            let verdict = ToolVerdict::from(verdict);
            if strictness(&verdict) > strictness(&strictest.0) {
                strictest = (verdict, Some(name));
            }
        }
        strictest
    }

    /// Everything that a person has to look at whatever the mode.
    pub(super) fn dangers(&self) -> impl Iterator<Item = Danger<'a>> {
        let script = self.analysis.into_iter().flat_map(|analysis| &analysis.script.dangers);
        let script = script.map(|reason| Danger::Script(reason.into()));
        let commands = self.parts().flat_map(|part| {
            let words = part.command.words.as_slice();
            let own = part.facts.danger.iter().map(|reason| reason.as_str().into());
            own.chain(part.redirects.iter().filter_map(redirect_danger).map(Cow::Owned))
                .map(move |reason| Danger::Command(words, reason))
        });
        let uses = self.parts().flat_map(Part::uses).filter_map(|use_| self.danger_of(use_));
        let removed = removes_dangerous(self.parts().flat_map(Part::uses));
        let removed = removed.map(|reason| Danger::Script(reason.into()));
        script.chain(commands).chain(uses).chain(removed).chain(self.own_dangers()).chain(self.taken_away())
    }

    /// A file tool that deletes or moves away home, the workspace, or what they are in.
    fn taken_away(&self) -> Option<Danger<'a>> {
        let count = match self.tool.name() {
            "delete_file" => usize::MAX,
            // Where it goes is another matter.
            "move_file" => 1,
            _ => 0,
        };
        let shell = self.context.shell();
        let whole = |path: &ContainerPath| [&shell.home, &shell.workspace].into_iter().any(|kept| kept.is_within(path));
        let mut places = self.places().take(count).flat_map(|(path, leads)| [Some(path), leads.real()]).flatten();
        let path = places.find(|path| whole(path))?;
        Some(Danger::Script(format!("`{path}` would be gone, with all that is in it").into()))
    }

    /// Of the paths that the tool itself names. Of a command its directories of globs are among the paths, too, and
    /// are looked at with the globs.
    fn own_dangers(&self) -> impl Iterator<Item = Danger<'a>> {
        let own = match self.content {
            Content::Command(_) | Content::Code { shell: Some(_) } => &[],
            Content::Nothing | Content::Paths | Content::Code { shell: None } | Content::Fields(_) => self.tool.paths(),
        };
        let leads = self.places().map(|(_, leads)| leads);
        own.iter().zip(leads).filter_map(|(path, leads)| self.danger_at(path, leads.real()))
    }

    fn danger_at(&self, path: &'a ContainerPath, real: Option<&'a ContainerPath>) -> Option<Danger<'a>> {
        if self.dangerous(path) {
            return Some(Danger::Path(path));
        }
        real.filter(|real| self.dangerous(real)).map(|real| Danger::LeadsTo(path, real))
    }

    fn danger_of(&self, use_: &'a PathUse) -> Option<Danger<'a>> {
        let dangers = self.tool.dangerous();
        match &use_.target {
            Target::Known(candidates) => {
                candidates.iter().find_map(|path| self.danger_at(path, self.leads(path).real()))
            }
            Target::Glob(globs) => {
                let real = |glob| self.real_glob(glob).is_some_and(|real| dangers.could_be_dangerous(&real));
                let dangerous = globs.iter().any(|glob| dangers.could_be_dangerous(glob) || real(glob));
                dangerous.then_some(Danger::CouldBe(&use_.target))
            }
            Target::Unknown(prefix) => dangers.prefix_is_dangerous(prefix).then_some(Danger::CouldBe(&use_.target)),
        }
    }

    fn dangerous(&self, path: &ContainerPath) -> bool {
        self.tool.dangerous().is_dangerous(path)
    }

    /// The glob from where its directory really leads, if that is elsewhere.
    pub(super) fn real_glob(&self, glob: &str) -> Option<String> {
        let directory = glob_directory(glob)?;
        let real = self.leads(&directory).real().filter(|real| **real != directory)?;
        let rest = if directory.as_bytes() == b"/" { glob } else { glob.get(directory.as_bytes().len()..)? };
        let mut from = String::new();
        for c in String::from_utf8_lossy(real.as_bytes()).trim_end_matches('/').chars() {
            if matches!(c, '*' | '?' | '[' | '\\') {
                from.push('\\');
            }
            from.push(c);
        }
        from.push_str(rest);
        Some(from)
    }
}

fn strictness(verdict: &ToolVerdict) -> u8 {
    match verdict {
        ToolVerdict::Passthrough => 0,
        ToolVerdict::Allow => 1,
        ToolVerdict::AdviseAsk { .. } => 2,
        ToolVerdict::Ask { .. } => 3,
        ToolVerdict::Deny { .. } => 4,
    }
}
