//! A running `toolcell serve`.

use super::program::Ended;
use super::wait::{SHORT, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A server may save large workspaces when it is asked to stop.
const STOP: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts it and waits until it listens; one that ends instead is the error.
    pub(crate) fn start(mut command: Command) -> Result<Self, Ended> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let log = Arc::new(Mutex::new(String::new()));
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let collected = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut log = collected.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let text = || log.lock().unwrap().clone();
        let listening = wait_for("the server listens or ends", SHORT, || {
            if let Some(status) = child.try_wait().unwrap() {
                return Ok(Err(status));
            }
            address(&text()).map(Ok).ok_or_else(text)
        });
        match listening {
            Ok(address) => Ok(Self { child, address, log, reader: Some(reader) }),
            Err(status) => {
                reader.join().unwrap();
                let stderr = log.lock().unwrap().clone();
                Err(Ended { code: status.code(), stdout: String::new(), stderr })
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server is there");
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let log = &self.log;
        let status =
            wait_for("the server ends", STOP, || child.try_wait().unwrap().ok_or_else(|| log.lock().unwrap().clone()));
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        status
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Of a test that failed: nobody waits for it any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `… listening address=127.0.0.1:43597 docker=…`
fn address(log: &str) -> Option<SocketAddr> {
    let line = log.lines().find(|line| line.contains(" listening"))?;
    let field = line.split_whitespace().find_map(|word| word.strip_prefix("address="))?;
    field.parse().ok()
}
