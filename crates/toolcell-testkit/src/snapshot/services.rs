//! Real servers for tests.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// A server that a test needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Service {
    Redis,
    Postgres,
    S3,
}

impl Service {
    const ALL: [Self; 3] = [Self::Redis, Self::Postgres, Self::S3];

    /// Its name for `scripts/lib/services`.
    const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::S3 => "s3",
        }
    }

    /// The variables that say where it is, as `scripts/lib/services start` prints them.
    const fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Redis => &["TOOLCELL_TEST_REDIS_URL"],
            Self::Postgres => &["TOOLCELL_TEST_POSTGRES_URL"],
            Self::S3 => &[
                "TOOLCELL_TEST_S3_ENDPOINT",
                "TOOLCELL_TEST_S3_BUCKET",
                "TOOLCELL_TEST_S3_ACCESS_KEY",
                "TOOLCELL_TEST_S3_SECRET_KEY",
            ],
        }
    }
}

/// The variables that a server has said, or why there is none.
type Started = Result<HashMap<String, String>, String>;

/// Started by this process: what they said, and the shell that stops them when this process is gone.
static STARTED: Mutex<Option<HashMap<Service, Started>>> = Mutex::new(None);
static KEEPERS: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Starts a server, says where it is, and stops it at the end of its input: when the process that started it is gone,
/// in whatever way. An interrupt is for that process; this shell has to live on for the cleaning up.
const KEEPER: &str = r#"trap '' INT TERM HUP
directory=$(mktemp -d) || exit 1
"$1" start "$directory" "$2" 2>"$directory.log" && echo ready || echo failed
cat >/dev/null
"$1" stop "$directory" 2>/dev/null
rm -rf "$directory" "$directory.log""#;

/// The value of one of the variables that `scripts/lib/services start` gives. The environment says it (`scripts/test`
/// starts all servers), or else a server is started for this process if its program is installed.
///
/// `None`, after a printed line, means that the test is skipped.
///
/// # Panics
/// Instead of a skip, if `CI` or `TOOLCELL_REQUIRE_SERVICES` is set.
#[must_use]
#[allow(clippy::print_stderr, reason = "a skipped test must be seen")]
pub fn service(variable: &str) -> Option<String> {
    if let Some(value) = std::env::var_os(variable) {
        return Some(value.to_string_lossy().into_owned());
    }
    let service = Service::ALL.into_iter().find(|service| service.variables().contains(&variable));
    let service = service.expect("a variable that scripts/lib/services gives");
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = started.get_or_insert_default().entry(service).or_insert_with(|| start(service));
    match known {
        Ok(values) => values.get(variable).cloned(),
        Err(why) => {
            let counts = ["CI", "TOOLCELL_REQUIRE_SERVICES"].into_iter().find(|name| std::env::var_os(name).is_some());
            assert!(counts.is_none(), "{why}, and {} is set", counts.unwrap_or_default());
            eprintln!("skipped: {why}");
            None
        }
    }
}

fn start(service: Service) -> Started {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/lib/services");
    let mut shell = Command::new("bash");
    shell.args(["-c", KEEPER, "keeper"]).arg(&script).arg(service.name());
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |what: &str| format!("there is no {} server: {what} (scripts/lib/services install)", service.name());
    let mut keeper = shell.spawn().map_err(|error| failed(&error.to_string()))?;
    let mut values = HashMap::new();
    let output = keeper.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let ready = loop {
        match lines.next().as_deref() {
            None | Some("failed") => break false,
            Some("ready") => break true,
            Some(line) => {
                if let Some((name, value)) = line.strip_prefix("export ").and_then(|line| line.split_once('=')) {
                    values.insert(name.to_owned(), value.to_owned());
                }
            }
        }
    };
    // Its input stays open, and with it the server running, for as long as this process lives.
    KEEPERS.lock().unwrap_or_else(PoisonError::into_inner).push(keeper);
    let complete = ready && service.variables().iter().all(|name| values.contains_key(*name));
    if complete { Ok(values) } else { Err(failed("it is not installed, or does not start")) }
}
