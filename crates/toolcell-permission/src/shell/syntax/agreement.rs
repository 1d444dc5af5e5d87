//! The second reader: both must find the same commands.

use std::cell::RefCell;
use std::ops::ControlFlow;
use tree_sitter::{Node, ParseOptions, ParseState, Parser};

/// Bytes of text for each report of progress that the second parser may make, one for some hundred steps. Usual text
/// needs one for 25 to 70 bytes, but some takes a time that grows with the square of its length: beyond this bound a
/// text is a problem.
const BYTES_PER_PROGRESS: usize = 8;

/// Reports of progress that any text may take.
const PROGRESS: usize = 100;

thread_local! {
    static PARSER: RefCell<Option<Parser>> = RefCell::new(parser());
}

fn parser() -> Option<Parser> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    Some(parser)
}

/// Whether the other reader finds commands at `starts` and nowhere else.
pub(super) fn check(text: &str, mut starts: Vec<usize>) -> Result<(), String> {
    let mut theirs = PARSER.with_borrow_mut(|parser| {
        let parser = parser.as_mut().ok_or("the second parser cannot be loaded: build it anew".to_owned())?;
        commands(parser, text, (text.len() / BYTES_PER_PROGRESS).saturating_add(PROGRESS))
    })?;
    starts.sort_unstable();
    starts.dedup();
    theirs.sort_unstable();
    theirs.dedup();
    if starts == theirs {
        return Ok(());
    }
    let only_one = |of: &[usize], other: &[usize]| of.iter().copied().find(|at| other.binary_search(at).is_err());
    let at = only_one(&starts, &theirs).or_else(|| only_one(&theirs, &starts)).unwrap_or_default();
    Err(format!("a command at byte {at} is read differently by two parsers"))
}

/// Where commands begin; `left` reports of progress may be made until they are found.
fn commands(parser: &mut Parser, text: &str, mut left: usize) -> Result<Vec<usize>, String> {
    let mut progress = |_: &ParseState| match left.checked_sub(1) {
        Some(less) => {
            left = less;
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break(()),
    };
    // Its scanner looks characters up in C's tables, which end long before the last one: a text with others makes it
    // read beyond them. To both readers they are parts of words and of nothing else, as a dot is.
    let ascii: Vec<u8> = text.bytes().map(|byte| if byte.is_ascii() { byte } else { b'.' }).collect();
    let bytes = ascii.as_slice();
    let mut input = |at: usize, _| bytes.get(at..).unwrap_or_default();
    let options = ParseOptions::new().progress_callback(&mut progress);
    let tree = parser.parse_with_options(&mut input, None, Some(options));
    // A parser that gave up would go on with the same text at the next call.
    parser.reset();
    let tree = tree.ok_or("the second parser takes too long")?;
    let root = tree.root_node();
    if root.has_error() {
        return Err("the second parser does not understand it".to_owned());
    }
    let mut starts = Vec::new();
    let mut cursor = root.walk();
    loop {
        starts.extend(command_start(&cursor.node()));
        if cursor.goto_first_child() || cursor.goto_next_sibling() {
            continue;
        }
        loop {
            if !cursor.goto_parent() {
                return Ok(starts);
            }
            if cursor.goto_next_sibling() {
                break;
            }
        }
    }
}

/// Where a command begins, if the node is one.
fn command_start(node: &Node<'_>) -> Option<usize> {
    match node.kind() {
        "command" => {
            let mut cursor = node.walk();
            let found = node.children(&mut cursor).find(|child| !child.kind().ends_with("_redirect"));
            found.map(|child| child.start_byte())
        }
        "declaration_command" | "unset_command" | "test_command" | "variable_assignments" => Some(node.start_byte()),
        "variable_assignment" => {
            let parent = node.parent()?;
            let is_command = !matches!(
                parent.kind(),
                "command"
                    | "declaration_command"
                    | "variable_assignments"
                    | "arithmetic_expansion"
                    | "c_style_for_statement"
                    | "test_command"
                    | "binary_expression"
                    | "parenthesized_expression"
            );
            is_command.then(|| node.start_byte())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is the test's failure")]
    use super::*;

    #[test]
    fn a_parser_that_takes_too_long_is_stopped_and_can_be_used_again() {
        let mut parser = parser().unwrap();
        let long = "a; ".repeat(2000);
        assert_eq!(commands(&mut parser, &long, 3), Err("the second parser takes too long".to_owned()));
        assert_eq!(commands(&mut parser, "a; b", 3), Ok(vec![0, 3]));
        assert_eq!(commands(&mut parser, &long, 2000).unwrap().len(), 2000);
    }
}
