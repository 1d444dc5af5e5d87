//! The program under test, built once.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The `toolcell` of this very tree, of the tests' own profile.
///
/// A test target cannot ask for a binary of another package; cargo holds no lock while tests run, so it can be asked
/// from here. After a build it has nothing to do.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // target/<profile>/deps/e2e-<hash>
        let test = std::env::current_exe().unwrap();
        let profile = test.ancestors().nth(2).expect("tests stand in target/<profile>/deps");
        let target = profile.parent().expect("tests stand in target/<profile>/deps");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "toolcell-cli", "--bin", "toolcell", "--target-dir"]).arg(target);
        match profile.file_name().and_then(OsStr::to_str) {
            Some("debug") | None => {}
            Some(name) => _ = cargo.args(["--profile", name]),
        }
        // What cargo tells a test about its own package would make build scripts that look at it run again.
        for (name, _) in std::env::vars_os() {
            if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|own| name.to_string_lossy().starts_with(own)) {
                cargo.env_remove(name);
            }
        }
        let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
        assert!(status.success(), "toolcell does not build");
        profile.join("toolcell")
    })
}

/// The program with nothing of this machine's configuration in its environment.
pub(crate) fn command() -> Command {
    let mut command = Command::new(program());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TOOLCELL_")) {
        command.env_remove(name);
    }
    command
}

/// How a command line ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None`: by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Ended {
    /// A failure speaks in lines: what, why, and perhaps a hint. Answers with them.
    #[track_caller]
    pub(crate) fn failure(&self, code: i32) -> (String, String, Option<String>) {
        assert_eq!(self.code, Some(code), "{self:?}");
        // Log lines come before; the failure is the last thing said.
        let lines: Vec<&str> = self.stderr.lines().collect();
        let first = lines.iter().rposition(|line| line.starts_with("toolcell: ")).unwrap_or_else(|| panic!("{self:?}"));
        let what = lines[first].trim_start_matches("toolcell: ").to_owned();
        let why = lines.get(first + 1).filter(|line| line.starts_with("  ")).unwrap_or_else(|| panic!("{self:?}"));
        let hint = lines.get(first + 2).map(|line| line.strip_prefix("hint: ").unwrap_or_else(|| panic!("{self:?}")));
        assert!(lines.len() <= first + 3, "{self:?}");
        (what, why.trim().to_owned(), hint.map(str::to_owned))
    }
}
