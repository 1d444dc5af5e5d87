//! A line on a terminal that says what takes so long. Nothing is printed where standard error is no terminal, and nothing
//! for what is done within half a second.

use std::io::{IsTerminal, Write};
use std::time::Duration;

/// What is faster needs no words.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Waits for `work`, and shows meanwhile what `look` says of it.
pub(crate) async fn while_waiting<T>(work: impl Future<Output = T>, look: impl AsyncFn() -> Option<String>) -> T {
    tokio::pin!(work);
    if !std::io::stderr().is_terminal() {
        return work.await;
    }
    let mut shown = false;
    let mut wait = PATIENCE;
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            () = tokio::time::sleep(wait) => {}
        }
        wait = LOOK_AGAIN;
        tokio::select! {
            done = &mut work => break done,
            line = look() => {
                if let Some(line) = line {
                    show(&line);
                    shown = true;
                } else if shown {
                    show("");
                }
            }
        }
    };
    if shown {
        show("");
    }
    done
}

/// In place of the line before.
fn show(line: &str) {
    let mut out = std::io::stderr().lock();
    // A terminal that has gone away needs no progress.
    let _ = write!(out, "\r\u{1b}[2K{}", toolcell_server::wire::escaped(line)).and_then(|()| out.flush());
}
