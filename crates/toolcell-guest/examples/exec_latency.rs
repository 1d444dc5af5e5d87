//! What a call costs: `true` started by this process, and through a guest, in turn, in one run.
//!
//! `cargo run --release -p toolcell-guest --example exec_latency [GUEST] [ROUNDS]`, as root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a measurement that fails just ends")]
#![allow(clippy::print_stdout, reason = "prints its result")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Guest, Options, argv};
use toolcell_protocol::HostMessage;

fn timed(action: impl FnOnce()) -> Duration {
    let start = Instant::now();
    action();
    start.elapsed()
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1000.0
}

fn main() {
    let mut words = std::env::args().skip(1);
    let beside = || std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("toolcell-guest");
    let binary = words.next().map_or_else(beside, PathBuf::from);
    let rounds: usize = words.next().map_or(1000, |word| word.parse().unwrap());
    if !support::possible() {
        return;
    }
    let guest = Guest::start(&binary, &Options::default());
    let mut host = guest.host();
    let (mut spawn, mut through, mut ping) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds + 20 {
        let direct = timed(|| {
            // posix_spawn, because nothing is done between fork and exec
            let status = Command::new("/bin/true").stdin(Stdio::null()).stdout(Stdio::null()).status();
            assert!(status.unwrap().success());
        });
        let call = timed(|| {
            let result = host.run(argv(&["/bin/true"]));
            assert_eq!(result.exit().exit_code, Some(0));
        });
        let pong = timed(|| {
            let op = host.op();
            host.ask(&HostMessage::Ping { op });
        });
        // The first rounds warm caches.
        if round >= 20 {
            spawn.push(direct);
            through.push(call);
            ping.push(pong);
        }
    }
    for (name, times) in [("host spawn + wait", &mut spawn), ("through the guest", &mut through), ("ping", &mut ping)] {
        println!("{name:18} p50 {:.3} ms   p99 {:.3} ms", percentile(times, 50), percentile(times, 99));
    }
    println!("ratio of p50: {:.2}", percentile(&mut through, 50) / percentile(&mut spawn, 50));
}
