//! The tools from outside: what they accept, what they say of a call, and the JSON of their outputs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap is the test's failure")]

mod contract;
mod custom;
mod description;
mod inputs;
mod outline;
mod outputs;

use serde_json::Value;
use toolcell_model::{CallFault, ToolName};
use toolcell_tools::{Catalogue, ParsedCall};

fn parse(tool: &str, input: Value) -> Result<ParsedCall, CallFault> {
    Catalogue::built_in().parse(&ToolName::parse(tool).unwrap(), &input)
}

/// The message of an input's fault.
fn refused(tool: &str, input: Value) -> String {
    let fault = parse(tool, input).unwrap_err();
    assert_eq!(fault.code, "invalid_input");
    fault.message
}
