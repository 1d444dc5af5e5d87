//! `toolcell rules`

use super::context::load;
use crate::cli::{ConfigArgs, RulesArgs, RulesCommand};
use crate::failure::Failure;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;
use toolcell_runtime::{RecordedCases, chain};

pub(crate) fn run(config: &ConfigArgs, args: &RulesArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        RulesCommand::Test { file } => test(config, file),
    }
}

/// One JSON line per case; a line that is no case is an error that names the line, after the other cases.
fn test(config: &ConfigArgs, file: &Path) -> Result<ExitCode, Failure> {
    let cases = RecordedCases::new(&load(config)?)?;
    let unreadable = |error: &dyn std::error::Error| Failure::of(format!("{} cannot be read", file.display()), error);
    let reader: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        Box::new(BufReader::new(std::fs::File::open(file).map_err(|error| unreadable(&error))?))
    };
    let mut out = std::io::stdout().lock();
    let (mut number, mut failed) = (0, 0_usize);
    let mut broken = Vec::new();
    for (place, line) in reader.lines().enumerate() {
        let line = line.map_err(|error| unreadable(&error))?;
        if line.trim().is_empty() {
            continue;
        }
        number += 1;
        match cases.decide(&line, number) {
            Ok(answer) => {
                failed += usize::from(answer.ok == Some(false));
                let text = serde_json::to_string(&answer).map_err(|error| unreadable(&error))?;
                writeln!(out, "{text}").map_err(|error| Failure::of("the answers cannot be written", &error))?;
            }
            Err(error) => broken.push(format!("line {}: {}", place + 1, chain(&error))),
        }
    }
    if !broken.is_empty() {
        return Err(Failure::new(format!("{} of {number} cases cannot be decided", broken.len()), broken.join("\n  ")));
    }
    if failed > 0 {
        eprintln!("{failed} of {number} cases do not hold");
    }
    Ok(if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
