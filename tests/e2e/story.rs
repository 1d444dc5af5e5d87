//! The main job: calls whose files survive, each of which runs once.

use crate::support::{Cell, code, expect_state, stdout, wait_for};
use serde_json::{Value, json};
use std::time::Duration;

fn alice() -> Value {
    json!({ "agent": "coder", "user": "alice" })
}

fn write(path: &str, content: &str) -> Value {
    json!({ "path": path, "content": content })
}

fn execute(id: &str, command: &str) -> Value {
    json!({ "id": id, "tool": "execute", "input": { "command": command } })
}

#[track_caller]
fn names(listing: &Value) -> Vec<String> {
    expect_state(listing, "succeeded");
    let entries = listing["output"]["entries"].as_array().expect("entries");
    entries.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn files_of_one_user_survive_the_server_and_its_container_and_no_other_user_sees_them() {
    let Some(mut cell) = Cell::bypass() else { return };
    let script = "import pathlib\npath = pathlib.Path('runs')\nruns = int(path.read_text()) + 1 if path.exists() else 1\n\
                  path.write_text(str(runs))\nprint(f'run {runs}')\n";
    let written = cell.call("alice", "write_file", &write("/workspace/hello.py", script));
    expect_state(&written, "succeeded");
    assert_eq!(cell.output_of("alice", "python3 hello.py && chmod 750 hello.py"), "run 1\n");
    let root = json!({ "path": "/workspace" });
    assert_eq!(names(&cell.call("alice", "list_files", &root)), ["hello.py", "runs"]);

    let bobs = cell.call("bob", "list_files", &root);
    assert_eq!(names(&bobs), Vec::<String>::new());
    let slot = written["slot"]["key"].as_str().unwrap();
    assert_ne!(bobs["slot"]["key"], slot);
    assert_eq!(cell.containers().len(), 2);

    cell.stop();
    assert_eq!(cell.containers(), Vec::<String>::new());
    assert!(!cell.workspace(slot).exists(), "the snapshot is what survives, not a directory");

    cell.serve();
    let back = cell.shell("alice", "python3 hello.py; stat -c '%a %U' hello.py");
    assert_eq!(stdout(&back), "run 2\n750 agent\n");
    assert!(back["slot"]["restored_from"].is_string(), "{back:#}");
    assert_eq!(back["slot"]["key"], slot);
    let next = cell.call("alice", "list_files", &root);
    assert_eq!(names(&next), ["hello.py", "runs"]);
    assert_eq!(next["slot"]["restored_from"], Value::Null, "said once");
    cell.finish();
}

#[test]
fn what_is_installed_for_the_user_comes_back_and_the_rest_of_the_container_does_not() {
    let Some(mut cell) = Cell::bypass() else { return };
    cell.output_of("alice", "mkdir -p ~/.local/bin && printf '#!/bin/sh\\necho mine\\n' > ~/.local/bin/mine");
    cell.output_of("alice", "chmod +x ~/.local/bin/mine && ln ~/.local/bin/mine ~/.local/bin/twin && touch /tmp/gone");
    cell.stop();
    cell.serve();
    assert_eq!(cell.output_of("alice", "~/.local/bin/twin; ls /tmp; stat -c %h ~/.local/bin/mine"), "mine\n2\n");
    cell.finish();
}

/// Everything that a workspace may hold, in two lists that must stay the same.
const TREE: &str = r#"
set -e
mkdir -p deep/er/est empty locked "odd 'names'/ü" many
echo content > deep/er/est/file; printf '' > nothing
head -c 3000000 /dev/urandom > large; head -c 1048576 /dev/urandom > whole; head -c 1048577 /dev/urandom > cut
truncate -s 20M sparse; printf x | dd of=sparse bs=1 seek=10000000 conv=notrunc status=none
ln deep/er/est/file twin; ln -s deep/er link; ln -s /no/where dangling; ln -s .. "odd 'names'/up"
printf '#!/bin/sh\n' > script; chmod 751 script; chmod 400 whole
touch "$(printf 'not\377utf8')" "$(printf 'new\nline')" -- -dash
for i in $(seq 1 300); do echo $i > many/$i; done
setfattr -n user.kind -v test nothing 2>/dev/null || python3 -c 'import os; os.setxattr("nothing", "user.kind", b"test")' || true
mkfifo pipe
echo hidden > locked/inside; chmod 000 locked/inside; chmod 500 locked
find . -exec touch -h -d '2001-02-03 04:05:06.123456789' {} +
"#;
const LOOK: &str = r#"{
find . ! -name pipe ! -path . -printf '%P %y %m %n %u:%g %l %T@ ' -a \( -type f -printf '%s ' -o -true \) -printf '\n' | LC_ALL=C sort
chmod 400 locked/inside
find . -type f -exec sha256sum {} + | LC_ALL=C sort
chmod 000 locked/inside
du -k sparse | awk '{ print ($1 < 1000) ? "sparse" : "filled" }'
stat -c %i twin deep/er/est/file | uniq | wc -l
python3 -c 'import os; print(os.listxattr("nothing"))'
} | cat -v"#;

#[test]
fn a_workspace_comes_back_as_it_was() {
    let Some(mut cell) = Cell::bypass() else { return };
    cell.output_of("alice", TREE);
    let before = cell.output_of("alice", LOOK);
    assert!(before.lines().count() > 600 && before.contains("sparse\n1\n"), "{} lines", before.lines().count());
    cell.stop();
    cell.serve();
    let after = cell.output_of("alice", LOOK);
    let different: Vec<(&str, &str)> = before.lines().zip(after.lines()).filter(|(one, other)| one != other).collect();
    assert!(different.is_empty() && before.len() == after.len(), "{different:#?}");
    // What is no file is not saved.
    assert_eq!(cell.output_of("alice", "ls pipe 2>/dev/null || true"), "");
    cell.finish();
}

#[test]
fn many_users_at_once_all_get_their_workspace() {
    let Some(cell) = Cell::bypass() else { return };
    let results: Vec<Value> = std::thread::scope(|scope| {
        let run = |number: u32| {
            let cell = &cell;
            scope.spawn(move || cell.shell(&format!("user{number}"), &format!("echo {number} | tee file; ls | wc -l")))
        };
        (0..12).map(run).collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (number, result) in results.iter().enumerate() {
        assert_eq!(stdout(result), format!("{number}\n1\n"));
    }
    assert_eq!(cell.containers().len(), 12);
    cell.finish();
}

#[test]
fn deleted_files_stay_deleted() {
    let Some(mut cell) = Cell::bypass() else { return };
    cell.output_of("alice", "mkdir d && touch d/one d/two keep");
    cell.stop();
    cell.serve();
    cell.output_of("alice", "rm -r d/one");
    cell.stop();
    cell.serve();
    assert_eq!(cell.output_of("alice", "find . -type f | sort"), "./d/two\n./keep\n");
    cell.finish();
}

#[test]
fn a_call_id_runs_once_also_after_a_restart() {
    let Some(mut cell) = Cell::bypass() else { return };
    let count = json!([execute("c1", "echo x >> count; wc -l < count")]);
    let first = cell.batch(&alice(), &count).remove(0);
    assert_eq!(stdout(&first), "1\n");
    let again = cell.batch(&alice(), &count).remove(0);
    assert_eq!((&again["ref"], &again["output"]), (&first["ref"], &first["output"]));
    // Another user's call of the same id is another call.
    let bobs = cell.batch(&json!({ "agent": "coder", "user": "bob" }), &count).remove(0);
    assert_ne!(bobs["ref"], first["ref"]);
    // The same input written in another way is the same input.
    let spelled =
        br#"{"calls":[{"input":{"command":"echo x >> count; wc -l < \u0063ount"},"tool":"execute","id":"c1"}],
        "context":{"user":"alice","agent":"coder"}}"#;
    let spelled = cell.request("POST", "/v1/calls", &[], spelled).json();
    assert_eq!(spelled["results"][0]["ref"], first["ref"]);

    cell.stop();
    cell.serve();
    let after = cell.batch(&alice(), &count).remove(0);
    assert_eq!((&after["ref"], &after["output"]), (&first["ref"], &first["output"]));
    assert_eq!(cell.containers(), Vec::<String>::new(), "a recorded result needs no container");
    assert_eq!(cell.output_of("alice", "wc -l < count"), "1\n");
    cell.finish();
}

#[test]
fn a_call_id_with_another_input_is_a_conflict_and_nothing_is_recorded() {
    let Some(cell) = Cell::bypass() else { return };
    assert_eq!(stdout(&cell.batch(&alice(), &json!([execute("c1", "echo one")]))[0]), "one\n");
    let other_tool = json!({ "id": "c1", "tool": "list_files", "input": { "path": "." } });
    for calls in [
        json!([execute("c1", "echo two")]),
        json!([execute("fresh", "touch ran"), execute("c1", "echo two")]),
        json!([other_tool]),
        json!([execute("fresh", "touch ran"), execute("fresh", "touch ran")]),
    ] {
        let (code, detail) = cell.submit(&alice(), &calls).problem(409);
        assert_eq!(code, "call_id_conflict");
        assert!(detail.contains("c1") || detail.contains("fresh"), "{detail}");
    }
    let recorded = cell.get("/v1/calls").json();
    assert_eq!(recorded["items"].as_array().unwrap().len(), 1, "{recorded:#}");
    assert_eq!(cell.output_of("alice", "ls"), "");
    cell.finish();
}

#[test]
fn the_same_call_twice_at_once_runs_once_and_both_get_its_result() {
    let Some(cell) = Cell::bypass() else { return };
    let calls = json!([execute("c1", "echo x >> count; sleep 0.5; wc -l < count")]);
    let results: Vec<Value> = std::thread::scope(|scope| {
        let send = || cell.batch(&alice(), &calls).remove(0);
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for result in &results {
        assert_eq!(stdout(result), "1\n");
        assert_eq!(result["ref"], results[0]["ref"]);
    }
    assert_eq!(cell.output_of("alice", "wc -l < count"), "1\n");
    cell.finish();
}

#[test]
fn results_come_in_the_order_of_the_calls_and_changes_happen_in_it() {
    let Some(cell) = Cell::bypass() else { return };
    let read = |id: &str| json!({ "id": id, "tool": "read_file", "input": { "path": "log" } });
    let calls = json!([
        execute("a", "sleep 0.3; echo a >> log"),
        execute("b", "echo b >> log"),
        read("r1"),
        read("r2"),
        { "id": "no", "tool": "read_file", "input": { "path": "missing" } },
        execute("c", "echo c >> log"),
        read("r3"),
    ]);
    let results = cell.batch(&alice(), &calls);
    let ids: Vec<&str> = results.iter().map(|result| result["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "b", "r1", "r2", "no", "c", "r3"]);
    let content = |place: usize| results[place]["output"]["content"].as_str().unwrap_or_else(|| panic!("{results:#?}"));
    assert_eq!((content(2), content(3), content(6)), ("a\nb\n", "a\nb\n", "a\nb\nc\n"));
    expect_state(&results[4], "failed");
    assert_eq!(code(&results[4]), "not_found");
    cell.finish();
}

#[test]
fn a_batch_that_nobody_waits_for_is_followed_by_its_refs() {
    let Some(cell) = Cell::bypass() else { return };
    let calls = json!([execute("slow", "sleep 0.5; echo done"), execute("next", "echo next")]);
    let answer = cell.post("/v1/calls", &json!({ "context": alice(), "calls": calls, "wait": "none" }));
    assert_eq!(answer.status, 202);
    let batch = answer.json();
    for result in batch["results"].as_array().unwrap() {
        assert!(["queued", "running"].contains(&result["state"].as_str().unwrap()), "{result}");
    }
    let call = |place: usize| batch["results"][place]["ref"].as_str().unwrap();
    let slow = cell.until(call(0), "succeeded");
    assert_eq!(stdout(&slow), "done\n");
    assert_eq!(slow["batch"], batch["batch"]);
    assert_eq!((&slow["context"]["agent"], &slow["context"]["user"]), (&json!("coder"), &json!("alice")));
    assert!(slow["created_at_ms"].is_u64() && slow["started_at_ms"].is_u64() && slow["finished_at_ms"].is_u64());
    cell.until(call(1), "succeeded");
    let whole = cell.get(&format!("/v1/batches/{}", batch["batch"].as_str().unwrap())).json();
    assert_eq!((&whole["batch"], &whole["all_denied"]), (&batch["batch"], &json!(false)));
    assert_eq!(whole["results"][0]["output"], slow["output"]);
    assert_eq!(whole["results"][1]["output"]["stdout"], "next\n");
    for missing in
        ["/v1/batches/b_00000000000000000000000000000000", "/v1/batches/x", "/v1/calls/call_0", "/v1/calls/x"]
    {
        assert_eq!(cell.get(missing).problem(404).0, "not_found", "{missing}");
    }
    cell.finish();
}

#[test]
fn a_request_that_waits_too_long_gets_the_state_and_the_call_goes_on() {
    let config = "[limits]\nwait_ms = 300\n[agents.coder.permissions]\nmode = \"bypass\"\n";
    let Some(cell) = Cell::start(config) else { return };
    let result = cell.shell("alice", "sleep 1.5; echo done");
    assert!(["queued", "running"].contains(&result["state"].as_str().unwrap()), "{result:#}");
    assert_eq!(stdout(&cell.until(result["ref"].as_str().unwrap(), "succeeded")), "done\n");
    cell.finish();
}

#[test]
fn a_client_that_goes_away_changes_nothing() {
    let Some(cell) = Cell::bypass() else { return };
    let body = json!({ "context": alice(), "calls": [execute("c1", "sleep 0.5; echo done | tee file")] });
    let connection = cell.send_only("/v1/calls", &body);
    let call = wait_for("the call is recorded", Duration::from_secs(10), || {
        let listed = cell.get("/v1/calls?id=c1").json();
        listed["items"][0]["ref"].as_str().map(str::to_owned).ok_or_else(|| listed.to_string())
    });
    drop(connection);
    assert_eq!(stdout(&cell.until(&call, "succeeded")), "done\n");
    assert_eq!(cell.output_of("alice", "cat file"), "done\n");
    cell.finish();
}

#[test]
fn a_call_is_not_recorded_or_it_runs_whenever_its_client_goes_away() {
    let Some(cell) = Cell::bypass() else { return };
    cell.output_of("alice", "true");
    for number in 0..60_u32 {
        let body = json!({ "context": alice(), "calls": [execute(&format!("c{number}"), "true")] });
        let connection = cell.send_only("/v1/calls", &body);
        // From before the request is read to after it is recorded.
        std::thread::sleep(Duration::from_micros(u64::from(number) * 50));
        drop(connection);
    }
    wait_for("every recorded call ends", Duration::from_secs(30), || {
        let listed = cell.get("/v1/calls?limit=100").json();
        let open = |item: &&Value| item["state"] != "succeeded";
        match listed["items"].as_array().unwrap().iter().find(open) {
            None => Ok(()),
            Some(item) => Err(item.to_string()),
        }
    });
    cell.finish();
}

#[test]
fn listings_filter_and_page() {
    let config = "[agents.coder.permissions]\nmode = \"bypass\"\n[agents.other.permissions]\nmode = \"explore\"\n";
    let Some(cell) = Cell::start(config) else { return };
    for number in 0..5 {
        let context = json!({ "agent": "coder", "user": "alice", "session": "s" });
        cell.batch(&context, &json!([execute(&format!("c{number}"), "true")]));
    }
    cell.batch(&json!({ "agent": "coder", "user": "bob" }), &json!([execute("c0", "false")]));
    cell.batch(&json!({ "agent": "other", "user": "alice" }), &json!([execute("c9", "touch x")]));

    let ids = |query: &str| -> Vec<String> {
        let page = cell.get(&format!("/v1/calls{query}")).json();
        assert_eq!(page["next"], Value::Null, "{page:#}");
        page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(""), ["c9", "c0", "c4", "c3", "c2", "c1", "c0"], "the newest first");
    assert_eq!(ids("?user=bob"), ["c0"]);
    assert_eq!(ids("?agent=other"), ["c9"]);
    assert_eq!(ids("?session=s&id=c3"), ["c3"]);
    assert_eq!(ids("?state=failed"), ["c0"]);
    assert_eq!(ids("?state=denied"), ["c9"]);
    assert_eq!(ids("?user=nobody"), Vec::<String>::new());

    let mut paged = Vec::new();
    let mut query = "?agent=coder&user=alice&limit=2".to_owned();
    loop {
        let page = cell.get(&format!("/v1/calls{query}")).json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2, "{page:#}");
        paged.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?agent=coder&user=alice&limit=2&next={next}");
    }
    assert_eq!(paged, ["c4", "c3", "c2", "c1", "c0"]);

    for (query, names) in [
        ("?limit=0", "limit"),
        ("?limit=501", "limit"),
        ("?limit=x", "limit"),
        ("?stat=failed", "stat"),
        ("?state=odd", "state"),
        ("?next=%21", "next"),
    ] {
        let (code, detail) = cell.get(&format!("/v1/calls{query}")).problem(400);
        assert_eq!(code, "invalid_request");
        assert!(detail.contains(names), "{query}: {detail}");
    }
    cell.finish();
}
