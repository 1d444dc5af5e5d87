//! `git -C x push` is a `git push`.

use super::nothing;
use crate::shell::analysis::options::{NotUnderstood, Options};
use crate::shell::analysis::state::State;
use crate::shell::analysis::{Analyser, Surroundings};
use crate::shell::script::Word;

const GIT: Options = Options {
    flags: "pPhv",
    valued: "Cc",
    long_flags: &[
        "paginate",
        "no-pager",
        "bare",
        "no-replace-objects",
        "literal-pathspecs",
        "glob-pathspecs",
        "noglob-pathspecs",
        "icase-pathspecs",
        "no-optional-locks",
        "no-lazy-fetch",
        "no-advice",
        "html-path",
        "man-path",
        "info-path",
        "version",
        "help",
        "exec-path",
    ],
    long_valued: &[
        "git-dir",
        "work-tree",
        "namespace",
        "super-prefix",
        "config-env",
        "exec-path",
        "attr-source",
        "list-cmds",
    ],
};

impl Analyser<'_> {
    /// `git -C x push` is a `git push`: for deny and ask rules it is in the list as well, without git's own options.
    pub(in crate::shell::analysis) fn git_without_options(
        &mut self,
        words: &[Word],
        state: &State,
        around: &Surroundings,
    ) {
        let first = words.get(1).map_or("", Word::known_prefix);
        if !first.starts_with('-') && words.get(1).is_none_or(|word| word.text().is_some()) {
            return;
        }
        let program = words.first().cloned().into_iter();
        let bare: Vec<Word> = match GIT.skip(words, 1) {
            Ok(place) => program.chain(words.iter().skip(place).cloned()).collect(),
            Err(NotUnderstood) => program.chain([Word::Unknown { prefix: String::new(), many: true }]).collect(),
        };
        self.push(bare, nothing(around.flow.need), state, around);
    }
}
