//! `env`: assignments, a directory, and then a command.

use super::Runs;
use crate::path::ContainerPath;
use crate::shell::analysis::options::Options;
use crate::shell::analysis::state::State;
use crate::shell::analysis::{Analyser, Surroundings, shorten};
use crate::shell::facts::is_harmless_variable;
use crate::shell::script::{Cwd, Word};

const ENV: Options = Options {
    flags: "i0v",
    valued: "uCa",
    long_flags: &["ignore-environment", "null", "debug", "default-signal", "ignore-signal", "block-signal"],
    long_valued: &["unset", "chdir", "argv0", "default-signal", "ignore-signal", "block-signal"],
};

impl Analyser<'_> {
    pub(super) fn env(&mut self, words: &[Word], state: &mut State, inner: &mut Surroundings) -> Runs {
        let Ok(mut place) = ENV.skip(words, 1) else { return Runs::Unclear };
        // The directory that `-C` names.
        for (at, word) in words.iter().enumerate().take(place) {
            if let Some(text) = word.text()
                && (text.starts_with("-C")
                    || text.starts_with("--chdir")
                    || text.starts_with("-") && text.ends_with('C') && !text.starts_with("--"))
            {
                let own =
                    text.strip_prefix("-C").or_else(|| text.strip_prefix("--chdir=")).filter(|path| !path.is_empty());
                let next = words.get(at.saturating_add(1)).and_then(Word::text);
                self.enter(own.or(next), state);
            }
        }
        if words.get(place).and_then(Word::text) == Some("-") {
            place = place.saturating_add(1);
        }
        loop {
            let Some(word) = words.get(place) else { return Runs::Itself };
            let known = word.known_prefix();
            match (known.split_once('='), word) {
                (Some((name, _)), Word::Text(_) | Word::Glob(_) | Word::Unknown { many: false, .. }) => {
                    self.check_name(name);
                    if !is_harmless_variable(name) {
                        inner.taint = Some(format!("`env {}=` before it", shorten(name.to_owned())));
                    }
                    place = place.saturating_add(1);
                }
                (None, Word::Text(_)) => return Runs::At(place),
                (_, Word::Glob(_) | Word::Unknown { .. }) => return Runs::Unclear,
            }
        }
    }

    /// Goes to a directory that an option names.
    pub(in crate::shell::analysis) fn enter(&mut self, path: Option<&str>, state: &mut State) {
        let entered = match (&state.cwd, path) {
            (Cwd::OneOf(paths), Some(path)) => {
                paths.iter().map(|cwd| cwd.resolve(path).ok()).collect::<Option<Vec<_>>>()
            }
            (Cwd::OneOf(_), None) => None,
            (Cwd::Unknown, Some(path)) if path.starts_with('/') => {
                ContainerPath::parse(path).ok().map(|path| vec![path])
            }
            (Cwd::Unknown, _) => None,
        };
        state.cwd = match entered {
            Some(mut paths) => {
                paths.sort();
                paths.dedup();
                Cwd::OneOf(paths)
            }
            None => Cwd::Unknown,
        };
        self.moves = true;
    }
}

/// `env -S "A=1 git push" x` with what it splits put in its place; `None` if there is nothing to split, or if more than
/// blanks would have to be understood.
pub(super) fn split_strings(words: &[Word]) -> Option<Vec<Word>> {
    let mut at = 1;
    loop {
        let text = words.get(at)?.text()?;
        let next = at.saturating_add(1);
        let (string, rest) = if let Some(string) = text.strip_prefix("--split-string=") {
            (string, next)
        } else {
            match text.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?.split_once('S') {
                Some((flags, string)) if flags.chars().all(|flag| ENV.flags.contains(flag)) => {
                    if string.is_empty() {
                        (words.get(next)?.text()?, next.saturating_add(1))
                    } else {
                        (string, next)
                    }
                }
                Some(_) => return None,
                None => {
                    at = ENV.one(words, at).ok()??;
                    continue;
                }
            }
        };
        if string.contains(['\\', '\'', '"', '$', '#']) {
            return None;
        }
        let before = words.iter().take(at).cloned();
        let split = string.split_whitespace().map(|word| Word::Text(word.to_owned()));
        return Some(before.chain(split).chain(words.iter().skip(rest).cloned()).collect());
    }
}
