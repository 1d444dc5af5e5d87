//! How large a workspace may get, what it begins with, and what it is kept the same with.

use crate::support::{Cell, code, expect_state, stdout, wait_for};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const BYPASS: &str = "[agents.coder.permissions]\nmode = \"bypass\"\n";

/// A limit that is soon reached.
fn limited(mechanism: &str, size: &str) -> String {
    format!(
        "[workspaces]\nlimit = {mechanism:?}\n[snapshots]\ndurability = \"call\"\n{BYPASS}[agents.coder.limits]\nworkspace = {size:?}\n"
    )
}

/// A cell whose workspaces are disk images. `None`: this machine does not let it mount any.
fn with_images(size: &str) -> Option<Cell> {
    let mut cell = Cell::new(&limited("image", size))?;
    let doctor: Value = serde_json::from_str(&cell.toolcell(&["doctor", "--json"]).stdout).unwrap();
    let limit = doctor["checks"].as_array().unwrap().iter().find(|check| check["check"] == "workspace_limit").unwrap();
    if limit["ok"] != true && !rustix::process::getuid().is_root() {
        // Only root can; elsewhere the watched limit is what there is.
        cell.finish();
        return None;
    }
    assert_eq!(limit["ok"], true, "{doctor:#}");
    cell.serve();
    Some(cell)
}

#[track_caller]
fn no_space(result: &Value) {
    expect_state(result, "failed");
    assert_eq!(code(result), "no_space", "{result:#}");
}

#[test]
fn a_full_disk_image_is_no_space_until_files_are_removed() {
    let Some(mut cell) = with_images("48MiB") else { return };
    assert!(cell.log().contains("loop images"), "{}", cell.log());
    cell.output_of("alice", "echo kept > file");
    let filled = cell.shell("alice", "head -c 100000000 /dev/urandom > large");
    no_space(&filled);
    assert!(filled["output"]["stderr"].as_str().unwrap().contains("No space left"), "{filled:#}");
    // The home directory is part of the same workspace, and /tmp is not.
    let more = json!({ "path": "/home/agent/more", "content": "x".repeat(1 << 20) });
    no_space(&cell.call("alice", "write_file", &more));
    expect_state(&cell.call("alice", "write_file", &json!({ "path": "/tmp/more", "content": "x" })), "succeeded");
    // A snapshot of a full workspace fits into a workspace again.
    let full = cell.output_of("alice", "sha256sum large file");
    cell.stop();
    cell.serve();
    let back = cell.shell("alice", "sha256sum large file");
    assert_eq!(stdout(&back), full);
    assert!(back["slot"]["restored_from"].is_string(), "{back:#}");
    cell.output_of("alice", "rm large");
    expect_state(&cell.call("alice", "write_file", &more), "succeeded");
    assert_eq!(cell.output_of("alice", "cat file; ls -A"), "kept\nfile\n");
    cell.finish();
}

#[test]
fn a_server_that_is_killed_finds_its_disk_images_again() {
    let Some(mut cell) = with_images("48MiB") else { return };
    let slot = cell.shell("alice", "echo kept > file")["slot"]["key"].as_str().unwrap().to_owned();
    let call = cell.start_shell("alice", "echo unsaved > new; sync; touch begun; sleep 600");
    cell.wait_for_file("begun");
    assert!(cell.data_dir().join("slots").join(&slot).join("disk.img").exists());
    cell.kill();
    cell.docker.remove(&cell.container());
    cell.serve();
    let next = cell.shell("alice", "cat file new");
    assert_eq!(stdout(&next), "kept\nunsaved\n");
    expect_state(&cell.recorded(&call), "error");
    cell.finish();
}

#[test]
fn a_disk_image_that_a_reboot_unmounted_is_mounted_again_if_it_counts() {
    let Some(mut cell) = with_images("48MiB") else { return };
    cell.output_of("alice", "echo kept > file");
    let call = cell.start_shell("alice", "echo unsaved > new; sync; touch begun; sleep 600");
    cell.wait_for_file("begun");
    cell.kill();
    cell.docker.remove(&cell.container());
    crate::support::unmount_all(&cell.data_dir().join("slots"));
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat file new"), "kept\nunsaved\n");
    expect_state(&cell.recorded(&call), "error");
    cell.finish();
}

#[test]
fn each_workspace_has_a_disk_of_its_own_and_a_changed_limit_applies_at_the_next_start() {
    let Some(mut cell) = with_images("48MiB") else { return };
    std::thread::scope(|scope| {
        for user in ["alice", "bob", "carol"] {
            let client = (*cell).clone();
            scope.spawn(move || no_space(&client.shell(user, "head -c 60000000 /dev/zero > large")));
        }
    });
    // One for a batch without an identity, too.
    let ephemeral = json!([{ "tool": "execute", "input": { "command": "head -c 60000000 /dev/zero > large" } }]);
    no_space(&cell.batch(&json!({ "agent": "coder" }), &ephemeral)[0]);
    cell.output_of("alice", "rm large; echo kept > file");
    cell.stop();
    cell.configure(&limited("image", "96MiB"));
    cell.serve();
    assert_eq!(cell.output_of("alice", "head -c 60000000 /dev/zero > large && cat file"), "kept\n");
    cell.finish();
}

#[test]
fn a_snapshot_that_does_not_fit_the_limit_is_no_space_and_names_the_key() {
    let Some(mut cell) = with_images("96MiB") else { return };
    cell.output_of("alice", "head -c 60000000 /dev/urandom > large; sha256sum < large > sum");
    cell.stop();
    cell.configure(&limited("image", "48MiB"));
    cell.serve();
    let refused = cell.shell("alice", "ls");
    expect_state(&refused, "error");
    assert_eq!(code(&refused), "no_space", "{refused:#}");
    assert!(refused["problem"]["detail"].as_str().unwrap().contains("limits.workspace"), "{refused:#}");
    cell.stop();
    cell.configure(&limited("image", "96MiB"));
    cell.serve();
    expect_state(&cell.shell("alice", "sha256sum < large | cmp - sum"), "succeeded");
    cell.finish();
}

#[test]
fn where_no_disk_can_be_mounted_a_writing_call_is_stopped() {
    let Some(cell) = Cell::start(&limited("watched", "32MiB")) else { return };
    assert!(cell.log().contains("watched"), "{}", cell.log());
    cell.output_of("alice", "echo kept > file");
    let began = Instant::now();
    let writing = "while :; do head -c 4000000 /dev/zero >> large; sleep 0.05; done";
    no_space(&cell.shell("alice", writing));
    assert!(began.elapsed() < Duration::from_secs(20), "stopped after {:?}", began.elapsed());
    no_space(&cell.call("alice", "write_file", &json!({ "path": "more", "content": "x".repeat(1 << 20) })));
    no_space(&cell.shell("alice", writing));
    // What only reads goes on, and removing is what helps.
    assert_eq!(cell.output_of("alice", "cat file"), "kept\n");
    cell.output_of("alice", "rm large");
    expect_state(&cell.call("alice", "write_file", &json!({ "path": "more", "content": "x" })), "succeeded");
    assert_eq!(cell.output_of("alice", "ls"), "file\nmore\n");
    cell.finish();
}

#[test]
fn doctor_says_what_is_there_and_what_is_broken() {
    let Some(mut cell) = Cell::new(BYPASS) else { return };
    let healthy = cell.toolcell(&["doctor", "--json"]);
    assert_eq!(healthy.code, Some(0), "{healthy:?}");
    let report: Value = serde_json::from_str(&healthy.stdout).unwrap();
    let checks: Vec<&str> =
        report["checks"].as_array().unwrap().iter().map(|check| check["check"].as_str().unwrap()).collect();
    assert_eq!(checks, ["data_dir", "guest", "engine", "workspace_limit", "snapshots"]);
    assert!(report["ok"] == true, "{report:#}");
    cell.configure(&format!("[docker]\nhost = \"unix:///nowhere/docker.sock\"\n{BYPASS}"));
    let broken = cell.toolcell(&["doctor"]);
    assert_eq!(broken.code, Some(1), "{broken:?}");
    let line = broken.stdout.lines().position(|line| line.starts_with("BROKEN engine")).unwrap();
    assert!(broken.stdout.lines().nth(line + 1).unwrap().contains("hint: "), "{broken:?}");
    cell.serve();
    cell.finish();
}

#[test]
fn an_image_is_refused_where_the_disk_has_no_room_for_it() {
    let Some(mut cell) = Cell::new(&limited("image", "4096GiB")) else { return };
    cell.serve();
    let refused = cell.shell("alice", "true");
    expect_state(&refused, "error");
    assert_eq!(code(&refused), "no_space", "{refused:#}");
    assert!(refused["problem"]["detail"].as_str().unwrap().contains("workspaces.limit"), "{refused:#}");
    cell.stop();
    cell.configure(&limited("auto", "4096GiB"));
    cell.serve();
    expect_state(&cell.shell("alice", "true"), "succeeded");
    wait_for("the log says so", Duration::from_secs(5), || {
        let log = cell.log();
        if log.contains("watched instead") || !rustix::process::getuid().is_root() { Ok(()) } else { Err(log) }
    });
    cell.finish();
}

/// A directory of the cell that the server's host has.
fn host_directory(cell: &Cell, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let directory = cell.directory().join(name);
    for (path, text) in files {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    directory
}

fn run(program: &str, arguments: &[&str], directory: &Path) -> String {
    let ended = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(ended.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap().trim().to_owned()
}

#[test]
fn what_the_image_ships_is_there_at_the_first_start_and_only_then() {
    let Some(mut cell) = Cell::new(BYPASS) else { return };
    if Command::new("docker").arg("version").output().is_err() {
        // An image can only be made with the engine's own client here.
        return cell.finish();
    }
    let shipped =
        host_directory(&cell, "shipped", &[("workspace/start", "shipped\n"), ("home/agent/.tool/rc", "set\n")]);
    std::os::unix::fs::symlink("/etc/hostname", shipped.join("workspace/link")).unwrap();
    std::fs::set_permissions(shipped.join("workspace/start"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let unique = cell.directory().file_name().unwrap().to_str().unwrap().to_lowercase();
    let image = format!("toolcell-e2e/{unique}");
    let container = run("docker", &["create", "--entrypoint", "/none", "toolcell/base"], &shipped);
    run("docker", &["cp", ".", &format!("{container}:/")], &shipped);
    run("docker", &["commit", &container, &image], &shipped);
    run("docker", &["rm", &container], &shipped);
    cell.configure(&format!("[agents.coder]\nimage = {image:?}\n{BYPASS}"));
    cell.serve();
    let first = cell.output_of(
        "alice",
        "cat start ~/.tool/rc; stat -c '%U %a' start; readlink link; rm start; echo more > ~/.more",
    );
    assert_eq!(first, "shipped\nset\nagent 755\n/etc/hostname\n");
    cell.stop();
    cell.serve();
    // What was removed stays away, and what was installed for the user stays.
    assert_eq!(cell.output_of("alice", "ls; cat ~/.more ~/.tool/rc"), "link\nmore\nset\n");
    // Another slot begins anew, from what is kept of the image.
    assert_eq!(cell.output_of("bob", "cat start"), "shipped\n");
    cell.stop();
    run("docker", &["rmi", "-f", &image], &shipped);
    cell.finish();
}

#[test]
fn files_of_the_configuration_are_written_at_the_first_start_and_only_then() {
    let Some(mut cell) = Cell::new(BYPASS) else { return };
    let local = host_directory(&cell, "local", &[("notes/a", "one\n"), ("notes/deep/b", "two\n"), ("secret", "hush")]);
    std::os::unix::fs::symlink("../secret", local.join("notes/link")).unwrap();
    let files = format!(
        "[agents.coder.files.\"README.md\"]\ntext = \"hello\\n\"\n[agents.coder.files.\"docs/notes\"]\nlocal = {:?}\n\
         [agents.coder.files.\"/home/agent/settings\"]\ntext = \"export SET=1\\n\"\n",
        local.join("notes").display().to_string()
    );
    cell.configure(&format!("{BYPASS}{files}"));
    cell.serve();
    let first = "cat README.md docs/notes/a docs/notes/deep/b ~/settings; readlink docs/notes/link; stat -c %U docs docs/notes/a";
    assert_eq!(cell.output_of("alice", first), "hello\none\ntwo\nexport SET=1\n../secret\nagent\nagent\n");
    cell.output_of("alice", "rm README.md; echo mine > docs/notes/a");
    cell.stop();
    cell.serve();
    assert_eq!(cell.output_of("alice", "ls; cat docs/notes/a"), "docs\nmine\n");
    cell.stop();
    cell.configure(&format!("{BYPASS}[agents.coder.files.x]\nlocal = \"/nowhere/at/all\"\n"));
    cell.serve();
    let refused = cell.shell("bob", "true");
    expect_state(&refused, "error");
    assert_eq!(code(&refused), "setup_failed", "{refused:#}");
    assert!(refused["problem"]["detail"].as_str().unwrap().contains("agents.coder.files.\"x\""), "{refused:#}");
    cell.stop();
    // Where they may go is checked before anything starts.
    cell.configure(&format!("{BYPASS}[agents.coder.files.\"/etc/passwd\"]\ntext = \"x\"\n"));
    let wrong = cell.toolcell(&["config", "check"]);
    assert!(wrong.code != Some(0) && wrong.stderr.contains("agents.coder.files.\"/etc/passwd\""), "{wrong:?}");
    cell.finish();
}

#[test]
fn a_git_repository_comes_without_history_hooks_and_filters() {
    let Some(mut cell) = Cell::new(BYPASS) else { return };
    let source = host_directory(
        &cell,
        "source",
        &[("file", "first\n"), ("deep/more", "more\n"), (".gitattributes", "* filter=evil\n")],
    );
    let git = |words: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"];
        run("git", &[&identity[..], words].concat(), &source)
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "first"]);
    git(&["tag", "v1"]);
    std::fs::write(source.join("file"), "second\n").unwrap();
    git(&["commit", "--quiet", "-am", "second"]);
    let commit = git(&["rev-parse", "HEAD"]);
    let path = source.display().to_string();
    let file =
        |name: &str, reference: &str| format!("[agents.coder.files.{name}]\ngit = \"file://{path}\"\n{reference}\n");
    let all = [file("head", ""), file("tag", "ref = \"v1\""), file("commit", &format!("ref = {commit:?}"))].concat();
    cell.configure(&format!("{BYPASS}{all}"));
    cell.serve();
    let shown =
        cell.output_of("alice", "cat head/file tag/file commit/file head/deep/more; ls -A head; stat -c %U head/file");
    assert_eq!(shown, "second\nfirst\nsecond\nmore\n.gitattributes\ndeep\nfile\nagent\n");
    assert_eq!(std::fs::read_dir(cell.data_dir().join("setup")).unwrap().count(), 0);
    cell.stop();
    cell.configure(&format!("{BYPASS}{}", file("x", "ref = \"no-such-branch\"")));
    cell.serve();
    let refused = cell.shell("bob", "true");
    expect_state(&refused, "error");
    assert_eq!(code(&refused), "setup_failed", "{refused:#}");
    assert!(refused["problem"]["detail"].as_str().unwrap().contains("no-such-branch"), "{refused:#}");
    cell.stop();
    cell.configure(&format!("[agents.coder]\nsetup_image = \"toolcell-test/busybox\"\n{BYPASS}{}", file("x", "")));
    cell.serve();
    let refused = cell.shell("carol", "true");
    assert!(refused["problem"]["detail"].as_str().unwrap().contains("setup_image"), "{refused:#}");
    cell.finish();
}

#[test]
fn projections_follow_the_host_and_undo_what_tools_do_to_them() {
    let Some(mut cell) = Cell::new(BYPASS) else { return };
    let skills = host_directory(&cell, "skills", &[("a/skill", "one\n"), ("b", "two\n"), ("gone", "old\n")]);
    std::os::unix::fs::symlink("/etc/shadow", skills.join("link")).unwrap();
    let single = host_directory(&cell, "single", &[("AGENTS.md", "rules\n")]).join("AGENTS.md");
    let projection = |host: &Path, path: &str| {
        format!("[[agents.coder.projections]]\nhost = {:?}\npath = {path:?}\n", host.display().to_string())
    };
    let both = [projection(&skills, "/workspace/lib/skills"), projection(&single, "/workspace/AGENTS.md")].concat();
    cell.configure(&format!("{BYPASS}{both}"));
    cell.serve();
    let list = "cd lib/skills; cat a/skill b; ls; cat ../../AGENTS.md; readlink link; stat -c %U a/skill";
    assert_eq!(cell.output_of("alice", list), "one\ntwo\na\nb\ngone\nlink\nrules\n/etc/shadow\nagent\n");
    let times = "find . -printf '%p %C@\\n' | sort";
    cell.stop();
    cell.serve();
    let before = cell.shell("alice", times);
    cell.kill();
    // The same disk or directory, taken up: what is written would have another time.
    cell.docker.remove(&cell.container());
    cell.serve();
    assert_eq!(stdout(&cell.shell("alice", times)), stdout(&before), "nothing has changed, so nothing is written");
    // Tools change, remove, add and lock; the operator changes, adds and removes.
    cell.output_of("alice", "echo evil > lib/skills/a/skill; rm lib/skills/b AGENTS.md; ln -s /etc AGENTS.md; echo own > lib/skills/own; chmod 500 lib/skills lib");
    cell.stop();
    std::fs::remove_file(skills.join("gone")).unwrap();
    std::fs::write(skills.join("new"), "three\n").unwrap();
    std::fs::write(&single, "new rules\n").unwrap();
    cell.serve();
    let list = "cd lib/skills; cat a/skill b new own; ls; cat ../../AGENTS.md";
    assert_eq!(cell.output_of("alice", list), "one\ntwo\nthree\nown\na\nb\nlink\nnew\nown\nnew rules\n");
    // A link in the way is replaced and not followed.
    cell.output_of("alice", "rm -r lib/skills; ln -s /tmp lib/skills");
    cell.stop();
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat lib/skills/a/skill; test -L lib/skills || ls /tmp"), "one\n");
    cell.finish();
}

#[test]
fn nothing_of_a_mount_is_saved_cleared_or_counted() {
    let Some(mut cell) = Cell::new(BYPASS) else { return };
    let shared = host_directory(&cell, "shared", &[("large", &"x".repeat(40 << 20))]);
    std::os::unix::fs::chown(&shared, Some(1000), Some(1000)).unwrap_or_default();
    let mount = format!(
        "[[agents.coder.mounts]]\nhost = {:?}\npath = \"/workspace/shared\"\nread_only = false\n",
        shared.display().to_string()
    );
    cell.configure(&format!("{}{mount}", limited("watched", "16MiB")));
    cell.serve();
    // Larger than the limit, and not of the workspace.
    let result = cell.shell("alice", "echo own > own; sleep 1.5; ls shared");
    assert_eq!(stdout(&result), "large\n");
    expect_state(&cell.call("alice", "write_file", &json!({ "path": "more", "content": "x" })), "succeeded");
    cell.stop();
    assert!(shared.join("large").exists());
    cell.serve();
    assert_eq!(cell.output_of("alice", "cat own more; ls shared"), "own\nxlarge\n");
    cell.finish();
}
