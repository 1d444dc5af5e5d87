//! The shared stores as a server uses them: another host comes up with what was acknowledged, encrypted or not, and a
//! store that cannot be used is said at the start.

use crate::support::{Cell, expect_state};
use serde_json::json;
use toolcell_testkit::snapshot::{BadS3, Manners, service};

const AGENT: &str = "[agents.coder.permissions]\nmode = \"bypass\"\n";
const KEY: &str = "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf";
const OTHER_KEY: &str = "c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf";

/// A name that nobody else uses on the servers of the tests.
fn place() -> String {
    toolcell_model::ScopeKey::ephemeral().unwrap().to_string()
}

/// `[snapshots]` with a place of its own in the tests' bucket.
fn bucket() -> Option<String> {
    let endpoint = service("TOOLCELL_TEST_S3_ENDPOINT")?;
    let [bucket, access_key, secret_key] =
        ["BUCKET", "ACCESS_KEY", "SECRET_KEY"].map(|what| service(&format!("TOOLCELL_TEST_S3_{what}")).unwrap());
    Some(format!(
        "[snapshots]\nstore = \"s3\"\ndurability = \"call\"\n[snapshots.s3]\nendpoint = {endpoint:?}\nbucket = {bucket:?}\n\
         prefix = \"{}/\"\npath_style = true\naccess_key = {access_key:?}\nsecret_key = {secret_key:?}\n",
        place()
    ))
}

fn encrypted(key: &str) -> String {
    format!("[snapshots.encryption]\nkey = {key:?}\n")
}

/// What was acknowledged comes back when the host dies, and another one has the configuration and the secret alone.
#[track_caller]
fn another_host_has_what_was_acknowledged(store: &str) {
    let Some(mut cell) = Cell::start(&format!("{AGENT}{store}")) else { return };
    for round in 0..2 {
        let written = cell.call("alice", "write_file", &json!({ "path": format!("notes-{round}"), "content": "kept" }));
        expect_state(&written, "succeeded");
        assert_eq!(written["slot"]["durable"], true, "{written:#}");
        cell.lose_all_but_the_store();
        for entry in std::fs::read_dir(cell.data_dir()).unwrap().flatten() {
            match entry.file_name().to_str().unwrap() {
                "id_secret" => {}
                _ if entry.file_type().unwrap().is_dir() => std::fs::remove_dir_all(entry.path()).unwrap(),
                _ => std::fs::remove_file(entry.path()).unwrap(),
            }
        }
        cell.serve();
        assert_eq!(cell.output_of("alice", &format!("cat notes-{round}")), "kept");
    }
    cell.finish();
}

/// The server does not start, and says why without giving a secret away.
#[track_caller]
fn does_not_start(cell: &mut Cell, config: &str, wanted: &[&str]) {
    cell.configure(&format!("{AGENT}{config}"));
    let said = cell.try_serve().expect_err("this store cannot be used").stderr;
    for word in wanted {
        assert!(said.contains(word), "{word}: {said}");
    }
    for secret in [KEY, OTHER_KEY, "toolcell-test-secret"] {
        assert!(!said.contains(secret), "{said}");
    }
}

#[test]
fn a_bucket_outlives_its_hosts() {
    let Some(store) = bucket() else { return };
    another_host_has_what_was_acknowledged(&store);
}

#[test]
fn an_encrypted_bucket_outlives_its_hosts() {
    let Some(store) = bucket() else { return };
    another_host_has_what_was_acknowledged(&(store + &encrypted(KEY)));
}

#[test]
fn redis_outlives_its_hosts() {
    let Some(url) = service("TOOLCELL_TEST_REDIS_URL") else { return };
    another_host_has_what_was_acknowledged(&format!(
        "[snapshots]\nstore = \"redis\"\ndurability = \"call\"\n[snapshots.redis]\nurl = {url:?}\nprefix = \"{}:\"\n{}",
        place(),
        encrypted(KEY)
    ));
}

#[test]
fn a_database_file_outlives_its_hosts() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("snapshots.db");
    another_host_has_what_was_acknowledged(&format!(
        "[snapshots]\nstore = \"sql\"\ndurability = \"call\"\n[snapshots.sql]\nurl = \"sqlite:{}\"\n",
        file.display()
    ));
}

#[test]
fn a_store_keeps_the_key_that_it_was_begun_with() {
    let Some(mut cell) = Cell::new(AGENT) else { return };
    let local = "[snapshots]\nstore = \"local\"\ndurability = \"call\"\n";
    cell.configure(&format!("{AGENT}{local}{}", encrypted(KEY)));
    cell.serve();
    cell.output_of("alice", "echo kept > notes");
    cell.stop();
    does_not_start(&mut cell, local, &["this store is encrypted", "[snapshots.encryption] key"]);
    does_not_start(&mut cell, &(local.to_owned() + &encrypted(OTHER_KEY)), &["another key", "old_keys"]);
    // Rotated: what was written with the old key is read, and what is written next is read as well.
    let file = cell.directory().join("key");
    std::fs::write(&file, format!("{OTHER_KEY}\n")).unwrap();
    let rotated = format!("{local}[snapshots.encryption]\nkey_file = {:?}\nold_keys = [{KEY:?}]\n", file.display());
    cell.configure(&format!("{AGENT}{rotated}"));
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat notes; echo more >> notes"), "kept\n");
    cell.stop();
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat notes"), "kept\nmore\n");
    cell.finish();

    let Some(mut plain) = Cell::start(&format!("{AGENT}{local}")) else { return };
    plain.stop();
    does_not_start(&mut plain, &(local.to_owned() + &encrypted(KEY)), &["is not encrypted", "remove the key"]);
    plain.configure(&format!("{AGENT}{local}"));
    plain.serve();
    plain.finish();
}

#[test]
fn a_bucket_that_cannot_be_used_is_said_at_the_start() {
    let Some(store) = bucket() else { return };
    let Some(mut cell) = Cell::new(AGENT) else { return };
    let with = |key: &str, value: &str| {
        let lines = store.lines().map(|line| match line.split_once(" = ") {
            Some((found, _)) if found == key => format!("{key} = {value:?}\n"),
            _ => format!("{line}\n"),
        });
        lines.collect::<String>()
    };
    does_not_start(&mut cell, &with("bucket", "no-such-bucket"), &["`no-such-bucket` is not there", "bucket"]);
    does_not_start(&mut cell, &with("secret_key", "wrong"), &["refuses these credentials", "secret_key"]);
    does_not_start(&mut cell, &with("endpoint", "http://127.0.0.1:1"), &["does not answer", "endpoint"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let careless = runtime.block_on(BadS3::start(Manners::IgnoresConditions));
    does_not_start(&mut cell, &with("endpoint", &careless.endpoint()), &["cannot keep two holders apart", "twice"]);
    cell.configure(&format!("{AGENT}{store}"));
    cell.serve();
    cell.finish();
}
