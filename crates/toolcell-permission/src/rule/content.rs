//! What stands between a rule's parentheses. What it means depends on the tool that is called.

use super::command::CommandPattern;
use super::error::{RuleError, shown};
use super::fields::FieldPattern;
use super::host::HostPattern;
use super::path::PathPattern;

/// What the content of a tool's rules is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Command,
    Path,
    Host,
    Fields,
}

impl Kind {
    pub(super) fn of(tool: &str) -> Self {
        match tool {
            "execute" => Self::Command,
            "read_file" | "write_file" | "edit_file" | "list_files" | "glob_files" | "grep_files" | "move_file"
            | "delete_file" | "make_dir" => Self::Path,
            "network" => Self::Host,
            _ => Self::Fields,
        }
    }
}

/// A rule's content, read for every kind of call. Where the tool's name is a pattern it is not known which kind the
/// rule will meet, so what cannot be read is an error only when it does meet that kind: then a deny or ask rule matches,
/// and an allow rule does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleContent {
    command: Result<CommandPattern, RuleError>,
    path: Result<PathPattern, RuleError>,
    host: Result<HostPattern, RuleError>,
    fields: Result<FieldPattern, RuleError>,
}

impl RuleContent {
    pub(super) fn parse(rule: &str, content: &str) -> Self {
        let error = |problem: &'static str| RuleError::Content { rule: shown(rule), problem };
        Self {
            command: CommandPattern::parse(content).map_err(error),
            path: PathPattern::parse(content).map_err(error),
            host: HostPattern::parse(content).map_err(error),
            fields: FieldPattern::parse(content).map_err(error),
        }
    }

    /// The error for calls of this kind.
    pub(super) fn check(&self, kind: Kind) -> Result<(), RuleError> {
        match kind {
            Kind::Command => self.command().map(|_| ()),
            Kind::Path => self.path().map(|_| ()),
            Kind::Host => self.host().map(|_| ()),
            Kind::Fields => self.fields().map(|_| ()),
        }
        .map_err(RuleError::clone)
    }

    /// As a pattern for commands: calls of `execute`.
    ///
    /// # Errors
    /// Why it is none.
    pub fn command(&self) -> Result<&CommandPattern, &RuleError> {
        self.command.as_ref()
    }

    /// As a pattern for paths: calls of the file tools.
    ///
    /// # Errors
    /// Why it is none.
    pub fn path(&self) -> Result<&PathPattern, &RuleError> {
        self.path.as_ref()
    }

    /// As a pattern for hosts: `network`.
    ///
    /// # Errors
    /// Why it is none.
    pub fn host(&self) -> Result<&HostPattern, &RuleError> {
        self.host.as_ref()
    }

    /// As a pattern for fields: every other tool.
    ///
    /// # Errors
    /// Why it is none.
    pub fn fields(&self) -> Result<&FieldPattern, &RuleError> {
        self.fields.as_ref()
    }
}

/// Blanks at the ends are slips, and would make a rule that matches nothing.
pub(super) fn check_ends(content: &str) -> Result<(), &'static str> {
    let mut back = content.chars().rev();
    let ends_blank = back.next().is_some_and(char::is_whitespace) && back.next() != Some('\\');
    if ends_blank || content.starts_with(char::is_whitespace) {
        return Err("it begins or ends with a blank; remove it, or write `\\ ` if there really is one");
    }
    Ok(())
}
