//! Paths among a declared tool's fields that a person is asked about.
//!
//! Nothing says which of its fields are paths, so every text of the input is taken for one: relative to where the tool
//! runs, as the program would.

use super::CustomToolError;
use serde_json::Value;
use toolcell_permission::ContainerPath;
use toolcell_permission::danger::is_dangerous;

/// What is dangerous besides what always is.
#[derive(Debug)]
pub(super) struct Danger {
    files: Vec<Vec<String>>,
    directories: Vec<Vec<String>>,
}

impl Danger {
    pub(super) fn new(files: &[String], directories: &[String]) -> Result<Self, CustomToolError> {
        let read = |key: &str, entries: &[String]| -> Result<Vec<_>, _> {
            entries.iter().map(|entry| components(key, entry)).collect()
        };
        Ok(Self { files: read("dangerous_files", files)?, directories: read("dangerous_directories", directories)? })
    }

    /// The first field that names such a path, and the path.
    pub(super) fn of(&self, input: &Value, cwd: &ContainerPath) -> Option<(String, ContainerPath)> {
        // As deep as the JSON parser lets an input be.
        match input {
            Value::String(text) => {
                let path = cwd.resolve(text).ok()?;
                self.holds(&path).then(|| ("input".to_owned(), path))
            }
            Value::Array(items) => items.iter().find_map(|item| self.of(item, cwd)),
            Value::Object(fields) => {
                fields.iter().find_map(|(name, value)| self.of(value, cwd).map(|(_, path)| (name.clone(), path)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    fn holds(&self, path: &ContainerPath) -> bool {
        let parts: Vec<&[u8]> = path.components().collect();
        let same = |names: &[String], parts: &[&[u8]]| {
            names.len() == parts.len()
                && names.iter().zip(parts).all(|(name, part)| part.eq_ignore_ascii_case(name.as_bytes()))
        };
        is_dangerous(path)
            || self.files.iter().any(|names| {
                parts
                    .len()
                    .checked_sub(names.len())
                    .and_then(|start| parts.get(start..))
                    .is_some_and(|end| same(names, end))
            })
            || self.directories.iter().any(|names| parts.windows(names.len()).any(|window| same(names, window)))
    }
}

/// `.ssh/config` → its components.
fn components(key: &str, entry: &str) -> Result<Vec<String>, CustomToolError> {
    let parts: Vec<&str> = entry.split('/').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() || parts.iter().any(|part| matches!(*part, "." | "..") || part.contains(['*', '\0'])) {
        let problem = format!("{entry:?} is not a name, or names joined by `/`, without `.`, `..` and `*`");
        return Err(CustomToolError::new(key, problem));
    }
    Ok(parts.into_iter().map(str::to_owned).collect())
}
