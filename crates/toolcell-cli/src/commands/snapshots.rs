//! `toolcell snapshots`

use super::archive;
use super::which::{Names, Operator, names, print_json};
use crate::cli::{ConfigArgs, ForkArgs, SnapshotsArgs, SnapshotsCommand, WhichArgs};
use crate::failure::Failure;
use crate::table::{bytes, cell, number, table, time};
use serde_json::{Value, json};
use std::process::ExitCode;

pub(crate) async fn run(config: &ConfigArgs, args: SnapshotsArgs) -> Result<ExitCode, Failure> {
    let which = which(&args.command);
    // Before anything is opened: a mistake needs no server.
    let names = names(which)?;
    let operator = Operator::begin(config, &which.server).await?;
    let done = match &args.command {
        SnapshotsCommand::List(which) => list(&operator, which, &names).await,
        SnapshotsCommand::Show(which) => show(&operator, which, &names).await,
        SnapshotsCommand::Take(which) => take(&operator, which, &names).await,
        SnapshotsCommand::Restore(which) => restore(&operator, which, &names).await,
        SnapshotsCommand::Fork(args) => fork(&operator, args, &names).await,
        SnapshotsCommand::Export(args) => archive::export(&operator, args, &names).await,
        SnapshotsCommand::Import(args) => archive::import(&operator, args, &names).await,
        SnapshotsCommand::Gc(which) => gc(&operator, which, &names).await,
        SnapshotsCommand::Verify(which) => verify(&operator, which, &names).await,
    };
    operator.end(done).await
}

fn which(command: &SnapshotsCommand) -> &WhichArgs {
    match command {
        SnapshotsCommand::List(which)
        | SnapshotsCommand::Show(which)
        | SnapshotsCommand::Take(which)
        | SnapshotsCommand::Restore(which)
        | SnapshotsCommand::Gc(which)
        | SnapshotsCommand::Verify(which) => which,
        SnapshotsCommand::Fork(args) => &args.which,
        SnapshotsCommand::Export(args) => &args.which,
        SnapshotsCommand::Import(args) => &args.which,
    }
}

/// All of a slot's snapshots, newest first.
async fn history(operator: &Operator, slot: &str) -> Result<Vec<Value>, Failure> {
    let mut items = Vec::new();
    let mut query = "limit=200".to_owned();
    loop {
        let mut page = operator.get(&format!("/v1/slots/{slot}/snapshots?{query}")).await?;
        if let Some(Value::Array(more)) = page.get_mut("items").map(Value::take) {
            items.extend(more);
        }
        match page.get("next").and_then(Value::as_str) {
            Some(next) => query = format!("limit=200&next={}", super::which::encoded(next)),
            None => return Ok(items),
        }
    }
}

async fn list(operator: &Operator, which: &WhichArgs, names: &Names) -> Result<ExitCode, Failure> {
    let slot = operator.slot(which, names, false).await?;
    let items = history(operator, &slot).await?;
    if which.json {
        print_json(&json!({ "items": items, "next": null }));
        return Ok(ExitCode::SUCCESS);
    }
    let row = |item: &Value| {
        vec![
            cell(item, "/snapshot"),
            number(item, "/created_at_ms", time),
            cell(item, "/files"),
            number(item, "/bytes", bytes),
            number(item, "/new_bytes", bytes),
            cell(item, "/token"),
            cell(item, "/parent"),
        ]
    };
    let rows: Vec<Vec<String>> = items.iter().map(row).collect();
    print!("{}", table(&["SNAPSHOT", "TAKEN", "FILES", "BYTES", "NEW", "TOKEN", "PARENT"], &rows));
    Ok(ExitCode::SUCCESS)
}

async fn show(operator: &Operator, which: &WhichArgs, names: &Names) -> Result<ExitCode, Failure> {
    let slot = operator.slot(which, names, false).await?;
    let items = history(operator, &slot).await?;
    let wanted = |item: &&Value| match &names.snapshot {
        Some(snapshot) => item.get("snapshot").and_then(Value::as_str) == Some(snapshot),
        None => item.get("newest") == Some(&Value::Bool(true)),
    };
    let Some(item) = items.iter().find(wanted) else {
        let why = match &names.snapshot {
            Some(snapshot) => format!("slot {slot} has no snapshot {snapshot}"),
            None => format!("nothing of slot {slot} has been saved"),
        };
        return Err(Failure::new("there is no such snapshot", why)
            .hint(format!("`toolcell snapshots list {slot}` shows what there is")));
    };
    if which.json {
        print_json(item);
        return Ok(ExitCode::SUCCESS);
    }
    let rows = [
        ("snapshot", cell(item, "/snapshot")),
        ("taken", number(item, "/created_at_ms", time)),
        ("files", cell(item, "/files")),
        ("bytes", number(item, "/bytes", bytes)),
        ("new", number(item, "/new_bytes", bytes)),
        ("parent", cell(item, "/parent")),
        ("token", cell(item, "/token")),
        ("generation", cell(item, "/generation")),
    ];
    for (name, value) in rows {
        println!("{name:<11} {value}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what was done: as it came, or in words.
fn print(which: &WhichArgs, answer: &Value, words: impl FnOnce(&Value) -> String) {
    if which.json { print_json(answer) } else { println!("{}", words(answer)) }
}

async fn take(operator: &Operator, which: &WhichArgs, names: &Names) -> Result<ExitCode, Failure> {
    let slot = operator.slot(which, names, false).await?;
    let taken = operator.post(&slot, "snapshot", &json!({})).await?;
    print(which, &taken, |taken| cell(taken, "/snapshot"));
    Ok(ExitCode::SUCCESS)
}

async fn restore(operator: &Operator, which: &WhichArgs, names: &Names) -> Result<ExitCode, Failure> {
    let Some(snapshot) = &names.snapshot else {
        return Err(Failure::new("no snapshot is named", "give its id (snap_…)")
            .hint("`toolcell snapshots list` shows what there is"));
    };
    let slot = operator.slot(which, names, false).await?;
    let restored = operator.post(&slot, "restore", &json!({ "snapshot": snapshot })).await?;
    print(which, &restored, |restored| {
        format!("{snapshot} is the newest again, as {}: the next call starts from it", cell(restored, "/snapshot"))
    });
    Ok(ExitCode::SUCCESS)
}

async fn fork(operator: &Operator, args: &ForkArgs, names: &Names) -> Result<ExitCode, Failure> {
    let slot = operator.slot(&args.which, names, false).await?;
    let ForkArgs { which, to_agent, to_user, to_session, to_scope } = args;
    let mut to = json!({ "agent": to_agent, "user": to_user, "session": to_session });
    if let (Some(scope), Some(fields)) = (to_scope, to.as_object_mut()) {
        fields.insert("scope".to_owned(), json!(scope));
    }
    let forked = operator.post(&slot, "fork", &json!({ "to": to, "snapshot": names.snapshot })).await?;
    print(which, &forked, |forked| cell(forked, "/key"));
    Ok(ExitCode::SUCCESS)
}

async fn gc(operator: &Operator, which: &WhichArgs, names: &Names) -> Result<ExitCode, Failure> {
    let slot = operator.slot(which, names, false).await?;
    let collected = operator.post(&slot, "gc", &json!({})).await?;
    print(which, &collected, |collected| {
        format!(
            "removed {} snapshots and {} packs, {}; {} snapshots are kept",
            cell(collected, "/snapshots_removed"),
            cell(collected, "/packs_removed"),
            number(collected, "/bytes_removed", bytes),
            cell(collected, "/snapshots_kept"),
        )
    });
    Ok(ExitCode::SUCCESS)
}

async fn verify(operator: &Operator, which: &WhichArgs, names: &Names) -> Result<ExitCode, Failure> {
    let slot = operator.slot(which, names, false).await?;
    let verified = operator.post(&slot, "verify", &json!({ "snapshot": names.snapshot })).await?;
    let whole = verified.get("whole") == Some(&Value::Bool(true));
    print(which, &verified, |verified| {
        let what = names.snapshot.clone().unwrap_or_else(|| format!("slot {slot}"));
        if whole {
            let (snapshots, packs) = (cell(verified, "/snapshots"), cell(verified, "/packs"));
            let size = number(verified, "/bytes", bytes);
            return format!("{what} is whole: {snapshots} snapshots, {packs} packs, {size}");
        }
        let problems = verified.get("problems").and_then(Value::as_array).into_iter().flatten();
        let lines: String = problems.map(|problem| format!("\n  {}", cell(problem, "/detail"))).collect();
        format!("{what} is damaged:{lines}")
    });
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
