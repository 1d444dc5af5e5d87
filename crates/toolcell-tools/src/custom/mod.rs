//! Tools that an operator declares: a program with an argv template.
//!
//! A field of the input becomes a word of its own or a part of one, or all of the input goes to standard input as JSON;
//! nothing is ever spliced into shell text. What the operator presets is merged after the model's input and wins; the
//! model neither sets nor sees it.

mod danger;
mod schema;
mod template;

use crate::catalogue::ToolInfo;
use crate::describe::RESERVED;
use crate::execute::{self, ExecuteInput, MAX_STDIN_BYTES, MAX_TIMEOUT_MS, Program};
use crate::fault::FaultCode;
use crate::fields::{invalid, shorten};
use danger::Danger;
use schema::Schema;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use template::Template;
use toolcell_model::CallFault;
use toolcell_permission::{ContainerPath, Field, InputDigest};

/// Longest name of a tool: what the interfaces of models take.
pub const MAX_NAME_BYTES: usize = 64;

/// A tool as the configuration declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomToolSpec {
    /// Its name: letters, digits, `_` and `-`.
    pub name: String,
    /// What it does, in words for a model.
    pub description: String,
    /// JSON schema of the input, an object; with or without the preset fields.
    pub input_schema: Value,
    /// The program and its words. `{field}` stands for a field's value; `{{` and `}}` for braces.
    pub argv: Vec<String>,
    /// The merged input is given to standard input as JSON.
    pub json_stdin: bool,
    /// It changes nothing, whatever its input.
    pub read_only: bool,
    /// Calls of it may run beside others.
    pub concurrency_safe: bool,
    /// What the content of rules looks at: a JSON pointer.
    pub rule_field: Option<String>,
    /// The same for several fields, by the names that rules call them.
    pub rule_fields: BTreeMap<String, String>,
    /// Files besides the usual ones that a person is asked about: names, or ends of paths.
    pub dangerous_files: Vec<String>,
    /// Directories besides the usual ones that a person is asked about, with what is in them.
    pub dangerous_directories: Vec<String>,
    /// Fields that the operator sets.
    pub presets: Map<String, Value>,
    /// After this time the whole process tree is stopped.
    pub timeout_ms: Option<u64>,
    /// Where it runs; the workspace without.
    pub cwd: Option<ContainerPath>,
}

/// Why a declaration is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct CustomToolError {
    /// The key to change.
    pub field: String,
    /// What is wrong and what to write instead.
    pub problem: String,
}

impl CustomToolError {
    pub(crate) fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }
}

/// A declared tool, ready to check inputs.
#[derive(Debug)]
pub struct CustomTool {
    spec: CustomToolSpec,
    schema: Schema,
    argv: Template,
    danger: Danger,
    /// What rules call a field, and where it is.
    fields: Vec<(String, String)>,
}

/// A valid input: what will run, and what the engine is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomInput {
    pub(crate) tool: String,
    pub(crate) read_only: bool,
    pub(crate) concurrency_safe: bool,
    pub(crate) fields: Vec<Field>,
    /// Why a person must be asked.
    pub(crate) objection: Option<String>,
    merged: Value,
    run: ExecuteInput,
}

impl CustomTool {
    /// Checks a declaration.
    ///
    /// # Errors
    /// [`CustomToolError`], which names the key.
    pub fn new(spec: CustomToolSpec) -> Result<Self, CustomToolError> {
        check_name(&spec.name)?;
        let refuse = |field: &str, problem: String| Err(CustomToolError::new(field, problem));
        if spec.description.trim().is_empty() {
            return refuse("description", "is empty; a model chooses a tool by it".to_owned());
        }
        if spec.timeout_ms.is_some_and(|timeout| !(1..=MAX_TIMEOUT_MS).contains(&timeout)) {
            return refuse("timeout_ms", format!("must lie between 1 and {MAX_TIMEOUT_MS}"));
        }
        let presets: BTreeSet<&str> = spec.presets.keys().map(String::as_str).collect();
        let schema = Schema::new(&spec.input_schema, &presets)?;
        let argv = Template::parse(&spec.argv)?;
        let known = |field: &str| presets.contains(field) || schema.has(field);
        if let Some(unknown) = argv.fields().find(|field| !known(field)) {
            let problem = format!("`{{{unknown}}}` is neither a property of input_schema nor a preset");
            return refuse("argv", problem);
        }
        let fields = rule_fields(&spec, &schema)?;
        let danger = Danger::new(&spec.dangerous_files, &spec.dangerous_directories)?;
        Ok(Self { schema, argv, danger, fields, spec })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    pub(crate) fn info(&self) -> ToolInfo {
        ToolInfo {
            name: self.spec.name.clone().into(),
            description: self.spec.description.clone().into(),
            input_schema: self.schema.served().clone(),
            read_only: self.spec.read_only,
            concurrency_safe: self.spec.concurrency_safe,
        }
    }

    /// Checks the model's input and merges the presets into it.
    pub(crate) fn parse(&self, input: &Value) -> Result<CustomInput, CallFault> {
        let Value::Object(given) = input else {
            return Err(FaultCode::InvalidInput.with("input: expected an object"));
        };
        if let Some(preset) = given.keys().find(|name| self.spec.presets.contains_key(*name)) {
            return Err(invalid(&shorten(preset), "is preset by the operator; leave it out"));
        }
        self.schema.check(input)?;
        let mut merged = given.clone();
        merged.extend(self.spec.presets.clone());
        let words = execute::argv(&self.argv.words(&merged)?)?;
        let fields =
            self.fields.iter().map(|(name, pointer)| field(&merged, name, pointer)).collect::<Result<_, _>>()?;
        let cwd = self.spec.cwd.clone().unwrap_or_else(ContainerPath::workspace);
        let merged = Value::Object(merged);
        let stdin = self.spec.json_stdin.then(|| merged.to_string());
        if stdin.as_ref().is_some_and(|text| text.len() > MAX_STDIN_BYTES) {
            return Err(FaultCode::InvalidInput.with(format!("input: has more than {MAX_STDIN_BYTES} bytes as JSON")));
        }
        let objection = self.danger.of(&merged, &cwd).map(|(place, path)| {
            format!(
                "A person must approve access to `{path}`, which `{place}` names: it may hold secrets or run commands."
            )
        });
        Ok(CustomInput {
            tool: self.spec.name.clone(),
            read_only: self.spec.read_only,
            concurrency_safe: self.spec.concurrency_safe,
            fields,
            objection,
            merged,
            run: ExecuteInput {
                program: Program::Argv(words),
                cwd,
                env: BTreeMap::new(),
                stdin,
                timeout_ms: self.spec.timeout_ms,
            },
        })
    }
}

impl CustomInput {
    /// The merged input, and what becomes of it: a declaration that changes makes another call of the same input.
    pub(crate) fn digest(&self) -> InputDigest {
        let words = match &self.run.program {
            Program::Argv(words) => json!(words),
            Program::Shell(text) => json!(text),
        };
        InputDigest::of(&json!({
            "input": self.merged,
            "argv": words,
            "cwd": self.run.cwd.to_string(),
            "stdin": self.run.stdin.is_some(),
            "timeout_ms": self.run.timeout_ms,
        }))
    }

    /// What runs.
    #[must_use]
    pub fn into_execute(self) -> ExecuteInput {
        self.run
    }

    /// What runs.
    #[must_use]
    pub fn execute(&self) -> &ExecuteInput {
        &self.run
    }
}

fn check_name(name: &str) -> Result<(), CustomToolError> {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !plain {
        let problem = format!("{name:?} is not a name of 1 to {MAX_NAME_BYTES} letters, digits, `_` or `-`");
        return Err(CustomToolError::new("name", problem));
    }
    if RESERVED.contains(&name) {
        return Err(CustomToolError::new("name", format!("{name:?} is the name of a built-in tool")));
    }
    Ok(())
}

/// What rules look at. A field that a model could give as a list or an object would slip through a pattern for texts.
fn rule_fields(spec: &CustomToolSpec, schema: &Schema) -> Result<Vec<(String, String)>, CustomToolError> {
    let one = spec.rule_field.iter().map(|pointer| ("rule_field", String::new(), pointer));
    let several = spec.rule_fields.iter().map(|(name, pointer)| ("rule_fields", name.clone(), pointer));
    if spec.rule_field.is_some() && !spec.rule_fields.is_empty() {
        return Err(CustomToolError::new("rule_fields", "give either `rule_field` or `rule_fields`, not both"));
    }
    one.chain(several)
        .map(|(key, name, pointer)| {
            let named = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if key == "rule_fields" && (name.is_empty() || !named) {
                return Err(CustomToolError::new(key, format!("{name:?} is not a name of letters, digits or `_`")));
            }
            let known = match spec.presets.get(pointer.trim_start_matches('/')) {
                Some(preset) => scalar(preset).is_some(),
                None => schema.is_scalar(pointer),
            };
            if !known {
                let problem = format!(
                    "{pointer:?} must point, as in \"/env\", to a property of input_schema whose type is \"string\", \
                     \"integer\", \"number\" or \"boolean\""
                );
                return Err(CustomToolError::new(key, problem));
            }
            Ok((name, pointer.clone()))
        })
        .collect()
}

fn field(merged: &Map<String, Value>, name: &str, pointer: &str) -> Result<Field, CallFault> {
    let mut steps = pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    let first = steps.next().and_then(|step| merged.get(&step));
    let found = steps.try_fold(first, |value, step| match value {
        Some(Value::Object(fields)) => Some(fields.get(&step)),
        _ => None,
    });
    let value = match found.flatten() {
        None | Some(Value::Null) => None,
        Some(value) => match scalar(value) {
            Some(text) => Some(text),
            None => {
                let place = pointer.trim_start_matches('/').replace('/', ".");
                return Err(invalid(&place, "expected a single value: rules look at it"));
            }
        },
    };
    Ok(Field { name: name.to_owned(), value })
}

/// A single value as text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
