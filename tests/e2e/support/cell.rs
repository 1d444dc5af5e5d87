//! One test's world: a data directory, a configuration, a server.

use super::client::Client;
use super::disk::SmallDisk;
use super::docker::Docker;
use super::http::Target;
use super::leftovers::{leftovers, unmount_all};
use super::program::{Ended, command};
use super::server::Server;
use super::wait::{SHORT, skip_or_fail, wait_for};
use rustix::process::Signal;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex};
use tempfile::TempDir;

/// An agent that is never asked; the container is the only boundary.
const BYPASS: &str = "[agents.coder.permissions]\nmode = \"bypass\"\n";

/// Cells at once, however many processors there are: what is tested is the program, not the machine.
const MOST_CELLS: usize = 4;
static CELLS: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// One test's world. [`Cell::finish`] ends it.
#[derive(Debug)]
pub(crate) struct Cell {
    // Before the directory that it is mounted in: fields end in their order.
    disk: Option<SmallDisk>,
    directory: TempDir,
    pub(crate) docker: Docker,
    server: Option<(Server, Client)>,
    finished: bool,
    _turn: Turn,
}

#[derive(Debug)]
struct Turn;

impl Turn {
    fn wait() -> Self {
        let (count, free) = &CELLS;
        let mut count = free.wait_while(count.lock().unwrap(), |count| *count >= MOST_CELLS).unwrap();
        *count += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (count, free) = &CELLS;
        *count.lock().unwrap() -= 1;
        free.notify_one();
    }
}

impl Cell {
    /// A world with this configuration and no server. `None`: there is no engine, and the test is skipped.
    #[track_caller]
    pub(crate) fn new(config: &str) -> Option<Self> {
        let Some(docker) = Docker::connect() else {
            skip_or_fail("no Docker engine answers");
            return None;
        };
        let turn = Turn::wait();
        // Short, because a socket's path has a bound. A run that measures has a file system of its own.
        let parent = std::env::var("TOOLCELL_TEST_DIR").unwrap_or_else(|_| "/tmp".to_owned());
        let directory = tempfile::Builder::new().prefix("tc-").tempdir_in(parent).unwrap();
        let cell = Self { disk: None, directory, docker, server: None, finished: false, _turn: turn };
        cell.configure(config);
        Some(cell)
    }

    /// A world with this configuration and a running server.
    #[track_caller]
    pub(crate) fn start(config: &str) -> Option<Self> {
        let mut cell = Self::new(config)?;
        cell.serve();
        Some(cell)
    }

    /// A running server with one agent `coder` in mode `bypass`.
    #[track_caller]
    pub(crate) fn bypass() -> Option<Self> {
        Self::start(BYPASS)
    }

    /// Writes the configuration: what a test says, and where it says nothing, what every test has.
    pub(crate) fn configure(&self, config: &str) {
        let mut table: toml::Table = config.parse().unwrap_or_else(|error| panic!("{error}: {config}"));
        let data_dir = self.data_dir().display().to_string();
        table.entry("data_dir").or_insert(toml::Value::String(data_dir));
        for (section, key, value) in [("server", "listen", "127.0.0.1:0"), ("auth", "mode", "none")] {
            let section = table.entry(section).or_insert(toml::Value::Table(toml::Table::new()));
            let section = section.as_table_mut().expect("a section");
            section.entry(key).or_insert(toml::Value::String(value.to_owned()));
        }
        std::fs::write(self.config_file(), table.to_string()).unwrap();
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.directory().join("toolcell.toml")
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.directory().join("d")
    }

    /// Puts the data directory on a disk of this size. `false`: this machine does not let it.
    #[track_caller]
    pub(crate) fn mount(&mut self, size: &str) -> bool {
        self.disk = SmallDisk::mount(&self.data_dir(), size);
        self.disk.is_some()
    }

    #[track_caller]
    pub(crate) fn disk(&self) -> &SmallDisk {
        self.disk.as_ref().expect("a disk is mounted")
    }

    /// `toolcell --config … ARGUMENTS`
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command();
        command.arg("--config").arg(self.config_file()).args(arguments);
        command
    }

    /// Runs the command line to its end.
    pub(crate) fn toolcell(&self, arguments: &[&str]) -> Ended {
        self.command(arguments).output().expect("the program starts").into()
    }

    /// Starts the server, or says how it ended.
    pub(crate) fn try_serve(&mut self) -> Result<(), Ended> {
        let command = self.command(&["serve"]);
        self.try_serve_with(command)
    }

    /// Starts a server whose log tells what each snapshot and each restore did.
    #[track_caller]
    pub(crate) fn serve_telling(&mut self) {
        let mut command = self.command(&["serve"]);
        command.env("TOOLCELL_LOG", "info,toolcell_runtime=debug");
        self.try_serve_with(command).unwrap_or_else(|ended| panic!("the server did not start: {ended:?}"));
    }

    /// The host dies as far as this slot goes: the process, the container and the workspace's directory are gone, and
    /// only the store is left.
    #[track_caller]
    pub(crate) fn lose_all_but_the_store(&mut self) {
        if self.server.is_some() {
            self.kill();
        }
        for container in self.containers() {
            self.docker.remove(&container);
        }
        unmount_all(&self.data_dir());
        match std::fs::remove_dir_all(self.data_dir().join("slots")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("the slots stay: {error}"),
            Ok(()) | Err(_) => {}
        }
    }

    /// The server's process.
    #[track_caller]
    pub(crate) fn pid(&self) -> u32 {
        self.server.as_ref().expect("a server runs").0.pid()
    }

    /// As [`Cell::try_serve`], started in another way.
    pub(crate) fn try_serve_with(&mut self, command: Command) -> Result<(), Ended> {
        assert!(self.server.is_none(), "a server runs already");
        let server = Server::start(command)?;
        let client = Client { target: Target::Tcp(server.address) };
        self.server = Some((server, client));
        Ok(())
    }

    #[track_caller]
    pub(crate) fn serve(&mut self) {
        self.try_serve().unwrap_or_else(|ended| panic!("the server did not start: {ended:?}"));
    }

    #[track_caller]
    fn server_mut(&mut self) -> &mut Server {
        &mut self.server.as_mut().expect("a server runs").0
    }

    /// `http://127.0.0.1:PORT`
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.server.as_ref().expect("a server runs").0.address)
    }

    /// The server's log so far.
    pub(crate) fn log(&self) -> String {
        self.server.as_ref().map(|(server, _)| server.log()).unwrap_or_default()
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        self.server_mut().signal(signal);
    }

    /// `kill -9`, while others still talk to it.
    pub(crate) fn signal_kill(&self) {
        self.server.as_ref().expect("a server runs").0.signal(Signal::KILL);
    }

    /// Waits for the end of a server that was told to stop; it must be a clean one. Answers with its log.
    #[track_caller]
    pub(crate) fn stopped(&mut self) -> String {
        let ended = self.ended();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stderr
    }

    /// Waits for the end of a server that was told to stop.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Ended {
        let status = self.server_mut().wait();
        let log = self.log();
        self.server = None;
        Ended { code: status.code(), stdout: String::new(), stderr: log }
    }

    /// SIGTERM, and all that follows from it.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> String {
        self.signal(Signal::TERM);
        self.stopped()
    }

    /// `kill -9`
    #[track_caller]
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.server_mut().wait();
        self.server = None;
    }

    /// Containers of this data directory.
    pub(crate) fn containers(&self) -> Vec<String> {
        self.docker.containers_with(&self.data_dir())
    }

    /// The one container there is.
    #[track_caller]
    pub(crate) fn container(&self) -> String {
        let mut names = self.containers();
        assert_eq!(names.len(), 1, "{names:?}");
        names.remove(0)
    }

    /// The directory on this host that is `/workspace` in this slot.
    pub(crate) fn workspace(&self, slot: &str) -> PathBuf {
        let directory = self.data_dir().join("slots").join(slot);
        let disk = directory.join("disk");
        if disk.exists() { disk } else { directory }.join("root-2f776f726b7370616365")
    }

    /// Takes away every workspace's directory, mounted or not: what is left of them is in the snapshot store.
    pub(crate) fn lose_workspaces(&self) {
        unmount_all(&self.data_dir());
        std::fs::remove_dir_all(self.data_dir().join("slots")).unwrap();
    }

    /// Waits until a file of the one workspace is there.
    #[track_caller]
    pub(crate) fn wait_for_file(&self, name: &str) {
        let container = self.container();
        let path = self.workspace(container.rsplit('-').next().unwrap()).join(name);
        wait_for(&format!("{} is there", path.display()), SHORT, || {
            path.symlink_metadata().map(drop).map_err(|error| error.to_string())
        });
    }

    /// Stops the server if one runs and asserts that nothing is left.
    #[track_caller]
    pub(crate) fn finish(mut self) {
        self.finished = true;
        if self.server.is_some() {
            self.stop();
        }
        // A container that starts elsewhere holds a copy of every mount for a moment, and with it the loop device.
        wait_for("nothing is left behind", SHORT, || {
            let left = leftovers(&self.docker, &self.data_dir());
            if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
        });
    }
}

impl Deref for Cell {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.server.as_ref().expect("a server runs").1
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        if let Some((server, _)) = self.server.take() {
            eprintln!("the server's log:\n{}", server.log());
        }
        for name in self.docker.containers_with(&self.data_dir()) {
            self.docker.remove(&name);
        }
        // Before the directory goes.
        unmount_all(&self.data_dir().join("slots"));
        assert!(self.finished || std::thread::panicking(), "a test ends its cell with finish()");
    }
}
