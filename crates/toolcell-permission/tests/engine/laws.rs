//! One property for each sentence that the pipeline promises.

use crate::fixture::{Call, LookedAt, VERDICTS, path};
use proptest::prelude::*;
use proptest::sample::select;
use toolcell_permission::*;

const PATHS: [&str; 9] = [
    "/",
    "/workspace",
    "/workspace/a",
    "/workspace/src/b",
    "/workspace2/a",
    "/etc/passwd",
    "/workspace/.env",
    "/home/agent/.ssh/config",
    "/workspace/.git/hooks/x",
];
const DANGEROUS: [&str; 3] = ["/workspace/.env", "/home/agent/.ssh/config", "/workspace/.git/hooks/x"];
const NAMES: [&str; 4] = ["execute", "read_file", "write_file", "mcp__github__create"];
const PATTERNS: [&str; 22] = [
    "execute",
    "read_file",
    "write_file",
    "*_file",
    "mcp__github__*",
    "*",
    "other",
    "execute(git push:*)",
    "execute(make:*)",
    "execute(npm run build)",
    "execute(rm:*)",
    "execute(touch *)",
    "run_code",
    "read_file(/workspace/src/**)",
    "read_file(/etc/**)",
    "write_file(/workspace/**)",
    "write_file(/workspace2/**)",
    "*_file(/workspace/a)",
    "deploy",
    "deploy(env=prod)",
    "deploy(env=*,region=eu-*)",
    "*( 'x)",
];
/// Read, edit, both, neither, write by redirection, opaque, dangerous, tainted, with more rights, without a command.
const SCRIPTS: [&str; 22] = [
    "ls",
    "git status && cat src/b",
    "cat /etc/passwd",
    "touch /workspace/a",
    "touch a; mkdir -p src",
    "cp a /etc/passwd",
    "rm a",
    "rm *.txt",
    "git push origin main",
    "make test",
    "npm run build && git push",
    "ls > a",
    "make > /etc/passwd",
    "cat < /etc/passwd > src/b",
    "$1 push",
    "echo \"unterminated",
    "cat .env",
    "rm -rf /",
    "PATH=/workspace/bin git status",
    "sudo git push",
    "timeout 5 make test",
    "x=1",
];
const SOURCES: [RuleSource; 5] =
    [RuleSource::Policy, RuleSource::User, RuleSource::Project, RuleSource::Session, RuleSource::Suggested];

fn a_rule() -> impl Strategy<Value = Rule> {
    (select(&Behavior::ALL[..]), select(&SOURCES[..]), select(&PATTERNS[..]), proptest::option::of("[a-c]")).prop_map(
        |(behavior, source, text, message)| Rule::parse(behavior, source, text).unwrap().with_message(message),
    )
}

fn some_rules() -> impl Strategy<Value = Vec<Rule>> {
    proptest::collection::vec(a_rule(), 0..6)
}

/// A call and where its paths really lead.
fn a_call() -> impl Strategy<Value = (Call, Vec<ContainerPath>)> {
    prop_oneof![3 => a_tools_call(), 3 => a_command(), 1 => some_fields().prop_map(|call| (call, Vec::new()))]
}

fn some_fields() -> impl Strategy<Value = Call> {
    (select(&["prod", "test"][..]), select(&["eu-1", "us-1"][..]))
        .prop_map(|(env, region)| Call::deploy(&[("env", env), ("region", region)]))
}

fn a_command() -> impl Strategy<Value = (Call, Vec<ContainerPath>)> {
    let links = proptest::collection::vec(proptest::option::weighted(0.2, select(&PATHS[..])), 8);
    (select(&SCRIPTS[..]), 0..4, select(&VERDICTS[..]), links).prop_map(|(text, shape, verdict, links)| {
        let call = match shape {
            0 => Call::code("bash", text),
            1 => Call::code("python", text),
            _ => Call::shell(text),
        };
        let link = |(path_, link): (ContainerPath, Option<&str>)| link.map_or(path_, path);
        let real = call.named().into_iter().zip(links).map(link).collect();
        (call.with_verdict(verdict.1()), real)
    })
}

fn a_tools_call() -> impl Strategy<Value = (Call, Vec<ContainerPath>)> {
    let paths = proptest::collection::vec((select(&PATHS[..]), select(&PATHS[..])), 0..3);
    let effect = select(&[Effect::Read, Effect::Write, Effect::Execute][..]);
    let verdict = select(&VERDICTS[..]);
    (select(&NAMES[..]), any::<bool>(), effect, paths, verdict).prop_map(|(name, read_only, effect, paths, verdict)| {
        let (logical, real): (Vec<_>, Vec<_>) = paths.into_iter().map(|(l, r)| (path(l), path(r))).unzip();
        let input = serde_json::json!({});
        let looked_at = LookedAt::Paths;
        (Call { name: name.into(), read_only, effect, paths: logical, verdict: verdict.1(), input, looked_at }, real)
    })
}

#[derive(Debug, Clone)]
struct Situation {
    mode: Mode,
    policy: ReadOnlyPolicy,
    rules: Vec<Rule>,
    directories: Vec<ContainerPath>,
    call: Call,
    real: Vec<ContainerPath>,
}

impl Situation {
    fn context(&self) -> Context {
        Context::new(self.mode, self.rules.iter().cloned().collect())
            .with_read_only(self.policy)
            .with_working_directories(self.directories.clone())
    }

    fn decide(&self) -> Decision {
        self.call.decide_resolved(&self.real, &self.context())
    }

    fn explain(&self) -> Decision {
        self.call.explain_resolved(&self.real, &self.context())
    }

    /// What the tool says, of a call that is not a command.
    fn says_it_reads(&self) -> Option<bool> {
        match self.call.looked_at {
            LookedAt::Command(_) => None,
            LookedAt::Code(_) => Some(false),
            LookedAt::Nothing | LookedAt::Paths | LookedAt::Fields(_) => Some(self.call.read_only),
        }
    }

    fn with_rule(&self, behavior: Behavior, text: &str) -> Self {
        let mut more = self.clone();
        more.rules.push(Rule::parse(behavior, RuleSource::User, text).unwrap());
        more
    }
}

fn a_situation() -> impl Strategy<Value = Situation> {
    let mode = select(&Mode::ALL[..]);
    let policy = select(&ReadOnlyPolicy::ALL[..]);
    let directories = proptest::collection::vec(select(&PATHS[..]).prop_map(path), 0..3);
    (mode, policy, some_rules(), directories, a_call()).prop_map(|(mode, policy, rules, directories, (call, real))| {
        Situation { mode, policy, rules, directories, call, real }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn deny_beats_everything(s in a_situation()) {
        let decision = s.with_rule(Behavior::Deny, &s.call.name).decide();
        prop_assert_eq!((decision.behavior, decision.stage), (Behavior::Deny, Stage::DenyRule));
    }

    #[test]
    fn ask_beats_allow(s in a_situation()) {
        let asked = s.with_rule(Behavior::Ask, "*").with_rule(Behavior::Allow, &s.call.name);
        prop_assert_ne!(asked.decide().behavior, Behavior::Allow);
    }

    #[test]
    fn another_allow_rule_never_makes_it_stricter(s in a_situation(), text in select(&PATTERNS[..])) {
        prop_assert!(s.with_rule(Behavior::Allow, text).decide().behavior <= s.decide().behavior);
    }

    #[test]
    fn another_deny_or_ask_rule_never_makes_it_looser(s in a_situation(), text in select(&PATTERNS[..])) {
        prop_assert!(s.with_rule(Behavior::Deny, text).decide().behavior >= s.decide().behavior);
        prop_assert!(s.with_rule(Behavior::Ask, text).decide().behavior >= s.decide().behavior);
    }

    #[test]
    fn order_and_duplicates_of_rules_do_not_matter(s in a_situation(), turn in 0..6_usize) {
        let mut other = s.clone();
        other.rules.reverse();
        other.rules.extend(s.rules.iter().cloned());
        let turn = turn.min(other.rules.len());
        other.rules.rotate_left(turn);
        prop_assert_eq!(other.decide(), s.decide());
    }

    #[test]
    fn dont_ask_never_asks_and_is_default_with_every_ask_denied(s in a_situation()) {
        let silent = Situation { mode: Mode::DontAsk, ..s.clone() }.decide();
        let asking = Situation { mode: Mode::Default, ..s }.decide();
        prop_assert_ne!(silent.behavior, Behavior::Ask);
        prop_assert_eq!(silent.demoted, asking.behavior == Behavior::Ask);
        prop_assert_eq!(silent.stage, asking.stage);
        prop_assert_eq!(silent.behavior == Behavior::Allow, asking.behavior == Behavior::Allow);
    }

    #[test]
    fn a_dangerous_path_holds_in_every_mode(s in a_situation(), danger in select(&DANGEROUS[..]), really in any::<bool>()) {
        if !matches!(s.call.looked_at, LookedAt::Paths) {
            return Ok(());
        }
        let mut s = s.with_rule(Behavior::Allow, "*");
        s.call.paths.push(path(if really { "/workspace/link" } else { danger }));
        s.real.push(path(if really { danger } else { "/workspace/a" }));
        prop_assert_ne!(s.decide().behavior, Behavior::Allow);
    }

    #[test]
    fn what_a_tool_refuses_nothing_rescues(s in a_situation()) {
        let mut s = s.with_rule(Behavior::Allow, "*");
        s.call.verdict = VERDICTS[0].1();
        prop_assert_eq!(s.decide().behavior, Behavior::Deny);
        s.call.verdict = VERDICTS[1].1();
        prop_assert_ne!(s.decide().behavior, Behavior::Allow);
    }

    #[test]
    fn explore_allows_only_what_reads(s in a_situation()) {
        let s = Situation { mode: Mode::Explore, ..s };
        let decision = s.decide();
        // Nothing is left to ask about but what the rules, the tool or something dangerous ask about.
        prop_assert_ne!(decision.stage, Stage::Default);
        if s.says_it_reads() == Some(false) {
            prop_assert_eq!(decision.behavior, Behavior::Deny);
        }
    }

    #[test]
    fn a_wider_read_only_policy_is_never_stricter(s in a_situation()) {
        let [none, shell, all] = ReadOnlyPolicy::ALL.map(|policy| Situation { policy, ..s.clone() }.decide().behavior);
        prop_assert!(none >= shell && shell >= all);
    }

    #[test]
    fn accept_edits_stays_inside(s in a_situation()) {
        let s = Situation { mode: Mode::AcceptEdits, ..s };
        let inside = |path: &ContainerPath| s.directories.iter().any(|directory| path.is_within(directory));
        if s.decide().stage == Stage::AcceptEdits && s.says_it_reads() == Some(false) {
            prop_assert_eq!(s.call.effect, Effect::Write);
            prop_assert!(!s.call.paths.is_empty() && s.call.paths.iter().chain(&s.real).all(inside));
        }
    }

    #[test]
    fn real_paths_only_make_it_stricter(s in a_situation()) {
        let first = s.call.decide(&s.context());
        prop_assert!(s.decide().behavior >= first.behavior);
        let same = s.call.decide_resolved(&s.call.named(), &s.context());
        prop_assert_eq!(same, first, "a path that leads where it says changes nothing");
    }

    #[test]
    fn of_two_decisions_the_stricter_counts(one in a_situation(), two in a_situation()) {
        let (first, second) = (one.decide(), two.decide());
        let both = stricter(first.clone(), second.clone());
        prop_assert_eq!(both.behavior, first.behavior.max(second.behavior));
        prop_assert!(both == first || both == second);
        if first.behavior == second.behavior {
            prop_assert_eq!(both, second);
        }
    }

    #[test]
    fn the_trace_lists_every_stage_and_explains_the_decision(s in a_situation()) {
        let decision = s.explain();
        prop_assert_eq!(decision.trace.iter().map(|step| step.stage).collect::<Vec<_>>(), Stage::ALL.to_vec());
        let step = decision.trace.iter().find(|step| step.stage == decision.stage).unwrap();
        let undemoted = if decision.demoted { Behavior::Ask } else { decision.behavior };
        prop_assert_eq!(step.gives, Some(undemoted));
        prop_assert_eq!(&step.saw, &decision.reason);
        prop_assert!(!decision.message.is_empty());
        let ruled = matches!(decision.stage, Stage::DenyRule | Stage::AskRule | Stage::AllowRule);
        prop_assert_eq!(decision.rule.is_some(), ruled);
    }

    #[test]
    fn an_explanation_is_the_decision_with_its_trace(s in a_situation()) {
        prop_assert_eq!(Decision { trace: Vec::new(), ..s.explain() }, s.decide());
        let first = s.call.explain(&s.context());
        prop_assert_eq!(Decision { trace: Vec::new(), ..first }, s.call.decide(&s.context()));
    }

    #[test]
    fn suggestions_answer_the_question(s in a_situation()) {
        let asked = s.decide();
        prop_assert!(asked.suggestions.len() <= 3);
        if !asked.suggestions.is_empty() {
            prop_assert_eq!(asked.behavior, Behavior::Ask);
            let mut remembered = s.clone();
            for suggestion in &asked.suggestions {
                remembered = remembered.with_rule(Behavior::Allow, &suggestion.rule);
            }
            let then = remembered.decide();
            prop_assert_eq!((then.behavior, then.stage), (Behavior::Allow, Stage::AllowRule), "{:?}", asked.suggestions);
        }
    }

    #[test]
    fn nothing_is_suggested_that_could_not_answer(s in a_situation()) {
        let asked = s.decide();
        let answered = s.with_rule(Behavior::Allow, "*").decide();
        if answered.behavior != Behavior::Allow {
            prop_assert!(asked.suggestions.is_empty());
        }
    }

    #[test]
    fn what_is_opaque_is_never_allowed_past_a_content_rule(s in a_situation(), deny in any::<bool>()) {
        let behavior = if deny { Behavior::Deny } else { Behavior::Ask };
        for call in [Call::shell("$1 push"), Call::code("bash", "$1 push"), Call::code("python", "print(1)")] {
            let s = Situation { call, real: Vec::new(), ..s.clone() }.with_rule(behavior, "execute(shutdown)");
            prop_assert_ne!(s.decide().behavior, Behavior::Allow);
        }
    }

    #[test]
    fn a_rule_that_cannot_be_evaluated_is_the_strict_one(s in a_situation()) {
        // Its content is no pattern of any kind, which shows when it meets a call that it is about.
        let unreadable = "*( 'x)";
        let meets_it = match &s.call.looked_at {
            LookedAt::Nothing | LookedAt::Code(_) => false,
            LookedAt::Paths | LookedAt::Command(_) | LookedAt::Fields(_) => true,
        };
        if meets_it {
            prop_assert_eq!(s.with_rule(Behavior::Deny, unreadable).decide().behavior, Behavior::Deny);
            prop_assert_ne!(s.with_rule(Behavior::Ask, unreadable).decide().behavior, Behavior::Allow);
        }
        prop_assert_eq!(s.with_rule(Behavior::Allow, unreadable).decide(), s.decide());
    }

    #[test]
    fn a_policy_counts_as_the_tools_own_opinion(s in a_situation(), opinion in 0..3_usize) {
        use toolcell_permission::policy::{PolicyCall, PolicyVerdict};
        let message = || "the tool's words".to_owned();
        let (verdict, own) = match opinion {
            0 => (PolicyVerdict::Deny { message: message() }, 0),
            1 => (PolicyVerdict::RequireApproval { message: message() }, 1),
            _ => (PolicyVerdict::Allow, 3),
        };
        let mut silent = s.clone();
        silent.call.verdict = ToolVerdict::Passthrough;
        let context = silent.context().with_policy("p", move |_: &PolicyCall<'_>| verdict.clone());
        let by_policy = silent.call.decide_resolved(&s.real, &context);
        silent.call.verdict = VERDICTS[own].1();
        let by_tool = silent.decide();
        prop_assert_eq!((by_policy.behavior, by_policy.stage), (by_tool.behavior, by_tool.stage));
        let no_opinion = s.context().with_policy("p", |_: &PolicyCall<'_>| PolicyVerdict::NoOpinion);
        prop_assert_eq!(s.call.decide_resolved(&s.real, &no_opinion), s.decide());
    }
}
