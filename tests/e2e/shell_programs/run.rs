//! Runs programs in a sandbox and sees whether the marker ran.

use super::generator::{MARK, MARK_DIRECTORY, PUSH, Shell};
use crate::support::{Cell, expect_state};
use serde_json::json;
use std::path::PathBuf;

/// Longest a program may take, in seconds. One that takes longer is stopped; what it ran until then counts.
const PROGRAM_SECONDS: u32 = 5;
/// Longest that all programs may take, in milliseconds.
const ALL_MS: u64 = 300_000;

/// Runs each file of `programs/` with the shell that its name ends with, four at a time, each in a directory of its
/// own, and writes the names of those whose marker ran.
const DRIVER: &str = r#"
import os, signal, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

batch = sys.argv[1]
root = "/workspace/" + batch

def run(name):
    shell = name.rsplit(".", 1)[1]
    with open(f"{root}/programs/{name}", newline="") as file:
        text = file.read()
    directory = f"{root}/work/{name}"
    os.makedirs(directory)
    argv = ["bash", "--norc", "--noprofile", "-c", text] if shell == "bash" else ["sh", "-c", text]
    env = dict(os.environ, PATH="MARK_DIRECTORY:/usr/bin:/bin", PROGRAM=f"{root}/ran/{name}")
    process = subprocess.Popen(argv, cwd=directory, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(PROGRAM_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()

os.makedirs(f"{root}/ran")
with ThreadPoolExecutor(4) as pool:
    list(pool.map(run, sorted(os.listdir(f"{root}/programs"))))
"#;

/// The marker: leaves a file that is named like the program.
const MARKER: &str = "#!/bin/sh\n[ \"$1\" = PUSH ] && : > \"$PROGRAM\"\nexit 0\n";

/// Where programs run.
pub(super) struct Runner<'a> {
    cell: &'a Cell,
    workspace: PathBuf,
    batches: usize,
}

impl<'a> Runner<'a> {
    pub(super) fn new(cell: &'a Cell) -> Self {
        cell.output_of("alice", "true");
        let container = cell.container();
        let workspace = cell.workspace(container.rsplit('-').next().unwrap());
        let runner = Self { cell, workspace, batches: 0 };
        let driver = DRIVER.replace("MARK_DIRECTORY", MARK_DIRECTORY);
        runner.write("driver.py", &driver.replace("PROGRAM_SECONDS", &PROGRAM_SECONDS.to_string()));
        cell.output_of("alice", &format!("mkdir {MARK_DIRECTORY}"));
        runner.write(&format!("bin/{MARK}"), &MARKER.replace("PUSH", PUSH));
        cell.output_of("alice", &format!("chmod +x {MARK_DIRECTORY}/{MARK}"));
        runner
    }

    fn write(&self, path: &str, content: &str) {
        let input = json!({ "path": format!("/workspace/{path}"), "content": content });
        expect_state(&self.cell.call("alice", "write_file", &input), "succeeded");
    }

    /// Whether the marker ran, of each program.
    pub(super) fn ran(&mut self, programs: &[(Shell, String)]) -> Vec<bool> {
        let batch = format!("batch{}", self.batches);
        self.batches += 1;
        self.cell.output_of("alice", &format!("mkdir -p {batch}/programs"));
        let name =
            |number: usize, shell: Shell| format!("{number:05}.{}", if shell == Shell::Bash { "bash" } else { "sh" });
        for (number, (shell, text)) in programs.iter().enumerate() {
            // The workspace is a directory of this machine: thousands of calls would only take longer.
            std::fs::write(self.workspace.join(&batch).join("programs").join(name(number, *shell)), text).unwrap();
        }
        let command = format!("python3 driver.py {batch} && ls {batch}/ran > {batch}/list");
        let done = self.cell.call("alice", "execute", &json!({ "command": command, "timeout_ms": ALL_MS }));
        expect_state(&done, "succeeded");
        let list = std::fs::read_to_string(self.workspace.join(&batch).join("list")).unwrap();
        let ran: std::collections::BTreeSet<&str> = list.lines().collect();
        programs.iter().enumerate().map(|(number, (shell, _))| ran.contains(name(number, *shell).as_str())).collect()
    }
}
