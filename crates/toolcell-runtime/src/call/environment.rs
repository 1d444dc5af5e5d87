//! The environment of a tool's process.

use super::Placed;
use std::collections::BTreeMap;
use toolcell_permission::{Behavior, Decision, Stage};
use toolcell_tools::ExecuteInput;

/// Directories that only root writes to, whatever the image.
const ROOT_OWNED_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Programs see these unless image, agent or call say otherwise. Tools that would ask a person find out here that
/// there is none.
pub(crate) const BASE: [(&str, &str); 10] = [
    ("PATH", ROOT_OWNED_PATH),
    ("HOME", "/home/agent"),
    ("USER", "agent"),
    ("LOGNAME", "agent"),
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("CI", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PIP_NO_INPUT", "1"),
];

/// What a program that only reads sees whatever image, agent and call say: programs come from root's directories, and
/// git takes nothing but the repository's own configuration, of which the commands below do not count. Go does not fetch
/// and run the toolchain that a `go.mod` asks for.
const QUIET: [(&str, &str); 10] = [
    ("PATH", ROOT_OWNED_PATH),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GOENV", "off"),
    ("GOTOOLCHAIN", "local"),
];

/// What of a repository's configuration names a program, by a name that is known beforehand. Its differs and text
/// converters are not here: from outside git cannot be told to leave them out without changing what `git diff` shows.
/// They are in `.git`, a dangerous path, so that a person is asked before a call writes them.
const GIT_CONFIGURATION: [(&str, &str); 8] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("core.alternateRefsCommand", "false"),
    ("interactive.diffFilter", "cat"),
    ("gpg.program", "false"),
    ("log.showSignature", "false"),
];

/// Variables by which a program is made to load or run something. Of these none reaches a program that only reads.
const STEERING_PREFIXES: [&str; 13] = [
    "LD_", "GIT_", "BASH_", "PYTHON", "PERL", "RUBY", "NODE_", "RIPGREP_", "LESS", "TAR_", "GREP_", "CARGO_", "RUSTUP_",
];
const STEERING_NAMES: [&str; 20] = [
    "BASHOPTS",
    "BROWSER",
    "CDPATH",
    "EDITOR",
    "ENV",
    "GCONV_PATH",
    "GLOBIGNORE",
    "GOFLAGS",
    "GOROOT",
    "GZIP",
    "IFS",
    "LOCPATH",
    "MANPAGER",
    "PAGER",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "VISUAL",
    "XDG_CONFIG_HOME",
    "ZSTD_CLEVEL",
];

/// Whether the call may run because it only reads, or changes nothing but files it names: then it gets the quiet
/// environment, so that no program that it does not name runs in its place.
fn is_quiet(decision: &Decision) -> bool {
    decision.behavior == Behavior::Allow && matches!(decision.stage, Stage::ReadOnly | Stage::AcceptEdits)
}

/// The whole environment of a call.
pub(super) fn environment(placed: &Placed<'_>, input: &ExecuteInput, decision: &Decision) -> BTreeMap<String, String> {
    let image = placed.residency.image.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let agent = placed.agent.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let call = input.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    merged(image.chain(agent).chain(call), is_quiet(decision))
}

fn merged<'v>(said: impl Iterator<Item = (&'v str, &'v str)>, quiet: bool) -> BTreeMap<String, String> {
    let mut all: BTreeMap<&str, &str> = BASE.into_iter().collect();
    all.extend(said);
    if quiet {
        all.retain(|name, _| !steers(name));
        all.extend(QUIET);
    }
    let mut all: BTreeMap<String, String> =
        all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if quiet {
        for (place, (key, value)) in GIT_CONFIGURATION.into_iter().enumerate() {
            all.insert(format!("GIT_CONFIG_KEY_{place}"), key.to_owned());
            all.insert(format!("GIT_CONFIG_VALUE_{place}"), value.to_owned());
        }
        all.insert("GIT_CONFIG_COUNT".to_owned(), GIT_CONFIGURATION.len().to_string());
    }
    all
}

fn steers(name: &str) -> bool {
    STEERING_NAMES.contains(&name) || STEERING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_last_counts_and_a_reading_call_is_not_steered() {
        let said = [
            ("PATH", "/workspace/bin"),
            ("LD_PRELOAD", "/workspace/x.so"),
            ("BASH_ENV", "x"),
            ("ENV", "x"),
            ("BASH_FUNC_ls%%", "() { id; }"),
            ("GIT_EXTERNAL_DIFF", "x"),
            ("GIT_CONFIG_COUNT", "0"),
            ("GIT_CONFIG_GLOBAL", "/workspace/config"),
            ("PAGER", "x"),
            ("GOTOOLCHAIN", "/workspace/go"),
            ("RUSTUP_TOOLCHAIN", "/workspace/rust"),
            ("RIPGREP_CONFIG_PATH", "x"),
            ("LANG", "de"),
            ("TOKEN", "1"),
        ];
        let usual = merged(said.into_iter(), false);
        assert!(said.iter().all(|(name, value)| usual.get(*name).is_some_and(|found| found == value)));
        let quiet = merged(said.into_iter(), true);
        let of = |name: &str| quiet.get(name).map(String::as_str);
        for (name, value) in [
            ("PATH", Some(ROOT_OWNED_PATH)),
            ("LD_PRELOAD", None),
            ("BASH_ENV", None),
            ("ENV", None),
            ("BASH_FUNC_ls%%", None),
            ("GIT_EXTERNAL_DIFF", None),
            ("GIT_CONFIG_COUNT", Some("8")),
            ("GIT_CONFIG_GLOBAL", Some("/dev/null")),
            ("PAGER", Some("cat")),
            ("GOTOOLCHAIN", Some("local")),
            ("RUSTUP_TOOLCHAIN", None),
            ("RIPGREP_CONFIG_PATH", None),
            ("LANG", Some("de")),
            ("TOKEN", Some("1")),
            ("GIT_CONFIG_KEY_7", Some("log.showSignature")),
            ("GIT_CONFIG_VALUE_7", Some("false")),
        ] {
            assert_eq!(of(name), value, "{name}");
        }
    }
}
