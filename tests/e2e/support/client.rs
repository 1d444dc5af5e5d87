//! Calls, as an agent framework makes them.

use super::http::{Answer, Target, request, send};
use super::wait::wait_for;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// Who talks to a server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) target: Target,
}

impl Client {
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        send(&self.target, method, path, headers, body).expect("the server answers")
    }

    /// As [`Client::post`], to a server that may not live to answer.
    pub(crate) fn try_post(&self, path: &str, body: &Value) -> std::io::Result<Answer> {
        send(&self.target, "POST", path, &[], body.to_string().as_bytes())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &[], body.to_string().as_bytes())
    }

    /// Sends a request and reads no answer; dropping the connection hangs up.
    pub(crate) fn send_only(&self, path: &str, body: &Value) -> TcpStream {
        let Target::Tcp(address) = &self.target else { panic!("only over TCP") };
        let mut stream = TcpStream::connect(address).unwrap();
        let request = request("POST", path, &[], &address.to_string(), body.to_string().as_bytes());
        stream.write_all(&request).unwrap();
        stream
    }

    /// A batch of these calls.
    pub(crate) fn submit(&self, context: &Value, calls: &Value) -> Answer {
        self.post("/v1/calls", &json!({ "context": context, "calls": calls }))
    }

    /// A batch that must be taken; answers with its results.
    #[track_caller]
    pub(crate) fn batch(&self, context: &Value, calls: &Value) -> Vec<Value> {
        let answer = self.submit(context, calls);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["results"].as_array().expect("results").clone()
    }

    /// One call in this context.
    #[track_caller]
    pub(crate) fn call_in(&self, context: &Value, tool: &str, input: &Value) -> Value {
        let mut results = self.batch(context, &json!([{ "tool": tool, "input": input }]));
        assert_eq!(results.len(), 1);
        results.remove(0)
    }

    /// One call of the agent `coder` for this user.
    #[track_caller]
    pub(crate) fn call(&self, user: &str, tool: &str, input: &Value) -> Value {
        self.call_in(&json!({ "agent": "coder", "user": user }), tool, input)
    }

    /// A shell command of the agent `coder` for this user.
    #[track_caller]
    pub(crate) fn shell(&self, user: &str, command: &str) -> Value {
        self.call(user, "execute", &json!({ "command": command }))
    }

    /// What a shell command that must succeed writes.
    #[track_caller]
    pub(crate) fn output_of(&self, user: &str, command: &str) -> String {
        stdout(&self.shell(user, command))
    }

    /// A file's text, read by a call that changes nothing.
    #[track_caller]
    pub(crate) fn output_of_reading(&self, user: &str, path: &str) -> String {
        let read = self.call(user, "read_file", &json!({ "path": path }));
        expect_state(&read, "succeeded");
        read["output"]["content"].as_str().unwrap_or_else(|| panic!("{read:#}")).to_owned()
    }

    /// Starts a shell command without waiting; answers with its ref, when it runs.
    #[track_caller]
    pub(crate) fn start_shell(&self, user: &str, command: &str) -> String {
        let call = json!({ "tool": "execute", "input": { "command": command } });
        let body = json!({ "context": { "agent": "coder", "user": user }, "calls": [call], "wait": "none" });
        let answer = self.post("/v1/calls", &body);
        assert_eq!(answer.status, 202, "{}", answer.text());
        let call = answer.json()["results"][0]["ref"].as_str().unwrap().to_owned();
        self.until(&call, "running");
        call
    }

    #[track_caller]
    pub(crate) fn recorded(&self, call: &str) -> Value {
        let answer = self.get(&format!("/v1/calls/{call}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Waits until a call is in this state.
    #[track_caller]
    pub(crate) fn until(&self, call: &str, state: &str) -> Value {
        wait_for(&format!("the call is {state}"), Duration::from_secs(60), || {
            let record = self.recorded(call);
            if record["state"] == state { Ok(record) } else { Err(record.to_string()) }
        })
    }
}

/// What a command that must have succeeded wrote.
#[track_caller]
pub(crate) fn stdout(result: &Value) -> String {
    expect_state(result, "succeeded");
    result["output"]["stdout"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

#[track_caller]
pub(crate) fn expect_state(result: &Value, state: &str) {
    assert_eq!(result["state"], state, "{result:#}");
}

/// The code of what the tool, or the runtime, answered instead of an output.
pub(crate) fn code(result: &Value) -> &str {
    let code = result["error"]["code"].as_str().or_else(|| result["problem"]["code"].as_str());
    code.unwrap_or_else(|| panic!("neither error nor problem: {result:#}"))
}
