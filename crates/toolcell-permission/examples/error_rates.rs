//! Prints both error rates of the shell analysis over the corpora of `tests/corpus/`: forbidden commands that were let
//! through, and everyday commands that were asked.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a corpus that cannot be read ends it")]
#![allow(clippy::print_stdout, reason = "what it is for")]
#![allow(dead_code, reason = "the tests use more of the shared modules")]

#[path = "../tests/corpus/call.rs"]
mod call;
#[path = "../tests/corpus/judge.rs"]
mod judge;

use judge::{Rates, Wrong};

fn main() {
    let rates = Rates::measure();
    println!("bypasses let through: {} of {}", rates.let_through.len(), rates.attempts);
    list(&rates.let_through);
    println!(
        "everyday commands asked: {} of {} = {:.1} %",
        rates.over_asked.len(),
        rates.everyday,
        rates.over_asked_percent()
    );
    list(&rates.over_asked);
    println!("commands that a person must see and did not: {}", rates.not_asked.len());
    list(&rates.not_asked);
    println!("\nattempts by family:");
    for (family, count) in &rates.families {
        println!("  {count:4} {family}");
    }
}

fn list(wrong: &[Wrong]) {
    for wrong in wrong {
        println!("  {wrong}");
    }
}
