//! Whether allow rules cover a whole call: stage 5.

use super::rules::{At, place};
use super::saw::Saw;
use super::{Answer, Finding, Leads, Part, Subject, nothing};
use crate::describe::Content;
use crate::mode::{Behavior, ReadOnlyPolicy, Stage};
use crate::path::ContainerPath;
use crate::rule::{Match, PathPattern, Rule};
use crate::shell::facts::{PathUse, Target};
use crate::shell::script::Need;

const READ: &str = "read_file";
const WRITE: &str = "write_file";

/// What answers for one command, or for one file that is opened for it.
#[derive(Debug, Clone, Copy)]
enum Cover<'a> {
    /// Nothing needs to.
    Free,
    /// It only reads.
    Reads,
    Rule(&'a Rule),
    No,
}

impl<'a> Subject<'a> {
    pub(super) fn allow_rule(&self) -> Finding<'a> {
        let stage = Stage::AllowRule;
        match self.covering_rule() {
            Some(rule) => Finding {
                stage,
                answer: Answer::Says(Behavior::Allow),
                rule: Some(rule),
                saw: Saw::Rule { rule, at: At::Call },
            },
            None if self.candidates(Behavior::Allow, self.tool.name()).next().is_some() => {
                nothing(stage, Saw::NotCovered)
            }
            None => nothing(stage, Saw::NoRule(Behavior::Allow)),
        }
    }

    /// Of the rules that together cover the call the one to report.
    fn covering_rule(&self) -> Option<&'a Rule> {
        let whole = self.whole(self.tool.name());
        let by_content = match self.content {
            // Earlier code of the same session may have given every word another meaning.
            Content::Nothing | Content::Code { .. } => None,
            Content::Paths => self.paths_rule(),
            Content::Command(_) => self.script_rule(),
            Content::Fields(fields) => {
                let matches = |rule: &&Rule| {
                    let pattern = rule.content().and_then(|content| content.fields().ok());
                    pattern.is_some_and(|pattern| pattern.matches(fields) == Match::Yes)
                };
                self.candidates(Behavior::Allow, self.tool.name()).find(matches)
            }
        };
        first(whole, by_content)
    }

    /// A rule that allows every call of the tool.
    fn whole(&self, tool: &'a str) -> Option<&'a Rule> {
        self.candidates(Behavior::Allow, tool).find(|rule| rule.content().is_none())
    }

    /// Each path needs a rule that matches where it seems to lead and where it really does.
    fn paths_rule(&self) -> Option<&'a Rule> {
        let mut used = None;
        for (path, leads) in self.places() {
            let matches = |pattern: &PathPattern| {
                pattern.matches(path)
                    && match leads {
                        Leads::NotAsked => true,
                        Leads::LeftOut => false,
                        Leads::To(real) => pattern.matches(real),
                    }
            };
            used = first(used, Some(self.path_rule(self.tool.name(), matches)?));
        }
        used
    }

    fn path_rule(&self, tool: &'a str, matches: impl Fn(&PathPattern) -> bool) -> Option<&'a Rule> {
        let by = |rule: &&Rule| rule.content().is_some_and(|content| content.path().is_ok_and(&matches));
        self.candidates(Behavior::Allow, tool).find(by)
    }

    fn script_rule(&self) -> Option<&'a Rule> {
        if self.opaque().is_some() {
            return None;
        }
        let mut used = None;
        let mut counted = false;
        for part in self.parts() {
            counted |= part.counts();
            match self.cover(part) {
                Cover::No => return None,
                Cover::Free | Cover::Reads => {}
                Cover::Rule(rule) => used = first(used, Some(rule)),
            }
            for opened in part.redirects {
                match self.cover_opened(part, opened) {
                    Cover::No => return None,
                    Cover::Free | Cover::Reads => {}
                    Cover::Rule(rule) => used = first(used, Some(rule)),
                }
            }
        }
        used.filter(|_| counted && self.reading_is_free())
    }

    /// What only reads may not run by itself where `read_only` is none, nor with its output in a file.
    pub(super) fn reading_is_free(&self) -> bool {
        match self.context.read_only() {
            ReadOnlyPolicy::None => self.parts().any(|part| matches!(self.cover(part), Cover::Rule(_))),
            ReadOnlyPolicy::Shell | ReadOnlyPolicy::All => true,
        }
    }

    fn cover(&self, part: Part<'a>) -> Cover<'a> {
        if part.command.tainted.is_some() {
            return Cover::No;
        }
        match part.command.need {
            Need::Nothing | Need::Privileged => return Cover::Free,
            Need::Allow if part.facts.read_only => return Cover::Reads,
            Need::Allow | Need::Explicit => {}
        }
        let matches = |rule: &&Rule| {
            let pattern = rule.content().and_then(|content| content.command().ok());
            pattern.is_some_and(|pattern| pattern.matches(&part.command.words, false) == Match::Yes)
        };
        self.candidates(Behavior::Allow, self.tool.name()).find(matches).map_or(Cover::No, Cover::Rule)
    }

    /// A file that is written needs a rule for `write_file`; one that is read needs one for `read_file`, unless it
    /// is an operand of a command that only reads.
    fn cover_opened(&self, part: Part<'a>, opened: &PathUse) -> Cover<'a> {
        if opened.reads_what_is_known() && part.command.need == Need::Allow && part.facts.read_only {
            return Cover::Reads;
        }
        let tool = rules_for(opened);
        let by_path = match &opened.target {
            Target::Known(candidates) if !candidates.is_empty() => self.path_rule(tool, |pattern| {
                candidates.iter().all(|path| self.both(path, |path: &ContainerPath| pattern.matches(path)))
            }),
            Target::Known(_) | Target::Glob(_) | Target::Unknown(_) => None,
        };
        first(self.whole(tool), by_path).map_or(Cover::No, Cover::Rule)
    }

    /// No allow rule answers for the command itself.
    pub(super) fn lacks_rule(&self, part: Part<'a>) -> bool {
        matches!(self.cover(part), Cover::No)
    }

    /// The files opened for it that no allow rule answers for, and the tool whose rules would.
    pub(super) fn lacks_files(&self, part: Part<'a>) -> impl Iterator<Item = (&'static str, &'a PathUse)> {
        let lacking = part.redirects.iter().filter(move |opened| matches!(self.cover_opened(part, opened), Cover::No));
        lacking.map(|opened| (rules_for(opened), opened))
    }

    pub(super) fn coverage(&self) -> Vec<String> {
        let words = |cover: Cover<'a>| match cover {
            Cover::Free => "needs no rule".to_owned(),
            Cover::Reads => "only reads".to_owned(),
            Cover::Rule(rule) => format!("allowed by the rule `{}`", rule.text()),
            Cover::No => "no allow rule covers it".to_owned(),
        };
        let mut notes = Vec::new();
        for part in self.parts() {
            let why = match &part.command.tainted {
                Some(reason) => format!("no allow rule covers it: {reason}"),
                None => words(self.cover(part)),
            };
            notes.push(format!("`{}`: {why}", part.shown()));
            for opened in part.redirects {
                let access = if opened.reads() { "reads" } else { "writes" };
                let why = words(self.cover_opened(part, opened));
                notes.push(format!("`{}` {access} {}: {why}", part.shown(), opened.target.shown()));
            }
        }
        notes
    }
}

/// The tool whose rules answer for a file that a redirection opens.
fn rules_for(opened: &PathUse) -> &'static str {
    if opened.reads() { READ } else { WRITE }
}

/// Of two rules the one to report.
fn first<'a>(one: Option<&'a Rule>, other: Option<&'a Rule>) -> Option<&'a Rule> {
    one.into_iter().chain(other).min_by_key(|rule| place(rule))
}
