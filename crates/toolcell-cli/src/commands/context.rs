//! What `run` and `call` share: the configuration, and who does the call.

use super::which::encoded;
use crate::cli::{ConfigArgs, ContextArgs, ServerArgs};
use crate::client::Server;
use crate::failure::Failure;
use serde_json::{Value, json};
use std::path::PathBuf;
use toolcell_runtime::{Config, Role, Runtime};
use toolcell_server::auth::admin_key_path;

/// Who does the call.
#[derive(Debug)]
pub(crate) enum Backend {
    /// A server.
    Server(Server),
    /// This process.
    Embedded(Runtime),
}

/// The configured file, or the usual one where it exists.
pub(crate) fn load(args: &ConfigArgs) -> Result<Config, Failure> {
    let path = args.config.clone().or_else(usual_file);
    Config::load(path.as_deref()).map_err(|error| Failure::of("the configuration is not valid", &error))
}

fn usual_file() -> Option<PathBuf> {
    let path = std::env::home_dir()?.join(".config/toolcell/toolcell.toml");
    path.exists().then_some(path)
}

/// `--server`, else the server that holds the data directory, else this process.
pub(crate) async fn backend(config: Config, args: &ServerArgs) -> Result<Backend, Failure> {
    if let Some(url) = &args.server {
        let own_key = || std::fs::read_to_string(admin_key_path(&config.data_dir)).ok();
        let key = args.key.clone().or_else(own_key).map(|key| key.trim().to_owned());
        return Ok(Backend::Server(Server::at(url, key)?));
    }
    if let Some(server) = Server::of_data_dir(&config.data_dir).await {
        return Ok(Backend::Server(server));
    }
    Ok(Backend::Embedded(Runtime::open(config, Role::Embedded).await?))
}

/// The query that names the slot of a call.
pub(crate) fn query(context: &ContextArgs) -> String {
    let mut query = format!("agent={}", encoded(&context.agent));
    for (name, value) in [("user", &context.user), ("session", &context.session)] {
        if let Some(value) = value {
            query.push_str(&format!("&{name}={}", encoded(value)));
        }
    }
    query
}

/// A request with one call.
pub(crate) fn request(context: &ContextArgs, id: Option<&str>, tool: &str, input: Value) -> Value {
    let mut call = json!({ "tool": tool, "input": input });
    if let (Some(id), Some(fields)) = (id, call.as_object_mut()) {
        fields.insert("id".to_owned(), json!(id));
    }
    json!({
        "context": { "agent": context.agent, "session": context.session, "user": context.user },
        "calls": [call],
    })
}

/// The one result of a batch of one.
pub(crate) fn only_result(mut batch: Value) -> Result<Value, Failure> {
    let result = batch.get_mut("results").and_then(|results| results.get_mut(0)).map(Value::take);
    result.ok_or_else(|| Failure::new("the answer has no result", batch.to_string()))
}
