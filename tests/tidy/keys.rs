//! The keys of the configuration, asked of the loader itself.
//!
//! Every section refuses unknown fields, and its refusal lists the fields that it knows. So a key that the code has and
//! a document has not cannot hide, and no second list has to be kept in step.

use std::collections::BTreeSet;
use toolcell_runtime::Config;

/// A name that no section knows.
const UNKNOWN: &str = "zz_unknown";

/// Loads a configuration from its text, with no environment.
pub(crate) fn load(text: &str) -> Result<Config, String> {
    load_over(text, &[])
}

/// Loads a configuration from its text, with these overrides.
pub(crate) fn load_over(text: &str, overrides: &[(&str, &str)]) -> Result<Config, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("toolcell.toml");
    std::fs::write(&path, text).unwrap();
    let overrides = overrides.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Config::load_with(Some(&path), overrides).map_err(|error| error.to_string())
}

/// Every key of the configuration as a dotted path, with `default` for an agent's name.
pub(crate) fn all() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    expand("", "", &mut keys);
    assert!(keys.len() > 30, "the loader's refusals are not understood any more: {keys:?}");
    keys
}

fn expand(path: &str, header: &str, keys: &mut BTreeSet<String>) {
    let Some(fields) = fields(header) else {
        keys.insert(path.to_owned());
        return;
    };
    for field in fields {
        let key = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
        // A list that takes plain words is one key, even where its items may be tables, too.
        let words = format!("{header}\n{field} = [\"word\"]\n");
        let table = [(key.clone(), format!("[{key}]")), (key.clone(), format!("[[{key}]]"))];
        let named = (format!("{key}.default"), format!("[{key}.default]"));
        let section = table.into_iter().chain([named]).find(|(_, header)| self::fields(header).is_some());
        match section {
            Some((path, header)) if load(&words).is_err() => expand(&path, &header, keys),
            Some(_) | None => {
                keys.insert(key);
            }
        }
    }
}

/// The fields of a section; `None` when there is no such section.
fn fields(header: &str) -> Option<Vec<String>> {
    let refusal = load(&format!("{header}\n{UNKNOWN} = 1\n")).err()?;
    let (_, expected) = refusal.split_once(&format!("unknown field `{UNKNOWN}`, expected "))?;
    // Every second piece stands between backticks.
    Some(expected.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}

#[test]
fn sections_lists_and_maps_are_told_apart() {
    let keys = all();
    for key in [
        "data_dir",
        "auth.mode",
        "agents.default.image",
        "agents.default.env",
        "agents.default.limits.memory",
        "agents.default.mounts.host",
        "agents.default.permissions.deny",
    ] {
        assert!(keys.contains(key), "{key} is not among {keys:?}");
    }
    for section in ["agents", "agents.default", "server", "agents.default.mounts", UNKNOWN] {
        assert!(!keys.contains(section), "{section}");
    }
}
