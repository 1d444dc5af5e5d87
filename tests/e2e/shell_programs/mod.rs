//! Programs that really run: what ran although a rule denies it must have been denied or asked.
//!
//! The permission engine reads a script, the shell runs it. Here both get thousands of generated programs, each of
//! which may or may not run `MARK push` in the end, and are compared: the engine in BYPASS with the deny rule
//! `execute(MARK push:*)`, the shells in a sandbox.

mod generator;
mod run;

use crate::support::Cell;
use generator::{MARK, PUSH, Shell, program};
use run::Runner;
use toolcell_model::{AgentName, Identity, TenantId};
use toolcell_permission::shell::settings::{Dialect, ShellSettings};
use toolcell_permission::{
    Behavior, CommandText, ContainerPath, Content, Context, DescribedCall, Effect, InputDigest, Mode, ProgramText,
    RuleSet, RuleSource, RuleSpec, ToolDescription, decide,
};

/// Programs for each shell.
const PROGRAMS: u64 = 1500;
/// Every run has the same programs: a failure of one machine is a failure of all.
const SEED: u64 = 0x70_6f_6f_72_6d_61_72_6b;
/// Of a hundred programs at least so many must run the marker, or the generator tests nothing.
const LEAST_RAN_PERCENT: usize = 50;
/// Rounds of shortening a program that fails.
const MOST_ROUNDS: usize = 40;

#[derive(Debug)]
struct Command<'a> {
    text: &'a str,
    cwd: ContainerPath,
}

impl ToolDescription for Command<'_> {
    fn name(&self) -> &str {
        "execute"
    }

    fn read_only(&self) -> bool {
        false
    }

    fn effect(&self) -> Effect {
        Effect::Execute
    }

    fn paths(&self) -> &[ContainerPath] {
        &[]
    }

    fn input_digest(&self) -> InputDigest {
        InputDigest::of(&serde_json::Value::Null)
    }

    fn content(&self) -> Content<'_> {
        let program = ProgramText::Shell(self.text);
        Content::Command(CommandText { program, cwd: &self.cwd, env: &[], stdin: None })
    }
}

/// Says what becomes of a program.
type Oracle = dyn Fn(Shell, &str) -> Behavior;

/// What the engine says.
fn engine() -> impl Fn(Shell, &str) -> Behavior {
    let deny = RuleSpec::from(format!("execute({MARK} {PUSH}:*)").as_str());
    let rules = RuleSet::parse(RuleSource::Policy, &[], &[], &[deny]).unwrap();
    let agent = AgentName::parse("coder").unwrap();
    let identity = Identity { tenant: TenantId::default_tenant(), agent, session: None, user: None };
    move |shell, text| {
        let dialect = match shell {
            Shell::Bash => Dialect::Bash,
            Shell::Dash => Dialect::Sh,
        };
        let settings = ShellSettings { dialect, ..ShellSettings::default() };
        let command = Command { text, cwd: ContainerPath::workspace() };
        let context = Context::new(Mode::Bypass, rules.clone()).with_shell(settings.clone());
        decide(&DescribedCall::new(&command, &identity, &settings), &context).behavior
    }
}

/// What many a program would say: that a text is denied which has the words in it.
fn searching(_: Shell, text: &str) -> Behavior {
    if text.contains(&format!("{MARK} {PUSH}")) { Behavior::Deny } else { Behavior::Allow }
}

fn programs() -> Vec<(Shell, String)> {
    let of = |shell| (0..PROGRAMS).map(move |number| (shell, program(shell, SEED.wrapping_add(number * 0x1_0001))));
    of(Shell::Bash).chain(of(Shell::Dash)).collect()
}

#[test]
fn what_ran_was_denied_or_asked() {
    let Some(cell) = Cell::bypass() else { return };
    let mut runner = Runner::new(&cell);
    let programs = programs();
    let ran = runner.ran(&programs);
    let count = ran.iter().filter(|ran| **ran).count();
    assert!(count * 100 >= programs.len() * LEAST_RAN_PERCENT, "the marker ran in {count} of {}", programs.len());
    let dash = programs.iter().zip(&ran).filter(|((shell, _), ran)| *shell == Shell::Dash && **ran).count();
    assert!(dash * 200 >= programs.len() * LEAST_RAN_PERCENT, "with dash the marker ran in {dash} programs only");

    // A weak oracle is found out; if it were not, nothing here would mean anything.
    let missed = violations(&programs, &ran, &searching);
    assert!(missed.len() * 20 > count, "searching the text misses only {} of {count}", missed.len());

    let engine = engine();
    let answers: Vec<Behavior> = programs.iter().map(|(shell, text)| engine(*shell, text)).collect();
    let none = || ran.iter().zip(&answers).filter(|(ran, _)| !**ran);
    let of = |wanted| none().filter(|(_, answer)| **answer == wanted).count();
    eprintln!(
        "{count} of {} programs ran the marker; of the others {} were denied and {} asked",
        programs.len(),
        of(Behavior::Deny),
        of(Behavior::Ask)
    );
    let asked = ran.iter().zip(&answers).filter(|(ran, answer)| **ran && **answer == Behavior::Ask).count();
    eprintln!("of those that ran it {asked} were asked, the others denied");

    let violations = violations(&programs, &ran, &engine);
    let shown = violations.iter().take(5).map(|number| {
        let (shell, text) = shrunk(&mut runner, &programs[*number], &engine);
        format!("\n{shell:?}: the marker runs, the engine says {}:\n{text}\n", engine(shell, &text))
    });
    let shown: Vec<String> = shown.collect();
    assert!(violations.is_empty(), "{} of {count}:{}", violations.len(), shown.concat());
    cell.finish();
}

/// Programs that ran the marker and were allowed.
fn violations(programs: &[(Shell, String)], ran: &[bool], oracle: &Oracle) -> Vec<usize> {
    let wrong = |(number, (shell, text)): (usize, &(Shell, String))| {
        (ran[number] && oracle(*shell, text) == Behavior::Allow).then_some(number)
    };
    programs.iter().enumerate().filter_map(wrong).collect()
}

/// A shorter program that still runs the marker and is still allowed: pieces are taken out while that holds.
fn shrunk(runner: &mut Runner<'_>, (shell, text): &(Shell, String), oracle: &Oracle) -> (Shell, String) {
    let mut text = text.clone();
    for _ in 0..MOST_ROUNDS {
        let shorter: Vec<(Shell, String)> = without_pieces(&text)
            .into_iter()
            .filter(|candidate| oracle(*shell, candidate) == Behavior::Allow)
            .map(|candidate| (*shell, candidate))
            .collect();
        let ran = runner.ran(&shorter);
        let still = shorter.into_iter().zip(ran).filter(|(_, ran)| *ran).map(|((_, text), _)| text);
        let Some(shortest) = still.min_by_key(String::len) else { break };
        text = shortest;
    }
    (*shell, text)
}

/// The text without each run of lines, and without each run of a few characters.
fn without_pieces(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut shorter = Vec::new();
    for first in 0..lines.len() {
        for after in first + 1..=lines.len().min(first + 8) {
            shorter.push([&lines[..first], &lines[after..]].concat().join("\n"));
        }
        // Both ends of a structure at once.
        for last in first + 2..lines.len() {
            shorter.push([&lines[..first], &lines[first + 1..last], &lines[last + 1..]].concat().join("\n"));
        }
    }
    let chars: Vec<char> = text.chars().collect();
    if chars.len() < 200 {
        for first in 0..chars.len() {
            for length in [1, 2, 3, 4, 6, 8, 12] {
                let after = first + length;
                if after <= chars.len() {
                    shorter.push(chars[..first].iter().chain(&chars[after..]).collect());
                }
            }
        }
    }
    shorter.sort();
    shorter.dedup();
    shorter
}
