//! Two processes on one store. The other process is this test program itself, told through its input what to do.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use toolcell_model::{CallRef, CallState, FencingToken, UnixMillis};
use toolcell_state::{OwnerId, Recorded, SqliteStore, StateStore as _};
use toolcell_testkit::state::Sample;

const READY: &str = "READY ";

/// The other process: leaves a queued, a running and an ended call, and lives on until its input ends.
#[tokio::test]
#[ignore = "run by the other tests, in a process of its own"]
async fn worker() {
    let mut input = std::io::stdin().lock();
    let mut data_dir = String::new();
    // Without input, as when someone runs all ignored tests, there is nothing to do.
    if input.read_line(&mut data_dir).unwrap() == 0 {
        return;
    }
    let store = SqliteStore::open(Path::new(data_dir.trim_end())).unwrap();
    let mut refs = Vec::new();
    for id in ["queued", "running", "ended"] {
        let batch = Sample::default().one(id);
        refs.push(batch.calls[0].call_ref.clone());
        assert_eq!(store.record_batch(batch).await.unwrap(), [Recorded::Fresh]);
    }
    for call in &refs[1..] {
        assert!(store.claim_started(call, FencingToken(4), UnixMillis(2)).await.unwrap());
    }
    assert!(store.finish(&refs[2], Sample::end(CallState::Succeeded, 3)).await.unwrap());
    println!("{READY}{} {} {} {}", store.owner(), refs[0], refs[1], refs[2]);
    input.read_to_end(&mut Vec::new()).unwrap();
}

/// Killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(data_dir: &Path) -> (Process, OwnerId, [CallRef; 3]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "worker", "--ignored", "--nocapture"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    writeln!(process.0.stdin.as_mut().unwrap(), "{}", data_dir.display()).unwrap();
    let mut output = BufReader::new(process.0.stdout.take().unwrap());
    loop {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the other process ended early");
        if let Some((_, names)) = line.split_once(READY) {
            let mut names = names.split_whitespace();
            let owner = OwnerId::parse(names.next().unwrap()).unwrap();
            return (process, owner, [(); 3].map(|()| CallRef::parse(names.next().unwrap()).unwrap()));
        }
    }
}

#[tokio::test]
async fn calls_of_another_process_are_taken_over_once_it_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let (process, owner, [queued, running, ended]) = start(directory.path());
    assert_eq!(store.take_over_abandoned().await.unwrap(), []);
    assert_eq!(store.call(&running).await.unwrap().unwrap().owner, owner);
    // kill -9
    drop(process);
    let taken = store.take_over_abandoned().await.unwrap();
    let states: Vec<_> = taken.iter().map(|call| (&call.call_ref, call.state, call.token)).collect();
    assert_eq!(states, [(&queued, CallState::Queued, None), (&running, CallState::Running, Some(FencingToken(4)))]);
    assert!(taken.iter().all(|call| call.owner == *store.owner()));
    assert_eq!(store.call(&ended).await.unwrap().unwrap().state, CallState::Succeeded);
}

#[tokio::test]
async fn what_a_killed_process_wrote_is_there_when_nobody_else_had_it_open() {
    let directory = tempfile::tempdir().unwrap();
    let (process, owner, [queued, running, ended]) = start(directory.path());
    drop(process);
    let lock = directory.path().join("owners").join(format!("{owner}.lock"));
    assert!(lock.exists());
    let store = SqliteStore::open(directory.path()).unwrap();
    assert!(!lock.exists(), "files of dead owners are cleared away");
    for (call, state) in [(&queued, CallState::Queued), (&running, CallState::Running), (&ended, CallState::Succeeded)]
    {
        assert_eq!(store.call(call).await.unwrap().unwrap().state, state);
    }
    assert_eq!(store.take_over_abandoned().await.unwrap().len(), 2);
}
