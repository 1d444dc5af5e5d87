//! `xargs`: the command gets words of its standard input.

use super::{nothing, replace};
use crate::shell::analysis::options::{NotUnderstood, Options};
use crate::shell::analysis::state::State;
use crate::shell::analysis::{Analyser, Surroundings};
use crate::shell::script::{Stdin, Word};

const XARGS: Options = Options {
    flags: "0prtxo",
    valued: "adEILnPs",
    long_flags: &["null", "no-run-if-empty", "verbose", "exit", "open-tty", "interactive", "show-limits"],
    long_valued: &["arg-file", "delimiter", "max-args", "max-procs", "max-chars", "max-lines", "process-slot-var"],
};

impl Analyser<'_> {
    pub(super) fn xargs(&mut self, words: &[Word], state: &State, inner_state: &mut State, around: &Surroundings) {
        let Ok((place, replaced)) = xargs_options(words) else {
            self.opaque("what `xargs` runs cannot be told from its words");
            self.push(words.to_vec(), around.flow.need, state, around);
            return;
        };
        self.push(words.to_vec(), nothing(around.flow.need), state, around);
        let mut inner: Vec<Word> = words.get(place..).unwrap_or_default().to_vec();
        if inner.is_empty() {
            inner.push(Word::Text("echo".to_owned()));
        }
        match replaced {
            Some(text) => inner.iter_mut().for_each(|word| replace(word, &text)),
            None => inner.push(Word::Unknown { prefix: String::new(), many: true }),
        }
        let mut surroundings = around.clone();
        // xargs reads standard input itself; what it runs gets none.
        surroundings.flow.stdin = Stdin::Text(String::new());
        self.run(inner, inner_state, &surroundings);
    }
}

/// Where xargs's command begins, and what stands in it for each line of its input.
fn xargs_options(words: &[Word]) -> Result<(usize, Option<String>), NotUnderstood> {
    let mut replaced = None;
    let mut at = 1;
    loop {
        let text = words.get(at).and_then(Word::text).unwrap_or_default();
        let next = at.saturating_add(1);
        if text == "--" {
            return Ok((next, replaced));
        }
        if let Some(own) = text.strip_prefix("--replace") {
            replaced = Some(own.strip_prefix('=').unwrap_or("{}").to_owned());
            at = next;
        } else if let Some(own) = text.strip_prefix("-i") {
            replaced = Some(if own.is_empty() { "{}" } else { own }.to_owned());
            at = next;
        } else {
            if let Some(own) = text.strip_prefix("-I") {
                let following = words.get(next).and_then(Word::text).ok_or(NotUnderstood);
                replaced = Some(if own.is_empty() { following? } else { own }.to_owned());
            } else if text.starts_with('-') && !text.starts_with("--") && text.contains(['I', 'i']) {
                return Err(NotUnderstood);
            }
            match XARGS.one(words, at)? {
                Some(after) => at = after,
                None => break,
            }
        }
        if replaced.as_deref() == Some("") {
            return Err(NotUnderstood);
        }
    }
    Ok((at, replaced))
}
