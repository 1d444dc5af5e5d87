//! Prints what the three writes of a tool call cost, and a durable one beside them, on the file system of the
//! directory given (default: the system's temporary one). Measures nothing worth knowing unless built with
//! `--release`.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]
#![allow(clippy::disallowed_methods, reason = "the clock of a measurement is the machine's own")]

use serde_json::json;
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use toolcell_model::{
    AgentName, BatchId, CallContext, CallId, CallRef, CallState, FencingToken, Generation, ScopeKey, SessionId,
    TenantId, TimingMs, ToolName, UnixMillis, UserId,
};
use toolcell_state::{FinishedCall, NewBatch, NewCall, SqliteStore, StateStore, canonical_json_digest};

const CALLS: usize = 20_000;
const DURABLE: usize = 200;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = tempfile::tempdir_in(parent)?;
    let store = SqliteStore::open(directory.path())?;
    let context = CallContext {
        tenant: TenantId::default_tenant(),
        agent: AgentName::parse("coder")?,
        session: Some(SessionId::parse("conv-1")?),
        user: Some(UserId::parse("alice")?),
    };
    let (mut record, mut claim, mut finish) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..CALLS {
        let call_ref = CallRef::generate();
        let input = json!({ "command": format!("python3 -V # {number}") });
        let input_digest = canonical_json_digest(&input);
        let call = NewCall {
            id: CallId::generate(),
            call_ref: call_ref.clone(),
            tool: ToolName::parse("execute")?,
            input,
            input_digest,
        };
        let batch =
            NewBatch { batch: BatchId::generate(), context: context.clone(), calls: vec![call], now: UnixMillis(1) };
        let start = Instant::now();
        store.record_batch(batch).await?;
        record.push(start.elapsed());
        let start = Instant::now();
        store.claim_started(&call_ref, FencingToken(1), UnixMillis(2)).await?;
        claim.push(start.elapsed());
        let end = FinishedCall {
            state: CallState::Succeeded,
            output: Some(json!({ "stdout": "Python 3.11.2\n", "stderr": "", "exit_code": 0, "signal": null })),
            error: None,
            fault: None,
            decision: Some(json!({ "behavior": "allow", "stage": "read_only" })),
            slot: None,
            timing: TimingMs::default(),
            finished_at: UnixMillis(3),
        };
        let start = Instant::now();
        store.finish(&call_ref, end).await?;
        finish.push(start.elapsed());
    }
    let key = ScopeKey::ephemeral()?;
    let mut durable = Vec::new();
    for number in 0..DURABLE {
        let start = Instant::now();
        store.note_generation(&key, Generation(number as u64)).await?;
        durable.push(start.elapsed());
    }
    println!("{CALLS} calls, microseconds:      p50      p99      max");
    for (name, times) in
        [("record", record), ("claim", claim), ("finish", finish), ("note_generation (fsync)", durable)]
    {
        report(name, times);
    }
    Ok(())
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |permille: usize| times.get(times.len() * permille / 1000).or(times.last()).map_or(0.0, micros);
    println!("{name:<25} {:8.1} {:8.1} {:8.1}", at(500), at(990), at(1000));
}

fn micros(time: &Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
