//! `config/toolcell.toml` and the loader say the same.
//!
//! In that file a key with a default is set to it; one without is commented out as `#key = sample`, without a space,
//! and prose begins with `# `.

use crate::{keys, tree};
use std::collections::BTreeSet;
use toolcell_model::AgentName;
use toolcell_runtime::Config;
use toolcell_runtime::config::{AgentConfig, ENVIRONMENT_PREFIX};

const FILE: &str = "config/toolcell.toml";

/// Whether the line is a commented key or section.
fn is_sample(line: &str) -> bool {
    line.strip_prefix('#').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '['))
}

/// The file with its samples in force.
fn with_samples() -> String {
    let uncomment = |line: &str| if is_sample(line) { line[1..].to_owned() } else { line.to_owned() };
    tree::read(FILE).lines().map(|line| uncomment(line) + "\n").collect()
}

/// The key that a line sets.
fn key_of(line: &str) -> Option<&str> {
    let line = line.strip_prefix('#').filter(|_| is_sample(line)).unwrap_or(line);
    let (key, _) = line.split_once(" = ")?;
    key.chars().all(|c| c.is_ascii_alphabetic() || c == '_').then_some(key)
}

fn flatten(path: &str, value: &toml::Value, known: &BTreeSet<String>, found: &mut BTreeSet<String>) {
    match value {
        _ if known.contains(path) => {
            found.insert(path.to_owned());
        }
        toml::Value::Table(table) => {
            for (key, value) in table {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, value, known, found);
            }
        }
        toml::Value::Array(items) if items.iter().all(toml::Value::is_table) => {
            items.iter().for_each(|item| flatten(path, item, known, found));
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

#[test]
fn the_file_has_every_key_and_no_other() {
    let known = keys::all();
    let table: toml::Table = with_samples().parse().expect("the file with its samples is TOML");
    let mut found = BTreeSet::new();
    flatten("", &toml::Value::Table(table), &known, &mut found);
    let missing: Vec<&String> = known.difference(&found).collect();
    let unknown: Vec<&String> = found.difference(&known).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "{FILE} lacks {missing:?}, and has {unknown:?} too much");
}

#[test]
fn the_file_as_it_stands_is_the_defaults() {
    let config = keys::load(&tree::read(FILE)).expect("the file is valid");
    let default_agent = (AgentName::parse("default").unwrap(), AgentConfig::default());
    let expected = Config { agents: [default_agent].into(), ..Config::default() };
    assert_eq!(config, expected);
    assert_eq!(config.agents(), Config::default().agents(), "an empty file means the same");
}

#[test]
fn the_samples_are_valid_and_change_something() {
    let config = keys::load(&with_samples()).expect("the file with its samples is valid");
    let defaults = keys::load(&tree::read(FILE)).unwrap();
    let agent = |config: &Config| config.agents().into_values().next().unwrap();
    assert_ne!(config.docker.host, defaults.docker.host);
    assert_ne!(config.snapshots.id_secret, defaults.snapshots.id_secret);
    assert_ne!(agent(&config).workspace, agent(&defaults).workspace);
    assert_ne!(agent(&config).tools, agent(&defaults).tools);
    assert_ne!(agent(&config).env, agent(&defaults).env);
    assert_ne!(agent(&config).mounts, agent(&defaults).mounts);
    assert_ne!(agent(&config).approval, agent(&defaults).approval);
    assert_ne!(agent(&config).permissions, agent(&defaults).permissions);
    assert_ne!(agent(&config).custom_tools, agent(&defaults).custom_tools);
}

#[test]
fn every_key_of_the_file_is_read_and_a_misspelt_one_is_refused_by_line() {
    let text = with_samples();
    let lines: Vec<&str> = text.lines().collect();
    let mut tried = 0;
    for (place, line) in lines.iter().enumerate() {
        let Some(key) = key_of(line).filter(|_| !is_variable(&lines, place)) else { continue };
        let mut misspelt = lines.clone();
        let changed = line.replacen(key, &format!("{key}_x"), 1);
        misspelt[place] = &changed;
        let refusal = keys::load(&misspelt.join("\n")).expect_err(key);
        let at = format!("line {}", place + 1);
        assert!(refusal.contains(&at) && refusal.contains(&format!("{key}_x")), "{key}: {refusal}");
        tried += 1;
    }
    assert!(tried > 30, "only {tried} keys were found");
}

/// Names in these sections are the operator's own.
fn is_variable(lines: &[&str], place: usize) -> bool {
    let section = lines[..place].iter().rev().find(|line| line.starts_with('['));
    section.is_some_and(|section| [".env]", ".approval]", ".presets]"].iter().any(|end| section.ends_with(end)))
}

#[test]
fn a_value_of_another_type_is_refused_for_every_key() {
    let text = with_samples();
    let lines: Vec<&str> = text.lines().collect();
    for (place, line) in lines.iter().enumerate() {
        let Some(key) = key_of(line) else { continue };
        // No key takes a time of day.
        let changed = format!("{key} = 07:32:00");
        let mut wrong = lines.clone();
        wrong[place] = &changed;
        let refusal = keys::load(&wrong.join("\n")).expect_err(key);
        assert!(refusal.contains(&format!("line {}", place + 1)), "{key}: {refusal}");
    }
}

#[test]
fn every_key_says_why() {
    let text = tree::read(FILE);
    let lines: Vec<&str> = text.lines().collect();
    for (place, line) in lines.iter().enumerate() {
        let Some(key) = key_of(line) else { continue };
        let above = place.checked_sub(1).map_or("", |above| lines[above]);
        assert!(above.starts_with("# ") || line.contains(" # "), "{FILE}:{}: {key} has no word of why", place + 1);
    }
}

#[test]
fn the_override_rule_that_the_file_states_is_the_loaders() {
    let text = tree::read(FILE);
    let mut shown = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("#   ")) {
        if let Some((name, value)) = line.split_once('=').filter(|(name, _)| name.starts_with(ENVIRONMENT_PREFIX)) {
            let value = value.trim().trim_matches('\'');
            let config = keys::load_over(&text, &[(name, value)]).expect(name);
            assert_ne!(config, keys::load(&text).unwrap(), "{name} changes nothing");
            keys::load_over(&text, &[(&format!("{name}_X"), value)]).expect_err("an unknown key");
            shown.push(name);
        }
    }
    assert!(shown.len() >= 3, "the file shows how to override: {shown:?}");
}
