//! Two processes on one data directory. The other process is this test program itself, told through its input what
//! to do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use toolcell_lease::{ExecutionGuard as _, LeaseError, LocalGuard};
use toolcell_model::{Acquisition, FencingToken, ScopeKey, SystemClock};

const NO_FLOOR: FencingToken = FencingToken(0);
const LONG: Duration = Duration::from_secs(30);
const HELD: &str = "HELD ";

fn open(data_dir: &Path) -> LocalGuard {
    LocalGuard::open(data_dir, Arc::new(SystemClock)).unwrap()
}

/// The other process: holds the slot that its input names until its input ends, then releases it.
#[tokio::test]
#[ignore = "run by the other tests, in a process of its own"]
async fn holder() {
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    // Without input, as when someone runs all ignored tests, there is nothing to hold.
    if input.read_line(&mut line).unwrap() == 0 {
        return;
    }
    let (key, data_dir) = line.trim_end().split_once(' ').unwrap();
    let lease = open(Path::new(data_dir)).acquire(&ScopeKey::parse(key).unwrap(), NO_FLOOR, LONG).await.unwrap();
    println!("{HELD}{} {}", lease.token(), lease.acquisition());
    input.read_to_end(&mut Vec::new()).unwrap();
    lease.release().await.unwrap();
}

/// Ends with the test, however that ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

struct Holder {
    process: Process,
    output: BufReader<ChildStdout>,
    token: FencingToken,
    acquisition: Acquisition,
}

impl Holder {
    /// Returns once the other process holds the slot.
    fn start(data_dir: &Path, key: &ScopeKey) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "holder", "--ignored", "--nocapture"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        writeln!(process.0.stdin.as_mut().unwrap(), "{key} {}", data_dir.display()).unwrap();
        let mut output = BufReader::new(process.0.stdout.take().unwrap());
        loop {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the other process ended without the slot");
            if let Some((_, held)) = line.split_once(HELD) {
                let (token, acquisition) = held.trim_end().split_once(' ').unwrap();
                let (token, acquisition) = (token.parse().unwrap(), Acquisition::parse(acquisition).unwrap());
                return Self { process, output, token: FencingToken(token), acquisition };
            }
        }
    }

    /// Lets it release and end.
    fn finish(mut self) {
        drop(self.process.0.stdin.take());
        self.output.read_to_end(&mut Vec::new()).unwrap();
        assert!(self.process.0.wait().unwrap().success());
    }

    /// `kill -9`
    fn kill(self) {
        drop(self.process);
    }
}

#[tokio::test]
async fn another_process_excludes_and_is_named() {
    let (directory, key) = (tempfile::tempdir().unwrap(), ScopeKey::ephemeral().unwrap());
    let guard = open(directory.path());
    let other = Holder::start(directory.path(), &key);
    let error = guard.acquire(&key, NO_FLOOR, Duration::from_millis(100)).await.unwrap_err();
    let LeaseError::Busy { holder: Some(holder), .. } = error else { panic!("{error:?}") };
    assert_eq!((holder.pid, holder.token), (other.process.0.id(), other.token));
    assert_eq!(guard.holder(&key).await.unwrap(), Some(holder));
    other.finish();
    assert_eq!(guard.holder(&key).await.unwrap(), None);
}

#[tokio::test]
async fn a_waiter_gets_what_another_process_releases() {
    let (directory, key) = (tempfile::tempdir().unwrap(), ScopeKey::ephemeral().unwrap());
    let guard = open(directory.path());
    let other = Holder::start(directory.path(), &key);
    let token = other.token;
    let finished = tokio::task::spawn_blocking(move || other.finish());
    let lease = guard.acquire(&key, NO_FLOOR, LONG).await.unwrap();
    finished.await.unwrap();
    assert!(lease.token() > token);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_killed_holder_frees_the_slot_and_the_token_grows() {
    let (directory, key) = (tempfile::tempdir().unwrap(), ScopeKey::ephemeral().unwrap());
    let guard = open(directory.path());
    let mut last = NO_FLOOR;
    for _ in 0..3 {
        let other = Holder::start(directory.path(), &key);
        assert!(other.token > last);
        last = other.token;
        other.kill();
        let lease = guard.acquire(&key, NO_FLOOR, Duration::ZERO).await.unwrap();
        assert!(lease.token() > last);
        last = lease.token();
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_killed_holder_can_be_resumed_until_someone_acquires() {
    let (directory, key) = (tempfile::tempdir().unwrap(), ScopeKey::ephemeral().unwrap());
    let guard = open(directory.path());
    let other = Holder::start(directory.path(), &key);
    let (token, acquisition) = (other.token, other.acquisition);
    assert!(matches!(guard.resume(&key, token, acquisition).await, Err(LeaseError::Busy { .. })));
    other.kill();
    drop(guard.resume(&key, token, acquisition).await.unwrap());
    Holder::start(directory.path(), &key).finish();
    let error = guard.resume(&key, token, acquisition).await.unwrap_err();
    assert!(matches!(error, LeaseError::Superseded { .. }), "{error:?}");
}
