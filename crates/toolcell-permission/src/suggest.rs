//! Rules that would answer a call which is asked about.

use crate::describe::Field;
use crate::mode::Behavior;
use crate::path::ContainerPath;
use crate::rule::{Rule, RuleSource, escape, quote};
use crate::shell::script::Word;
use serde::{Deserialize, Serialize};

/// Most suggestions of one call.
pub const MAX_SUGGESTIONS: usize = 3;

/// An allow rule that would answer the call, and what it would allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// The rule's text.
    pub rule: String,
    /// What it would allow, in words for a person.
    pub allows: String,
}

impl Suggestion {
    /// `None` where the text is no rule: one that is too long, or holds what a rule cannot.
    fn new(rule: String, allows: String) -> Option<Self> {
        Rule::parse(Behavior::Allow, RuleSource::Suggested, &rule).ok()?;
        Some(Self { rule, allows })
    }
}

/// A command that an allow rule has to match, and with how many of its words its family begins: the calls that are as
/// harmless as it. `None` if it has no such family.
pub type Asking<'a> = (&'a [Word], Option<usize>);

/// For the commands of a script that an allow rule has to match. For one command: exactly it, then its family. For
/// several: one rule for each, its family's or its own, which are needed together; none if there are more than
/// [`MAX_SUGGESTIONS`], or one of them cannot be told in a rule.
#[must_use]
pub fn for_command(commands: &[Asking<'_>]) -> Vec<Suggestion> {
    if let [(words, family)] = commands {
        return exact_command(words).into_iter().chain(command_family(words, *family)).collect();
    }
    let mut suggestions: Vec<Suggestion> = Vec::new();
    for (words, family) in commands {
        match command_family(words, *family).or_else(|| exact_command(words)) {
            Some(known) if suggestions.contains(&known) => {}
            Some(new) if suggestions.len() < MAX_SUGGESTIONS => suggestions.push(new),
            Some(_) | None => return Vec::new(),
        }
    }
    suggestions
}

fn exact_command(words: &[Word]) -> Option<Suggestion> {
    let words = quoted(words)?;
    Suggestion::new(format!("execute({words})"), format!("the command `{words}`, exactly"))
}

fn command_family(words: &[Word], family: Option<usize>) -> Option<Suggestion> {
    let words = quoted(words.get(..family?)?)?;
    Suggestion::new(format!("execute({words}:*)"), format!("every command that begins with `{words}`"))
}

/// `None` without words, and where one is not known.
fn quoted(words: &[Word]) -> Option<String> {
    let words: Option<Vec<String>> = words.iter().map(|word| quote(word.text()?)).collect();
    words.filter(|words| !words.is_empty()).map(|words| words.join(" "))
}

/// For a file tool's path: it, its directory, the tool. Never the root or all that lies directly in it.
#[must_use]
pub fn for_path(tool: &str, path: &ContainerPath) -> Vec<Suggestion> {
    let text = path.as_str().filter(|text| *text != "/");
    let exact = text.and_then(|text| {
        let allows = format!("`{tool}` on `{path}`, and on what lies beneath it if it is a directory");
        Suggestion::new(format!("{tool}({})", escape(text)), allows)
    });
    // The last component may be of any encoding; its directory can still be told.
    let directory = path.as_bytes().rsplitn(2, |byte| *byte == b'/').nth(1);
    let directory = directory.and_then(|bytes| std::str::from_utf8(bytes).ok()).filter(|text| !text.is_empty());
    let directory = directory.and_then(|text| {
        let allows = format!("`{tool}` on everything beneath `{}`", ContainerPath::parse(text).ok()?);
        Suggestion::new(format!("{tool}({}/**)", escape(text)), allows)
    });
    exact.into_iter().chain(directory).chain(for_tool(tool)).collect()
}

/// For a tool with fields: their values, then the tool.
#[must_use]
pub fn for_fields(tool: &str, fields: &[Field]) -> Vec<Suggestion> {
    let values: Option<Vec<String>> = fields
        .iter()
        .map(|field| {
            let value = escape(field.value.as_deref()?);
            Some(if field.name.is_empty() { value } else { format!("{}={value}", field.name) })
        })
        .collect();
    let exact = values.map(|values| values.join(",")).filter(|values| !values.is_empty());
    let exact = exact.and_then(|values| {
        Suggestion::new(format!("{tool}({values})"), format!("`{tool}` with the same values of what rules look at"))
    });
    exact.into_iter().chain(for_tool(tool)).collect()
}

/// For a connection to a host.
#[must_use]
pub fn for_host(host: &str) -> Vec<Suggestion> {
    let exact = Suggestion::new(format!("network({host})"), format!("connections to `{host}`"));
    exact.filter(|_| !host.contains('*')).into_iter().collect()
}

/// For a tool of which rules see nothing but the name. Nothing for `execute`: that would allow every command.
#[must_use]
pub fn for_tool(tool: &str) -> Vec<Suggestion> {
    let whole = (tool != "execute" && !tool.contains('*'))
        .then(|| Suggestion::new(tool.to_owned(), format!("every call of `{tool}`")));
    whole.flatten().into_iter().collect()
}
