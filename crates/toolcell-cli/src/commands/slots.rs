//! `toolcell slots`

use super::which::{Operator, identity, names, print_json};
use crate::cli::{ConfigArgs, SlotsArgs, SlotsCommand, WhichArgs};
use crate::failure::Failure;
use crate::table::{bytes, cell, number, table, time};
use hyper::Method;
use serde_json::{Value, json};
use std::process::ExitCode;
use toolcell_server::Body;

pub(crate) async fn run(config: &ConfigArgs, args: SlotsArgs) -> Result<ExitCode, Failure> {
    let (SlotsCommand::List(which)
    | SlotsCommand::Show(which)
    | SlotsCommand::Stop(which)
    | SlotsCommand::Delete(which)) = &args.command;
    let operator = Operator::begin(config, &which.server).await?;
    let done = match &args.command {
        SlotsCommand::List(which) => list(&operator, which).await,
        SlotsCommand::Show(which) => show(&operator, which).await,
        SlotsCommand::Stop(which) => stop(&operator, which).await,
        SlotsCommand::Delete(which) => delete(&operator, which).await,
    };
    operator.end(done).await
}

async fn list(operator: &Operator, which: &WhichArgs) -> Result<ExitCode, Failure> {
    let mut items = Vec::new();
    let mut query = identity(which).unwrap_or_else(|| "limit=200".to_owned());
    loop {
        let mut page = operator.get(&format!("/v1/slots?{query}")).await?;
        if let Some(Value::Array(more)) = page.get_mut("items").map(Value::take) {
            items.extend(more);
        }
        match page.get("next").and_then(Value::as_str) {
            Some(next) => query = format!("limit=200&next={}", super::which::encoded(next)),
            None => break,
        }
    }
    if which.json {
        print_json(&json!({ "items": items, "next": null }));
    } else {
        let rows: Vec<Vec<String>> = items.iter().map(row).collect();
        print!("{}", table(&["SLOT", "FOR", "WHERE", "BYTES", "SNAPSHOT", "LAST USED"], &rows));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whom a slot is for, in the words of the options that name it.
fn whose(slot: &Value) -> String {
    let Some(Value::Object(tuple)) = slot.get("tuple") else { return "-".to_owned() };
    let mut words = Vec::new();
    for (name, value) in tuple.iter().filter(|(name, _)| *name != "tenant") {
        match value {
            Value::String(text) => words.push(format!("{name} {text}")),
            Value::Object(owner) => {
                words.extend(owner.iter().map(|(kind, name)| format!("{kind} {}", name.as_str().unwrap_or_default())));
            }
            _ => {}
        }
    }
    words.sort();
    words.join(", ")
}

fn row(slot: &Value) -> Vec<String> {
    vec![
        cell(slot, "/key"),
        whose(slot),
        cell(slot, "/residency"),
        number(slot, "/bytes", bytes),
        cell(slot, "/head/snapshot"),
        number(slot, "/last_used_at_ms", time),
    ]
}

async fn show(operator: &Operator, which: &WhichArgs) -> Result<ExitCode, Failure> {
    let key = operator.slot(which, &names(which)?, false).await?;
    let slot = operator.get(&format!("/v1/slots/{key}")).await?;
    print(&slot, which.json);
    Ok(ExitCode::SUCCESS)
}

fn print(slot: &Value, as_json: bool) {
    if as_json {
        return print_json(slot);
    }
    let rows = [
        ("slot", cell(slot, "/key")),
        ("for", whose(slot)),
        ("where", cell(slot, "/residency")),
        ("container", cell(slot, "/container")),
        ("holder", cell(slot, "/holder/pid")),
        ("token", cell(slot, "/token")),
        ("unsaved", cell(slot, "/unsaved")),
        ("bytes", number(slot, "/bytes", bytes)),
        ("snapshot", cell(slot, "/head/snapshot")),
        ("generation", cell(slot, "/head/generation")),
        ("saved", number(slot, "/head/written_at_ms", time)),
        ("first used", number(slot, "/created_at_ms", time)),
        ("last used", number(slot, "/last_used_at_ms", time)),
    ];
    for (name, value) in rows {
        println!("{name:<11} {}", toolcell_server::wire::escaped(&value));
    }
    if let Some(error) = slot.get("head_error").and_then(Value::as_str) {
        println!("{:<11} {}", "head", toolcell_server::wire::escaped(error));
    }
}

async fn stop(operator: &Operator, which: &WhichArgs) -> Result<ExitCode, Failure> {
    let key = operator.slot(which, &names(which)?, false).await?;
    let slot = operator.post(&key, "stop", &json!({})).await?;
    print(&slot, which.json);
    Ok(ExitCode::SUCCESS)
}

async fn delete(operator: &Operator, which: &WhichArgs) -> Result<ExitCode, Failure> {
    let key = operator.slot(which, &names(which)?, false).await?;
    let path = format!("/v1/slots/{key}");
    let deleted = operator.server.send(Method::DELETE, &path, &[], Body::empty()).await?.json().await?;
    if which.json {
        print_json(&deleted);
    } else {
        println!("deleted {key}");
    }
    Ok(ExitCode::SUCCESS)
}
