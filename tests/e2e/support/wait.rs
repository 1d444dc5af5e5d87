//! Waiting for what will be, and what to do where something needed is not there.

use std::time::{Duration, Instant};

/// Long enough for anything that does not wait for something else, on a busy machine.
pub(crate) const SHORT: Duration = Duration::from_secs(20);

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Looks until there is an answer; the last state that was seen instead of one is in the failure's message.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, longest: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Ok(answer) => return answer,
            Err(state) if start.elapsed() > longest => {
                panic!("{what}: not within {longest:?}; last seen: {state}")
            }
            Err(_) => std::thread::sleep(LOOK_AGAIN),
        }
    }
}

/// A machine that cannot run a test skips it; a machine whose word counts must not.
#[track_caller]
pub(crate) fn skip_or_fail(why: &str) {
    let counts = ["CI", "TOOLCELL_REQUIRE_DOCKER"].into_iter().find(|name| std::env::var_os(name).is_some());
    if let Some(name) = counts {
        panic!("{why}, and {name} is set");
    }
    eprintln!("skipped: {why}");
}
