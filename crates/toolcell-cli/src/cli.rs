//! Arguments.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Sandboxed tool execution for AI agents.
#[derive(Debug, Parser)]
#[command(name = "toolcell", version, about, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which configuration.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Configuration file [default: ~/.config/toolcell/toolcell.toml if it exists]
    #[arg(long, global = true, value_name = "FILE", env = "TOOLCELL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

const RUN_EXIT_CODES: &str = "Exit codes: the command's own; 124 stopped at its deadline, 125 toolcell failed, 126 denied, \
127 no such command, 130 stopped by ^C, 75 it asks (only with --server, where nobody has answered).";
const CALL_EXIT_CODES: &str = "Exit codes: 0 succeeded, 1 failed or cancelled, 75 asking, 124 stopped at its deadline, 125 \
invalid or toolcell failed, 126 denied.";

const RULES_TEST_HELP: &str = r#"A case is {"id"?, "note"?, "mode", "read_only"?, "working_directories"?,
"rules": {"allow": [], "ask": [], "deny": []}, "call": {"tool", "input"}, "real_paths"?, "expect"?: {"behavior", "stage"?}}
on one line. For each the answer {"case", "id", "behavior", "stage", "rule", "ok"} is printed.
Exit codes: 0 all hold, 1 one does not, 125 a line is no case."#;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the HTTP API
    Serve(ServeArgs),
    /// Run a command of your own in a sandbox: typing it answers an ASK
    #[command(after_help = RUN_EXIT_CODES)]
    Run(RunArgs),
    /// Make an agent's tool call
    #[command(after_help = CALL_EXIT_CODES)]
    Call(CallArgs),
    /// Say what would become of a call, and why; nothing runs
    Explain(ExplainArgs),
    /// Permission rules
    Rules(RulesArgs),
    /// Workspaces: which there are and where, stop or delete one
    Slots(SlotsArgs),
    /// Snapshots of a workspace: history, going back, copies, archives
    Snapshots(SnapshotsArgs),
    /// Sandbox images
    Image(ImageArgs),
    /// The configuration
    Config(ConfigCommandArgs),
    /// Look at the engine, the data directory, the workspace limit and the snapshot store
    #[command(after_help = "Exit codes: 0 all is well, 1 something is broken.")]
    Doctor(DoctorArgs),
    /// Print the version
    Version,
}

/// `serve`
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Write logs as JSON lines
    #[arg(long)]
    pub(crate) log_json: bool,
}

/// Who does it.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// A server's address, such as http://127.0.0.1:7070 [default: the server of this data directory, else no server]
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The key for --server [default: the data directory's admin key]
    #[arg(long, value_name = "KEY", env = "TOOLCELL_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
}

/// Who a call is for, and who does it.
#[derive(Debug, Args)]
pub(crate) struct ContextArgs {
    /// The agent
    #[arg(long, default_value = "default")]
    pub(crate) agent: String,
    /// The person
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// The conversation
    #[arg(long)]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `run`
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) context: ContextArgs,
    /// Stop the command after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// Give the command this program's standard input, up to 16 MiB of UTF-8
    #[arg(short = 'i', long)]
    pub(crate) stdin: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// A call of a tool.
#[derive(Debug, Args)]
pub(crate) struct ToolArgs {
    #[command(flatten)]
    pub(crate) context: ContextArgs,
    /// The tool's name
    pub(crate) tool: String,
    /// The tool's input as JSON, or `-` to read it from standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) input: String,
}

/// `call`
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    #[command(flatten)]
    pub(crate) call: ToolArgs,
    /// An idempotency key: the same id with the same input returns the recorded result
    #[arg(long)]
    pub(crate) id: Option<String>,
}

/// `explain`
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) call: ToolArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `rules`
#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    pub(crate) command: RulesCommand,
}

/// What to do with rules.
#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Decide recorded cases, each by its own rules, and say which do not come out as expected
    #[command(after_help = RULES_TEST_HELP)]
    Test {
        /// JSON lines, or `-` for standard input
        file: PathBuf,
    },
}

/// `image`
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    pub(crate) command: ImageCommand,
}

/// What to do with images.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Build a sandbox image; does nothing if it is there and current
    Build {
        /// Which image
        #[arg(default_value = "base")]
        image: ImageName,
    },
}

/// The images that this program knows how to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImageName {
    /// toolcell/base: Debian slim with python, git, ripgrep, curl
    Base,
    /// toolcell/node: base with nodejs and npm
    Node,
}

/// `doctor`
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `config`
#[derive(Debug, Args)]
pub(crate) struct ConfigCommandArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read the file and the environment and say what is wrong with them
    Check,
}

/// Which slot.
#[derive(Debug, Args)]
pub(crate) struct WhichArgs {
    /// The slot by its key (`s1…`), else by --agent and the rest; the snapshot by its id (`snap_…`)
    #[arg(value_name = "SLOT|SNAPSHOT")]
    pub(crate) names: Vec<String>,
    /// The slot that calls of this agent use
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// For this person
    #[arg(long, requires = "agent")]
    pub(crate) user: Option<String>,
    /// In this conversation
    #[arg(long, requires = "agent")]
    pub(crate) session: Option<String>,
    /// session, user, agent or global [default: the agent's]
    #[arg(long, requires = "agent")]
    pub(crate) scope: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `slots`
#[derive(Debug, Args)]
pub(crate) struct SlotsArgs {
    #[command(subcommand)]
    pub(crate) command: SlotsCommand,
}

/// What to do with slots.
#[derive(Debug, Subcommand)]
pub(crate) enum SlotsCommand {
    /// All slots, or the one of an agent and a user or session
    List(WhichArgs),
    /// One slot
    Show(WhichArgs),
    /// Save a slot and remove its container; the next call starts a new one
    Stop(WhichArgs),
    /// Delete a slot with everything that was saved of it
    Delete(WhichArgs),
}

/// `snapshots`
#[derive(Debug, Args)]
pub(crate) struct SnapshotsArgs {
    #[command(subcommand)]
    pub(crate) command: SnapshotsCommand,
}

/// What to do with snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotsCommand {
    /// A slot's history, newest first
    List(WhichArgs),
    /// One snapshot; the newest without an id
    Show(WhichArgs),
    /// Save a slot now
    Take(WhichArgs),
    /// Make an older snapshot the newest: the next call starts from it
    Restore(WhichArgs),
    /// Copy a slot to one that has never been used; nothing is copied but the head
    Fork(ForkArgs),
    /// Write a slot's files as a tar archive
    Export(ExportArgs),
    /// Replace a slot's files by those of a tar archive
    Import(ImportArgs),
    /// Remove snapshots beyond what [snapshots] keeps, and what nothing needs any more
    Gc(WhichArgs),
    /// Read everything of a snapshot and say what is missing or damaged
    #[command(after_help = "Exit codes: 0 it is whole, 1 it is damaged, 125 toolcell failed.")]
    Verify(WhichArgs),
}

/// `snapshots fork`
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,
    /// The agent of the copy
    #[arg(long)]
    pub(crate) to_agent: String,
    /// The person of the copy
    #[arg(long)]
    pub(crate) to_user: Option<String>,
    /// The conversation of the copy
    #[arg(long)]
    pub(crate) to_session: Option<String>,
    /// session, user, agent or global [default: the agent's]
    #[arg(long)]
    pub(crate) to_scope: Option<String>,
}

/// `snapshots export`
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,
    /// The archive, compressed if its name ends in .zst; `-` is standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    pub(crate) force: bool,
}

/// `snapshots import`
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,
    /// The archive, compressed if its name ends in .zst; `-` is standard input
    #[arg(long, short = 'i', value_name = "FILE")]
    pub(crate) input: PathBuf,
}
