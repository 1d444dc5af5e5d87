//! How much a snapshot and a restore cost: in files read, bytes written, time beside what the system's own tools take,
//! and memory. Times are ratios measured in one run; what takes long is ignored, and `scripts/soak` runs it.

use crate::support::{Cell, Told, expect_state, figure, middle, timed, wait_for};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use toolcell_testkit::snapshot::{many_files, noise};

const CALL: &str = "[snapshots]\ndurability = \"call\"\n[agents.coder]\nidle_timeout_ms = 3600000\n\
                    [agents.coder.permissions]\nmode = \"bypass\"\n";
const MIB: u64 = 1024 * 1024;
const ROUNDS: usize = 9;

/// A slot whose every changing call is saved before it is answered.
struct Resident {
    cell: Cell,
    workspace: PathBuf,
}

impl Resident {
    fn start() -> Option<Self> {
        let mut cell = Cell::new(CALL)?;
        cell.serve_telling();
        let result = cell.shell("alice", "true");
        expect_state(&result, "succeeded");
        let workspace = cell.workspace(result["slot"]["key"].as_str().unwrap());
        Some(Self { cell, workspace })
    }

    /// Runs a command and answers with what its snapshot did.
    #[track_caller]
    fn saved_by(&self, command: &str) -> Told {
        let saves = || self.cell.log().matches("DEBUG saved slot=").count();
        let before = saves();
        let result = self.cell.shell("alice", command);
        expect_state(&result, "succeeded");
        assert_eq!(result["slot"]["durable"], true, "{result:#}");
        // The answer may be here before the line is.
        wait_for("the save is told", Duration::from_secs(10), || {
            if saves() > before { Ok(()) } else { Err("no line".to_owned()) }
        });
        Told::last(&self.cell.log(), "DEBUG saved slot=")
    }

    /// Loses everything but the store, and answers with what the restore did.
    #[track_caller]
    fn restored(&mut self) -> Told {
        self.cell.lose_all_but_the_store();
        self.cell.serve_telling();
        expect_state(&self.cell.shell("alice", "true"), "succeeded");
        Told::last(&self.cell.log(), " restored ")
    }
}

/// Looks at every entry as `find -printf` does: names and `stat`, no content.
fn plain_walk(directory: &Path) -> u64 {
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let stat = entry.metadata().unwrap();
        seen += 1 + stat.size().min(1) + u64::from(stat.mtime_nsec() == i64::MAX);
        if stat.is_dir() {
            seen += plain_walk(&entry.path());
        }
    }
    seen
}

/// What a snapshot of one small change has to make durable: a pack, a manifest and a head, one after the other.
fn plain_publishes(directory: &Path) {
    for (name, bytes) in [("pack", 64 * 1024), ("manifest", 4096), ("head", 512)] {
        let (new, named) = (directory.join(format!(".{name}")), directory.join(name));
        let file = std::fs::File::create(&new).unwrap();
        file.write_all_at(&vec![7; bytes], 0).unwrap();
        file.sync_all().unwrap();
        std::fs::rename(&new, &named).unwrap();
        std::fs::File::open(directory).unwrap().sync_all().unwrap();
    }
}

fn shell(script: &str) {
    let status = Command::new("bash").args(["-o", "pipefail", "-c", script]).status().unwrap();
    assert!(status.success(), "{script}");
}

/// One file in many is changed, again and again.
fn one_changed_file(files: usize, walks: bool) {
    let Some(resident) = Resident::start() else { return };
    many_files(&resident.workspace, files, 4096);
    let first = resident.saved_by("true");
    assert_eq!(first.number("files"), files as u64);
    let (mut snapshots, mut plain) = (Vec::new(), Vec::new());
    let publishes = resident.cell.directory().join("publishes");
    std::fs::create_dir(&publishes).unwrap();
    for round in 0..ROUNDS {
        let (walk, _) = timed(|| plain_walk(&resident.workspace));
        let (publish, ()) = timed(|| plain_publishes(&publishes));
        std::fs::write(resident.workspace.join("dir-000/file-00007"), format!("{round}\n")).unwrap();
        let saved = resident.saved_by("true");
        assert_eq!(saved.number("changed"), 1, "a file that nobody changed was read: {saved:?}");
        let share = saved.number("new_bytes") as f64 / (files * 4096) as f64;
        assert!(share < 0.01, "one of {files} files writes {:.2} % of them: {saved:?}", share * 100.0);
        snapshots.push(saved.number("duration_us") as f64 / 1000.0);
        plain.push(walk + publish);
        if round + 1 == ROUNDS {
            figure(&format!("1 of {files} files: new bytes, share of all"), share, 0.01);
        }
    }
    if walks {
        eprintln!("snapshots {snapshots:.1?} ms; plain walk and publishes {plain:.1?} ms");
        let ratio = middle(&mut snapshots) / middle(&mut plain);
        figure(&format!("1 of {files} files: snapshot / (stat walk + fsynced publishes)"), ratio, 1.5);
    }
    resident.cell.finish();
}

#[test]
fn one_changed_file_reads_no_other_and_writes_little() {
    one_changed_file(1000, false);
}

#[test]
#[ignore = "measures: scripts/soak runs it"]
fn soak_one_changed_file_of_10_000() {
    one_changed_file(10_000, true);
}

#[test]
#[ignore = "measures, and makes 100 000 files: scripts/soak runs it"]
fn soak_one_changed_file_of_100_000() {
    one_changed_file(100_000, true);
}

#[test]
#[ignore = "measures: scripts/soak runs it"]
fn soak_first_snapshot_and_restore_beside_tar() {
    let Some(mut resident) = Resident::start() else { return };
    let plain = resident.cell.directory().join("plain");
    std::fs::create_dir(&plain).unwrap();
    let archive = plain.join("archive");
    let (mut saved, mut tarred) = (Vec::new(), Vec::new());
    for round in 0..5 {
        // Other content each time: what is known already would not be stored again.
        let below = resident.workspace.join(format!("round-{round}"));
        std::fs::create_dir(&below).unwrap();
        for at in 0..10_000_usize {
            let directory = below.join(format!("dir-{}", at / 100));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join(format!("file-{at}")), noise((round * 10_000 + at) as u64, 4096)).unwrap();
        }
        let script = format!(
            "tar -C {0} -c round-{round} | zstd -q -1 -f -o {1}",
            resident.workspace.display(),
            archive.display()
        );
        tarred.push(timed(|| shell(&script)).0);
        let told = resident.saved_by("true");
        assert_eq!(told.number("changed"), 10_000);
        saved.push(told.number("duration_us") as f64 / 1000.0);
        std::fs::remove_dir_all(below).unwrap();
        resident.saved_by("true");
    }
    eprintln!("first snapshots {saved:.0?} ms; tar | zstd {tarred:.0?} ms");
    figure("first snapshot of 10 000 files, 40 MiB / (tar | zstd -1)", middle(&mut saved) / middle(&mut tarred), 2.0);

    many_files(&resident.workspace, 10_000, 4096);
    resident.saved_by("true");
    shell(&format!("tar -C {} -c . -f {}", resident.workspace.display(), archive.display()));
    let (mut restored, mut extracted) = (Vec::new(), Vec::new());
    for round in 0..5 {
        let told = resident.restored();
        assert_eq!(told.number("files"), 10_000);
        restored.push(told.number("duration_us") as f64 / 1000.0);
        let into = plain.join(format!("into-{round}"));
        std::fs::create_dir(&into).unwrap();
        extracted.push(timed(|| shell(&format!("tar -C {} -xf {}", into.display(), archive.display()))).0);
    }
    eprintln!("restores {restored:.0?} ms; tar x {extracted:.0?} ms");
    figure("restore of 10 000 files, 40 MiB / tar x", middle(&mut restored) / middle(&mut extracted), 1.5);
    resident.cell.finish();
}

/// One page of a large file is changed.
fn one_changed_page(bytes: u64) {
    let Some(resident) = Resident::start() else { return };
    let path = resident.workspace.join("large");
    let file = std::fs::File::create(&path).unwrap();
    for at in 0..bytes / MIB {
        file.write_all_at(&noise(at, MIB as usize), at * MIB).unwrap();
    }
    assert!(resident.saved_by("true").number("new_bytes") > bytes);
    file.write_all_at(&noise(9, 4096), bytes / 2).unwrap();
    let saved = resident.saved_by("true");
    assert_eq!(saved.number("changed"), 1);
    let name = format!("1 page of a {} MiB file: new MiB", bytes / MIB);
    figure(&name, saved.number("new_bytes") as f64 / MIB as f64, 8.0);
    // An open file keeps the workspace's disk.
    drop(file);
    resident.cell.finish();
}

#[test]
fn one_changed_page_of_a_large_file_writes_little() {
    one_changed_page(32 * MIB);
}

#[test]
#[ignore = "writes 2 GiB: scripts/soak runs it"]
fn soak_one_changed_page_of_a_gibibyte() {
    one_changed_page(1024 * MIB);
}

/// The most memory that a process has had since it was last forgotten, in KiB.
fn peak(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn forget_peak(pid: u32) -> u64 {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
    peak(pid, "VmRSS:")
}

/// Snapshot and restore of a workspace of many small files and a few large ones, each by a server that has just begun.
fn memory(small: usize, small_bytes: usize, large: u64, large_mib: u64, most_mib: f64) {
    let Some(mut resident) = Resident::start() else { return };
    many_files(&resident.workspace, small, small_bytes);
    for number in 0..large {
        let file = std::fs::File::create(resident.workspace.join(format!("large-{number}"))).unwrap();
        for at in 0..large_mib {
            file.write_all_at(&noise((number << 32) + at, MIB as usize), at * MIB).unwrap();
        }
    }
    let total = small as u64 * small_bytes as u64 / MIB + large * large_mib;
    let idle = forget_peak(resident.cell.pid());
    let told = resident.saved_by("true");
    assert_eq!(told.number("files"), small as u64 + large);
    let snapshot = peak(resident.cell.pid(), "VmHWM:").saturating_sub(idle);
    resident.cell.lose_all_but_the_store();
    resident.cell.serve_telling();
    // Of another slot, so that what a first call takes is not counted.
    expect_state(&resident.cell.shell("bob", "true"), "succeeded");
    let idle = forget_peak(resident.cell.pid());
    expect_state(&resident.cell.shell("alice", "true"), "succeeded");
    let told = Told::last(&resident.cell.log(), " restored ");
    assert_eq!(told.number("files"), small as u64 + large);
    let restore = peak(resident.cell.pid(), "VmHWM:").saturating_sub(idle);
    let mib = |kib: u64| kib as f64 / 1024.0;
    figure(&format!("memory over idle, snapshot of {total} MiB, MiB"), mib(snapshot), most_mib);
    figure(&format!("memory over idle, restore of {total} MiB, MiB"), mib(restore), most_mib);
    resident.cell.finish();
}

#[test]
fn memory_does_not_grow_with_the_workspace() {
    memory(3000, 16 * 1024, 2, 160, 200.0);
}

#[test]
#[ignore = "writes 10 GiB: scripts/soak runs it"]
fn soak_memory_of_5_gibibytes() {
    memory(100_000, 20 * 1024, 3, 1024, 256.0);
}
