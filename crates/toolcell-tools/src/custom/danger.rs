//! Paths among a declared tool's fields that a person is asked about.
//!
//! Nothing says which of its fields are paths, so every text of the input is taken for one: relative to where the tool
//! runs, as the program would.

use super::CustomToolError;
use serde_json::Value;
use toolcell_permission::ContainerPath;
use toolcell_permission::danger::Dangers;

/// What is dangerous besides what always is.
#[derive(Debug)]
pub(super) struct Danger(Dangers);

impl Danger {
    pub(super) fn new(files: &[String], directories: &[String]) -> Result<Self, CustomToolError> {
        check("dangerous_files", files)?;
        check("dangerous_directories", directories)?;
        Ok(Self(Dangers::with(files, directories)))
    }

    /// The first field that names such a path, and the path.
    pub(super) fn of(&self, input: &Value, cwd: &ContainerPath) -> Option<(String, ContainerPath)> {
        // As deep as the JSON parser lets an input be.
        match input {
            Value::String(text) => {
                let path = cwd.resolve(text).ok()?;
                self.0.is_dangerous(&path).then(|| ("input".to_owned(), path))
            }
            Value::Array(items) => items.iter().find_map(|item| self.of(item, cwd)),
            Value::Object(fields) => {
                fields.iter().find_map(|(name, value)| self.of(value, cwd).map(|(_, path)| (name.clone(), path)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }
}

/// Each is a name, or names joined by `/`.
fn check(key: &str, entries: &[String]) -> Result<(), CustomToolError> {
    for entry in entries {
        let mut parts = entry.split('/').filter(|part| !part.is_empty()).peekable();
        if parts.peek().is_none() || parts.any(|part| matches!(part, "." | "..") || part.contains(['*', '\0'])) {
            let problem = format!("{entry:?} is not a name, or names joined by `/`, without `.`, `..` and `*`");
            return Err(CustomToolError::new(key, problem));
        }
    }
    Ok(())
}
