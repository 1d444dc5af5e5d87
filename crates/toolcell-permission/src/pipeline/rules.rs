//! Which deny and ask rules look at a call, and what they see: stages 1 and 2.

use super::saw::Saw;
use super::{Finding, Part, Subject, nothing};
use crate::describe::Content;
use crate::mode::{Behavior, Stage};
use crate::path::ContainerPath;
use crate::pipeline::{Answer, shown};
use crate::rule::{Match, Rule, RuleContent, RuleSource};
use crate::shell::facts::{PathUse, Target};
use crate::shell::script::{Access, Word};
use std::fmt;

/// The tool whose content rules are about commands.
const EXECUTE: &str = "execute";

/// File tools, whose rules with a path look at what commands do with files as well.
const READERS: &[&str] = &["read_file", "list_files", "glob_files", "grep_files"];
const WRITERS: &[&str] = &["write_file", "edit_file", "delete_file", "move_file", "make_dir"];

/// Where in a call a rule matches.
#[derive(Debug)]
pub(super) enum At<'a> {
    /// Everywhere: the rule has no content.
    Call,
    /// Its fields.
    Fields,
    Command(&'a [Word]),
    Path(&'a ContainerPath),
    /// It cannot be told whether this command is one that the rule means.
    MaybeCommand(&'a [Word]),
    /// It cannot be told whether this file is one that the rule means.
    MaybePath(&'a PathUse),
    /// The rule cannot be evaluated.
    Error(String),
}

impl At<'_> {
    pub(super) fn certain(&self) -> bool {
        match self {
            Self::Call | Self::Fields | Self::Command(_) | Self::Path(_) | Self::Error(_) => true,
            Self::MaybeCommand(_) | Self::MaybePath(_) => false,
        }
    }

    /// The part of the call, for people.
    pub(super) fn place(&self) -> Option<String> {
        match self {
            Self::Call | Self::Fields | Self::Error(_) => None,
            Self::Command(words) | Self::MaybeCommand(words) => Some(format!("`{}`", shown(words))),
            Self::Path(path) => Some(format!("`{path}`")),
            Self::MaybePath(use_) => Some(use_.target.shown()),
        }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.place()) {
            (Self::Error(error), _) => write!(f, "cannot be evaluated: {error}"),
            (_, None) => f.write_str("matches"),
            (_, Some(place)) if self.certain() => write!(f, "matches {place}"),
            (_, Some(place)) => write!(f, "may match {place}"),
        }
    }
}

/// As what a rule's tool looks at the call.
#[derive(Clone, Copy)]
enum View {
    /// As its own call.
    Own,
    /// As the command that shell code is.
    Execute,
    /// As uses of files.
    Reads,
    Changes,
}

/// Of matching rules the one to report comes first.
pub(super) fn place(rule: &Rule) -> (RuleSource, &str) {
    (rule.source(), rule.text())
}

impl<'a> Subject<'a> {
    pub(super) fn deny_rule(&self) -> Finding<'a> {
        let stage = Stage::DenyRule;
        let hits = self.hits(Behavior::Deny).filter(|(_, at)| at.certain());
        match hits.min_by_key(|(rule, _)| place(rule)) {
            Some((rule, at)) => by_rule(stage, Behavior::Deny, rule, Saw::Rule { rule, at }),
            None => nothing(stage, Saw::NoRule(Behavior::Deny)),
        }
    }

    pub(super) fn ask_rule(&self) -> Finding<'a> {
        let stage = Stage::AskRule;
        let unsure = self.hits(Behavior::Deny).filter(|(_, at)| !at.certain());
        // What certainly matches says more than what may.
        let hits = self.hits(Behavior::Ask).chain(unsure);
        if let Some((rule, at)) = hits.min_by_key(|(rule, at)| (!at.certain(), place(rule))) {
            return by_rule(stage, Behavior::Ask, rule, Saw::Rule { rule, at });
        }
        match self.opaque().and_then(|reason| Some((reason, self.content_rule()?))) {
            Some((reason, rule)) => by_rule(stage, Behavior::Ask, rule, Saw::OpaqueTo { rule, reason }),
            None => nothing(stage, Saw::NoRule(Behavior::Ask)),
        }
    }

    /// Rules of one behaviour about one tool, without those that have expired.
    pub(super) fn candidates(&self, behavior: Behavior, tool: &'a str) -> impl Iterator<Item = &'a Rule> {
        self.context.rules().candidates(behavior, tool, self.context.now())
    }

    /// Deny and ask rules that need to know what an opaque input hides.
    fn content_rule(&self) -> Option<&'a Rule> {
        let code = matches!(self.content, Content::Code { .. });
        let names = [Some(self.tool.name()), code.then_some(EXECUTE)];
        let behaviors = [Behavior::Deny, Behavior::Ask];
        let rules = names.into_iter().flatten().flat_map(|name| behaviors.map(|behavior| (behavior, name)));
        let rules = rules.flat_map(|(behavior, name)| self.candidates(behavior, name));
        rules.filter(|rule| rule.content().is_some()).min_by_key(|rule| place(rule))
    }

    /// Every rule with this behaviour that matches, or may, or cannot be evaluated.
    fn hits(&self, behavior: Behavior) -> impl Iterator<Item = (&'a Rule, At<'a>)> {
        let rules =
            self.views().flat_map(move |(tool, view)| self.candidates(behavior, tool).map(move |rule| (rule, view)));
        rules.filter_map(|(rule, view)| Some((rule, self.hit(rule.content(), view)?)))
    }

    fn views(&self) -> impl Iterator<Item = (&'a str, View)> {
        let execute = self.analysis.is_some() && matches!(self.content, Content::Code { .. });
        let files = self.parts().any(|part| part.uses().next().is_some());
        let readers = READERS.iter().map(|tool| (*tool, View::Reads));
        let files = files.then(|| readers.chain(WRITERS.iter().map(|tool| (*tool, View::Changes))));
        let own = [Some((self.tool.name(), View::Own)), execute.then_some((EXECUTE, View::Execute))];
        own.into_iter().flatten().chain(files.into_iter().flatten())
    }

    fn hit(&self, content: Option<&'a RuleContent>, view: View) -> Option<At<'a>> {
        match (content, view) {
            (None, View::Own | View::Execute) => Some(At::Call),
            // That no call of a file tool may run does not mean that no command may touch a file.
            (None, View::Reads | View::Changes) => None,
            // What a program does with its operands that is no plain file command is not known: it may read them as well.
            (Some(content), View::Reads) => {
                let reads = |part: Part<'_>, use_: &PathUse, own: bool| {
                    use_.reads() || own && !part.facts.edits && use_.access == Access::Write
                };
                self.file_hit(content, reads)
            }
            (Some(content), View::Changes) => self.file_hit(content, |_, use_, _| !use_.reads()),
            (Some(content), View::Execute) => self.command_hit(content),
            (Some(content), View::Own) => match self.content {
                Content::Nothing | Content::Code { shell: None } => None,
                Content::Paths => self.path_hit(content),
                Content::Command(_) | Content::Code { shell: Some(_) } => self.command_hit(content),
                Content::Fields(fields) => match content.fields() {
                    Ok(pattern) => match pattern.matches(fields) {
                        Match::Yes => Some(At::Fields),
                        Match::Maybe => Some(At::Error("its content does not fit the fields of this tool".to_owned())),
                        Match::No => None,
                    },
                    Err(error) => Some(At::Error(error.to_string())),
                },
            },
        }
    }

    fn path_hit(&self, content: &RuleContent) -> Option<At<'a>> {
        match content.path() {
            Ok(pattern) => {
                let mut paths = self.places().flat_map(|(path, leads)| [Some(path), leads.real()]).flatten();
                paths.find(|path| pattern.covers(path)).map(At::Path)
            }
            Err(error) => Some(At::Error(error.to_string())),
        }
    }

    fn command_hit(&self, content: &RuleContent) -> Option<At<'a>> {
        let pattern = match content.command() {
            Ok(pattern) => pattern,
            Err(error) => return Some(At::Error(error.to_string())),
        };
        let mut maybe = None;
        for part in self.parts() {
            let words = part.command.words.as_slice();
            match pattern.matches(words, true) {
                Match::Yes => return Some(At::Command(words)),
                Match::Maybe => maybe = maybe.or(Some(At::MaybeCommand(words))),
                Match::No => {}
            }
        }
        maybe
    }

    /// A file that may be one of several may be one that the rule means; so may what is beneath a directory that is
    /// removed or moved.
    ///
    /// `about` is told whether the use is the command's own, not a redirection's.
    fn file_hit(&self, content: &RuleContent, about: fn(Part<'_>, &PathUse, bool) -> bool) -> Option<At<'a>> {
        let pattern = match content.path() {
            Ok(pattern) => pattern,
            Err(error) => return Some(At::Error(error.to_string())),
        };
        let mut maybe = None;
        let uses = self.parts().flat_map(|part| {
            let own = part.facts.paths.iter().map(|use_| (use_, true));
            let all = own.chain(part.redirects.iter().map(|use_| (use_, false)));
            all.filter(move |(use_, own)| about(part, use_, *own)).map(|(use_, _)| use_)
        });
        for use_ in uses {
            let could = match &use_.target {
                Target::Known(candidates) => {
                    let one = |path: &&ContainerPath| self.either(path, |path| pattern.covers(path));
                    if let Some(first) = candidates.first().filter(|_| candidates.iter().all(|path| one(&path))) {
                        return Some(At::Path(first));
                    }
                    let beneath = |path: &ContainerPath| {
                        use_.access == Access::Remove && self.either(path, |path| pattern.could_match_beneath(path))
                    };
                    candidates.iter().any(|path| one(&path) || beneath(path))
                }
                Target::Glob(globs) => {
                    let beneath = if use_.access == Access::Remove { "/**" } else { "" };
                    let could = |glob: &str| {
                        pattern.could_match_glob(glob) || pattern.could_match_glob(&format!("{glob}{beneath}"))
                    };
                    let real = |glob| self.real_glob(glob).is_some_and(|real| could(&real));
                    globs.iter().any(|glob| could(glob) || real(glob))
                }
                Target::Unknown(prefix) => pattern.could_match_prefix(prefix),
            };
            if could && maybe.is_none() {
                maybe = Some(At::MaybePath(use_));
            }
        }
        maybe
    }

    /// What deny rules do not see.
    pub(super) fn launchers(&self) -> Vec<String> {
        let launchers = self.parts().filter(|part| part.facts.launcher);
        launchers.map(|part| format!("`{}`: deny rules do not see what it runs", part.shown())).collect()
    }
}

fn by_rule<'a>(stage: Stage, behavior: Behavior, rule: &'a Rule, saw: Saw<'a>) -> Finding<'a> {
    Finding { stage, answer: Answer::Says(behavior), rule: Some(rule), saw }
}
