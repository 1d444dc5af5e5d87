//! What `slots` and `snapshots` share: which slot is meant, and who does the work.

use super::context::{Backend, backend, load};
use crate::cli::{ConfigArgs, ServerArgs, WhichArgs};
use crate::client::Server;
use crate::failure::Failure;
use crate::{logging, progress};
use serde_json::{Value, json};
use toolcell_runtime::Runtime;
use toolcell_server::InProcess;

/// Who does the work: a server, or this process as one.
#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) server: Server,
    runtime: Option<Runtime>,
}

/// A slot and perhaps a snapshot, as they were named.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    slot: Option<String>,
    pub(crate) snapshot: Option<String>,
}

impl Operator {
    pub(crate) async fn begin(config: &ConfigArgs, args: &ServerArgs) -> Result<Self, Failure> {
        logging::init("warn", false);
        Ok(match backend(load(config)?, args).await? {
            Backend::Server(server) => Self { server, runtime: None },
            Backend::Embedded(runtime) => {
                Self { server: Server::Here(InProcess::new(runtime.clone())), runtime: Some(runtime) }
            }
        })
    }

    /// Ends what was begun, whatever became of the work.
    pub(crate) async fn end<T>(self, done: Result<T, Failure>) -> Result<T, Failure> {
        if let Some(runtime) = self.runtime {
            runtime.shutdown().await;
        }
        done
    }

    /// Posts a request that may take long.
    pub(crate) async fn post(&self, slot: &str, action: &str, body: &Value) -> Result<Value, Failure> {
        let path = format!("/v1/slots/{slot}/{action}");
        let posted = async { self.server.post(&path, body).await?.json().await };
        progress::while_waiting(posted, async || self.activity(slot).await).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.server.get(path).await?.json().await
    }

    /// What the slot is busy with, in words.
    pub(crate) async fn activity(&self, slot: &str) -> Option<String> {
        activity(&self.server, &format!("slot={slot}")).await
    }

    /// The key of the slot that is meant. With `make` it becomes known if it was not.
    pub(crate) async fn slot(&self, which: &WhichArgs, names: &Names, make: bool) -> Result<String, Failure> {
        if let Some(slot) = &names.slot {
            return Ok(slot.clone());
        }
        let found = if make {
            let Some(agent) = &which.agent else { return Err(no_slot()) };
            let body = json!({ "agent": agent, "user": which.user, "session": which.session, "scope": which.scope });
            self.server.post("/v1/slots", &body).await?.json().await?
        } else {
            let Some(query) = identity(which) else { return Err(no_slot()) };
            let mut page = self.get(&format!("/v1/slots?{query}")).await?;
            page.pointer_mut("/items/0").map(Value::take).ok_or_else(|| {
                Failure::new("there is no such slot", "no call of this identity has been made")
                    .hint("`toolcell slots list` shows what there is")
            })?
        };
        let key = found.get("key").and_then(Value::as_str).map(str::to_owned);
        key.ok_or_else(|| Failure::new("the server's answer cannot be used", "a slot has no key"))
    }
}

fn no_slot() -> Failure {
    Failure::new("no slot is named", "give its key, or --agent with --user or --session as its calls do")
        .hint("`toolcell slots list` shows what there is")
}

/// What is being done for a slot, in words; nothing where that cannot be told.
pub(crate) async fn activity(server: &Server, query: &str) -> Option<String> {
    let answer = server.get(&format!("/v1/activity?{query}")).await.ok()?;
    let activity = answer.json().await.ok()?;
    let phase = activity.get("phase").and_then(Value::as_str)?;
    let seconds = activity.get("for_ms").and_then(Value::as_u64).unwrap_or_default() / 1000;
    let mut line = phase.to_owned();
    let count = |name: &str| activity.get(name).and_then(Value::as_u64).filter(|count| *count > 0);
    if let Some(files) = count("files") {
        line.push_str(&format!(", {files} files"));
    }
    match (count("bytes"), count("total_bytes")) {
        (Some(bytes), Some(total)) => {
            line.push_str(&format!(", {} of {}", crate::table::bytes(bytes), crate::table::bytes(total)));
        }
        (Some(bytes), None) => line.push_str(&format!(", {}", crate::table::bytes(bytes))),
        (None, _) => {}
    }
    line.push_str(&format!(", {seconds} s"));
    Some(line)
}

/// The query that names a slot by whom it is for.
pub(crate) fn identity(which: &WhichArgs) -> Option<String> {
    let mut query = format!("agent={}", encoded(which.agent.as_deref()?));
    for (name, value) in [("user", &which.user), ("session", &which.session), ("scope", &which.scope)] {
        if let Some(value) = value {
            query.push_str(&format!("&{name}={}", encoded(value)));
        }
    }
    Some(query)
}

/// For a query: everything but letters and digits in percent form.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Slot and snapshot, told apart by how they begin.
pub(crate) fn names(which: &WhichArgs) -> Result<Names, Failure> {
    let mut found = Names::default();
    let refused = |why: String| Failure::new("the names cannot be used", why);
    for name in &which.names {
        let place = if name.starts_with("snap_") {
            &mut found.snapshot
        } else if name.starts_with("s1") {
            &mut found.slot
        } else {
            return Err(refused(format!("{name:?} is neither a slot (s1…) nor a snapshot (snap_…)")));
        };
        if place.replace(name.clone()).is_some() {
            return Err(refused(format!("{name:?} is one too many")));
        }
    }
    if found.slot.is_some() && which.agent.is_some() {
        return Err(refused("a key and --agent both name a slot".to_owned()));
    }
    Ok(found)
}

/// Prints an answer as it came.
pub(crate) fn print_json(value: &Value) {
    println!("{}", serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_holds_any_name() {
        assert_eq!(encoded("a b&c=ü"), "a%20b%26c%3D%C3%BC");
    }
}
