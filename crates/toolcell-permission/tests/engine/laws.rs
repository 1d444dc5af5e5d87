//! One property for each sentence that the pipeline promises.

use crate::fixture::{Call, VERDICTS, path};
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
const PATTERNS: [&str; 7] = ["execute", "read_file", "write_file", "*_file", "mcp__github__*", "*", "other"];
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
    let paths = proptest::collection::vec((select(&PATHS[..]), select(&PATHS[..])), 0..3);
    let effect = select(&[Effect::Read, Effect::Write, Effect::Execute][..]);
    let verdict = select(&VERDICTS[..]);
    (select(&NAMES[..]), any::<bool>(), effect, paths, verdict).prop_map(|(name, read_only, effect, paths, verdict)| {
        let (logical, real): (Vec<_>, Vec<_>) = paths.into_iter().map(|(l, r)| (path(l), path(r))).unzip();
        let input = serde_json::json!({});
        (Call { name: name.into(), read_only, effect, paths: logical, verdict: verdict.1(), input }, real)
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
        if !s.call.read_only {
            prop_assert_eq!(s.decide().behavior, Behavior::Deny);
        } else {
            // Nothing is left to ask about but what the rules, the tool or a path ask about.
            prop_assert_ne!(s.decide().stage, Stage::Default);
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
        if s.decide().stage == Stage::AcceptEdits && !s.call.read_only {
            prop_assert_eq!(s.call.effect, Effect::Write);
            prop_assert!(!s.call.paths.is_empty() && s.call.paths.iter().chain(&s.real).all(inside));
        }
    }

    #[test]
    fn real_paths_only_make_it_stricter(s in a_situation()) {
        let first = s.call.decide(&s.context());
        prop_assert!(s.decide().behavior >= first.behavior);
        let same = s.call.decide_resolved(&s.call.paths, &s.context());
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
        let decision = s.decide();
        prop_assert_eq!(decision.trace.iter().map(|step| step.stage).collect::<Vec<_>>(), Stage::ALL.to_vec());
        let step = decision.trace.iter().find(|step| step.stage == decision.stage).unwrap();
        let undemoted = if decision.demoted { Behavior::Ask } else { decision.behavior };
        prop_assert_eq!(step.gives, Some(undemoted));
        prop_assert_eq!(&step.saw, &decision.reason);
        prop_assert!(!decision.message.is_empty());
        let ruled = matches!(decision.stage, Stage::DenyRule | Stage::AskRule | Stage::AllowRule);
        prop_assert_eq!(decision.rule.is_some(), ruled);
    }
}
