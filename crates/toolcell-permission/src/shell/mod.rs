//! Shell analysis: what a script runs, as far as its text tells.

pub mod ast;
pub mod facts;
pub mod script;
pub mod settings;
pub mod syntax;

use facts::{Facts, PathUse};
use script::Script;

/// A command of `execute`, analysed: what it runs, and what is known of that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Analysis {
    /// What it runs.
    pub script: Script,
    /// What is known of each of [`Script::commands`], in their order.
    pub facts: Vec<Facts>,
    /// The files that each of their redirections opens, in their order; `/dev/null` and descriptors are left out.
    pub redirects: Vec<Vec<PathUse>>,
}
