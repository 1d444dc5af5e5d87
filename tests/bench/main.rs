//! How fast it is, as ratios measured in one run on one machine, of the release program:
//! `cargo build --release -p toolcell-cli && cargo run -p toolcell-tests --bin bench`.
//!
//! Starts the release server on a data directory of its own, and measures beside each other: a host's fork+exec, a
//! tool call over HTTP, `docker exec` by API and by command line; a cold slot and the create + start of the same
//! container by API; the first and the second snapshot of a workspace of 10 000 files. Bounded in count; removes what
//! it made.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measuring program stops at the first surprise, and speaks through its output"
)]

mod api;
mod server;

use api::Engine;
use serde_json::json;
use server::Server;
use std::process::Command;
use std::time::Instant;

const WARM_ROUNDS: usize = 1000;
const SHELL_ROUNDS: usize = 300;
const EXEC_API_ROUNDS: usize = 30;
const EXEC_CLI_ROUNDS: usize = 10;
const COLD_ROUNDS: usize = 15;

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let value = work();
    (start.elapsed().as_secs_f64() * 1000.0, value)
}

fn p50(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn spawn(program: &str, args: &[&str]) {
    assert!(Command::new(program).args(args).status().expect("spawn").success());
}

fn main() {
    let server = Server::start();
    let engine = Engine::connect();
    warm(&server, &engine);
    cold(&server, &engine);
    snapshots(&server);
    server.stop();
}

/// Interleaved, so that whatever disturbs the machine disturbs both.
fn warm(server: &Server, engine: &Engine) {
    let mut http = server.client();
    let input = json!({ "argv": ["/bin/true"] });
    for _ in 0..50 {
        http.call("warm", &input);
        spawn("/bin/true", &[]);
    }
    let (mut host, mut call, mut guest) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..WARM_ROUNDS {
        host.push(timed(|| spawn("/bin/true", &[])).0);
        let (millis, result) = timed(|| http.call("warm", &input));
        call.push(millis);
        guest.push(result.pointer("/timing_ms/run").and_then(serde_json::Value::as_f64).unwrap());
    }
    let (host, call, guest) = (p50(&mut host), p50(&mut call), p50(&mut guest));
    println!("host fork+exec of true            p50 {host:8.3} ms");
    println!(
        "execute true over HTTP            p50 {call:8.3} ms   {:5.2} x host (guest alone {:.2} x)",
        call / host,
        guest / host
    );

    let shell = json!({ "command": "true" });
    let (mut host_shell, mut call_shell) = (Vec::new(), Vec::new());
    for _ in 0..SHELL_ROUNDS {
        host_shell.push(timed(|| spawn("/bin/bash", &["--norc", "--noprofile", "-c", "true"])).0);
        call_shell.push(timed(|| http.call("warm", &shell)).0);
    }
    let (host_shell, call_shell) = (p50(&mut host_shell), p50(&mut call_shell));
    println!("host bash -c true                 p50 {host_shell:8.3} ms");
    println!("execute \"true\" by shell over HTTP p50 {call_shell:8.3} ms   {:5.2} x host", call_shell / host_shell);

    let container = server.container("warm");
    let mut by_api: Vec<f64> = (0..EXEC_API_ROUNDS).map(|_| timed(|| engine.exec_true(&container)).0).collect();
    let by_api = p50(&mut by_api);
    println!("docker exec true by API           p50 {by_api:8.3} ms   {:5.1} x a call", by_api / call);
    let exec_cli = ["exec", &container, "/bin/true"];
    let mut by_cli: Vec<f64> = (0..EXEC_CLI_ROUNDS).map(|_| timed(|| spawn("docker", &exec_cli)).0).collect();
    let by_cli = p50(&mut by_cli);
    println!("docker exec true by command line  p50 {by_cli:8.3} ms   {:5.1} x a call", by_cli / call);
}

fn cold(server: &Server, engine: &Engine) {
    let mut http = server.client();
    let input = json!({ "argv": ["/bin/true"] });
    let like = server.container("warm");
    let (mut plain, mut slot) = (Vec::new(), Vec::new());
    let name = |round: usize| format!("toolcell-bench-{}-{round}", std::process::id());
    for round in 0..COLD_ROUNDS {
        // In turn, so that neither always follows what the other leaves to clean up; containers go at the end.
        if round % 2 == 0 {
            plain.push(timed(|| engine.create_and_start_like(&like, &name(round))).0);
        }
        slot.push(timed(|| http.call(&format!("cold-{round}"), &input)).0);
        if round % 2 == 1 {
            plain.push(timed(|| engine.create_and_start_like(&like, &name(round))).0);
        }
    }
    (0..COLD_ROUNDS).for_each(|round| engine.remove(&name(round)));
    let (plain, slot) = (p50(&mut plain), p50(&mut slot));
    println!("docker create + start by API      p50 {plain:8.1} ms");
    println!("first call of a cold slot         p50 {slot:8.1} ms   {:5.2} x create + start", slot / plain);
}

fn snapshots(server: &Server) {
    let mut http = server.client();
    let fill = "import os\nfor i in range(10000):\n    os.makedirs(f'd{i // 100}', exist_ok=True)\n    open(f'd{i // 100}/f{i}', 'wb').write(os.urandom(4096))\n";
    let fill = json!({ "argv": ["python3", "-c", fill], "timeout_ms": 120_000 });
    http.call("files", &fill);
    let first = server.settled_store_bytes();
    http.call("files", &json!({ "command": "echo changed > d7/f700" }));
    let (millis, second) = timed(|| server.settled_store_bytes() - first);
    assert!(second > 0, "the changed file was not saved");
    println!(
        "10 000 files, first snapshot {first} bytes; one changed file writes {second} bytes: {:.3} % (settled after {:.0} ms)",
        100.0 * second as f64 / first as f64,
        millis
    );
}
