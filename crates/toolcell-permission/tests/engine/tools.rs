//! The built-in tools, as far as the engine sees them.

use crate::fixture::{Call, Command, LookedAt};
use serde_json::Value;
use toolcell_permission::{ContainerPath, Effect, ToolDescription};

/// What a built-in tool says of a call; a name that is not known is a custom tool's without content.
pub(crate) fn describe<'a>(tool: &'a str, input: &'a Value) -> Result<Box<dyn ToolDescription + 'a>, String> {
    let call = call(tool, input)?;
    Ok(Box::new(Call { input: input.clone(), ..call }))
}

fn call(tool: &str, input: &Value) -> Result<Call, String> {
    let text = |field: &str| match input.get(field) {
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(format!("`{field}` is not a string")),
        None => Err(format!("`{field}` is missing")),
    };
    let file = |read_only, fields: &[&str]| {
        let paths = fields.iter().map(|field| text(field)).collect::<Result<Vec<_>, _>>()?;
        let effect = if read_only { Effect::Read } else { Effect::Write };
        Ok(Call::new(tool, read_only, effect, &paths))
    };
    let nothing = |read_only, effect| {
        let call = Call::new(tool, read_only, effect, &[]);
        Ok(Call { looked_at: LookedAt::Nothing, ..call })
    };
    let or_workspace = |field| if input.get(field).is_some() { text(field) } else { Ok("/workspace") };
    match tool {
        "execute" => command(input),
        "read_file" | "list_files" => file(true, &["path"]),
        "glob_files" | "grep_files" => {
            text("pattern")?;
            Ok(Call::new(tool, true, Effect::Read, &[or_workspace("path")?]))
        }
        "write_file" | "edit_file" | "delete_file" | "make_dir" => file(false, &["path"]),
        "move_file" => file(false, &["from", "to"]),
        "process_list" | "process_output" => nothing(true, Effect::Read),
        "process_input" => Ok(Call { name: tool.to_owned(), ..Call::code("", text("data")?) }),
        "run_code" => Ok(Call::code(text("language")?, text("code")?)),
        _ => nothing(false, Effect::Execute),
    }
}

fn command(input: &Value) -> Result<Call, String> {
    let workspace = ContainerPath::workspace();
    let words = |words: &Vec<Value>| {
        let word = |word: &Value| word.as_str().map(str::to_owned).ok_or("`argv` has a word that is not a string");
        words.iter().map(word).collect::<Result<Vec<String>, _>>().map_err(str::to_owned)
    };
    let text = match (input.get("command"), input.get("argv")) {
        (Some(Value::String(text)), None) => Ok(text.clone()),
        (None, Some(Value::Array(argv))) => Err(words(argv)?),
        _ => return Err("one of `command` and `argv` is needed".to_owned()),
    };
    let cwd = match input.get("cwd").map(|cwd| cwd.as_str().unwrap_or_default()) {
        Some(cwd) => workspace.resolve(cwd).map_err(|error| format!("`cwd`: {error}"))?,
        None => workspace,
    };
    let env = input.get("env").and_then(Value::as_object);
    let env = env.map(|env| env.keys().cloned().collect()).unwrap_or_default();
    let stdin = input.get("stdin").and_then(Value::as_str).map(str::to_owned);
    Ok(Call { looked_at: LookedAt::Command(Command { text, cwd, env, stdin }), ..Call::execute() })
}
