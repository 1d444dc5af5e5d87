//! How long a decision takes: `cargo bench -p toolcell-permission`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap ends the measurement")]
#![allow(dead_code, missing_docs, reason = "the tests use more of the shared module; the macros make functions")]

#[path = "../tests/corpus/call.rs"]
mod call;

use call::{Call, context, rules};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use toolcell_model::{AgentName, Identity, TenantId};
use toolcell_permission::shell::settings::Dialect;
use toolcell_permission::*;

/// Commands as agents write them.
const COMMANDS: [(&str, &str); 3] = [
    ("build in a directory", "cd /workspace && npm run build 2>&1 | tail -20"),
    ("read-only pipeline", "git status && git diff | head -5"),
    ("one command", "npm run build"),
];

/// Pieces that make up a long command.
const LONG: [(&str, &str); 3] =
    [("commands", "echo x; "), ("one heredoc", "some line of a file that is written\n"), ("nesting", "$(")];
/// As long as a script may be that is read at all, and far beyond.
const READ: usize = 60 << 10;
const MEGABYTE: usize = 1 << 20;

/// Fifty rules, of the kinds that people write.
fn fifty() -> RuleSet {
    let programs = ["npm", "cargo", "git", "docker", "make", "kubectl", "pip", "go", "yarn", "uv"];
    let of = |word: &str| programs.map(|program| format!("execute({program} {word}:*)"));
    let files = (0..20).map(|number| format!("write_file(/workspace/part{number}/**)"));
    let allow: Vec<String> = of("run").into_iter().chain(of("test")).chain(files).collect();
    rules(&allow, &[], &of("push"))
}

#[derive(Debug)]
struct WriteFile(ContainerPath);

impl ToolDescription for WriteFile {
    fn name(&self) -> &str {
        "write_file"
    }

    fn read_only(&self) -> bool {
        false
    }

    fn effect(&self) -> Effect {
        Effect::Write
    }

    fn paths(&self) -> &[ContainerPath] {
        std::slice::from_ref(&self.0)
    }

    fn input_digest(&self) -> InputDigest {
        InputDigest::of(&serde_json::Value::Null)
    }

    fn content(&self) -> Content<'_> {
        Content::Paths
    }
}

fn commands(criterion: &mut Criterion) {
    let context = context(Mode::Default, &fifty(), Dialect::Bash);
    let mut group = criterion.benchmark_group("execute, 50 rules");
    for (name, text) in COMMANDS {
        let call = Call::shell(text);
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(&call).decide_in(&context));
        });
    }
    group.finish();
}

fn files(criterion: &mut Criterion) {
    let context = Context::new(Mode::Default, fifty());
    let (tenant, agent) = (TenantId::default_tenant(), AgentName::parse("coder").unwrap());
    let identity = Identity { tenant, agent, session: None, user: None };
    let mut group = criterion.benchmark_group("write_file, 50 rules");
    for (name, path) in [("allowed", "/workspace/part19/src/main.rs"), ("asked about", "/workspace/src/main.rs")] {
        let tool = WriteFile(ContainerPath::parse(path).unwrap());
        group.bench_function(name, |bencher| {
            bencher.iter(|| decide(&DescribedCall::new(black_box(&tool), &identity, context.shell()), &context));
        });
    }
    group.finish();
}

fn long(criterion: &mut Criterion) {
    let context = context(Mode::Default, &fifty(), Dialect::Bash);
    for (size, bytes) in [("60 KiB", READ), ("1 MiB", MEGABYTE)] {
        let mut group = criterion.benchmark_group(format!("execute, {size}"));
        group.sample_size(10);
        for (name, piece) in LONG {
            let text = piece.repeat(bytes / piece.len());
            let text = if name == "one heredoc" { format!("cat > file <<'END'\n{text}END\n") } else { text };
            let call = Call::shell(&text);
            group.bench_function(name, |bencher| {
                bencher.iter(|| black_box(&call).decide_in(&context));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, commands, files, long);
criterion_main!(benches);
