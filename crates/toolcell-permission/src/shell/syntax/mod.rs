//! From the text of a script to its syntax.
//!
//! The grammar is a fence: a command that the reader does not see is a command that no rule sees. So two readers must
//! agree. The first one is ours, strict: it reads a subset of the grammar, of which it knows exactly what bash and
//! dash make of it, and turns everything else into a problem. The second one is the grammar of tree-sitter, lenient
//! but written by others: both must find the same commands at the same places. It is asked unless the text is a line of
//! plain words.
//!
//! Every function here has the same contract: after [`reader::Reader::stop`] the text looks as if it had ended, so all
//! loops end and each function gives what it has. That way the commands before a problem are known.

mod agreement;
mod ansi;
mod arithmetic;
mod backticks;
mod compound;
mod conditional;
mod expansion;
mod heredoc;
mod lists;
mod loops;
mod plain;
mod reader;
mod redirects;
mod simple;
#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test fails by a panic"
)]
mod tests;
mod words;

use super::ast::List;
use super::settings::Dialect;
use reader::Reader;

/// Longest script that is read. A longer one is a problem as a whole.
pub const MAX_SCRIPT_BYTES: usize = 64 * 1024;

/// How deep lists, substitutions and expansions may be nested. Deeper text is a problem; what surrounds it is kept.
pub const MAX_DEPTH: usize = 64;

/// Problems that are kept; the text is opaque after the first one, so later ones only explain more.
pub const MAX_PROBLEMS: usize = 8;

/// What the text of a script says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Syntax {
    /// The commands, as far as the text could be read.
    pub list: List,
    /// Why the text could not be read to its end, or what in it is not understood; at most [`MAX_PROBLEMS`]. Not
    /// empty: the list may lack commands, and a shell may understand it differently.
    pub problems: Vec<String>,
}

/// Reads a script.
#[must_use]
pub fn read(text: &str, dialect: Dialect) -> Syntax {
    if text.len() > MAX_SCRIPT_BYTES {
        let problem = format!("the script has {} bytes; at most {MAX_SCRIPT_BYTES} are read", text.len());
        return Syntax { list: List::new(), problems: vec![problem] };
    }
    let mut reader = Reader::new(text, dialect);
    if text.contains("<<") {
        // Where the bodies of here-documents are is known only after a first pass.
        reader.script();
        reader = reader.second_pass();
    }
    let list = reader.script();
    let (mut problems, starts) = reader.finish();
    if problems.is_empty()
        && !plain::is_plain(text)
        && let Err(problem) = agreement::check(text, starts)
    {
        problems.push(problem);
    }
    Syntax { list, problems }
}
