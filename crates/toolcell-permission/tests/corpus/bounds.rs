//! What holds for every call, whatever its text.

use crate::call::{Call, rules, settings};
use toolcell_permission::Mode;
use toolcell_permission::shell::settings::Dialect;
use toolcell_permission::shell::{Analysis, analyse};

/// How much an analysis may hold for each byte of a call, and for an empty one.
const BYTES_FOR_EACH: usize = 64;
const BYTES_AT_LEAST: usize = 1 << 20;

/// Decides the call in both dialects and looks at how much its analysis holds.
pub(crate) fn check_bounds(call: &Call) {
    let deny = rules(&[], &[], &["execute(git push:*)".to_owned(), "write_file(/etc/**)".to_owned()]);
    for dialect in [Dialect::Bash, Dialect::Sh] {
        for mode in [Mode::Default, Mode::AcceptEdits, Mode::Explore, Mode::Bypass] {
            let _ = call.decide(mode, &deny, dialect);
        }
        let analysis = call.with_text(|text| analyse(text, &settings(dialect)));
        let length = call.bytes();
        assert!(size(&analysis) <= BYTES_AT_LEAST + BYTES_FOR_EACH * length, "{length} bytes: {call:?}");
        assert_eq!(analysis.facts.len(), analysis.script.commands.len());
        assert_eq!(analysis.redirects.len(), analysis.script.commands.len());
    }
}

fn size(analysis: &Analysis) -> usize {
    format!("{analysis:?}").len()
}
