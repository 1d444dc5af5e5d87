//! `toolcell doctor`: what is there and what is not, before the first call finds out.

use super::context::load;
use crate::cli::{ConfigArgs, DoctorArgs};
use crate::failure::Failure;
use serde_json::json;
use std::process::ExitCode;
use toolcell_runtime::examine;

pub(crate) async fn run(config: &ConfigArgs, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let findings = examine(&load(config)?).await;
    let healthy = findings.iter().all(|finding| finding.ok);
    if args.json {
        let checks = findings.iter().map(|finding| {
            json!({ "check": finding.check, "ok": finding.ok, "detail": finding.detail, "hint": finding.hint })
        });
        println!("{}", json!({ "ok": healthy, "checks": checks.collect::<Vec<_>>() }));
    } else {
        for finding in &findings {
            println!("{} {}: {}", if finding.ok { "ok    " } else { "BROKEN" }, finding.check, finding.detail);
            if let Some(hint) = &finding.hint {
                println!("       hint: {hint}");
            }
        }
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
