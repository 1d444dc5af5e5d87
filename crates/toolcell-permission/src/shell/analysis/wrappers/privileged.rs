//! `sudo` and `doas`.

use crate::shell::analysis::options::Options;
use crate::shell::analysis::state::State;
use crate::shell::analysis::{Analyser, Surroundings};
use crate::shell::script::{Need, Stdin, Word};

const SUDO: Options = Options {
    flags: "AbEHknPSisB",
    valued: "ugpChrtTUDR",
    long_flags: &[
        "askpass",
        "background",
        "preserve-env",
        "set-home",
        "reset-timestamp",
        "non-interactive",
        "preserve-groups",
        "stdin",
        "login",
        "shell",
        "bell",
    ],
    long_valued: &[
        "user",
        "group",
        "prompt",
        "close-from",
        "host",
        "role",
        "type",
        "command-timeout",
        "other-user",
        "chdir",
        "chroot",
        "preserve-env",
    ],
};
const DOAS: Options = Options { flags: "ns", valued: "uCa", ..super::NONE };

impl Analyser<'_> {
    pub(super) fn privileged(
        &mut self,
        base: &str,
        words: &[Word],
        state: &State,
        inner_state: &State,
        around: &Surroundings,
    ) {
        let outer = match around.flow.need {
            Need::Privileged => Need::Privileged,
            Need::Nothing => Need::Nothing,
            Need::Allow | Need::Explicit => Need::Explicit,
        };
        self.push(words.to_vec(), outer, state, around);
        let options = if base == "sudo" { &SUDO } else { &DOAS };
        let only_lists = |text: &str| {
            matches!(
                text,
                "-l" | "-ll" | "-v" | "-V" | "-K" | "--list" | "--validate" | "--version" | "--remove-timestamp"
            )
        };
        if words.get(1).and_then(Word::text).is_some_and(only_lists) {
            return;
        }
        let Ok(mut place) = options.skip(words, 1) else {
            self.opaque(format!("what `{base}` runs cannot be told from its words"));
            return;
        };
        while words.get(place).is_some_and(|word| word.text().is_some_and(|text| text.contains('='))) {
            place = place.saturating_add(1);
        }
        let rest = words.get(place..).unwrap_or_default();
        // `-s`, `-i` and their long forms: a shell, whatever its input is.
        let starts_shell = |word: &Word| {
            word.text().is_some_and(|text| match text.strip_prefix("--") {
                Some(name) => "shell".starts_with(name) || "login".starts_with(name),
                None => text.starts_with('-') && text.contains(['s', 'i']),
            })
        };
        let shell = words.iter().take(place).skip(1).any(starts_shell);
        if rest.is_empty() && (shell || around.flow.stdin != Stdin::Inherited || self.call_has_stdin) {
            self.opaque(format!("`{base}` may start a shell that runs what it reads"));
        }
        if !rest.is_empty() {
            let mut inner = around.clone();
            inner.flow.need = Need::Privileged;
            let mut inner_state = inner_state.clone();
            self.run(rest.to_vec(), &mut inner_state, &inner);
        }
    }
}
