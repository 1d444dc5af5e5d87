//! `find -exec`: the command gets names that were found.

use super::{nothing, replace};
use crate::shell::analysis::state::State;
use crate::shell::analysis::{Analyser, Surroundings};
use crate::shell::script::{Cwd, Word};

impl Analyser<'_> {
    pub(super) fn find(&mut self, words: &[Word], state: &State, inner_state: &mut State, around: &Surroundings) {
        let mut own = Vec::new();
        let mut commands = Vec::new();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at = at.saturating_add(1);
            match word.text() {
                Some(action @ ("-exec" | "-execdir" | "-ok" | "-okdir")) => {
                    let rest = words.get(at..).unwrap_or_default();
                    // `+` ends it only after `{}`.
                    let ends = rest.iter().enumerate().position(|(place, word)| match word.text() {
                        Some(";") => true,
                        Some("+") => place > 0 && rest.get(place.saturating_sub(1)).and_then(Word::text) == Some("{}"),
                        Some(_) | None => false,
                    });
                    let Some(end) = ends else {
                        self.opaque("what `find` runs cannot be told from its words");
                        break;
                    };
                    commands.push((action.ends_with("dir"), rest.get(..end).unwrap_or_default().to_vec()));
                    at = at.saturating_add(end).saturating_add(1);
                }
                Some(_) => own.push(word.clone()),
                None => {
                    if !word.known_prefix().is_empty() && !word.known_prefix().starts_with('-') {
                        own.push(word.clone());
                        continue;
                    }
                    // An unknown word may be an action with a command after it.
                    if words.iter().skip(at).any(|word| matches!(word.text(), Some(";" | "+"))) {
                        self.opaque("what `find` runs cannot be told from its words");
                    }
                    own.push(word.clone());
                }
            }
        }
        if commands.is_empty() {
            self.push(words.to_vec(), around.flow.need, state, around);
            return;
        }
        self.push(words.to_vec(), nothing(around.flow.need), state, around);
        self.push(own.clone(), around.flow.need, state, around);
        // It begins with where it was looked for.
        let start = match own.get(1) {
            Some(Word::Text(text)) if !text.is_empty() && !text.starts_with(['-', '(', '!']) => Some(text.as_str()),
            Some(Word::Text(_)) | None => Some("."),
            Some(Word::Glob(_) | Word::Unknown { .. }) => None,
        };
        for (in_directory, mut command) in commands {
            let start = if in_directory { Some(".") } else { start };
            if in_directory {
                inner_state.cwd = Cwd::Unknown;
            }
            for word in command.iter_mut() {
                match (word.text(), start) {
                    // A name beneath it, as a glob gives one. What is hidden down there no more than with `grep -r`.
                    (Some("{}"), Some(start)) => {
                        *word = Word::Glob(format!("{}/*", escape(start.trim_end_matches('/'))))
                    }
                    (_, _) => replace(word, "{}"),
                }
            }
            if !command.is_empty() {
                self.run(command, inner_state, around);
            }
        }
    }
}

/// A name as a pattern that matches only it.
fn escape(name: &str) -> String {
    let mut pattern = String::new();
    for c in name.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}
