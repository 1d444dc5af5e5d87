//! The combining logic, compared over every combination with the shortest form that it can be written in.

use crate::fixture::{Call, VERDICTS, context, rules};
use toolcell_permission::Behavior::{Allow, Ask, Deny};
use toolcell_permission::*;

/// What the stages see, without how they see it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    mode: Mode,
    policy: ReadOnlyPolicy,
    deny: bool,
    ask: bool,
    allow: bool,
    verdict: &'static str,
    danger: bool,
    reads: bool,
    edits_inside: bool,
}

fn reference(s: Seen) -> (Behavior, Stage) {
    let stages_1_to_4 = [
        (s.deny, Deny, Stage::DenyRule),
        (s.ask, Ask, Stage::AskRule),
        (s.mode == Mode::Explore && !s.reads, Deny, Stage::Explore),
        (s.verdict == "deny", Deny, Stage::ToolCheck),
        (s.verdict == "ask" || s.danger, Ask, Stage::ToolCheck),
    ];
    let stages_5_to_9 = [
        (s.verdict == "allow", Allow, Stage::ToolCheck),
        (s.allow, Allow, Stage::AllowRule),
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
    let list = |wanted: bool| if wanted { vec!["*"] } else { Vec::new() };
    let context = context(s.mode, rules(&list(s.allow), &list(s.ask), &list(s.deny))).with_read_only(s.policy);
    let path = if s.danger { "/workspace/.env" } else { "/workspace/a" };
    let call = match (s.reads, s.edits_inside) {
        (true, _) => Call::read(&[path]),
        (false, true) => Call::write(&[path]),
        (false, false) if s.danger => Call::write(&["/etc/.env"]),
        (false, false) => Call::execute(),
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
                for bits in 0..64_u32 {
                    let bit = |place: u32| bits >> place & 1 == 1;
                    let (deny, ask, allow, danger) = (bit(0), bit(1), bit(2), bit(3));
                    let (reads, edits_inside) = (bit(4), bit(5));
                    let seen = Seen { mode, policy, deny, ask, allow, verdict, danger, reads, edits_inside };
                    let decision = engine(seen);
                    assert_eq!((decision.behavior, decision.stage), reference(seen), "{seen:?}");
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 5 * 3 * 5 * 64);
}
