//! Lines on standard error, which the engine keeps as the container's log.

use std::io::Write;

/// Lines in all: a peer that fails again and again must not fill a disk.
const MOST_LINES: u32 = 1000;

/// Writes lines.
#[derive(Debug, Default)]
pub(crate) struct Log {
    lines: u32,
    last: String,
}

impl Log {
    /// Writes a line, unless it is the last one again.
    pub(crate) fn say(&mut self, line: &str) {
        if self.lines >= MOST_LINES || self.last == line {
            return;
        }
        self.lines = self.lines.saturating_add(1);
        line.clone_into(&mut self.last);
        write_line(line);
    }
}

/// Writes an error and everything it comes from, in one line.
pub(crate) fn write_error(error: &dyn std::error::Error) {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line.push_str(": ");
        line.push_str(&cause.to_string());
        source = cause.source();
    }
    write_line(&line);
}

fn write_line(line: &str) {
    let text = format!("toolcell-guest: {line}\n");
    // Nobody may be reading; that must not stop the guest.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
