//! `[[agents.NAME.custom_tools]]`

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use toolcell_permission::ContainerPath;
use toolcell_tools::{CustomTool, CustomToolError, CustomToolSpec};

/// A tool that the operator declares.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomToolConfig {
    /// Its name.
    pub name: String,
    /// For models.
    pub description: String,
    /// JSON schema of its input.
    #[serde(deserialize_with = "json_object")]
    pub input_schema: Map<String, Value>,
    /// Program and words, with `{field}` for a field's value.
    pub argv: Vec<String>,
    /// What its standard input gets.
    #[serde(default)]
    pub stdin: CustomStdin,
    /// It changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Calls of it may run beside others.
    #[serde(default)]
    pub concurrency_safe: bool,
    /// What the content of its rules looks at.
    #[serde(default)]
    pub rule_field: Option<String>,
    /// The same for several fields.
    #[serde(default, deserialize_with = "pointers")]
    pub rule_fields: BTreeMap<String, String>,
    /// Files besides the usual ones that a person is asked about.
    #[serde(default)]
    pub dangerous_files: Vec<String>,
    /// Directories besides the usual ones that a person is asked about.
    #[serde(default)]
    pub dangerous_directories: Vec<String>,
    /// Fields that the operator sets.
    #[serde(default, deserialize_with = "json_object")]
    pub presets: Map<String, Value>,
    /// Its calls end after this time.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Where it runs; the workspace without.
    #[serde(default, deserialize_with = "super::agent::optional_path")]
    pub cwd: Option<ContainerPath>,
}

/// What a tool's standard input gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CustomStdin {
    /// Nothing: it is closed.
    #[default]
    None,
    /// The input, with what is preset, as JSON.
    Json,
}

impl CustomToolConfig {
    /// The tool.
    ///
    /// # Errors
    /// [`CustomToolError`], which names the key.
    pub fn tool(&self) -> Result<CustomTool, CustomToolError> {
        CustomTool::new(CustomToolSpec {
            name: self.name.clone(),
            description: self.description.clone(),
            input_schema: Value::Object(self.input_schema.clone()),
            argv: self.argv.clone(),
            json_stdin: self.stdin == CustomStdin::Json,
            read_only: self.read_only,
            concurrency_safe: self.concurrency_safe,
            rule_field: self.rule_field.clone(),
            rule_fields: self.rule_fields.clone(),
            dangerous_files: self.dangerous_files.clone(),
            dangerous_directories: self.dangerous_directories.clone(),
            presets: self.presets.clone(),
            timeout_ms: self.timeout_ms,
            cwd: self.cwd.clone(),
        })
    }
}

/// What TOML has and JSON has not.
const TOML_TIME: &str = "$__toml_private_datetime";

/// One value, checked by itself, so that an error names its line.
struct Json(Value);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        if has_time(&value) { Err(serde::de::Error::custom(NO_TIME)) } else { Ok(Self(value)) }
    }
}

const NO_TIME: &str = "a time is no value of JSON; write it as a string";

fn json_object<'de, D: Deserializer<'de>>(from: D) -> Result<Map<String, Value>, D::Error> {
    let object = BTreeMap::<String, Json>::deserialize(from)?;
    if object.contains_key(TOML_TIME) {
        return Err(serde::de::Error::custom(NO_TIME));
    }
    Ok(object.into_iter().map(|(name, Json(value))| (name, value)).collect())
}

/// A time comes as a map, too.
fn pointers<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let pointers = BTreeMap::<String, String>::deserialize(from)?;
    if pointers.contains_key(TOML_TIME) {
        return Err(serde::de::Error::custom("a time is no table of names and JSON pointers"));
    }
    Ok(pointers)
}

fn has_time(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.contains_key(TOML_TIME) || fields.values().any(has_time),
        Value::Array(items) => items.iter().any(has_time),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
