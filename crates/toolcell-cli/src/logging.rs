//! Logs go to standard error; `TOOLCELL_LOG` sets the level, such as `debug` or `toolcell_runtime=debug`.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Installs the logger.
pub(crate) fn init(default_level: &str, json: bool) {
    let filter = EnvFilter::try_from_env("TOOLCELL_LOG").unwrap_or_else(|_| EnvFilter::new(default_level));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let builder = builder.with_ansi(std::io::stderr().is_terminal());
    // A second logger in one process cannot happen here; if it did, the first one would stay.
    let _ = if json { builder.json().try_init() } else { builder.with_target(false).try_init() };
}
