//! The nine stages.
//!
//! Stages 1–4 are all looked at and the strictest of them wins (the earlier of equals); a tool's own ALLOW is final
//! if they do not object. Then the first of stages 5–9 that answers. Last of all DONT_ASK turns every ASK into a DENY.
//!
//! A stage answers with what it saw, not with words about it: only the answer that counts is put into words, or, for
//! an explanation, every one. Both come from the same answers and cannot disagree.

mod allow;
mod edits;
mod objections;
mod reading;
mod rules;
mod saw;
mod suggestions;

pub(crate) use saw::shown;

use crate::context::Context;
use crate::decision::{Decision, ReportedRule, TraceStep};
use crate::describe::{Content, DescribedCall, ResolvedCall, ToolDescription};
use crate::mode::{Behavior, Mode, Stage};
use crate::path::ContainerPath;
use crate::rule::Rule;
use crate::shell::Analysis;
use crate::shell::facts::{Facts, PathUse};
use crate::shell::script::SimpleCommand;
use saw::Saw;

/// What becomes of the call as far as its logical paths tell.
#[must_use]
pub fn decide(call: &DescribedCall<'_>, context: &Context) -> Decision {
    Subject::new(call, None, context).decide()
}

/// What becomes of the call now that it is known where its paths lead. Never looser than [`decide`] with the same
/// context. As [`decide`], it only answers: what runs goes through [`crate::authorize`].
#[must_use]
pub fn decide_resolved(call: &ResolvedCall<'_>, context: &Context) -> Decision {
    Subject::new(call.described(), Some(call.real()), context).decide()
}

/// As [`decide`], with what every stage saw.
#[must_use]
pub fn explain(call: &DescribedCall<'_>, context: &Context) -> Decision {
    Subject::new(call, None, context).explain()
}

/// As [`decide_resolved`], with what every stage saw.
#[must_use]
pub fn explain_resolved(call: &ResolvedCall<'_>, context: &Context) -> Decision {
    Subject::new(call.described(), Some(call.real()), context).explain()
}

/// One stage's answer.
struct Finding<'a> {
    stage: Stage,
    answer: Answer,
    rule: Option<&'a Rule>,
    saw: Saw<'a>,
}

/// What a stage gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Nothing,
    /// ASK, if no later stage allows.
    Advice,
    Says(Behavior),
}

impl Answer {
    fn behavior(self) -> Option<Behavior> {
        match self {
            Self::Nothing => None,
            Self::Advice => Some(Behavior::Ask),
            Self::Says(behavior) => Some(behavior),
        }
    }
}

/// Where a path leads.
#[derive(Clone, Copy)]
enum Leads<'a> {
    /// This is the first decision.
    NotAsked,
    /// It was one path too many to ask about.
    LeftOut,
    To(&'a ContainerPath),
}

impl<'a> Leads<'a> {
    fn real(self) -> Option<&'a ContainerPath> {
        match self {
            Self::NotAsked | Self::LeftOut => None,
            Self::To(real) => Some(real),
        }
    }
}

/// One simple command of a script with what is known of it.
#[derive(Clone, Copy)]
struct Part<'a> {
    command: &'a SimpleCommand,
    facts: &'a Facts,
    redirects: &'a [PathUse],
}

impl<'a> Part<'a> {
    fn shown(&self) -> String {
        shown(&self.command.words)
    }

    /// Every file that it names or that is opened for it.
    fn uses(self) -> impl Iterator<Item = &'a PathUse> + Clone {
        self.facts.paths.iter().chain(self.redirects)
    }
}

/// One call in one context.
struct Subject<'a> {
    call: &'a DescribedCall<'a>,
    tool: &'a dyn ToolDescription,
    content: Content<'a>,
    analysis: Option<&'a Analysis>,
    real: Option<&'a [ContainerPath]>,
    context: &'a Context,
}

impl<'a> Subject<'a> {
    fn new(call: &'a DescribedCall<'a>, real: Option<&'a [ContainerPath]>, context: &'a Context) -> Self {
        let tool = call.tool();
        Self { call, tool, content: tool.content(), analysis: call.analysis(), real, context }
    }

    fn objections(&self) -> [Finding<'a>; 4] {
        [self.deny_rule(), self.ask_rule(), self.explore(), self.tool_check()]
    }

    fn decide(&self) -> Decision {
        let later = [Self::allow_rule, Self::accept_edits, Self::read_only, Self::bypass];
        let finding = combine(self.objections(), later.into_iter().map(|stage| stage(self)), self.default());
        self.conclude(finding, Vec::new())
    }

    fn explain(&self) -> Decision {
        let objections = self.objections();
        let answers = [self.allow_rule(), self.accept_edits(), self.read_only(), self.bypass()];
        let default = self.default();
        let trace = objections.iter().chain(&answers).chain([&default]).map(|finding| self.step(finding)).collect();
        self.conclude(combine(objections, answers.into_iter(), default), trace)
    }

    fn conclude(&self, finding: Finding<'a>, trace: Vec<TraceStep>) -> Decision {
        let behavior = finding.answer.behavior().unwrap_or(Behavior::Ask);
        let demoted = behavior == Behavior::Ask && self.context.mode() == Mode::DontAsk;
        let mut message = finding.saw.message(self.tool.name());
        if demoted {
            message.push_str(" Nobody can be asked in this mode, so the call is denied.");
        }
        Decision {
            behavior: if demoted { Behavior::Deny } else { behavior },
            stage: finding.stage,
            rule: finding.rule.map(ReportedRule::from),
            message,
            reason: finding.saw.to_string(),
            demoted,
            suggestions: if demoted { Vec::new() } else { self.suggestions(&finding) },
            trace,
        }
    }

    fn step(&self, finding: &Finding<'a>) -> TraceStep {
        TraceStep {
            stage: finding.stage,
            gives: finding.answer.behavior(),
            saw: finding.saw.to_string(),
            details: self.details(finding.stage),
        }
    }

    /// What a stage saw of each command.
    fn details(&self, stage: Stage) -> Vec<String> {
        match stage {
            Stage::DenyRule => self.launchers(),
            Stage::AskRule => self.opaque_reasons().map(|reason| format!("opaque: {reason}")).collect(),
            Stage::ToolCheck => self.dangers().map(|danger| danger.to_string()).collect(),
            Stage::AllowRule => self.coverage(),
            Stage::AcceptEdits => self.edit_notes(),
            Stage::ReadOnly => self.reading_notes(),
            Stage::Explore | Stage::Bypass | Stage::Default | Stage::CommandValidator => Vec::new(),
        }
    }

    fn bypass(&self) -> Finding<'a> {
        match self.context.mode() {
            Mode::Bypass => says(Stage::Bypass, Behavior::Allow, Saw::Bypass),
            mode @ (Mode::Default | Mode::AcceptEdits | Mode::Explore | Mode::DontAsk) => {
                nothing(Stage::Bypass, Saw::Mode(mode))
            }
        }
    }

    fn default(&self) -> Finding<'a> {
        says(Stage::Default, Behavior::Ask, Saw::NoAnswer)
    }

    /// The commands that run; none if the call is not a command.
    fn parts(&self) -> impl Iterator<Item = Part<'a>> + Clone + use<'a> {
        self.analysis.into_iter().flat_map(|analysis| {
            let known = analysis.facts.iter().zip(&analysis.redirects);
            analysis.script.commands.iter().zip(known).map(|(command, (facts, redirects))| Part {
                command,
                facts,
                redirects,
            })
        })
    }

    /// Why the command cannot be known in full. Facts that do not belong to the commands count as such a reason.
    fn opaque_reasons(&self) -> impl Iterator<Item = &'a str> {
        let mismatch = self.analysis.filter(|analysis| {
            let commands = analysis.script.commands.len();
            analysis.facts.len() != commands || analysis.redirects.len() != commands
        });
        let code = matches!(self.content, Content::Code { shell: None });
        let reasons = self.analysis.into_iter().flat_map(|analysis| &analysis.script.opaque).map(String::as_str);
        reasons
            .chain(mismatch.map(|_| "the analysis is incomplete"))
            .chain(code.then_some("it is code that is not analysed"))
    }

    fn opaque(&self) -> Option<&'a str> {
        self.opaque_reasons().next()
    }

    /// The paths that the call names, with where they lead.
    fn places(&self) -> impl Iterator<Item = (&'a ContainerPath, Leads<'a>)> {
        let real = self.real;
        self.call.paths().iter().enumerate().map(move |(place, path)| {
            let leads = real.map_or(Leads::NotAsked, |real| real.get(place).map_or(Leads::LeftOut, Leads::To));
            (path, leads)
        })
    }

    /// Where a path of a command leads.
    fn leads(&self, path: &ContainerPath) -> Leads<'a> {
        let Some(real) = self.real else { return Leads::NotAsked };
        let place = self.call.paths().binary_search(path).ok();
        place.and_then(|place| real.get(place)).map_or(Leads::LeftOut, Leads::To)
    }

    /// Whether it holds for where the path seems to lead or really leads.
    fn either(&self, path: &ContainerPath, mut holds: impl FnMut(&ContainerPath) -> bool) -> bool {
        holds(path) || self.leads(path).real().is_some_and(holds)
    }

    /// Whether it holds for where the path seems to lead and really leads. Where that is not known yet, the second
    /// decision will tell.
    fn both(&self, path: &ContainerPath, mut holds: impl FnMut(&ContainerPath) -> bool) -> bool {
        holds(path)
            && match self.leads(path) {
                Leads::NotAsked => true,
                Leads::LeftOut => false,
                Leads::To(real) => holds(real),
            }
    }
}

fn combine<'a>(
    objections: [Finding<'a>; 4],
    mut answers: impl Iterator<Item = Finding<'a>>,
    default: Finding<'a>,
) -> Finding<'a> {
    let mut strictest: Option<Finding<'a>> = None;
    let mut tool_allows = None;
    let mut advice = None;
    for finding in objections {
        match finding.answer {
            Answer::Nothing => {}
            Answer::Advice => advice = Some(finding),
            Answer::Says(Behavior::Allow) => tool_allows = Some(finding),
            Answer::Says(Behavior::Ask | Behavior::Deny) => {
                let so_far = strictest.as_ref().and_then(|found| found.answer.behavior());
                if finding.answer.behavior() > so_far {
                    strictest = Some(finding);
                }
            }
        }
    }
    strictest
        .or(tool_allows)
        .or_else(|| answers.find(|finding| finding.answer != Answer::Nothing))
        .or(advice)
        .unwrap_or(default)
}

fn says<'a>(stage: Stage, behavior: Behavior, saw: Saw<'a>) -> Finding<'a> {
    Finding { stage, answer: Answer::Says(behavior), rule: None, saw }
}

fn nothing<'a>(stage: Stage, saw: Saw<'a>) -> Finding<'a> {
    Finding { stage, answer: Answer::Nothing, rule: None, saw }
}
