//! The JSON schema of a declared tool's input.

use super::CustomToolError;
use crate::fault::FaultCode;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use std::collections::BTreeSet;
use toolcell_model::CallFault;

/// Most characters of a validator's words that a fault repeats.
const SHOWN_CHARS: usize = 200;

/// A schema as it is served, and what checks an input by it.
#[derive(Debug)]
pub(super) struct Schema {
    served: Value,
    validator: Validator,
}

impl Schema {
    /// Without the preset fields, which the model neither sets nor sees.
    pub(super) fn new(schema: &Value, presets: &BTreeSet<&str>) -> Result<Self, CustomToolError> {
        let refuse = |problem: String| CustomToolError::new("input_schema", problem);
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(refuse("its `type` must be \"object\": an input is an object of fields".to_owned()));
        }
        let mut served = schema.clone();
        if let Some(properties) = served.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|name, _| !presets.contains(name.as_str()));
        }
        if let Some(required) = served.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| !name.as_str().is_some_and(|name| presets.contains(name)));
        }
        // Patterns meet a model's texts: this engine takes linear time for all of them.
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        let validator = options.build(&served).map_err(|error| {
            let place = error.instance_path().to_string();
            refuse(format!(
                "{}{}",
                if place.is_empty() { place } else { format!("{place}: ") },
                shorten(&error.to_string())
            ))
        })?;
        Ok(Self { served, validator })
    }

    pub(super) fn served(&self) -> &Value {
        &self.served
    }

    /// Whether it declares a field of this name.
    pub(super) fn has(&self, field: &str) -> bool {
        self.served.get("properties").is_some_and(|properties| properties.get(field).is_some())
    }

    /// Whether this place of an input is declared as a single value.
    pub(super) fn is_scalar(&self, pointer: &str) -> bool {
        let Some(steps) = pointer.strip_prefix('/') else { return false };
        let mut place = Some(&self.served);
        for step in steps.split('/') {
            let name = step.replace("~1", "/").replace("~0", "~");
            place = place.and_then(|schema| schema.get("properties")).and_then(|properties| properties.get(name));
        }
        let kind = place.and_then(|schema| schema.get("type")).and_then(Value::as_str);
        matches!(kind, Some("string" | "integer" | "number" | "boolean"))
    }

    pub(super) fn check(&self, input: &Value) -> Result<(), CallFault> {
        let Err(error) = self.validator.validate(input) else { return Ok(()) };
        let path = error.instance_path().to_string();
        let mut place = "input".to_owned();
        for step in path.split('/').skip(1) {
            if step.bytes().all(|byte| byte.is_ascii_digit()) {
                place.push_str(&format!("[{step}]"));
            } else {
                place.push('.');
                place.push_str(&step.chars().take(40).collect::<String>());
            }
        }
        Err(FaultCode::InvalidInput.with(format!("{place}: {}", shorten(&error.to_string()))))
    }
}

fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
