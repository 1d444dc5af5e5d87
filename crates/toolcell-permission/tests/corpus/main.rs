//! What agents really write must run, what is forbidden must not, however it is written. See
//! `cargo run -p toolcell-permission --example error_rates`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

mod bounds;
mod call;
mod judge;
mod laws;

use judge::{Must, Rates, Setting, Wrong, attempts, benign};
use std::collections::BTreeSet;
use toolcell_permission::Behavior;

/// Everyday commands that may be asked, of a hundred.
const MOST_OVER_ASKED_PERCENT: f64 = 2.0;

fn list(wrong: &[Wrong]) -> String {
    wrong.iter().map(|wrong| format!("\n{wrong}")).collect()
}

#[test]
fn nothing_forbidden_is_let_through_and_hardly_anything_else_is_asked() {
    let rates = Rates::measure();
    let (through, silent, asked) = (&rates.let_through, &rates.not_asked, &rates.over_asked);
    assert!(through.is_empty(), "{} of {} attempts:{}", through.len(), rates.attempts, list(through));
    assert!(silent.is_empty(), "{} commands that a person must see:{}", silent.len(), list(silent));
    let percent = rates.over_asked_percent();
    assert!(percent < MOST_OVER_ASKED_PERCENT, "{} of {} asked:{}", asked.len(), rates.everyday, list(asked));
}

#[test]
fn the_corpora_are_large_and_each_entry_is_one() {
    let (benign, attempts) = (benign(), attempts());
    assert!(benign.iter().filter(|entry| entry.expect == Behavior::Allow).count() >= 300);
    assert!(attempts.len() >= 300);
    for kind in ["build", "test", "git", "packages", "inspect", "docker", "server", "loop", "heredoc", "script"] {
        assert!(benign.iter().filter(|entry| entry.kind == kind).count() >= 10, "{kind}");
    }
    for entry in &benign {
        assert_eq!(entry.expect == Behavior::Ask, entry.why.is_some(), "{}: only what is asked says why", entry.id);
    }
    for setting in [Setting::Deny, Setting::Nothing, Setting::Dangerous, Setting::Broad] {
        assert!(attempts.iter().filter(|attempt| attempt.setting == setting).count() >= 20, "{setting:?}");
    }
    assert!(attempts.iter().filter(|attempt| attempt.must == Must::Deny).count() >= 300);
    let ids: BTreeSet<&str> =
        benign.iter().map(|entry| &*entry.id).chain(attempts.iter().map(|attempt| &*attempt.id)).collect();
    assert_eq!(ids.len(), benign.len() + attempts.len());
    let texts: BTreeSet<&str> = benign.iter().map(|entry| entry.command.as_str()).collect();
    assert_eq!(texts.len(), benign.len());
}
