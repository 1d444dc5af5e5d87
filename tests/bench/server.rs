//! The release server on a data directory of its own, and a client that keeps its connection.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Server {
    child: Child,
    address: String,
    directory: tempfile::TempDir,
}

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Server {
    /// Waits until it listens.
    pub(crate) fn start() -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/toolcell");
        assert!(program.exists(), "build it first: cargo build --release -p toolcell-cli");
        let directory = tempfile::Builder::new().prefix("tcbench").tempdir().expect("a directory");
        let config = directory.path().join("toolcell.toml");
        let text = format!(
            "data_dir = {:?}\n[server]\nlisten = \"127.0.0.1:0\"\n[auth]\nmode = \"none\"\n[snapshots]\nmax_lag_ms = 200\n\
             [agents.coder.permissions]\nmode = \"bypass\"\n",
            directory.path().join("data")
        );
        std::fs::write(&config, text).expect("configuration");
        let mut command = Command::new(program);
        command.args(["serve", "--log-json", "--config"]).arg(&config).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn().expect("the server");
        let mut log = BufReader::new(child.stderr.take().expect("its log"));
        let address = loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).expect("its log") > 0, "the server ended");
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(address) = event.pointer("/fields/address").and_then(Value::as_str) {
                break address.to_owned();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, address, directory }
    }

    pub(crate) fn client(&self) -> Client {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Client { stream: BufReader::new(stream) }
    }

    /// The container of a user that has made a call.
    pub(crate) fn container(&self, user: &str) -> String {
        let result = self.client().call(user, &json!({ "argv": ["/bin/true"] }));
        let key = result.pointer("/slot/key").and_then(Value::as_str).expect("a slot").to_owned();
        let filter = format!("label=toolcell.slot={key}");
        let listed = Command::new("docker").args(["ps", "--format", "{{.Names}}", "--filter", &filter]).output();
        String::from_utf8(listed.expect("docker ps").stdout).expect("names").trim().to_owned()
    }

    /// Bytes of the snapshot store once they have not changed for a second.
    pub(crate) fn settled_store_bytes(&self) -> u64 {
        let store = self.directory.path().join("data/snapshots");
        let (mut last, mut since) = (bytes_below(&store), Instant::now());
        let deadline = Instant::now() + Duration::from_secs(60);
        while since.elapsed() < Duration::from_millis(1000) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
            let now = bytes_below(&store);
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        last
    }

    /// SIGTERM: the server saves, removes its containers and ends.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("SIGTERM");
        assert!(self.child.wait().expect("its end").success());
    }
}

fn bytes_below(directory: &PathBuf) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

impl Client {
    /// One `execute`, which must succeed.
    pub(crate) fn call(&mut self, user: &str, input: &Value) -> Value {
        let body = json!({
            "context": { "agent": "coder", "user": user },
            "calls": [{ "tool": "execute", "input": input }],
        })
        .to_string();
        let request = format!(
            "POST /v1/calls HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).expect("a request");
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("an answer");
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            if line.is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).expect("an answer");
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        let result = answer.pointer("/results/0").cloned().unwrap_or_default();
        assert_eq!(result.get("state").and_then(Value::as_str), Some("succeeded"), "{answer}");
        result
    }
}
