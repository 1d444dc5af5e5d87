//! What measuring tests read and print.

use std::time::Instant;

/// Milliseconds that it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let value = work();
    (start.elapsed().as_secs_f64() * 1000.0, value)
}

/// The median.
pub(crate) fn middle(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Prints a figure with its bound, and fails beyond it.
#[track_caller]
pub(crate) fn figure(name: &str, value: f64, bound: f64) {
    eprintln!("figure: {name:<72} {value:10.4} (bound {bound})");
    assert!(value <= bound, "{name}: {value:.4} is more than {bound}");
}

/// One line of a server's log, and the fields in it.
#[derive(Debug)]
pub(crate) struct Told {
    line: String,
}

impl Told {
    /// The last line that says this.
    #[track_caller]
    pub(crate) fn last(log: &str, what: &str) -> Self {
        let line = log.lines().rfind(|line| line.contains(what)).unwrap_or_else(|| panic!("no{what}in {log}"));
        Self { line: line.to_owned() }
    }

    /// The number in a field.
    #[track_caller]
    pub(crate) fn number(&self, field: &str) -> u64 {
        let words = self.line.split_whitespace();
        let value = words.filter_map(|word| word.split_once('=')).find(|(name, _)| *name == field);
        value.and_then(|(_, value)| value.parse().ok()).unwrap_or_else(|| panic!("no {field}: {}", self.line))
    }
}
