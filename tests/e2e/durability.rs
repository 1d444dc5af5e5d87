//! Hosts that die at any moment: what was acknowledged as durable is in the store, and with `lazy` no more is lost than
//! the window that is promised.

use crate::support::{Cell, Told, expect_state};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// With `lazy`, a change is saved within this.
const LAG: Duration = Duration::from_millis(400);
/// Beyond the lag and the snapshot itself: what a busy machine takes to wake a task, and to carry an answer.
const SLACK: Duration = Duration::from_millis(600);
/// Clients that write at the same time.
const CLIENTS: usize = 2;
/// A server is killed within this time after its start; a cold start takes some 300 ms of it.
const LONGEST_LIFE_MS: u64 = 1600;

/// What dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    Server,
    Container,
    /// Everything on the machine; another one comes up with the snapshot store alone.
    Host,
}

/// A number that is the same in every run.
fn random(seed: u64, round: u64) -> u64 {
    let bytes = toolcell_testkit::snapshot::noise(seed ^ (round << 32), 8);
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// A change that was answered.
#[derive(Debug)]
struct Answered {
    mark: String,
    at: Instant,
    durable: bool,
}

/// Writes marks until the server is gone, or enough has been seen.
fn write_marks(cell: &Cell, round: u64, client: usize, answered: &Mutex<Vec<Answered>>, ended: &AtomicBool) {
    let http = (**cell).clone();
    for number in 0.. {
        if ended.load(Ordering::SeqCst) {
            return;
        }
        let mark = format!("{round}-{client}-{number}");
        let command = format!("echo {mark} >> marks-{client}");
        let call = json!([{ "tool": "execute", "input": { "command": command } }]);
        let body = json!({ "context": { "agent": "coder", "user": "alice" }, "calls": call });
        let Ok(answer) = http.try_post("/v1/calls", &body) else { return };
        let result = answer.json()["results"][0].clone();
        if result["state"] != "succeeded" {
            // The container is gone under it, or the server is about to be.
            continue;
        }
        let durable = result["slot"]["durable"] == true;
        answered.lock().unwrap().push(Answered { mark, at: Instant::now(), durable });
    }
}

/// Everything but the store and its secret is gone.
fn lose_the_host(cell: &mut Cell) {
    cell.lose_all_but_the_store();
    for entry in std::fs::read_dir(cell.data_dir()).unwrap() {
        let entry = entry.unwrap();
        match entry.file_name().to_str() {
            Some("snapshots" | "id_secret") => {}
            _ if entry.file_type().unwrap().is_dir() => std::fs::remove_dir_all(entry.path()).unwrap(),
            _ => std::fs::remove_file(entry.path()).unwrap(),
        }
    }
}

fn marks_in(cell: &Cell) -> BTreeSet<String> {
    let result = cell.shell("alice", "true");
    expect_state(&result, "succeeded");
    let workspace = cell.workspace(result["slot"]["key"].as_str().unwrap());
    let files =
        (0..CLIENTS).filter_map(|client| std::fs::read_to_string(workspace.join(format!("marks-{client}"))).ok());
    files.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Kills again and again while calls are answered, and looks each time at what is there afterwards.
fn kills(durability: &str, rounds: u64, seed: u64) {
    let config = format!(
        "[snapshots]\ndurability = \"{durability}\"\nmax_lag_ms = {}\n[agents.coder.permissions]\nmode = \"bypass\"\n",
        LAG.as_millis()
    );
    let Some(mut cell) = Cell::new(&config) else { return };
    cell.serve_telling();
    let mut kept: BTreeSet<String> = BTreeSet::new();
    let mut windows: Vec<Duration> = Vec::new();
    let (mut acknowledged, mut lost_marks) = (0, 0);
    for round in 0..rounds {
        let death = [Death::Host, Death::Server, Death::Host, Death::Container][(round % 4) as usize];
        let after = random(seed, round) % LONGEST_LIFE_MS;
        let context = format!("{durability}, seed {seed}, round {round}: {death:?} after {after} ms");
        let answered = Mutex::new(Vec::new());
        let mut died = Instant::now();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (answered, ended, of) = (&answered, &ended, &cell);
            for client in 0..CLIENTS {
                scope.spawn(move || write_marks(of, round, client, answered, ended));
            }
            std::thread::sleep(Duration::from_millis(after));
            died = Instant::now();
            match death {
                Death::Server | Death::Host => of.signal_kill(),
                Death::Container => of.containers().iter().for_each(|name| of.docker.remove(name)),
            }
            ended.store(true, Ordering::SeqCst);
        });
        let slowest = slowest_save(&cell.log());
        match death {
            Death::Container => {}
            Death::Server => cell.kill(),
            Death::Host => lose_the_host(&mut cell),
        }
        if death != Death::Container {
            cell.serve_telling();
        }
        let there = marks_in(&cell);
        let before: Vec<_> = kept.difference(&there).collect();
        assert!(before.is_empty(), "{context}: of earlier rounds {before:?} are gone");
        let answered = answered.into_inner().unwrap();
        acknowledged += answered.len();
        let lost: Vec<_> = answered.iter().filter(|answer| !there.contains(&answer.mark)).collect();
        lost_marks += lost.len();
        for answer in &lost {
            assert!(!answer.durable, "{context}: {answer:?} was acknowledged as durable and is gone");
        }
        assert!(death == Death::Host || lost.is_empty(), "{context}: the workspace was there, and {lost:?} is gone");
        let window = lost.iter().map(|answer| died.saturating_duration_since(answer.at)).max().unwrap_or_default();
        if death == Death::Host {
            windows.push(window);
        }
        if durability == "lazy" {
            let most = LAG + slowest + SLACK;
            assert!(window <= most, "{context}: lost {window:?}; the lag and the snapshot are {most:?}");
        }
        kept = there;
    }
    windows.sort_unstable();
    let at = |part: usize| windows.get((windows.len().saturating_sub(1)) * part / 100).copied().unwrap_or_default();
    eprintln!(
        "figure: durability {durability:<5} {rounds} kills, {acknowledged} calls acknowledged, {lost_marks} lost; loss window of \
         a dead host: p50 {:?}, p90 {:?}, most {:?}",
        at(50),
        at(90),
        at(100)
    );
    assert!(acknowledged as u64 >= rounds, "hardly anything was acknowledged: {acknowledged}");
    cell.finish();
}

/// The longest snapshot that a log tells of.
fn slowest_save(log: &str) -> Duration {
    let saves = log.lines().filter(|line| line.contains("DEBUG saved slot="));
    saves
        .map(|line| Duration::from_micros(Told::last(line, "DEBUG saved slot=").number("duration_us")))
        .max()
        .unwrap_or_default()
}

#[test]
fn with_durability_call_nothing_acknowledged_is_lost_when_the_host_dies() {
    kills("call", 6, 1);
}

#[test]
fn with_durability_lazy_no_more_is_lost_than_the_window() {
    kills("lazy", 6, 2);
}

#[test]
#[ignore = "200 kills: scripts/soak runs it"]
fn soak_200_kills_with_durability_call() {
    kills("call", 200, 3);
}

#[test]
#[ignore = "100 kills: scripts/soak runs it"]
fn soak_100_kills_with_durability_lazy() {
    kills("lazy", 100, 4);
}

#[test]
#[ignore = "40 kills: scripts/soak runs it"]
fn soak_40_kills_with_durability_stop() {
    kills("stop", 40, 5);
}
