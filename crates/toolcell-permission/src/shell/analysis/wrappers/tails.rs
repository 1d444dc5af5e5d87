//! Programs that run what their operands say, by rules of their own: `flock FILE git push`, `watch 'git push'`.
//!
//! They are no wrappers: an allow rule has to name them. But a deny or ask rule sees every command that their words may
//! be.

use crate::shell::analysis::state::State;
use crate::shell::analysis::{Analyser, Flow, Surroundings};
use crate::shell::script::{Need, Stdin, Word};

const PROGRAMS: [&str; 27] = [
    "at",
    "batch",
    "catchsegv",
    "chroot",
    "dbus-run-session",
    "entr",
    "fakeroot",
    "flock",
    "linux32",
    "linux64",
    "ltrace",
    "nsenter",
    "numactl",
    "parallel",
    "prlimit",
    "runuser",
    "screen",
    "script",
    "setarch",
    "setpriv",
    "strace",
    "su",
    "systemd-run",
    "tmux",
    "unbuffer",
    "unshare",
    "watch",
];
/// How many of their words are looked at as the beginning of a command. One after that is not seen by deny rules.
const MAX_TAILS: usize = 16;

impl Analyser<'_> {
    /// `false`: it is none of them.
    pub(super) fn tails(&mut self, base: &str, words: &[Word], state: &State, around: &Surroundings) -> bool {
        if !PROGRAMS.contains(&base) {
            return false;
        }
        self.push(words.to_vec(), around.flow.need, state, around);
        // Every tail of these words is looked at already.
        if std::mem::replace(&mut self.in_tail, true) {
            return true;
        }
        // What cannot be known of a word that may be no command at all says nothing of the call.
        let opaque = self.script.opaque.clone();
        let mut inner = around.clone();
        inner.flow = Flow { need: Need::Nothing, ..around.flow.in_condition() };
        for at in 1..words.len().min(MAX_TAILS) {
            let Some(text) = words.get(at).and_then(Word::text).filter(|text| !text.starts_with('-')) else { continue };
            let mut child = state.child();
            child.functions.clear();
            if text.contains(char::is_whitespace) {
                let text = text.to_owned();
                self.nested(&text, &mut child, &inner.flow);
            } else {
                let tail = words.get(at..).unwrap_or_default().to_vec();
                self.run(tail, &mut child, &inner);
            }
        }
        self.script.opaque = opaque;
        self.in_tail = false;
        // Some of them start a shell where no command is named, or take commands from there.
        let named =
            |word: &Word| ["-c", "--c", "--session-c"].iter().any(|option| word.known_prefix().starts_with(option));
        let shell = base == "su" && !words.iter().any(named);
        if shell || around.flow.stdin != Stdin::Inherited || self.call_has_stdin {
            self.opaque(format!("`{base}` may run what it reads"));
        }
        true
    }
}
