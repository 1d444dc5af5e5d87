//! Which crate may know which. Edges only point down: faces, then the runtime, then the rest, then the model.

use crate::tree;
use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};

/// Every crate with the crates of this workspace that it may depend on. A crate without a row fails.
const MAY_KNOW: [(&str, &[&str]); 13] = [
    ("toolcell-model", &[]),
    ("toolcell-protocol", &[]),
    ("toolcell-permission", &["toolcell-model"]),
    ("toolcell-lease", &["toolcell-model"]),
    ("toolcell-snapshot", &["toolcell-model"]),
    ("toolcell-state", &["toolcell-model"]),
    ("toolcell-tools", &["toolcell-model", "toolcell-permission"]),
    ("toolcell-guest", &["toolcell-protocol"]),
    ("toolcell-sandbox", &["toolcell-model", "toolcell-permission", "toolcell-protocol"]),
    (
        "toolcell-runtime",
        &[
            "toolcell-lease",
            "toolcell-model",
            "toolcell-permission",
            "toolcell-protocol",
            "toolcell-sandbox",
            "toolcell-snapshot",
            "toolcell-state",
            "toolcell-tools",
        ],
    ),
    ("toolcell-server", &["toolcell-model", "toolcell-runtime"]),
    ("toolcell-cli", &["toolcell-model", "toolcell-runtime", "toolcell-server"]),
    ("toolcell-testkit", &["toolcell-lease", "toolcell-model", "toolcell-snapshot", "toolcell-state"]),
];

/// Only tests know these.
const FOR_TESTS_ONLY: &str = "toolcell-testkit";
/// Tests the program as a whole, so it may know every crate; no crate may know it.
const TESTS: &str = "toolcell-tests";

/// Libraries that are their crate's secret: whoever else needs them goes through that crate. A store of snapshots in a
/// database is another thing than the state in one, and a service that tests fake is no face of ours.
const OWNERS: [(&str, &[&str]); 5] = [
    ("axum", &["toolcell-server", "toolcell-testkit"]),
    ("bollard", &["toolcell-sandbox"]),
    ("clap", &["toolcell-cli"]),
    ("fastcdc", &["toolcell-snapshot"]),
    ("rusqlite", &["toolcell-state", "toolcell-snapshot"]),
];

/// Crates that know no async.
const SYNCHRONOUS: [&str; 5] =
    ["toolcell-model", "toolcell-permission", "toolcell-protocol", "toolcell-guest", "toolcell-tools"];

/// One dependency as a manifest declares it.
#[derive(Debug, Clone)]
struct Edge {
    from: String,
    to: String,
    /// Only its tests use it.
    dev: bool,
}

fn edge(from: &str, to: &str, dev: bool) -> Edge {
    Edge { from: from.to_owned(), to: to.to_owned(), dev }
}

/// The workspace's packages with everything they depend on.
fn declared() -> BTreeMap<String, Vec<Edge>> {
    let manifest = tree::root().join("Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec().expect("cargo metadata answers");
    let edges = |package: &cargo_metadata::Package| {
        let dependency =
            |to: &cargo_metadata::Dependency| edge(&package.name, &to.name, to.kind == DependencyKind::Development);
        package.dependencies.iter().map(dependency).collect()
    };
    metadata.packages.iter().map(|package| (package.name.to_string(), edges(package))).collect()
}

/// What is wrong with a package's dependencies, in words.
fn violations(package: &str, edges: &[Edge]) -> Vec<String> {
    let row = MAY_KNOW.iter().find(|(name, _)| *name == package).map(|(_, may)| *may);
    let mut wrong = Vec::new();
    if row.is_none() && package != TESTS {
        wrong.push(format!("{package} has no row in MAY_KNOW: say there, and in ARCHITECTURE.md, what it may know"));
    }
    for Edge { from, to, dev } in edges {
        // A crate's tests may build it with a feature of their own.
        let ours = to.starts_with("toolcell-") && !(*dev && from == to);
        if to == TESTS {
            wrong.push(format!("{from} depends on {to}, which is no crate to build on"));
        } else if to == FOR_TESTS_ONLY {
            if !dev {
                wrong.push(format!("{from} depends on {to} outside of its tests: nothing that ships may"));
            }
        } else if ours && package != TESTS && !row.is_some_and(|may| may.contains(&to.as_str())) {
            let kind = if *dev { "in its tests" } else { "" };
            wrong.push(format!("{from} must not know {to} {kind}; see the code map in ARCHITECTURE.md"));
        } else if let Some((_, owners)) = OWNERS.iter().find(|(library, _)| library == to)
            && !dev
            && !owners.contains(&from.as_str())
            && package != TESTS
        {
            wrong.push(format!("{from} depends on {to}, which only {} may: go through it", owners.join(" and ")));
        } else if to.starts_with("tokio") && !dev && SYNCHRONOUS.contains(&from.as_str()) {
            wrong.push(format!("{from} depends on {to}, and knows no async"));
        }
    }
    wrong
}

#[test]
fn crates_know_only_what_they_may() {
    let declared = declared();
    let wrong: Vec<String> = declared.iter().flat_map(|(package, edges)| violations(package, edges)).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_crate_stands_under_its_own_name_and_in_the_table() {
    let folders: BTreeSet<String> = tree::crates().into_iter().collect();
    let packages: BTreeSet<String> = declared().into_keys().filter(|name| name != TESTS).collect();
    assert_eq!(folders, packages, "a folder of crates/ and its package have one name");
    let rows: BTreeSet<String> = MAY_KNOW.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(rows, packages, "MAY_KNOW has one row for each crate");
}

#[test]
fn the_table_points_down_only() {
    // A row may name only crates of earlier rows, so there can be no circle.
    for (place, (name, may)) in MAY_KNOW.iter().enumerate() {
        for other in *may {
            assert!(MAY_KNOW[..place].iter().any(|(earlier, _)| earlier == other), "{name} → {other}");
        }
    }
}

#[test]
fn planted_edges_are_noticed() {
    for (from, to, dev) in [
        ("toolcell-model", "toolcell-protocol", false),
        ("toolcell-protocol", "toolcell-model", true),
        ("toolcell-guest", "toolcell-model", false),
        ("toolcell-snapshot", "toolcell-lease", false),
        ("toolcell-lease", "toolcell-snapshot", true),
        ("toolcell-sandbox", "toolcell-runtime", false),
        ("toolcell-server", "toolcell-sandbox", false),
        ("toolcell-server", "toolcell-state", true),
        ("toolcell-runtime", "toolcell-server", false),
        ("toolcell-cli", "toolcell-snapshot", false),
        ("toolcell-runtime", "toolcell-testkit", false),
        ("toolcell-state", "toolcell-tests", true),
        ("toolcell-server", "bollard", false),
        ("toolcell-runtime", "rusqlite", false),
        ("toolcell-permission", "tokio", false),
        ("toolcell-guest", "tokio-util", false),
    ] {
        let wrong = violations(from, &[edge(from, to, dev)]);
        assert_eq!(wrong.len(), 1, "{from} → {to}: {wrong:?}");
        assert!(wrong[0].contains(from) && wrong[0].contains(to), "{}", wrong[0]);
    }
    assert_eq!(violations("toolcell-new", &[]).len(), 1, "a crate without a row");
}

#[test]
fn edges_that_are_meant_are_not_objected_to() {
    for (from, to, dev) in [
        ("toolcell-sandbox", "toolcell-permission", false),
        ("toolcell-sandbox", "bollard", false),
        ("toolcell-tools", "toolcell-permission", false),
        ("toolcell-lease", "toolcell-testkit", true),
        ("toolcell-permission", "tokio", true),
        ("toolcell-tests", "toolcell-guest", false),
        ("toolcell-tests", "bollard", false),
        ("toolcell-cli", "toolcell-server", false),
    ] {
        assert_eq!(violations(from, &[edge(from, to, dev)]), Vec::<String>::new(), "{from} → {to}");
    }
}
