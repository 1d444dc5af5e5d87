//! Allow rules that would have answered an ASK.

use super::{Answer, Finding, Subject};
use crate::describe::Content;
use crate::mode::{Behavior, Stage};
use crate::shell::facts::{PathUse, Target, family};
use crate::suggest::{self, Suggestion};

impl<'a> Subject<'a> {
    /// They would have answered the ASK of `finding`. None where no allow rule could: deny and ask
    /// rules, a tool's own ASK and dangers are stronger, and nothing but a rule for all of `execute`, which is never
    /// suggested, covers what cannot be known.
    pub(super) fn suggestions(&self, finding: &Finding<'a>) -> Vec<Suggestion> {
        let answerable = match (finding.stage, finding.answer) {
            (Stage::Default, Answer::Says(Behavior::Ask)) | (Stage::ToolCheck, Answer::Advice) => true,
            (
                Stage::DenyRule
                | Stage::AskRule
                | Stage::Explore
                | Stage::ToolCheck
                | Stage::AllowRule
                | Stage::AcceptEdits
                | Stage::ReadOnly
                | Stage::Bypass
                | Stage::Default
                | Stage::CommandValidator,
                _,
            ) => false,
        };
        if !answerable {
            return Vec::new();
        }
        let tool = self.tool.name();
        match self.content {
            Content::Command(_) => self.suggestions_for_command(),
            Content::Code { .. } => Vec::new(),
            Content::Nothing => suggest::for_tool(tool),
            Content::Fields(fields) => suggest::for_fields(tool, fields),
            Content::Paths => {
                let mut places = self.places();
                match (places.next(), places.next()) {
                    (Some((path, leads)), None) if leads.real().is_none_or(|real| real == path) => {
                        suggest::for_path(tool, path)
                    }
                    _ => suggest::for_tool(tool),
                }
            }
        }
    }

    /// Those for commands are needed together; so would be those for commands and for files, which are too many things
    /// to answer at once.
    fn suggestions_for_command(&self) -> Vec<Suggestion> {
        if self.opaque().is_some() || self.parts().any(|part| part.command.tainted.is_some()) {
            return Vec::new();
        }
        let lacking = self.parts().filter(|part| self.lacks_rule(*part));
        let open_family = |words| family(words).filter(|family| !family.exact).map(|family| family.words);
        let words = lacking.map(|part| part.command.words.as_slice());
        let commands: Vec<_> = words.map(|words| (words, open_family(words))).collect();
        let mut files: Vec<(&str, &PathUse)> = self.parts().flat_map(|part| self.lacks_files(part)).collect();
        files.dedup();
        match (commands.is_empty(), files.as_slice()) {
            (false, []) => suggest::for_command(&commands),
            (true, [(tool, PathUse { target: Target::Known(candidates), .. })]) => match candidates.as_slice() {
                [path] if self.reading_is_free() && self.leads(path).real().is_none_or(|real| real == path) => {
                    suggest::for_path(tool, path)
                }
                _ => Vec::new(),
            },
            (true | false, _) => Vec::new(),
        }
    }
}
