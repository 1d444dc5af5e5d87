//! A rule's own examples.

use super::content::Kind;
use super::error::{RuleError, shown};
use super::quoting::split;
use super::verdict::Match;
use super::{Rule, parts, path};
use crate::mode::Behavior;
use crate::shell::script::Word;

/// Why an example is none.
type Problem = &'static str;

/// Checks that the rule matches every one of `matching` and none of `not_matching`.
pub(super) fn check(rule: &Rule, matching: &[String], not_matching: &[String]) -> Result<(), RuleError> {
    let matching = matching.iter().map(|example| ("match", example, true, "which it does not match"));
    let not_matching = not_matching.iter().map(|example| ("not_match", example, false, "which it matches"));
    for (list, example, expected, lie) in matching.chain(not_matching) {
        let problem = match holds(rule, example) {
            Ok(matches) if matches == expected => continue,
            Ok(_) => lie,
            Err(problem) => problem,
        };
        return Err(RuleError::Example { rule: shown(rule.text()), list, example: shown(example), problem });
    }
    Ok(())
}

fn holds(rule: &Rule, example: &str) -> Result<bool, Problem> {
    let (tool, example) = match rule.exact_tool() {
        Some(tool) => (tool, Some(example)),
        None => parts(example).map_err(|_| "which is neither `tool(content)` nor a tool's name")?,
    };
    if !rule.matches_tool(tool) {
        return Ok(false);
    }
    let Some(content) = rule.content() else { return Ok(true) };
    let Some(example) = example else { return Err("which says nothing of the call's content; write `tool(content)`") };
    let strict = rule.behavior() != Behavior::Allow;
    let unreadable = |_: &RuleError| "which it cannot be compared with";
    match Kind::of(tool) {
        Kind::Command => {
            let words = split(example).map_err(|_| "in which a quote is not closed")?;
            let text = |word: Vec<super::quoting::Piece>| word.iter().map(|piece| piece.character).collect();
            let words: Vec<Word> = words.into_iter().map(|word| Word::Text(text(word))).collect();
            Ok(content.command().map_err(unreadable)?.matches(&words, strict) == Match::Yes)
        }
        Kind::Path => {
            let path = path::example(example).ok_or("which is not a path")?;
            let pattern = content.path().map_err(unreadable)?;
            Ok(if strict { pattern.covers(&path) } else { pattern.matches(&path) })
        }
        Kind::Host => Ok(content.host().map_err(unreadable)?.matches(example)),
        Kind::Fields => Ok(content.fields().map_err(unreadable)?.matches_example(example)),
    }
}
