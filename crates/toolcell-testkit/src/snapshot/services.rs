//! Where the tests' real servers are.

/// The value of a variable that `scripts/lib/services start` gives. Without it the test is skipped, and says so; where
/// skipping is not allowed it fails.
#[must_use]
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "this is how tests are told where their servers are")]
#[allow(clippy::print_stderr, clippy::panic, reason = "a skipped test must be seen, and a forbidden skip fails")]
pub fn service(variable: &str) -> Option<String> {
    let found = std::env::var(variable).ok();
    if found.is_none() {
        let how = "eval \"$(scripts/lib/services start DIRECTORY)\"";
        let must = ["TOOLCELL_REQUIRE_SERVICES", "CI"].iter().any(|name| std::env::var_os(name).is_some());
        assert!(!must, "{variable} is not set, and this test must run: {how}");
        eprintln!("skipped: {variable} is not set; {how}");
    }
    found
}
