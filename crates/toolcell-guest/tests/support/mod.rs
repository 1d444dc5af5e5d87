//! A guest in namespaces of its own, and a small synchronous host for it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap is the test's failure")]
#![allow(clippy::print_stderr, reason = "a skipped test must be seen")]
#![allow(dead_code, reason = "each user of this module takes what it needs")]

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use toolcell_protocol::message::Op;
use toolcell_protocol::{
    Bytes, ExecSpec, ExitReport, FrameDecoder, GuestError, GuestMessage, Handshake, HostMessage, LiveCall, Program,
    Secret, Stdin, Stream, encode_frame,
};

/// The tool user of all tests.
pub(crate) const TOOL_UID: u32 = 1000;

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Whether guests can be started here: it takes root, and `unshare`. Where the tests must run, a missing one fails.
pub(crate) fn possible() -> bool {
    let able = Command::new("unshare")
        .args(["--pid", "--fork", "--mount", "--mount-proc", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    assert!(
        able || std::env::var_os("TOOLCELL_REQUIRE_DOCKER").is_none(),
        "these tests must run here, but namespaces cannot be made (root and unshare are needed)"
    );
    if !able {
        eprintln!("skipped: namespaces cannot be made (root and unshare are needed)");
    }
    able
}

/// How a guest is started.
pub(crate) struct Options {
    pub(crate) orphan_ttl_ms: u64,
    /// Shell text that runs in the namespaces before the guest.
    pub(crate) setup: String,
    pub(crate) uid: u32,
    /// Extra environment of PID 1.
    pub(crate) env: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { orphan_ttl_ms: 60_000, setup: "true".to_owned(), uid: TOOL_UID, env: Vec::new() }
    }
}

/// A running guest, and where its files are.
pub(crate) struct Guest {
    child: Option<Child>,
    listener: UnixListener,
    secret: Secret,
    pub(crate) directory: TempDir,
}

pub(crate) fn secret() -> Secret {
    Secret::from_bytes([0xA5; 32])
}

impl Guest {
    /// Starts one that dials `directory/guest.sock`; `directory/work` belongs to the tool user.
    pub(crate) fn start(binary: &Path, options: &Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let work = directory.path().join("work");
        std::fs::create_dir(&work).unwrap();
        std::os::unix::fs::chown(&work, Some(TOOL_UID), Some(TOOL_UID)).unwrap();
        let socket = directory.path().join("guest.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let script = format!("cd {} && {{ {}; }} && exec \"$@\"", directory.path().display(), options.setup);
        let child = Command::new("unshare")
            .args(["--pid", "--fork", "--mount", "--mount-proc", "--kill-child=KILL", "sh", "-c", &script, "sh"])
            .arg(binary.canonicalize().unwrap())
            .arg("--socket")
            .arg(&socket)
            .args(["--uid", &options.uid.to_string(), "--gid", "1000"])
            .args(["--orphan-ttl-ms", &options.orphan_ttl_ms.to_string(), "--fence-ttl-ms", "15000"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .env("TOOLCELL_GUEST_SECRET", "a5".repeat(32))
            .envs(options.env.iter().cloned())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child: Some(child), listener, secret: secret(), directory }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    /// Waits for the guest to dial, within `PATIENCE`.
    pub(crate) fn accept(&self) -> UnixStream {
        self.listener.set_nonblocking(true).unwrap();
        let stream = wait_for("the guest to dial", || match self.listener.accept() {
            Ok((stream, _)) => Some(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("accept: {error}"),
        });
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Waits for the guest to dial and proves the secret.
    pub(crate) fn host(&self) -> Host {
        Host::greet(self.accept(), &self.secret).expect("the handshake succeeds")
    }

    /// Process number of the guest, as this namespace sees it.
    pub(crate) fn pid(&self) -> i32 {
        let parent = self.child.as_ref().unwrap().id();
        wait_for("the guest to exist", || {
            children_of(i32::try_from(parent).unwrap()).first().copied().filter(|pid| {
                std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with("toolcell"))
            })
        })
    }

    /// Waits for the guest to end; its exit code, what it wrote to standard error, and how long that took.
    pub(crate) fn wait(&mut self) -> (i32, String) {
        let mut child = self.child.take().unwrap();
        let status = wait_for("the guest to end", || child.try_wait().unwrap());
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (status.code().unwrap_or(-1), text)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The namespaces end with their first process, which `--kill-child` takes along.
            let _ = child.kill();
            let status = child.wait();
            if std::thread::panicking() {
                let mut text = String::new();
                let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut text));
                eprintln!("the guest ended with {status:?} and said: {text}");
            }
        }
    }
}

/// Children of a process, by number.
pub(crate) fn children_of(parent: i32) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let ppid = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        if ppid == Some(parent) {
            found.push(pid);
        }
    }
    found.sort_unstable();
    found
}

/// Asks again until there is an answer.
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = SystemTime::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(SystemTime::now() < end, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The host's end of a connection that has been proven.
pub(crate) struct Host {
    pub(crate) stream: UnixStream,
    decoder: FrameDecoder,
    buffer: Vec<u8>,
    pub(crate) calls: Vec<LiveCall>,
    pub(crate) shell: Option<String>,
    pub(crate) next_op: Op,
    /// Acknowledge output as it comes.
    pub(crate) acknowledge: bool,
}

/// All that came of an operation.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) exit: Option<ExitReport>,
    pub(crate) error: Option<GuestError>,
}

impl Collected {
    pub(crate) fn exit(&self) -> &ExitReport {
        self.exit.as_ref().unwrap_or_else(|| panic!("no exit: {:?}", self.error))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// A frame's body from a stream on which nothing is trusted yet.
pub(crate) fn read_body(stream: &mut UnixStream, decoder: &mut FrameDecoder) -> std::io::Result<Vec<u8>> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(body) = decoder.next_body().map_err(std::io::Error::other)? {
            return Ok(body.to_vec());
        }
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        decoder.feed(&buffer[..read]);
    }
}

impl Host {
    /// The host's side of the handshake.
    pub(crate) fn greet(mut stream: UnixStream, secret: &Secret) -> std::io::Result<Self> {
        let mut decoder = FrameDecoder::new();
        let hello = read_body(&mut stream, &mut decoder)?;
        let mut out = Vec::new();
        let handshake = Handshake::answer(&hello, secret, "test", [7; 32], &mut out).map_err(std::io::Error::other)?;
        stream.write_all(&out)?;
        let proof = read_body(&mut stream, &mut decoder)?;
        handshake.verify(&proof).map_err(std::io::Error::other)?;
        decoder.trust();
        let mut host = Self {
            stream,
            decoder,
            buffer: vec![0; 256 * 1024],
            calls: Vec::new(),
            shell: None,
            next_op: 0,
            acknowledge: true,
        };
        match host.receive() {
            GuestMessage::Ready { calls, next_op, shell } => {
                host.calls = calls;
                host.next_op = next_op;
                host.shell = shell;
                Ok(host)
            }
            other => panic!("not ready: {other:?}"),
        }
    }

    pub(crate) fn op(&mut self) -> Op {
        self.next_op += 1;
        self.next_op
    }

    pub(crate) fn send(&mut self, message: &HostMessage) {
        let mut frame = Vec::new();
        encode_frame(message, &mut frame).unwrap();
        self.stream.write_all(&frame).unwrap();
    }

    /// Says something to a guest that may have ended after its last message.
    fn try_send(&mut self, message: &HostMessage) {
        let mut frame = Vec::new();
        encode_frame(message, &mut frame).unwrap();
        let _ = self.stream.write_all(&frame);
    }

    pub(crate) fn receive(&mut self) -> GuestMessage {
        self.try_receive().expect("a message within patience")
    }

    pub(crate) fn try_receive(&mut self) -> std::io::Result<GuestMessage> {
        loop {
            if let Some(message) = self.decoder.next_message().unwrap() {
                return Ok(message);
            }
            let read = self.stream.read(&mut self.buffer)?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.decoder.feed(&self.buffer[..read]);
        }
    }

    /// Starts a call; its output is to be collected.
    pub(crate) fn exec(&mut self, spec: ExecSpec) -> Op {
        let op = self.op();
        self.send(&HostMessage::Exec { op, call: format!("call-{op}"), spec });
        op
    }

    /// Collects a call's output until it ends. Messages of other operations must not come.
    pub(crate) fn collect(&mut self, op: Op) -> Collected {
        let mut result = Collected::default();
        loop {
            let message = self.receive();
            if self.add(&mut result, op, message) {
                return result;
            }
        }
    }

    /// Adds a message to a result; true when it was the last.
    pub(crate) fn add(&mut self, result: &mut Collected, op: Op, message: GuestMessage) -> bool {
        match message {
            GuestMessage::Output { op: of, stream, offset, data } if of == op => {
                let kept = if stream == Stream::Stdout { &mut result.stdout } else { &mut result.stderr };
                assert_eq!(offset, kept.len() as u64, "no byte is lost or comes twice");
                kept.extend_from_slice(&data);
                let offset = kept.len() as u64;
                if self.acknowledge {
                    self.try_send(&HostMessage::OutputAck { op, stream, offset });
                }
                false
            }
            GuestMessage::Exited { op: of, exit } if of == op => {
                assert_eq!(exit.stdout_bytes, result.stdout.len() as u64);
                assert_eq!(exit.stderr_bytes, result.stderr.len() as u64);
                result.exit = Some(exit);
                self.try_send(&HostMessage::Forget { op });
                true
            }
            GuestMessage::Failed { op: of, error } if of == op => {
                result.error = Some(error);
                true
            }
            other => panic!("unexpected: {other:?}"),
        }
    }

    /// Runs a call to its end.
    pub(crate) fn run(&mut self, spec: ExecSpec) -> Collected {
        let op = self.exec(spec);
        self.collect(op)
    }

    /// Sends a message and takes the one that answers it.
    pub(crate) fn ask(&mut self, message: &HostMessage) -> GuestMessage {
        self.send(message);
        self.receive()
    }
}

pub(crate) fn bytes(text: impl AsRef<[u8]>) -> Bytes {
    Bytes::from(text.as_ref().to_vec())
}

pub(crate) fn path_bytes(path: &Path) -> Bytes {
    bytes(path.as_os_str().as_encoded_bytes())
}

fn spec(program: Program) -> ExecSpec {
    ExecSpec {
        program,
        cwd: bytes("/"),
        env: vec![(bytes("PATH"), bytes("/usr/bin:/bin"))],
        stdin: Stdin::Closed,
        timeout_ms: 15_000,
        max_output_bytes: 64 * 1024 * 1024,
    }
}

pub(crate) fn argv(words: &[&str]) -> ExecSpec {
    spec(Program::Argv(words.iter().map(bytes).collect()))
}

pub(crate) fn shell(text: &str) -> ExecSpec {
    spec(Program::Shell(bytes(text)))
}
