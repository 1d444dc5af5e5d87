//! The nine stages.
//!
//! Stages 1–4 are all looked at and the strictest of them wins (the earlier of equals); a tool's own ALLOW is final
//! if they do not object. Then the first of stages 5–9 that answers. Last of all DONT_ASK turns every ASK into a DENY.

use crate::context::Context;
use crate::danger::is_dangerous;
use crate::decision::{Decision, ReportedRule, TraceStep};
use crate::describe::{DescribedCall, Effect, ResolvedCall, ToolDescription, ToolVerdict};
use crate::mode::{Behavior, Mode, ReadOnlyPolicy, Stage};
use crate::path::ContainerPath;
use crate::rule::Rule;

/// What becomes of the call as far as its logical paths tell.
#[must_use]
pub fn decide(call: &DescribedCall<'_>, context: &Context) -> Decision {
    Subject { tool: call.tool(), real: &[], context }.decide()
}

/// What becomes of the call now that it is known where its paths lead. Never looser than [`decide`] with the same
/// context. As [`decide`], it only answers: what runs goes through [`crate::authorize`].
#[must_use]
pub fn decide_resolved(call: &ResolvedCall<'_>, context: &Context) -> Decision {
    Subject { tool: call.described().tool(), real: call.real(), context }.decide()
}

/// One stage's answer.
struct Finding<'a> {
    stage: Stage,
    answer: Answer,
    rule: Option<&'a Rule>,
    /// For the model; empty where the stage gives nothing.
    message: String,
    /// For the audit log and the trace.
    saw: String,
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

struct Subject<'a> {
    tool: &'a dyn ToolDescription,
    /// Empty while unknown.
    real: &'a [ContainerPath],
    context: &'a Context,
}

impl<'a> Subject<'a> {
    fn decide(&self) -> Decision {
        let objections = [self.deny_rule(), self.ask_rule(), self.explore(), self.tool_check()];
        let answers = [self.allow_rule(), self.accept_edits(), self.read_only(), self.bypass()];
        let trace = objections.iter().chain(&answers).map(step);
        let default = self.default();
        let trace = trace.chain([step(&default)]).collect();
        self.conclude(combine(objections, answers, default), trace)
    }

    fn conclude(&self, finding: Finding<'a>, trace: Vec<TraceStep>) -> Decision {
        let behavior = finding.answer.behavior().unwrap_or(Behavior::Ask);
        let demoted = behavior == Behavior::Ask && self.context.mode() == Mode::DontAsk;
        let message = if demoted {
            format!("{} Nobody can be asked in this mode, so the call is denied.", finding.message)
        } else {
            finding.message
        };
        Decision {
            behavior: if demoted { Behavior::Deny } else { behavior },
            stage: finding.stage,
            rule: finding.rule.map(ReportedRule::from),
            message,
            reason: finding.saw,
            demoted,
            trace,
        }
    }

    fn deny_rule(&self) -> Finding<'a> {
        self.by_rule(Stage::DenyRule, Behavior::Deny, |tool, rule| {
            format!("`{tool}` is denied by the rule `{rule}`. Trying again will not help; find another way.")
        })
    }

    fn ask_rule(&self) -> Finding<'a> {
        self.by_rule(Stage::AskRule, Behavior::Ask, |tool, rule| {
            format!("A person must approve this call of `{tool}`: the rule `{rule}` says so.")
        })
    }

    fn allow_rule(&self) -> Finding<'a> {
        self.by_rule(Stage::AllowRule, Behavior::Allow, |tool, rule| {
            format!("`{tool}` is allowed by the rule `{rule}`.")
        })
    }

    fn by_rule(&self, stage: Stage, behavior: Behavior, words: fn(&str, &str) -> String) -> Finding<'a> {
        let tool = self.tool.name();
        match self.context.rules().first_match(behavior, tool) {
            Some(rule) => Finding {
                stage,
                answer: Answer::Says(behavior),
                rule: Some(rule),
                message: rule.message().map_or_else(|| words(tool, rule.text()), str::to_owned),
                saw: format!("{behavior} rule `{}` of source {} matches", rule.text(), rule.source().as_str()),
            },
            None => nothing(stage, format!("no {behavior} rule matches")),
        }
    }

    fn explore(&self) -> Finding<'a> {
        if self.context.mode() != Mode::Explore {
            nothing(Stage::Explore, format!("the mode is {}", self.context.mode()))
        } else if self.tool.read_only() {
            nothing(Stage::Explore, "the call only reads".to_owned())
        } else {
            let message = format!("`{}` may change something, and only reading is allowed here.", self.tool.name());
            says(Stage::Explore, Behavior::Deny, message, "the call does more than read".to_owned())
        }
    }

    /// A tool's DENY outranks a dangerous path, which outranks whatever else the tool thinks.
    fn tool_check(&self) -> Finding<'a> {
        let stage = Stage::ToolCheck;
        let dangerous = || self.all_paths().find(|path| is_dangerous(path));
        match (self.tool.verdict(), dangerous()) {
            (ToolVerdict::Deny { message }, _) => {
                says(stage, Behavior::Deny, message, "the tool refuses this input".to_owned())
            }
            (_, Some(path)) => {
                let message = format!("A person must approve access to `{path}`: it may hold secrets or run commands.");
                says(stage, Behavior::Ask, message, format!("dangerous path `{path}`"))
            }
            (ToolVerdict::Ask { message }, None) => {
                says(stage, Behavior::Ask, message, "the tool asks about this input".to_owned())
            }
            (ToolVerdict::AdviseAsk { message }, None) => Finding {
                stage,
                answer: Answer::Advice,
                rule: None,
                message,
                saw: "the tool advises to ask about this input".to_owned(),
            },
            (ToolVerdict::Allow, None) => {
                let message = format!("`{}` allows this input itself.", self.tool.name());
                says(stage, Behavior::Allow, message, "the tool allows this input".to_owned())
            }
            (ToolVerdict::Passthrough, None) => {
                nothing(stage, "the tool has no opinion, no path is dangerous".to_owned())
            }
        }
    }

    fn accept_edits(&self) -> Finding<'a> {
        let stage = Stage::AcceptEdits;
        if self.context.mode() != Mode::AcceptEdits {
            return nothing(stage, format!("the mode is {}", self.context.mode()));
        }
        if self.tool.read_only() {
            let message = format!("`{}` only reads.", self.tool.name());
            return says(stage, Behavior::Allow, message, "the call only reads".to_owned());
        }
        match self.tool.effect() {
            Effect::Read | Effect::Execute => nothing(stage, "the call is not an edit of named files".to_owned()),
            Effect::Write if self.tool.paths().is_empty() => nothing(stage, "the call names no file".to_owned()),
            Effect::Write => match self.all_paths().find(|path| !self.in_working_directory(path)) {
                Some(path) => nothing(stage, format!("`{path}` is outside the working directories")),
                None => {
                    let message = format!("`{}` edits inside the working directories.", self.tool.name());
                    says(stage, Behavior::Allow, message, "every path is inside the working directories".to_owned())
                }
            },
        }
    }

    fn read_only(&self) -> Finding<'a> {
        let stage = Stage::ReadOnly;
        if !self.tool.read_only() {
            return nothing(stage, "the call is not read-only".to_owned());
        }
        let policy = self.context.read_only();
        let covered = match policy {
            ReadOnlyPolicy::None | ReadOnlyPolicy::Shell => self.context.mode() == Mode::Explore,
            ReadOnlyPolicy::All => true,
        };
        if covered {
            let message = format!("`{}` only reads.", self.tool.name());
            says(stage, Behavior::Allow, message, "the call is read-only".to_owned())
        } else {
            nothing(stage, format!("read-only, which `read_only = \"{policy}\"` does not cover"))
        }
    }

    fn bypass(&self) -> Finding<'a> {
        if self.context.mode() == Mode::Bypass {
            let message = "Everything that nothing objects to is allowed here.".to_owned();
            says(Stage::Bypass, Behavior::Allow, message, "the mode is bypass".to_owned())
        } else {
            nothing(Stage::Bypass, format!("the mode is {}", self.context.mode()))
        }
    }

    fn default(&self) -> Finding<'a> {
        let message = format!("A person must approve this call of `{}`: nothing allows it.", self.tool.name());
        says(Stage::Default, Behavior::Ask, message, "no stage answered".to_owned())
    }

    /// Logical paths, and real ones as far as they are known.
    fn all_paths(&self) -> impl Iterator<Item = &'a ContainerPath> {
        self.tool.paths().iter().chain(self.real)
    }

    fn in_working_directory(&self, path: &ContainerPath) -> bool {
        self.context.working_directories().iter().any(|directory| path.is_within(directory))
    }
}

fn combine<'a>(objections: [Finding<'a>; 4], answers: [Finding<'a>; 4], default: Finding<'a>) -> Finding<'a> {
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
        .or_else(|| answers.into_iter().find(|finding| finding.answer != Answer::Nothing))
        .or(advice)
        .unwrap_or(default)
}

fn says<'a>(stage: Stage, behavior: Behavior, message: String, saw: String) -> Finding<'a> {
    Finding { stage, answer: Answer::Says(behavior), rule: None, message, saw }
}

fn nothing<'a>(stage: Stage, saw: String) -> Finding<'a> {
    Finding { stage, answer: Answer::Nothing, rule: None, message: String::new(), saw }
}

fn step(finding: &Finding<'_>) -> TraceStep {
    TraceStep { stage: finding.stage, gives: finding.answer.behavior(), saw: finding.saw.clone() }
}
