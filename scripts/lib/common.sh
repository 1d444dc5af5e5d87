# shellcheck shell=bash
# Shared by the scripts of this repository. Source it; it runs nothing by itself.
#
# The scripts change a machine (packages, a daemon), so each change goes through
# `as_root`, which prints the command before it runs it.

say() { printf '==> %s\n' "$*" >&2; }
note() { printf '    %s\n' "$*" >&2; }

# die WHAT [HINT]: one line what, one line what to do about it.
die() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf 'hint: %s\n' "$2" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

is_root() { [ "$(id -u)" -eq 0 ]; }

# Root itself, or sudo that asks nothing: a script that stops at a password prompt
# looks like a script that hangs.
can_root() { is_root || { have sudo && sudo -n true 2>/dev/null; }; }

as_root() {
    printf '    # %s\n' "$*" >&2
    as_root_quietly "$@"
}

as_root_quietly() {
    if is_root; then
        "$@"
    else
        sudo -n "$@"
    fi
}

# need_packages WHY PACKAGE...: installs Debian packages. The caller has found that
# something is missing; nothing is installed or updated when nothing is asked for.
need_packages() {
    local why=$1
    shift
    [ $# -gt 0 ] || return 0
    have apt-get || die "$why needs what Debian calls: $*" \
        "this machine has no apt-get; install them with its own package manager and run this again"
    can_root || die "$why needs the packages: $*" \
        "run as root: apt-get update && apt-get install --no-install-recommends $*"
    say "installing for $why: $*"
    apt_quietly apt-get update -qq ||
        # One broken third-party source must not stop us: the install below has the last word.
        note "apt-get update reported errors (above); trying with what it has"
    apt_quietly env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" ||
        die "apt-get install $* failed" "see the lines above"
}

# Hundreds of lines that only matter when it fails.
apt_quietly() {
    local output
    printf '    # %s\n' "$*" >&2
    output=$(as_root_quietly "$@" 2>&1 </dev/null) || {
        printf '%s\n' "$output" >&2
        return 1
    }
}

# Finds cargo where rustup puts it, and a C compiler for the bundled SQLite.
need_build_tools() {
    have cargo || [ ! -x "$HOME/.cargo/bin/cargo" ] || PATH=$HOME/.cargo/bin:$PATH
    have cargo || die "there is no cargo" "install Rust: https://rustup.rs"
    have cc || need_packages "building (the bundled SQLite is C)" gcc libc6-dev
}

# "PID STARTTIME" of the dockerd that lib/docker-engine started.
ENGINE_STATE=/run/toolcell-docker/engine

# ensure_engine SCRIPT ARGUMENT...: a Docker engine answers afterwards, or the script has
# ended with an error. Sets TOOLCELL_ENGINE_STARTED when it had to be started. SCRIPT and
# its arguments are what to run again, from the start, where this user first had to become
# a member of the group docker.
ensure_engine() {
    local engine before command status=0
    engine=$(dirname "${BASH_SOURCE[0]}")/docker-engine
    before=$(cat "$ENGINE_STATE" 2>/dev/null || true)
    "$engine" install
    "$engine" start || status=$?
    [ "$(cat "$ENGINE_STATE" 2>/dev/null || true)" = "$before" ] || export TOOLCELL_ENGINE_STARTED=1
    case $status in
    0) ;;
    3)
        printf -v command '%q ' "$@"
        exec sg docker -c "$command"
        ;;
    *) exit "$status" ;;
    esac
}
