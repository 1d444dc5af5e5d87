//! The combining logic, compared over every combination with the shortest form that it can be written in, over rules
//! that match, that do not, and that cannot be evaluated.

use crate::fixture::{Call, VERDICTS, context, rules};
use toolcell_permission::Behavior::{Allow, Ask, Deny};
use toolcell_permission::*;

/// What the rules of one behaviour come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    NoMatch,
    Match,
    Error,
}

/// What the stages see, without how they see it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    mode: Mode,
    policy: ReadOnlyPolicy,
    deny: Rules,
    ask: Rules,
    allow: Rules,
    verdict: &'static str,
    danger: bool,
    reads: bool,
    edits_inside: bool,
}

fn reference(s: Seen) -> (Behavior, Stage) {
    let stages_1_to_4 = [
        (s.deny != Rules::NoMatch, Deny, Stage::DenyRule),
        (s.ask != Rules::NoMatch, Ask, Stage::AskRule),
        (s.mode == Mode::Explore && !s.reads, Deny, Stage::Explore),
        (s.verdict == "deny", Deny, Stage::ToolCheck),
        (s.verdict == "ask" || s.danger, Ask, Stage::ToolCheck),
    ];
    let stages_5_to_9 = [
        (s.verdict == "allow", Allow, Stage::ToolCheck),
        (s.allow == Rules::Match, Allow, Stage::AllowRule),
        (s.mode == Mode::AcceptEdits && (s.reads || s.edits_inside), Allow, Stage::AcceptEdits),
        (s.reads && (s.mode == Mode::Explore || s.policy == ReadOnlyPolicy::All), Allow, Stage::ReadOnly),
        (s.mode == Mode::Bypass, Allow, Stage::Bypass),
        (s.verdict == "advise_ask", Ask, Stage::ToolCheck),
        (true, Ask, Stage::Default),
    ];
    let by = |wanted| stages_1_to_4.into_iter().find(|(applies, gives, _)| *applies && *gives == wanted);
    let first = || stages_5_to_9.into_iter().find(|(applies, ..)| *applies);
    let (_, behavior, stage) = by(Deny).or_else(|| by(Ask)).or_else(first).unwrap();
    (if s.mode == Mode::DontAsk && behavior == Ask { Deny } else { behavior }, stage)
}

/// What a call and a context have to look like to be seen so.
fn engine(s: Seen) -> Decision {
    let list = |rules: Rules| match rules {
        Rules::NoMatch => vec!["other", "other(x)"],
        Rules::Match => vec!["*"],
        // No pattern of any kind, which shows only when it meets a call.
        Rules::Error => vec!["*( 'x)"],
    };
    let context = context(s.mode, rules(&list(s.allow), &list(s.ask), &list(s.deny))).with_read_only(s.policy);
    let path = if s.danger { "/workspace/.env" } else { "/workspace/a" };
    let call = match (s.reads, s.edits_inside) {
        (true, _) => Call::read(&[path]),
        (false, true) => Call::write(&[path]),
        (false, false) if s.danger => Call::write(&["/etc/.env"]),
        (false, false) => Call::shell("make test"),
    };
    let verdict = VERDICTS.iter().find(|(name, _)| *name == s.verdict).unwrap().1;
    call.with_verdict(verdict()).decide(&context)
}

#[test]
fn the_engine_combines_as_the_reference_does() {
    let mut compared = 0;
    for mode in Mode::ALL {
        for policy in ReadOnlyPolicy::ALL {
            for (verdict, _) in VERDICTS {
                for bits in 0..8_u32 {
                    let bit = |place: u32| bits >> place & 1 == 1;
                    let (danger, reads, edits_inside) = (bit(0), bit(1), bit(2));
                    for [deny, ask, allow] in combinations() {
                        let seen = Seen { mode, policy, deny, ask, allow, verdict, danger, reads, edits_inside };
                        let decision = engine(seen);
                        assert_eq!((decision.behavior, decision.stage), reference(seen), "{seen:?}");
                        compared += 1;
                    }
                }
            }
        }
    }
    assert_eq!(compared, 5 * 3 * 5 * 8 * 27);
}

fn combinations() -> impl Iterator<Item = [Rules; 3]> {
    let each = [Rules::NoMatch, Rules::Match, Rules::Error];
    each.into_iter().flat_map(move |a| each.into_iter().flat_map(move |b| each.into_iter().map(move |c| [a, b, c])))
}
