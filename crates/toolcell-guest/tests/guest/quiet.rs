//! Standing still while the host reads one moment.

use super::start;
use super::support::{Guest, Host, argv, children_of, shell, wait_for};
use std::time::Duration;
use toolcell_protocol::message::Op;
use toolcell_protocol::{ErrorCode, GuestMessage, HostMessage};

/// Writers that never rest, one of them in a session of its own.
fn busy(guest: &Guest) -> String {
    let file = guest.work().join("log");
    let file = file.display();
    format!("setsid sh -c 'while :; do echo a >> {file}; done' & while :; do echo b >> {file}; done")
}

fn length(guest: &Guest) -> u64 {
    std::fs::metadata(guest.work().join("log")).map_or(0, |found| found.len())
}

fn grows(guest: &Guest) {
    let before = length(guest);
    wait_for("the tool to write", || (length(guest) > before).then_some(()));
}

/// Looks for as long as hundreds of writes take.
fn stands_still(guest: &Guest) -> bool {
    let before = length(guest);
    std::thread::sleep(Duration::from_millis(150));
    length(guest) == before
}

fn quiesce(host: &mut Host, max_ms: u64) -> GuestMessage {
    let op = host.op();
    host.ask(&HostMessage::Quiesce { op, max_ms })
}

fn resume(host: &mut Host) -> bool {
    let op = host.op();
    match host.ask(&HostMessage::Resume { op }) {
        GuestMessage::Resumed { in_time, .. } => in_time,
        other => panic!("{other:?}"),
    }
}

fn start_busy(guest: &Guest, host: &mut Host) -> Op {
    let op = host.exec(shell(&busy(guest)));
    grows(guest);
    op
}

#[test]
fn everybody_stands_still_and_goes_on() {
    let Some((guest, mut host)) = start() else { return };
    let op = start_busy(&guest, &mut host);
    for _ in 0..5 {
        let GuestMessage::Quiesced { processes, .. } = quiesce(&mut host, 60_000) else { panic!("not quiet") };
        assert!(processes >= 2, "{processes}");
        assert!(stands_still(&guest));
        assert!(resume(&mut host));
        grows(&guest);
    }
    host.send(&HostMessage::Cancel { op });
    assert!(host.collect(op).exit().cancelled);
}

#[test]
fn with_nobody_there_it_is_quiet_at_once() {
    let Some((_guest, mut host)) = start() else { return };
    assert!(matches!(quiesce(&mut host, 1000), GuestMessage::Quiesced { processes: 0, .. }));
    let GuestMessage::Failed { error, .. } = quiesce(&mut host, 1000) else { panic!("twice") };
    assert_eq!(error.code, ErrorCode::Invalid);
    assert!(resume(&mut host));
}

#[test]
fn what_comes_meanwhile_begins_afterwards() {
    let Some((guest, mut host)) = start() else { return };
    assert!(matches!(quiesce(&mut host, 60_000), GuestMessage::Quiesced { .. }));
    let file = guest.work().join("log").display().to_string();
    let first = host.exec(shell(&format!("echo first >> {file}; echo said")));
    let second = host.exec(argv(&["echo", "never"]));
    host.send(&HostMessage::Cancel { op: second });
    assert!(host.collect(second).error.is_some(), "cancelled before it began");
    assert!(stands_still(&guest) && length(&guest) == 0);
    let op = host.op();
    host.send(&HostMessage::Resume { op });
    assert!(matches!(host.receive(), GuestMessage::Resumed { in_time: true, .. }));
    assert_eq!(host.collect(first).text(), "said\n");
    assert!(length(&guest) > 0);
}

#[test]
fn a_host_that_is_lost_leaves_nobody_standing() {
    let Some((guest, mut host)) = start() else { return };
    let op = start_busy(&guest, &mut host);
    assert!(matches!(quiesce(&mut host, 60_000), GuestMessage::Quiesced { .. }));
    drop(host);
    grows(&guest);
    let mut host = guest.host();
    host.send(&HostMessage::Cancel { op });
}

#[test]
fn the_time_is_bounded_and_the_host_learns_that_it_was_over() {
    let Some((guest, mut host)) = start() else { return };
    start_busy(&guest, &mut host);
    assert!(matches!(quiesce(&mut host, 300), GuestMessage::Quiesced { .. }));
    grows(&guest);
    assert!(!resume(&mut host), "what was read is of several moments");
}

#[test]
fn who_stood_still_before_still_does() {
    let Some((guest, mut host)) = start() else { return };
    let op = host.exec(shell("sh -c 'kill -STOP $$; echo woke' & while :; do sleep 1; done"));
    let stopped = wait_for("a process that has stopped itself", || find_stopped(guest.pid()));
    assert!(matches!(quiesce(&mut host, 60_000), GuestMessage::Quiesced { .. }));
    assert!(resume(&mut host));
    assert!(stands_still(&guest), "nothing wakes");
    assert_eq!(find_stopped(guest.pid()), Some(stopped));
    host.send(&HostMessage::Cancel { op });
    assert!(host.collect(op).exit().cancelled);
}

/// The first stopped process below.
fn find_stopped(top: i32) -> Option<i32> {
    let mut ahead = vec![top];
    while let Some(parent) = ahead.pop() {
        for child in children_of(parent) {
            ahead.push(child);
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')) {
                return Some(child);
            }
        }
    }
    None
}
