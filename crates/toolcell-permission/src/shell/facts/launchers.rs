//! Programs that run what no rule sees.

use crate::shell::script::{Cwd, Word};

/// Always, sorted. A trailing version is taken away from a name before it is looked up.
const LAUNCHERS: &[&str] = &[
    "R",
    "Rscript",
    "ansible",
    "ansible-playbook",
    "ant",
    "ash",
    "at",
    "awk",
    "bash",
    "batch",
    "bazel",
    "bc",
    "bun",
    "bunx",
    "busybox",
    "capsh",
    "chroot",
    "chrt",
    "composer",
    "corepack",
    "crontab",
    "csh",
    "dash",
    "dc",
    "deno",
    "direnv",
    "dmypy",
    "dotenv",
    "ed",
    "elixir",
    "emacs",
    "emacsclient",
    "entr",
    "erl",
    "ex",
    "expect",
    "fakeroot",
    "fish",
    "flock",
    "foreman",
    "gawk",
    "gdb",
    "ghci",
    "gradle",
    "gradlew",
    "gvim",
    "hexedit",
    "iex",
    "invoke",
    "ionice",
    "irb",
    "java",
    "jest",
    "joe",
    "jshell",
    "julia",
    "just",
    "kak",
    "ksh",
    "less",
    "lldb",
    "ltrace",
    "lua",
    "luajit",
    "make",
    "gmake",
    "man",
    "mawk",
    "micro",
    "mix",
    "mksh",
    "mocha",
    "more",
    "most",
    "mvn",
    "mvnw",
    "mysql",
    "nano",
    "nawk",
    "ninja",
    "node",
    "nodejs",
    "nodemon",
    "nox",
    "nsenter",
    "numactl",
    "nvim",
    "octave",
    "osascript",
    "parallel",
    "perf",
    "perl",
    "php",
    "pico",
    "pipenv",
    "pipx",
    "pkexec",
    "poetry",
    "psql",
    "pwsh",
    "pypy",
    "pytest",
    "python",
    "rake",
    "rbash",
    "rlwrap",
    "ruby",
    "run-parts",
    "runuser",
    "rush",
    "sbt",
    "scala",
    "screen",
    "script",
    "sftp",
    "sh",
    "socat",
    "sqlite",
    "ssh",
    "start-stop-daemon",
    "strace",
    "su",
    "swift",
    "systemd-run",
    "task",
    "taskset",
    "tclsh",
    "tmux",
    "tox",
    "ts-node",
    "tsx",
    "unbuffer",
    "unshare",
    "valgrind",
    "vi",
    "view",
    "vim",
    "vimdiff",
    "visudo",
    "vitest",
    "watch",
    "watchexec",
    "wish",
    "xterm",
    "zsh",
];

/// Programs that are no launchers but tell their version when asked.
const COMMON: &[&str] = &[
    "ansible",
    "apk",
    "apt",
    "apt-get",
    "aws",
    "az",
    "black",
    "brew",
    "bundle",
    "bundler",
    "bzip2",
    "cargo",
    "cc",
    "clang",
    "clang-format",
    "clang-tidy",
    "cmake",
    "conda",
    "cp",
    "ctest",
    "curl",
    "dart",
    "dnf",
    "docker",
    "docker-compose",
    "dotnet",
    "dpkg",
    "eslint",
    "ffmpeg",
    "flutter",
    "g++",
    "gcc",
    "gcloud",
    "gem",
    "gh",
    "ghc",
    "gofmt",
    "gpg",
    "gzip",
    "helm",
    "hg",
    "isort",
    "javac",
    "jq",
    "kubectl",
    "ld",
    "ldd",
    "ln",
    "make",
    "meson",
    "minikube",
    "mkdir",
    "mv",
    "mypy",
    "nginx",
    "npm",
    "npx",
    "nvm",
    "openssl",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "prettier",
    "pylint",
    "redis-cli",
    "redis-server",
    "rm",
    "rsync",
    "ruff",
    "rustc",
    "rustfmt",
    "rustup",
    "sed",
    "sqlite3",
    "svn",
    "tar",
    "tee",
    "terraform",
    "touch",
    "tsc",
    "tslint",
    "unzip",
    "uv",
    "uvx",
    "wget",
    "xz",
    "yarn",
    "yq",
    "zip",
    "zstd",
];

/// Launchers that run what the working directory names before they tell their version: a plugin, a configuration that is
/// code, options of a virtual machine, another copy of themselves.
const LOOKS_AROUND: &[&str] = &["erl", "flake8", "mocha", "mvn", "mvnw", "pytest", "sbt", "yarn"];

/// Programs that are installed with their version in their name.
const VERSIONED: &[&str] =
    &["julia", "lua", "luajit", "node", "perl", "php", "pip", "pypy", "python", "ruby", "tclsh", "Rscript"];

/// The name without a version: `python` for `python3.12`.
pub(super) fn unversioned(program: &str) -> &str {
    let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if VERSIONED.contains(&name) { name } else { program }
}

fn listed(program: &str) -> bool {
    LAUNCHERS.contains(&program) || LAUNCHERS.contains(&unversioned(program))
}

/// Whether the call asks a known program for its version and nothing else.
pub(super) fn asks_version(program: &str, arguments: &[Word]) -> bool {
    let [Word::Text(option)] = arguments else { return false };
    if LOOKS_AROUND.contains(&program) {
        return false;
    }
    let name = unversioned(program);
    match option.as_str() {
        "--version" => listed(program) || COMMON.contains(&program),
        "-V" => matches!(
            name,
            "python"
                | "pypy"
                | "cargo"
                | "rustc"
                | "rustup"
                | "rustfmt"
                | "pip"
                | "curl"
                | "wget"
                | "gawk"
                | "tmux"
                | "ssh"
                | "yq"
                | "jq"
                | "gzip"
                | "xz"
                | "mypy"
                | "nano"
                | "less"
                | "strace"
                | "ltrace"
                | "man"
                | "sqlite3"
                | "black"
                | "ruff"
                | "uv"
                | "gnome-terminal"
                | "zstd"
        ),
        "-v" => matches!(
            name,
            "node" | "nodejs" | "npm" | "pnpm" | "ruby" | "perl" | "php" | "lua" | "tsc" | "make" | "npx"
        ),
        "-version" => matches!(name, "java" | "javac" | "ant" | "scala"),
        "version" => matches!(name, "go" | "openssl"),
        _ => false,
    }
}

/// Whether the call runs what no rule sees.
pub(super) fn is_launcher(program: &str, arguments: &[Word]) -> bool {
    if listed(program) {
        return true;
    }
    let has = |wanted: &[&str]| arguments.iter().any(|word| word.text().is_some_and(|text| wanted.contains(&text)));
    let begins = |wanted: &[&str]| {
        arguments.iter().any(|word| wanted.iter().any(|start| word.known_prefix().starts_with(start)))
    };
    // The first word that is no option; options with values may hide it, so any word is looked at.
    match program {
        "npm" | "pnpm" | "yarn" => {
            !has(&["view", "outdated", "audit", "config", "login", "logout", "whoami", "search"])
        }
        "npx" | "pnpx" | "uvx" => true,
        "pip" | "uv" => has(&["install", "run", "sync", "wheel", "download", "tool", "build"]),
        "pip3" => has(&["install", "wheel", "download"]),
        "cargo" => !has(&["metadata", "tree", "search", "add", "remove", "login", "logout", "update", "fmt"]),
        "go" => has(&["run", "generate", "test", "build", "install", "tool", "vet", "get"]),
        "cmake" => begins(&["--build", "-P", "-E", "--install"]) || !arguments.is_empty(),
        "ctest" | "meson" | "bundle" | "gem" | "rustup" | "conda" | "dotnet" | "flutter" | "dart" => true,
        "docker" | "podman" | "kubectl" | "docker-compose" | "nerdctl" | "lxc" | "oc" => {
            has(&["run", "exec", "compose", "build", "up", "debug", "start", "buildx"])
        }
        "tar" => begins(&[
            "--checkpoint-action",
            "--to-command",
            "-I",
            "--use-compress-program",
            "-F",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--rmt-command",
        ]),
        "rsync" => {
            begins(&["-e", "--rsh", "--rsync-path"]) || arguments.iter().any(|word| word.known_prefix().contains(':'))
        }
        "scp" => true,
        "git" => git(arguments, &has, &begins),
        "find" | "fd" | "fdfind" => has(&["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"]),
        "rg" => begins(&["--pre", "--hostname-bin", "-z", "--search-zip"]),
        "sort" => begins(&["--compress-program"]),
        "zip" => begins(&["-TT", "--unzip-command"]),
        "sed" | "gsed" => true,
        "systemctl" | "service" => has(&["start", "restart", "enable", "edit"]),
        "source" | "." => true,
        _ => program.starts_with("ld-linux") || program.starts_with("ld-musl"),
    }
}

fn git(arguments: &[Word], has: &dyn Fn(&[&str]) -> bool, begins: &dyn Fn(&[&str]) -> bool) -> bool {
    super::git::call(arguments, &Cwd::Unknown).configured
        || begins(&["--upload-pack", "--receive-pack", "--open-files-in-pager", "--ext-diff", "--exec"])
        || has(&["filter-branch", "difftool", "mergetool", "send-email", "citool", "gui", "-x", "-O", "instaweb"])
        || (has(&["bisect"]) && has(&["run"]))
        || (has(&["submodule"]) && has(&["foreach", "update"]))
}
