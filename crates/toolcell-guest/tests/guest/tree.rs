//! Ending whole trees: nothing of a call outlives it, and nobody else is disturbed.

use super::support::{Collected, Guest, Options, argv, children_of, shell, wait_for};
use super::{start, start_with};
use std::time::{Duration, Instant};
use toolcell_protocol::{ErrorCode, GuestMessage, HostMessage};

/// A script whose processes hide: double forks, sessions of their own, deaf to TERM, holding the output.
const HIDING: &str = "
    (setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &)
    (sh -c '(sleep 1000 &)' &)
    setsid sleep 1001 &
    trap '' TERM
    echo begun
    while :; do sleep 1; done";

/// Names of all processes below a guest that are no keepers.
fn tools_of(guest: &Guest) -> Vec<String> {
    let mut ahead = vec![guest.pid()];
    let mut names = Vec::new();
    while let Some(parent) = ahead.pop() {
        for child in children_of(parent) {
            ahead.push(child);
            let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            if !["", "toolcell-keeper", "toolcell-guest"].contains(&name.trim()) {
                names.push(name.trim().to_owned());
            }
        }
    }
    names
}

fn nobody_is_left(guest: &Guest) {
    assert_eq!(tools_of(guest), Vec::<String>::new());
}

#[test]
fn a_timeout_ends_processes_that_hide() {
    let Some((guest, mut host)) = start() else { return };
    let mut spec = shell(HIDING);
    spec.timeout_ms = 400;
    let begun = Instant::now();
    let result = host.run(spec);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1400) && took < Duration::from_millis(2400), "{took:?}");
    let exit = result.exit();
    assert!(exit.timed_out && !exit.cancelled);
    assert_eq!(exit.signal, Some(9));
    assert_eq!(result.text(), "begun\n");
    nobody_is_left(&guest);
}

#[test]
fn a_tool_that_hears_term_ends_at_once() {
    let Some((guest, mut host)) = start() else { return };
    let mut spec = shell("trap 'echo bye; exit 5' TERM; echo begun; sleep 1000 & wait");
    spec.timeout_ms = 300;
    let begun = Instant::now();
    let result = host.run(spec);
    assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
    assert_eq!(result.text(), "begun\nbye\n");
    assert_eq!((result.exit().exit_code, result.exit().timed_out), (Some(5), true));
    nobody_is_left(&guest);
}

#[test]
fn cancel_ends_one_call_and_disturbs_no_other() {
    let Some((guest, mut host)) = start() else { return };
    let hiding = host.exec(shell(HIDING));
    let steady = host.exec(shell("for i in 1 2 3 4 5 6 7 8; do sleep 0.25; echo $i; done"));
    let mut hidden = Collected::default();
    let mut counted = Collected::default();
    let mut cancelled = false;
    let (mut hidden_ended, mut steady_ended) = (false, false);
    while !hidden_ended || !steady_ended {
        let message = host.receive();
        let of = match &message {
            GuestMessage::Output { op, .. } | GuestMessage::Exited { op, .. } => *op,
            other => panic!("{other:?}"),
        };
        if of == hiding {
            hidden_ended = host.add(&mut hidden, of, message);
        } else {
            steady_ended = host.add(&mut counted, of, message);
        }
        if !cancelled && !hidden.stdout.is_empty() {
            host.send(&HostMessage::Cancel { op: hiding });
            cancelled = true;
        }
    }
    assert!(hidden.exit().cancelled && !hidden.exit().timed_out);
    assert_eq!(counted.text(), "1\n2\n3\n4\n5\n6\n7\n8\n");
    assert_eq!(counted.exit().exit_code, Some(0));
    assert!(counted.exit().wall_us < 3_500_000, "{:?}", counted.exit());
    assert_eq!(steady, hiding + 1);
    nobody_is_left(&guest);
}

#[test]
fn a_finished_call_ends_what_it_left_behind_and_counts_it() {
    let Some((guest, mut host)) = start() else { return };
    let begun = Instant::now();
    let result = host.run(shell("sleep 1000 & setsid sleep 1001 & echo done"));
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(700), "a background child that holds the pipe delays only a little: {took:?}");
    assert_eq!((result.exit().exit_code, result.exit().left_behind), (Some(0), 2));
    assert_eq!(result.text(), "done\n");
    assert!(!result.exit().timed_out && !result.exit().cancelled);
    nobody_is_left(&guest);
    let result = host.run(shell("(trap '' TERM; while :; do sleep 0.1; done) & echo done; exit 4"));
    assert_eq!(result.exit().exit_code, Some(4));
    assert!(result.exit().left_behind >= 1);
    assert!(result.exit().wall_us < 500_000, "the main process's own time: {:?}", result.exit());
    nobody_is_left(&guest);
}

#[test]
fn output_that_comes_right_after_the_end_is_kept() {
    let Some((_guest, mut host)) = start() else { return };
    let result = host.run(shell("(sleep 0.01; echo late) & echo early"));
    assert_eq!(result.text(), "early\nlate\n");
    assert_eq!((result.exit().exit_code, result.exit().left_behind), (Some(0), 0));
}

#[test]
fn a_child_that_never_stops_writing_is_ended_too() {
    let Some((guest, mut host)) = start() else { return };
    let begun = Instant::now();
    let result = host.run(shell("(while :; do echo x; sleep 0.02; done) & exit 0"));
    assert!(begun.elapsed() < Duration::from_millis(2500), "{:?}", begun.elapsed());
    assert_eq!(result.exit().exit_code, Some(0));
    assert!(result.exit().left_behind >= 1);
    nobody_is_left(&guest);
}

#[test]
fn a_fork_bomb_is_ended_in_time() {
    // The limit counts a user's processes on the whole machine: this user has no others.
    let setup = "prlimit --pid $$ --nproc=300:300".to_owned();
    let options = Options { setup, uid: 61_999, ..Options::default() };
    let Some((guest, mut host)) = start_with(&options) else { return };
    let mut spec = shell("bomb() { bomb 2>/dev/null & bomb 2>/dev/null & wait; }; bomb");
    spec.timeout_ms = 700;
    let begun = Instant::now();
    let result = host.run(spec);
    assert!(begun.elapsed() < Duration::from_millis(2900), "{:?}", begun.elapsed());
    assert!(result.exit().timed_out);
    wait_for("the last of the bomb", || tools_of(&guest).is_empty().then_some(()));
    assert_eq!(host.run(argv(&["echo", "alive"])).text(), "alive\n");
}

#[test]
fn a_process_that_is_stopped_is_ended() {
    let Some((guest, mut host)) = start() else { return };
    let mut spec = shell("kill -STOP $$");
    spec.timeout_ms = 200;
    let result = host.run(spec);
    assert!(result.exit().timed_out);
    assert_eq!(result.exit().signal, Some(15));
    nobody_is_left(&guest);
}

#[test]
fn no_zombies_are_left_and_keepers_are_few() {
    let Some((guest, mut host)) = start() else { return };
    for round in 0..200 {
        let text = if round % 10 == 0 { "(true & true &) ; (setsid true &)" } else { ":" };
        assert_eq!(host.run(shell(text)).exit().exit_code, Some(0));
    }
    let mut states = Vec::new();
    let mut ahead = vec![guest.pid()];
    while let Some(parent) = ahead.pop() {
        for child in children_of(parent) {
            ahead.push(child);
            states.push(std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default());
        }
    }
    assert!(states.iter().all(|stat| !stat.contains(") Z ")), "{states:?}");
    assert!(states.len() <= 5, "{states:?}");
}

#[test]
fn a_keeper_that_dies_takes_its_call_and_nothing_else() {
    let Some((guest, mut host)) = start() else { return };
    let other = host.exec(shell("sleep 1; echo other"));
    let op = host.exec(shell("echo begun; setsid sleep 1000 & sleep 1001"));
    let keeper = wait_for("the sleepers", || {
        children_of(guest.pid()).into_iter().find(|keeper| {
            children_of(*keeper).iter().any(|tool| {
                let command = std::fs::read(format!("/proc/{tool}/cmdline")).unwrap_or_default();
                command.windows(10).any(|part| part == b"sleep 1001") && children_of(*tool).len() >= 2
            })
        })
    });
    assert!(std::process::Command::new("kill").args(["-9", &keeper.to_string()]).status().unwrap().success());
    let mut result = Collected::default();
    loop {
        let message = host.receive();
        if host.add(&mut result, op, message) {
            break;
        }
    }
    assert_eq!(result.error.unwrap().code, ErrorCode::Io);
    wait_for("the strays' end", || tools_of(&guest).iter().all(|name| name != "sleep" || name == "bash").then_some(()));
    let result = host.collect(other);
    assert_eq!((result.text().as_str(), result.exit().exit_code), ("other\n", Some(0)));
    assert_eq!(host.run(argv(&["echo", "next"])).text(), "next\n");
}
