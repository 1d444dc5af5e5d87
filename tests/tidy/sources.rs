//! What every source file keeps to.

use crate::tree;

/// Beyond this a file fails, whatever it is.
const MOST_LINES: usize = 800;
/// Beyond this it needs a reason.
const LINES_WITHOUT_REASON: usize = 500;

/// Files that are longer, and why they are one file.
const LONGER: &[(&str, &str)] =
    &[("crates/toolcell-protocol/src/message.rs", "the wire's messages: one list whose order is its numbering")];

/// Crates whose whole input is hostile, and which therefore deny more than the workspace does.
const HARDENED: [&str; 4] = ["toolcell-guest", "toolcell-lease", "toolcell-permission", "toolcell-protocol"];
const HARDENED_LINTS: [&str; 4] = [
    "clippy::indexing_slicing",
    "clippy::string_slice",
    "clippy::wildcard_enum_match_arm",
    "clippy::arithmetic_side_effects",
];

fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// What is wrong with a file of this many lines.
fn too_long(path: &str, lines: usize) -> Option<String> {
    if is_test(path) || lines <= LINES_WITHOUT_REASON {
        return None;
    }
    if lines > MOST_LINES {
        return Some(format!("{path}: {lines} lines; at most {MOST_LINES}. Split it by what its parts are about"));
    }
    let reason = LONGER.iter().find(|(long, _)| *long == path);
    reason.is_none().then(|| {
        format!("{path}: {lines} lines; beyond {LINES_WITHOUT_REASON} split it, or say in LONGER why it is one file")
    })
}

#[test]
fn files_are_short() {
    let wrong: Vec<String> =
        tree::rust_files().iter().filter_map(|path| too_long(path, tree::read(path).lines().count())).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_bounds_hold_at_their_edge() {
    let (listed, _) = LONGER[0];
    assert_eq!(too_long("crates/a/src/b.rs", 500), None);
    assert!(too_long("crates/a/src/b.rs", 501).is_some());
    assert_eq!(too_long(listed, 800), None);
    assert!(too_long(listed, 801).is_some());
    assert_eq!(too_long("crates/a/tests/b.rs", 2000), None);
    assert_eq!(too_long("tests/e2e/main.rs", 2000), None);
}

#[test]
fn the_list_of_longer_files_has_no_stale_entry() {
    for (path, reason) in LONGER {
        assert!(tree::read(path).lines().count() > LINES_WITHOUT_REASON, "{path} is short: take it off LONGER");
        assert!(!reason.is_empty());
    }
}

/// The crate's documentation as one line of text.
fn crate_doc(source: &str) -> String {
    let lines = source.lines().take_while(|line| line.starts_with("//!"));
    lines.map(|line| line.trim_start_matches("//!").trim()).collect::<Vec<_>>().join(" ")
}

fn root_file(name: &str) -> String {
    let library = format!("crates/{name}/src/lib.rs");
    if tree::root().join(&library).exists() { library } else { format!("crates/{name}/src/main.rs") }
}

#[test]
fn every_crate_says_what_it_owns_what_it_never_knows_and_where_to_begin() {
    for name in tree::crates() {
        let path = root_file(&name);
        let doc = crate_doc(&tree::read(&path));
        for part in ["**Owns**", "**Never knows**", "**Read first**"] {
            assert!(doc.contains(part), "{path}: its documentation has no {part}");
        }
    }
}

#[test]
fn nothing_is_unfinished_and_no_test_is_switched_off() {
    // Put together here, so that this file does not find itself.
    let helper = ["#[ign", "ore = \"run by the other tests, in a process of its own\"]"].concat();
    let marks = [
        ["to", "do!"],
        ["unimple", "mented!"],
        ["FIX", "ME"],
        ["TO", "DO"],
        ["XX", "X"],
        ["#[ign", "ore"],
        ["dbg", "!("],
    ]
    .map(|parts| parts.concat());
    let mut wrong = Vec::new();
    for path in tree::rust_files() {
        for (number, line) in tree::read(&path).lines().enumerate() {
            // What only a longer run has time for names the script that runs it.
            if line.trim() == helper || line.trim().ends_with("scripts/soak runs it\"]") {
                continue;
            }
            for mark in marks.iter().filter(|mark| line.contains(mark.as_str())) {
                wrong.push(format!("{path}:{}: {mark}", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_package_inherits_lints_and_metadata() {
    let manifests: Vec<String> = tree::crates().iter().map(|name| format!("crates/{name}/Cargo.toml")).collect();
    for path in manifests.iter().map(String::as_str).chain(["tests/Cargo.toml"]) {
        let manifest: toml::Table = tree::read(path).parse().expect(path);
        let inherits = |value: Option<&toml::Value>| {
            value.and_then(|value| value.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
        };
        assert!(inherits(manifest.get("lints")), "{path}: [lints] workspace = true");
        let package = manifest.get("package").expect(path);
        for key in ["version", "edition", "rust-version", "license", "publish"] {
            assert!(inherits(package.get(key)), "{path}: {key}.workspace = true");
        }
        assert!(package.get("description").is_some(), "{path}: description");
        let name = package.get("name").and_then(toml::Value::as_str).unwrap();
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (dependency, value) in manifest.get(section).and_then(toml::Value::as_table).into_iter().flatten() {
                assert!(inherits(Some(value)), "{name}: {section}.{dependency} has its version in the root manifest");
            }
        }
    }
}

#[test]
fn crates_with_hostile_input_deny_what_can_panic_on_it() {
    for name in HARDENED {
        let source = tree::read(&root_file(name));
        for lint in HARDENED_LINTS {
            assert!(source.contains(lint), "{name} does not deny {lint}");
        }
    }
}

#[test]
fn unsafe_code_is_in_one_place() {
    let mark = ["allow(", "unsafe_code"].concat();
    let places: Vec<String> = tree::rust_files().into_iter().filter(|path| tree::read(path).contains(&mark)).collect();
    assert_eq!(places, ["crates/toolcell-guest/src/sys/mod.rs"]);
}

#[test]
fn lints_are_not_switched_off_without_a_reason() {
    // The compiler insists on reasons, but a whole crate must not opt out of what prints, ends or blocks.
    let shipped = tree::crates().into_iter().filter(|name| name != "toolcell-testkit" && name != "toolcell-cli");
    for name in shipped {
        let source = tree::read(&root_file(&name));
        assert!(!source.contains("#![allow("), "{name}: a lint is switched off for the whole crate");
    }
}
